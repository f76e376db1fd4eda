//! The tables of the screen: operations, clients, directories and ranks, each with columns to sort by. No terminal here.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::Look;
use super::rates::rates;
use crate::output::{human_bytes, human_count};

/// A table to look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum View {
    Operations,
    Clients,
    Directories,
    Ranks,
}

impl View {
    /// All of them, in the order of the Tab key.
    pub(super) const ALL: [View; 4] = [View::Operations, View::Clients, View::Directories, View::Ranks];

    /// The key that shows it.
    pub(super) fn key(self) -> char {
        match self {
            View::Operations => 'o',
            View::Clients => 'c',
            View::Directories => 'd',
            View::Ranks => 'r',
        }
    }

    /// Its name on the screen.
    pub(super) fn name(self) -> &'static str {
        match self {
            View::Operations => "operations",
            View::Clients => "clients",
            View::Directories => "directories",
            View::Ranks => "ranks",
        }
    }

    /// The one behind it.
    pub(super) fn next(self) -> View {
        let at = View::ALL.iter().position(|view| *view == self).unwrap_or(0);
        View::ALL[(at + 1) % View::ALL.len()]
    }

    /// Titles of its columns; of words the first, of numbers all others but the last of some, which is a path.
    pub(super) fn columns(self) -> &'static [&'static str] {
        match self {
            View::Operations => &["operation", "ops/s", "errors/s", "p50 us", "p99 us"],
            View::Clients => {
                &["client", "requests/s", "errors/s", "in flight", "open", "leases", "locks", "idle s", "user"]
            }
            View::Directories => &["directory", "load", "reads", "writes", "readdir", "fetch", "store", "rank"],
            View::Ranks => {
                &["rank", "requests/s", "load", "cpu %", "sessions", "inodes", "journal", "waiting", "state"]
            }
        }
    }

    /// The column that it is sorted by at first.
    pub(super) fn sorted_by(self) -> usize {
        match self {
            View::Ranks => 0,
            _ => 1,
        }
    }

    /// The rows between two looks, sorted by a column: numbers from the largest on, words from A on.
    pub(super) fn rows(self, last: &Look, now: &Look, by: usize) -> Vec<Vec<Cell>> {
        let mut rows = match self {
            View::Operations => operations(last, now),
            View::Clients => clients(last, now),
            View::Directories => directories(now),
            View::Ranks => ranks(last, now),
        };
        rows.sort_by(|one, other| one[by].before(&other[by]).then_with(|| one[0].before(&other[0])));
        rows
    }
}

/// A cell of a table.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Cell {
    Word(String),
    /// A number and how it is shown.
    Number(f64, String),
}

impl Cell {
    fn count(n: u64) -> Cell {
        Cell::Number(n as f64, human_count(n))
    }

    fn rate(per_s: f64) -> Cell {
        Cell::Number(per_s, human_count(per_s.round() as u64))
    }

    fn time(us: f64) -> Cell {
        Cell::Number(us, format!("{us:.1}"))
    }

    /// The order in a sorted table.
    fn before(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Word(one), Cell::Word(other)) => one.cmp(other),
            (Cell::Number(one, _), Cell::Number(other, _)) => other.total_cmp(one),
            (Cell::Word(_), Cell::Number(..)) => Ordering::Less,
            (Cell::Number(..), Cell::Word(_)) => Ordering::Greater,
        }
    }

    /// The text on the screen.
    pub(super) fn text(&self) -> &str {
        match self {
            Cell::Word(text) | Cell::Number(_, text) => text,
        }
    }

    /// True for one that stands at the right of its column.
    pub(super) fn is_number(&self) -> bool {
        matches!(self, Cell::Number(..))
    }
}

fn operations(last: &Look, now: &Look) -> Vec<Vec<Cell>> {
    let all = rates(&last.ops, &now.ops, now.since(last)).into_iter();
    all.map(|rate| {
        let errors = Cell::Number(rate.errors_per_s, format!("{:.1}", rate.errors_per_s));
        vec![Cell::Word(rate.name), Cell::rate(rate.per_s), errors, Cell::time(rate.p50_us), Cell::time(rate.p99_us)]
    })
    .collect()
}

/// A client has a session at each rank that it talks to: they are added up by name and user.
fn clients(last: &Look, now: &Look) -> Vec<Vec<Cell>> {
    #[derive(Default)]
    struct Sum {
        requests: u64,
        errors: u64,
        in_flight: u64,
        opens: u64,
        leases: u64,
        locks: u64,
        idle_ms: Option<u64>,
    }
    let before: BTreeMap<(u16, u64), (u64, u64)> =
        last.sessions.iter().map(|one| ((one.rank, one.id), (one.requests, one.errors))).collect();
    let mut all: BTreeMap<(String, String), Sum> = BTreeMap::new();
    for one in &now.sessions {
        let user = match (&one.identity, one.uid) {
            (Some(identity), _) => identity.clone(),
            (None, Some(uid)) => uid.to_string(),
            (None, None) => "unknown".to_string(),
        };
        // One that is new began with nothing.
        let (requests, errors) = before.get(&(one.rank, one.id)).copied().unwrap_or_default();
        let sum = all.entry((one.name.clone(), user)).or_default();
        sum.requests += one.requests.saturating_sub(requests);
        sum.errors += one.errors.saturating_sub(errors);
        sum.in_flight += one.in_flight;
        sum.opens += one.opens;
        sum.leases += one.leases;
        sum.locks += one.locks;
        sum.idle_ms = Some(sum.idle_ms.map_or(one.idle_ms, |idle| idle.min(one.idle_ms)));
    }
    let per_s = |count: u64| count as f64 / now.since(last);
    let row = |((name, user), sum): ((String, String), Sum)| {
        let idle = sum.idle_ms.unwrap_or(0) as f64 / 1e3;
        vec![
            Cell::Word(name),
            Cell::rate(per_s(sum.requests)),
            Cell::Number(per_s(sum.errors), format!("{:.1}", per_s(sum.errors))),
            Cell::count(sum.in_flight),
            Cell::count(sum.opens),
            Cell::count(sum.leases),
            Cell::count(sum.locks),
            Cell::Number(idle, format!("{idle:.1}")),
            Cell::Word(user),
        ]
    };
    all.into_iter().map(row).collect()
}

fn directories(now: &Look) -> Vec<Vec<Cell>> {
    let all = now.status.ranks.iter().flat_map(|rank| rank.hottest.iter().map(move |hot| (rank.rank, hot)));
    all.map(|(rank, hot)| {
        let name = hot.path.clone().unwrap_or_else(|| format!("inode {}", hot.dir));
        let part = if hot.frag == "*" { String::new() } else { format!(" {}", hot.frag) };
        let mut row = vec![Cell::Word(name + &part)];
        let heat = &hot.heat;
        let loads = [hot.metaload, heat.ird, heat.iwr, heat.readdir, heat.fetch, heat.store];
        row.extend(loads.map(|load| Cell::Number(load, format!("{load:.0}"))));
        row.push(Cell::count(rank.into()));
        row
    })
    .collect()
}

fn ranks(last: &Look, now: &Look) -> Vec<Vec<Cell>> {
    let asked = |rank: &crate::service::admin::doc::RankDoc| rank.ops.values().map(|op| op.count).sum::<u64>();
    let row = |rank: &crate::service::admin::doc::RankDoc| {
        let before = last.status.ranks.iter().find(|old| old.rank == rank.rank).map_or(0, asked);
        let percent = rank.load.cpu_percent;
        vec![
            Cell::Word(format!("{:>3}", rank.rank)),
            Cell::rate(asked(rank).saturating_sub(before) as f64 / now.since(last)),
            Cell::Number(rank.load.auth, format!("{:.0}", rank.load.auth)),
            Cell::Number(percent, format!("{percent:.0}")),
            Cell::count(rank.sessions),
            Cell::count(rank.cache_inodes),
            Cell::Number(rank.journal.outstanding_bytes as f64, human_bytes(rank.journal.outstanding_bytes)),
            Cell::count(rank.waiting),
            Cell::Word(rank.state.clone()),
        ]
    };
    now.status.ranks.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_view_has_a_key_of_its_own_that_is_none_of_the_screens() {
        let keys: std::collections::BTreeSet<char> = View::ALL.iter().map(|view| view.key()).collect();
        assert_eq!(keys.len(), View::ALL.len());
        assert!(!"qsS h?+-".chars().any(|key| keys.contains(&key)));
        let mut view = View::Operations;
        for expected in View::ALL.into_iter().skip(1).chain([View::Operations]) {
            view = view.next();
            assert_eq!(view, expected);
        }
    }

    #[test]
    fn numbers_come_from_the_largest_on_and_words_from_a_on() {
        let (few, many) = (Cell::count(9), Cell::count(1234));
        assert_eq!(many.before(&few), Ordering::Less);
        assert_eq!(many.text(), "1,234");
        let (a, b) = (Cell::Word("a".into()), Cell::Word("b".into()));
        assert_eq!(a.before(&b), Ordering::Less);
    }
}
