//! One lane of a program that uses path functions: each call goes its whole path with as few requests as ranks can answer it with
//! ([`Call::Walk`](loligo_client::Call), and [`Call::Via`](loligo_client::Call) for what is done at its end), and nothing is cached but guesses of whom to
//! ask ([`Hints`]), and where directories are as long as that is promised ([`Hints::ways`]). As the driver's `AsyncFs` does it
//! (`driver/src/client/path.rs` and `path/walk.rs`). Left out of it: symbolic links, `.` and `..`, paths that end with `/`, and that a
//! path that has more names than one request may have is gone in parts only at the end of a request; workloads have none of these. Not
//! when it goes on: `clients.rs` wakes it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use loligo_client::{Asked, Call as Ask, Done, Failed, Fh, Hints, Lead};
use loligo_types::{Answer, FsError, Ino, Kind, Name, Op, OpenFlags, RenameMode, SetAttr, SetTime, Time, limits};
use loligo_workload::{Call, Path};

use crate::shell::Shell;

/// Entries asked for at a time, and bytes read at a time, as the driver's path functions do.
const ENTRIES: u32 = 1024;
const READ_MOST: u32 = 1 << 20;

/// Without chance, so that runs are the same each time.
pub type Guesses = Hints<BuildHasherDefault<DefaultHasher>>;

/// Target of a path.
enum Found {
    /// With its attributes.
    Attr(Ino, Kind),
    /// They are to be asked for.
    Only(Ino, Kind),
}

impl Found {
    fn place(&self) -> (Ino, Kind) {
        match self {
            Found::Attr(ino, kind) | Found::Only(ino, kind) => (*ino, *kind),
        }
    }
}

fn names(path: &Path) -> Result<VecDeque<Name>, FsError> {
    path.split('/').filter(|part| !part.is_empty()).map(|part| Name::new(part.as_bytes())).collect()
}

/// True if the request resolved names and did nothing else.
fn is_way_alone(answer: &Answer) -> bool {
    matches!(answer, Answer::Walked { last, .. } if !matches!(**last, Answer::Entries { .. }))
}

/// The call that does the same by number as an operation at the end of a way.
fn as_call(op: Op) -> Ask {
    match op {
        Op::Create { dir, name, mode, umask, flags, exclusive, .. } => {
            Ask::Create { dir, name, mode, umask, flags, exclusive }
        }
        Op::SetAttr { ino, set, .. } => Ask::SetAttr { ino, set, fh: None },
        op => Ask::Op(op),
    }
}

/// Takes the answer of a request that resolved these names.
fn went(
    hints: &RefCell<Guesses>,
    at: Ino,
    left: &mut VecDeque<Name>,
    names: &[Name],
    (asked, to_dir): (&Asked, bool),
    answer: Answer,
) -> Result<Found, Failed> {
    let Answer::Walked { done, last, by_path, .. } = answer else { return Err(FsError::Io.into()) };
    let count = names.len();
    let done = (done as usize).min(count);
    left.drain(..done);
    let mut hints = hints.borrow_mut();
    let found = match *last {
        Answer::Entry(attr) => Found::Attr(attr.ino, attr.kind),
        Answer::Remote { ino, kind, rank } => {
            // Whose the last name's directory is, or that directory itself: not who is to be asked on the way.
            if done + usize::from(!to_dir) == count {
                hints.put(asked, rank, ino);
            }
            Found::Only(ino, kind)
        }
        _ => return Err(FsError::Io.into()),
    };
    let dirs = done - usize::from(found.place().1 != Kind::Dir).min(done);
    hints.learn(at, &names[..dirs], by_path as usize);
    Ok(found)
}

impl Shell {
    /// Does a call; see [`crate::shell::Did::result`].
    pub(crate) async fn call_by_path(&self, hints: &RefCell<Guesses>, call: &Call) -> Result<u64, Failed> {
        match call {
            Call::Mkdir(path) => {
                let what = |dir, name| Op::Mkdir { dir, name, mode: 0o755, umask: 0 };
                let done = self.act_by_path(hints, path, what).await?;
                return Ok(done.attr().map_or(0, |attr| attr.ino.0));
            }
            Call::Create(path) => {
                let what = |dir, name| Op::Mknod { dir, name, kind: Kind::File, mode: 0o644, umask: 0, rdev: 0 };
                self.act_by_path(hints, path, what).await?;
            }
            Call::Stat(path) => self.stat_by_path(hints, path).await?,
            Call::Open(path) => self.read_by_path(hints, path).await?,
            Call::Readdir(path) => return self.list_by_path(hints, path).await,
            Call::Unlink(path) => {
                self.act_by_path(hints, path, |dir, name| Op::Unlink { dir, name }).await?;
            }
            Call::Rmdir(path) => {
                self.act_by_path(hints, path, |dir, name| Op::Rmdir { dir, name }).await?;
            }
            Call::Rename(from, to) => {
                let (dir, name) = self.place_by_path(hints, from).await?;
                let (new_dir, new_name) = self.place_by_path(hints, to).await?;
                self.ask(Ask::Op(Op::Rename { dir, name, new_dir, new_name, mode: RenameMode::Replace })).await?;
            }
            Call::Write(path, bytes) => self.write_by_path(hints, path, *bytes).await?,
            Call::Chmod(path, mode) => {
                self.set_by_path(hints, path, SetAttr { mode: Some(*mode), ..SetAttr::default() }).await?;
            }
            Call::Utimens(path) => {
                let mtime = Some(SetTime::At(Time(1_000_000_000)));
                self.set_by_path(hints, path, SetAttr { mtime, ..SetAttr::default() }).await?;
            }
        }
        Ok(0)
    }

    /// Goes as far as one request leads; `but` so many names at the end, which are left.
    async fn step(
        &self,
        hints: &RefCell<Guesses>,
        at: Ino,
        left: &mut VecDeque<Name>,
        but: usize,
    ) -> Result<Found, Failed> {
        let (names, lead) = self.lead(hints, at, left, but);
        if names.is_empty() {
            return Ok(Found::Only(lead.dir, Kind::Dir));
        }
        let (at, to_dir, sent_ms) = (lead.dir, but > 0, self.now_ms());
        let asked = hints.borrow().find(at, &names, to_dir);
        let call = Ask::Walk { dir: at, names: Arc::clone(&names), at: asked.at, to_dir, ways: Some(lead.depth) };
        let done = self.ask(call).await?;
        self.learn_ways(hints, &names, lead.depth, sent_ms, &done);
        went(hints, at, left, &names, (&asked, to_dir), done.answer)
    }

    fn now_ms(&self) -> u64 {
        self.now.get() / 1_000_000
    }

    /// Goes as far as lookup leases lead, but for so many names at the end. The names that come next.
    fn lead(&self, hints: &RefCell<Guesses>, at: Ino, left: &mut VecDeque<Name>, but: usize) -> (Arc<[Name]>, Lead) {
        let most = |left: &VecDeque<Name>| left.len().saturating_sub(but).min(limits::WALK_MAX);
        let names: Arc<[Name]> = left.iter().take(most(left)).cloned().collect();
        // What the last name leads to may be no directory, and if it is one its attributes may be wanted.
        let dirs = &names[..names.len() - usize::from(but == 0).min(names.len())];
        let lead = hints.borrow_mut().ways.lead(at, dirs, self.now_ms());
        if lead.names == 0 {
            return (names, lead);
        }
        left.drain(..lead.names);
        (left.iter().take(most(left)).cloned().collect(), lead)
    }

    fn learn_ways(&self, hints: &RefCell<Guesses>, names: &[Name], depth: u16, sent_ms: u64, done: &Done) {
        if !done.ways.is_empty() {
            hints.borrow_mut().ways.learn(names, &done.ways, depth, sent_ms, self.now_ms());
        }
    }

    /// Makes, opens or takes away the last name of a path, with the way there in one request where that can be.
    async fn act_by_path(
        &self,
        hints: &RefCell<Guesses>,
        path: &Path,
        what: impl Fn(Ino, Name) -> Op,
    ) -> Result<Done, Failed> {
        let mut left = names(path)?;
        let mut at = (Ino::ROOT, Kind::Dir);
        loop {
            let last = left.back().cloned().ok_or(FsError::Exists)?;
            if at.1 != Kind::Dir {
                return Err(FsError::NotDir.into());
            }
            if left.len() == 1 {
                return self.ask(as_call(what(at.0, last))).await;
            }
            if left.len() > limits::WALK_MAX {
                at = self.step(hints, at.0, &mut left, 1).await?.place();
                continue;
            }
            let (names, lead) = self.lead(hints, at.0, &mut left, 1);
            at.0 = lead.dir;
            if names.is_empty() {
                continue;
            }
            let (asked, sent_ms) = (hints.borrow().find(at.0, &names, true), self.now_ms());
            let (what, ways) = (Box::new(what(Ino(0), last)), Some(lead.depth));
            let done = self.ask(Ask::Via { dir: at.0, names: Arc::clone(&names), at: asked.at, what, ways }).await?;
            self.learn_ways(hints, &names, lead.depth, sent_ms, &done);
            if !is_way_alone(&done.answer) {
                return Ok(done);
            }
            at = went(hints, at.0, &mut left, &names, (&asked, true), done.answer)?.place();
        }
    }

    /// Does something of what a path leads to, with the way there in one request where that can be. A listing comes as it does at the end of a way.
    async fn act_on(
        &self,
        hints: &RefCell<Guesses>,
        path: &Path,
        what: impl Fn(Ino) -> Op,
    ) -> Result<Result<Done, (Ino, Kind)>, Failed> {
        let mut left = names(path)?;
        let mut at = (Ino::ROOT, Kind::Dir);
        while !left.is_empty() {
            if at.1 != Kind::Dir {
                return Err(FsError::NotDir.into());
            }
            if left.len() > limits::WALK_MAX {
                at = self.step(hints, at.0, &mut left, 0).await?.place();
                continue;
            }
            let (names, lead) = self.lead(hints, at.0, &mut left, 0);
            at.0 = lead.dir;
            let what = what(Ino(0));
            let to_dir = matches!(what, Op::Readdir { .. });
            let (asked, sent_ms) = (hints.borrow().find(at.0, &names, to_dir), self.now_ms());
            let (what, ways) = (Box::new(what), Some(lead.depth));
            let done = self.ask(Ask::Via { dir: at.0, names: Arc::clone(&names), at: asked.at, what, ways }).await?;
            self.learn_ways(hints, &names, lead.depth, sent_ms, &done);
            if !is_way_alone(&done.answer) {
                return Ok(Ok(done));
            }
            at = went(hints, at.0, &mut left, &names, (&asked, to_dir), done.answer)?.place();
        }
        Ok(Err(at))
    }

    /// Goes a path to its end; `but` so many names at its end.
    async fn go(&self, hints: &RefCell<Guesses>, left: &mut VecDeque<Name>, but: usize) -> Result<Found, Failed> {
        let mut found = Found::Only(Ino::ROOT, Kind::Dir);
        while left.len() > but {
            let (at, Kind::Dir) = found.place() else { return Err(FsError::NotDir.into()) };
            found = self.step(hints, at, left, but).await?;
        }
        Ok(found)
    }

    /// The directory and the last name of a path.
    async fn place_by_path(&self, hints: &RefCell<Guesses>, path: &Path) -> Result<(Ino, Name), Failed> {
        let mut left = names(path)?;
        let (dir, kind) = self.go(hints, &mut left, 1).await?.place();
        let name = left.pop_front().ok_or(FsError::Exists)?;
        if kind == Kind::Dir { Ok((dir, name)) } else { Err(FsError::NotDir.into()) }
    }

    async fn find_by_path(&self, hints: &RefCell<Guesses>, path: &Path) -> Result<Found, Failed> {
        self.go(hints, &mut names(path)?, 0).await
    }

    async fn stat_by_path(&self, hints: &RefCell<Guesses>, path: &Path) -> Result<(), Failed> {
        let mut again = true;
        loop {
            let Found::Only(ino, _) = self.find_by_path(hints, path).await? else { return Ok(()) };
            match self.ask(Ask::GetAttr { ino }).await {
                // What was found on the way is gone, or elsewhere, before it was asked for: the way is gone once more.
                Err(Failed { error: FsError::NotFound | FsError::Stale, .. }) if again => again = false,
                other => return other.map(drop),
            }
        }
    }

    async fn set_by_path(&self, hints: &RefCell<Guesses>, path: &Path, set: SetAttr) -> Result<(), Failed> {
        let what = |ino| Op::SetAttr { ino, set: set.clone(), handle: None };
        match self.act_on(hints, path, what).await? {
            Ok(_) => Ok(()),
            Err((ino, _)) => self.ask(as_call(what(ino))).await.map(drop),
        }
    }

    async fn opened(&self, ask: Ask) -> Result<Fh, Failed> {
        Ok(self.ask(ask).await?.fh.ok_or(FsError::Io)?)
    }

    async fn opened_by_path(&self, hints: &RefCell<Guesses>, path: &Path, flags: OpenFlags) -> Result<Fh, Failed> {
        match self.act_on(hints, path, |ino| Op::Open { ino, flags, handle: 0 }).await? {
            Ok(done) => Ok(done.fh.ok_or(FsError::Io)?),
            Err((ino, _)) => self.opened(Ask::Open { ino, flags }).await,
        }
    }

    async fn closed(&self, fh: Fh) -> Result<(), Failed> {
        self.ask(Ask::Flush { fh, owner: None }).await?;
        self.ask(Ask::Release { fh, flock_owner: None }).await.map(drop)
    }

    async fn read_by_path(&self, hints: &RefCell<Guesses>, path: &Path) -> Result<(), Failed> {
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let fh = self.opened_by_path(hints, path, flags).await?;
        let mut offset = 0;
        // To the first part that is empty, which the client machine may know without asking.
        loop {
            let Answer::Bytes(bytes) = self.ask(Ask::Read { fh, offset, len: READ_MOST }).await?.answer else {
                return Err(FsError::Io.into());
            };
            if bytes.is_empty() {
                return self.closed(fh).await;
            }
            offset += bytes.len() as u64;
        }
    }

    async fn write_by_path(&self, hints: &RefCell<Guesses>, path: &Path, bytes: u32) -> Result<(), Failed> {
        let flags = OpenFlags { write: true, truncate: true, ..OpenFlags::default() };
        let create = |dir, name| Op::Create { dir, name, mode: 0o644, umask: 0, flags, exclusive: false, handle: 0 };
        let fh = self.act_by_path(hints, path, create).await?.fh.ok_or(FsError::Io)?;
        let data: Arc<[u8]> = vec![b'x'; bytes as usize].into();
        self.ask(Ask::Write { fh, offset: 0, data, append: false, kill_priv: false }).await?;
        self.closed(fh).await
    }

    async fn list_by_path(&self, hints: &RefCell<Guesses>, path: &Path) -> Result<u64, Failed> {
        let list = |dir| Op::Readdir { dir, cookie: 0, limit: ENTRIES, plus: false, handle: None };
        let (ino, first) = match self.act_on(hints, path, list).await? {
            Ok(Done { answer: Answer::Walked { dir, last, .. }, .. }) => (dir, *last),
            Err((dir, Kind::Dir)) => (dir, self.ask(Ask::Op(list(dir))).await?.answer),
            Ok(_) => return Err(FsError::Io.into()),
            Err(_) => return Err(FsError::NotDir.into()),
        };
        let Answer::Entries { entries, next, end } = first else { return Err(FsError::Io.into()) };
        let (mut cookie, mut count) = (next, entries.len() as u64);
        if end {
            return Ok(count);
        }
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let fh = self.opened(Ask::Open { ino, flags }).await?;
        loop {
            let done = self.ask(Ask::Readdir { fh, cookie, limit: ENTRIES, plus: false }).await?;
            let Answer::Entries { entries, next, end } = &done.answer else { return Err(FsError::Io.into()) };
            count += entries.len() as u64;
            if *end || *next <= cookie {
                break;
            }
            cookie = *next;
        }
        self.closed(fh).await?;
        Ok(count)
    }
}
