//! Selectors: which of some pieces to take so that their loads come near a target. Numbers in, places out; that a piece may
//! move at all was seen to before. Pieces of equal load are taken in the order in which they are listed.

/// Sums that differ by less than this share are the same.
pub(super) const SAME: f64 = 1e-9;

/// Sums that are off the target by this share of it are near enough for fewer pieces to count more: each piece is a migration.
pub(super) const NEAR: f64 = 0.05;

/// Pieces that `best` tries all subsets of.
const EXACT_MAX: usize = 20;

/// Takes places of `loads` towards a target.
pub(super) type Selector = fn(&[f64], f64) -> Vec<usize>;

/// The selectors of the paper, of its prototype, and `best`. `big` and `small` are what Listing 4 calls the first two.
pub(super) const BUILT_IN: &[(&str, Selector)] = &[
    ("big_first", big_first),
    ("small_first", small_first),
    ("big_small", big_small),
    ("half", half),
    ("big_first_plus1", big_first_plus1),
    ("small_first_plus1", small_first_plus1),
    ("big_half", big_half),
    ("small_half", small_half),
    ("best", best),
    ("big", big_first),
    ("small", small_first),
];

fn descending(loads: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..loads.len()).collect();
    order.sort_by(|a, b| loads[*b].total_cmp(&loads[*a]));
    order
}

fn ascending(loads: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..loads.len()).collect();
    order.sort_by(|a, b| loads[*a].total_cmp(&loads[*b]));
    order
}

/// In this order each one with which the target is not exceeded; what does not fit is passed over.
fn fitting(order: &[usize], loads: &[f64], target: f64) -> Vec<usize> {
    let mut sum = 0.0;
    let most = target * (1.0 + SAME);
    let fits = |place: &&usize| {
        let fits = sum + loads[**place] <= most;
        sum += if fits { loads[**place] } else { 0.0 };
        fits
    };
    order.iter().filter(fits).copied().collect()
}

/// From the biggest down, each that fits; never more than the target.
fn big_first(loads: &[f64], target: f64) -> Vec<usize> {
    fitting(&descending(loads), loads, target)
}

/// From the smallest up, each that fits; never more than the target.
fn small_first(loads: &[f64], target: f64) -> Vec<usize> {
    fitting(&ascending(loads), loads, target)
}

/// The biggest, the smallest, the biggest of the rest, and so on until the target is reached: the last one may exceed it.
fn big_small(loads: &[f64], target: f64) -> Vec<usize> {
    let order = descending(loads);
    let (mut big, mut small, mut sum) = (0, order.len(), 0.0);
    let mut taken = Vec::new();
    while big < small && sum < target * (1.0 - SAME) {
        let place = if taken.len() % 2 == 0 {
            big += 1;
            order[big - 1]
        } else {
            small -= 1;
            order[small]
        };
        sum += loads[place];
        taken.push(place);
    }
    taken
}

/// The first half as they are listed, rounded up, whatever the target is.
fn half(loads: &[f64], _target: f64) -> Vec<usize> {
    (0..loads.len().div_ceil(2)).collect()
}

/// The biggest half, rounded up, whatever the target is.
fn big_half(loads: &[f64], _target: f64) -> Vec<usize> {
    descending(loads).into_iter().take(loads.len().div_ceil(2)).collect()
}

/// The smallest half, rounded up, whatever the target is.
fn small_half(loads: &[f64], _target: f64) -> Vec<usize> {
    ascending(loads).into_iter().take(loads.len().div_ceil(2)).collect()
}

/// One more: the smallest that is not taken yet.
fn plus1(mut taken: Vec<usize>, loads: &[f64]) -> Vec<usize> {
    let more = ascending(loads).into_iter().find(|place| !taken.contains(place));
    taken.extend(more);
    taken
}

/// As `big_first`, and then the smallest that did not fit: may exceed the target.
fn big_first_plus1(loads: &[f64], target: f64) -> Vec<usize> {
    plus1(big_first(loads, target), loads)
}

/// As `small_first`, and then the smallest that did not fit: may exceed the target.
fn small_first_plus1(loads: &[f64], target: f64) -> Vec<usize> {
    plus1(small_first(loads, target), loads)
}

/// The subset with fewest pieces of those that are near enough to the target, above or below, and of equally few the nearest; if
/// none is near enough, the nearest. With more than 20 pieces the biggest ones are taken if they fit, and the 20 smallest are
/// tried exactly for what is then left.
fn best(loads: &[f64], target: f64) -> Vec<usize> {
    let order = descending(loads);
    let (many, few) = order.split_at(order.len().saturating_sub(EXACT_MAX));
    let mut taken = fitting(many, loads, target);
    let rest = target - taken.iter().map(|place| loads[*place]).sum::<f64>();
    taken.extend(nearest(few, loads, rest, target.abs() * NEAR));
    taken
}

/// All subsets of two halves, met in the middle. `enough`: how far the sum may be off for the sake of fewer pieces.
fn nearest(places: &[usize], loads: &[f64], target: f64, enough: f64) -> Vec<usize> {
    let (left, right) = places.split_at(places.len() / 2);
    let mut by_count: Vec<Vec<(f64, u32)>> = vec![Vec::new(); right.len() + 1];
    for (sum, mask) in subsets(right, loads) {
        by_count[mask.count_ones() as usize].push((sum, mask));
    }
    by_count.iter_mut().for_each(|sums| sums.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))));
    // Far ones last; then, of near ones, by pieces.
    let mut found: Option<(bool, f64, u32, u32, u32)> = None;
    for (sum, mask) in subsets(left, loads) {
        for (more_count, sums) in by_count.iter().enumerate() {
            let after = sums.partition_point(|right| sum + right.0 < target);
            // Just below the target the first of its sum is looked for, so that equal pieces go in their order.
            let below = after.checked_sub(1).map(|at| sums.partition_point(|right| right.0 < sums[at].0));
            for (more, other) in below.into_iter().chain([after]).filter_map(|at| sums.get(at)) {
                let far = (sum + more - target).abs();
                let (is_far, count) = (far > enough, mask.count_ones() + more_count as u32);
                let same = target.abs() * SAME;
                let is_better = found.is_none_or(|(was_far, least, fewest, ..)| match (is_far, was_far) {
                    (false, true) => true,
                    (true, false) => false,
                    (false, false) => count < fewest || count == fewest && far < least - same,
                    (true, true) => far < least - same || far <= least + same && count < fewest,
                });
                if is_better {
                    found = Some((is_far, far, count, mask, *other));
                }
            }
        }
    }
    let (.., left_mask, right_mask) = found.unwrap_or_default();
    let pick = |places: &[usize], mask: u32| -> Vec<usize> {
        places.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1).map(|(_, place)| *place).collect()
    };
    let mut taken = pick(left, left_mask);
    taken.extend(pick(right, right_mask));
    taken
}

fn subsets(places: &[usize], loads: &[f64]) -> Vec<(f64, u32)> {
    let mut sums = vec![(0.0, 0)];
    for (at, place) in places.iter().enumerate() {
        let with: Vec<(f64, u32)> = sums.iter().map(|(sum, mask)| (sum + loads[*place], mask | 1 << at)).collect();
        sums.extend(with);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOADS: [f64; 8] = [12.7, 13.3, 13.3, 14.6, 15.7, 13.5, 13.7, 14.6];

    fn sum(selector: &str, loads: &[f64], target: f64) -> f64 {
        let (_, selector) = BUILT_IN.iter().find(|(name, _)| *name == selector).expect("a selector");
        selector(loads, target).into_iter().map(|place| loads[place]).sum()
    }

    #[test]
    fn the_worked_example_of_the_paper_comes_out_as_printed() {
        for (selector, expected) in [
            ("big_first", 44.9),
            ("small_first", 52.8),
            ("half", 53.9),
            ("big_small", 56.3),
            ("best", 55.6),
            ("big_first_plus1", 57.6),
            ("small_first_plus1", 66.5),
            ("big_half", 58.6),
            ("small_half", 52.8),
        ] {
            let sum = sum(selector, &LOADS, 55.6);
            assert!((sum - expected).abs() < 1e-6, "{selector}: {sum}");
        }
        let taken: Vec<f64> = big_small(&LOADS, 55.6).into_iter().map(|place| LOADS[place]).collect();
        assert_eq!(taken, [15.7, 12.7, 14.6, 13.3]);
    }

    #[test]
    fn nothing_to_choose_from_is_chosen_from() {
        BUILT_IN.iter().for_each(|(name, selector)| assert!(selector(&[], 5.0).is_empty(), "{name}"));
    }

    proptest! {
        #[test]
        fn selectors_take_each_piece_once_and_keep_to_the_target(
            loads in proptest::collection::vec(0.01f64..100.0, 0..40), target in 0.0f64..500.0,
        ) {
            for (name, selector) in BUILT_IN {
                let mut taken = selector(&loads, target);
                let sum: f64 = taken.iter().map(|place| loads[*place]).sum();
                if ["big_first", "small_first", "big", "small"].contains(name) {
                    prop_assert!(sum <= target * (1.0 + 1e-6));
                }
                taken.sort_unstable();
                let count = taken.len();
                taken.dedup();
                prop_assert!(taken.len() == count && taken.iter().all(|place| *place < loads.len()), "{}", name);
            }
        }

        #[test]
        fn best_is_as_near_as_any_subset_or_near_enough_with_fewest_pieces(
            loads in proptest::collection::vec(0.01f64..100.0, 1..11), target in 0.0f64..400.0,
        ) {
            let taken = best(&loads, target);
            let far = (taken.iter().map(|place| loads[*place]).sum::<f64>() - target).abs();
            let sum = |set: &u32| (0..loads.len()).filter(|at| set >> at & 1 == 1).map(|at| loads[at]).sum::<f64>();
            let all = 0..1u32 << loads.len();
            let near = all.clone().filter(|set| (sum(set) - target).abs() < target * NEAR * (1.0 - 1e-6));
            match near.map(u32::count_ones).min() {
                Some(fewest) => prop_assert!(far <= target * NEAR + 1e-6 && taken.len() <= fewest as usize),
                None => {
                    let least = all.map(|set| (sum(&set) - target).abs()).fold(f64::INFINITY, f64::min);
                    prop_assert!(far <= least.max(target * NEAR) + 1e-6);
                }
            }
        }
    }

    #[test]
    fn of_many_fragments_and_a_half_the_half_goes() {
        let mut loads = vec![1.01; 16];
        loads.push(15.9);
        assert_eq!(best(&loads, 16.0), [16]);
    }
}
