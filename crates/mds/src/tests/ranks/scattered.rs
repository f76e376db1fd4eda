//! Directories that live at the rank which their number names (placement `giga`).

use std::collections::{BTreeMap, BTreeSet};

use loligo_namespace::{FragConfig, PLACEMENT, SUBTREE};
use loligo_types::{Answer, Frag, FsError, Ino, Lease, Letter, Op, RankState, RenameMode, Route, XattrMode};

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
fn a_document_that_names_a_placement_is_there_with_it_whatever_dies_then() {
    let mut cluster = Cluster::new(3);
    let a = cluster.client();
    let top = cluster.mkdir(a, Ino::ROOT, "top");
    let say = |ino, text: &str| Op::SetXattr {
        ino,
        name: SUBTREE.into(),
        value: text.as_bytes().into(),
        mode: XattrMode::Set,
    };
    let says = |cluster: &mut Cluster, ino| {
        [SUBTREE, PLACEMENT].map(|name| match cluster.call(a, Op::GetXattr { ino, name: name.into() }) {
            Ok(Answer::Bytes(text)) => String::from_utf8(text.to_vec()).expect("it is text"),
            Ok(answer) => panic!("{answer:?}"),
            Err(error) => format!("{error:?}"),
        })
    };
    assert!(cluster.call(a, say(top, "placement = 'giga' # mine")).is_ok());
    let both = ["placement = \"giga\" # mine", "giga"].map(str::to_owned);
    assert_eq!(says(&mut cluster, top), both);
    let (dir, _) = one_at(&mut cluster, a, top, 1);
    for at in 0..3 {
        cluster.crash(at);
    }
    assert_eq!(says(&mut cluster, top), both);
    // What is refused changes nothing, at the rank that has it, whoever dies then.
    assert_eq!(cluster.call(a, say(top, "placement = 'table'\npreset = 'batchfs'")), Err(FsError::Invalid));
    assert_eq!(
        cluster.call(a, say(dir, "preset = 'batchfs'")),
        Err(FsError::Invalid),
        "it was made at a rank of its own"
    );
    assert!(cluster.call(a, say(dir, "preset = 'batchfs'\nplacement = 'subtree'")).is_ok());
    let back = Op::RemoveXattr { ino: dir, name: PLACEMENT.into() };
    assert_eq!(cluster.call(a, back), Err(FsError::Invalid));
    for at in 0..3 {
        cluster.crash(at);
    }
    assert_eq!(says(&mut cluster, top), both);
    let apart = ["preset = 'batchfs'\nplacement = \"subtree\"", "subtree"].map(str::to_owned);
    assert_eq!(says(&mut cluster, dir), apart);
    assert_eq!(cluster.mkdir(a, dir, "with its name").zeroth_rank(), None);
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
    // How far the first that comes to the other rank is when something dies: its record is written, not durable; it is durable; the letter is
    // there, not durable there; it is durable there.
    for stage in 0..4 {
        for dies in [vec![0], vec![1], vec![0, 1]] {
            let (mut cluster, a, top) = giga(2);
            let names: Vec<String> = (0..40).map(|n| format!("d{n}")).collect();
            cluster.wait(4000);
            cluster.hold(0, 1);
            let mut acknowledged = Vec::new();
            for text in &names {
                cluster.at(0, |world| world.syncs = stage > 0);
                cluster.at(1, |world| world.syncs = stage > 2);
                let seq = cluster.send(a, 0, mkdir(top, text));
                match cluster.outcome(a, 0, seq) {
                    Some(Outcome::Answered(Ok(Answer::Entry(attr)))) => acknowledged.push((text.clone(), attr.ino)),
                    Some(other) => panic!("{other:?}"),
                    None => assert_eq!(stage, 0, "nobody is waited for"),
                }
                let is_afar = !cluster.waiting(0, 1).is_empty();
                while stage > 1 && !cluster.waiting(0, 1).is_empty() {
                    cluster.deliver(0, 1);
                }
                if is_afar {
                    break;
                }
            }
            for at in &dies {
                cluster.kill(*at);
            }
            for at in &dies {
                cluster.start(*at);
            }
            for at in 0..2 {
                cluster.at(at, |world| world.syncs = true);
            }
            cluster.release();
            for at in &dies {
                for client in 0..cluster.world(*at).clients.len() {
                    cluster.come_back(client, *at, loligo_types::msg::Reclaim::default());
                }
            }
            cluster.wait(6000);
            assert!(stage == 0 || acknowledged.iter().any(|(_, ino)| ino.zeroth_rank() == Some(rank(1))));
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

/// A directory at rank 1 whose client has its answer, and whose letter is held on its way.
fn one_on_its_way(cluster: &mut Cluster, client: usize, top: Ino) -> Ino {
    cluster.hold(0, 1);
    for n in 0..100 {
        let seq = cluster.send(client, 0, mkdir(top, &format!("on-its-way-{n}")));
        let Some(Outcome::Answered(Ok(Answer::Entry(attr)))) = cluster.outcome(client, 0, seq) else {
            panic!("it is made, and nobody is waited for")
        };
        if attr.ino.zeroth_rank() == Some(rank(1)) {
            let is_commit = |msg: &&PeerMsg| matches!(msg, PeerMsg::Letter { letter, .. } if matches!(**letter, Letter::Commit { .. }));
            assert_eq!(cluster.waiting(0, 1).iter().filter(|msg| is_commit(msg)).count(), 1);
            return attr.ino;
        }
    }
    panic!("no directory of a hundred is at rank 1")
}

#[test]
fn who_comes_to_its_rank_before_the_letter_waits_for_it() {
    let (mut cluster, a, top) = giga(2);
    let b = cluster.client();
    for at in [a, b] {
        cluster.connect(at, 1);
    }
    let dir = one_on_its_way(&mut cluster, a, top);
    let asked = [cluster.send(a, 1, create(dir, "f", WRITE, 7)), cluster.send(b, 1, Op::GetAttr { ino: dir })];
    cluster.deliver_until(1, 0, |msg| matches!(msg, PeerMsg::AskBorn { ino } if *ino == dir));
    assert_eq!((cluster.outcome(a, 1, asked[0]), cluster.outcome(b, 1, asked[1])), (None, None));
    cluster.release();
    assert!(matches!(cluster.outcome(a, 1, asked[0]), Some(Outcome::Answered(Ok(Answer::Opened { .. })))));
    assert!(matches!(cluster.outcome(b, 1, asked[1]), Some(Outcome::Answered(Ok(_)))));
    assert!(cluster.has(1, dir));
    cluster.ask(a, 1, close(7));
    cluster.finish();
}

#[test]
fn who_waits_for_one_finds_it_though_the_question_or_its_maker_dies() {
    for dies in [vec![], vec![0], vec![1], vec![0, 1]] {
        let (mut cluster, a, top) = giga(2);
        cluster.connect(a, 1);
        cluster.wait(4000);
        let dir = one_on_its_way(&mut cluster, a, top);
        let seq = cluster.send(a, 1, Op::GetAttr { ino: dir });
        cluster.deliver_until(1, 0, |msg| matches!(msg, PeerMsg::AskBorn { .. }));
        if dies.is_empty() {
            cluster.reconnect(0, 1);
        }
        dies.iter().for_each(|at| cluster.kill(*at));
        dies.iter().for_each(|at| cluster.start(*at));
        cluster.release();
        for at in &dies {
            cluster.come_back(a, *at, loligo_types::msg::Reclaim::default());
        }
        cluster.wait(6000);
        if !dies.contains(&1) {
            assert!(matches!(cluster.outcome(a, 1, seq), Some(Outcome::Answered(Ok(_)))), "{dies:?}");
        }
        assert_eq!(cluster.attr(a, dir).map(|attr| attr.ino), Ok(dir), "{dies:?}");
        cluster.finish();
    }
}

#[test]
fn a_number_of_which_nothing_was_made_or_is_any_more_is_stale_and_the_maker_is_asked_once() {
    let (mut cluster, a, top) = giga(2);
    cluster.connect(a, 1);
    let (gone, text) = one_at(&mut cluster, a, top, 1);
    assert!(cluster.call(a, rmdir(top, &text)).is_ok());
    cluster.wait(6000);
    cluster.crash(1);
    let never = Ino(gone.plain().0 + 100_000).scattered(rank(1)).expect("it fits");
    for ino in [gone, never] {
        cluster.hold(0, 1);
        let both = [0; 2].map(|_| cluster.send(a, 1, Op::GetAttr { ino }));
        let asks = |msg: &&PeerMsg| matches!(msg, PeerMsg::AskBorn { .. });
        assert!(cluster.waiting(1, 0).iter().filter(|msg| asks(msg)).count() <= 1);
        cluster.release();
        for seq in both {
            assert_eq!(cluster.outcome(a, 1, seq), Some(Outcome::Answered(Err(FsError::Stale))), "{ino}");
        }
    }
    cluster.finish();
}

#[test]
fn who_waits_for_one_whose_maker_goes_finds_it() {
    let (mut cluster, a, top) = giga(3);
    cluster.migrate(top, 0, 2);
    let made = loop {
        let (dir, _) = one_at(&mut cluster, a, top, 1);
        if dir.birth_rank() == rank(2) {
            break dir;
        }
    };
    cluster.set_state(2, RankState::Draining);
    cluster.wait_member(2, &Member::Drained);
    cluster.remove_drained(2);
    cluster.wait(6000);
    cluster.crash(1);
    assert_eq!(cluster.attr(a, made).map(|attr| attr.ino), Ok(made));
    let never = Ino(made.plain().0 + 100_000).scattered(rank(1)).expect("it fits");
    assert_eq!(never.birth_rank(), rank(2));
    assert_eq!(cluster.attr(a, never).err(), Some(FsError::Stale));
    cluster.finish();
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
    let dir = one_on_its_way(&mut cluster, a, top);
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

/// A directory that lives at rank 2 by its number, was given to rank 1, and is removed there, of which rank 2 does not hear.
fn removed_where_it_was_given_to() -> (Cluster, usize, Ino, Ino) {
    let (mut cluster, a, top) = giga(3);
    let (dir, text) = one_at(&mut cluster, a, top, 2);
    cluster.migrate(dir, 2, 1);
    cluster.hold(1, 2);
    assert_eq!(cluster.call(a, rmdir(top, &text)), Ok(Answer::Done));
    (cluster, a, top, dir)
}

fn has_line(cluster: &mut Cluster, at: usize, dir: Ino) -> bool {
    let told = cluster.admin(at, Ask::Routes);
    let Told::Routes(routes) = told else { panic!("{told:?}") };
    routes.iter().any(|route| route.dir == dir)
}

#[test]
fn the_rank_that_its_number_names_forgets_what_a_line_said_of_one_that_is_removed_elsewhere() {
    let (mut cluster, _, _, dir) = removed_where_it_was_given_to();
    // What was on its way is lost, and rank 2 tells rank 1 what it believes.
    cluster.held.clear();
    cluster.reconnect(1, 2);
    cluster.wait(200);
    for at in 0..3 {
        assert!(!has_line(&mut cluster, at, dir), "rank {at}");
    }
    cluster.finish();
}

#[test]
fn ranks_that_take_each_other_for_the_one_that_has_it_do_not_ask_each_other_for_ever() {
    let (mut cluster, a, top, dir) = removed_where_it_was_given_to();
    let (here, text) = one_at(&mut cluster, a, top, 1);
    cluster.touch(a, here, "f");
    let line = Route { dir, frag: Frag::WHOLE, rank: rank(1), version: 9 };
    cluster.release();
    cluster.wait(5000);
    (0..3).for_each(|at| assert!(!has_line(&mut cluster, at, dir), "rank {at}"));
    // Rank 2 has it from rank 1 itself, and so does not ask there whether it is so.
    cluster.at(2, |world| {
        world.input(crate::Input::Peer { from: rank(1), msg: PeerMsg::Routes(vec![line]) });
    });
    assert!(has_line(&mut cluster, 2, dir));
    // Whatever of it is wanted at rank 1: the one that counts a file, or into which one is renamed.
    let moved = cluster.ask(a, 1, rename(here, "f", dir, "g"));
    assert_eq!(moved, Outcome::Answered(Err(FsError::NotFound)), "{text}");
    assert!(!has_line(&mut cluster, 2, dir));
    cluster.finish();
}

#[test]
fn what_a_third_rank_says_of_one_that_is_gone_keeps_nobody_going_to_and_fro() {
    let (mut cluster, a, _, dir) = removed_where_it_was_given_to();
    let line = Route { dir, frag: Frag::WHOLE, rank: rank(1), version: 9 };
    cluster.release();
    cluster.wait(5000);
    cluster.at(2, |world| {
        world.input(crate::Input::Peer { from: rank(0), msg: PeerMsg::Routes(vec![line]) });
    });
    for at in 0..3 {
        assert_eq!(cluster.call_by(a, at, &Op::GetAttr { ino: dir }).0, Err(FsError::Stale), "rank {at}");
    }
    (0..3).for_each(|at| assert!(!has_line(&mut cluster, at, dir), "rank {at}"));
    cluster.finish();
}

#[test]
fn nobody_sends_a_hint_to_a_rank_that_was_removed() {
    let (mut cluster, a, top) = giga(3);
    let (dir, _) = one_at(&mut cluster, a, top, 2);
    cluster.drain_and_remove(1);
    // A line that rank 0 has kept from before names it.
    let line = Route { dir, frag: Frag::WHOLE, rank: rank(1), version: 9 };
    let to_it = cluster.at(2, |world| {
        world.input(crate::Input::Peer { from: rank(0), msg: PeerMsg::Routes(vec![line]) });
        world.to_peers.iter().filter(|(to, _)| *to == rank(1)).count()
    });
    assert_eq!(to_it, 0, "it is not there");
}
