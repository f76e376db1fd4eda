//! Which server is to have which rank, by what was seen of them. What follows from it is `rank_placement.rs`'s.

use std::collections::{BTreeMap, BTreeSet};

use loligo_store::{ServerFlags, Sight};

/// The servers that can have ranks: of one that has only just come it is not known yet how it takes part.
pub(super) fn able(sight: &Sight) -> impl Iterator<Item = (u64, ServerFlags)> + '_ {
    let able = sight.servers.iter().filter(|(_, seen)| !seen.is_gone && !seen.at.is_empty() && !seen.flags.stops);
    able.map(|(number, seen)| (*number, seen.flags))
}

pub(super) fn count(wants: &BTreeMap<u32, u64>, server: u64) -> usize {
    wants.values().filter(|is| **is == server).count()
}

/// The servers that have had their share, as far as one that begins to lead can see: one without a rank may have come while nobody led.
pub(super) fn settled(sight: &Sight) -> BTreeSet<u64> {
    let has = sight.ranks.values().filter(|seen| seen.is_held).map(|seen| seen.server);
    sight.wants.values().copied().chain(has).collect()
}

/// Changes of who runs which rank: every rank gets a server that is there, if possible the one that has it; a server that comes to share
/// gets its part. `ranks`: all ranks but those that are to go.
pub(super) fn decide(sight: &Sight, ranks: &[u32], settled: &mut BTreeSet<u64>) -> BTreeMap<u32, u64> {
    let mut wants: BTreeMap<u32, u64> = BTreeMap::new();
    let able: BTreeMap<u64, ServerFlags> = able(sight).collect();
    let mut homeless = Vec::new();
    for rank in ranks {
        let has = sight.ranks.get(rank).filter(|seen| seen.is_held).map(|seen| seen.server);
        let wanted = sight.wants.get(rank).copied();
        match wanted.into_iter().chain(has).find(|server| able.contains_key(server)) {
            Some(server) => _ = wants.insert(*rank, server),
            None => homeless.push(*rank),
        }
    }
    for rank in homeless {
        // Who stands by has the fewest. One that shares and has no more goes first: it is not there for want of others.
        let fewest = able.iter().min_by_key(|(server, flags)| (count(&wants, **server), !flags.shares));
        if let Some((server, _)) = fewest {
            wants.insert(rank, *server);
        }
    }
    settled.retain(|server| able.contains_key(server));
    for (server, flags) in &able {
        if !settled.insert(*server) || !flags.shares {
            continue;
        }
        let (sharing, stand_by): (Vec<_>, Vec<_>) = able.iter().partition(|(_, flags)| flags.shares);
        let number = |(server, _): (&u64, &ServerFlags)| *server;
        let sharing: Vec<u64> = sharing.into_iter().map(number).collect();
        let stand_by: Vec<u64> = stand_by.into_iter().map(number).collect();
        // First what others have that only stood in for such a one.
        let part = ranks.len().div_ceil(sharing.len());
        while count(&wants, *server) < part {
            let Some(rank) = wants.iter().rfind(|(_, is)| stand_by.contains(is)).map(|(rank, _)| *rank) else { break };
            wants.insert(rank, *server);
        }
        loop {
            let most = sharing.iter().max_by_key(|server| count(&wants, **server)).copied().unwrap_or(*server);
            if count(&wants, most) < count(&wants, *server) + 2 {
                break;
            }
            let Some(rank) = wants.iter().rfind(|(_, is)| **is == most).map(|(rank, _)| *rank) else { break };
            wants.insert(rank, *server);
        }
    }
    wants
}

#[cfg(test)]
mod tests {
    use loligo_store::{RankSeen, ServerSeen};

    use super::*;

    fn sight(servers: &[(u64, bool)], has: &[(u32, u64)], wants: &[(u32, u64)]) -> Sight {
        let server = |(number, shares): &(u64, bool)| {
            let flags = ServerFlags { shares: *shares, stops: false };
            (*number, ServerSeen { flags, at: "b".into(), ..ServerSeen::default() })
        };
        let rank = |(rank, server): &(u32, u64)| {
            (*rank, RankSeen { server: *server, epoch: 1, is_held: true, at: "a".into() })
        };
        Sight {
            leader: Some(1),
            servers: servers.iter().map(server).collect(),
            ranks: has.iter().map(rank).collect(),
            wants: wants.iter().copied().collect(),
            map: Vec::new(),
        }
    }

    #[test]
    fn a_rank_stays_where_it_is_wanted_and_goes_to_who_has_the_fewest_when_that_one_is_gone() {
        let mut seen = sight(&[(1, true), (2, true), (3, false)], &[(0, 1), (1, 2)], &[(0, 1), (1, 2)]);
        let mut settled = [1, 2, 3].into();
        assert_eq!(decide(&seen, &[0, 1], &mut settled), [(0, 1), (1, 2)].into());
        seen.servers.get_mut(&2).expect("it is there").is_gone = true;
        seen.ranks.get_mut(&1).expect("it is there").is_held = false;
        assert_eq!(decide(&seen, &[0, 1], &mut settled), [(0, 1), (1, 3)].into());
    }

    #[test]
    fn a_server_that_comes_to_share_is_given_its_part_once_and_one_that_stands_by_nothing() {
        let wants = [(0, 1), (1, 1), (2, 1), (3, 1)];
        let seen = sight(&[(1, true), (2, true), (3, false)], &wants, &wants);
        let mut settled = BTreeSet::from([1]);
        let shared = decide(&seen, &[0, 1, 2, 3], &mut settled);
        assert_eq!((count(&shared, 1), count(&shared, 2), count(&shared, 3)), (2, 2, 0));
        assert_eq!(decide(&seen, &[0, 1, 2, 3], &mut settled), wants.into(), "what was ordered since stays so");
    }

    #[test]
    fn one_that_stands_by_has_a_rank_only_as_long_as_nobody_is_idle_who_came_to_share() {
        // 1 has died; 2 stands by, and 3 came to share and has nothing yet.
        let mut seen = sight(&[(1, true), (2, false), (3, true)], &[(0, 1)], &[(0, 1)]);
        seen.servers.get_mut(&1).expect("it is there").is_gone = true;
        seen.ranks.get_mut(&0).expect("it is there").is_held = false;
        assert_eq!(decide(&seen, &[0], &mut [1, 2, 3].into()), [(0, 3)].into());
        // 2 has taken it, and one that shares comes, or comes back.
        let seen = sight(&[(2, false), (3, true)], &[(0, 2)], &[(0, 2)]);
        let mut settled = BTreeSet::from([2]);
        assert_eq!(decide(&seen, &[0], &mut settled), [(0, 3)].into());
        assert_eq!(decide(&seen, &[0], &mut settled), [(0, 2)].into(), "what was ordered since stays so");
        // It takes its part of those, and of what others that share have.
        let wants = [(0, 1), (1, 1), (2, 1), (3, 2)];
        let seen = sight(&[(1, true), (2, false), (3, true)], &wants, &wants);
        let shared = decide(&seen, &[0, 1, 2, 3], &mut [1, 2].into());
        assert_eq!([1, 2, 3].map(|server| count(&shared, server)), [2, 0, 2]);
        assert_eq!(shared[&3], 3);
    }

    #[test]
    fn servers_that_came_before_anybody_led_get_their_part() {
        let wants = [(0, 1), (1, 1), (2, 1)];
        // What servers of before had does not count.
        let mut seen = sight(&[(1, true), (2, true), (3, true)], &[], &[(0, 7), (1, 8), (2, 9)]);
        let mut had = settled(&seen);
        had.insert(1);
        (seen.wants, seen.ranks) = (wants.into(), sight(&[], &wants, &[]).ranks);
        let shared = decide(&seen, &[0, 1, 2], &mut had);
        assert_eq!([1, 2, 3].map(|server| count(&shared, server)), [1, 1, 1]);
    }

    #[test]
    fn ranks_of_a_server_that_is_about_to_end_go_to_others_and_stay_if_there_is_nobody() {
        let mut seen = sight(&[(1, true), (2, false)], &[(0, 1)], &[(0, 1)]);
        seen.servers.get_mut(&1).expect("it is there").flags.stops = true;
        assert_eq!(decide(&seen, &[0], &mut BTreeSet::from([1, 2])), [(0, 2)].into());
        seen.servers.remove(&2);
        assert_eq!(decide(&seen, &[0], &mut BTreeSet::from([1])), BTreeMap::new());
    }
}
