//! Fragments of a directory that are cut so that some of them can move. Pure.

use loligo_types::Frag;

/// True if fragments are all hashes together.
pub(super) fn covers_all(frags: &[Frag]) -> bool {
    let all: u64 = frags.iter().map(|frag| 1u64 << (Frag::BITS_MAX - frag.bits)).sum();
    all == 1 << Frag::BITS_MAX
}

/// Cuts a rank's fragments so that those in `wanted` (all, if none is named) can move: those that move, and those that
/// stay.
pub(super) fn cut(own: &[Frag], wanted: Option<Frag>) -> (Vec<Frag>, Vec<Frag>) {
    let Some(wanted) = wanted else { return (own.to_vec(), Vec::new()) };
    let (mut moves, mut stays) = (Vec::new(), Vec::new());
    for frag in own {
        if wanted.covers(*frag) {
            moves.push(*frag);
        } else if frag.covers(wanted) {
            moves.push(wanted);
            let mut at = wanted;
            while at != *frag {
                let Some(parent) = at.parent() else { break };
                stays.push(Frag { bits: at.bits, value: at.value ^ 1 });
                at = parent;
            }
        } else {
            stays.push(*frag);
        }
    }
    (moves, stays)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_out_and_what_stays_are_all_together() {
        let wanted = Frag { bits: 3, value: 5 };
        let (moves, stays) = cut(&[Frag::WHOLE], Some(wanted));
        assert_eq!(moves, [wanted]);
        assert_eq!(stays.len(), 3);
        let all: Vec<Frag> = moves.iter().chain(&stays).copied().collect();
        assert!(covers_all(&all) && !covers_all(&stays));
        assert!(all.iter().enumerate().all(|(at, a)| all[at + 1..].iter().all(|b| !a.covers(*b) && !b.covers(*a))));
        let halves = Frag::WHOLE.split(1);
        assert_eq!(cut(&halves, Some(halves[1])), (vec![halves[1]], vec![halves[0]]));
        assert_eq!(cut(&halves[1..], Some(Frag::WHOLE)), (vec![halves[1]], vec![]));
        assert_eq!(cut(&halves, None).0, halves);
        assert_eq!(cut(&halves[..1], Some(halves[1])).0, []);
    }
}
