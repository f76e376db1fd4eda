//! Check of directories whose policy is `relaxed` (docs/subtree-policies.md), and of strict ones beside them. The programs that work there
//! are in [`crate::workload`]; other directories are judged by [`crate::history`], and lose nothing either.
//!
//! Each record that a rank appends to its journal is noted with its changes in these directories. A crash takes back the records beyond the
//! end of the journal that the next life finds, and nothing else: so clients must be shown the state of the remaining records, which is a
//! prefix of the changes. The record of each answered change is known, because names and modes are given once. So it is also checked that
//!
//! - an answered change that is lost was relaxed, also by the remaining records, and not further behind than the lag of its policy;
//! - nothing is lost that an answered fsync covers, and a client that lost something hears of it at the next fsync, once;
//! - a cache of a client that knows of the crash shows nothing that is lost;
//! - no inode number that a client was told is given again.

use std::collections::{BTreeMap, BTreeSet};

use loligo_namespace::SUBTREE;
use loligo_types::{Event, Ino, JournalMode, Kind, Lsn};

use crate::rng::Rng;
use crate::tree::{NameId, NsOp};
use crate::workload::id_of;

mod line;

pub use self::line::Target;
use self::line::{Line, Place};

/// Names of these directories begin here: each is given once.
pub const FIRST_NAME: NameId = 100;
/// Modes that are given once lie between.
const MODES: std::ops::Range<u16> = 1..0o600;
/// The clock of a rank counts milliseconds, microseconds.
const TICK_US: u64 = 2_000;

/// The number of a policy, which its last line says.
fn number_of(text: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(text);
    text.rsplit("# ").next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Counts of what was done, to see that the run did something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Answers that left before the journal was durable.
    pub early: u64,
    /// Changes that were answered, and those of them that a crash took back.
    pub answered: u64,
    pub lost: u64,
    /// Syncs that were answered, and those that told of a loss.
    pub synced: u64,
    pub told: u64,
    /// Policies set, and looks out of a cache.
    pub policies: u64,
    pub cached: u64,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Counts) {
        self.early += other.early;
        self.answered += other.answered;
        self.lost += other.lost;
        self.synced += other.synced;
        self.told += other.told;
        self.policies += other.policies;
        self.cached += other.cached;
    }
}

/// A policy: its number, and the lag if it is relaxed, milliseconds.
type Policy = (u64, Option<u64>);

/// Subject of an answered change.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Key {
    Name(Ino, NameId),
    Mode(Ino),
    Policy(Ino),
}

/// A change that was answered.
#[derive(Clone, Debug)]
struct Ack {
    client: u64,
    what: String,
    place: Place,
    /// Directories and files that it has changed; of these the directories whose names it has.
    inos: Vec<Ino>,
    dirs: Vec<Ino>,
    /// In which crash it was lost.
    lost: Option<usize>,
}

/// A crash of a rank of which the next life has begun.
#[derive(Debug)]
struct Crash {
    rank: usize,
    upto: Lsn,
    /// When the next life began, microseconds.
    ended: u64,
    /// Answered changes that it took back: when their records were made, and the lag of their policies, milliseconds.
    lost: Vec<(u64, u64)>,
    /// An answered fsync covers what is up to this record.
    promised: Lsn,
}

/// A sync under way.
#[derive(Debug)]
struct Sync {
    client: u64,
    ino: Option<Ino>,
    begun: u64,
    /// Answered changes that it covers.
    needs: Vec<usize>,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Relaxed {
    /// The directories made at first.
    pub roots: Vec<Ino>,
    dirs: BTreeSet<Ino>,
    names: BTreeMap<(Ino, NameId), Line<Option<Target>>>,
    modes: BTreeMap<Ino, Line<Option<u16>>>,
    policies: BTreeMap<Ino, Line<Option<Policy>>>,
    acks: Vec<Ack>,
    crashes: Vec<Crash>,
    /// When ranks crashed whose next life has not begun, microseconds.
    down: BTreeMap<usize, u64>,
    /// Up to which record of a rank an answered fsync covers all.
    promised: BTreeMap<usize, Lsn>,
    syncs: BTreeMap<u64, Sync>,
    /// Of what a client has lost and was not told, and since when it can know: of inodes, and of all together.
    debts: BTreeMap<(u64, Option<Ino>), u64>,
    /// Number of open handles, by client and file.
    opens: BTreeMap<(u64, Ino), u32>,
    /// Numbers that somebody was told.
    given: BTreeMap<Ino, u64>,
    /// Synced content of files: tag and length.
    pub data: BTreeMap<Ino, (u32, usize)>,
    next_name: NameId,
    next_mode: u16,
    next_policy: u64,
    /// The lags that were asked for.
    lags: BTreeMap<u64, Option<u64>>,
    pub findings: Vec<String>,
    pub counts: Counts,
}

impl Relaxed {
    /// A directory is there, and empty.
    pub fn begin(&mut self, dir: Ino) {
        self.roots.push(dir);
        self.dirs.insert(dir);
    }

    /// True if the directory is one of these.
    pub fn has(&self, dir: Ino) -> bool {
        self.dirs.contains(&dir)
    }

    /// True if the inode is or was in one of these directories, or is one.
    pub fn knows(&self, ino: Ino) -> bool {
        self.has(ino) || self.modes.contains_key(&ino)
    }

    // Choices of programs.

    /// A name that nothing ever had.
    pub fn new_name(&mut self) -> NameId {
        self.next_name += 1;
        FIRST_NAME + self.next_name
    }

    /// A mode that nothing ever had; none: all were given.
    pub fn new_mode(&mut self) -> Option<u16> {
        self.next_mode += 1;
        MODES.contains(&self.next_mode).then_some(self.next_mode)
    }

    /// A policy that no directory ever had.
    pub fn new_policy(&mut self, relaxed: bool, rng: &mut Rng) -> String {
        self.next_policy += 1;
        let (number, lag) = (self.next_policy, rng.pick(&[10, 40, 200, 5000]));
        self.lags.insert(number, relaxed.then_some(lag));
        if relaxed {
            format!("preset = 'relaxed'\nlag = '{lag}ms'\n# {number}")
        } else {
            // Each mode of the data journal promises at least what a policy without one does.
            let mode = JournalMode::ALL[number as usize % JournalMode::ALL.len()].name();
            format!("preset = 'posix'\njournal = '{mode}'\n# {number}")
        }
    }

    /// A directory that may be there.
    pub fn some_dir(&self, rng: &mut Rng) -> Ino {
        // A number that nobody was told may be given to something else after a crash.
        let is_told = |target: &Target| target.1 && self.given.contains_key(&target.0);
        let below: Vec<Ino> =
            self.there().filter(|(.., target)| is_told(target)).map(|(.., target)| target.0).collect();
        if below.is_empty() || rng.one_in(2) { rng.pick(&self.roots) } else { rng.pick(&below) }
    }

    /// A name that may be there, often in this directory, and what it leads to.
    pub fn some_name(&self, dir: Ino, rng: &mut Rng) -> Option<(Ino, NameId, Target)> {
        let there: Vec<_> = self.there().collect();
        // Often one of few, which caches know.
        let here: Vec<_> = there.iter().copied().filter(|(of, ..)| *of == dir).take(3).collect();
        let some = if here.is_empty() || rng.one_in(2) { there } else { here };
        (!some.is_empty()).then(|| rng.pick(&some))
    }

    /// Names that lead to something.
    pub fn there(&self) -> impl Iterator<Item = (Ino, NameId, Target)> + '_ {
        self.names.iter().filter_map(|((dir, name), line)| line.now().map(|target| (*dir, *name, target)))
    }

    // What is relaxed.

    fn parents(&self) -> BTreeMap<Ino, Vec<Ino>> {
        let mut parents: BTreeMap<Ino, Vec<Ino>> = BTreeMap::new();
        self.there().for_each(|(dir, _, target)| parents.entry(target.0).or_default().push(dir));
        parents
    }

    /// The directory whose policy counts, and its lag, if that is relaxed for all names of it.
    fn relaxed(&self, parents: &BTreeMap<Ino, Vec<Ino>>, ino: Ino) -> Option<(Ino, u64)> {
        let mut at = ino;
        for _ in 0..64 {
            if let Some((_, lag)) = self.policies.get(&at).and_then(Line::now) {
                return lag.map(|lag| (at, lag));
            }
            match parents.get(&at).map(Vec::as_slice) {
                Some([parent]) => at = *parent,
                Some(all) => {
                    let found: BTreeSet<_> = all.iter().map(|parent| self.relaxed(parents, *parent)).collect();
                    return if found.len() == 1 { found.into_iter().next().flatten() } else { None };
                }
                None => return None,
            }
        }
        None
    }

    // Records.

    /// A rank has appended a record to its journal.
    pub fn record(&mut self, rank: usize, lsn: Lsn, at: u64, events: &[Event]) {
        let is_new = |ino: &Ino| !self.modes.contains_key(ino);
        let (mut inos, mut dirs) = (BTreeSet::new(), BTreeSet::new());
        let mut strict = false;
        for event in events {
            match event {
                Event::Entry { dir, .. } | Event::EntryGone { dir, .. } if self.has(*dir) => _ = dirs.insert(*dir),
                Event::Inode(inode) if !is_new(&inode.ino) => _ = inos.insert(inode.ino),
                Event::Xattr { name, .. } | Event::XattrGone { name, .. } => strict |= **name == *SUBTREE,
                _ => {}
            }
        }
        let parents = self.parents();
        // With names their directories count.
        let inos: BTreeSet<Ino> = if dirs.is_empty() { inos } else { dirs };
        let found: BTreeSet<_> = inos.iter().map(|ino| self.relaxed(&parents, *ino)).collect();
        let lag = if strict || found.len() != 1 { None } else { found.into_iter().next().flatten() };
        let place = Place { rank, lsn, at, lag: lag.map(|(_, lag)| lag) };
        for event in events {
            match event {
                Event::Entry { dir, name, ino, kind, .. } if self.has(*dir) => {
                    if let Some(id) = id_of(name.as_bytes()) {
                        let is_dir = *kind == Kind::Dir;
                        if is_dir {
                            self.dirs.insert(*ino);
                        }
                        self.names.entry((*dir, id)).or_default().push(place, Some((*ino, is_dir)));
                        self.modes.entry(*ino).or_default();
                    }
                }
                Event::EntryGone { dir, name } if self.has(*dir) => {
                    if let Some(id) = id_of(name.as_bytes()) {
                        self.names.entry((*dir, id)).or_default().push(place, None);
                    }
                }
                Event::Xattr { ino, name, value } if **name == *SUBTREE && self.has(*ino) => {
                    let number = number_of(value);
                    let policy = (number, self.lags.get(&number).copied().flatten());
                    self.policies.entry(*ino).or_default().push(place, Some(policy));
                }
                Event::XattrGone { ino, name } if **name == *SUBTREE && self.has(*ino) => {
                    self.policies.entry(*ino).or_default().push(place, None);
                }
                _ => {}
            }
        }
        for event in events {
            match event {
                Event::Inode(inode) => {
                    if let Some(line) = self.modes.get_mut(&inode.ino) {
                        line.push(place, Some(inode.mode & 0o7777));
                    }
                }
                Event::InodeGone(ino) => {
                    if let Some(line) = self.policies.get_mut(ino) {
                        line.push(place, None);
                    }
                }
                _ => {}
            }
        }
    }

    /// A rank's life ended.
    pub fn crashed(&mut self, rank: usize, now: u64) {
        self.down.entry(rank).or_insert(now);
    }

    /// The next one found its journal to end here.
    pub fn recovered(&mut self, rank: usize, upto: Lsn, now: u64) {
        let Some(at) = self.down.remove(&rank) else { return };
        self.names.values_mut().for_each(|line| line.cut(rank, upto, at));
        self.modes.values_mut().for_each(|line| line.cut(rank, upto, at));
        self.policies.values_mut().for_each(|line| line.cut(rank, upto, at));
        let promised = self.promised.get(&rank).copied().unwrap_or_default();
        self.crashes.push(Crash { rank, upto, ended: now, lost: Vec::new(), promised });
        self.promised.insert(rank, promised.min(upto));
        for ack in 0..self.acks.len() {
            let Ack { place, lost, .. } = &self.acks[ack];
            if lost.is_none() && place.rank == rank && place.lsn > upto {
                self.lose(ack, self.crashes.len() - 1, now);
            }
        }
    }

    /// An answered change was lost.
    fn lose(&mut self, ack: usize, crash: usize, now: u64) {
        self.acks[ack].lost = Some(crash);
        self.counts.lost += 1;
        let Ack { client, what, place, inos, dirs, .. } = self.acks[ack].clone();
        let parents = self.parents();
        let is_there = |ino: Ino| self.roots.contains(&ino) || parents.contains_key(&ino);
        let strict: Vec<Ino> =
            dirs.iter().copied().filter(|ino| is_there(*ino) && self.relaxed(&parents, *ino).is_none()).collect();
        let Crash { rank, upto, promised, .. } = self.crashes[crash];
        let whose =
            format!("record {} of rank {rank}, of which {upto} were left: {what} of client {client}", place.lsn);
        if place.lag.is_none() {
            self.findings.push(format!("a change was answered and lost that was not relaxed: {whose}"));
        } else if !strict.is_empty() {
            self.findings.push(format!("a change was answered and lost in {strict:?}, which are strict now: {whose}"));
        }
        if place.lsn <= promised {
            self.findings.push(format!("a change is lost that an fsync had covered: {whose}"));
        }
        let lost = &mut self.crashes[crash].lost;
        lost.push((place.at, place.lag.unwrap_or(0)));
        let first = lost.iter().map(|(at, _)| *at).min().unwrap_or(0);
        if let Some((at, lag)) = lost.iter().find(|(at, lag)| at - first > lag * 1000 + TICK_US) {
            let text =
                format!("a change at {at} us was answered and lost, and so was one at {first}; the lag is {lag} ms");
            self.findings.push(text);
        }
        let since = self.crashes[crash].ended.max(now);
        self.debts.insert((client, None), since);
        for ino in inos {
            // Who has a file open hears of it by its handle.
            if self.has(ino) || !self.opens.contains_key(&(client, ino)) {
                self.debts.insert((client, Some(ino)), since);
            }
        }
    }

    // Answers.

    /// A number was told.
    pub fn gives(&mut self, ino: Ino, op: u64) {
        if let Some(before) = self.given.insert(ino, op) {
            self.findings.push(format!("inode number {ino} was given to call {before} and again to call {op}"));
        }
    }

    /// A change of names or modes was answered. `ino`: what the answer shows.
    pub fn answered(&mut self, op: u64, client: u64, ns: &NsOp, ino: Option<Ino>, now: u64) {
        let (key, found, dirs, mut inos) = match ns {
            NsOp::Mkdir { dir, name, .. } | NsOp::Create { dir, name, .. } | NsOp::Link { dir, name, .. } => {
                let line = self.names.get(&(Ino(*dir), *name));
                let found =
                    line.and_then(|line| line.find(|to| to.is_some_and(|to| ino.is_none_or(|ino| to.0 == ino))));
                (Key::Name(Ino(*dir), *name), found, vec![Ino(*dir)], vec![])
            }
            NsOp::Unlink { dir, name } | NsOp::Rmdir { dir, name } => {
                let found = self.names.get(&(Ino(*dir), *name)).and_then(|line| line.find(|to| to.is_none()));
                (Key::Name(Ino(*dir), *name), found, vec![Ino(*dir)], vec![])
            }
            NsOp::Rename { dir, to, to_name, .. } => {
                let found = self.names.get(&(Ino(*to), *to_name)).and_then(|line| line.find(|to| to.is_some()));
                (Key::Name(Ino(*to), *to_name), found, vec![Ino(*dir), Ino(*to)], vec![])
            }
            NsOp::Chmod { ino, mode } => {
                let found = self.modes.get(&Ino(*ino)).and_then(|line| line.find(|is| *is == Some(*mode)));
                (Key::Mode(Ino(*ino)), found, vec![], vec![Ino(*ino)])
            }
            NsOp::Lookup { .. } | NsOp::GetAttr { .. } | NsOp::Readdir { .. } => return,
        };
        inos.extend(&dirs);
        if let (NsOp::Mkdir { .. } | NsOp::Create { .. }, Some(ino)) = (ns, ino) {
            self.gives(ino, op);
            inos.push(ino);
        }
        self.note(
            &key,
            found,
            Ack { client, what: format!("{ns:?}"), place: Place::default(), inos, dirs, lost: None },
            now,
        );
    }

    /// A policy was set.
    pub fn policy_set(&mut self, client: u64, dir: Ino, text: &str, now: u64) {
        self.counts.policies += 1;
        let number = number_of(text.as_bytes());
        let is_it = |policy: &Option<Policy>| policy.is_some_and(|policy| policy.0 == number);
        let found = self.policies.get(&dir).and_then(|line| line.find(is_it));
        let what = format!("policy of {dir}: {text}");
        let ack = Ack { client, what, place: Place::default(), inos: vec![dir], dirs: vec![dir], lost: None };
        self.note(&Key::Policy(dir), found, ack, now);
    }

    fn note(&mut self, key: &Key, found: Option<(Place, bool)>, ack: Ack, now: u64) {
        self.counts.answered += 1;
        let Some((place, is_lost)) = found else {
            return self.findings.push(format!("{} was answered, and no record has {key:?}", ack.what));
        };
        self.acks.push(Ack { place, ..ack });
        let beyond = |crash: &Crash| crash.rank == place.rank && place.lsn > crash.upto;
        if is_lost && let Some(crash) = self.crashes.iter().rposition(beyond) {
            self.lose(self.acks.len() - 1, crash, now);
        }
    }

    // Syncs.

    /// A sync begins of a file or directory, or of all that the client did.
    pub fn sync_begins(&mut self, op: u64, client: u64, ino: Option<Ino>, now: u64) {
        // Also what others did, if this client has had something to do with the rank there.
        let own: BTreeSet<usize> =
            self.acks.iter().filter(|ack| ack.client == client).map(|ack| ack.place.rank).collect();
        let is_covered = |ack: &Ack| match ino {
            Some(ino) => ack.inos.contains(&ino) && own.contains(&ack.place.rank),
            None => ack.client == client,
        };
        let covered = self.acks.iter().enumerate().filter(|(_, ack)| ack.lost.is_none() && is_covered(ack));
        let needs = covered.map(|(at, _)| at).collect();
        self.syncs.insert(op, Sync { client, ino, begun: now, needs });
    }

    /// It is answered; `told`: with an error that tells of a loss; none: nothing is known.
    pub fn sync_ends(&mut self, op: u64, told: Option<bool>) {
        let Some(Sync { client, ino, begun, needs }) = self.syncs.remove(&op) else { return };
        let owed = self.debts.get(&(client, ino)).copied();
        match told {
            Some(false) => {
                self.counts.synced += 1;
                for need in needs {
                    let Ack { place, what, lost, client: by, .. } = &self.acks[need];
                    if lost.is_some() {
                        let text =
                            format!("a sync of {ino:?} by client {client} went well and {what} of client {by} is lost");
                        self.findings.push(text);
                    }
                    let promised = self.promised.entry(place.rank).or_default();
                    if lost.is_none() {
                        *promised = (*promised).max(place.lsn);
                    }
                }
                if owed.is_some_and(|since| since < begun) {
                    self.findings
                        .push(format!("client {client} has lost something of {ino:?}, and its sync said nothing"));
                }
            }
            Some(true) => {
                self.counts.told += 1;
                self.debts.remove(&(client, ino));
            }
            None => {}
        }
    }

    /// A client opens a file. If it did not know of a crash by then, its handle tells.
    pub fn opens(&mut self, client: u64, ino: Ino, knows: bool) {
        *self.opens.entry((client, ino)).or_default() += 1;
        if !knows {
            self.debts.remove(&(client, Some(ino)));
        }
    }

    /// And closes it.
    pub fn closes(&mut self, client: u64, ino: Ino) {
        if let Some(opens) = self.opens.get_mut(&(client, ino)) {
            *opens -= 1;
            if *opens == 0 {
                self.opens.remove(&(client, ino));
            }
        }
    }

    /// A client is gone.
    pub fn client_gone(&mut self, client: u64) {
        self.debts.retain(|(of, _), _| *of != client);
        self.opens.retain(|(of, _), _| *of != client);
    }

    // Looks.

    /// A name was looked up, or is in a cache.
    pub fn look(&mut self, dir: Ino, name: NameId, found: Option<Target>, times: (u64, u64), how: &str) {
        self.counts.cached += u64::from(times.0 == times.1);
        let line = self.names.get(&(dir, name));
        let matches = line.map_or(found.is_none(), |line| line.was(times, |is| *is == found));
        if !matches {
            let text = format!("{how} {dir}/n{name} is {found:?}, and at no moment of {times:?} was: {line:?}");
            self.findings.push(text);
        }
    }

    /// Attributes were looked at.
    pub fn look_at_mode(&mut self, ino: Ino, mode: u16, times: (u64, u64), how: &str) {
        let Some(line) = self.modes.get(&ino) else { return };
        if !line.was(times, |is| is.is_none() || *is == Some(mode)) {
            self.findings.push(format!("{how} mode of {ino} is {mode:o}, and at no moment of {times:?} was: {line:?}"));
        }
    }

    /// A directory was listed.
    pub fn list(&mut self, dir: Ino, found: &BTreeMap<NameId, Target>, times: (u64, u64)) {
        let known: Vec<NameId> = self.names.range((dir, 0)..=(dir, NameId::MAX)).map(|((_, name), _)| *name).collect();
        for name in known.iter().copied().chain(found.keys().copied().filter(|name| !known.contains(name))) {
            self.look(dir, name, found.get(&name).copied(), times, "in a list");
        }
    }

    /// Compares the table at the end with the records.
    pub fn compare(&mut self, found: &BTreeMap<(Ino, NameId), Ino>) {
        let there: BTreeMap<(Ino, NameId), Ino> =
            self.there().map(|(dir, name, target)| ((dir, name), target.0)).collect();
        if there != *found {
            self.findings.push(format!("at the end the table has {found:?}, and the records say {there:?}"));
        }
    }
}
