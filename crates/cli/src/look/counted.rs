//! Counters of all requests so far, over all ranks, as `loligo status` shows them: requests by placement of their directory, waits by
//! reason, path walks. Not here: rates (`top`), and counters by rank (`--json`, metrics).

use std::collections::BTreeMap;

use crate::output::human_count;
use crate::service::admin::tally::{TallyDoc, WaitDoc};

/// Things waited for that are shown: those that took longest.
const WAITS_SHOWN: usize = 6;

/// The lines, each with what it is about; only those of which there is something to say.
pub fn lines<'a>(ranks: impl Iterator<Item = &'a TallyDoc>) -> Vec<(&'static str, String)> {
    let ranks: Vec<&TallyDoc> = ranks.collect();
    [("requests in", placed(&ranks)), ("waited for", waits(&ranks)), ("paths", paths(&ranks))]
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .collect()
}

/// `subtree 1,234; giga 567, and 8 sent on`.
fn placed(ranks: &[&TallyDoc]) -> String {
    let mut all: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for counted in ranks {
        counted.placed.iter().for_each(|(name, ops)| all.entry(name).or_default().0 += ops.values().sum::<u64>());
        counted.redirected.iter().for_each(|(name, count)| all.entry(name).or_default().1 += count);
    }
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by_key(|(name, (count, _))| (std::cmp::Reverse(*count), *name));
    let one = |(name, (count, on)): &(&str, (u64, u64))| match on {
        0 => format!("{name} {}", human_count(*count)),
        on => format!("{name} {}, and {} sent on", human_count(*count), human_count(*on)),
    };
    all.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// `recall 12 x 25.0 ms; borrow 5 x 2.0 ms`.
fn waits(ranks: &[&TallyDoc]) -> String {
    let mut all: BTreeMap<&str, WaitDoc> = BTreeMap::new();
    for (why, waited) in ranks.iter().flat_map(|counted| &counted.waits) {
        let sum = all.entry(why).or_default();
        (sum.count, sum.total_ms) = (sum.count + waited.count, sum.total_ms + waited.total_ms);
    }
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by_key(|(why, waited)| (std::cmp::Reverse(waited.total_ms), std::cmp::Reverse(waited.count), *why));
    let mean_ms = |waited: &WaitDoc| waited.total_ms as f64 / waited.count.max(1) as f64;
    let one =
        |(why, waited): &(&str, WaitDoc)| format!("{why} {} x {:.1} ms", human_count(waited.count), mean_ms(waited));
    all.iter().take(WAITS_SHOWN).map(one).collect::<Vec<_>>().join("; ")
}

/// `1,234, half of them with up to 4 names; 80 % began with a shortcut, 2 % went on at another rank`.
fn paths(ranks: &[&TallyDoc]) -> String {
    let mut by_length: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut count, mut shortcuts, mut partings) = (0, 0, 0);
    for walks in ranks.iter().flat_map(|counted| &counted.walks) {
        *by_length.entry(walks.names.1).or_default() += walks.count;
        (count, shortcuts, partings) = (count + walks.count, shortcuts + walks.shortcuts, partings + walks.partings);
    }
    if count == 0 {
        return String::new();
    }
    let mut seen = 0;
    let half = by_length.iter().find(|(_, n)| {
        seen += **n;
        seen * 2 >= count
    });
    let of_all = |part: u64| part as f64 * 100.0 / count as f64;
    format!(
        "{}, half of them with up to {} names; {:.0} % began with a shortcut, {:.0} % went on at another rank",
        human_count(count),
        half.map_or(0, |(names, _)| *names),
        of_all(shortcuts),
        of_all(partings)
    )
}

#[cfg(test)]
mod tests {
    use loligo_mds::{TallyStatus, WaitCount, WalkCount};
    use loligo_types::Placement;

    use super::*;

    #[test]
    fn what_ranks_have_counted_is_added_up_with_what_is_most_first() {
        let walks = |names, all, shortcut, parted| WalkCount { names, all, shortcut, parted };
        let rank = |redirected: &[(Placement, u64)], waits: &[(&'static str, u64, u64)]| {
            TallyDoc::new(&TallyStatus {
                placed: vec![
                    (Placement::Subtree, "stat", 10),
                    (Placement::Giga, "stat", 600),
                    (Placement::Giga, "mkdir", 7),
                ],
                redirected: redirected.to_vec(),
                waits: waits.iter().map(|(why, count, ms)| (*why, WaitCount { count: *count, ms: *ms })).collect(),
                walks: vec![walks((1, 1), 1, 0, 0), walks((5, 6), 9, 8, 1)],
            })
        };
        let two = [
            rank(&[], &[("load", 3, 1), ("recall", 2, 400)]),
            rank(&[(Placement::Giga, 5)], &[("recall", 1, 100), ("borrow", 1, 2000)]),
        ];
        let words = [
            ("requests in", "giga 1,214, and 5 sent on; subtree 20"),
            ("waited for", "borrow 1 x 2000.0 ms; recall 3 x 166.7 ms; load 3 x 0.3 ms"),
            ("paths", "20, half of them with up to 6 names; 80 % began with a shortcut, 10 % went on at another rank"),
        ];
        assert_eq!(lines(two.iter()), words.map(|(label, text)| (label, text.to_string())));
        assert_eq!(lines([TallyDoc::default()].iter()), []);
    }
}
