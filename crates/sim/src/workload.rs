//! Programs on the clients: random calls, written as straight lines of `async` code that the world drives one answer at a time. Each
//! program has one call under way; a client has several programs.

mod keep;
mod owner;
mod relaxed;
mod shared;
mod tries;
mod ways;

pub use self::relaxed::Deed;
pub use self::ways::is_way_alone;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use loligo_client::{Call, CallResult, Fallocate, Fh, WalkAt};
use loligo_types::{
    Answer, FileLock, FsError, Ino, LockKind, LockOwner, Name, Op, OpenFlags, Rank, RenameMode, SetAttr, XattrMode,
};

use crate::data::{BLOCK, BLOCKS, HEAD, RECORD, filled, offset_of};
use crate::relaxed::Relaxed;
use crate::rng::Rng;
use crate::subtrees::Jobs;
use crate::tree::{NameId, NsOp};

/// The names of the workload.
pub const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The directories that programs work in, in the root.
pub const DIRS: [&str; 3] = ["d0", "d1", "d2"];

/// A name by its index.
pub fn name(id: NameId) -> Name {
    let text = NAMES.get(usize::from(id)).map_or_else(|| format!("n{id}"), |text| (*text).to_owned());
    Name::new(text.as_bytes()).expect("the names are valid")
}

/// The index of a name that is given once.
pub fn id_of(name: &[u8]) -> Option<NameId> {
    std::str::from_utf8(name).ok()?.strip_prefix('n')?.parse().ok()
}

/// Meaning of a call for the checks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Track {
    /// Nothing.
    None,
    /// A read of something that the owner of a decoupled directory may remove with its next merge.
    Merged,
    Names(NsOp),
    /// Two names in one request: what finds each of them, if the first is the directory that it is expected to be.
    Walk(NsOp, NsOp),
    /// One, with what is promised of where it leads.
    Way(NsOp),
    /// In relaxed directories, and beside them.
    Relaxed(Deed),
    /// Blocks get a tag; `durable` when answered.
    Write {
        file: Ino,
        first: usize,
        end: usize,
        tag: u32,
        durable: bool,
    },
    Append {
        file: Ino,
        tag: u32,
    },
    Read {
        file: Ino,
        first: usize,
        count: usize,
    },
    ReadLog {
        file: Ino,
    },
    Fsync {
        file: Ino,
    },
    /// A close: it tells of losses, and syncs nothing.
    Flush {
        file: Ino,
    },
    SyncAll,
    Lock {
        file: Ino,
        exclusive: bool,
    },
    Unlock {
        file: Ino,
    },
}

/// Request of a program to the world.
#[derive(Debug)]
pub enum Req {
    /// Wait, microseconds.
    Sleep(u64),
    Call(Call, Track),
    /// In the name of somebody who may do nothing in particular.
    Try(Call),
    /// Through the cache of names.
    Lookup(Ino, NameId),
    /// Through the cache of attributes.
    Stat(Ino),
    /// Caches drop an inode, as under memory pressure.
    Forget(Ino),
    /// A new tag for a write.
    Tag,
    /// The machine is to crash soon.
    Crash,
    /// The program itself saw something that cannot be.
    Wrong(String),
}

/// Reply of the world to a program.
#[derive(Debug)]
pub enum Rep {
    Woken,
    Done(Box<CallResult>),
    /// Number and whether it is a directory.
    Found(Result<(Ino, bool), FsError>),
    Tag(u32),
}

/// One request, one answer.
#[derive(Default)]
pub struct Mail {
    pub req: Option<Req>,
    pub rep: Option<Rep>,
}

/// Directories and files that all programs know.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Directories with the names that all fight for.
    pub dirs: Vec<Ino>,
    /// Files of blocks.
    pub files: Vec<Ino>,
    /// Files that are appended to.
    pub logs: Vec<Ino>,
    /// Where those lie.
    pub data: Ino,
    /// The directory of files that programs have for themselves.
    pub own: Ino,
    /// A file to lock.
    pub lock: Ino,
    /// Where everybody may do everything, if directories are decoupled; and a file in it.
    pub common: (Ino, Ino),
}

/// A program's way to the world.
pub struct Shell {
    pub mail: Rc<RefCell<Mail>>,
    pub rng: Rng,
    pub places: Rc<Places>,
    /// No new actions.
    pub stop: Rc<Cell<bool>>,
    /// Its number among all programs there ever were.
    pub id: u64,
    pub think: u64,
    /// Whole directories, too.
    pub removes: bool,
    /// More file data than names.
    pub direct: bool,
    /// Several names with one request, too.
    pub paths: bool,
    /// And what ranks promise with them is used.
    pub leases: bool,
    /// Decoupled directories, too.
    pub subtrees: bool,
    /// One in which others work meanwhile.
    pub allow: bool,
    pub jobs: Rc<RefCell<Jobs>>,
    /// Of eight things so many are done in relaxed directories, if there are some.
    pub relaxes: u64,
    pub relaxed: Rc<RefCell<Relaxed>>,
}

type Outcome<T> = Result<T, FsError>;

impl Shell {
    async fn ask(&self, req: Req) -> Rep {
        self.mail.borrow_mut().req = Some(req);
        poll_fn(|_| match self.mail.borrow_mut().rep.take() {
            Some(rep) => Poll::Ready(rep),
            None => Poll::Pending,
        })
        .await
    }

    async fn sleep(&self, us: u64) {
        self.ask(Req::Sleep(us)).await;
    }

    async fn call(&self, call: Call, track: Track) -> Outcome<loligo_client::Done> {
        match self.ask(Req::Call(call, track)).await {
            Rep::Done(result) => result.map_err(|failed| failed.error),
            _ => Err(FsError::Io),
        }
    }

    async fn lookup(&self, dir: Ino, name: NameId) -> Outcome<(Ino, bool)> {
        match self.ask(Req::Lookup(dir, name)).await {
            Rep::Found(found) => found,
            _ => Err(FsError::Io),
        }
    }

    async fn tag(&self) -> u32 {
        match self.ask(Req::Tag).await {
            Rep::Tag(tag) => tag,
            _ => 0,
        }
    }

    /// The program: actions until it is told to stop.
    pub async fn run(mut self) {
        while !self.stop.get() {
            let think = self.rng.range(0, self.think);
            self.sleep(think).await;
            if self.removes && self.rng.one_in(8) {
                let _ = self.whole_dir().await;
                continue;
            }
            if self.subtrees && self.rng.one_in(3) {
                let _ = self.job().await;
                continue;
            }
            if self.allow && self.rng.one_in(2) {
                let _ = self.both().await;
                continue;
            }
            if self.relaxes > 0 && self.rng.below(8) < self.relaxes {
                let _ = self.relaxed().await;
                continue;
            }
            // Errors are for the checks.
            let least = if self.direct { 40 } else { 0 };
            let _ = match self.rng.range(least, 99) {
                0..55 => self.names().await,
                55..80 => self.blocks().await,
                80..88 => self.append().await,
                88..93 => self.lock().await,
                93 => self.call(Call::SyncAll, Track::SyncAll).await.map(drop),
                _ => self.own_file().await,
            };
        }
    }

    fn name(&mut self) -> NameId {
        self.rng.below(NAMES.len() as u64) as NameId
    }

    /// A directory that may exist: one of the fixed ones, or one in it.
    async fn dir(&mut self) -> Outcome<Ino> {
        let dir = self.rng.pick(&self.places.clone().dirs);
        if !self.rng.one_in(3) {
            return Ok(dir);
        }
        let name = self.name();
        let (ino, is_dir) = self.lookup(dir, name).await?;
        Ok(if is_dir { ino } else { dir })
    }

    async fn ns(&self, op: NsOp, call: Call) -> Outcome<loligo_client::Done> {
        self.call(call, Track::Names(op)).await
    }

    async fn names(&mut self) -> Outcome<()> {
        let dir = self.dir().await?;
        let n = self.name();
        let (d, mode) = (dir.0, 0o600 + self.rng.below(64) as u16);
        if self.leases && self.rng.one_in(2) {
            return self.promised(dir, n).await;
        }
        match self.rng.below(20) {
            0 if self.paths => self.open_name(dir, n).await?,
            0..4 if self.paths && self.rng.one_in(2) => self.two_names(dir, n).await?,
            0..4 => {
                let (ino, _) = self.lookup(dir, n).await?;
                self.ask(Req::Stat(ino)).await;
            }
            4..6 => {
                let op = Op::Mkdir { dir, name: name(n), mode, umask: 0 };
                self.by_path(NsOp::Mkdir { dir: d, name: n, mode }, dir, op, mode).await.map(drop)?;
            }
            6..9 => {
                let exclusive = self.rng.one_in(2);
                let flags = OpenFlags { write: true, ..OpenFlags::default() };
                let op = Op::Create { dir, name: name(n), mode, umask: 0, flags, exclusive, handle: 0 };
                let done = self.by_path(NsOp::Create { dir: d, name: n, mode, exclusive }, dir, op, mode).await?;
                self.release(done.fh).await?;
            }
            9..12 => {
                let op = Op::Unlink { dir, name: name(n) };
                self.by_path(NsOp::Unlink { dir: d, name: n }, dir, op, mode).await?;
            }
            12 => {
                let op = Op::Rmdir { dir, name: name(n) };
                self.by_path(NsOp::Rmdir { dir: d, name: n }, dir, op, mode).await?;
            }
            13..15 => self.rename(dir, n).await?,
            15 => {
                let (ino, is_dir) = self.lookup(dir, n).await?;
                let (to, to_name) = (self.dir().await?, self.name());
                if !is_dir {
                    let call = Call::Op(Op::Link { ino, dir: to, name: name(to_name) });
                    self.ns(NsOp::Link { ino: ino.0, dir: to.0, name: to_name }, call).await?;
                }
            }
            16 if self.paths && self.rng.one_in(2) => self.touch_file().await?,
            16 => {
                let (ino, _) = self.lookup(dir, n).await?;
                let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
                self.ns(NsOp::Chmod { ino: ino.0, mode }, Call::SetAttr { ino, set, fh: None }).await?;
            }
            17..19 if self.paths && self.rng.one_in(2) && self.list_way(dir).await? => {}
            17..19 => self.list(dir).await?,
            // No draw of its own: seeds found before do what they did.
            _ if mode % 3 == 0 => self.expect(dir, u64::from(mode) % 64).await?,
            _ => {
                self.ask(Req::Forget(dir)).await;
            }
        }
        Ok(())
    }

    /// Fills a directory with all names there are, or takes all out of it and removes it, as `rm -r` does.
    async fn whole_dir(&mut self) -> Outcome<()> {
        let (parent, n) = (self.rng.pick(&self.places.clone().dirs), self.name());
        let (ino, is_dir) = match self.lookup(parent, n).await {
            Ok(found) => found,
            Err(_) => (self.make(parent, n, true).await?, true),
        };
        if !is_dir {
            return Ok(());
        }
        if self.rng.one_in(2) {
            for below in 0..NAMES.len() as NameId {
                let dir = self.rng.one_in(5);
                // What is there already is as good.
                let _ = self.make(ino, below, dir).await;
            }
            return Ok(());
        }
        for below in 0..NAMES.len() as NameId {
            let (dir, at) = (ino, name(below));
            let unlink = Call::Op(Op::Unlink { dir, name: at.clone() });
            if self.ns(NsOp::Unlink { dir: dir.0, name: below }, unlink).await.is_err_and(|e| e == FsError::IsDir) {
                let rmdir = Call::Op(Op::Rmdir { dir, name: at });
                let _ = self.ns(NsOp::Rmdir { dir: dir.0, name: below }, rmdir).await;
            }
        }
        let call = Call::Op(Op::Rmdir { dir: parent, name: name(n) });
        self.ns(NsOp::Rmdir { dir: parent.0, name: n }, call).await.map(drop)
    }

    /// Makes a directory or a file.
    async fn make(&mut self, dir: Ino, n: NameId, is_dir: bool) -> Outcome<Ino> {
        let mode = 0o600 + self.rng.below(64) as u16;
        if is_dir {
            let call = Call::Op(Op::Mkdir { dir, name: name(n), mode, umask: 0 });
            self.ns(NsOp::Mkdir { dir: dir.0, name: n, mode }, call).await?;
            return self.lookup(dir, n).await.map(|(ino, _)| ino);
        }
        let flags = OpenFlags { write: true, ..OpenFlags::default() };
        let call = Call::Create { dir, name: name(n), mode, umask: 0, flags, exclusive: true };
        let done = self.ns(NsOp::Create { dir: dir.0, name: n, mode, exclusive: true }, call).await?;
        self.release(done.fh).await?;
        self.lookup(dir, n).await.map(|(ino, _)| ino)
    }

    /// Says how many entries a directory will have, or takes that back.
    async fn expect(&mut self, ino: Ino, entries: u64) -> Outcome<()> {
        let name = loligo_namespace::EXPECTED_ENTRIES.into();
        let op = match entries {
            0..16 => Op::RemoveXattr { ino, name },
            _ => {
                let value = entries.to_string().into_bytes().into();
                Op::SetXattr { ino, name, value, mode: XattrMode::Set }
            }
        };
        self.call(Call::Op(op), Track::None).await.map(drop)
    }

    async fn rename(&mut self, dir: Ino, n: NameId) -> Outcome<()> {
        let (to, to_name) = (self.dir().await?, self.name());
        let mode =
            self.rng.pick(&[RenameMode::Replace, RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange]);
        let op = Op::Rename { dir, name: name(n), new_dir: to, new_name: name(to_name), mode };
        let track = NsOp::Rename { dir: dir.0, name: n, to: to.0, to_name, mode };
        self.ns(track, Call::Op(op)).await?;
        Ok(())
    }

    /// Finds a name in a directory in another one with one request.
    async fn two_names(&mut self, dir: Ino, n: NameId) -> Outcome<()> {
        let (below, is_dir) = self.lookup(dir, n).await?;
        if !is_dir {
            return Ok(());
        }
        let second = self.name();
        let track = Track::Walk(NsOp::Lookup { dir: dir.0, name: n }, NsOp::Lookup { dir: below.0, name: second });
        let names = [name(n), name(second)].into();
        // Also of a rank that has nothing of it.
        let at = match self.rng.below(9) {
            rank @ 0..6 => WalkAt::Rank(Rank(rank as u16), below),
            6 => WalkAt::ByPath(0),
            _ => WalkAt::First,
        };
        let to_dir = self.rng.one_in(3);
        self.call(Call::Walk { dir, names, at, to_dir, ways: Some(1) }, track).await.map(drop)
    }

    /// Looks again and again where a name leads that was promised to lead there for a time; others do the same, and rename what it leads to.
    async fn promised(&mut self, dir: Ino, n: NameId) -> Outcome<()> {
        if self.rng.one_in(3) {
            return self.rename(dir, n).await;
        }
        // Mostly of a rank that has it, if at all, by a replica, and then says what it has promised when that is asked back.
        let at = match self.rng.below(8) {
            rank @ 0..6 => WalkAt::Rank(Rank(rank as u16), dir),
            _ => WalkAt::First,
        };
        let call = Call::Walk { dir, names: [name(n)].into(), at, to_dir: true, ways: Some(1) };
        let track = Track::Way(NsOp::Lookup { dir: dir.0, name: n });
        if self.call(call, track).await == Err(FsError::NotFound) {
            let op = Op::Mkdir { dir, name: name(n), mode: 0o700, umask: 0 };
            return self.by_path(NsOp::Mkdir { dir: dir.0, name: n, mode: 0o700 }, dir, op, 1).await.map(drop);
        }
        for _ in 0..self.rng.below(12) {
            let us = self.rng.delay(200, 30_000);
            self.sleep(us).await;
            self.lookup(dir, n).await?;
        }
        Ok(())
    }

    async fn list(&mut self, dir: Ino) -> Outcome<()> {
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let done = self.call(Call::Open { ino: dir, flags }, Track::None).await?;
        let fh = done.fh.ok_or(FsError::Io)?;
        let plus = self.rng.one_in(2);
        let call = Call::Readdir { fh, cookie: 0, limit: 100, plus };
        let listed = self.ns(NsOp::Readdir { dir: dir.0 }, call).await;
        self.release(Some(fh)).await?;
        listed.map(drop)
    }

    async fn release(&self, fh: Option<Fh>) -> Outcome<()> {
        if let Some(fh) = fh {
            self.call(Call::Release { fh, flock_owner: None }, Track::None).await?;
        }
        Ok(())
    }

    /// Opens a file of blocks, reads and writes for a while, closes it.
    async fn blocks(&mut self) -> Outcome<()> {
        let file = self.rng.pick(&self.places.clone().files);
        let write = !self.rng.one_in(3);
        let truncate = write && self.rng.one_in(12);
        let flags = OpenFlags { read: true, write, truncate, ..OpenFlags::default() };
        let cut = Track::Write { file, first: 0, end: BLOCKS, tag: 0, durable: true };
        let track = if truncate { cut } else { Track::None };
        let fh = self.open_file(file, flags, track).await?;
        let steps = self.rng.range(1, 6);
        let mut result = Ok(());
        for _ in 0..steps {
            result = self.block_step(file, fh, write).await;
            if result.is_err() {
                break;
            }
            let pause = if self.direct { 0 } else { self.rng.below(self.think / 2) };
            self.sleep(pause).await;
        }
        let _ = self.call(Call::Flush { fh, owner: None }, Track::Flush { file }).await;
        self.release(Some(fh)).await?;
        result
    }

    /// Some blocks that lie side by side.
    fn some_blocks(&mut self) -> (usize, usize) {
        let head = !self.rng.one_in(3);
        let (from, to) = if head { (0, HEAD) } else { (HEAD, BLOCKS) };
        let first = self.rng.range(from as u64, to as u64 - 1) as usize;
        let count = self.rng.range(1, 3).min((to - first) as u64) as usize;
        (first, count)
    }

    async fn block_step(&mut self, file: Ino, fh: Fh, write: bool) -> Outcome<()> {
        let (first, count) = self.some_blocks();
        let (offset, len) = (offset_of(first), count as u64 * BLOCK);
        match if write { self.rng.below(12) } else { 0 } {
            0..4 => {
                let call = Call::Read { fh, offset, len: len as u32 };
                self.call(call, Track::Read { file, first, count }).await?;
            }
            4..9 => {
                let tag = self.tag().await;
                let data: Arc<[u8]> = filled(tag, len as usize).into();
                let call = Call::Write { fh, offset, data, append: false, kill_priv: false };
                self.call(call, Track::Write { file, first, end: first + count, tag, durable: false }).await?;
            }
            9 => {
                self.call(Call::Fsync { fh, data_only: false }, Track::Fsync { file }).await?;
            }
            10 => {
                let set = SetAttr { size: Some(offset), ..SetAttr::default() };
                let fh = if self.rng.one_in(2) { Some(fh) } else { None };
                let track = Track::Write { file, first, end: BLOCKS, tag: 0, durable: true };
                self.call(Call::SetAttr { ino: file, set, fh }, track).await?;
            }
            _ => {
                let keep_size = self.rng.one_in(2);
                let how = self.rng.pick(&[Fallocate::PunchHole, Fallocate::ZeroRange { keep_size }]);
                let call = Call::Fallocate { fh, how, offset, len, kill_priv: false };
                let track = Track::Write { file, first, end: first + count, tag: 0, durable: false };
                self.call(call, track).await?;
            }
        }
        Ok(())
    }

    /// Appends to a log, or reads all of one.
    async fn append(&mut self) -> Outcome<()> {
        let file = self.rng.pick(&self.places.clone().logs);
        let write = !self.rng.one_in(3);
        let flags = OpenFlags { read: !write, write, append: write, ..OpenFlags::default() };
        let fh = self.open_file(file, flags, Track::None).await?;
        if write {
            for _ in 0..self.rng.range(1, 3) {
                let tag = self.tag().await;
                let data: Arc<[u8]> = filled(tag, RECORD).into();
                let call = Call::Write { fh, offset: 0, data, append: true, kill_priv: false };
                if self.call(call, Track::Append { file, tag }).await.is_err() {
                    break;
                }
            }
            if self.rng.one_in(3) {
                let _ = self.call(Call::Fsync { fh, data_only: true }, Track::Fsync { file }).await;
            }
        } else {
            let call = Call::Read { fh, offset: 0, len: 1 << 20 };
            let _ = self.call(call, Track::ReadLog { file }).await;
        }
        let _ = self.call(Call::Flush { fh, owner: None }, Track::Flush { file }).await;
        self.release(Some(fh)).await
    }

    /// Locks, holds, gives back.
    async fn lock(&mut self) -> Outcome<()> {
        let file = self.places.lock;
        let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
        let fh = self.open_file(file, flags, Track::None).await?;
        let exclusive = !self.rng.one_in(3);
        let owner = LockOwner(self.id);
        let lock = FileLock { kind: LockKind::Flock, owner, pid: 1, exclusive, start: 0, end: u64::MAX };
        let wait = !self.rng.one_in(3);
        if self.call(Call::SetLock { fh, lock, wait }, Track::Lock { file, exclusive }).await.is_ok() {
            let hold = self.rng.below(self.think);
            self.sleep(hold).await;
            if self.rng.one_in(4) {
                // Closing the file gives it back.
                let call = Call::Release { fh, flock_owner: Some(owner) };
                return self.call(call, Track::Unlock { file }).await.map(drop);
            }
            let _ = self.call(Call::Unlock { fh, lock }, Track::Unlock { file }).await;
        }
        self.call(Call::Release { fh, flock_owner: Some(owner) }, Track::Unlock { file }).await.map(drop)
    }

    /// A file of its own: made, filled, perhaps unlinked while open, read back.
    async fn own_file(&mut self) -> Outcome<()> {
        let dir = self.places.own;
        let tag = self.tag().await;
        let own = Name::new(format!("own{tag}").as_bytes())?;
        let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
        let call = Call::Create { dir, name: own.clone(), mode: 0o600, umask: 0, flags, exclusive: true };
        let fh = self.call(call, Track::None).await?.fh.ok_or(FsError::Io)?;
        let early = self.rng.one_in(2);
        if early {
            let _ = self.call(Call::Op(Op::Unlink { dir, name: own.clone() }), Track::None).await;
        }
        let len = self.rng.pick(&[10usize, 200, 700]);
        let data: Arc<[u8]> = filled(tag, len).into();
        let call = Call::Write { fh, offset: 0, data: Arc::clone(&data), append: false, kill_priv: false };
        let wrote = self.call(call, Track::None).await;
        let pause = self.rng.below(self.think);
        self.sleep(pause).await;
        if wrote.is_ok() {
            let synced = self.call(Call::Fsync { fh, data_only: false }, Track::None).await;
            let read = self.call(Call::Read { fh, offset: 0, len: 4096 }, Track::None).await;
            if let (Ok(_), Ok(done)) = (synced, read)
                && done.answer != Answer::Bytes(data)
            {
                self.ask(Req::Wrong(format!("own file {tag} does not hold what was written and synced"))).await;
            }
        }
        self.release(Some(fh)).await?;
        if !early {
            let _ = self.call(Call::Op(Op::Unlink { dir, name: own }), Track::None).await;
        }
        Ok(())
    }
}
