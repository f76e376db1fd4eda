//! Data requests for objects that are no open file's: those that a rank has given to the owner of a decoupled subtree. One request and
//! its answer: nothing is cached, held back or written again. Not for files, of which this machine may hold back what was written.
//!
//! After a restart of the rank, or in another session, the right is gone, and the answer is `Stale`. So what was written with no sync after it is known
//! to be lost, maybe: whoever writes begins anew from the last sync on.

use std::collections::BTreeSet;

use loligo_types::{Answer, DataAnswer};

use crate::CallResult;
use crate::call::Done;
use crate::calls::Calls;
use crate::ranks::Ranks;
use crate::session::DataThen;
use crate::task::{Event, Step, data_error};

impl Calls {
    /// Calls have failed because the rank is not there: of these nothing shall be done when it is back, beside what is asked then.
    pub(crate) fn forget_raw(&mut self, ranks: &mut Ranks) {
        let tasks: BTreeSet<u64> =
            self.tasks.iter().filter(|(_, task)| matches!(task.step, Step::Raw)).map(|(id, _)| *id).collect();
        if tasks.is_empty() {
            return;
        }
        self.tasks.retain(|id, _| !tasks.contains(id));
        for session in ranks.sessions.values_mut() {
            session.data.retain(|_, asked| !matches!(asked.then, DataThen::Task(task) if tasks.contains(&task)));
        }
    }
}

/// It was answered.
pub(crate) fn step_raw(event: Event) -> Option<CallResult> {
    let Event::Data(result) = event else { return None };
    let answer = |answer| match answer {
        DataAnswer::Bytes(bytes) => Answer::Bytes(bytes),
        DataAnswer::Offset(offset) => Answer::Offset(offset.unwrap_or(u64::MAX)),
        DataAnswer::Done => Answer::Done,
    };
    Some(result.map(|told| Done::plain(answer(told))).map_err(|error| data_error(error).into()))
}
