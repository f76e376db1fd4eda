//! Directories that live at the rank which their number names (placement `giga`).

use std::collections::{BTreeMap, BTreeSet};

use loligo_namespace::{FragConfig, PLACEMENT};
use loligo_types::{Answer, FsError, Ino, Lease, Letter, Op, RankState, RenameMode, XattrMode};

use super::*;
use crate::Member;
use crate::admin::{Ask, Told};
use crate::peer::PeerMsg;

fn set_placement(ino: Ino, value: &str) -> Op {
    Op::SetXattr { ino, name: PLACEMENT.into(), value: value.as_bytes().into(), mode: XattrMode::Set }
}

/// Some ranks, a client, and a directory below the root, at rank 0, in which directories are scattered.
fn giga(ranks: usize) -> (Cluster, usize, Ino) {
    let mut cluster = Cluster::new(ranks);
    let client = cluster.client();
    let top = cluster.mkdir(client, Ino::ROOT, "top");
    assert!(cluster.call(client, set_placement(top, "giga")).is_ok());
    (cluster, client, top)
}

/// A directory in it that lives at this rank, and its name.
fn one_at(cluster: &mut Cluster, client: usize, top: Ino, at: usize) -> (Ino, String) {
    for n in 0..100 {
        let text = format!("of{at}-{n}");
        let dir = cluster.mkdir(client, top, &text);
        if dir.zeroth_rank() == Some(rank(at)) {
            return (dir, text);
        }
    }
    panic!("no directory of a hundred is at rank {at}")
}

#[test]
fn new_directories_come_to_all_ranks_and_hand_that_down() {
    let (mut cluster, a, top) = giga(3);
    let mut at: BTreeMap<usize, usize> = BTreeMap::new();
    for n in 0..60 {
        let dir = cluster.mkdir(a, top, &format!("d{n}"));
        let home = usize::from(dir.zeroth_rank().expect("its number says where it lives").0);
        *at.entry(home).or_default() += 1;
        assert!((0..3).all(|rank| cluster.has(rank, dir) == (rank == home)), "{dir} is at rank {home} alone");
        // What is in it is where it is, and directories in it are scattered as well.
        let (made, asked) = cluster.call_by(a, home, &create(dir, "f", WRITE, 9));
        let Ok(Answer::Opened { attr, .. }) = made else { panic!("{made:?}") };
        assert_eq!((asked, cluster.has(home, attr.ino)), (vec![home], true));
        cluster.ask(a, home, close(9));
        let (below, asked) = cluster.call_by(a, home, &mkdir(dir, "e"));
        assert_eq!(asked, [home]);
        assert!(below.is_ok_and(|answer| answer.attr().is_some_and(|attr| attr.ino.zeroth_rank().is_some())));
    }
    assert!(at.len() == 3 && at.values().all(|count| *count > 8), "{at:?}");
    assert_eq!(cluster.attr(a, top).map(|attr| (attr.size, attr.nlink)), Ok((60, 62)));
    // Nothing of it is in the subtree map.
    assert_eq!(cluster.rows().filter(|row| matches!(row, loligo_journal::table::Row::Route { .. })).count(), 0);
    // Where the policy ends, so does it.
    let (dir, _) = one_at(&mut cluster, a, top, 1);
    assert!(cluster.call(a, set_placement(dir, "subtree")).is_ok());
    let plain = cluster.mkdir(a, dir, "plain");
    assert_eq!((plain.zeroth_rank(), cluster.has(1, plain)), (None, true));
    cluster.wait(4000);
    let before = cluster.walk(a);
    for at in 0..3 {
        cluster.crash(at);
    }
    assert_eq!(cluster.walk(a), before);
    cluster.finish();
}

#[test]
fn a_rank_by_itself_makes_them_too_and_others_that_come_get_theirs() {
    let (mut cluster, a, top) = giga(1);
    let early = cluster.mkdir(a, top, "early");
    assert_eq!(early.zeroth_rank(), Some(rank(0)));
    cluster.add();
    let (late, _) = one_at(&mut cluster, a, top, 1);
    assert!(cluster.has(1, late) && cluster.has(0, early));
    cluster.finish();
}

#[test]
fn it_is_made_with_one_record_whatever_dies_when() {
    // What has come so far when something dies: nothing; the number is lent; the record is written, not durable; it is durable; the letter
    // is there.
    for stage in 0..5 {
        for dies in [vec![0], vec![1], vec![0, 1]] {
            let (mut cluster, a, top) = giga(2);
            let names: Vec<String> = (0..).map(|n| format!("d{n}")).take(40).collect();
            cluster.wait(4000);
            cluster.hold(0, 1);
            let mut acknowledged = Vec::new();
            for text in &names {
                let seq = cluster.send(a, 0, mkdir(top, text));
                if stage >= 1 {
                    while !cluster.waiting(0, 1).is_empty() && cluster.outcome(a, 0, seq).is_none() {
                        if stage == 2 {
                            cluster.at(0, |world| world.syncs = false);
                        }
                        cluster.deliver(0, 1);
                        if !cluster.waiting(1, 0).is_empty() {
                            cluster.deliver(1, 0);
                        }
                        if stage <= 3 {
                            break;
                        }
                    }
                }
                match cluster.outcome(a, 0, seq) {
                    Some(Outcome::Answered(Ok(Answer::Entry(attr)))) => acknowledged.push((text.clone(), attr.ino)),
                    Some(other) => panic!("{other:?}"),
                    None => break,
                }
            }
            for at in &dies {
                cluster.kill(*at);
            }
            for at in &dies {
                cluster.start(*at);
            }
            cluster.release();
            for at in &dies {
                for client in 0..cluster.world(*at).clients.len() {
                    cluster.come_back(client, *at, loligo_types::msg::Reclaim::default());
                }
            }
            for at in 0..2 {
                cluster.at(at, |world| world.syncs = true);
            }
            cluster.wait(6000);
            for (text, ino) in &acknowledged {
                assert_eq!(cluster.lookup(a, top, text), Ok(*ino), "stage {stage}, {dies:?} died");
                assert!(cluster.attr(a, *ino).is_ok(), "stage {stage}, {dies:?} died: {text}");
            }
            for text in &names {
                // Whatever else was made is whole.
                if let Ok(ino) = cluster.lookup(a, top, text) {
                    assert!(cluster.attr(a, ino).is_ok(), "stage {stage}, {dies:?} died: {text}");
                    cluster.touch(a, ino, "f");
                }
            }
            cluster.finish();
        }
    }
}

#[test]
fn a_name_that_is_taken_asks_nobody() {
    let (mut cluster, a, top) = giga(2);
    let (_, taken) = one_at(&mut cluster, a, top, 1);
    cluster.hold(0, 1);
    assert_eq!(cluster.call(a, mkdir(top, &taken)), Err(FsError::Exists));
    cluster.finish();
}

#[test]
fn it_is_renamed_exchanged_and_removed_from_afar() {
    let (mut cluster, a, top) = giga(3);
    let (one, one_name) = one_at(&mut cluster, a, top, 1);
    let (two, two_name) = one_at(&mut cluster, a, top, 2);
    let file = cluster.touch(a, one, "f");
    assert!(cluster.call(a, rename(top, &one_name, two, "in")).is_ok());
    assert_eq!(cluster.lookup(a, two, "in"), Ok(one));
    assert!(cluster.has(1, one) && cluster.has(1, file), "it stays where it was");
    assert!(cluster.call(a, rename(two, "in", Ino::ROOT, "out")).is_ok());
    assert_eq!(cluster.call(a, rename(top, &two_name, two, "loop")), Err(FsError::Invalid));
    let exchange = Op::Rename {
        dir: Ino::ROOT,
        name: name("out"),
        new_dir: top,
        new_name: name(&two_name),
        mode: RenameMode::Exchange,
    };
    assert!(cluster.call(a, exchange).is_ok());
    assert_eq!((cluster.lookup(a, Ino::ROOT, "out"), cluster.lookup(a, top, &two_name)), (Ok(two), Ok(one)));
    assert_eq!(cluster.call(a, rmdir(top, &two_name)), Err(FsError::NotEmpty));
    assert_eq!(cluster.call(a, unlink(one, "f")), Ok(Answer::Done));
    assert_eq!(cluster.call(a, rmdir(top, &two_name)), Ok(Answer::Done));
    assert_eq!(cluster.attr(a, one).err(), Some(FsError::Stale));
    assert_eq!(cluster.call(a, rmdir(Ino::ROOT, "out")), Ok(Answer::Done));
    // Nothing of all that is in the subtree map.
    cluster.wait(4000);
    assert_eq!(cluster.rows().filter(|row| matches!(row, loligo_journal::table::Row::Route { .. })).count(), 0);
    cluster.finish();
}

#[test]
fn what_is_above_it_moves_without_it_and_it_moves_by_itself() {
    let (mut cluster, a, top) = giga(3);
    let (zero, _) = one_at(&mut cluster, a, top, 0);
    let (one, _) = one_at(&mut cluster, a, top, 1);
    for dir in [zero, one] {
        cluster.touch(a, dir, "f");
    }
    cluster.migrate(top, 0, 2);
    assert!(cluster.has(0, zero) && cluster.has(1, one) && cluster.has(2, top));
    assert!(cluster.lookup(a, zero, "f").is_ok() && cluster.lookup(a, one, "f").is_ok());
    cluster.migrate(one, 1, 0);
    assert!(cluster.has(0, one) && cluster.lookup(a, one, "f").is_ok());
    cluster.migrate(zero, 0, 1);
    let before = cluster.walk(a);
    for at in 0..3 {
        cluster.crash(at);
    }
    assert_eq!(cluster.walk(a), before);
    assert!(cluster.has(0, one) && cluster.has(1, zero));
    cluster.finish();
}

#[test]
fn a_rank_that_goes_gives_them_away_and_gets_no_more() {
    let (mut cluster, a, top) = giga(3);
    for n in 0..40 {
        let dir = cluster.mkdir(a, top, &format!("d{n}"));
        cluster.touch(a, dir, "f");
    }
    let before = cluster.walk(a);
    cluster.set_state(1, RankState::Draining);
    for n in 0..20 {
        let dir = cluster.mkdir(a, top, &format!("e{n}"));
        assert_ne!(dir.zeroth_rank(), Some(rank(1)), "it takes nothing any more");
    }
    cluster.wait_member(1, &Member::Drained);
    cluster.remove_drained(1);
    let after = cluster.walk(a);
    let is_there = |(path, what): (&String, _)| path == "/top" || after.get(path) == Some(what);
    assert!(before.iter().all(is_there) && after.len() == before.len() + 20);
    // It comes again, under the same number, with nothing.
    cluster.come_again(1);
    assert_eq!(cluster.walk(a), after);
    cluster.finish();
}

#[test]
fn what_is_made_at_a_rank_that_has_begun_to_go_is_given_away_too() {
    let (mut cluster, a, top) = giga(2);
    let mut held = None;
    for n in 0..100 {
        cluster.hold(0, 1);
        let seq = cluster.send(a, 0, mkdir(top, &format!("d{n}")));
        if cluster.outcome(a, 0, seq).is_some() {
            continue;
        }
        // It has lent the number, and the letter is on its way.
        while !matches!(cluster.waiting(1, 0).first(), Some(PeerMsg::Lent { .. })) {
            cluster.deliver(0, 1);
        }
        cluster.deliver(1, 0);
        let is_commit =
            |msg: &&PeerMsg| matches!(msg, PeerMsg::Letter { letter, .. } if matches!(**letter, Letter::Commit { .. }));
        assert_eq!(cluster.waiting(0, 1).iter().filter(|msg| is_commit(msg)).count(), 1);
        let Some(Outcome::Answered(Ok(Answer::Entry(attr)))) = cluster.outcome(a, 0, seq) else { panic!("it is made") };
        held = Some(attr.ino);
        break;
    }
    let dir = held.expect("one of a hundred is at rank 1");
    cluster.set_state(1, RankState::Draining);
    cluster.wait(2000);
    cluster.release();
    cluster.wait_member(1, &Member::Drained);
    cluster.remove_drained(1);
    assert!(cluster.has(0, dir));
    assert_eq!(cluster.attr(a, dir).map(|attr| attr.ino), Ok(dir));
    cluster.finish();
}

#[test]
fn no_lease_on_it_comes_from_the_rank_that_made_its_name() {
    let (mut cluster, a, top) = giga(2);
    for n in 0..20 {
        let seq = cluster.send(a, 0, mkdir(top, &format!("d{n}")));
        cluster.wait(100);
        let Some(Outcome::Answered(Ok(Answer::Entry(attr)))) = cluster.outcome(a, 0, seq) else { panic!("it is made") };
        let at = usize::from(attr.ino.zeroth_rank().expect("it is scattered").0);
        let held = cluster.world(0).mds.leases.holders(attr.ino).any(|(_, bits)| bits != Lease::NONE);
        assert!(!held || at == 0, "{} is rank {at}'s to lease", attr.ino);
    }
    cluster.finish();
}

#[test]
fn a_directory_that_grows_comes_to_all_ranks() {
    let frag = FragConfig { split_entries: 16, merge_entries: 1, split_bits: 1 };
    let mut cluster = Cluster::with(&[RankState::Up; 4], frag);
    let a = cluster.client();
    let top = cluster.mkdir(a, Ino::ROOT, "top");
    assert!(cluster.call(a, set_placement(top, "giga")).is_ok());
    let (dir, _) = one_at(&mut cluster, a, top, 2);
    for n in 0..300 {
        cluster.touch(a, dir, &format!("f{n}"));
    }
    let lines = |cluster: &mut Cluster| {
        let Told::Routes(lines) = cluster.admin(0, Ask::Routes) else { panic!("these are the lines") };
        lines.into_iter().filter(|line| line.dir == dir).map(|line| line.rank).collect::<BTreeSet<_>>()
    };
    cluster.wait_for("all ranks to have some of it", |cluster| lines(cluster).len() == 4);
    cluster.wait(6000);
    let before = cluster.walk(a);
    for n in 0..300 {
        assert!(cluster.lookup(a, dir, &format!("f{n}")).is_ok(), "f{n}");
    }
    assert_eq!(cluster.attr(a, dir).map(|attr| attr.size), Ok(300));
    let before_lines = lines(&mut cluster);
    for at in 0..4 {
        cluster.crash(at);
    }
    assert_eq!((cluster.walk(a), lines(&mut cluster)), (before, before_lines));
    for n in 0..300 {
        assert_eq!(cluster.call(a, unlink(dir, &format!("f{n}"))), Ok(Answer::Done));
    }
    cluster.finish();
}

#[test]
fn a_large_directory_that_is_not_placed_so_stays() {
    let frag = FragConfig { split_entries: 16, merge_entries: 1, split_bits: 1 };
    let mut cluster = Cluster::with(&[RankState::Up; 2], frag);
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    cluster.touch_all(a, dir, 100);
    cluster.wait(6000);
    let Told::Routes(lines) = cluster.admin(0, Ask::Routes) else { panic!("these are the lines") };
    assert_eq!(lines, []);
    cluster.finish();
}
