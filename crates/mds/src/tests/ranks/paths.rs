//! Identities that are limited to paths, where the directories above are other ranks'.

use loligo_types::msg::Reclaim;
use loligo_types::{FsError, Ino, Lease, Op};

use super::*;
use crate::peer::PeerMsg;
use crate::tests::paths::limited;

/// `/there` and what is below is rank 1's, `/there/back` rank 0's again, with `/there/back/deep` at rank 2.
fn nested() -> (Cluster, usize, Ino, Ino, Ino) {
    let (mut cluster, root, _, there) = here_and_there(Cluster::new(3));
    let back = cluster.mkdir(root, there, "back");
    let deep = cluster.mkdir(root, back, "deep");
    cluster.migrate(back, 1, 0);
    cluster.migrate(deep, 0, 2);
    (cluster, root, there, back, deep)
}

fn refused(cluster: &mut Cluster, client: usize, op: Op) -> Option<FsError> {
    cluster.call(client, op).err()
}

#[test]
fn who_is_limited_comes_to_his_path_over_all_ranks_and_to_no_other() {
    let (mut cluster, root, there, back, deep) = nested();
    let file = cluster.touch(root, deep, "f");
    let other = cluster.touch(root, there, "other");
    let a = cluster.client_as(Some(limited(&["rw:/there/back/deep"])));
    for (dir, text, ino) in
        [(Ino::ROOT, "there", there), (there, "back", back), (back, "deep", deep), (deep, "f", file)]
    {
        assert_eq!(cluster.lookup(a, dir, text), Ok(ino), "{text}");
    }
    assert!(cluster.call(a, mkdir(deep, "mine")).is_ok());
    assert!(cluster.attr(a, back).is_ok());
    assert_eq!(refused(&mut cluster, a, mkdir(back, "x")), Some(FsError::Access));
    assert_eq!(refused(&mut cluster, a, Op::GetAttr { ino: other }), Some(FsError::Access));
    assert_eq!(cluster.lookup(a, there, "other").err(), Some(FsError::Access));
    assert_eq!(cluster.lookup(a, Ino::ROOT, "here").err(), Some(FsError::Access), "not even whose it is");
    assert_eq!(refused(&mut cluster, a, rename(deep, "f", there, "f")), Some(FsError::Access));
    cluster.finish();
}

#[test]
fn what_was_moved_into_the_path_is_there_at_once_and_what_was_moved_out_within_a_second() {
    let (mut cluster, root, there, back, deep) = nested();
    let a = cluster.client_as(Some(limited(&["rw:/there"])));
    cluster.call(a, mkdir(deep, "one")).expect("it may");
    cluster.call(root, rename(there, "back", Ino::ROOT, "out")).expect("nothing is in the way");
    for dir in [back, deep] {
        cluster.wait(1100);
        assert_eq!(refused(&mut cluster, a, mkdir(dir, "two")), Some(FsError::Access));
    }
    cluster.call(root, rename(Ino::ROOT, "out", there, "in")).expect("nothing is in the way");
    for dir in [back, deep] {
        assert!(cluster.call(a, mkdir(dir, "three")).is_ok(), "that it was elsewhere is asked again");
    }
    cluster.finish();
}

#[test]
fn who_asks_for_a_way_waits_for_a_rank_that_is_away_and_asks_again() {
    let (mut cluster, _, _, _, deep) = nested();
    let a = cluster.client_as(Some(limited(&["rw:/there"])));
    cluster.kill(0);
    let seq = cluster.send(a, 2, mkdir(deep, "new"));
    cluster.wait(500);
    assert!(cluster.outcome(a, 2, seq).is_none());
    cluster.start(0);
    for client in 0..cluster.world(0).clients.len() {
        cluster.come_back(client, 0, Reclaim::default());
    }
    cluster.wait(500);
    assert!(matches!(cluster.outcome(a, 2, seq), Some(Outcome::Answered(Ok(_)))));
    cluster.finish();
}

#[test]
fn a_link_over_ranks_needs_both_to_be_in_the_path() {
    let (mut cluster, root, there, _, deep) = nested();
    let here = cluster.lookup(root, Ino::ROOT, "here").expect("it is there");
    let (inside, outside) = (cluster.touch(root, deep, "f"), cluster.touch(root, here, "f"));
    let a = cluster.client_as(Some(limited(&["rw:/there"])));
    let link = |ino, dir, text| Op::Link { ino, dir, name: name(text) };
    assert!(cluster.call(a, link(inside, there, "second")).is_ok());
    assert_eq!(refused(&mut cluster, a, link(outside, there, "stolen")), Some(FsError::Access));
    assert_eq!(refused(&mut cluster, a, link(inside, here, "leaked")), Some(FsError::Access));
    cluster.finish();
}

#[test]
fn after_a_restart_of_its_rank_a_session_gets_back_what_other_ranks_say_to_be_in_its_path() {
    let (mut cluster, root, _, _, deep) = nested();
    let (inside, secret) = (cluster.touch(root, deep, "f"), cluster.mkdir(root, Ino::ROOT, "secret"));
    let outside = cluster.touch(root, secret, "f");
    cluster.migrate(secret, 0, 2);
    let a = cluster.client_as(Some(limited(&["rw:/there"])));
    assert!(matches!(cluster.ask(a, 2, Op::Open { ino: inside, flags: WRITE, handle: 5 }), Outcome::Answered(Ok(_))));
    cluster.kill(2);
    cluster.start(2);
    cluster.come_back(root, 2, Reclaim::default());
    let opens = vec![(5, inside, WRITE, Lease::NONE), (6, outside, WRITE, Lease::NONE)];
    cluster.come_back(a, 2, Reclaim { opens, ..Reclaim::default() });
    cluster.wait(200);
    assert!(cluster.world(2).mds.status().grace.is_none(), "all are back");
    assert!(matches!(cluster.ask(a, 2, write_inline(inside, 5, 0, b"x")), Outcome::Answered(Ok(_))));
    let lost = cluster.ask(a, 2, write_inline(outside, 6, 0, b"x"));
    assert_eq!(lost, Outcome::Answered(Err(FsError::BadHandle)));
    cluster.ask(a, 2, close(5));
    cluster.finish();
}

#[test]
fn a_rank_that_does_not_have_what_it_is_asked_for_says_nothing_that_could_be_believed() {
    let (mut cluster, _, there, _, deep) = nested();
    cluster.hold(0, 1);
    cluster.at(0, |world| {
        let from = rank(1);
        world.input(crate::Input::Peer { from, msg: PeerMsg::AskWay { number: 1, ino: there } });
        world.input(crate::Input::Peer { from, msg: PeerMsg::AskWay { number: 2, ino: Ino(1 << 40) } });
    });
    let said = |cluster: &Cluster, ino: Ino| {
        cluster.waiting(0, 1).into_iter().any(|msg| matches!(msg, PeerMsg::Way { ino: of, .. } if *of == ino))
    };
    assert!(!said(&cluster, there) && !said(&cluster, deep));
    cluster.release();
    cluster.finish();
}
