//! Journal modes of files: the mode that a policy says for a file, where it counts, and the rules that a request with data must obey. Policies
//! are found as those of relaxed directories (`relaxed.rs`). Not here: the data itself (`data.rs`), and the way that a client takes.
//!
//! A mode counts for files that this rank has together with all directories between them and the one with the policy. Elsewhere, and
//! before all policies are known after a start, a file has the mode of a server without policies. So has one that has several names, or none.

use loligo_namespace::Need;
use loligo_subtree_policy::SubtreePolicy;
use loligo_types::{Answer, Event, FsError, FsResult, Ino, JournalMode, Journaling, Op, Patches};

use crate::cluster::Cluster;
use crate::core::Core;
use crate::job::{Job, Lag};
use crate::load::Waiter;
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
    /// Mode of a file, or of those in a directory. Fails with what must be read to know it. In a relaxed directory no data goes into the
    /// journal: answers do not wait for it.
    fn journaling(&mut self, core: &mut Core, cluster: &mut Cluster, ino: Ino) -> Result<Journaling, Vec<Need>> {
        let says = if self.says_modes() { self.says_at(core, cluster, ino)? } else { None }.unwrap_or_default();
        let journaling = core.config.journaling_of(says.journaling);
        Ok(match says.lag {
            Some(_) if journaling.mode.takes_data() => Journaling::of(JournalMode::Writeback),
            _ => journaling,
        })
    }

    /// Mode of the file whose data comes with a request, before the request is decided; none: no data comes. Also makes sure that the mode
    /// is known when a file is opened: its client goes by it until it writes. Fails with what must be read first.
    pub(crate) fn journaling_before(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        job: &Job,
    ) -> Result<Option<Journaling>, Vec<Need>> {
        match &job.op {
            Op::SetData { ino, patches: Some(_), .. } => self.journaling(core, cluster, *ino).map(Some),
            // Another rank decides on an inode that is lent for a transaction.
            Op::Open { ino: at, .. } | Op::Create { dir: at, .. } if self.says_modes() && job.tx.is_none() => {
                self.journaling(core, cluster, *at).map(|_| None)
            }
            _ => Ok(None),
        }
    }

    /// The mode that goes to a client with an answer: with each that opens a file or was about its data, if it may be another than clients
    /// begin with. None: it is not known.
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
        let journaling = match self.journaling(core, cluster, ino) {
            Ok(journaling) => journaling,
            Err(needs) => {
                // A later answer can tell it.
                cluster.load(core, needs, Waiter::Nobody);
                return None;
            }
        };
        // Where a write is durable when it is answered, it is so before any size: a client need not sync for that.
        let is_free = journaling.mode == JournalMode::Ordered && core.config.writes_durable;
        Some(if is_free { Journaling::of(JournalMode::Writeback) } else { journaling })
    }
}

/// Fails if the mode of a file keeps data of that length out of the journal.
pub(crate) fn refuse_by_mode(journaling: Journaling, patches: &Patches) -> Result<(), FsError> {
    // The client alone knows if somebody waits for it.
    journaling.takes(true, patches.len() as u64).then_some(()).ok_or(FsError::NotSupported)
}

/// The bytes that fill the blocks of data in mode `data`.
pub(crate) fn pad(journaling: Journaling, patches: Option<&Patches>) -> Option<Event> {
    let len = patches.filter(|_| journaling.mode == JournalMode::Data)?.padding();
    (len > 0).then_some(Event::Pad { len })
}
