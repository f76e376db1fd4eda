//! The process was stopped for a while (by a signal, a debugger, with its machine): nobody else was silent for that. Without this
//! the first tick after it would end all sessions, though what clients have said meanwhile waits to be read.

use crate::background::Background;
use crate::core::Core;
use crate::grace::Grace;
use crate::open::Opens;
use crate::recall::Recalls;
use crate::session::Sessions;

/// Part of a session's time by which ticks may be late before the process counts as stopped.
const PART: u64 = 8;

impl Background {
    /// A tick. If the last one was long ago, all that waits for clients waits longer by that. Nobody is harmed: a client that
    /// heard nothing has stopped to rely on what it was lent, by its own clock.
    pub(crate) fn forgive_pause(
        &mut self,
        core: &Core,
        sessions: &mut Sessions,
        recalls: &mut Recalls,
        opens: &mut Opens,
        grace: &mut Option<Grace>,
    ) {
        let now = core.now.mono_ms;
        let before = std::mem::replace(&mut self.ticked_ms, now);
        let late = now.saturating_sub(before);
        if before == 0 || late <= u64::from(core.config.session_ms) / PART {
            return;
        }
        sessions.wait_longer(late, now);
        recalls.wait_longer(late);
        opens.wait_longer(late);
        if let Some(grace) = grace {
            grace.wait_longer(late);
        }
    }
}
