//! Calls that bring their way along, where programs use paths: to the fixed directories and files, which nobody renames. What the ranks did not do
//! with the way is asked for by number then, as the library does. Not here: what is done by number, and ways of which two names are looked for.

use loligo_client::{Call, Done, Fh, WalkAt};
use loligo_types::{Answer, FsError, Ino, Name, Op, OpenFlags, Rank, SetAttr, SetTime};

use super::{DIRS, Outcome, Shell, Track, name};
use crate::rng::Rng;
use crate::tree::{NameId, NsOp};

fn fixed(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("the names are valid")
}

/// True if the request resolved names and did nothing else.
pub fn is_way_alone(answer: &Answer) -> bool {
    matches!(answer, Answer::Walked { last, .. } if !matches!(**last, Answer::Entries { end: true, .. }))
}

/// Which rank is asked; also one that has nothing of it.
fn asked(rng: &mut Rng, dir: Ino) -> WalkAt {
    match rng.below(9) {
        rank @ 0..6 => WalkAt::Rank(Rank(rank as u16), dir),
        6 => WalkAt::ByPath(0),
        _ => WalkAt::First,
    }
}

impl Shell {
    /// Makes or takes away a name, with the way to the directory in the request, where there are paths and that is one of the fixed ones. `any`:
    /// chooses, so that no draw of its own is needed.
    pub(super) async fn by_path(&mut self, track: NsOp, dir: Ino, op: Op, any: u16) -> Outcome<Done> {
        let at = self.places.dirs.iter().position(|fixed| *fixed == dir);
        if let Some(at) = at.filter(|_| self.paths && any.is_multiple_of(2)) {
            let names = [fixed(DIRS[at])].into();
            let at = match any / 2 % 8 {
                rank @ 0..6 => WalkAt::Rank(Rank(rank), dir),
                6 => WalkAt::ByPath(0),
                _ => WalkAt::First,
            };
            let call = Call::Via { dir: Ino::ROOT, names, at, what: Box::new(op.clone()), ways: None };
            let done = self.ns(track.clone(), call).await?;
            if !is_way_alone(&done.answer) {
                return Ok(done);
            }
        }
        let call = match op {
            Op::Create { dir, name, mode, umask, flags, exclusive, .. } => {
                Call::Create { dir, name, mode, umask, flags, exclusive }
            }
            op => Call::Op(op),
        };
        self.ns(track, call).await
    }

    /// The way to a name in one of the fixed directories; `None`: it is none of them, or there are no paths.
    fn way_to(&mut self, dir: Ino, n: Option<NameId>) -> Option<(std::sync::Arc<[Name]>, WalkAt)> {
        let at = self.places.dirs.iter().position(|fixed| *fixed == dir).filter(|_| self.paths)?;
        let names = std::iter::once(fixed(DIRS[at])).chain(n.map(name)).collect();
        Some((names, asked(&mut self.rng, dir)))
    }

    /// Opens what a name leads to, and closes it: so far it says what a lookup says.
    pub(super) async fn open_name(&mut self, dir: Ino, n: NameId) -> Outcome<()> {
        let Some((names, at)) = self.way_to(dir, Some(n)) else { return Ok(()) };
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let what = Box::new(Op::Open { ino: Ino(0), flags, handle: 0 });
        let call = Call::Via { dir: Ino::ROOT, names, at, what, ways: None };
        let done = self.ns(NsOp::Lookup { dir: dir.0, name: n }, call).await?;
        self.release(done.fh).await
    }

    /// Changes attributes of one of the fixed files by its path. Of a name that others move it could not be said whether it was
    /// changed under that name: a path is gone first, and then something is done.
    pub(super) async fn touch_file(&mut self) -> Outcome<()> {
        let all = [self.places.files.clone(), self.places.logs.clone()].concat();
        let file = self.rng.pick(&all);
        let set = SetAttr { mode: Some(0o644), atime: Some(SetTime::Now), ..SetAttr::default() };
        let what = Op::SetAttr { ino: Ino(0), set: set.clone(), handle: None };
        let call = self.file_at_end(file, what);
        let done = self.call(call, Track::None).await?;
        if is_way_alone(&done.answer) {
            self.call(Call::SetAttr { ino: file, set, fh: None }, Track::None).await?;
        }
        Ok(())
    }

    /// Lists a directory with one request. Whether that was all.
    pub(super) async fn list_way(&mut self, dir: Ino) -> Outcome<bool> {
        let Some((names, at)) = self.way_to(dir, None) else { return Ok(false) };
        let plus = self.rng.one_in(2);
        let what = Box::new(Op::Readdir { dir: Ino(0), cookie: 0, limit: 100, plus, handle: None });
        let call = Call::Via { dir: Ino::ROOT, names, at, what, ways: None };
        let done = self.ns(NsOp::Readdir { dir: dir.0 }, call).await?;
        Ok(!is_way_alone(&done.answer))
    }

    /// Something to be done of one of the fixed files.
    fn file_at_end(&mut self, file: Ino, what: Op) -> Call {
        let places = &self.places;
        let text = match places.files.iter().position(|of| *of == file) {
            Some(0) => "f0",
            Some(_) => "f1",
            None if places.lock == file => "lock",
            None => "log",
        };
        let (names, data) = ([fixed("data"), fixed(text)].into(), places.data);
        Call::Via { dir: Ino::ROOT, names, at: asked(&mut self.rng, data), what: Box::new(what), ways: None }
    }

    /// Opens one of the fixed files, now and then by its path.
    pub(super) async fn open_file(&mut self, file: Ino, flags: OpenFlags, track: Track) -> Outcome<Fh> {
        if self.paths && self.rng.one_in(2) {
            let what = Op::Open { ino: Ino(0), flags, handle: 0 };
            let call = self.file_at_end(file, what);
            let done = self.call(call, track.clone()).await?;
            if let Some(fh) = done.fh {
                return Ok(fh);
            }
        }
        self.call(Call::Open { ino: file, flags }, track).await?.fh.ok_or(FsError::Io)
    }
}
