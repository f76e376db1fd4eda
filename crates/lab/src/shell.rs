//! One lane of a program: walks paths through what is cached, and turns each call of the workload into calls of a client machine,
//! as a kernel with a mount does, or (`by_path.rs`) as a program that uses path functions. Not when it goes on: `clients.rs` wakes it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use loligo_client::{Call as Ask, CallResult, Done, Failed};
use loligo_types::{Answer, FsError, Ino, Kind, Name, Op, OpenFlags, RenameMode, SetAttr, SetTime, Time};
use loligo_workload::{Call, Item, Lane, Path, Rng};

use crate::by_path::Guesses;
use crate::kernel::{Found, Kernel};

/// Nanoseconds that a program takes between two calls.
const STEP_NS: u64 = 1000;
/// Entries asked for at a time.
const ENTRIES: u32 = 1000;
/// Bytes read at a time.
const READ_BYTES: u32 = 128 << 10;

/// Wish of a lane.
pub enum Want {
    /// A call of the client machine.
    Ask(Ask),
    /// To go on after so many nanoseconds.
    Sleep(u64),
    /// To go on when all have come to a mark.
    Mark(Arc<str>),
    /// The result of another lane's lookup.
    Found,
}

/// Reply to a lane.
pub enum Reply {
    /// The answer.
    Done(Box<CallResult>),
    /// Result of the other lane's lookup.
    Found(Found),
    /// It may go on.
    Woken,
}

/// Between a lane and who runs it.
#[derive(Default)]
pub struct Mail {
    /// Its wish.
    pub want: Option<Want>,
    /// The reply to it.
    pub reply: Option<Reply>,
}

/// A call of the workload was answered.
pub struct Did {
    /// Which.
    pub call: Call,
    /// Nanoseconds that it took.
    pub took: u64,
    /// So many marks its lane had come to before.
    pub marks: usize,
    /// Number of entries of a listing; inode of a `mkdir`.
    pub result: Result<u64, FsError>,
}

/// Calls of a lane.
pub struct Shell {
    pub mail: Rc<RefCell<Mail>>,
    pub kernel: Rc<RefCell<Kernel>>,
    /// If it asks by path: whom.
    pub hints: Option<Rc<RefCell<Guesses>>>,
    /// Nanoseconds.
    pub now: Rc<Cell<u64>>,
    /// When the first call may be made.
    pub start: u64,
    /// Where it says what it did.
    pub did: Rc<RefCell<Vec<(usize, Did)>>>,
    /// Which client it is of.
    pub client: usize,
    /// Which of the client's lanes it is.
    pub lane: usize,
    pub think_ns: u64,
    pub rng: Rng,
    /// So many marks it has come to.
    pub marks: usize,
}

struct Wait<'a>(&'a RefCell<Mail>);

impl Future for Wait<'_> {
    type Output = Reply;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Reply> {
        self.0.borrow_mut().reply.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl Shell {
    /// Makes all calls of a lane.
    pub async fn run(mut self, lane: Lane) {
        // It is woken when it is to begin.
        Wait(&self.mail).await;
        for item in lane {
            match item {
                Item::Call(call) => self.one(call).await,
                Item::Until(us) => {
                    let rest = (self.start + us * 1000).saturating_sub(self.now.get());
                    if rest > 0 {
                        self.want(Want::Sleep(rest)).await;
                    }
                }
                Item::Mark(name) => {
                    self.want(Want::Mark(name)).await;
                    self.marks += 1;
                }
            }
        }
    }

    async fn one(&mut self, call: Call) {
        let begun = self.now.get();
        let result = match &self.hints {
            Some(hints) => self.call_by_path(hints, &call).await,
            None => self.call(&call).await,
        };
        let (result, took) = (result.map_err(|failed| failed.error), self.now.get() - begun);
        self.did.borrow_mut().push((self.client, Did { call, took, marks: self.marks, result }));
        let think = match self.think_ns {
            0 => 0,
            // So that lanes do not keep in step.
            think => think / 2 + self.rng.below(think),
        };
        self.want(Want::Sleep(STEP_NS + think)).await;
    }

    async fn want(&self, want: Want) -> Reply {
        self.mail.borrow_mut().want = Some(want);
        Wait(&self.mail).await
    }

    pub(crate) async fn ask(&self, ask: Ask) -> CallResult {
        match self.want(Want::Ask(ask)).await {
            Reply::Done(result) => *result,
            Reply::Found(_) | Reply::Woken => Err(FsError::Io.into()),
        }
    }

    /// Does a call; see [`Did::result`].
    async fn call(&self, call: &Call) -> Result<u64, Failed> {
        match call {
            Call::Mkdir(path) => {
                return self.make(path, |dir, name| Op::Mkdir { dir, name, mode: 0o755, umask: 0 }).await;
            }
            Call::Create(path) => {
                let op = |dir, name| Op::Mknod { dir, name, kind: Kind::File, mode: 0o644, umask: 0, rdev: 0 };
                self.make(path, op).await?;
            }
            Call::Stat(path) => {
                let (ino, _) = self.find(path).await?;
                if self.kernel.borrow().attr(ino).is_none() {
                    self.attr(Ask::GetAttr { ino }).await?;
                }
            }
            Call::Open(path) => self.read(path).await?,
            Call::Readdir(path) => return self.list(path).await,
            Call::Unlink(path) => self.remove(path, |dir, name| Op::Unlink { dir, name }).await?,
            Call::Rmdir(path) => self.remove(path, |dir, name| Op::Rmdir { dir, name }).await?,
            Call::Rename(from, to) => {
                let ((dir, name), (new_dir, new_name)) = (self.place(from).await?, self.place(to).await?);
                {
                    let mut kernel = self.kernel.borrow_mut();
                    kernel.forget(dir, &name);
                    kernel.forget(new_dir, &new_name);
                }
                self.ask(Ask::Op(Op::Rename { dir, name, new_dir, new_name, mode: RenameMode::Replace })).await?;
            }
            Call::Write(path, bytes) => self.write(path, *bytes).await?,
            Call::Chmod(path, mode) => self.set(path, SetAttr { mode: Some(*mode), ..SetAttr::default() }).await?,
            Call::Utimens(path) => {
                let mtime = Some(SetTime::At(Time(1_000_000_000)));
                self.set(path, SetAttr { mtime, ..SetAttr::default() }).await?;
            }
        }
        Ok(0)
    }

    /// The directory and the last name of a path.
    async fn place(&self, path: &Path) -> Result<(Ino, Name), Failed> {
        let mut names = path.split('/').filter(|name| !name.is_empty()).peekable();
        let mut dir = Ino::ROOT;
        while let Some(text) = names.next() {
            let name = Name::new(text.as_bytes())?;
            if names.peek().is_none() {
                return Ok((dir, name));
            }
            dir = self.look(dir, &name, false).await?.0;
        }
        Err(FsError::Invalid.into())
    }

    async fn find(&self, path: &Path) -> Result<(Ino, Kind), Failed> {
        if &**path == "/" {
            return Ok((Ino::ROOT, Kind::Dir));
        }
        let (dir, name) = self.place(path).await?;
        self.look(dir, &name, true).await
    }

    /// Target of a name. `last`: it is the last component of its path.
    async fn look(&self, dir: Ino, name: &Name, last: bool) -> Result<(Ino, Kind), Failed> {
        let known = self.kernel.borrow().name(dir, name);
        let found = match known {
            Some(known) => known.ok_or(FsError::NotFound)?,
            None if !self.kernel.borrow_mut().begin_look(dir, name, self.lane) => match self.want(Want::Found).await {
                Reply::Found(found) => found?,
                Reply::Done(_) | Reply::Woken => return Err(FsError::Io.into()),
            },
            None => {
                let result = self.ask(Ask::Op(Op::Lookup { dir, name: name.clone() })).await;
                let mut kernel = self.kernel.borrow_mut();
                kernel.learn(dir, name, &result);
                kernel.learn_attr(&result);
                let found = match &result {
                    Ok(done) => done.attr().map(|attr| (attr.ino, attr.kind)).ok_or(FsError::Io),
                    Err(failed) => Err(failed.error),
                };
                kernel.end_look(dir, name, found);
                found?
            }
        };
        if !last && found.1 != Kind::Dir { Err(FsError::NotDir.into()) } else { Ok(found) }
    }

    async fn make(&self, path: &Path, op: impl Fn(Ino, Name) -> Op) -> Result<u64, Failed> {
        let (dir, name) = self.place(path).await?;
        let result = self.ask(Ask::Op(op(dir, name.clone()))).await;
        let mut kernel = self.kernel.borrow_mut();
        kernel.learn(dir, &name, &result);
        kernel.learn_attr(&result);
        Ok(result?.attr().map_or(0, |attr| attr.ino.0))
    }

    async fn remove(&self, path: &Path, op: impl Fn(Ino, Name) -> Op) -> Result<(), Failed> {
        let (dir, name) = self.place(path).await?;
        self.kernel.borrow_mut().forget(dir, &name);
        self.ask(Ask::Op(op(dir, name))).await?;
        Ok(())
    }

    async fn attr(&self, ask: Ask) -> Result<Done, Failed> {
        let result = self.ask(ask).await;
        self.kernel.borrow_mut().learn_attr(&result);
        result
    }

    async fn set(&self, path: &Path, set: SetAttr) -> Result<(), Failed> {
        let (ino, _) = self.find(path).await?;
        self.kernel.borrow_mut().forget_attr(ino);
        self.attr(Ask::SetAttr { ino, set, fh: None }).await?;
        Ok(())
    }

    async fn read(&self, path: &Path) -> Result<(), Failed> {
        let (ino, _) = self.find(path).await?;
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let done = self.attr(Ask::Open { ino, flags }).await?;
        let (Some(fh), size) = (done.fh, done.attr().map_or(0, |attr| attr.size)) else {
            return Err(FsError::Io.into());
        };
        let mut offset = 0;
        while offset < size {
            self.ask(Ask::Read { fh, offset, len: READ_BYTES }).await?;
            offset += u64::from(READ_BYTES);
        }
        self.ask(Ask::Release { fh, flock_owner: None }).await?;
        Ok(())
    }

    async fn write(&self, path: &Path, bytes: u32) -> Result<(), Failed> {
        let (dir, name) = self.place(path).await?;
        let flags = OpenFlags { write: true, truncate: true, ..OpenFlags::default() };
        let create = Ask::Create { dir, name: name.clone(), mode: 0o644, umask: 0, flags, exclusive: false };
        let result = self.ask(create).await;
        {
            let mut kernel = self.kernel.borrow_mut();
            kernel.learn(dir, &name, &result);
            kernel.learn_attr(&result);
        }
        let done = result?;
        let (Some(fh), Some(ino)) = (done.fh, done.attr().map(|attr| attr.ino)) else { return Err(FsError::Io.into()) };
        let data: Arc<[u8]> = vec![b'x'; bytes as usize].into();
        self.ask(Ask::Write { fh, offset: 0, data, append: false, kill_priv: false }).await?;
        self.kernel.borrow_mut().forget_attr(ino);
        self.ask(Ask::Flush { fh, owner: None }).await?;
        self.ask(Ask::Release { fh, flock_owner: None }).await?;
        Ok(())
    }

    async fn list(&self, path: &Path) -> Result<u64, Failed> {
        let (ino, _) = self.find(path).await?;
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let fh = self.attr(Ask::Open { ino, flags }).await?.fh.ok_or(FsError::Io)?;
        let (mut cookie, mut count) = (0, 0);
        loop {
            let done = self.ask(Ask::Readdir { fh, cookie, limit: ENTRIES, plus: false }).await?;
            let Answer::Entries { entries, next, end } = &done.answer else { return Err(FsError::Io.into()) };
            count += entries.len() as u64;
            if *end {
                break;
            }
            cookie = *next;
        }
        self.ask(Ask::Release { fh, flock_owner: None }).await?;
        Ok(count)
    }
}
