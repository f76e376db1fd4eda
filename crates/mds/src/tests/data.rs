//! Rights on file data, flushes, cuts and spills.

use loligo_types::{Answer, Control, FsError, Ino, Lease, Op};

use super::*;
use crate::{DataAccess, Input};

const ALL: Lease = Lease(Lease::CACHE.0 | Lease::BUFFER.0);

fn file() -> (World, usize, usize, Ino) {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    let ino = world.create(a, Ino::ROOT, "f", WRITE, 1).ino;
    (world, a, b, ino)
}

/// Makes the file one of objects, of this size, as a client with BUFFER would.
fn spill(world: &mut World, at: usize, ino: Ino, handle: u64, to: u64) {
    let attr = world.lookup(at, Ino::ROOT, "f").expect("it is there");
    assert_eq!(size(world.call(at, set_data(ino, handle, attr.cuts, to, true))), to);
}

#[test]
fn the_only_one_that_has_it_open_may_hold_back() {
    let mut world = World::new();
    let a = world.client();
    let Ok(Answer::Opened { attr, created, rights, .. }) = world.call(a, create(Ino::ROOT, "f", WRITE, 1)) else {
        panic!("not made")
    };
    assert_eq!((created, rights), (true, ALL));
    assert_eq!(world.access.get(&(world.session(a), attr.ino)), Some(&DataAccess::Write));
    world.call(a, close(1)).expect("it is open");
    assert_eq!(world.access.get(&(world.session(a), attr.ino)), Some(&DataAccess::None));
    assert_eq!(world.open(a, attr.ino, READ, 2).1, Lease::CACHE);
}

#[test]
fn readers_share_and_a_writer_ends_it() {
    let (mut world, a, b, ino) = file();
    world.call(a, close(1)).expect("it is open");
    assert_eq!(world.open(a, ino, READ, 2).1, Lease::CACHE);
    assert_eq!(world.open(b, ino, READ, 1).1, Lease::CACHE);
    world.clients[a].obeys = false;
    let seq = world.send(b, Op::Open { ino, flags: WRITE, handle: 2 });
    assert_eq!(world.reply(b, seq), None);
    assert!(world.clients[a].recalls.iter().any(|(i, _, bits)| *i == ino && bits.has(Lease::CACHE)));
    world.clients[a].obeys = true;
    world.pump();
    let Some((Ok(Answer::Opened { rights, .. }), _)) = world.reply(b, seq) else { panic!("not opened") };
    // What it had it keeps: nobody else writes. It may hold nothing back.
    assert_eq!(rights, Lease::CACHE);
    let (_, rights) = world.open(a, ino, WRITE, 3);
    assert_eq!(rights, Lease::NONE);
    assert_eq!(world.mds.opens.rights(ino, crate::session::Slot(1)), Lease::NONE);
}

#[test]
fn a_second_open_waits_for_the_flush_and_sees_it() {
    let (mut world, a, b, ino) = file();
    world.clients[a].obeys = false;
    let seq = world.send(b, Op::Open { ino, flags: READ, handle: 1 });
    assert_eq!(world.reply(b, seq), None);
    let (_, id, bits) = world.clients[a].recalls[0];
    assert!(bits.has(ALL));
    // The holder writes back, though somebody waits for the file.
    assert_eq!(size(world.call(a, write_inline(ino, 1, 0, b"hello"))), 5);
    assert_eq!(world.reply(b, seq), None);
    world.message(a, loligo_types::msg::ToServer::RecallDone { ino, id });
    let Some((Ok(Answer::Opened { attr, rights, data, .. }), _)) = world.reply(b, seq) else { panic!("not opened") };
    assert_eq!((attr.size, rights, data.as_deref()), (5, Lease::NONE, Some(&b"hello"[..])));
}

#[test]
fn a_lazily_closed_file_is_given_up_when_asked_for() {
    let (mut world, a, b, ino) = file();
    world.clients[a].obeys = false;
    let seq = world.send(b, Op::Open { ino, flags: WRITE, handle: 1 });
    world.call(a, close(1)).expect("it was open");
    world.clients[a].obeys = true;
    world.pump();
    let Some((Ok(Answer::Opened { rights, .. }), _)) = world.reply(b, seq) else { panic!("not opened") };
    assert_eq!(rights, ALL);
}

#[test]
fn a_reader_of_attributes_makes_the_holder_flush_and_keep() {
    let (mut world, a, b, ino) = file();
    world.clients[a].obeys = false;
    let seq = world.send(b, Op::GetAttr { ino });
    assert_eq!(world.reply(b, seq), None);
    assert_eq!(world.clients[a].recalls[0].2, Lease::FLUSH);
    assert_eq!(size(world.call(a, write_inline(ino, 1, 0, b"hello"))), 5);
    world.clients[a].obeys = true;
    world.pump();
    let (answer, granted) = world.reply(b, seq).expect("it was flushed");
    assert_eq!((size(answer), granted), (5, vec![]));
    // Each reader asks anew: the holder may have written since.
    world.clients[a].obeys = false;
    let seq = world.send(b, Op::Lookup { dir: Ino::ROOT, name: name("f") });
    assert_eq!(world.reply(b, seq), None);
    let second = world.send(b, Op::GetAttr { ino });
    assert_eq!(world.clients[a].recalls.len(), 2);
    world.clients[a].obeys = true;
    world.pump();
    assert!(world.reply(b, seq).is_some() && world.reply(b, second).is_some());
    assert!(world.mds.opens.rights(ino, crate::session::Slot(0)).has(Lease::BUFFER));
}

#[test]
fn another_ones_chmod_ends_what_is_cached_under_buffer() {
    let (mut world, a, b, ino) = file();
    world.clients[a].obeys = false;
    let seq = world.send(b, chmod(ino, 0o600));
    assert_eq!(world.reply(b, seq), None);
    assert!(world.clients[a].recalls[0].2.has(Lease::BUFFER | Lease::ATTR));
    world.clients[a].obeys = true;
    world.pump();
    assert!(world.reply(b, seq).is_some());
}

#[test]
fn rights_are_not_given_with_an_answer_that_is_old_already() {
    let (mut world, a, b, ino) = file();
    world.call(a, close(1)).expect("it is open");
    world.syncs = false;
    world.send(a, mkdir(Ino::ROOT, "x"));
    let opened = world.send(a, Op::Open { ino, flags: READ, handle: 2 });
    let cut = world.send(b, truncate(ino, 100));
    world.syncs = true;
    world.pump();
    let Some((Ok(Answer::Opened { rights, data, .. }), _)) = world.reply(a, opened) else { panic!("not opened") };
    assert_eq!((rights, data), (Lease::NONE, None));
    assert!(world.reply(b, cut).is_some());
}

#[test]
fn a_cut_is_answered_after_the_objects_are_dropped() {
    let (mut world, a, b, ino) = file();
    spill(&mut world, a, ino, 1, 100_000);
    let cuts = world.lookup(a, Ino::ROOT, "f").expect("it is there").cuts + 1;
    world.discards = false;
    let seq = world.send(b, truncate(ino, 10));
    assert_eq!(world.pending_discards.front(), Some(&(ino, 10)));
    assert_eq!(world.reply(b, seq), None);
    // Whoever would see the file as it is after the cut waits, and so does the next change of the data.
    let seen = world.send(a, Op::GetAttr { ino });
    assert_eq!(world.reply(a, seen), None);
    let grow = world.send(a, set_data(ino, 1, cuts, 50, false));
    assert_eq!(world.reply(a, grow), None);
    world.discards = true;
    world.pump();
    let (answer, _) = world.reply(b, seq).expect("it is dropped");
    assert_eq!(size(answer), 10);
    assert_eq!(size(world.reply(a, seen).expect("it may be seen").0), 10);
    assert_eq!(size(world.reply(a, grow).expect("it may go on").0), 50);
    assert_eq!(world.mds.status().discards, 0);
}

#[test]
fn what_was_written_before_a_cut_is_refused_after_it() {
    let (mut world, a, b, ino) = file();
    spill(&mut world, a, ino, 1, 100_000);
    let cuts = world.lookup(a, Ino::ROOT, "f").expect("it is there").cuts;
    world.call(b, truncate(ino, 10)).expect("it may");
    assert_eq!(world.call(a, set_data(ino, 1, cuts, 200_000, false)), Err(FsError::Stale));
}

#[test]
fn a_write_of_several_that_outgrows_the_inode_is_spilled_by_the_server() {
    let (mut world, a, b, ino) = file();
    world.open(b, ino, WRITE, 1);
    world.call(a, write_inline(ino, 1, 0, b"some bytes")).expect("it fits");
    let seq = world.send(a, write_inline(ino, 1, 10, &[1; 5000]));
    let other = world.send(b, write_inline(ino, 1, 0, b"x"));
    assert_eq!(world.reply(a, seq), None);
    assert_eq!(world.reply(b, other), None);
    assert_eq!(world.spills.len(), 1);
    assert_eq!(&*world.spills[0].1, b"some bytes");
    world.input(Input::Spilled { ino, ok: true });
    assert_eq!(world.reply(a, seq).map(|(result, _)| result), Some(Err(FsError::Busy)));
    assert_eq!(world.reply(b, other).map(|(result, _)| result), Some(Err(FsError::Busy)));
    let attr = world.lookup(a, Ino::ROOT, "f").expect("it is there");
    assert_eq!((attr.inline, attr.size), (false, 10));
}

#[test]
fn a_spill_that_fails_is_told() {
    let (mut world, a, b, ino) = file();
    world.open(b, ino, WRITE, 1);
    let seq = world.send(a, write_inline(ino, 1, 0, &[1; 5000]));
    world.input(Input::Spilled { ino, ok: false });
    assert_eq!(world.reply(a, seq).map(|(result, _)| result), Some(Err(FsError::NoSpace)));
    assert_eq!(size(world.call(b, write_inline(ino, 1, 0, b"x"))), 1);
}

#[test]
fn the_holder_of_buffer_spills_itself() {
    let (mut world, a, _, ino) = file();
    assert_eq!(world.call(a, write_inline(ino, 1, 0, &[1; 5000])), Err(FsError::Busy));
    assert!(world.spills.is_empty());
}

#[test]
fn an_open_file_lives_on_without_a_name_until_its_last_close() {
    let (mut world, a, b, ino) = file();
    spill(&mut world, a, ino, 1, 100_000);
    world.open(b, ino, READ, 1);
    world.call(b, unlink(Ino::ROOT, "f")).expect("it is there");
    assert_eq!(world.mds.status().orphans, 1);
    world.call(a, close(1)).expect("it is open");
    assert_eq!(size(world.call(b, Op::GetAttr { ino })), 100_000);
    world.discards = false;
    world.call(b, close(1)).expect("it is open");
    assert_eq!(world.mds.status().orphans, 0);
    assert_eq!(world.pending_discards.front(), Some(&(ino, 0)));
    assert_eq!(world.call(b, Op::GetAttr { ino }), Err(FsError::Stale));
}

#[test]
fn an_open_directory_lives_on_empty() {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    let dir = world.mkdir(a, Ino::ROOT, "d").ino;
    world.open(a, dir, READ, 1);
    world.call(b, Op::Rmdir { dir: Ino::ROOT, name: name("d") }).expect("it is empty");
    let op = Op::Readdir { dir, cookie: 0, limit: 10, plus: false, handle: Some(1) };
    assert_eq!(world.call(a, op), Ok(Answer::Entries { entries: vec![], next: u64::MAX >> 1, end: true }));
    world.call(a, close(1)).expect("it is open");
    assert_eq!(world.mds.status().orphans, 0);
    assert_eq!(world.call(a, Op::GetAttr { ino: dir }), Err(FsError::Stale));
}

#[test]
fn handles_are_checked() {
    let (mut world, a, b, ino) = file();
    assert_eq!(world.call(b, write_inline(ino, 1, 0, b"x")), Err(FsError::BadHandle));
    assert_eq!(world.call(a, write_inline(Ino::ROOT, 1, 0, b"x")), Err(FsError::BadHandle));
    world.call(a, close(1)).expect("it is open");
    assert_eq!(world.call(a, close(1)), Ok(Answer::Done));
    assert_eq!(world.call(a, write_inline(ino, 1, 0, b"x")), Err(FsError::BadHandle));
}

#[test]
fn a_sync_is_answered_when_all_data_is_durable() {
    let (mut world, a, b, _) = file();
    let first = world.send(a, Op::Control(Control::Sync));
    assert_eq!((world.reply(a, first), &world.data_syncs[..]), (None, &[1][..]));
    // What was answered meanwhile may not be in that one.
    let second = world.send(b, Op::Control(Control::Sync));
    let third = world.send(a, Op::Control(Control::Sync));
    assert_eq!(world.data_syncs, [1]);
    world.input(Input::DataSynced { ticket: 1, ok: true });
    assert_eq!(world.reply(a, first), Some((Ok(Answer::Done), vec![])));
    assert_eq!((world.reply(b, second), &world.data_syncs[..]), (None, &[1, 2][..]));
    world.input(Input::DataSynced { ticket: 2, ok: false });
    assert_eq!(world.reply(b, second), Some((Err(FsError::Io), vec![])));
    assert_eq!(world.reply(a, third), Some((Err(FsError::Io), vec![])));
    assert_eq!(world.data_syncs, [1, 2]);
}

fn cuts(world: &mut World, at: usize) -> u32 {
    world.lookup(at, Ino::ROOT, "f").expect("it is there").cuts
}

#[test]
fn the_first_growth_by_several_writers_drops_what_an_earlier_one_left_beyond_the_end() {
    let (mut world, a, b, ino) = file();
    spill(&mut world, a, ino, 1, 100);
    assert_eq!(world.open(b, ino, WRITE, 1).1, Lease::NONE);
    let known = cuts(&mut world, a);
    world.discards = false;
    let told = world.send(a, set_data(ino, 1, known, 200, false));
    assert_eq!((world.reply(a, told), world.pending_discards.front()), (None, Some(&(ino, 100))));
    world.discards = true;
    world.pump();
    // What it wrote beyond the end went with the rest: it must write again.
    assert_eq!(world.reply(a, told).map(|(answer, _)| answer), Some(Err(FsError::Stale)));
    let known = cuts(&mut world, a);
    world.discards = false;
    assert_eq!(size(world.call(a, set_data(ino, 1, known, 200, false))), 200);
    assert_eq!(size(world.call(b, set_data(ino, 1, known, 300, false))), 300);
    let extend = |len| Op::Extend { ino, handle: 1, len };
    assert_eq!(world.call(b, extend(10)), Ok(Answer::Offset(300)));
    assert!(world.pending_discards.is_empty());
}

#[test]
fn when_a_writer_dies_what_it_left_is_dropped_and_what_others_have_not_told_of_is_refused() {
    let (mut world, a, b, ino) = file();
    spill(&mut world, a, ino, 1, 100);
    world.open(b, ino, WRITE, 1);
    let c = world.client();
    world.open(c, ino, WRITE, 1);
    let extend = |len| Op::Extend { ino, handle: 1, len };
    assert_eq!(world.call(a, extend(10)), Ok(Answer::Offset(100)));
    let known = cuts(&mut world, a);
    assert_eq!(size(world.call(a, set_data(ino, 1, known, 110, false))), 110);
    world.discards = false;
    world.disconnect(c);
    world.wait_alive(1500);
    assert_eq!(world.mds.status().sessions.len(), 2);
    assert_eq!(Vec::from(world.pending_discards.clone()), [(ino, 110)]);
    world.discards = true;
    world.pump();
    assert_eq!(world.call(a, set_data(ino, 1, known, 200, false)), Err(FsError::Stale));
    // Nothing is dropped again.
    world.discards = false;
    assert_eq!(world.call(b, extend(10)), Ok(Answer::Offset(110)));
    assert!(world.pending_discards.is_empty());
}

/// A writer writes behind the end before without looking at what lies there.
#[test]
fn a_writer_that_comes_to_be_alone_does_not_grow_over_what_a_dead_one_left() {
    let (mut world, a, b, ino) = file();
    spill(&mut world, a, ino, 1, 100);
    world.open(b, ino, WRITE, 1);
    let known = cuts(&mut world, a);
    world.disconnect(b);
    world.wait_alive(1500);
    assert!(world.open(a, ino, WRITE, 2).1.has(Lease::CACHE), "it is alone now");
    assert_eq!(world.call(a, set_data(ino, 1, known, 300, false)), Err(FsError::Stale));
}

/// It may be writing behind the end at this moment, also in the store by itself.
#[test]
fn what_a_client_holds_that_has_the_file_alone_is_not_cut_when_a_handle_that_it_lost_is_closed() {
    let (mut world, a, _, ino) = file();
    spill(&mut world, a, ino, 1, 100);
    assert_eq!(world.open(a, ino, WRITE, 2).1, ALL);
    let known = cuts(&mut world, a);
    world.discards = false;
    world.call(a, Op::Control(Control::Close { handles: vec![1], lost: true })).expect("a close never fails");
    world.wait_alive(500);
    assert_eq!(size(world.call(a, set_data(ino, 2, known, 200, false))), 200);
    assert!(world.pending_discards.is_empty());
}

#[test]
fn a_writer_that_is_alone_drops_what_lies_beyond_the_end_itself() {
    let (mut world, a, _, ino) = file();
    spill(&mut world, a, ino, 1, 100);
    world.discards = false;
    let known = cuts(&mut world, a);
    assert_eq!(size(world.call(a, set_data(ino, 1, known, 200, false))), 200);
    assert!(world.pending_discards.is_empty());
}

#[test]
fn after_a_restart_nobody_is_sure_what_lies_beyond_the_end() {
    let (mut world, a, b, ino) = file();
    spill(&mut world, a, ino, 1, 100);
    world.open(b, ino, WRITE, 1);
    let extend = |len| Op::Extend { ino, handle: 1, len };
    assert_eq!(world.call(a, extend(10)), Ok(Answer::Offset(100)));
    assert_eq!(size(world.call(a, set_data(ino, 1, 0, 110, false))), 110);
    world.crash();
    for at in [a, b] {
        world.resume(at);
        let opens = vec![(1, ino, WRITE, Lease::NONE)];
        world.reclaim(at, loligo_types::msg::Reclaim { opens, ..Default::default() });
    }
    world.discards = false;
    let told = world.send(b, extend(10));
    assert_eq!((world.reply(b, told), world.pending_discards.front()), (None, Some(&(ino, 110))));
    world.discards = true;
    world.pump();
    assert_eq!(world.reply(b, told).map(|(answer, _)| answer), Some(Ok(Answer::Offset(110))));
}

#[test]
fn what_a_dead_writer_left_is_dropped_when_nobody_else_writes() {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    // One died while it moved a file to objects, the other one while it wrote beyond the end.
    let inline = world.create(a, Ino::ROOT, "f", WRITE, 1).ino;
    let long = world.create(a, Ino::ROOT, "g", WRITE, 2).ino;
    let shared = world.create(a, Ino::ROOT, "h", WRITE, 3).ino;
    let read = world.create(b, Ino::ROOT, "i", WRITE, 4).ino;
    world.call(a, write_inline(inline, 1, 0, b"some bytes")).expect("it fits");
    assert_eq!(size(world.call(a, set_data(long, 2, 0, 100, true))), 100);
    world.open(b, shared, WRITE, 3);
    world.call(b, close(4)).expect("it is open");
    world.open(a, read, READ, 4);
    world.discards = false;
    world.disconnect(a);
    world.wait_alive(1500);
    assert_eq!(world.mds.status().sessions.len(), 1);
    assert_eq!(Vec::from(world.pending_discards.clone()), [(inline, 0), (long, 100)]);
    // Who opens it now is told when that is done.
    let seq = world.send(b, Op::Open { ino: inline, flags: WRITE, handle: 5 });
    assert_eq!(world.reply(b, seq), None);
    world.discards = true;
    world.pump();
    let Some((Ok(Answer::Opened { attr, .. }), _)) = world.reply(b, seq) else { panic!("not opened") };
    assert_eq!((attr.size, attr.inline), (10, true));
    assert_eq!(world.mds.status().discards, 0);
}

#[test]
fn what_a_client_left_that_lost_its_handle_is_dropped_when_that_is_closed() {
    for lost in [false, true] {
        let mut world = World::new();
        let a = world.client();
        let ino = world.create(a, Ino::ROOT, "f", WRITE, 1).ino;
        world.call(a, unlink(Ino::ROOT, "f")).expect("it may");
        world.discards = false;
        world.call(a, Op::Control(Control::Close { handles: vec![1, 7], lost })).expect("a close never fails");
        world.wait(500);
        assert_eq!(world.mds.status().orphans, 0);
        // It was still held in its inode, which says nothing of objects.
        let dropped: &[(Ino, u64)] = if lost { &[(ino, 0)] } else { &[] };
        assert_eq!(Vec::from(world.pending_discards.clone()), dropped);
    }
}

#[test]
fn a_client_that_goes_in_order_left_nothing() {
    let (mut world, a, b, _) = file();
    world.discards = false;
    world.message(a, loligo_types::msg::ToServer::Goodbye { gone: false });
    for _ in 0..5 {
        world.message(b, loligo_types::msg::ToServer::Ping);
        world.wait(100);
    }
    assert!(world.pending_discards.is_empty());
}

#[test]
fn objects_that_a_dead_client_made_of_an_unlinked_file_are_dropped_too() {
    // Nothing stays in memory, so that the inode is read for its end first.
    let mut world = World::with(crate::Config { cache_bytes_max: 1, dirty_max: 1, ..config() });
    let (a, b) = (world.client(), world.client());
    let ino = world.create(a, Ino::ROOT, "f", WRITE, 1).ino;
    world.call(b, unlink(Ino::ROOT, "f")).expect("it may");
    world.wait_alive(500);
    assert!(matches!(world.mds.core.tree.find(ino), loligo_namespace::Found::Unknown));
    world.discards = false;
    world.disconnect(a);
    world.wait_alive(1500);
    assert_eq!(world.mds.status().orphans, 0);
    // It was still held in its inode, which says nothing of objects.
    assert_eq!(Vec::from(world.pending_discards.clone()), [(ino, 0)]);
    world.discards = true;
    world.pump();
    world.wait_alive(200);
    assert_eq!(world.mds.status().discards, 0);
}
