//! A subtree that is decoupled as the policy of its directory says ([`Subtree::decouple_by_policy`]), and completed so: the stages of the pipeline
//! in the written order, what stands in parallel at the same time. Which begins when is [`loligo_subtree_policy::Run`]'s. Not here: what each
//! stage does (`mod.rs`, `keep.rs`, `store.rs`), and what a policy may say (crate `semantics`).

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use loligo_subtree_policy::{self as semantics, Completion, Mechanism, SubtreePolicy};
use loligo_types::limits::{DEPTH_MAX, SUBTREE_INOS_MAX};
use loligo_types::{Answer, FsError, FsResult, Ino, Interfere, MergeInto, Op};

use super::keep::Keeper;
use super::{Merged, Subtree, SubtreeOptions};
use crate::client::keeping::path_of;
use crate::client::{Call, Fs};

/// The policy is read again after the decoupling; if it has changed by then, all is begun anew, so often.
const TRIES: usize = 4;

/// The policy that a subtree was decoupled with.
pub(super) struct ByPolicy {
    policy: SubtreePolicy,
    /// Time at which outstanding changes were sent on last.
    synced: Instant,
    /// The stage that failed when that was due, until a later run succeeds.
    failed: Option<(Mechanism, FsError)>,
}

/// The result of a completion.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Completed {
    /// The stages that were carried out, in the order of the pipeline.
    pub stages: Vec<Mechanism>,
    /// The result of their merge.
    pub merged: Merged,
    /// Nothing was outstanding then, and the directory is one like others again.
    pub recoupled: bool,
}

/// Why work is not complete.
#[derive(Debug, thiserror::Error)]
pub enum CompleteError {
    /// It was decoupled with options of the program's own.
    #[error(
        "the directory was decoupled with options, not by its policy: call persist, persist_global, merge and recouple, or decouple it with \
         decouple_by_policy"
    )]
    NoPolicy,
    /// A stage of the pipeline failed. Those after it were not begun.
    #[error(
        "the stage {stage} of the pipeline {pipeline} failed: {cause}; {}; when the cause is gone, complete again",
        match &done[..] {
            [] => "nothing was done before it".to_string(),
            done => format!("{} was done and counts", names(done)),
        }
    )]
    Stage {
        /// Which.
        stage: Mechanism,
        /// The whole pipeline.
        pipeline: String,
        /// Why.
        cause: io::Error,
        /// The stages that were carried out, which count.
        done: Vec<Mechanism>,
    },
    /// All stages were carried out, and the directory could not be given back.
    #[error("all stages are carried out, and the directory cannot be given back: {0}")]
    Recouple(FsError),
}

impl CompleteError {
    /// The stage that failed.
    pub fn stage(&self) -> Option<Mechanism> {
        match self {
            CompleteError::Stage { stage, .. } => Some(*stage),
            CompleteError::NoPolicy | CompleteError::Recouple(_) => None,
        }
    }
}

fn names(mechanisms: &[Mechanism]) -> String {
    mechanisms.iter().map(|mechanism| mechanism.name()).collect::<Vec<_>>().join(", ")
}

/// A stage of the pipeline of a decoupled subtree has failed: a line of the log.
pub(crate) fn log_failed(dir: Ino, stage: &str, error: FsError) {
    tracing::warn!(
        "directory number {dir}, which is decoupled here: the stage {stage} of its pipeline failed: {error}. What was done before it counts, and it is \
         begun again with the next completion: loligo policy explain says what is outstanding"
    );
}

/// The policy that counts at a directory: that of the nearest one that has one, as far up as this client may see.
fn policy_at(fs: &Fs, dir: Ino) -> FsResult<SubtreePolicy> {
    let ask = |op| fs.client().call(fs.cred(), Call::Op(op)).map(|done| done.answer).map_err(|failed| failed.error);
    let mut at = dir;
    for _ in 0..DEPTH_MAX {
        match ask(Op::GetXattr { ino: at, name: loligo_namespace::SUBTREE.into() }) {
            // One that a newer version took may say what is not understood here.
            Ok(Answer::Bytes(text)) => return SubtreePolicy::parse_bytes(&text).map_err(|_| FsError::NotSupported),
            Ok(_) => return Err(FsError::Io),
            Err(FsError::NoData) => {}
            Err(FsError::Access) if at != dir => break,
            Err(error) => return Err(error),
        }
        if at == Ino::ROOT {
            break;
        }
        at = match ask(Op::LookupParent { dir: at }) {
            Ok(Answer::Entry(attr)) => attr.ino,
            Ok(Answer::Remote { ino, .. }) => ino,
            Ok(_) => return Err(FsError::Io),
            // A client that is limited to paths sees nothing above them.
            Err(FsError::Access) => break,
            Err(error) => return Err(error),
        };
    }
    Ok(SubtreePolicy::default())
}

/// Options with which a policy has a directory decoupled. `None`: it does not permit that.
fn options_of(policy: &SubtreePolicy, is_root: bool) -> Option<SubtreeOptions> {
    let promise = policy.cell().promise()?;
    let defaults = SubtreeOptions::default();
    let interfere = match policy.interfere() {
        semantics::Interfere::Allow => Interfere::Allow,
        semantics::Interfere::Block => Interfere::Block,
        semantics::Interfere::Read => Interfere::Read,
    };
    let ceiling = policy.ceiling();
    let most = ceiling.allocated_inodes.unwrap_or(u64::MAX).min(SUBTREE_INOS_MAX / 2);
    let lease = ceiling.lease.map_or(Duration::MAX, |most| most.duration());
    let into = match Completion::of(policy.pipeline()).has(Mechanism::NonvolatileApply) {
        true => MergeInto::Table,
        false => MergeInto::Memory,
    };
    Some(SubtreeOptions {
        allocated_inodes: policy.allocated_inodes().min(most),
        lease: defaults.lease.min(lease),
        interfere,
        promise,
        into,
        blind: policy.blind() && is_root && interfere != Interfere::Allow,
        ..defaults
    })
}

impl Subtree {
    /// Decouples a directory as the policy says that counts there: with its cell as the promise, its pipeline for [`Subtree::complete`], its inode
    /// numbers, and whether others may work there meanwhile. With `sync_interval` what is outstanding is persisted and merged with the first
    /// operation after each interval. The lease is a minute, or less where the policy has a lower ceiling.
    ///
    /// `NotSupported` if the policy does not permit that (operations go to the rank one by one), if a directory below promises more, or if the
    /// policy keeps journals on this machine and the client has no place for them ([`crate::client::Options::keep`]); `Perm` below a
    /// floor that asks for more; else as [`Subtree::decouple`]. The rank holds floors and ceilings of all directories above against it.
    pub fn decouple_by_policy(fs: &Fs, path: impl AsRef<Path>) -> FsResult<Subtree> {
        let path = path.as_ref();
        let dir = fs.stat(path)?.ino;
        let mut policy = policy_at(fs, dir)?;
        for _ in 0..TRIES {
            let options = options_of(&policy, fs.cred().is_root()).ok_or(FsError::NotSupported)?;
            if Completion::of(policy.pipeline()).has(Mechanism::LocalPersist) && fs.client().keep_dir().is_none() {
                return Err(FsError::NotSupported);
            }
            let mut subtree = Subtree::decouple(fs, path, &options)?;
            let now = match policy_at(fs, dir) {
                Ok(now) => now,
                Err(error) => return subtree.abandon().and(Err(error)),
            };
            if subtree.root() == dir && now == policy {
                subtree.by_policy = Some(ByPolicy { policy, synced: Instant::now(), failed: None });
                return Ok(subtree);
            }
            // Somebody has changed it a moment ago.
            subtree.abandon()?;
            policy = now;
        }
        Err(FsError::Busy)
    }

    /// The policy that it was decoupled with; none, if that was with options.
    pub fn policy(&self) -> Option<&SubtreePolicy> {
        self.by_policy.as_ref().map(|by| &by.policy)
    }

    /// The stage that failed when `sync_interval` had what is outstanding sent on, and has not succeeded since. It is begun again when the interval
    /// has gone by again.
    pub fn failed_stage(&self) -> Option<(Mechanism, FsError)> {
        self.by_policy.as_ref()?.failed
    }

    /// Carries out the stages of the policy's pipeline: in the written order, each when all of the one before has succeeded, and what stands in parallel at
    /// the same time. If nothing is outstanding then, the directory is given back; otherwise (a pipeline without an apply) it stays decoupled.
    ///
    /// After an error what was done counts, and this may be called again: what is kept already is not kept twice, and nothing is merged twice.
    pub fn complete(&mut self) -> Result<Completed, CompleteError> {
        let mut completed = self.sync()?;
        if self.outstanding().changes == 0 {
            self.recouple().map_err(CompleteError::Recouple)?;
            completed.recoupled = true;
        }
        Ok(completed)
    }

    /// The same, and it stays decoupled.
    pub fn sync(&mut self) -> Result<Completed, CompleteError> {
        let by = self.by_policy.as_ref().ok_or(CompleteError::NoPolicy)?;
        let stages = Completion::of(by.policy.pipeline());
        self.carry_out(&stages)
    }

    /// Persists and merges what is outstanding, if the policy's `sync_interval` has gone by since that was done last. Each operation does so by
    /// itself; a program that pauses may call it. What fails is told by [`Subtree::failed_stage`] and the log, and not by an operation.
    pub fn sync_if_due(&mut self) {
        let Some(by) = &self.by_policy else { return };
        let Some(interval) = by.policy.sync_interval() else { return };
        if by.synced.elapsed() < interval.duration() || self.outstanding().changes == 0 {
            return;
        }
        let stages = Completion::of(by.policy.pipeline()).and_apply();
        // It is told where people look for it.
        let _ = self.carry_out(&stages);
    }

    fn carry_out(&mut self, stages: &Completion) -> Result<Completed, CompleteError> {
        let (mut run, mut merged, mut failed) = (stages.run(), Merged::default(), None);
        loop {
            let begun = run.begin();
            if begun.is_empty() {
                break;
            }
            for (mechanism, result) in self.at_once(&begun, &mut merged) {
                run.ended(mechanism, result.is_ok());
                if let Err(cause) = result {
                    failed.get_or_insert((mechanism, cause));
                }
            }
        }
        let (dir, why) = (self.root(), failed.as_ref().map(|(stage, cause)| (*stage, fs_error(cause))));
        if let Some(by) = &mut self.by_policy {
            by.synced = Instant::now();
            if let Some((stage, error)) = why.filter(|_| by.failed != why) {
                log_failed(dir, stage.name(), error);
            }
            by.failed = why;
        }
        match failed {
            None => Ok(Completed { stages: run.succeeded(), merged, recoupled: false }),
            Some((stage, cause)) => {
                let pipeline = self.policy().map(|policy| policy.pipeline().to_string()).unwrap_or_default();
                Err(CompleteError::Stage { stage, pipeline, cause, done: run.succeeded() })
            }
        }
    }

    /// Runs stages at the same time, and waits for all of them. The rules of pipelines have nothing beside each other but the two persists.
    fn at_once(&mut self, begun: &[Mechanism], merged: &mut Merged) -> Vec<(Mechanism, io::Result<()>)> {
        if begun.contains(&Mechanism::LocalPersist) && begun.contains(&Mechanism::GlobalPersist) {
            let (local, global) = self.persist_both();
            return vec![
                (Mechanism::LocalPersist, local),
                (Mechanism::GlobalPersist, global.map_err(io::Error::other)),
            ];
        }
        let mut one = |mechanism: Mechanism| match mechanism {
            Mechanism::LocalPersist => self.persist(self.file_by_policy()?),
            Mechanism::GlobalPersist => self.persist_global().map_err(io::Error::other),
            Mechanism::VolatileApply | Mechanism::NonvolatileApply => {
                *merged = self.apply().map_err(io::Error::other)?;
                Ok(())
            }
            // They are done with each operation.
            Mechanism::Rpcs | Mechanism::AppendClientJournal | Mechanism::Stream => Ok(()),
        };
        begun.iter().map(|mechanism| (*mechanism, one(*mechanism))).collect()
    }

    /// Merges. A rank that does not take the word of a client which is limited to paths looks through what it merges.
    fn apply(&mut self) -> FsResult<Merged> {
        match self.merge() {
            Err(FsError::Perm) if self.blind => {
                self.blind = false;
                self.merge()
            }
            result => result,
        }
    }

    /// The file that the policy has the journal kept in.
    fn file_by_policy(&self) -> io::Result<PathBuf> {
        let dir = self.client.keep_dir().ok_or_else(|| io::Error::other(FsError::NotSupported))?;
        std::fs::create_dir_all(dir)?;
        Ok(path_of(dir, self.client.welcome().fs_id, self.record().epoch))
    }

    /// Local and global persist of what is outstanding, at the same time.
    fn persist_both(&mut self) -> (io::Result<()>, FsResult<()>) {
        let path = match self.file_by_policy() {
            Ok(path) => path,
            Err(error) => return (Err(error), self.persist_global()),
        };
        let (fs, record, groups) = (self.client.welcome().fs_id, self.machine.record().clone(), self.machine.groups());
        let (kept, broken) = (self.kept.take(), self.broken.take());
        let (local, global) = std::thread::scope(|scope| {
            let local = scope.spawn(|| Keeper::go_on(kept, broken, &path, fs, &record, &groups));
            let global = self.persist_global();
            (local.join(), global)
        });
        let local = match local {
            Ok((kept, broken, result)) => {
                (self.kept, self.broken) = (kept, broken);
                result.and_then(|()| self.is_mine().map_err(io::Error::other))
            }
            Err(_) => {
                self.broken = Some(path);
                Err(io::Error::other("the thread that wrote the file has panicked"))
            }
        };
        (local, global)
    }
}

/// As the errors of a file system are told.
fn fs_error(error: &io::Error) -> FsError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<FsError>()).copied();
    inner.unwrap_or_else(|| crate::client::keeping::errno(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_says_how_a_directory_is_decoupled_and_its_own_ceiling_is_kept() {
        let of = |text: &str| options_of(&SubtreePolicy::parse(text).expect("it makes sense"), false);
        assert!(of("preset = 'posix'").is_none() && of("preset = 'relaxed'").is_none());
        let plain = of("preset = 'hdfs'").expect("decoupled");
        assert_eq!((plain.allocated_inodes, plain.interfere), (100, Interfere::Block));
        assert_eq!((plain.lease, plain.into, plain.blind), (Duration::from_secs(60), MergeInto::Memory, false));
        let text = "pipeline = 'append_client_journal + nonvolatile_apply'\nblind = true\ninterfere = 'block'\nallocated_inodes = 500\n\
                    [ceiling]\nallocated_inodes = 1000\nlease = '10s'\n";
        let bounded = of(text).expect("decoupled");
        assert_eq!((bounded.allocated_inodes, bounded.lease), (500, Duration::from_secs(10)));
        assert_eq!((bounded.interfere, bounded.into, bounded.blind), (Interfere::Block, MergeInto::Table, false));
        let policy = SubtreePolicy::parse(text).expect("it makes sense");
        assert!(options_of(&policy, true).expect("decoupled").blind, "root's word is taken");
        let allow =
            SubtreePolicy::parse("preset = 'hdfs'\nblind = true\ninterfere = 'allow'\n").expect("it makes sense");
        assert!(!options_of(&allow, true).expect("decoupled").blind, "others may work there");
    }
}
