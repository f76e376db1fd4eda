//! Appends of several writers: room at the end of a file is reserved, written, and seen when it is told of.

use loligo_types::{Answer, FsError, FsResult, Ino, Lease, Op, OpenFlags, SetTime};

use super::*;

fn extend(ino: Ino, len: u64) -> Op {
    Op::Extend { ino, handle: 1, len }
}

fn write_at(ino: Ino, cuts: u32, from: u64, to: u64) -> Op {
    let (grow_to, behind, mtime) = (Some(to), Some(from), SetTime::Now);
    Op::SetData { ino, handle: 1, cuts, grow_to, behind, mtime, spilled: false, kill_priv: false, patches: None }
}

/// A file of 100 bytes in objects that some clients have open for writing, and of which it is known what lies behind the end.
fn file(writers: usize) -> (World, Vec<usize>, Ino) {
    file_with(config(), writers)
}

fn file_with(config: crate::Config, writers: usize) -> (World, Vec<usize>, Ino) {
    let mut world = World::with(config);
    let clients: Vec<usize> = (0..writers).map(|_| world.client()).collect();
    let ino = world.create(clients[0], Ino::ROOT, "f", WRITE, 1).ino;
    assert_eq!(size(world.call(clients[0], set_data(ino, 1, 0, 90, true))), 90);
    for at in &clients[1..] {
        world.open(*at, ino, WRITE, 1);
    }
    append(&mut world, clients[0], ino, 90, 10);
    (world, clients, ino)
}

fn append(world: &mut World, at: usize, ino: Ino, from: u64, len: u64) {
    assert_eq!(world.call(at, extend(ino, len)), Ok(Answer::Offset(from)));
    tell(world, at, ino, from + len);
}

fn tell(world: &mut World, at: usize, ino: Ino, to: u64) {
    let cuts = cuts(world, ino);
    assert_eq!(size(world.call(at, set_data(ino, 1, cuts, to, false))), to);
}

fn cuts(world: &World, ino: Ino) -> u32 {
    world.mds.core.tree.inode(ino).expect("it is in memory").cuts
}

fn length(world: &World, ino: Ino) -> u64 {
    world.mds.core.tree.inode(ino).expect("it is in memory").size
}

fn told(world: &mut World, at: usize, seq: loligo_types::Seq) -> Option<FsResult<Answer>> {
    world.reply(at, seq).map(|(result, _)| result)
}

#[test]
fn nobody_sees_an_append_before_it_is_told_of() {
    let (mut world, clients, ino) = file(2);
    assert_eq!(world.call(clients[0], extend(ino, 10)), Ok(Answer::Offset(100)));
    assert_eq!(size(world.call(clients[1], Op::GetAttr { ino })), 100);
    tell(&mut world, clients[0], ino, 110);
    assert_eq!(size(world.call(clients[1], Op::GetAttr { ino })), 110);
}

#[test]
fn room_is_reserved_without_waiting_for_the_journal() {
    let (mut world, clients, ino) = file(2);
    world.syncs = false;
    let made = world.send(clients[1], mkdir(Ino::ROOT, "d"));
    let seq = world.send(clients[0], extend(ino, 10));
    assert_eq!(told(&mut world, clients[0], seq), Some(Ok(Answer::Offset(100))));
    assert_eq!(told(&mut world, clients[1], made), None);
}

#[test]
fn appends_become_visible_in_the_order_in_which_they_lie() {
    let (mut world, clients, ino) = file(3);
    let known = cuts(&world, ino);
    for (at, len, start) in [(0, 10, 100), (1, 5, 110), (2, 20, 115)] {
        assert_eq!(world.call(clients[at], extend(ino, len)), Ok(Answer::Offset(start)));
    }
    let last = world.send(clients[2], set_data(ino, 1, known, 135, false));
    let middle = world.send(clients[1], set_data(ino, 1, known, 115, false));
    assert_eq!((told(&mut world, clients[1], middle), told(&mut world, clients[2], last)), (None, None));
    assert_eq!(length(&world, ino), 100);
    tell(&mut world, clients[0], ino, 110);
    assert_eq!(told(&mut world, clients[1], middle).map(size), Some(115));
    assert_eq!(told(&mut world, clients[2], last).map(size), Some(135));
    append(&mut world, clients[1], ino, 135, 1);
}

#[test]
fn what_lies_behind_room_that_is_given_up_is_written_again_elsewhere() {
    let (mut world, clients, ino) = file(4);
    let known = cuts(&world, ino);
    for (at, start) in [(0, 100), (1, 110), (2, 120)] {
        assert_eq!(world.call(clients[at], extend(ino, 10)), Ok(Answer::Offset(start)));
    }
    // The store was full.
    world.call(clients[1], extend(ino, 0)).expect("it may");
    // The last one may be writing still: nobody else is to write there.
    let other = world.send(clients[3], extend(ino, 1));
    assert_eq!(told(&mut world, clients[3], other), None);
    tell(&mut world, clients[0], ino, 110);
    assert_eq!(told(&mut world, clients[3], other), None);
    world.discards = false;
    assert_eq!(world.call(clients[2], set_data(ino, 1, known, 130, false)), Err(FsError::Stale));
    assert_eq!(world.pending_discards.front(), Some(&(ino, 110)), "what they have left");
    assert_eq!(told(&mut world, clients[3], other), None);
    world.discards = true;
    world.pump();
    assert_eq!(told(&mut world, clients[3], other), Some(Ok(Answer::Offset(110))));
    tell(&mut world, clients[3], ino, 111);
    append(&mut world, clients[2], ino, 111, 10);
}

#[test]
fn room_of_a_session_that_ends_is_given_up() {
    for closes in [true, false] {
        let (mut world, clients, ino) = file(2);
        let known = cuts(&world, ino);
        assert_eq!(world.call(clients[0], extend(ino, 10)), Ok(Answer::Offset(100)));
        assert_eq!(world.call(clients[1], extend(ino, 10)), Ok(Answer::Offset(110)));
        let seq = world.send(clients[1], set_data(ino, 1, known, 120, false));
        assert_eq!(told(&mut world, clients[1], seq), None);
        if closes {
            world.call(clients[0], close(1)).expect("it is open");
        } else {
            world.disconnect(clients[0]);
            world.wait_alive(1500);
        }
        assert_eq!(told(&mut world, clients[1], seq), Some(Err(FsError::Stale)));
        append(&mut world, clients[1], ino, 100, 10);
    }
}

#[test]
fn a_client_that_reserves_anew_has_given_up_what_it_had() {
    let (mut world, clients, ino) = file(2);
    assert_eq!(world.call(clients[0], extend(ino, 10)), Ok(Answer::Offset(100)));
    append(&mut world, clients[0], ino, 100, 20);
    append(&mut world, clients[1], ino, 120, 20);
}

#[test]
fn a_cut_waits_for_appends_that_are_under_way_and_holds_up_others() {
    let (mut world, clients, ino) = file(3);
    for cut in [truncate(ino, 5), Op::Open { ino, flags: OpenFlags { truncate: true, ..WRITE }, handle: 2 }] {
        let from = length(&world, ino);
        assert_eq!(world.call(clients[0], extend(ino, 10)), Ok(Answer::Offset(from)));
        let cut = world.send(clients[1], cut);
        let later = world.send(clients[2], extend(ino, 10));
        assert_eq!((told(&mut world, clients[1], cut), told(&mut world, clients[2], later)), (None, None));
        tell(&mut world, clients[0], ino, from + 10);
        let Some(Ok(Answer::Entry(attr) | Answer::Opened { attr, .. })) = told(&mut world, clients[1], cut) else {
            panic!("not cut")
        };
        assert_eq!(told(&mut world, clients[2], later), Some(Ok(Answer::Offset(attr.size))));
        tell(&mut world, clients[2], ino, attr.size + 10);
    }
}

#[test]
fn a_cut_by_name_waits_for_appends_too() {
    let (mut world, clients, ino) = file(2);
    assert_eq!(world.call(clients[0], extend(ino, 10)), Ok(Answer::Offset(100)));
    let cut = world.send(clients[1], create(Ino::ROOT, "f", OpenFlags { truncate: true, ..WRITE }, 2));
    assert_eq!(told(&mut world, clients[1], cut), None);
    tell(&mut world, clients[0], ino, 110);
    assert!(told(&mut world, clients[1], cut).is_some_and(|result| result.is_ok()));
    assert_eq!(length(&world, ino), 0);
}

#[test]
fn a_write_at_an_offset_does_not_make_the_file_reach_over_room_that_is_not_written() {
    let (mut world, clients, ino) = file(3);
    let known = cuts(&world, ino);
    assert_eq!(world.call(clients[0], extend(ino, 10)), Ok(Answer::Offset(100)));
    let over = world.send(clients[1], write_at(ino, known, 105, 108));
    let behind = world.send(clients[2], write_at(ino, known, 500, 510));
    assert_eq!((told(&mut world, clients[1], over), told(&mut world, clients[2], behind)), (None, None));
    tell(&mut world, clients[0], ino, 110);
    // The append may have come over what it wrote.
    assert_eq!(told(&mut world, clients[1], over), Some(Err(FsError::Stale)));
    assert_eq!(told(&mut world, clients[2], behind).map(size), Some(510));
    assert_eq!(size(world.call(clients[1], write_at(ino, known, 510, 510))), 510);
}

#[test]
fn a_write_behind_the_end_is_done_again_if_an_append_was_told_of_meanwhile() {
    let (mut world, clients, ino) = file(2);
    let known = cuts(&world, ino);
    append(&mut world, clients[0], ino, 100, 10);
    for (from, to) in [(109, 112), (100, 101)] {
        assert_eq!(world.call(clients[1], write_at(ino, known, from, to)), Err(FsError::Stale));
    }
    assert_eq!(size(world.call(clients[1], write_at(ino, known, 110, 112))), 112);
    // Growth by others at an offset is nobody's loss.
    assert_eq!(size(world.call(clients[0], write_at(ino, known, 120, 130))), 130);
    assert_eq!(size(world.call(clients[1], write_at(ino, known, 112, 115))), 130);
}

#[test]
fn after_a_restart_no_room_is_known_and_whoever_had_some_is_refused() {
    let (mut world, clients, ino) = file(2);
    let known = cuts(&world, ino);
    assert_eq!(world.call(clients[0], extend(ino, 10)), Ok(Answer::Offset(100)));
    assert_eq!(world.call(clients[1], extend(ino, 10)), Ok(Answer::Offset(110)));
    world.crash();
    for at in &clients {
        world.resume(*at);
        let opens = vec![(1, ino, WRITE, Lease::NONE)];
        world.reclaim(*at, loligo_types::msg::Reclaim { opens, ..Default::default() });
    }
    assert_eq!(world.call(clients[1], set_data(ino, 1, known, 120, false)), Err(FsError::Stale));
    assert_eq!(world.call(clients[1], extend(ino, 5)), Ok(Answer::Offset(100)));
    assert_eq!(world.call(clients[0], set_data(ino, 1, known, 110, false)), Err(FsError::Stale));
    tell(&mut world, clients[1], ino, 105);
    append(&mut world, clients[0], ino, 105, 10);
}

/// Its connection lives, and its client does not go on.
#[test]
fn who_holds_up_others_with_room_is_evicted_as_who_does_not_obey() {
    let (mut world, clients, ino) = file_with(crate::Config { recall_ms: 100, ..config() }, 3);
    let known = cuts(&world, ino);
    assert_eq!(world.call(clients[0], extend(ino, 10)), Ok(Answer::Offset(100)));
    world.wait_alive(3000);
    assert_eq!(world.mds.status().evicted, 0, "nobody waits");
    assert_eq!(world.call(clients[1], extend(ino, 10)), Ok(Answer::Offset(110)));
    let seq = world.send(clients[1], set_data(ino, 1, known, 120, false));
    world.wait_alive(3000);
    assert_eq!(world.mds.status().evicted, 1);
    assert_eq!(told(&mut world, clients[1], seq), Some(Err(FsError::Stale)));
    append(&mut world, clients[1], ino, 100, 10);
    append(&mut world, clients[2], ino, 110, 10);
}

#[test]
fn who_may_not_write_reserves_nothing() {
    let (mut world, clients, ino) = file(2);
    let reader = world.client();
    world.open(reader, ino, READ, 1);
    assert_eq!(world.call(reader, extend(ino, 10)), Err(FsError::BadHandle));
    assert_eq!(world.call(clients[1], extend(ino, u64::MAX >> 1)), Err(FsError::FileTooBig));
    append(&mut world, clients[1], ino, 100, 10);
}
