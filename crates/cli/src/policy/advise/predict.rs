//! Predicted effect of a placement on a load: how evenly ranks have it, how many messages an operation takes, and from which rate on a rank
//! is busy all the time. Formulas: digest of ShardFS vs. IndexFS, §2.9; where a directory goes under `giga` is dealt out many times
//! instead, so that any load can be judged. Pure: no server, no clock. Not here: where the numbers come from.

use loligo_types::hash::mix;

/// Number of times that directories are dealt out.
const DEALS: u64 = 200;
/// Making, removing or renaming a directory at two ranks costs so many times what it costs at one: `bench/placement.sh`, docs/placement.md.
const TWO_RANKS: f64 = 2.9;
/// Messages between ranks for a directory that is made at another rank: a letter.
const MADE: f64 = 1.0;
/// The same if one is removed or renamed: it is borrowed, lent, and what was decided is sent.
const CHANGED: f64 = 3.0;
/// Less than so much of one rank: there is nothing to spread.
const LITTLE: f64 = 0.5;
/// Smallest improvement, as a factor, that is worth the cost of a change.
const BETTER: f64 = 1.1;
/// The busiest rank has so many times what one has on average: that is not even.
const UNEVEN: f64 = 1.5;
/// Paths are so much of what is asked: programs that ask by paths come first.
const BY_PATHS: f64 = 0.25;
/// Messages an operation that are worth a weaker promise.
const WORTH: f64 = 0.05;
/// A balancer moves a few pieces at a time: more directories for half of the load than so many for each rank are not followed.
const FEW: usize = 4;

/// Load below a directory.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Requests per second of each directory, by what moves with it; and whether it is large enough to be at all ranks.
    pub dirs: Vec<Dir>,
    /// Directories made per second.
    pub made: f64,
    /// Removed or renamed per second.
    pub changed: f64,
    /// Given away, opened or closed to others per second.
    pub restricted: f64,
    /// Requests per second of each rank, of this.
    pub at: Vec<f64>,
    /// Requests per second that a rank can answer; 0: not known.
    pub capacity: f64,
    /// Share of paths in all requests, 0 to 1.
    pub paths: f64,
}

/// A directory.
#[derive(Clone, Copy, Debug)]
pub struct Dir {
    /// Requests per second.
    pub rate: f64,
    /// It has been cut into fragments, so under `giga` it comes to all ranks.
    pub large: bool,
}

/// Prediction for a placement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outlook {
    /// Load of the busiest rank in that of a rank on average.
    pub busiest: f64,
    /// Coefficient of variation of load over ranks.
    pub variation: f64,
    /// Requests of clients and messages between ranks for an operation.
    pub messages: f64,
    /// From so many operations per second on the busiest rank is busy all the time, if each has a processor; 0: not known.
    pub limit: f64,
}

/// Advice on the placement of a directory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Advice {
    /// There is one rank.
    OneRank,
    /// One rank has time for all of it.
    Little,
    /// It is as even as it can be made.
    Even,
    /// Few directories have the load: moving them is enough.
    Move,
    /// So few that moving them is not enough.
    Cut,
    /// Making and changing directories costs more than an even load brings.
    Directories,
    /// Many directories have the load.
    Giga,
    /// Many directories have the load, and programs ask by paths. For whoever needs nobody asked about the directories above: how many
    /// messages an operation `table` saves besides, if that is worth something.
    Replicated {
        /// Those.
        unchecked: Option<f64>,
    },
}

impl Seen {
    /// Requests per second.
    pub fn rate(&self) -> f64 {
        self.dirs.iter().map(|dir| dir.rate).sum()
    }

    /// The fewest directories that have half of the load.
    pub fn half(&self) -> usize {
        let mut rates: Vec<f64> = self.dirs.iter().map(|dir| dir.rate).collect();
        rates.sort_by(|a, b| b.total_cmp(a));
        let (half, mut sum) = (self.rate() / 2.0, 0.0);
        let until = |rate: &f64| {
            sum += rate;
            sum >= half
        };
        rates.iter().position(until).map_or(0, |at| at + 1)
    }

    /// Number of ranks that this load keeps busy; `None`: not known.
    pub fn needs(&self) -> Option<f64> {
        (self.capacity > 0.0).then(|| self.rate() / self.capacity)
    }

    /// With everything where it is.
    pub fn as_it_is(&self, ranks: usize) -> Outlook {
        let mut at = self.at.clone();
        at.resize(ranks.max(at.len()), 0.0);
        self.outlook(&[at], 1.0, 1.0)
    }

    /// With `subtree`, and every directory moved to where it makes all most even; large ones in pieces. No balancer does better.
    pub fn moved(&self, ranks: usize) -> Outlook {
        let mut at = vec![0.0; ranks];
        let mut dirs = self.dirs.clone();
        dirs.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        for dir in dirs {
            if dir.large {
                at.iter_mut().for_each(|load| *load += dir.rate / ranks as f64);
            } else if let Some(least) = at.iter_mut().min_by(|a, b| a.total_cmp(b)) {
                *least += dir.rate;
            }
        }
        self.outlook(&[at], 1.0, 1.0)
    }

    /// With `giga` from the beginning.
    pub fn giga(&self, ranks: usize) -> Outlook {
        let deals: Vec<Vec<f64>> = (0..DEALS).map(|deal| self.deal(ranks, deal)).collect();
        let away = (ranks as f64 - 1.0) / ranks as f64;
        let rate = self.rate().max(f64::MIN_POSITIVE);
        let messages = 1.0 + away * (MADE * self.made + CHANGED * self.changed) / rate;
        let cost = 1.0 + away * (TWO_RANKS - 1.0) * (self.made + self.changed) / rate;
        self.outlook(&deals, messages, cost)
    }

    /// With `replicated` from the beginning, if a replica of each directory is at every rank: as `giga`, and whoever changes a directory asks them
    /// all back. Of removed ones there may be none; then this says too much.
    pub fn replicated(&self, ranks: usize) -> Outlook {
        self.asking_back(ranks, self.changed + self.restricted)
    }

    /// With `table` from the beginning: the same, but who may search a directory is nothing to paths.
    pub fn table(&self, ranks: usize) -> Outlook {
        self.asking_back(ranks, self.changed)
    }

    fn asking_back(&self, ranks: usize, rate: f64) -> Outlook {
        let giga = self.giga(ranks);
        let asked_back = 2.0 * (ranks as f64 - 1.0) * rate / self.rate().max(f64::MIN_POSITIVE);
        Outlook { messages: giga.messages + asked_back, ..giga }
    }

    /// One way in which directories may come to be at ranks.
    fn deal(&self, ranks: usize, deal: u64) -> Vec<f64> {
        let mut at = vec![0.0; ranks];
        for (number, dir) in self.dirs.iter().enumerate() {
            if dir.large {
                at.iter_mut().for_each(|load| *load += dir.rate / ranks as f64);
            } else {
                at[(mix(deal << 32 | number as u64) % ranks as u64) as usize] += dir.rate;
            }
        }
        at
    }

    fn outlook(&self, ways: &[Vec<f64>], messages: f64, cost: f64) -> Outlook {
        // Of several ways: the mean, and the root of the mean square.
        let (mut busiest, mut variation) = (0.0, 0.0);
        for at in ways {
            let ranks = at.len() as f64;
            let mean = (at.iter().sum::<f64>() / ranks).max(f64::MIN_POSITIVE);
            busiest += at.iter().copied().fold(0.0, f64::max) / mean;
            let square = at.iter().map(|load| (load / mean - 1.0).powi(2)).sum::<f64>() / ranks;
            variation += square;
        }
        let (busiest, variation) = (busiest / ways.len() as f64, (variation / ways.len() as f64).sqrt());
        let ranks = ways.first().map_or(1, Vec::len) as f64;
        let limit = if busiest > 0.0 { self.capacity * ranks / busiest / cost } else { 0.0 };
        Outlook { busiest, variation, messages, limit }
    }

    /// Messages an operation by which `table` has less than `replicated`, if that is worth something.
    fn unchecked(&self, ranks: usize) -> Option<f64> {
        let less = self.replicated(ranks).messages - self.table(ranks).messages;
        (less >= WORTH).then_some(less)
    }

    /// The advice for a file system of so many ranks.
    pub fn advice(&self, ranks: usize) -> Advice {
        if ranks < 2 {
            return Advice::OneRank;
        }
        if self.needs().is_some_and(|needs| needs < LITTLE) {
            return Advice::Little;
        }
        // Without a capacity only their ratio is known.
        let of_one = Seen { capacity: 1.0, ..self.clone() };
        let (now, moved, giga) = (of_one.as_it_is(ranks), of_one.moved(ranks), of_one.giga(ranks));
        if giga.limit >= now.limit * BETTER {
            let moving_is_enough = self.half() <= FEW * ranks && giga.limit < moved.limit * BETTER;
            if moving_is_enough {
                return Advice::Move;
            }
            let by_paths = self.paths >= BY_PATHS;
            return if by_paths { Advice::Replicated { unchecked: self.unchecked(ranks) } } else { Advice::Giga };
        }
        let more_even = ranks as f64 / giga.busiest >= now.limit * BETTER;
        match moved.limit >= now.limit * BETTER {
            true if more_even && self.half() > FEW * ranks => Advice::Directories,
            true => Advice::Move,
            false if now.busiest >= UNEVEN => Advice::Cut,
            false => Advice::Even,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(rates: &[f64]) -> Seen {
        let dirs: Vec<Dir> = rates.iter().map(|rate| Dir { rate: *rate, large: false }).collect();
        let at = vec![rates.iter().sum(), 0.0, 0.0, 0.0];
        Seen { dirs, at, capacity: 1000.0, ..Seen::default() }
    }

    #[test]
    fn all_at_one_rank_varies_by_the_root_of_the_others_and_dealt_out_as_the_formula_says() {
        let many = seen(&[10.0; 400]);
        let now = many.as_it_is(4);
        assert!((now.variation - 3f64.sqrt()).abs() < 1e-9 && now.busiest == 4.0 && now.limit == 1000.0);
        // sqrt((N - 1) * sum of squared shares): digest, 2.9.
        let (giga, formula) = (many.giga(4), (3.0 / 400.0f64).sqrt());
        assert!((giga.variation / formula - 1.0).abs() < 0.1, "{giga:?}, {formula}");
        assert!(giga.limit > 3500.0 && giga.messages == 1.0);
        let moved = many.moved(4);
        assert!((moved.busiest, moved.limit) == (1.0, 4000.0), "{moved:?}");
    }

    #[test]
    fn many_directories_are_for_giga_and_few_for_moving_them() {
        assert_eq!(seen(&[10.0; 400]).advice(4), Advice::Giga);
        assert_eq!(seen(&[1000.0; 4]).advice(4), Advice::Move, "dealt out, some rank has two of the four");
        assert_eq!(seen(&[10.0; 400]).advice(1), Advice::OneRank);
        assert_eq!(seen(&[1.0; 400]).advice(4), Advice::Little);
        assert_eq!(Seen { at: vec![1000.0; 4], ..seen(&[10.0; 400]) }.advice(4), Advice::Even);
        let unknown = Seen { capacity: 0.0, ..seen(&[1.0; 400]) };
        assert_eq!((unknown.needs(), unknown.advice(4), unknown.giga(4).limit), (None, Advice::Giga, 0.0));
    }

    #[test]
    fn making_directories_makes_it_dear_to_have_each_at_another_rank() {
        let making = Seen { made: 4000.0, at: vec![1600.0, 800.0, 800.0, 800.0], ..seen(&[10.0; 400]) };
        let giga = making.giga(4);
        assert!((giga.messages - 1.75).abs() < 1e-9, "{giga:?}");
        assert_eq!(making.advice(4), Advice::Directories);
        let removing = Seen { changed: 4000.0, made: 0.0, ..making };
        assert!((removing.giga(4).messages - 3.25).abs() < 1e-9);
        let more = removing.replicated(4).messages - removing.giga(4).messages;
        assert!((more - 6.0 * removing.changed / removing.rate()).abs() < 1e-9);
        let closing = Seen { changed: 0.0, restricted: 4000.0, ..removing };
        assert!((closing.giga(4).messages - 1.0).abs() < 1e-9 && closing.table(4) == closing.giga(4));
        assert!((closing.replicated(4).messages - 1.0 - more).abs() < 1e-9);
    }

    #[test]
    fn where_programs_ask_by_paths_replicated_is_advised_and_what_table_would_save_is_said() {
        let by_paths = Seen { paths: 0.9, ..seen(&[10.0; 400]) };
        assert_eq!(by_paths.advice(4), Advice::Replicated { unchecked: None });
        let closing = Seen { restricted: 80.0, ..by_paths.clone() };
        let Advice::Replicated { unchecked: Some(unchecked) } = closing.advice(4) else {
            panic!("{:?}", closing.advice(4))
        };
        assert!((unchecked - 2.0 * 3.0 * 0.02).abs() < 1e-9, "{unchecked}");
        assert_eq!(Seen { restricted: 20.0, ..by_paths.clone() }.advice(4), Advice::Replicated { unchecked: None });
        assert_eq!(Seen { paths: 0.1, ..closing.clone() }.advice(4), Advice::Giga);
        assert_eq!(Seen { paths: 0.9, ..seen(&[1000.0; 4]) }.advice(4), Advice::Move);
        assert_eq!(Seen { paths: 0.9, ..seen(&[1.0; 400]) }.advice(4), Advice::Little);
    }

    #[test]
    fn a_large_directory_is_at_all_ranks_and_one_alone_is_not() {
        let mut one = seen(&[4000.0]);
        assert_eq!(one.giga(4).busiest, 4.0);
        one.dirs[0].large = true;
        assert_eq!((one.giga(4).busiest, one.half()), (1.0, 1));
        assert_eq!((one.advice(4), seen(&[4000.0]).advice(4)), (Advice::Move, Advice::Cut));
    }

    #[test]
    fn nothing_seen_is_nothing_expected_and_no_number_is_absurd() {
        let nothing = Seen::default();
        for outlook in [nothing.as_it_is(4), nothing.moved(4), nothing.giga(4)] {
            assert!(outlook.variation.is_finite() && outlook.limit == 0.0, "{outlook:?}");
        }
        assert_eq!(nothing.half(), 0);
    }
}
