//! Objects that no inode tells of, left by a kill of client and server at once.

use std::sync::Arc;

use loligo_types::msg::Reclaim;
use loligo_types::{Answer, Control, Ino, Lease, Op, Promise, SubtreeOp};

use super::*;
use crate::Input;

fn search(world: &mut World, inos: &[Ino]) -> Vec<(Ino, u64)> {
    world.discards = false;
    world.input(Input::Strays { inos: Arc::from(inos) });
    world.wait_alive(500);
    let dropped = std::mem::take(&mut world.pending_discards);
    dropped.into_iter().collect()
}

fn made(world: &mut World, at: usize, name: &str, handle: u64) -> Ino {
    world.create(at, Ino::ROOT, name, WRITE, handle).ino
}

/// After a crash in which client `dead` has ended, too.
fn crash(world: &mut World, dead: usize) {
    world.crash();
    world.clients[dead].closed = true;
    let session = world.session(dead);
    world.input(Input::PeerDead { session });
}

#[test]
fn of_files_that_tell_of_no_objects_and_of_removed_ones_all_objects_are_dropped() {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    let (inline, objects, removed) =
        (made(&mut world, a, "i", 1), made(&mut world, a, "o", 2), made(&mut world, a, "r", 3));
    let cuts = world.lookup(a, Ino::ROOT, "o").expect("there").cuts;
    world.call(a, set_data(objects, 2, cuts, 100_000, true)).expect("it is open");
    let dir = world.mkdir(a, Ino::ROOT, "d").ino;
    crash(&mut world, a);
    world.resume(b);
    world.reclaim(b, Reclaim::default());
    world.wait_alive(500);
    world.call(b, unlink(Ino::ROOT, "r")).expect("there");
    let new = made(&mut world, b, "n", 1);
    world.call(b, close(1)).expect("open");
    let dropped = search(&mut world, &[inline, objects, removed, dir, new]);
    assert_eq!(dropped, [(inline, 0), (removed, 0)]);
    assert_eq!(world.lists_done, 1);
    // With a list that has nothing the next one may come, too.
    assert_eq!(search(&mut world, &[objects]), []);
    assert_eq!(world.lists_done, 2);
}

#[test]
fn nothing_is_dropped_of_a_file_that_a_client_of_before_writes_and_of_a_number_that_it_may_use() {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    let ino = made(&mut world, b, "f", 7);
    let Ok(Answer::Inos { first, .. }) = world.call(b, Op::Control(Control::GrantInos { count: 8 })) else {
        panic!("not given")
    };
    crash(&mut world, a);
    world.resume(b);
    let opens = vec![(7, ino, WRITE, Lease::CACHE | Lease::BUFFER)];
    world.reclaim(b, Reclaim { opens, ..Reclaim::default() });
    world.wait_alive(500);
    assert_eq!(search(&mut world, &[ino, first]), []);
    assert_eq!(world.lists_done, 1);
    // When its session has ended nobody will use the numbers.
    world.call(b, close(7)).expect("open");
    world.message(b, loligo_types::msg::ToServer::Goodbye { gone: true });
    let c = world.client();
    world.lookup(c, Ino::ROOT, "f").expect("there");
    assert_eq!(search(&mut world, &[first]), [(first, 0)]);
}

/// Its owner has data under numbers of which the rank knows no inode, and of files that are inline at the rank.
#[test]
fn nothing_is_dropped_while_a_subtree_is_decoupled() {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    let dir = world.mkdir(b, Ino::ROOT, "d").ino;
    let inside = world.create(b, dir, "small", WRITE, 2).ino;
    let removed = made(&mut world, b, "r", 1);
    world.call(b, close(1)).expect("open");
    world.call(b, close(2)).expect("open");
    world.call(b, unlink(Ino::ROOT, "r")).expect("there");
    let what = SubtreeOp::Decouple {
        owner: 1,
        resume: 0,
        inos: 10,
        lease_ms: 60_000,
        interfere: loligo_types::Interfere::Block,
        promise: Promise::NONE,
    };
    world.call(b, Op::Control(Control::Subtree { dir, what: Box::new(what) })).expect("decoupled");
    crash(&mut world, a);
    world.resume(b);
    world.reclaim(b, Reclaim::default());
    world.wait_alive(500);
    assert_eq!(search(&mut world, &[removed, inside]), []);
    assert_eq!((world.lists_done, world.strays_left_open), (1, true), "they are to be searched once more");
    assert_eq!(world.owners_lost, 0);
    world.disconnect(b);
    world.wait_alive(600_000);
    assert_eq!(world.owners_lost, 1);
    assert_eq!(search(&mut world, &[removed, inside]), [(inside, 0), (removed, 0)]);
    assert_eq!((world.lists_done, world.strays_left_open), (2, false));
}

/// Another one may have the decoupled subtree that a file is in, or the inode itself.
#[test]
fn nothing_is_dropped_where_there_are_several_ranks() {
    let (mut cluster, client, here, _) = super::cluster_harness::two_ranks();
    let made = cluster.call(client, create(here, "small", WRITE, 7)).expect("it is made");
    let ino = made.attr().expect("it has attributes").ino;
    cluster.call(client, close(7)).expect("it is open");
    cluster.at(0, |world| {
        world.mds.strays.begin(Ino(u64::MAX));
        assert_eq!(search(world, &[ino, Ino(ino.0 + 1)]), []);
        assert_eq!(world.lists_done, 1);
    });
}

#[test]
fn the_search_waits_for_the_sessions_of_before() {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    let ino = made(&mut world, a, "f", 1);
    world.crash();
    world.resume(b);
    world.reclaim(b, Reclaim::default());
    assert_eq!(search(&mut world, &[ino]), [], "the one that has it open may come back");
    assert_eq!(world.lists_done, 0);
    let session = world.session(a);
    world.clients[a].closed = true;
    world.input(Input::PeerDead { session });
    world.wait_alive(500);
    assert_eq!(Vec::from(world.pending_discards.clone()), [(ino, 0)]);
    assert_eq!(world.lists_done, 1);
}
