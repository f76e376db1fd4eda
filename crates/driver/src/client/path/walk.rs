//! From a path to an inode, following symbolic links: as many names at a time as one rank has.

use std::collections::VecDeque;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use loligo_client::{Asked, Lead};
use loligo_types::{Answer, Attr, FsError, FsResult, Ino, Kind, Name, Op, limits};

use super::{AsyncFs, bytes as answer_bytes, entry};
use crate::client::{Call, Done};

/// Most symbolic links followed in one path, as on Linux.
const LINKS_MAX: u32 = 40;
/// Longest path, bytes.
const PATH_MAX: usize = 4096;

/// Somewhere on the way.
type Place = (Ino, Kind);

/// Where every path begins.
const ROOT: Place = (Ino::ROOT, Kind::Dir);

/// Target of one component of a path.
enum Found {
    /// With its attributes.
    Attr(Attr),
    /// They are to be asked for.
    Only(Place),
}

impl Found {
    fn place(&self) -> Place {
        match self {
            Found::Attr(attr) => (attr.ino, attr.kind),
            Found::Only(place) => *place,
        }
    }
}

/// Part of a path that lookup leases resolve.
struct Leased {
    /// To there, of which this is known to be so deep below the root.
    at: Place,
    depth: u16,
    /// By the clock of the client, from which time on what comes of going on from there counts.
    sent_ms: u64,
}

/// Result of a path walk that carries an operation at its end.
enum Ended {
    /// It was done.
    Done(Done),
    /// It was not, and is to be asked for by number.
    At(Found),
}

/// The bytes of a path.
pub fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// The way that is left to go.
struct Way {
    left: VecDeque<Vec<u8>>,
    links: u32,
}

impl Way {
    fn new(path: &[u8]) -> FsResult<Way> {
        if path.len() >= PATH_MAX {
            return Err(FsError::NameTooLong);
        }
        Ok(Way { left: parts(path).collect(), links: 0 })
    }

    /// The names that come next and are to be looked up, as many as one request may have; but for so many at the end.
    fn names(&self, but: usize) -> FsResult<Arc<[Name]>> {
        let most = self.left.len().saturating_sub(but).min(limits::WALK_MAX);
        let names = self.left.iter().take(most).take_while(|part| !is_dots(part));
        names.map(|part| Name::new(part)).collect()
    }

    /// A symbolic link stands in the way: its target comes before the rest.
    fn follow(&mut self, target: &[u8]) -> FsResult<()> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(FsError::Loop);
        }
        if target.is_empty() || target.len() > limits::SYMLINK_MAX {
            return Err(FsError::NotFound);
        }
        let parts: Vec<_> = parts(target).collect();
        parts.into_iter().rev().for_each(|part| self.left.push_front(part));
        Ok(())
    }
}

/// The components of a path.
fn parts(path: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    path.split(|b| *b == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec)
}

fn is_dots(part: &[u8]) -> bool {
    matches!(part, b"." | b"..")
}

impl AsyncFs {
    /// Goes a path to its end, for its attributes. `follow`: also a symbolic link at the end.
    pub(super) async fn walk(&self, path: &Path, follow: bool) -> FsResult<Attr> {
        match self.attr_at(path, follow).await {
            // What was found on the way has gone elsewhere, or is gone, before it was asked for: as a kernel does, the way is gone once more.
            Err(FsError::Stale) => self.attr_at(path, follow).await,
            other => other,
        }
    }

    async fn attr_at(&self, path: &Path, follow: bool) -> FsResult<Attr> {
        match self.go(path, follow).await? {
            Found::Attr(attr) => Ok(attr),
            Found::Only((ino, _)) => entry(self.call(Call::GetAttr { ino }).await.map_err(gone)?.answer),
        }
    }

    /// The same for its number and kind alone.
    pub(super) async fn find(&self, path: &Path, follow: bool) -> FsResult<(Ino, Kind)> {
        self.go(path, follow).await.map(|found| found.place())
    }

    async fn go(&self, path: &Path, follow: bool) -> FsResult<Found> {
        match self.go_for(path, follow, None).await? {
            Ended::At(found) => Ok(found),
            Ended::Done(_) => Err(FsError::Io),
        }
    }

    /// Does something of what a path leads to, with the way there in one request where that can be. `follow`: also a symbolic link at the end.
    pub(super) async fn act_on(&self, path: &Path, follow: bool, what: impl Fn(Ino) -> Op) -> FsResult<Done> {
        match self.go_for(path, follow, Some(what(Ino(0)))).await? {
            Ended::Done(done) => Ok(done),
            Ended::At(found) => self.call(as_call(what(found.place().0))).await,
        }
    }

    /// Lists the directory that a path leads to, or the first part of it: its number, and the `Entries`.
    pub(super) async fn list(&self, path: &Path, limit: u32, plus: bool) -> FsResult<(Ino, Answer)> {
        let list = |dir| Op::Readdir { dir, cookie: 0, limit, plus, handle: None };
        match self.go_for(path, true, Some(list(Ino(0)))).await? {
            Ended::Done(Done { answer: Answer::Walked { dir, last, .. }, .. }) => Ok((dir, *last)),
            Ended::Done(_) => Err(FsError::Io),
            Ended::At(found) => match found.place() {
                (dir, Kind::Dir) => Ok((dir, self.op(list(dir)).await?)),
                _ => Err(FsError::NotDir),
            },
        }
    }

    /// Goes a path to its end, and does something there if the end comes with a request.
    async fn go_for(&self, path: &Path, follow: bool, what: Option<Op>) -> FsResult<Ended> {
        let raw = bytes(path);
        let wants_dir = raw.ends_with(b"/") || raw.ends_with(b"/.");
        let lists = matches!(what, Some(Op::Readdir { .. }));
        // What it is must be known first.
        let what = what.filter(|_| lists || !wants_dir);
        let mut way = Way::new(raw)?;
        let mut found = Found::Only(ROOT);
        while !way.left.is_empty() {
            let (names, leased) = self.lead(found.place(), &mut way, 0)?;
            let at = leased.at;
            let (dir, next) = match &what {
                Some(what) if names.len() == way.left.len() && at.1 == Kind::Dir => {
                    let asked = self.hints().find(at.0, &names, lists);
                    let (what, ways) = (Box::new(what.clone()), Some(leased.depth));
                    let call = Call::Via { dir: at.0, names: Arc::clone(&names), at: asked.at, what, ways };
                    let done = self.call(call).await?;
                    self.learn_ways(&names, &leased, &done);
                    if !is_way_alone(&done.answer) {
                        return Ok(Ended::Done(done));
                    }
                    self.went(at, &mut way, &names, (&asked, lists), done.answer)?
                }
                _ => self.step(at, &mut way, 0).await?,
            };
            found = match next.place() {
                (link, Kind::Symlink) if !way.left.is_empty() || follow || wants_dir => {
                    Found::Only(self.enter_link(&mut way, dir, link).await?)
                }
                _ => next,
            };
        }
        if wants_dir && found.place().1 != Kind::Dir {
            return Err(FsError::NotDir);
        }
        Ok(Ended::At(found))
    }

    /// Goes to the directory in which a path's last name is, or is to be. `follow`: if the name is a symbolic link, to
    /// where that leads. `IsDir`: the path ends with `.` or `..`, or is the root, and so with no name.
    pub(super) async fn place(&self, path: &Path, follow: bool) -> FsResult<(Ino, Name)> {
        let mut way = Way::new(bytes(path))?;
        let mut at = ROOT;
        while let Some(last) = way.left.back().cloned() {
            let is_last = way.left.len() == 1;
            if is_last && (!follow || is_dots(&last)) {
                return name_in(at, &last);
            }
            let (dir, next) = match self.step(at, &mut way, usize::from(!is_last)).await {
                Err(FsError::NotFound) if is_last => return name_in(at, &last),
                other => other?,
            };
            match next.place() {
                (link, Kind::Symlink) => at = self.enter_link(&mut way, dir, link).await?,
                _ if is_last => return name_in(at, &last),
                place => at = place,
            }
        }
        // The path is the root, or leads there.
        Err(FsError::IsDir)
    }

    /// Makes, opens or takes away the last name of a path, with the way there in one request where that can be. What the operation was answered
    /// with. `IsDir`: see [`AsyncFs::place`].
    pub(super) async fn act(&self, path: &Path, what: impl Fn(Ino, Name) -> Op) -> FsResult<Done> {
        let mut way = Way::new(bytes(path))?;
        let mut at = ROOT;
        while let Some(last) = way.left.back().cloned() {
            if way.left.len() == 1 {
                let (dir, name) = name_in(at, &last)?;
                return self.call(as_call(what(dir, name))).await;
            }
            let (names, leased) = self.lead(at, &mut way, 1)?;
            at = leased.at;
            if way.left.len() == 1 {
                continue;
            }
            let is_whole = names.len() + 1 == way.left.len() && !is_dots(&last) && at.1 == Kind::Dir;
            let (dir, next) = if is_whole {
                let asked = self.hints().find(at.0, &names, true);
                let what = Box::new(what(Ino(0), Name::new(&last)?));
                let ways = Some(leased.depth);
                let call = Call::Via { dir: at.0, names: Arc::clone(&names), at: asked.at, what, ways };
                let done = self.call(call).await?;
                self.learn_ways(&names, &leased, &done);
                if !is_way_alone(&done.answer) {
                    return Ok(done);
                }
                self.went(at, &mut way, &names, (&asked, true), done.answer)?
            } else {
                self.step(at, &mut way, 1).await?
            };
            at = match next.place() {
                (link, Kind::Symlink) => self.enter_link(&mut way, dir, link).await?,
                place => place,
            };
        }
        // The path is the root, or leads there.
        Err(FsError::IsDir)
    }

    /// Goes as far as one request leads; `but` so many names at the end, which are left. What it comes to, and the directory that has that.
    async fn step(&self, at: Place, way: &mut Way, but: usize) -> FsResult<(Place, Found)> {
        if at.1 != Kind::Dir {
            return Err(FsError::NotDir);
        }
        let (names, leased) = self.lead(at, way, but)?;
        let (at, is_led) = (leased.at, leased.at != at);
        if names.is_empty() {
            if is_led {
                return Ok((at, Found::Only(at)));
            }
            return match way.left.pop_front().as_deref() {
                Some(b"..") => {
                    let above = entry(self.op(Op::LookupParent { dir: at.0 }).await?)?;
                    Ok((at, Found::Attr(above)))
                }
                _ => Ok((at, Found::Only(at))),
            };
        }
        let to_dir = but > 0;
        let asked = self.hints().find(at.0, &names, to_dir);
        let ways = Some(leased.depth);
        let call = Call::Walk { dir: at.0, names: Arc::clone(&names), at: asked.at, to_dir, ways };
        let done = self.call(call).await?;
        self.learn_ways(&names, &leased, &done);
        self.went(at, way, &names, (&asked, to_dir), done.answer)
    }

    /// Goes as far as lookup leases lead, but for so many names at the end. The names that come next.
    fn lead(&self, at: Place, way: &mut Way, but: usize) -> FsResult<(Arc<[Name]>, Leased)> {
        let names = way.names(but)?;
        let sent_ms = self.client.now_ms();
        // What the last name leads to may be no directory, and if it is one its attributes may be wanted.
        let dirs = &names[..names.len() - usize::from(but == 0).min(names.len())];
        let Lead { dir, names: led, depth } = self.hints().ways.lead(at.0, dirs, sent_ms);
        let leased = Leased { at: if led > 0 { (dir, Kind::Dir) } else { at }, depth, sent_ms };
        if led == 0 {
            return Ok((names, leased));
        }
        way.left.drain(..led);
        Ok((way.names(but)?, leased))
    }

    /// Lookup leases came with an answer.
    fn learn_ways(&self, names: &[Name], leased: &Leased, done: &Done) {
        if !done.ways.is_empty() {
            let now_ms = self.client.now_ms();
            self.hints().ways.learn(names, &done.ways, leased.depth, leased.sent_ms, now_ms);
        }
    }

    /// Takes the answer of a request that resolved several names.
    fn went(
        &self,
        at: Place,
        way: &mut Way,
        names: &[Name],
        (asked, to_dir): (&Asked, bool),
        answer: Answer,
    ) -> FsResult<(Place, Found)> {
        let Answer::Walked { done, dir, last, by_path } = answer else { return Err(FsError::Io) };
        let count = names.len();
        let done = (done as usize).min(count);
        way.left.drain(..done);
        let found = match *last {
            Answer::Entry(attr) => Found::Attr(attr),
            Answer::Remote { ino, kind, rank } => {
                // Whose the last name's directory is, or that directory itself: not who is to be asked on the way.
                if done + usize::from(!to_dir) == count {
                    self.hints().put(asked, rank, ino);
                }
                Found::Only((ino, kind))
            }
            _ => return Err(FsError::Io),
        };
        let dirs = done - usize::from(found.place().1 != Kind::Dir);
        self.hints().learn(at.0, &names[..dirs], by_path as usize);
        Ok(((dir, Kind::Dir), found))
    }

    /// Where to go on after a symbolic link in the directory `at`.
    async fn enter_link(&self, way: &mut Way, at: Place, link: Ino) -> FsResult<Place> {
        let target = answer_bytes(self.op(Op::Readlink { ino: link }).await?)?;
        way.follow(&target)?;
        if target.starts_with(b"/") { Ok(ROOT) } else { Ok(at) }
    }
}

/// True if the request resolved names and did nothing else.
fn is_way_alone(answer: &Answer) -> bool {
    matches!(answer, Answer::Walked { last, .. } if !matches!(**last, Answer::Entries { .. }))
}

/// The call that does the same by number as an operation at the end of a way.
fn as_call(op: Op) -> Call {
    match op {
        Op::Open { ino, flags, .. } => Call::Open { ino, flags },
        Op::Create { dir, name, mode, umask, flags, exclusive, .. } => {
            Call::Create { dir, name, mode, umask, flags, exclusive }
        }
        Op::SetAttr { ino, set, .. } => Call::SetAttr { ino, set, fh: None },
        op => Call::Op(op),
    }
}

/// Error of an entry that was found a moment ago and is gone. An absence is never cached from it.
fn gone(error: FsError) -> FsError {
    if error == FsError::NotFound { FsError::Stale } else { error }
}

fn name_in(dir: Place, part: &[u8]) -> FsResult<(Ino, Name)> {
    if dir.1 != Kind::Dir {
        return Err(FsError::NotDir);
    }
    if is_dots(part) {
        return Err(FsError::IsDir);
    }
    Ok((dir.0, Name::new(part)?))
}
