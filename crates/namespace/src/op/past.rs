//! History of a directory's policy. Each change of the policy is recorded in the directory's history, in the same journal record. So the
//! two exist together; the history goes where the directory goes, and ends with it. Not here: the form and the bounds of a history
//! (`loligo_subtree_policy`), and who may change a policy (`xattr.rs`).

use std::sync::Arc;

use loligo_subtree_policy::policy::History;
use loligo_types::{Event, Inode, limits};

use super::xattr::{HISTORY, SUBTREE};
use crate::ctx::Ctx;
use crate::tree::XattrPair;
use crate::work::Work;

/// Puts down that the document of a directory changes; of all its xattrs that it has now. Whether it has a history then.
pub(super) fn note(
    work: &mut Work<'_>,
    ctx: &Ctx<'_>,
    inode: &Inode,
    all: &[XattrPair],
    (old, new): (Option<&[u8]>, Option<&[u8]>),
) -> bool {
    let kept = all.iter().find(|(name, _)| **name == *HISTORY);
    // One that cannot be read is begun anew; `fsck` tells of it, and it must not keep anybody from changing a policy.
    let mut history = kept.and_then(|(_, bytes)| History::read(bytes).ok()).unwrap_or_default();
    // It may have been set by a program that knows no histories.
    history.change(0, inode.uid, old);
    let at_ms = u64::try_from(ctx.stamp.now.0).unwrap_or(0) / 1_000_000;
    if !history.change(at_ms, ctx.cred.uid, new) {
        return kept.is_some();
    }
    let cost = |name: &[u8], value: usize| name.len() + 1 + value;
    let others = all.iter().filter(|(name, _)| **name != *HISTORY && **name != *SUBTREE);
    let others: usize = others.map(|(name, value)| cost(name, value.len())).sum();
    let own = cost(HISTORY, 0) + new.map_or(0, |new| cost(SUBTREE, new.len()));
    let room = limits::XATTR_TOTAL_MAX.saturating_sub(others + own);
    history.trim(room);
    // Without room for any of it the one that is there goes: it would say something else is in force.
    let fits = history.len() <= room;
    if fits {
        let value: Arc<[u8]> = history.to_bytes().into();
        work.event(Event::Xattr { ino: inode.ino, name: Arc::from(HISTORY), value });
    } else if kept.is_some() {
        work.event(Event::XattrGone { ino: inode.ino, name: Arc::from(HISTORY) });
    }
    fits
}

#[cfg(test)]
mod tests {
    use loligo_types::{Answer, Cred, FsResult, Ino, Name, Op, XattrMode};

    use super::*;
    use crate::testing::Fs;

    /// A tree with a directory, whose policy is set and whose records are put down.
    struct Host(Fs);

    impl Host {
        fn new() -> Host {
            let mut fs = Fs::new();
            fs.now = 1_000_000_000_000;
            Host(fs)
        }

        fn run(&mut self, uid: u32, op: &Op) -> FsResult<Answer> {
            let cred = Cred { uid, gid: uid, groups: Vec::new() };
            self.0.run(&cred, op).map(|change| change.answer)
        }

        fn mkdir(&mut self) -> Ino {
            let op = Op::Mkdir { dir: Ino::ROOT, name: Name::new(b"d").expect("good"), mode: 0o755, umask: 0 };
            match self.run(0, &op) {
                Ok(Answer::Entry(attr)) => attr.ino,
                other => panic!("{other:?}"),
            }
        }

        fn set(&mut self, ino: Ino, uid: u32, text: &[u8]) -> FsResult<Answer> {
            self.run(uid, &Op::SetXattr { ino, name: SUBTREE.into(), value: text.into(), mode: XattrMode::Set })
        }

        fn unset(&mut self, ino: Ino) -> FsResult<Answer> {
            self.run(0, &Op::RemoveXattr { ino, name: SUBTREE.into() })
        }

        /// A record, past all rules.
        fn put(&mut self, ino: Ino, name: &[u8], value: &[u8]) {
            self.0.commit(vec![Event::Xattr { ino, name: name.into(), value: value.into() }]);
        }

        fn history(&self, ino: Ino) -> Option<History> {
            let inode = self.0.tree.inode(ino).expect("it is there");
            let bytes = self.0.tree.xattr(inode, HISTORY).expect("it is known")?;
            Some(History::read(&bytes).expect("it is one"))
        }
    }

    #[test]
    fn each_change_of_a_policy_is_a_version_in_its_history_and_what_is_refused_is_none() {
        let mut host = Host::new();
        let dir = host.mkdir();
        let history = |host: &Host| host.history(dir).expect("there is one");
        host.set(dir, 0, b"preset = 'batchfs'").expect("root may");
        host.set(dir, 0, b"preset = 'hdfs'").expect("root may");
        host.set(dir, 1000, b"preset = 'ramdisk'").expect_err("another user's");
        host.set(dir, 0, b"preset = 'nfs'").expect_err("it is none");
        host.set(dir, 0, b"preset = 'hdfs'").expect("as it is");
        assert_eq!((history(&host).now(), history(&host).changes().len()), (2, 2));
        host.unset(dir).expect("root may");
        host.set(dir, 0, b"preset = 'batchfs'").expect("again");
        let now = history(&host);
        let versions: Vec<u32> = now.changes().iter().map(|change| change.version).collect();
        assert_eq!(versions, [1, 2, 0, 1]);
        assert_eq!((now.versions().len(), now.before()), (2, Some(0)));
        // A directory that has another policy than its history says: a program set it that knows none.
        host.put(dir, SUBTREE, b"preset = 'deltafs'");
        host.set(dir, 0, b"preset = 'posix'").expect("root may");
        let now = history(&host);
        let last: Vec<(u64, u32)> = now.changes().iter().skip(4).map(|change| (change.at_ms, change.version)).collect();
        assert!(last[0] == (0, 3) && last[1].1 == 4, "{last:?}");
        // What cannot be read keeps nobody from setting a policy.
        host.put(dir, HISTORY, b"damaged");
        host.set(dir, 0, b"preset = 'hdfs'").expect("root may");
        assert_eq!(history(&host).changes().iter().map(|change| change.version).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn the_history_makes_room_where_a_directory_has_many_attributes() {
        let mut host = Host::new();
        let dir = host.mkdir();
        for n in 0..10u8 {
            host.set(dir, 0, format!("# {n}{}\n", "x".repeat(4000)).as_bytes()).expect("root may");
        }
        assert_eq!(host.history(dir).expect("there is one").versions().len(), 10);
        for n in 0..3 {
            host.put(dir, format!("user.{n}").as_bytes(), &vec![b'x'; limits::XATTR_VALUE_MAX]);
        }
        host.put(dir, b"user.last", &vec![b'x'; limits::XATTR_VALUE_MAX - 6000]);
        host.set(dir, 0, b"blind = true").expect("there is room for that");
        let history = host.history(dir).expect("there is room for some of it");
        assert!(history.versions().len() < 3 && history.now() == 11, "{}", history.versions().len());
        host.put(dir, b"user.last", &vec![b'x'; limits::XATTR_VALUE_MAX - 130]);
        host.set(dir, 0, b"blind = false").expect("there is room for that");
        assert!(host.history(dir).is_none(), "none that says something else");
    }
}
