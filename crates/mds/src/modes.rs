//! Journal modes of files: the mode that a policy says for a file, where it counts, and the rules that a request with data must obey. Policies
//! are found as those of relaxed directories (`relaxed.rs`). Not here: the data itself (`data.rs`), and the way that a client takes.
//!
//! A mode counts for files that this rank has together with all directories between them and the one with the policy. Elsewhere, and
//! before all policies are known after a start, a file has the mode of a server without policies.

use loligo_subtree_policy::SubtreePolicy;
use loligo_types::{Answer, Event, FsError, FsResult, Ino, JournalMode, Journaling, Op, Patches};

use crate::cluster::Cluster;
use crate::core::Core;
use crate::job::{Job, Lag};
use crate::relaxed::Relaxed;

/// Statements of a policy that count at each request below its directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Says {
    pub(crate) lag: Option<Lag>,
    pub(crate) journaling: Option<Journaling>,
}

impl Says {
    /// That of a document.
    pub(crate) fn of(dir: Ino, text: &[u8]) -> Says {
        let Ok(policy) = SubtreePolicy::parse_bytes(text) else { return Says::default() };
        let lag = policy.lag().map(|lag| Lag { root: dir, ms: lag.millis() });
        Says { lag, journaling: policy.journaling() }
    }
}

impl Relaxed {
    /// The mode of a file. In a relaxed directory no data goes into the journal: answers do not wait for it.
    pub(crate) fn journaling(&mut self, core: &mut Core, cluster: &mut Cluster, ino: Ino) -> Journaling {
        let says = if self.says_modes() { self.says_at(core, cluster, ino) } else { None }.unwrap_or_default();
        let journaling = core.config.journaling_of(says.journaling);
        match says.lag {
            Some(_) if journaling.mode.takes_data() => Journaling::of(JournalMode::Writeback),
            _ => journaling,
        }
    }

    /// The mode that goes to a client with an answer: with each that opens a file or was about its data, if it may be another than clients
    /// begin with.
    pub(crate) fn journaling_told(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        job: &Job,
        result: &FsResult<Answer>,
    ) -> Option<Journaling> {
        if !self.says_modes() && core.config.journal_mode == JournalMode::Selective {
            return None;
        }
        let ino = match (&job.op, result.as_ref().ok().and_then(Answer::opened)) {
            (_, Some(attr)) => attr.ino,
            (Op::SetData { ino, .. } | Op::WriteInline { ino, .. }, _) => *ino,
            _ => return None,
        };
        Some(self.journaling(core, cluster, ino))
    }
}

/// Fails if the mode of a file keeps data of that length out of the journal.
pub(crate) fn refuse_by_mode(journaling: Journaling, patches: &Patches) -> Result<(), FsError> {
    // Whether somebody waits for it, only the client knows.
    journaling.takes(true, patches.len() as u64).then_some(()).ok_or(FsError::NotSupported)
}

/// The bytes that fill the blocks of data in mode `data`.
pub(crate) fn pad(journaling: Journaling, patches: Option<&Patches>) -> Option<Event> {
    let len = patches.filter(|_| journaling.mode == JournalMode::Data)?.padding();
    (len > 0).then_some(Event::Pad { len })
}
