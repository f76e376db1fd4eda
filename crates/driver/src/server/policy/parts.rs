//! Which policies have something to say at a tick, and what each of them is shown: all that its rank has and what is known of all
//! ranks, so that loads are those of whole ranks; but it can move only what stands under it. What they want is put together.

use std::sync::Arc;

use loligo_balancer::Fault;
use loligo_balancer::balance::Policy;
use loligo_types::{LoadVec, Move, PolicyId, Rank, Snapshot, Weighed};

/// Most moves of a tick; a rank does no more.
const MOVES_MAX: usize = 64;

/// One of the policies, or a name of which there is none.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Part {
    /// As directories name it; none: it is that of the file system.
    pub(super) name: Option<Arc<str>>,
    /// Which version; or why there is none.
    pub(super) policy: Result<PolicyId, String>,
    /// Value of [`loligo_types::PieceHeat::under`] for pieces below it.
    pub(super) under: Vec<Option<u32>>,
}

/// All of them, that of the file system first. `version`: which one a name means. Names that mean the policy of the file
/// system are one with it.
pub(super) fn parts(snapshot: &Snapshot, mut version: impl FnMut(&str, u32) -> Result<PolicyId, String>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    if snapshot.policy != PolicyId::NONE {
        parts.push(Part { name: None, policy: Ok(snapshot.policy), under: vec![None] });
    }
    for (at, name) in (0..).zip(&snapshot.names) {
        let policy = version(name, at);
        match parts.iter_mut().find(|part| policy.is_ok() && part.policy == policy) {
            Some(part) => part.under.push(Some(at)),
            None => parts.push(Part { name: Some(name.clone()), policy, under: vec![Some(at)] }),
        }
    }
    parts
}

/// The snapshot as a policy is shown it.
pub(super) fn view(snapshot: &Snapshot, part: &Part, policy: &mut Policy) -> Result<Snapshot, Fault> {
    let mut view = snapshot.clone();
    for piece in &mut view.pieces {
        piece.fixed |= !part.under.contains(&piece.under);
    }
    if part.under.contains(&None) {
        return Ok(view);
    }
    // What others told is weighed by the policy of the file system: this one weighs what they have counted.
    view.policy = part.policy.clone().unwrap_or_default();
    let me = view.whoami;
    let known = |rank: Rank, age_ms: u64| rank != me && age_ms != u64::MAX;
    let others = view.ranks.iter_mut().filter(|rank| known(rank.rank, rank.age_ms));
    let counts: Vec<LoadVec> = snapshot
        .ranks
        .iter()
        .filter(|rank| known(rank.rank, rank.age_ms))
        .flat_map(|rank| [rank.load.own, rank.load.besides])
        .collect();
    let weights = policy.weigh(&counts)?;
    for (rank, weights) in others.zip(weights.chunks_exact(2)) {
        let [auth, besides] = *weights else { continue };
        rank.weighed = Some(Weighed { policy: view.policy, auth, all: auth + besides });
    }
    Ok(view)
}

/// Moves of all policies, in turn: the first of each, then the second of each, and so on, so that none has all the moves.
pub(super) fn together(mut all: Vec<Vec<Move>>) -> Vec<Move> {
    let mut moves = Vec::new();
    all.iter_mut().for_each(|wanted| wanted.reverse());
    while moves.len() < MOVES_MAX {
        let before = moves.len();
        moves.extend(all.iter_mut().filter_map(Vec::pop));
        if moves.len() == before {
            break;
        }
    }
    moves.truncate(MOVES_MAX);
    moves
}

#[cfg(test)]
mod tests {
    use loligo_balancer::Limits;
    use loligo_types::{Ino, Load, Piece, PieceHeat, RankView};

    use super::*;

    fn snapshot() -> Snapshot {
        let counts = |iwr| LoadVec { iwr, ird: 1000.0, ..LoadVec::default() };
        let rank = |rank: u16, age_ms| RankView {
            rank: Rank(rank),
            load: Load { own: counts(3.0), besides: counts(1.0), ..Load::default() },
            weighed: Some(Weighed { policy: PolicyId(1), auth: 9.0, all: 9.0 }),
            age_ms,
            takes_more: true,
            is_busy_importing: false,
        };
        let piece = |dir, under, above| PieceHeat {
            piece: Piece { dir: Ino(dir), frag: None },
            above,
            load: counts(5.0),
            inodes: 1,
            fixed: false,
            under,
            home: None,
        };
        Snapshot {
            policy: PolicyId(1),
            names: vec!["a".into(), "b".into(), "same".into(), "gone".into()],
            ranks: vec![rank(0, 0), rank(1, 20), rank(2, u64::MAX)],
            pieces: vec![piece(5, None, None), piece(6, Some(0), Some(0)), piece(7, Some(2), None)],
            ..Snapshot::default()
        }
    }

    fn all() -> Vec<Part> {
        parts(&snapshot(), |name, _| match name {
            "a" => Ok(PolicyId(4)),
            "b" => Ok(PolicyId(5)),
            "same" => Ok(PolicyId(1)),
            other => Err(format!("no {other}")),
        })
    }

    #[test]
    fn each_policy_is_asked_once_and_a_name_that_means_that_of_the_file_system_is_that_one() {
        let all = all();
        let of: Vec<_> = all.iter().map(|part| (part.name.as_deref(), part.under.clone())).collect();
        let here = |at| vec![Some(at)];
        assert_eq!(
            of,
            [(None, vec![None, Some(2)]), (Some("a"), here(0)), (Some("b"), here(1)), (Some("gone"), here(3))]
        );
        assert_eq!(all[3].policy, Err("no gone".to_string()));
        let off = Snapshot { policy: PolicyId::NONE, names: vec!["a".into()], ..snapshot() };
        assert_eq!(parts(&off, |_, _| Ok(PolicyId(4))).len(), 1, "without one of the file system only what is named");
    }

    #[test]
    fn a_policy_can_move_what_stands_under_it_and_sees_the_loads_of_whole_ranks_as_it_weighs_them_itself() {
        let (all, seen) = (all(), snapshot());
        let mut policy = Policy::load("a", "metaload = 'IWR'\nwhen = 'true'\nwhere = ''", &Limits::deterministic())
            .expect("it is sound");
        let common = view(&seen, &all[0], &mut policy).expect("no fault");
        assert_eq!(common.pieces.iter().map(|piece| piece.fixed).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!((common.policy, &common.ranks), (PolicyId(1), &seen.ranks), "as they have told");
        let named = view(&seen, &all[1], &mut policy).expect("no fault");
        assert_eq!(named.pieces.iter().map(|piece| piece.fixed).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(
            named.pieces.iter().map(|piece| piece.load).collect::<Vec<_>>(),
            seen.pieces.iter().map(|p| p.load).collect::<Vec<_>>()
        );
        assert_eq!(named.ranks[1].weighed, Some(Weighed { policy: PolicyId(4), auth: 3.0, all: 4.0 }));
        assert_eq!(named.ranks[2].weighed, seen.ranks[2].weighed, "nothing is known of it");
    }

    #[test]
    fn moves_of_several_policies_take_turns_and_are_no_more_than_those_of_one() {
        let many = |to: u16, count: usize| {
            let one = |n| Move { piece: Piece { dir: Ino(n), frag: None }, to: Rank(to), load: 1.0 };
            (0..count as u64).map(one).collect::<Vec<Move>>()
        };
        let to = |moves: &[Move]| moves.iter().map(|one| (one.to.0, one.piece.dir.0)).collect::<Vec<_>>();
        assert_eq!(to(&together(vec![many(1, 3), many(2, 1)])), [(1, 0), (2, 0), (1, 1), (1, 2)]);
        let all = together(vec![many(1, 64), many(2, 64), Vec::new()]);
        assert_eq!((all.len(), all.iter().filter(|one| one.to == Rank(1)).count()), (64, 32));
        assert!(together(Vec::new()).is_empty());
    }
}
