//! A program that tries what it may not do in directories that others decouple: with the rights of somebody who may change nothing there,
//! so that nothing comes of it whoever has them. As long as somebody has one for himself that is refused as busy, whatever is asked, and
//! by whichever way; that something else was said is judged by [`crate::subtrees`]. Not those who look: they are in `owner.rs`.

use loligo_client::Call;
use loligo_types::{Answer, FsError, FsResult, Ino, Kind, Name, Op, OpenFlags, RenameMode, SetAttr};

use crate::subtrees::Sight;

use super::owner::is_passing;
use super::{Outcome, Rep, Req, Shell, Track};

/// Where all may do all there is this file.
const COMMON: &[u8] = b"f";

impl Shell {
    async fn try_call(&self, call: Call) -> FsResult<loligo_client::Done> {
        match self.ask(Req::Try(call)).await {
            Rep::Done(result) => result.map_err(|failed| failed.error),
            _ => Err(FsError::Io),
        }
    }

    /// Something came of it, if that says anything.
    fn met(&self, root: Ino, begun: u64, (what, changes): (String, bool), result: &FsResult<loligo_client::Done>) {
        let silent = |error: FsError| is_passing(error) || matches!(error, FsError::Busy | FsError::Stale);
        if result.as_ref().err().is_none_or(|error| !silent(*error)) {
            let answer = result.as_ref().map(|done| matches!(done.answer, Answer::Done));
            self.jobs.borrow_mut().see(root, begun, Sight::Met(format!("{what}: {answer:?}"), changes));
        }
    }

    /// Asks for a change of names in the directory, or in one below.
    pub(super) async fn try_names(&mut self, root: Ino) -> Outcome<()> {
        let dir = self.jobs.borrow().some_dir(root, &mut self.rng);
        let file = self.jobs.borrow().some_inside(root, &mut self.rng);
        let (name, (common, in_common)) = (self.own_name(), self.places.common);
        let known = Name::new(COMMON).expect("it is a name");
        let (mode, umask) = (0o600, 0);
        let rename = |dir, name, new_dir, new_name| {
            Call::Op(Op::Rename { dir, name, new_dir, new_name, mode: RenameMode::Replace })
        };
        // Whether the other end of it is nobody's, and may be another rank's: that one may know that it cannot be done.
        let mut two = false;
        let least = if self.jobs.borrow().several { 5 } else { 0 };
        let call = match self.rng.range(least, 15) {
            0 => Call::Op(Op::Mkdir { dir, name, mode, umask }),
            1 => {
                let flags = OpenFlags { write: true, ..OpenFlags::default() };
                Call::Create { dir, name, mode, umask, flags, exclusive: true }
            }
            2 => Call::Op(Op::Symlink { dir, name, target: b"p".as_slice().into() }),
            3 => Call::Op(Op::Mknod { dir, name, kind: Kind::Fifo, mode, umask, rdev: 0 }),
            4 => Call::Op(Op::Unlink { dir, name }),
            5 => Call::Op(Op::Rmdir { dir, name }),
            6 => rename(dir, name, dir, self.own_name()),
            7 => Call::Op(Op::Readdir { dir, cookie: 0, limit: 100, plus: false, handle: None }),
            8 if file.is_some_and(|(_, kind)| kind == Kind::File) => {
                two = true;
                Call::Op(Op::Link { ino: file.map_or(root, |(ino, _)| ino), dir, name })
            }
            9 | 10 => {
                two = true;
                Call::Op(Op::Link { ino: in_common, dir, name })
            }
            11 | 12 => {
                two = true;
                rename(dir, name, common, known)
            }
            _ => {
                two = true;
                rename(common, known, dir, name)
            }
        };
        let changes = !matches!(call, Call::Op(Op::Readdir { .. }));
        let (what, begun) = ((format!("{call:?}"), changes), self.now());
        let result = self.try_call(call).await;
        let gone = result.as_ref().is_err_and(|error| *error == FsError::NotFound) && (two || dir != root);
        if !gone {
            self.met(root, begun, what, &result);
        }
        result.map(drop)
    }

    /// Asks for something that is in the directory by its number.
    pub(super) async fn try_inside(&mut self, root: Ino) -> Outcome<()> {
        let Some((ino, kind)) = self.jobs.borrow().some_inside(root, &mut self.rng) else { return Ok(()) };
        let (call, begun) = match self.rng.below(5) {
            0 => (Call::GetAttr { ino }, self.now()),
            1 => {
                let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
                (Call::SetAttr { ino, set, fh: None }, self.now())
            }
            2 => (Call::Op(Op::ListXattr { ino }), self.now()),
            3 if kind == Kind::File => (Call::Op(Op::ReadInline { ino, handle: 1 }), self.now()),
            _ => {
                let flags = OpenFlags { read: true, ..OpenFlags::default() };
                let begun = self.now();
                let opened = self.call(Call::Open { ino, flags }, Track::None).await;
                if opened.as_ref().err() != Some(&FsError::NotFound) {
                    self.met(root, begun, (format!("open of {ino}"), false), &opened);
                }
                return self.release(opened?.fh).await;
            }
        };
        let what = (format!("{call:?}"), matches!(call, Call::SetAttr { .. }));
        let result = self.try_call(call).await;
        if result.as_ref().err() != Some(&FsError::NotFound) {
            self.met(root, begun, what, &result);
        }
        result.map(drop)
    }
}
