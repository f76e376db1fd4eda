//! Programs in directories some of which are relaxed, that set and remove policies and move things in and out. All names and all modes are given
//! once, so that each answer says which change it is the answer to. What must come of it: [`crate::relaxed`].

use std::sync::Arc;

use loligo_client::{Call, Fh};
use loligo_namespace::SUBTREE;
use loligo_types::{Answer, FsError, Ino, Op, OpenFlags, RenameMode, SetAttr, XattrMode};

use super::{Outcome, Req, Shell, Track, name};
use crate::data::filled;
use crate::tree::{NameId, NsOp};

/// Meaning of a call for the check of relaxed directories.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Deed {
    Names(NsOp),
    Policy {
        dir: Ino,
        text: String,
    },
    /// Of a file or directory, or of all.
    Sync(Option<Ino>),
    Open(Ino),
    Close(Ino),
    /// Nothing that is judged by itself.
    Other,
}

impl Deed {
    /// If it changes names or attributes: what.
    pub fn change(&self) -> Option<&NsOp> {
        match self {
            Deed::Names(ns) if !ns.is_read() => Some(ns),
            _ => None,
        }
    }
}

impl Shell {
    async fn deed(&self, call: Call, deed: Deed) -> Outcome<loligo_client::Done> {
        self.call(call, Track::Relaxed(deed)).await
    }

    async fn relaxed_ns(&self, ns: NsOp, op: Op) -> Outcome<loligo_client::Done> {
        self.deed(Call::Op(op), Deed::Names(ns)).await
    }

    /// One thing there.
    pub(super) async fn relaxed(&mut self) -> Outcome<()> {
        let dir = self.relaxed.borrow().some_dir(&mut self.rng);
        let some = self.relaxed.borrow().some_name(dir, &mut self.rng);
        let n = self.relaxed.borrow_mut().new_name();
        let d = dir.0;
        match (self.rng.below(64), some) {
            (0..6, _) => {
                let op = Op::Mkdir { dir, name: name(n), mode: 0o755, umask: 0 };
                self.relaxed_ns(NsOp::Mkdir { dir: d, name: n, mode: 0o755 }, op).await.map(drop)
            }
            (6..20, _) => self.relaxed_file(dir, n).await,
            (20..28, Some((from, old, _))) => {
                // Often in one directory: what leads over an edge makes all wait.
                let (dir, d) = if self.rng.one_in(2) { (dir, d) } else { (from, from.0) };
                let mode = RenameMode::Replace;
                let op = Op::Rename { dir: from, name: name(old), new_dir: dir, new_name: name(n), mode };
                let ns = NsOp::Rename { dir: from.0, name: old, to: d, to_name: n, mode };
                self.relaxed_ns(ns, op).await.map(drop)
            }
            (28..33, Some((dir, name_id, (_, true)))) => {
                let op = Op::Rmdir { dir, name: name(name_id) };
                self.relaxed_ns(NsOp::Rmdir { dir: dir.0, name: name_id }, op).await.map(drop)
            }
            (28..33, Some((dir, name_id, _))) => {
                let op = Op::Unlink { dir, name: name(name_id) };
                self.relaxed_ns(NsOp::Unlink { dir: dir.0, name: name_id }, op).await.map(drop)
            }
            (33..38, Some((dir, name_id, _))) => {
                // Only what it was told: what nobody was told may be given to something else.
                let (ino, _) = self.lookup(dir, name_id).await?;
                let Some(mode) = self.relaxed.borrow_mut().new_mode() else { return Ok(()) };
                let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
                let ns = NsOp::Chmod { ino: ino.0, mode };
                self.deed(Call::SetAttr { ino, set, fh: None }, Deed::Names(ns)).await.map(drop)
            }
            (38, Some((from, name_id, (_, false)))) => {
                let (ino, _) = self.lookup(from, name_id).await?;
                let op = Op::Link { ino, dir, name: name(n) };
                self.relaxed_ns(NsOp::Link { ino: ino.0, dir: d, name: n }, op).await.map(drop)
            }
            (39..48, Some((dir, name_id, _))) => {
                let (ino, _) = self.lookup(dir, name_id).await?;
                self.ask(Req::Stat(ino)).await;
                Ok(())
            }
            (48, _) => {
                self.ask(Req::Forget(dir)).await;
                Ok(())
            }
            (49..51, _) => self.relaxed_list(dir).await,
            (51..55, _) => {
                // Who opens it is told of it.
                self.ask(Req::Stat(dir)).await;
                self.deed(Call::FsyncDir { dir }, Deed::Sync(Some(dir))).await.map(drop)
            }
            (55..58, Some((dir, name_id, (_, false)))) => {
                let (ino, _) = self.lookup(dir, name_id).await?;
                self.relaxed_look(ino).await
            }
            (58, _) => self.call(Call::SyncAll, Track::SyncAll).await.map(drop),
            (59..61, _) => self.relaxed_policy(dir).await,
            _ => Ok(()),
        }
    }

    async fn relaxed_open(&self, ino: Ino, flags: OpenFlags) -> Outcome<Fh> {
        self.deed(Call::Open { ino, flags }, Deed::Open(ino)).await?.fh.ok_or(FsError::Io)
    }

    async fn relaxed_close(&self, ino: Ino, fh: Fh) -> Outcome<()> {
        let _ = self.deed(Call::Flush { fh, owner: None }, Deed::Other).await;
        self.deed(Call::Release { fh, flock_owner: None }, Deed::Close(ino)).await.map(drop)
    }

    /// A new file, perhaps with something in it, perhaps synced.
    async fn relaxed_file(&mut self, dir: Ino, n: NameId) -> Outcome<()> {
        let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
        let call = Call::Create { dir, name: name(n), mode: 0o600, umask: 0, flags, exclusive: true };
        let ns = NsOp::Create { dir: dir.0, name: n, mode: 0o600, exclusive: true };
        let done = self.deed(call, Deed::Names(ns)).await?;
        let (Some(fh), Some(ino)) = (done.fh, done.attr().map(|attr| attr.ino)) else { return Err(FsError::Io) };
        if self.rng.one_in(3) {
            let (tag, len) = (self.tag().await, self.rng.pick(&[10usize, 200, 700]));
            let data: Arc<[u8]> = filled(tag, len).into();
            let call = Call::Write { fh, offset: 0, data, append: false, kill_priv: false };
            let wrote = self.deed(call, Deed::Other).await.is_ok();
            let pause = self.rng.below(self.think);
            self.sleep(pause).await;
            let call = Call::Fsync { fh, data_only: false };
            if wrote && self.rng.one_in(2) && self.deed(call, Deed::Sync(Some(ino))).await.is_ok() {
                self.relaxed.borrow_mut().data.insert(ino, (tag, len));
            }
        }
        self.relaxed_close(ino, fh).await
    }

    /// Opens a file: reads it, or syncs it.
    async fn relaxed_look(&mut self, ino: Ino) -> Outcome<()> {
        if self.rng.one_in(2) {
            let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
            let fh = self.relaxed_open(ino, flags).await?;
            let _ = self.deed(Call::Fsync { fh, data_only: false }, Deed::Sync(Some(ino))).await;
            return self.relaxed_close(ino, fh).await;
        }
        let fh = self.relaxed_open(ino, OpenFlags { read: true, ..OpenFlags::default() }).await?;
        let known = self.relaxed.borrow().data.get(&ino).copied();
        let read = self.deed(Call::Read { fh, offset: 0, len: 4096 }, Deed::Other).await;
        if let (Some((tag, len)), Ok(done)) = (known, read)
            && done.answer != Answer::Bytes(filled(tag, len).into())
        {
            let text = format!("file {ino} was synced with {len} bytes of {tag}, and holds something else");
            self.ask(Req::Wrong(text)).await;
        }
        self.relaxed_close(ino, fh).await
    }

    async fn relaxed_list(&mut self, dir: Ino) -> Outcome<()> {
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let fh = self.deed(Call::Open { ino: dir, flags }, Deed::Other).await?.fh.ok_or(FsError::Io)?;
        let plus = self.rng.one_in(2);
        let call = Call::Readdir { fh, cookie: 0, limit: 10_000, plus };
        let _ = self.deed(call, Deed::Names(NsOp::Readdir { dir: dir.0 })).await;
        self.deed(Call::Release { fh, flock_owner: None }, Deed::Other).await.map(drop)
    }

    /// Another policy for a directory: those made at first are mostly relaxed, those below mostly are not.
    async fn relaxed_policy(&mut self, dir: Ino) -> Outcome<()> {
        let is_root = self.relaxed.borrow().roots.contains(&dir);
        let is_relaxed = self.rng.below(4) < if is_root { 3 } else { 1 };
        let text = self.relaxed.borrow_mut().new_policy(is_relaxed, &mut self.rng);
        let value = text.as_bytes().into();
        let op = Op::SetXattr { ino: dir, name: SUBTREE.into(), value, mode: XattrMode::Set };
        self.deed(Call::Op(op), Deed::Policy { dir, text }).await.map(drop)
    }
}
