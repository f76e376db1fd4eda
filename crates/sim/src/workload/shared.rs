//! Programs in a directory in which all may work while one of them has it decoupled: its owner, and the others, who take turns. What must be
//! there of what they make is judged by [`crate::shared`]; what an owner does alone is in `owner.rs`.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use loligo_client::Call;
use loligo_subtree::{Group, Subtree};
use loligo_types::XattrMode;
use loligo_types::{Answer, Attr, FsError, FsResult, Ino, Kind, Name, Op, OpenFlags, RenameMode, SetAttr, SetTime};

use crate::data::filled;
use crate::shared::{Act, Became, LEN, Mine};
use crate::subtrees::{Jobs, State};

use super::owner::{End, Own};
use super::{Outcome, Shell, Track};

/// Prefix of names that the merge keeps for others; nobody works there.
const KEPT: &[u8] = b".conflicts";

/// One of the others has its turn.
struct Turn(Rc<RefCell<Jobs>>);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Ok(mut jobs) = self.0.try_borrow_mut() {
            jobs.shared.leaves();
        }
    }
}

/// Result of an operation by its error.
fn became<T>(result: &FsResult<T>) -> Became {
    match result {
        Ok(_) => Became::Done,
        Err(
            FsError::Io
            | FsError::Unavailable
            | FsError::Stale
            | FsError::Interrupted
            | FsError::BadHandle
            | FsError::NoSpace,
        ) => Became::Unknown,
        Err(_) => Became::Refused,
    }
}

fn place(dir: Ino, name: &Name) -> (Ino, Vec<u8>) {
    (dir, name.as_bytes().to_vec())
}

impl Shell {
    /// Works in it as one of the others, or as its owner.
    pub(super) async fn both(&mut self) -> Outcome<()> {
        if self.rng.one_in(8) {
            return self.own_shared().await;
        }
        if std::mem::replace(&mut self.jobs.borrow_mut().shared.taken, true) {
            return Ok(());
        }
        let turn = Turn(Rc::clone(&self.jobs));
        let done = self.other().await;
        drop(turn);
        done
    }

    fn did<T>(&self, result: &FsResult<T>) {
        self.jobs.borrow_mut().shared.did(became(result));
    }

    fn does(&self, act: Act, begun: u64) {
        self.jobs.borrow_mut().shared.does(act, begun);
    }

    async fn find(&self, dir: Ino, name: &Name) -> FsResult<Attr> {
        let call = Call::Op(Op::Lookup { dir, name: name.clone() });
        self.call(call, Track::None).await?.attr().copied().ok_or(FsError::Io)
    }

    /// One thing that somebody else than the owner does.
    async fn other(&mut self) -> Outcome<()> {
        let dirs = self.jobs.borrow().shared.dirs.clone();
        let (dir, name, begun) = (self.rng.pick(&dirs), self.own_name(), self.now());
        let mode = 0o600 + self.rng.below(64) as u16;
        match self.rng.below(17) {
            0..4 => {
                let flags = OpenFlags { write: true, ..OpenFlags::default() };
                let call = Call::Create { dir, name: name.clone(), mode, umask: 0, flags, exclusive: true };
                let done = self.call(call, Track::None).await?;
                let ino = done.attr().map(|attr| attr.ino).ok_or(FsError::Io)?;
                self.jobs.borrow_mut().shared.made(ino, place(dir, &name), begun);
                self.release(done.fh).await?;
                self.write_shared(ino, begun).await
            }
            4 | 5 => {
                let call = Call::Op(Op::Mkdir { dir, name: name.clone(), mode: 0o755, umask: 0 });
                let ino = self.call(call, Track::None).await?.attr().map(|attr| attr.ino).ok_or(FsError::Io)?;
                let shared = &mut self.jobs.borrow_mut().shared;
                shared.made(ino, place(dir, &name), begun);
                shared.dirs.push(ino);
                Ok(())
            }
            6 | 7 => {
                let attr = self.find(dir, &name).await?;
                if attr.kind != Kind::File {
                    return Ok(());
                }
                self.write_shared(attr.ino, begun).await
            }
            8 => {
                let attr = self.find(dir, &name).await?;
                self.does(Act::Remove { at: place(dir, &name), found: attr.ino }, begun);
                let call = if attr.kind == Kind::Dir { Op::Rmdir { dir, name } } else { Op::Unlink { dir, name } };
                let result = self.call(Call::Op(call), Track::None).await;
                self.did(&result);
                result.map(drop)
            }
            9 | 10 => {
                let (new_dir, new_name) = (self.rng.pick(&dirs), self.own_name());
                let moved = self.find(dir, &name).await?.ino;
                let over = match self.find(new_dir, &new_name).await {
                    Ok(attr) => Some(attr.ino),
                    Err(FsError::NotFound) => None,
                    Err(error) => return Err(error),
                };
                let (from, to) = (place(dir, &name), place(new_dir, &new_name));
                self.does(Act::Rename { from, moved, to, over }, begun);
                let mode = RenameMode::Replace;
                let result = self.call(Call::Op(Op::Rename { dir, name, new_dir, new_name, mode }), Track::None).await;
                self.did(&result);
                result.map(drop)
            }
            11 => {
                let ino = self.find(dir, &name).await?.ino;
                let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
                self.call(Call::SetAttr { ino, set, fh: None }, Track::None).await.map(drop)
            }
            12 => {
                let attr = self.find(dir, &name).await?;
                let (to, to_name) = (self.rng.pick(&dirs), self.own_name());
                if attr.kind == Kind::File {
                    self.jobs.borrow_mut().shared.gives(attr.ino, place(to, &to_name));
                    let call = Call::Op(Op::Link { ino: attr.ino, dir: to, name: to_name });
                    self.call(call, Track::None).await?;
                }
                Ok(())
            }
            13 => self.look_for_wanted().await,
            _ => {
                // Of those that the owner may be writing, too.
                let wanted = self.jobs.borrow().shared.wanted_files();
                if wanted.is_empty() {
                    return Ok(());
                }
                let (ino, _) = self.rng.pick(&wanted);
                self.write_shared(ino, self.now()).await
            }
        }
    }

    /// Writes a file, durably. `begun`: before it was looked for; from then on a merge may have taken its names while it is open, or known by an
    /// answer that was long on its way.
    async fn write_shared(&mut self, ino: Ino, begun: u64) -> Outcome<()> {
        let tag = self.tag().await;
        let flags = OpenFlags { write: true, ..OpenFlags::default() };
        let fh = self.call(Call::Open { ino, flags }, Track::None).await?.fh.ok_or(FsError::Io)?;
        self.does(Act::Write { ino, tag }, begun);
        let data: Arc<[u8]> = filled(tag, LEN).into();
        let call = Call::Write { fh, offset: 0, data, append: false, kill_priv: false };
        let mut result = self.call(call, Track::None).await.map(drop);
        if result.is_ok() {
            if self.rng.one_in(3) {
                let pause = self.rng.below(self.think);
                self.sleep(pause).await;
            }
            result = self.call(Call::Fsync { fh, data_only: false }, Track::None).await.map(drop);
        }
        // Some of it may have been written, whatever the error.
        let told = result.map_err(|_| FsError::Io);
        self.did(&told);
        self.release(Some(fh)).await?;
        told
    }

    /// Something that must be there is, under its number.
    async fn look_for_wanted(&mut self) -> Outcome<()> {
        let (wanted, begun) = (self.jobs.borrow().shared.wanted_files(), self.now());
        if wanted.is_empty() {
            return Ok(());
        }
        let (ino, tag) = self.rng.pick(&wanted);
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let opened = self.call(Call::Open { ino, flags }, Track::None).await;
        let read = match &opened {
            Ok(done) => {
                let fh = done.fh.ok_or(FsError::Io)?;
                let read = self.call(Call::Read { fh, offset: 0, len: 4096 }, Track::None).await;
                self.release(Some(fh)).await?;
                read
            }
            Err(error) => Err(*error),
        };
        let is_still = {
            let jobs = self.jobs.borrow();
            jobs.shared.is_alone_since(begun) && jobs.shared.wanted_files().contains(&(ino, tag))
        };
        if !is_still || became(&read) == Became::Unknown {
            return Ok(());
        }
        self.jobs.borrow_mut().shared.counts.looks += 1;
        match read.map(|done| done.answer) {
            Ok(Answer::Bytes(bytes)) if *bytes == filled(tag, LEN)[..] => {}
            other => self.wrong(format!("tag {tag} must be in {ino}, and there is {other:?}")).await,
        }
        Ok(())
    }

    // The owner.

    async fn own_shared(&mut self) -> Outcome<()> {
        let (dir, owner) = (self.jobs.borrow().shared.root, self.id);
        let lease_ms = self.rng.pick(&[300, 1500, 4000]);
        let (record, root, settings) = self.decouple(dir, owner, 0, lease_ms).await?;
        {
            let mut jobs = self.jobs.borrow_mut();
            let now = jobs.now;
            jobs.shared.decoupled(now);
        }
        let mut own = Own::new(dir, owner, Subtree::new(settings, record, root));
        match self.work_shared(&mut own).await {
            Ok(()) => {}
            Err(End::Lost) => self.jobs.borrow_mut().counts.lost += 1,
            Err(End::GivesUp) => _ = self.end(&mut own).await,
        }
        Ok(())
    }

    async fn work_shared(&mut self, own: &mut Own) -> Result<(), End> {
        for _ in 0..self.rng.range(1, 3) {
            self.walk_shared(own).await?;
            for _ in 0..self.rng.range(1, 16) {
                self.change_shared(own).await?;
                if self.rng.one_in(3) {
                    own.subtree.groups();
                }
                let pause = self.rng.below(self.think);
                self.sleep(pause).await;
            }
            if self.rng.one_in(10) {
                break;
            }
            let Some(Group { parts, used, .. }) = own.subtree.groups().pop() else { continue };
            let merge = {
                let mut jobs = self.jobs.borrow_mut();
                let now = jobs.now;
                let made = own.mine.made.iter().filter(|ino| own.dirs.contains(ino));
                let made: Vec<Ino> = made.copied().collect();
                jobs.shared.dirs.extend(made);
                jobs.shared.sends(&own.mine, now)
            };
            self.merge_parts(own, &parts, used, &State::new()).await?;
            {
                let mut jobs = self.jobs.borrow_mut();
                let now = jobs.now;
                jobs.shared.merged(merge, now);
            }
            // What there is by now is to be fetched anew.
            let epoch = own.subtree.record().epoch;
            let (record, root, settings) = match self.decouple(own.dir, own.owner, epoch, 1000).await {
                Ok(told) => told,
                Err(FsError::Unavailable) => return Err(End::GivesUp),
                Err(_) => return Err(End::Lost),
            };
            own.subtree = Subtree::new(settings, record, root);
            own.mine = Mine::default();
        }
        self.end(own).await
    }

    /// Directories and files, as far as what was fetched at different times goes together.
    async fn walk_shared(&mut self, own: &mut Own) -> Result<(), End> {
        (own.dirs, own.files) = (vec![own.dir], Vec::new());
        let mut at = 0;
        while let Some(dir) = own.dirs.get(at).copied() {
            at += 1;
            let op = Op::Readdir { dir, cookie: 0, limit: 100, plus: false, handle: None };
            let Ok(Answer::Entries { entries, .. }) = self.run_in(own, &op).await? else { continue };
            for entry in entries.iter().filter(|entry| !entry.name.as_bytes().starts_with(KEPT)) {
                let list = if entry.kind == Kind::Dir { &mut own.dirs } else { &mut own.files };
                if !list.contains(&entry.ino) {
                    list.push(entry.ino);
                }
            }
            // It need not know all of it.
            if self.rng.one_in(4) {
                break;
            }
        }
        Ok(())
    }

    async fn find_in(&mut self, own: &mut Own, dir: Ino, name: &Name) -> Result<Option<Attr>, End> {
        let found = self.run_in(own, &Op::Lookup { dir, name: name.clone() }).await?;
        Ok(found.ok().and_then(|answer| answer.attr().copied()))
    }

    async fn write_in(&mut self, own: &mut Own, ino: Ino) -> Result<(), End> {
        let tag = self.tag().await;
        let data: Arc<[u8]> = filled(tag, LEN).into();
        let op = Op::WriteInline { ino, handle: 1, offset: Some(0), data, mtime: SetTime::Now, kill_priv: false };
        if self.run_in(own, &op).await?.is_ok() {
            own.mine.writes(ino, tag);
        }
        Ok(())
    }

    async fn change_shared(&mut self, own: &mut Own) -> Result<(), End> {
        let (dir, name) = (self.rng.pick(&own.dirs), self.own_name());
        let mode = 0o600 + self.rng.below(64) as u16;
        match self.rng.below(18) {
            0..4 => {
                let flags = OpenFlags { write: true, ..OpenFlags::default() };
                let op = Op::Create { dir, name: name.clone(), mode, umask: 0, flags, exclusive: false, handle: 1 };
                if let Ok(Answer::Opened { attr, created, .. }) = self.run_in(own, &op).await? {
                    if created {
                        own.mine.made.insert(attr.ino);
                        own.mine.places.push((attr.ino, place(dir, &name)));
                        own.files.push(attr.ino);
                    }
                    return self.write_in(own, attr.ino).await;
                }
            }
            4 | 5 | 14..17 if !own.files.is_empty() => {
                let file = self.rng.pick(&own.files);
                return self.write_in(own, file).await;
            }
            6 if !own.files.is_empty() => {
                let ino = self.rng.pick(&own.files);
                if self.run_in(own, &Op::Link { ino, dir, name: name.clone() }).await?.is_ok() {
                    own.mine.places.push((ino, place(dir, &name)));
                }
            }
            7 if !own.files.is_empty() => {
                let (ino, set) = (self.rng.pick(&own.files), SetAttr { mode: Some(mode), ..SetAttr::default() });
                self.run_in(own, &Op::SetAttr { ino, set, handle: None }).await?.ok();
            }
            8 if !own.files.is_empty() => {
                let (ino, name, value) = (self.rng.pick(&own.files), b"user.x".as_slice(), b"y".as_slice());
                let op = Op::SetXattr { ino, name: name.into(), value: value.into(), mode: XattrMode::Set };
                self.run_in(own, &op).await?.ok();
            }
            9 | 10 => {
                let Some(found) = self.find_in(own, dir, &name).await? else { return Ok(()) };
                let op = if found.kind == Kind::Dir { Op::Rmdir { dir, name } } else { Op::Unlink { dir, name } };
                if self.run_in(own, &op).await?.is_ok() {
                    own.mine.removes(found.ino);
                }
            }
            11..14 => {
                let (new_dir, new_name) = (self.rng.pick(&own.dirs), self.own_name());
                let moved = self.find_in(own, dir, &name).await?;
                let over = self.find_in(own, new_dir, &new_name).await?;
                let (Some(moved), to) = (moved, place(new_dir, &new_name)) else { return Ok(()) };
                let mode = if self.rng.one_in(4) { RenameMode::Exchange } else { RenameMode::Replace };
                let from = place(dir, &name);
                if self.run_in(own, &Op::Rename { dir, name, new_dir, new_name, mode }).await?.is_err() {
                    return Ok(());
                }
                own.mine.places.push((moved.ino, to));
                match over.filter(|over| over.ino != moved.ino) {
                    Some(over) if mode == RenameMode::Exchange => own.mine.places.push((over.ino, from)),
                    Some(over) => own.mine.removes(over.ino),
                    None => {}
                }
            }
            _ => {
                let op = Op::Mkdir { dir, name: name.clone(), mode: 0o755, umask: 0 };
                if let Ok(answer) = self.run_in(own, &op).await?
                    && let Some(attr) = answer.attr()
                {
                    own.mine.made.insert(attr.ino);
                    own.mine.places.push((attr.ino, place(dir, &name)));
                    own.dirs.push(attr.ino);
                }
            }
        }
        Ok(())
    }
}
