//! Ranks that come and go while others serve.

use loligo_journal::table::Row;
use loligo_types::msg::{Hello, PROTOCOL_VERSION, ToClient, ToServer};
use loligo_types::{Answer, Frag, Ino, Op, RankState};

use super::*;
use crate::admin::{Ask, Told};
use crate::peer::PeerMsg;
use crate::{Config, ConnId, Input, Member, Peer};

fn pin(ino: Ino, ranks: &str) -> Op {
    let mode = loligo_types::XattrMode::Set;
    Op::SetXattr { ino, name: (*b"loligo.policy.pin").into(), value: ranks.as_bytes().into(), mode }
}

#[test]
fn a_rank_that_is_added_begins_empty_and_takes_what_is_given_to_it() {
    let (mut cluster, a, here, _) = two_ranks();
    cluster.touch(a, here, "f");
    let new = cluster.add();
    let told = |msg: &ToClient| matches!(msg, ToClient::Map(map) if map.epoch == 2 && map.ranks.len() == 3);
    for at in 0..2 {
        assert!(cluster.world(at).clients[a].inbox.iter().any(told), "clients of rank {at} hear of it");
    }
    cluster.migrate(here, 0, new);
    let file = cluster.touch(a, here, "g");
    assert_eq!(file.birth_rank(), rank(new));
    let before = cluster.walk(a);
    cluster.crash(new);
    cluster.crash(0);
    assert_eq!(cluster.walk(a), before);
    cluster.finish();
}

#[test]
fn who_seeks_another_rank_is_told_who_is_there_and_leaves_no_session() {
    let (mut cluster, a, ..) = two_ranks();
    let there = cluster.world(1).session(a);
    let sessions = cluster.world(0).mds.status().sessions.len();
    let (told, closed) = cluster.at(0, |world| {
        let conn = world.clients[a].conn.0;
        world.input(Input::Disconnected { conn });
        let conn = ConnId(1000);
        world.clients[a].conn = ConnId2(conn);
        world.clients[a].inbox.clear();
        let peer = Peer { uid: Some(0), groups: Vec::new(), trusted: true, local: false, identity: None };
        world.input(Input::Connected { conn, peer });
        let versions = (PROTOCOL_VERSION, PROTOCOL_VERSION);
        let hello = Hello { versions, client: 7, resume: Some((there, 1)), ..Hello::default() };
        world.input(Input::Message { conn, msg: ToServer::Hello(hello) });
        (world.clients[a].inbox.pop_front(), world.clients[a].closed)
    });
    assert!(matches!(told, Some(ToClient::Map(map)) if map.ranks.len() == 2), "who is there");
    assert!(closed);
    assert_eq!(cluster.world(0).mds.status().sessions.len(), sessions);
}

#[test]
fn a_lone_rank_gets_company() {
    let mut cluster = Cluster::with_states(&[]);
    cluster.begin_alone();
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    cluster.touch(a, dir, "f");
    // A number that nothing has yet: a rank alone takes it for gone for good.
    let born_elsewhere = Ino::first_of(rank(1));
    assert!(cluster.attr(a, born_elsewhere).is_err());
    let new = cluster.add();
    cluster.migrate(dir, 0, new);
    assert_eq!(cluster.touch(a, dir, "g"), born_elsewhere);
    cluster.migrate(dir, new, 0);
    assert_eq!(cluster.attr(a, born_elsewhere).map(|attr| attr.ino), Ok(born_elsewhere));
    cluster.finish();
}

#[test]
fn a_drained_rank_gives_all_it_has_to_others_and_is_not_needed_any_more() {
    let mut cluster = Cluster::new(3);
    let a = cluster.client();
    let (b, c) = (cluster.mkdir(a, Ino::ROOT, "b"), cluster.mkdir(a, Ino::ROOT, "c"));
    cluster.migrate(b, 0, 1);
    cluster.migrate(c, 0, 2);
    let deep = cluster.mkdir(a, b, "deep");
    let nested = cluster.mkdir(a, deep, "nested");
    cluster.migrate(nested, 1, 2);
    let back = cluster.mkdir(a, nested, "back");
    cluster.migrate(back, 2, 1);
    // Files that were renamed to directories of others stay, and so do second names.
    for (at, dir) in [(0, Ino::ROOT), (1, c), (2, c)] {
        cluster.touch(a, back, &format!("f{at}"));
        cluster.call(a, rename(back, &format!("f{at}"), dir, &format!("g{at}"))).expect("it is there");
    }
    let linked = cluster.touch(a, deep, "linked");
    cluster.call(a, Op::Link { ino: linked, dir: c, name: name("second") }).expect("it may");
    cluster.wait(3000);
    let before = cluster.walk(a);
    cluster.drain_and_remove(1);
    assert_eq!(cluster.map().ranks.iter().map(|info| info.rank).collect::<Vec<_>>(), [rank(0), rank(2)]);
    let after = cluster.walk(a);
    assert_eq!(after, before);
    for at in [0, 2] {
        cluster.crash(at);
    }
    assert_eq!(cluster.walk(a), before, "nobody needs its journal");
    cluster.call(a, unlink(c, "second")).expect("it is there");
    cluster.finish();
}

#[test]
fn a_drained_rank_keeps_no_fragment_of_a_directory_that_others_have_fragments_of() {
    let mut cluster = Cluster::new(3);
    let a = cluster.client();
    let upper = Frag { bits: 1, value: 1 };
    // Rank 1 gets the inode of the first, and nothing but names of the second.
    let (home, part) = (cluster.mkdir(a, Ino::ROOT, "home"), cluster.mkdir(a, Ino::ROOT, "part"));
    cluster.migrate(home, 0, 1);
    for n in 0..20 {
        cluster.touch(a, home, &format!("f{n}"));
        cluster.touch(a, part, &format!("f{n}"));
    }
    cluster.migrate_frag(home, upper, 1, 2);
    cluster.migrate_frag(part, upper, 0, 1);
    cluster.wait(3000);
    let before = cluster.walk(a);
    cluster.drain_and_remove(1);
    let Told::Routes(lines) = cluster.admin(0, Ask::Routes) else { panic!("lines") };
    assert!(lines.iter().all(|line| line.rank != rank(1)), "{lines:?}");
    let of_part: Vec<_> = lines.iter().filter(|line| line.dir == part).collect();
    assert!(of_part.iter().all(|line| (line.frag, line.rank) == (Frag::WHOLE, rank(0))), "home again: {of_part:?}");
    for at in [0, 2] {
        cluster.crash(at);
    }
    assert_eq!(cluster.walk(a), before, "nobody needs its journal");
    for dir in [home, part] {
        assert_eq!(cluster.attr(a, dir).map(|attr| (attr.size, attr.nlink)), Ok((20, 2)));
        for n in 0..20 {
            cluster.call(a, unlink(dir, &format!("f{n}"))).expect("it is there");
        }
    }
    cluster.call(a, rmdir(Ino::ROOT, "home")).expect("it is empty");
    cluster.call(a, rmdir(Ino::ROOT, "part")).expect("it is empty");
    cluster.finish();
}

#[test]
fn a_rank_that_never_had_anything_can_be_drained() {
    let mut cluster = Cluster::new(2);
    cluster.drain_and_remove(1);
    let a = cluster.client_at(0);
    cluster.touch(a, Ino::ROOT, "f");
    cluster.finish();
}

#[test]
fn a_rank_that_lent_and_borrowed_is_not_kept_by_letters_that_have_long_arrived() {
    let (mut cluster, a, here, there) = two_ranks();
    for (from, to) in [(here, there), (there, here)] {
        let file = cluster.touch(a, from, "f");
        cluster.call(a, Op::Link { ino: file, dir: to, name: name("g") }).expect("it may");
        cluster.call(a, unlink(to, "g")).expect("it is there");
        cluster.call(a, unlink(from, "f")).expect("it is there");
    }
    cluster.migrate(there, 1, 0);
    let dir = cluster.mkdir(a, here, "d");
    cluster.migrate(dir, 0, 1);
    cluster.call(a, rmdir(here, "d")).expect("it is empty");
    cluster.drain_and_remove(1);
    cluster.finish();
}

#[test]
fn a_rank_that_comes_again_goes_on_with_its_numbers() {
    let (mut cluster, a, _, there) = two_ranks();
    let old = cluster.touch(a, there, "old");
    cluster.drain_and_remove(1);
    cluster.come_again(1);
    cluster.connect(a, 1);
    cluster.migrate(there, 0, 1);
    let new = cluster.touch(a, there, "new");
    assert!(new > old && new.birth_rank() == rank(1), "{new} after {old}");
    cluster.crash(0);
    cluster.connect(a, 1);
    assert_eq!(cluster.lookup(a, there, "old"), Ok(old));
    cluster.finish();
}

#[test]
fn a_rank_that_is_killed_while_it_is_drained_goes_on_with_it() {
    for killed in 0..2 {
        for after_ms in [0, 50, 100, 200, 300, 400, 600, 800, 1000, 1500] {
            let (mut cluster, a, _, there) = two_ranks();
            for text in ["x", "y"] {
                let dir = cluster.mkdir(a, there, text);
                cluster.touch(a, dir, "f");
            }
            cluster.touch(a, there, "f");
            cluster.call(a, rename(there, "f", Ino::ROOT, "floats")).expect("it is there");
            let before = cluster.walk(a);
            cluster.set_state(1, RankState::Draining);
            cluster.wait(after_ms);
            cluster.crash(killed);
            if !cluster.members(1).contains(&Member::Drained) {
                cluster.wait_member(1, &Member::Drained);
            }
            assert_eq!(cluster.walk(a), before, "rank {killed} after {after_ms} ms");
            cluster.remove_drained(1);
            cluster.crash(0);
            assert_eq!(cluster.walk(a), before);
            cluster.finish();
        }
    }
}

#[test]
fn what_is_pinned_to_the_rank_alone_is_in_the_way_and_what_is_pinned_to_others_too_goes_to_them() {
    let mut cluster = Cluster::new(3);
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    cluster.migrate(dir, 0, 1);
    let alone = cluster.mkdir(a, dir, "alone");
    let several = cluster.mkdir(a, dir, "several");
    cluster.call(a, pin(alone, "1")).expect("it may");
    cluster.call(a, pin(several, "1,2")).expect("it may");
    cluster.set_state(1, RankState::Draining);
    cluster.wait(1000);
    let said = cluster.members(1);
    let [Member::Refused(text)] = &said[..] else { panic!("{said:?}") };
    assert!(text.contains(&format!("inode {alone}")) && !text.contains(&format!("inode {several}")), "{text}");
    assert!(text.contains("unpin"), "{text}");
    cluster.set_state(1, RankState::Up);
    assert_eq!(cluster.admin(1, Ask::Drain), Told::Drain(None));
    cluster.call(a, pin(alone, "0")).expect("it may");
    cluster.wait(3000);
    cluster.set_state(1, RankState::Draining);
    // Nothing can be pinned to it any more.
    assert!(cluster.call(a, pin(alone, "1")).is_err());
    cluster.wait_member(1, &Member::Drained);
    cluster.remove_drained(1);
    let routes = |cluster: &mut Cluster| match cluster.admin(0, Ask::Routes) {
        Told::Routes(routes) => routes,
        other => panic!("{other:?}"),
    };
    let of = |cluster: &mut Cluster, ino| routes(cluster).iter().find(|route| route.dir == ino).map(|route| route.rank);
    assert_eq!((of(&mut cluster, alone), of(&mut cluster, several)), (Some(rank(0)), Some(rank(2))));
    cluster.finish();
}

#[test]
fn an_open_file_without_a_name_is_waited_for_until_it_is_closed() {
    let (mut cluster, a, _, there) = two_ranks();
    let outcome = cluster.ask(a, 1, create(there, "f", WRITE, 1));
    assert!(matches!(outcome, Outcome::Answered(Ok(Answer::Opened { .. }))), "{outcome:?}");
    cluster.ask(a, 1, unlink(there, "f"));
    cluster.set_state(1, RankState::Draining);
    cluster.wait(5000);
    let Told::Drain(Some(status)) = cluster.admin(1, Ask::Drain) else { panic!("it is being drained") };
    assert_eq!((status.orphans, status.subtrees_left), (1, 0), "{status:?}");
    assert!(status.state.contains("closed"), "{status:?}");
    assert!(!cluster.members(1).contains(&Member::Drained));
    cluster.ask(a, 1, close(1));
    cluster.wait_member(1, &Member::Drained);
    cluster.remove_drained(1);
    cluster.finish();
}

#[test]
fn a_drain_says_which_rank_it_waits_for() {
    for after_ms in [0, 100, 200, 400] {
        let (mut cluster, a, _, there) = two_ranks();
        cluster.touch(a, there, "f");
        cluster.call(a, rename(there, "f", Ino::ROOT, "floats")).expect("it is there");
        let before = cluster.walk(a);
        cluster.set_state(1, RankState::Draining);
        cluster.wait(after_ms);
        cluster.kill(0);
        cluster.wait(3000);
        let status = cluster.world(1).mds.drain_status().expect("it is being drained");
        let stuck = status.stuck.as_deref().unwrap_or_default();
        assert!(stuck.starts_with("there is no connection to rank 0"), "after {after_ms} ms: {status:?}");
        cluster.start(0);
        cluster.come_back(a, 0, loligo_types::msg::Reclaim::default());
        cluster.wait_member(1, &Member::Drained);
        assert_eq!(cluster.world(1).mds.status().drain_stuck, None);
        cluster.remove_drained(1);
        assert_eq!(cluster.walk(a), before);
        cluster.finish();
    }
}

#[test]
fn a_drain_can_be_stopped_and_the_rank_takes_more_again() {
    let (mut cluster, a, here, there) = two_ranks();
    cluster.set_state(1, RankState::Draining);
    cluster.wait(200);
    cluster.set_state(1, RankState::Up);
    cluster.wait(3000);
    assert!(!cluster.members(1).contains(&Member::Drained));
    cluster.migrate(here, 0, 1);
    cluster.touch(a, here, "f");
    cluster.touch(a, there, "f");
    cluster.finish();
}

#[test]
fn a_subtree_that_was_on_its_way_when_the_rank_said_that_it_has_nothing_is_given_away_too() {
    let (mut cluster, a, here, there) = two_ranks();
    cluster.migrate(there, 1, 0);
    cluster.touch(a, here, "f");
    let before = cluster.walk(a);
    let offered = cluster.begin_move(here, 0, 1);
    // The other rank has agreed before it heard that it is to be drained; the letter is late.
    cluster.held.insert((0, 1));
    cluster.wait_for("the letter", |cluster| {
        while cluster.waiting(0, 1).first().is_some_and(|msg| !matches!(msg, PeerMsg::Letter { .. })) {
            cluster.deliver(0, 1);
        }
        cluster.state(0, offered) == "moving"
    });
    cluster.set_state(1, RankState::Draining);
    cluster.wait_for("the last words of rank 1", |cluster| {
        let Told::Drain(Some(status)) = cluster.admin(1, Ask::Drain) else { panic!("it is being drained") };
        status.state.contains("other ranks")
    });
    cluster.wait(500);
    cluster.release();
    cluster.wait_member(1, &Member::Drained);
    cluster.remove_drained(1);
    assert_eq!(cluster.walk(a), before, "nothing went with the rank");
    cluster.crash(0);
    assert_eq!(cluster.walk(a), before);
    cluster.finish();
}

#[test]
fn what_was_put_down_of_fragments_of_a_removed_directory_is_forgotten_by_all_and_keeps_nobody_from_being_drained() {
    for first in [0, 1] {
        let (mut cluster, a, here, _) = two_ranks();
        let dir = cluster.mkdir(a, here, "d");
        cluster.migrate_frag(dir, Frag { bits: 1, value: 1 }, 0, 1);
        // Of this one rank 1 has nothing any more but a line that says so.
        let back = cluster.mkdir(a, here, "back");
        cluster.migrate(back, 0, 1);
        cluster.migrate(back, 1, 0);
        for text in ["d", "back"] {
            cluster.call(a, rmdir(here, text)).expect("it is empty");
        }
        cluster.wait(4000);
        cluster.crash(first);
        cluster.crash(1 - first);
        cluster.wait(1000);
        for at in 0..2 {
            let Told::Routes(lines) = cluster.admin(at, Ask::Routes) else { panic!("lines") };
            assert!(lines.iter().all(|line| line.dir != dir && line.dir != back), "rank {at}: {lines:?}");
        }
        cluster.drain_and_remove(1);
        cluster.finish();
    }
}

#[test]
fn an_older_map_is_passed_over() {
    let (mut cluster, a, here, _) = two_ranks();
    let old = cluster.map();
    cluster.set_state(1, RankState::Draining);
    cluster.at(0, |world| world.input(Input::Map(old)));
    assert_eq!(cluster.map().epoch, 2);
    let Told::Refused(text) = cluster.admin(0, Ask::Migrate { dir: here, to: rank(1) }) else { panic!("refused") };
    assert!(text.contains("drained"), "{text}");
    cluster.touch(a, here, "f");
    cluster.set_state(1, RankState::Up);
    cluster.finish();
}

#[test]
fn what_dead_sessions_have_left_is_dropped_before_their_rank_goes() {
    let few_at_once = |config| Config { shrink: 512, ..config };
    let cluster = Cluster::with_settings(&[RankState::Up; 2], few_at_once);
    let (mut cluster, a, _, there) = here_and_there(cluster);
    let files: Vec<Ino> = (0..5).map(|n| cluster.touch(a, there, &format!("f{n}"))).collect();
    for n in 0..5 {
        cluster.call(a, unlink(there, &format!("f{n}"))).expect("it is there");
    }
    cluster.set_state(1, RankState::Draining);
    cluster.wait_member(1, &Member::Drained);
    // It looks at one of these a tick.
    cluster.at(1, |world| files.into_iter().for_each(|ino| world.mds.tidy.leave(ino)));
    cluster.remove_drained(1);
    let of_it = |row: &Row| matches!(row, Row::Discard { rank: of, .. } if *of == rank(1));
    let left: Vec<_> = cluster.rows().filter(of_it).collect();
    assert!(left.is_empty(), "nobody will drop these: {left:?}");
    assert_eq!(cluster.world(1).mds.tidy.left(), 0);
    cluster.finish();
}
