//! A program that decouples a directory, works in it and merges, as a client would that has it for itself; and one that looks at such
//! directories meanwhile. What may come of it is judged by [`crate::subtrees`].

use std::rc::Rc;
use std::sync::Arc;

use loligo_client::Call;
use loligo_subtree::{Group, Outcome as Run, Settings, Subtree};
use loligo_types::{
    Answer, Control, Cred, DecoupledRecord, FsError, FsResult, Ino, Inode, Interfere, Kind, Loaded, MergeInto, Name,
    Op, OpenFlags, RenameMode, SetAttr, SetTime, SubtreeAnswer, SubtreeOp, Time,
};

use crate::data::filled;
use crate::shared::Mine;
use crate::subtrees::{Guard, Left, Sight, State, Thing};

use super::{Outcome, Req, Shell, Track};

/// Number of tries of something that may go well the next time.
pub(super) const TRIES: usize = 60;
/// Between that, microseconds.
pub(super) const PAUSE_US: u64 = 40_000;
/// The names in decoupled directories.
const OWN_NAMES: [&str; 6] = ["p", "q", "r", "s", "t", "u"];

/// Why an owner stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// It is not its any more.
    Lost,
    /// Nothing comes of it.
    GivesUp,
}

/// A subtree that this program has.
pub(super) struct Own {
    pub dir: Ino,
    pub owner: u64,
    pub subtree: Subtree,
    /// Directories and files that were there when it was last looked at, or made since.
    pub dirs: Vec<Ino>,
    pub files: Vec<Ino>,
    /// Its changes in a directory where others work, too.
    pub mine: Mine,
}

impl Own {
    /// It was just decoupled.
    pub fn new(dir: Ino, owner: u64, subtree: Subtree) -> Own {
        Own { dir, owner, subtree, dirs: Vec::new(), files: Vec::new(), mine: Mine::default() }
    }
}

pub(super) type Told = (DecoupledRecord, Inode, Settings);

/// True if an error says nothing about the subtree.
pub(super) fn is_passing(error: FsError) -> bool {
    matches!(error, FsError::Io | FsError::Unavailable | FsError::Interrupted | FsError::NoSpace | FsError::BadHandle)
}

impl Shell {
    /// Works in a directory that nobody else changes, or looks at it.
    pub(super) async fn job(&mut self) -> Outcome<()> {
        let dir = self.jobs.borrow().some_job(&mut self.rng);
        if !self.rng.one_in(5) {
            return self.look(dir).await;
        }
        let left = if self.rng.one_in(2) { self.jobs.borrow_mut().take_left(dir) } else { None };
        let mut left = left.unwrap_or(Left { dir, owner: self.id, epoch: 0 });
        let lease_ms = self.rng.pick(&[300, 1500, 4000]);
        let keeps = self.jobs.borrow().keeps;
        let told = self.decouple(left.dir, left.owner, left.epoch, lease_ms).await;
        if left.epoch != 0 && matches!(told, Err(FsError::Busy)) {
            // The rank has not heard yet that its owner is gone.
            self.jobs.borrow_mut().put_back(left);
        }
        let (record, root, settings) = match told {
            Err(FsError::Busy) if keeps => {
                left.owner = 1 << 32 | u64::from(self.tag().await);
                self.take_over(left.dir, left.owner).await?
            }
            told => told?,
        };
        let left = Left { epoch: record.epoch, ..left };
        let mut guard = Guard { jobs: Rc::clone(&self.jobs), left, lives: true };
        let mut own = Own::new(dir, left.owner, Subtree::new(settings, record, root));
        let begun = self.merge_stored(&mut own).await;
        let done = if begun.is_ok() { self.work(&mut own).await } else { begun };
        match done {
            Ok(()) => {}
            Err(End::Lost) => self.jobs.borrow_mut().counts.lost += 1,
            Err(End::GivesUp) => {
                let _ = self.end(&mut own).await;
            }
        }
        guard.lives = false;
        Ok(())
    }

    pub(super) fn now(&self) -> u64 {
        self.jobs.borrow().now
    }

    pub(super) async fn wrong(&self, text: String) {
        self.ask(Req::Wrong(text)).await;
    }

    pub(super) async fn subtree_call(&self, dir: Ino, what: SubtreeOp) -> FsResult<Answer> {
        self.call(Call::Op(Op::Control(Control::Subtree { dir, what: Box::new(what) })), Track::None)
            .await
            .map(|done| done.answer)
    }

    /// Until it is known whether this program has it.
    pub(super) async fn decouple(&mut self, dir: Ino, owner: u64, resume: u64, lease_ms: u32) -> FsResult<Told> {
        let inos = self.rng.range(3, 40);
        let allows = self.jobs.borrow().shared.root == dir;
        let interfere = match (allows, self.jobs.borrow().readers) {
            (true, _) => Interfere::Allow,
            (_, true) => Interfere::Read,
            _ => Interfere::Block,
        };
        let mut stale = 0;
        for _ in 0..TRIES {
            let begun = self.now();
            match self
                .subtree_call(
                    dir,
                    SubtreeOp::Decouple {
                        owner,
                        resume,
                        inos,
                        lease_ms,
                        interfere,
                        promise: loligo_types::Promise::NONE,
                    },
                )
                .await
            {
                Ok(answer @ Answer::Subtree(_)) => match self.told(dir, begun, answer) {
                    Some(told) => return Ok(told),
                    None => break,
                },
                // It may also be this client that says so, whose session was lost.
                Err(FsError::Stale) if stale < 3 => stale += 1,
                Err(error) if is_passing(error) => {}
                Err(error @ (FsError::Busy | FsError::Stale)) => return Err(error),
                other => {
                    self.wrong(format!("directory {dir} is not decoupled: {other:?}")).await;
                    return Err(FsError::Io);
                }
            }
            self.sleep(PAUSE_US).await;
        }
        Err(FsError::Unavailable)
    }

    /// It is decoupled, and this program has it.
    pub(super) fn told(&self, dir: Ino, begun: u64, answer: Answer) -> Option<Told> {
        let Answer::Subtree(answer) = answer else { return None };
        let SubtreeAnswer::Decoupled { record, root, inline_max, split } = *answer else { return None };
        let mut jobs = self.jobs.borrow_mut();
        jobs.decoupled(dir, record.epoch);
        jobs.heard(dir, record.epoch, begun);
        // An owner of before may have died without having heard of its last one.
        jobs.kept.merged(dir, record.merges);
        let settings = Settings { hash_key: jobs.hash_key, inline_max, split };
        Some((record, *root, settings))
    }

    /// Goes on with it in the session that the client has now.
    pub(super) async fn resume(&mut self, own: &mut Own) -> Result<DecoupledRecord, End> {
        let epoch = own.subtree.record().epoch;
        match self.decouple(own.dir, own.owner, epoch, 1000).await {
            Ok((record, ..)) if record.epoch == epoch => Ok(record),
            Ok((record, ..)) => {
                self.wrong(format!("asked to go on with {epoch} it gave {record:?}")).await;
                Err(End::Lost)
            }
            Err(FsError::Unavailable) => Err(End::GivesUp),
            Err(_) => Err(End::Lost),
        }
    }

    /// Asks until there is an answer.
    pub(super) async fn ask_rank(&mut self, own: &mut Own, what: SubtreeOp) -> Result<Answer, End> {
        let epoch = own.subtree.record().epoch;
        for _ in 0..TRIES {
            let begun = self.now();
            match self.subtree_call(own.dir, what.clone()).await {
                Ok(answer) => {
                    self.jobs.borrow_mut().heard(own.dir, epoch, begun);
                    return Ok(answer);
                }
                Err(FsError::Stale) => drop(self.resume(own).await?),
                // More numbers than it may have.
                Err(FsError::Quota) => return Err(End::GivesUp),
                Err(error) if is_passing(error) => {}
                // A file that lives by itself at another rank, and does not come.
                Err(FsError::Busy) if matches!(what, SubtreeOp::Fetch { .. }) => {}
                Err(error) => {
                    self.wrong(format!("{what:?} of {} was answered {error:?}", own.dir)).await;
                    return Err(End::GivesUp);
                }
            }
            self.sleep(PAUSE_US).await;
        }
        Err(End::GivesUp)
    }

    /// One operation in the subtree.
    pub(super) async fn run_in(&mut self, own: &mut Own, op: &Op) -> Result<FsResult<Answer>, End> {
        for _ in 0..200 {
            let now = Time(self.now() as i64 * 1000);
            let epoch = own.subtree.record().epoch;
            match own.subtree.run(op, &Cred::root(), now) {
                Run::Done(result) => return Ok(result),
                Run::Fetch(needs) => {
                    let answer = self.ask_rank(own, SubtreeOp::Fetch { epoch, needs }).await?;
                    if let Answer::Subtree(answer) = answer
                        && let SubtreeAnswer::Records(items) = *answer
                    {
                        let now = self.now();
                        let fetched = |item: &Loaded| match item {
                            Loaded::Inode(ino, _) | Loaded::Inline(ino, _) => Some((*ino, now)),
                            _ => None,
                        };
                        own.mine.fetched.extend(items.iter().filter_map(fetched));
                        own.subtree.learn(items);
                    }
                }
                Run::Numbers => {
                    let inos = self.rng.range(1, 20);
                    let answer = self.ask_rank(own, SubtreeOp::Grant { epoch, inos }).await?;
                    if let Answer::Subtree(answer) = answer
                        && let SubtreeAnswer::Decoupled { record, .. } = *answer
                    {
                        own.subtree.take_record(record);
                    }
                }
            }
        }
        self.wrong(format!("{op:?} in {} never ends", own.dir)).await;
        Err(End::GivesUp)
    }

    /// The same where it must go well.
    async fn must_in(&mut self, own: &mut Own, op: Op) -> Result<Answer, End> {
        match self.run_in(own, &op).await? {
            Ok(answer) => Ok(answer),
            Err(error) => {
                self.wrong(format!("{op:?} in {} cannot be done: {error}", own.dir)).await;
                Err(End::GivesUp)
            }
        }
    }

    /// All that is there, as the owner sees it.
    async fn walk(&mut self, own: &mut Own) -> Result<State, End> {
        let (mut state, mut todo) = (State::new(), vec![own.dir]);
        while let Some(ino) = todo.pop() {
            let Some(attr) = self.must_in(own, Op::GetAttr { ino }).await?.attr().copied() else { continue };
            let mode = if ino == own.dir { 0 } else { attr.mode };
            let mut thing = Thing { kind: attr.kind, mode, nlink: attr.nlink, size: attr.size, ..Thing::root() };
            if attr.kind == Kind::File {
                if let Answer::Bytes(bytes) = self.must_in(own, Op::ReadInline { ino, handle: 1 }).await? {
                    thing.data = bytes.to_vec();
                }
            } else {
                let mut from = 0;
                loop {
                    let op = Op::Readdir { dir: ino, cookie: from, limit: 4, plus: false, handle: None };
                    let Answer::Entries { entries, next, end } = self.must_in(own, op).await? else { break };
                    for entry in entries {
                        if !state.contains_key(&entry.ino) {
                            todo.push(entry.ino);
                        }
                        thing.entries.insert(entry.name.as_bytes().to_vec(), entry.ino);
                    }
                    if end {
                        break;
                    }
                    from = next;
                }
            }
            state.insert(ino, thing);
        }
        let of = |kind| move |(_, thing): &(&Ino, &Thing)| thing.kind == kind;
        own.dirs = state.iter().filter(of(Kind::Dir)).map(|(ino, _)| *ino).collect();
        own.files = state.iter().filter(of(Kind::File)).map(|(ino, _)| *ino).collect();
        Ok(state)
    }

    async fn work(&mut self, own: &mut Own) -> Result<(), End> {
        let state = self.walk(own).await?;
        self.jobs.borrow_mut().found(own.dir, &state);
        for _ in 0..self.rng.range(1, 3) {
            for _ in 0..self.rng.range(1, 14) {
                self.change(own).await?;
                if self.rng.one_in(3) {
                    // What is done next goes into another part.
                    own.subtree.groups();
                }
                let pause = self.rng.below(self.think / 4);
                self.sleep(pause).await;
            }
            let after = self.walk(own).await?;
            if self.rng.one_in(8) {
                // What was not merged is not there.
                break;
            }
            if self.jobs.borrow().keeps && self.rng.one_in(2) {
                self.keep(own, &after).await?;
                if self.rng.one_in(8) {
                    // What it leaves is another's to merge.
                    self.ask(Req::Crash).await;
                }
                let pause = self.rng.below(self.think * 4);
                self.sleep(pause).await;
                if self.rng.one_in(4) {
                    // It makes more first.
                    continue;
                }
                self.merge(own, &after).await?;
                if self.rng.one_in(2) {
                    self.void(own).await?;
                }
                continue;
            }
            self.merge(own, &after).await?;
        }
        self.end(own).await
    }

    pub(super) fn own_name(&mut self) -> Name {
        Name::new(self.rng.pick(&OWN_NAMES).as_bytes()).expect("the names are valid")
    }

    /// A random change; that it cannot be done is as good.
    async fn change(&mut self, own: &mut Own) -> Result<(), End> {
        let (dir, name) = (self.rng.pick(&own.dirs), self.own_name());
        let mode = 0o600 + self.rng.below(64) as u16;
        let op = match self.rng.below(14) {
            0..4 => {
                let flags = OpenFlags { write: true, ..OpenFlags::default() };
                let op = Op::Create { dir, name, mode, umask: 0, flags, exclusive: false, handle: 1 };
                if let Ok(answer) = self.run_in(own, &op).await?
                    && let Some(attr) = answer.attr().copied()
                {
                    own.files.push(attr.ino);
                    self.write(own, attr.ino).await?;
                }
                return Ok(());
            }
            4 if !own.files.is_empty() => {
                let file = self.rng.pick(&own.files);
                return self.write(own, file).await;
            }
            5 if !own.files.is_empty() => {
                let ino = self.rng.pick(&own.files);
                if self.run_in(own, &Op::Link { ino, dir, name }).await?.is_ok() {
                    self.jobs.borrow_mut().links(ino);
                }
                return Ok(());
            }
            6 if !own.files.is_empty() => {
                let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
                Op::SetAttr { ino: self.rng.pick(&own.files), set, handle: None }
            }
            4..8 => {
                if let Ok(answer) = self.run_in(own, &Op::Mkdir { dir, name, mode: 0o700, umask: 0 }).await?
                    && let Some(attr) = answer.attr()
                {
                    own.dirs.push(attr.ino);
                }
                return Ok(());
            }
            8..10 => Op::Unlink { dir, name },
            10 => Op::Rmdir { dir, name },
            _ => {
                let mode = self.rng.pick(&[RenameMode::Replace, RenameMode::Replace, RenameMode::Exchange]);
                Op::Rename { dir, name, new_dir: self.rng.pick(&own.dirs), new_name: self.own_name(), mode }
            }
        };
        self.run_in(own, &op).await.map(drop)
    }

    async fn write(&mut self, own: &mut Own, ino: Ino) -> Result<(), End> {
        let tag = self.tag().await;
        let (offset, len) = (self.rng.below(20), self.rng.range(1, 100));
        let data: Arc<[u8]> = filled(tag, len as usize).into();
        let op = Op::WriteInline { ino, handle: 1, offset: Some(offset), data, mtime: SetTime::Now, kill_priv: false };
        self.run_in(own, &op).await.map(drop)
    }

    /// Sends what was made in parts, and has it become true.
    async fn merge(&mut self, own: &mut Own, after: &State) -> Result<(), End> {
        // It is little: there is one group at most.
        let Some(Group { parts, used, .. }) = own.subtree.groups().pop() else { return Ok(()) };
        self.merge_parts(own, &parts, used, after).await
    }

    /// The same of these parts, whoever made them.
    pub(super) async fn merge_parts(
        &mut self,
        own: &mut Own,
        parts: &[Arc<[u8]>],
        used: Ino,
        after: &State,
    ) -> Result<(), End> {
        let (dir, epoch) = (own.dir, own.subtree.record().epoch);
        let merge = own.subtree.record().merges + 1;
        let mut refused = 0;
        for _ in 0..TRIES {
            let mut failed = None;
            for (part, body) in (0..).zip(parts) {
                let begun = self.now();
                let what = SubtreeOp::Part { epoch, merge, part, blind: false, body: Arc::clone(body) };
                match self.subtree_call(dir, what).await {
                    Ok(_) => self.jobs.borrow_mut().heard(dir, epoch, begun),
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
            }
            if failed.is_none() {
                if self.rng.one_in(3) {
                    let pause = self.rng.below(self.think * 4);
                    self.sleep(pause).await;
                }
                self.jobs.borrow_mut().sends(dir, after);
                let begun = self.now();
                let what =
                    SubtreeOp::Merge { epoch, merge, parts: parts.len() as u32, used, into: into_of(epoch, merge) };
                match self.subtree_call(dir, what).await {
                    Ok(answer) => {
                        let mut jobs = self.jobs.borrow_mut();
                        if let Answer::Subtree(answer) = answer
                            && let SubtreeAnswer::Merged { conflicts, .. } = *answer
                        {
                            jobs.shared.counts.conflicts += conflicts;
                        }
                        jobs.heard(dir, epoch, begun);
                        jobs.merged(dir, after);
                        jobs.kept.merged(dir, merge);
                        own.subtree.merged(merge, used);
                        return Ok(());
                    }
                    Err(error) => failed = Some(error),
                }
            }
            self.jobs.borrow_mut().counts.again += 1;
            match failed {
                Some(FsError::WouldBlock) | None => continue,
                Some(FsError::Quota) => return Err(End::GivesUp),
                // A merge that was given up may have become true since.
                Some(FsError::Invalid) if refused < 3 => refused += 1,
                Some(error) if is_passing(error) || error == FsError::Stale => {}
                Some(error) => {
                    self.wrong(format!("a merge into {dir} was refused: {error:?}")).await;
                    return Err(End::GivesUp);
                }
            }
            self.sleep(PAUSE_US).await;
            if self.resume(own).await?.merges == merge {
                let mut jobs = self.jobs.borrow_mut();
                jobs.merged(dir, after);
                jobs.kept.merged(dir, merge);
                drop(jobs);
                own.subtree.merged(merge, used);
                return Ok(());
            }
        }
        Err(End::GivesUp)
    }

    pub(super) async fn end(&mut self, own: &mut Own) -> Result<(), End> {
        let epoch = own.subtree.record().epoch;
        self.jobs.borrow_mut().kept.ends(own.dir);
        self.ask_rank(own, SubtreeOp::End { epoch }).await.map(drop)
    }

    // Those who look.

    /// Looks at something in the directory, or at itself; or changes its mode, which is not decoupled.
    async fn look(&mut self, root: Ino) -> Outcome<()> {
        let result = match self.rng.below(12) {
            0 => {
                // Nobody else may write there.
                let set = SetAttr { mode: Some(0o700 + (self.rng.below(8) as u16 & 5)), ..SetAttr::default() };
                self.call(Call::SetAttr { ino: root, set, fh: None }, Track::None).await.map(drop)
            }
            1 | 2 => self.look_at_root(root).await,
            3..6 => self.look_at_list(root).await,
            6..8 => self.try_names(root).await,
            8 => self.try_inside(root).await,
            _ => self.look_at_name(root).await,
        };
        if result == Err(FsError::Busy) {
            self.jobs.borrow_mut().counts.busy += 1;
        }
        result
    }

    async fn look_at_root(&mut self, root: Ino) -> Outcome<()> {
        let begun = self.now();
        let done = self.call(Call::GetAttr { ino: root }, Track::None).await?;
        if let Some(attr) = done.attr() {
            self.jobs.borrow_mut().see(root, begun, Sight::Root(attr.size, attr.nlink));
        }
        Ok(())
    }

    async fn look_at_list(&mut self, root: Ino) -> Outcome<()> {
        let dir = self.jobs.borrow().some_dir(root, &mut self.rng);
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let fh = self.call(Call::Open { ino: dir, flags }, Track::None).await?.fh.ok_or(FsError::Io)?;
        let (begun, plus) = (self.now(), self.rng.one_in(2));
        let listed = self.call(Call::Readdir { fh, cookie: 0, limit: 100, plus }, Track::Merged).await;
        if let Ok(done) = &listed
            && let Answer::Entries { entries, end: true, .. } = &done.answer
        {
            let names = entries.iter().map(|entry| (entry.name.as_bytes().to_vec(), entry.ino)).collect();
            self.jobs.borrow_mut().see(root, begun, Sight::List(dir, names));
        }
        self.release(Some(fh)).await?;
        listed.map(drop)
    }

    async fn look_at_name(&mut self, root: Ino) -> Outcome<()> {
        let dir = self.jobs.borrow().some_dir(root, &mut self.rng);
        let (name, begun) = (self.own_name(), self.now());
        let call = Call::Op(Op::Lookup { dir, name: name.clone() });
        let found = match self.call(call, Track::None).await {
            Ok(done) => done.attr().copied(),
            Err(FsError::NotFound) => None,
            Err(error) => return Err(error),
        };
        let told = found.map(|attr| (attr.ino, attr.mode, attr.nlink, attr.size));
        self.jobs.borrow_mut().see(root, begun, Sight::Name(dir, name.as_bytes().to_vec(), told));
        let Some(attr) = found.filter(|attr| attr.kind == Kind::File) else { return Ok(()) };
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let fh = self.call(Call::Open { ino: attr.ino, flags }, Track::None).await?.fh.ok_or(FsError::Io)?;
        let begun = self.now();
        let read = self.call(Call::Read { fh, offset: 0, len: 4096 }, Track::Merged).await;
        if let Ok(done) = &read
            && let Answer::Bytes(bytes) = &done.answer
        {
            self.jobs.borrow_mut().see(root, begun, Sight::Data(attr.ino, bytes.to_vec()));
        }
        self.release(Some(fh)).await?;
        read.map(drop)
    }
}

/// Every other merge goes into the table.
fn into_of(epoch: u64, merge: u64) -> MergeInto {
    if (epoch + merge).is_multiple_of(2) { MergeInto::Memory } else { MergeInto::Table }
}
