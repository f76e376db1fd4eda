//! Which rank to ask: the subtree map as far as it is known here, and where inodes were seen. Guesses, all of it: a rank
//! that is asked in vain says who is to be asked instead. Nothing is sent here, and with one rank nothing is kept.

use std::collections::{BTreeMap, VecDeque};

use loligo_types::hash::IntMap;
use loligo_types::{ClusterMap, Control, Ino, Name, Op, Rank, RankState, Route, Subject as Of};

/// Where that is which is lost: no rank has this number.
pub(crate) const NOWHERE: Rank = Rank(u16::MAX);

/// Inodes whose place is remembered at most.
pub(crate) const SEEN_MAX: usize = 1 << 20;
/// Directories that are looked at on the way up at most: a chain that was put together at different times may be a ring.
const CHAIN_MAX: usize = 4096;

/// Where an inode was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Seen {
    /// The directory that has its primary name; 0: not known.
    dir: Ino,
    /// Hash of that name.
    hash: Option<u64>,
    /// The rank that answered for it last.
    rank: Rank,
    /// Used since the hand passed.
    used: bool,
}

/// Reliability of the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// By the map.
    Known(Rank),
    /// It answered last, or is one of several that it may be.
    Guess(Rank),
    Unknown,
}

/// Inode or name by which an operation is routed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Subject {
    /// A directory's names, or the one with a hash.
    Names(Ino, Option<u64>),
    Inode(Ino),
    /// The file system.
    Root,
    /// Where these handles are.
    Handles,
}

impl Subject {
    /// The hash of the name, if it is one and that is known.
    pub(crate) fn hash(self) -> Option<u64> {
        match self {
            Subject::Names(_, hash) => hash,
            _ => None,
        }
    }
}

/// Routing state: the subtree map, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct Router {
    map: ClusterMap,
    /// Under which names are hashed, once a server has said it.
    pub(crate) hash_key: Option<(u64, u64)>,
    routes: BTreeMap<Ino, Vec<Route>>,
    seen: IntMap<Ino, Seen>,
    /// Those that are remembered, in the order in which the hand of the clock looks at them. May hold forgotten ones.
    clock: VecDeque<Ino>,
    /// So many are remembered.
    seen_max: usize,
}

impl Router {
    /// One that knows nothing and remembers so many inodes at most.
    pub(crate) fn with(seen_max: usize) -> Router {
        Router { seen_max, ..Router::default() }
    }

    /// True if there is only one rank, so that nothing needs to be found.
    pub(crate) fn is_single(&self) -> bool {
        self.map.ranks.len() <= 1
    }

    /// Takes a cluster map. Whether it was news.
    pub(crate) fn learn_map(&mut self, map: &ClusterMap) -> bool {
        let news = map.epoch > self.map.epoch || self.map.ranks.is_empty() && !map.ranks.is_empty();
        if news {
            self.map = map.clone();
        }
        news
    }

    /// Where clients reach a rank; `None`: that is not known, or it is nowhere now.
    pub(crate) fn address(&self, rank: Rank) -> Option<String> {
        let info = self.map.ranks.iter().find(|info| info.rank == rank);
        info.map(|info| info.address.clone()).filter(|address| !address.is_empty())
    }

    /// True if there may be such a rank: without a map, any.
    pub(crate) fn may_be(&self, rank: Rank) -> bool {
        self.map.ranks.is_empty() || self.map.ranks.iter().any(|info| info.rank == rank)
    }

    /// True if a rank takes new requests.
    pub(crate) fn has_rank(&self, rank: Rank) -> bool {
        self.map.ranks.iter().any(|info| info.rank == rank && info.state != RankState::Leaving)
    }

    /// True if a rank has nothing any more and waits for its clients to go.
    pub(crate) fn is_leaving(&self, rank: Rank) -> bool {
        self.map.ranks.iter().any(|info| info.rank == rank && info.state == RankState::Leaving)
    }

    /// Takes lines of the subtree map. Whether any was news.
    pub(crate) fn learn(&mut self, routes: &[Route]) -> bool {
        routes.iter().fold(false, |news, route| self.learn_one(route) | news)
    }

    fn learn_one(&mut self, route: &Route) -> bool {
        let lines = self.routes.entry(route.dir).or_default();
        if lines.iter().any(|line| line.version >= route.version && line.frag.covers(route.frag)) {
            return false;
        }
        lines.retain(|line| !(line.version <= route.version && route.frag.covers(line.frag)));
        lines.push(*route);
        true
    }

    /// The rank by the directory's own lines, or by its number where there are none.
    fn line(&self, dir: Ino, hash: Option<u64>, last: Option<Rank>) -> Found {
        let Some(lines) = self.routes.get(&dir) else {
            return dir.zeroth_rank().filter(|rank| self.may_be(*rank)).map_or(Found::Unknown, Found::Known);
        };
        let newest = |a: &&Route| (a.version, a.frag.bits);
        if let Some(hash) = hash {
            let line = lines.iter().filter(|line| line.frag.contains(hash)).max_by_key(newest);
            return line.map_or(Found::Unknown, |line| Found::Known(line.rank));
        }
        match lines.as_slice() {
            [] => Found::Unknown,
            [line] if line.frag.bits == 0 => Found::Known(line.rank),
            lines => match last.filter(|last| lines.iter().any(|line| line.rank == *last)) {
                Some(last) => Found::Guess(last),
                None => lines.iter().max_by_key(newest).map_or(Found::Unknown, |line| Found::Guess(line.rank)),
            },
        }
    }

    /// The hash of a name, if it can be told.
    pub(crate) fn hash(&self, name: &Name) -> Option<u64> {
        if self.is_single() {
            None
        } else {
            self.hash_key.map(|key| loligo_types::hash::name_hash(key, name.as_bytes()))
        }
    }

    /// Inode or name by which an operation is routed.
    pub(crate) fn subject(&self, op: &Op) -> Subject {
        match op.subjects()[0] {
            Of::Name(dir, name) => Subject::Names(dir, self.hash(name)),
            Of::Names(dir) => Subject::Names(dir, op.props().lists_from.map(|from| from.saturating_add(1))),
            Of::Inode(ino) => Subject::Inode(ino),
            Of::Nothing if matches!(op, Op::Control(Control::Close { .. })) => Subject::Handles,
            Of::Nothing => Subject::Root,
        }
    }

    /// The rank of a directory whose path gives it: by the names from where such directories begin, its own included.
    pub(crate) fn rank_by_path(&self, names: &[Name]) -> Option<Rank> {
        let (key, ranks) = (self.hash_key?, self.map.placed());
        let hash = |name: &Name| loligo_types::hash::name_hash(key, name.as_bytes());
        names.iter().fold(None, |above, name| loligo_types::hash::rank_by_path(above, hash(name), &ranks))
    }

    /// True if fragments of a directory are known to be at several ranks.
    pub(crate) fn is_parted(&self, dir: Ino) -> bool {
        self.routes.get(&dir).is_some_and(|lines| lines.iter().any(|line| line.frag.bits > 0))
    }

    /// The rank of the fragment with a hash, where a directory is in fragments of several.
    pub(crate) fn rank_of_part(&self, dir: Ino, hash: u64) -> Option<Rank> {
        match self.line(dir, Some(hash), None) {
            Found::Known(rank) if self.is_parted(dir) => Some(rank),
            _ => None,
        }
    }

    /// The authority over an inode, or over the name with a hash in a directory.
    pub(crate) fn find(&self, ino: Ino, hash: Option<u64>) -> Found {
        let answered = self.seen.get(&ino).map(|seen| seen.rank);
        // An inode lives with the first fragment of its directory.
        let (mut at, mut hash, mut last) = (ino, hash.or(Some(0)), answered);
        for _ in 0..CHAIN_MAX {
            match self.line(at, hash, last) {
                Found::Unknown if at == Ino::ROOT => return Found::Known(Rank::ZERO),
                Found::Unknown => {}
                found => return found,
            }
            match self.seen.get(&at) {
                Some(seen) if seen.dir != Ino(0) => (at, hash, last) = (seen.dir, seen.hash, Some(seen.rank)),
                _ => break,
            }
        }
        answered.map_or(Found::Unknown, Found::Guess)
    }

    /// True if the map says that an inode is a rank's.
    pub(crate) fn says(&self, rank: Rank, ino: Ino) -> bool {
        self.find(ino, None) == Found::Known(rank)
    }

    /// True if an inode may be a rank's: the map says so, or does not name its rank.
    pub(crate) fn may_have(&self, rank: Rank, ino: Ino) -> bool {
        !matches!(self.find(ino, None), Found::Known(other) if other != rank)
    }

    /// The rank to ask. `first`: the rank of the first connection, as the last resort.
    pub(crate) fn target(&self, subject: Subject, first: Rank) -> Rank {
        let (ino, hash) = match subject {
            Subject::Names(dir, hash) => (dir, hash),
            Subject::Inode(ino) => (ino, None),
            Subject::Root => (Ino::ROOT, None),
            Subject::Handles => return first,
        };
        let found = match self.find(ino, hash) {
            Found::Known(rank) | Found::Guess(rank) => rank,
            Found::Unknown => ino.birth_rank(),
        };
        if self.has_rank(found) { found } else { self.some_rank(first) }
    }

    /// This rank if there may be one like it, else any.
    pub(crate) fn some_rank(&self, first: Rank) -> Rank {
        if self.map.ranks.is_empty() || self.has_rank(first) {
            return first;
        }
        let stays = self.map.ranks.iter().find(|info| info.state != RankState::Leaving);
        stays.map_or(first, |info| info.rank)
    }

    /// An inode has its primary name in a directory, and this rank answers for it.
    pub(crate) fn see_child(&mut self, ino: Ino, dir: Ino, hash: Option<u64>, rank: Rank) {
        if self.is_single() || ino == Ino::ROOT {
            return;
        }
        let seen = self.entry(ino);
        // The hash of an unchanged place stays known.
        let hash = hash.or(if seen.dir == dir { seen.hash } else { None });
        (seen.dir, seen.hash, seen.rank, seen.used) = (dir, hash, rank, true);
    }

    /// A rank answered for an inode.
    pub(crate) fn see(&mut self, ino: Ino, rank: Rank) {
        if self.is_single() {
            return;
        }
        let seen = self.entry(ino);
        (seen.rank, seen.used) = (rank, true);
    }

    /// An inode was not where it was looked for, but at this rank: if the map says otherwise its place is not known.
    pub(crate) fn correct(&mut self, ino: Ino, rank: Rank) {
        let wrong = matches!(self.find(ino, None), Found::Known(known) if known != rank);
        self.see(ino, rank);
        if let (true, Some(seen)) = (wrong, self.seen.get_mut(&ino)) {
            (seen.dir, seen.hash) = (Ino(0), None);
        }
    }

    /// Nobody will ask for it soon.
    pub(crate) fn forget(&mut self, ino: Ino) {
        self.seen.remove(&ino);
    }

    fn entry(&mut self, ino: Ino) -> &mut Seen {
        if !self.seen.contains_key(&ino) {
            self.make_room();
            self.clock.push_back(ino);
        }
        self.seen.entry(ino).or_insert(Seen { dir: Ino(0), hash: None, rank: Rank::ZERO, used: false })
    }

    /// Forgets one that was not used lately, if there are too many.
    fn make_room(&mut self) {
        while self.clock.len() >= self.seen_max {
            let Some(oldest) = self.clock.pop_front() else { return };
            if self.seen.get_mut(&oldest).is_some_and(|seen| std::mem::take(&mut seen.used)) {
                self.clock.push_back(oldest);
            } else {
                self.seen.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use loligo_types::{Frag, RankInfo};

    use super::*;

    fn router() -> Router {
        let info = |rank| RankInfo { rank: Rank(rank), address: String::new(), state: RankState::Up };
        let mut router = Router::with(SEEN_MAX);
        assert!(router.learn_map(&ClusterMap { epoch: 1, ranks: (0..4).map(info).collect(), ..Default::default() }));
        router
    }

    fn line(dir: u64, frag: Frag, rank: u16, version: u64) -> Route {
        Route { dir: Ino(dir), frag, rank: Rank(rank), version }
    }

    #[test]
    fn the_newest_line_of_a_fragment_counts() {
        let mut router = router();
        assert!(router.learn(&[line(9, Frag::WHOLE, 1, 5)]));
        assert!(!router.learn(&[line(9, Frag::WHOLE, 2, 4), line(9, Frag::WHOLE, 2, 5)]));
        let halves = Frag::WHOLE.split(1);
        assert!(router.learn(&[line(9, halves[1], 2, 6)]));
        assert_eq!(router.find(Ino(9), Some(halves[0].last())), Found::Known(Rank(1)));
        assert_eq!(router.find(Ino(9), Some(halves[1].first())), Found::Known(Rank(2)));
        assert!(router.learn(&[line(9, Frag::WHOLE, 3, 7)]));
        assert_eq!(router.find(Ino(9), Some(halves[1].first())), Found::Known(Rank(3)));
        assert_eq!(router.routes[&Ino(9)].len(), 1, "what it covers is forgotten");
        assert!(!router.learn(&[line(9, halves[1], 2, 6)]));
    }

    #[test]
    fn authority_comes_from_the_nearest_line_above() {
        let mut router = router();
        let halves = Frag::WHOLE.split(1);
        router.see_child(Ino(10), Ino::ROOT, None, Rank(0));
        router.see_child(Ino(11), Ino(10), Some(halves[1].first()), Rank(0));
        router.see_child(Ino(12), Ino(11), None, Rank(0));
        assert_eq!(router.find(Ino(12), None), Found::Known(Rank::ZERO));
        router.learn(&[line(10, halves[1], 1, 1)]);
        assert_eq!(router.find(Ino(12), None), Found::Known(Rank(1)));
        assert_eq!(router.find(Ino(10), Some(halves[0].first())), Found::Known(Rank::ZERO));
        router.learn(&[line(11, Frag::WHOLE, 2, 1)]);
        assert_eq!(router.find(Ino(12), None), Found::Known(Rank(2)));
        assert_eq!(router.find(Ino::ROOT, None), Found::Known(Rank::ZERO));
        router.learn(&[line(1, Frag::WHOLE, 3, 1)]);
        assert_eq!(router.find(Ino::ROOT, None), Found::Known(Rank(3)));
    }

    #[test]
    fn a_number_that_names_a_rank_counts_until_a_line_says_otherwise() {
        let mut router = router();
        let dir = Ino(0x100).scattered(Rank(2)).expect("it fits");
        router.see_child(dir, Ino::ROOT, None, Rank(0));
        router.see_child(Ino(11), dir, None, Rank(0));
        assert_eq!(
            (router.find(dir, None), router.find(Ino(11), None)),
            (Found::Known(Rank(2)), Found::Known(Rank(2)))
        );
        router.learn(&[line(dir.0, Frag::WHOLE, 3, 1)]);
        assert_eq!(router.find(Ino(11), None), Found::Known(Rank(3)));
    }

    #[test]
    fn a_ring_of_stale_parents_ends() {
        let mut router = router();
        router.see_child(Ino(10), Ino(11), None, Rank(1));
        router.see_child(Ino(11), Ino(10), None, Rank(2));
        assert_eq!(router.find(Ino(10), None), Found::Guess(Rank(1)));
    }

    #[test]
    fn without_a_chain_the_last_who_answered_is_asked_and_else_the_rank_of_birth() {
        let mut router = router();
        let born = Ino::first_of(Rank(2));
        assert_eq!(router.target(Subject::Inode(born), Rank(0)), Rank(2));
        router.see(born, Rank(3));
        assert_eq!(router.target(Subject::Inode(born), Rank(0)), Rank(3));
        router.forget(born);
        assert_eq!(router.target(Subject::Inode(born), Rank(0)), Rank(2));
        assert_eq!(router.target(Subject::Inode(Ino::first_of(Rank(9))), Rank(1)), Rank(1), "a rank that is not there");
    }

    #[test]
    fn a_place_that_proved_wrong_is_forgotten() {
        let mut router = router();
        router.see_child(Ino(10), Ino::ROOT, None, Rank(0));
        router.correct(Ino(10), Rank(2));
        assert_eq!(router.find(Ino(10), None), Found::Guess(Rank(2)));
        router.see_child(Ino(11), Ino::ROOT, None, Rank(0));
        router.correct(Ino(11), Rank(0));
        assert_eq!(router.find(Ino(11), None), Found::Known(Rank(0)));
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let mut router = router();
        for n in 0..SEEN_MAX as u64 + 1000 {
            router.see(Ino(0x100 + n), Rank(1));
            router.see(Ino(0x100), Rank(2));
        }
        assert!(router.seen.len() <= SEEN_MAX && router.clock.len() <= SEEN_MAX);
        assert_eq!(router.find(Ino(0x100), None), Found::Guess(Rank(2)), "it is in use");
    }

    #[test]
    fn with_one_rank_nothing_is_kept() {
        let mut router = Router::with(SEEN_MAX);
        router.see(Ino(9), Rank(0));
        router.see_child(Ino(9), Ino(1), None, Rank(0));
        assert!(router.is_single() && router.seen.is_empty());
    }
}
