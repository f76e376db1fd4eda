//! The subtree map as one rank knows it: its own lines and what others have told. No decisions.

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::{ClusterMap, Frag, Ino, Lsn, Rank, Route};

/// The lines, by directory and fragment.
#[derive(Default, Debug)]
pub(crate) struct Routes {
    lines: BTreeMap<(Ino, Frag), Route>,
    /// Those that are not true for others yet, as they were written.
    fresh: Vec<Fresh>,
    /// The ranks that there are: a number that names another one means nothing any more.
    ranks: BTreeSet<Rank>,
}

/// A line that others are not told yet.
#[derive(Debug)]
struct Fresh {
    /// Until it is durable a crash may take it back: its version may be given again then, with another meaning.
    lsn: Lsn,
    /// The letter that carries the fragments which the line gives away. A client that asked for them where they are not yet
    /// would be taken for one that holds nothing there.
    letter: Option<(Rank, u64)>,
    line: Route,
    /// The lines that this one replaced.
    before: Vec<Route>,
}

impl Routes {
    /// These ranks are there, and this one.
    pub(crate) fn set_ranks(&mut self, map: &ClusterMap, own: Rank) {
        self.ranks = map.ranks.iter().map(|info| info.rank).chain([own]).collect();
    }

    /// The rank that a directory's number names.
    fn zeroth(&self, dir: Ino) -> Option<Rank> {
        dir.zeroth_rank().filter(|rank| self.ranks.contains(rank))
    }

    /// Takes a line in; whether it is news.
    pub(crate) fn learn(&mut self, route: Route) -> bool {
        let overlap = |known: &&Route| known.frag.covers(route.frag) || route.frag.covers(known.frag);
        if self.of_dir(route.dir).filter(overlap).any(|known| known.version >= route.version) {
            return false;
        }
        let old: Vec<Frag> = self.of_dir(route.dir).filter(overlap).map(|known| known.frag).collect();
        for frag in old {
            self.lines.remove(&(route.dir, frag));
        }
        self.lines.insert((route.dir, route.frag), route);
        true
    }

    /// The same with one of a record of this rank's journal.
    pub(crate) fn write(&mut self, line: Route, lsn: Lsn) -> bool {
        self.put(line, lsn, None)
    }

    /// The same with one of a record that gives something away, with the letter that brings it there.
    pub(crate) fn give(&mut self, line: Route, lsn: Lsn, letter: (Rank, u64)) {
        self.put(line, lsn, Some(letter));
    }

    /// A letter with which lines came into the table before this rank's start is still under way.
    pub(crate) fn is_under_way(&mut self, lines: &[Route], letter: (Rank, u64)) {
        let known = lines.iter().filter(|line| self.lines.get(&(line.dir, line.frag)) == Some(*line));
        let fresh = known.map(|line| Fresh { lsn: Lsn(0), letter: Some(letter), line: *line, before: Vec::new() });
        self.fresh.extend(fresh);
    }

    fn put(&mut self, line: Route, lsn: Lsn, letter: Option<(Rank, u64)>) -> bool {
        let overlap = |known: &&Route| known.frag.covers(line.frag) || line.frag.covers(known.frag);
        let before = self.of_dir(line.dir).filter(overlap).copied().collect();
        let news = self.learn(line);
        if news {
            self.fresh.push(Fresh { lsn, letter, line, before });
        }
        news
    }

    /// The journal is durable up to here.
    pub(crate) fn durable(&mut self, upto: Lsn) {
        self.fresh.retain(|fresh| fresh.letter.is_some() || fresh.lsn > upto);
    }

    /// A rank has the letters up to this one. The lines that others may be told now.
    pub(crate) fn received(&mut self, rank: Rank, upto: u64) -> Vec<Route> {
        let here = |fresh: &mut Fresh| matches!(fresh.letter, Some((to, seq)) if to == rank && seq <= upto);
        // What was sent is durable.
        let lines = self.fresh.extract_if(.., here).map(|fresh| fresh.line).collect::<Vec<_>>();
        lines.into_iter().filter(|line| self.lines.get(&(line.dir, line.frag)) == Some(line)).collect()
    }

    /// Some lines as they were before those that are not to be told yet.
    pub(crate) fn without_fresh(&self, some: Vec<Route>) -> Vec<Route> {
        self.without(some, |_| true)
    }

    /// The same for who is told when all is durable.
    pub(crate) fn without_under_way(&self, some: Vec<Route>) -> Vec<Route> {
        self.without(some, |fresh| fresh.letter.is_some())
    }

    fn without(&self, mut some: Vec<Route>, counts: impl Fn(&Fresh) -> bool) -> Vec<Route> {
        if self.fresh.is_empty() {
            return some;
        }
        let fresh: Vec<&Fresh> = self.fresh.iter().filter(|fresh| counts(fresh)).collect();
        let is_fresh = |line: &Route| fresh.iter().any(|fresh| fresh.line == *line);
        let dirs: BTreeSet<Ino> = some.iter().filter(|line| is_fresh(line)).map(|line| line.dir).collect();
        let before = fresh.iter().filter(|fresh| dirs.contains(&fresh.line.dir)).flat_map(|fresh| &fresh.before);
        some.extend(before);
        some.retain(|line| !is_fresh(line));
        some
    }

    /// True if this line is still in the map.
    pub(crate) fn has(&self, line: &Route) -> bool {
        self.lines.get(&(line.dir, line.frag)) == Some(line)
    }

    /// The lines that name a rank which is not there.
    pub(crate) fn nowhere(&self) -> Vec<Route> {
        self.lines.values().filter(|line| !self.ranks.contains(&line.rank)).copied().collect()
    }

    /// The directory is gone.
    pub(crate) fn forget(&mut self, dir: Ino) {
        let gone: Vec<Frag> = self.of_dir(dir).map(|route| route.frag).collect();
        for frag in gone {
            self.lines.remove(&(dir, frag));
        }
    }

    fn of_dir(&self, dir: Ino) -> impl Iterator<Item = &Route> + '_ {
        self.lines.range((dir, Frag::WHOLE)..).take_while(move |((d, _), _)| *d == dir).map(|(_, route)| route)
    }

    /// The rank that has a name of a directory, if a line says so, or else the number of the directory.
    pub(crate) fn of(&self, dir: Ino, hash: u64) -> Option<Rank> {
        self.line_of(dir, hash).or_else(|| self.zeroth(dir))
    }

    /// The same if a line says so.
    pub(crate) fn line_of(&self, dir: Ino, hash: u64) -> Option<Rank> {
        if self.lines.is_empty() {
            return None;
        }
        self.of_dir(dir).find(|route| route.frag.contains(hash)).map(|route| route.rank)
    }

    /// The fragment of a directory that holds a name with this hash, as the lines cut it; all of it where none does.
    pub(crate) fn frag(&self, dir: Ino, hash: impl FnOnce() -> u64) -> Frag {
        if self.lines.is_empty() || self.of_dir(dir).all(|route| route.frag == Frag::WHOLE) {
            return Frag::WHOLE;
        }
        let hash = hash();
        self.of_dir(dir).find(|route| route.frag.contains(hash)).map_or(Frag::WHOLE, |route| route.frag)
    }

    /// The rank that has a directory's own inode, if a line or its number says so: it lives with its first fragment.
    pub(crate) fn home(&self, dir: Ino) -> Option<Rank> {
        self.of(dir, 0)
    }

    /// True if the directory's fragments have lines of their own.
    pub(crate) fn is_spread(&self, dir: Ino) -> bool {
        !self.lines.is_empty() && self.of_dir(dir).any(|route| route.frag != Frag::WHOLE)
    }

    /// The lines of a directory, ascending by fragment.
    pub(crate) fn lines(&self, dir: Ino) -> Vec<Route> {
        self.of_dir(dir).copied().collect()
    }

    /// The ranks with fragments of a directory.
    pub(crate) fn ranks(&self, dir: Ino) -> BTreeSet<Rank> {
        self.of_dir(dir).map(|route| route.rank).collect()
    }

    /// The highest version of the directory's lines.
    pub(crate) fn version(&self, dir: Ino) -> Option<u64> {
        self.of_dir(dir).map(|route| route.version).max()
    }

    /// Number of lines.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// At most so many lines of a directory.
    pub(crate) fn some_of(&self, dir: Ino, most: usize) -> impl Iterator<Item = Route> + '_ {
        self.of_dir(dir).take(most).copied()
    }

    /// The first lines, ascending: those of directories that were made early.
    pub(crate) fn first(&self, most: usize) -> Vec<Route> {
        self.lines.values().take(most).copied().collect()
    }

    /// All lines, ascending.
    pub(crate) fn all(&self) -> Vec<Route> {
        self.lines.values().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(frag: Frag, rank: u16, version: u64) -> Route {
        Route { dir: Ino(5), frag, rank: Rank(rank), version }
    }

    #[test]
    fn newer_lines_take_the_place_of_those_they_overlap() {
        let mut routes = Routes::default();
        assert!(routes.learn(route(Frag::WHOLE, 1, 1)));
        assert!(!routes.learn(route(Frag::WHOLE, 2, 1)), "not newer");
        assert_eq!((routes.home(Ino(5)), routes.home(Ino(6))), (Some(Rank(1)), None));
        let halves = Frag::WHOLE.split(1);
        assert!(routes.learn(route(halves[1], 2, 2)));
        assert_eq!(routes.of(Ino(5), halves[1].first()), Some(Rank(2)));
        assert!(!routes.learn(route(Frag::WHOLE, 3, 2)));
        assert!(routes.learn(route(Frag::WHOLE, 3, 3)));
        assert_eq!((routes.lines.len(), routes.of(Ino(5), halves[1].first())), (1, Some(Rank(3))));
        routes.forget(Ino(5));
        assert_eq!((routes.lines.len(), routes.version(Ino(5))), (0, None));
    }

    #[test]
    fn a_number_counts_where_no_line_says_otherwise() {
        let mut routes = Routes::default();
        let dir = Ino(0x100).scattered(Rank(3)).expect("it fits");
        assert_eq!(routes.home(dir), None, "there is no such rank");
        routes.set_ranks(&ClusterMap::default(), Rank(3));
        assert_eq!((routes.home(dir), routes.version(dir), routes.is_spread(dir)), (Some(Rank(3)), None, false));
        assert!(routes.learn(Route { dir, frag: Frag::WHOLE, rank: Rank(1), version: 1 }));
        assert_eq!((routes.home(dir), routes.home(Ino(0x100))), (Some(Rank(1)), None));
        routes.forget(dir);
        assert_eq!(routes.of(dir, 7), Some(Rank(3)));
    }

    #[test]
    fn what_a_crash_may_take_back_is_left_out_for_what_was_before() {
        let mut routes = Routes::default();
        let (whole, halves) = (route(Frag::WHOLE, 1, 1), Frag::WHOLE.split(1));
        routes.learn(whole);
        let [first, second] = [0, 1].map(|half| route(halves[half], half as u16, 2));
        assert!(routes.write(first, Lsn(7)) && routes.write(second, Lsn(7)));
        assert!(!routes.write(second, Lsn(8)), "it is known");
        assert!(routes.write(route(Frag::WHOLE, 3, 3), Lsn(9)));
        for (upto, told) in [(6, vec![whole]), (7, vec![first, second]), (9, vec![route(Frag::WHOLE, 3, 3)])] {
            routes.durable(Lsn(upto));
            assert_eq!(routes.without_fresh(routes.all()), told, "{upto}");
        }
        assert!(routes.fresh.is_empty());
    }
}
