//! Small changes of data held in an inode: the journal has the change, and after a crash the data is there.

use loligo_journal::{Record, decode_record};
use loligo_types::{Event, FsError, Ino, Op, SetTime};

use super::*;
use crate::Config;

const HANDLE: u64 = 1;

fn world() -> World {
    World::with(Config { inline_max: 16 << 10, ..config() })
}

/// Data that differs everywhere.
fn text(len: usize, from: usize) -> Vec<u8> {
    (from..from + len).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn last_record(world: &World) -> (usize, Record) {
    let (_, bytes) = world.journal.last_key_value().expect("there are records");
    (bytes.len(), decode_record(bytes).expect("it was encoded"))
}

fn is_short(world: &World) -> bool {
    last_record(world).1.events.iter().any(|event| matches!(event, Event::InlinePatch(_)))
}

fn write(world: &mut World, at: usize, ino: Ino, offset: u64, data: &[u8]) {
    world.call(at, write_inline(ino, HANDLE, offset, data)).expect("it is open for writing");
}

fn content(world: &mut World, at: usize, ino: Ino) -> Vec<u8> {
    let open = world.call(at, Op::Open { ino, flags: WRITE, handle: 77 });
    open.expect("it is there");
    let Ok(Answer::Bytes(data)) = world.call(at, Op::ReadInline { ino, handle: 77 }) else { panic!("not held in it") };
    world.call(at, close(77)).expect("it is open");
    data.to_vec()
}

/// A crash; whoever was there comes back.
fn crash(world: &mut World, at: usize) {
    world.crash();
    world.resume(at);
}

#[test]
fn an_append_of_128_bytes_to_6_kb_adds_less_than_400_bytes_to_the_journal() {
    let mut world = world();
    let a = world.client();
    let ino = world.create(a, Ino::ROOT, "f", WRITE, HANDLE).ino;
    let mut data = text(6000, 0);
    write(&mut world, a, ino, 0, &data);
    let (mut bytes, appends) = (0, 80);
    for n in 0..appends {
        let more = text(128, data.len());
        write(&mut world, a, ino, data.len() as u64, &more);
        data.extend(more);
        let len = last_record(&world).0;
        assert!(n == 0 || len <= 400, "append {n}: {len} bytes");
        bytes += len;
    }
    assert!(bytes / appends <= 400, "{} bytes on average", bytes / appends);
    crash(&mut world, a);
    assert_eq!(content(&mut world, a, ino), data);
}

#[test]
fn after_a_checkpoint_the_data_is_logged_whole_once_and_every_crash_finds_it() {
    let mut world = world();
    let a = world.client();
    let ino = world.create(a, Ino::ROOT, "f", WRITE, HANDLE).ino;
    let mut data = Vec::new();
    let mut short = Vec::new();
    for n in 0..24 {
        let more = text(300, data.len());
        write(&mut world, a, ino, data.len() as u64, &more);
        data.extend(more);
        short.push(is_short(&world));
        if n % 8 == 7 {
            // All of it gets into the table, and the journal before it goes.
            world.wait_alive(40_000);
            assert!(world.journal.len() < 8, "{} records are left", world.journal.len());
        }
    }
    // Shorter data than 512 bytes, then what there is to build on; and again after each checkpoint.
    let of_8 = |first: usize| short[first..first + 8].iter().filter(|short| **short).count();
    assert_eq!((of_8(0), of_8(8), of_8(16)), (6, 7, 7), "{short:?}");
    crash(&mut world, a);
    assert_eq!(content(&mut world, a, ino), data);
}

#[test]
fn a_change_while_a_checkpoint_is_written_builds_on_nothing_that_it_takes() {
    let mut world = world();
    let a = world.client();
    let ino = world.create(a, Ino::ROOT, "f", WRITE, HANDLE).ino;
    let mut data = text(3000, 0);
    write(&mut world, a, ino, 0, &data);
    let append = |world: &mut World, data: &mut Vec<u8>| {
        let more = text(50, data.len());
        write(world, a, ino, data.len() as u64, &more);
        data.extend(more);
        is_short(world)
    };
    assert!(!append(&mut world, &mut data) && append(&mut world, &mut data));
    world.checkpoints = false;
    world.wait_alive(40_000);
    assert!(!world.pending_checkpoints.is_empty(), "one is being written");
    assert!(!append(&mut world, &mut data), "it may be in the table, and not more");
    assert!(append(&mut world, &mut data));
    // It is there, and the rank dies before it hears of it.
    let (_, records) = world.pending_checkpoints.front().expect("one is being written").clone();
    records.into_iter().for_each(|record| super::rows::write(&mut world.table, world.config.rank, record));
    crash(&mut world, a);
    assert_eq!(content(&mut world, a, ino), data);
    world.checkpoints = true;
    world.wait_alive(40_000);
    crash(&mut world, a);
    assert_eq!(content(&mut world, a, ino), data);
}

#[test]
fn changes_after_a_cut_a_hole_and_in_the_midst_are_found_after_a_crash() {
    let mut world = world();
    let a = world.client();
    let ino = world.create(a, Ino::ROOT, "f", WRITE, HANDLE).ino;
    let mut data = text(4000, 0);
    write(&mut world, a, ino, 0, &data);
    write(&mut world, a, ino, 0, &data);
    world.call(a, truncate(ino, 1500)).expect("it may be cut");
    assert!(is_short(&world), "a cut has no bytes");
    data.truncate(1500);
    world.call(a, truncate(ino, 2000)).expect("it may grow");
    data.resize(2000, 0);
    write(&mut world, a, ino, 2600, b"behind a hole");
    data.resize(2600, 0);
    data.extend(b"behind a hole");
    assert!(is_short(&world));
    write(&mut world, a, ino, 700, b"in the midst");
    data[700..712].copy_from_slice(b"in the midst");
    assert!(is_short(&world));
    crash(&mut world, a);
    let found = content(&mut world, a, ino);
    assert_eq!(found, data[..found.len()]);
    assert!(data[found.len()..].iter().all(|byte| *byte == 0), "what is not stored is zeros");
}

#[test]
fn data_that_went_and_came_again_is_not_that_of_before() {
    let mut world = world();
    let a = world.client();
    let first = world.create(a, Ino::ROOT, "f", WRITE, HANDLE).ino;
    for n in 0..4 {
        write(&mut world, a, first, n * 900, &text(900, n as usize));
    }
    assert!(is_short(&world));
    world.call(a, close(HANDLE)).expect("it is open");
    world.call(a, Op::Unlink { dir: Ino::ROOT, name: name("f") }).expect("it is there");
    let second = world.create(a, Ino::ROOT, "f", WRITE, HANDLE).ino;
    assert_ne!(first, second);
    let data = text(1400, 5);
    write(&mut world, a, second, 0, &data[..700]);
    assert!(!is_short(&world));
    write(&mut world, a, second, 700, &data[700..]);
    crash(&mut world, a);
    assert_eq!(content(&mut world, a, second), data);
    assert!(world.call(a, Op::GetAttr { ino: first }).is_err(), "it is gone");
}

#[test]
fn a_file_that_grew_out_of_its_inode_stays_out_of_it_after_a_crash() {
    let mut world = world();
    let a = world.client();
    let ino = world.create(a, Ino::ROOT, "f", WRITE, HANDLE).ino;
    for n in 0..4 {
        write(&mut world, a, ino, n * 900, &text(900, n as usize));
    }
    assert!(is_short(&world));
    world.call(a, set_data(ino, HANDLE, 0, 100_000, true)).expect("it may grow");
    crash(&mut world, a);
    let Ok(Answer::Entry(attr)) = world.call(a, Op::GetAttr { ino }) else { panic!("it is not there") };
    assert_eq!(attr.size, 100_000);
    world.call(a, Op::Open { ino, flags: WRITE, handle: 5 }).expect("it is there");
    assert_eq!(world.call(a, Op::ReadInline { ino, handle: 5 }), Err(FsError::Stale), "it is in objects");
}

#[test]
fn a_request_that_is_repeated_after_a_crash_is_not_done_twice() {
    let mut world = world();
    let a = world.client();
    let ino = world.create(a, Ino::ROOT, "f", WRITE, HANDLE).ino;
    let mut data = text(2000, 0);
    write(&mut world, a, ino, 0, &data);
    write(&mut world, a, ino, 0, &data);
    let append = Op::WriteInline {
        ino,
        handle: HANDLE,
        offset: None,
        data: (*b"once").into(),
        mtime: SetTime::Now,
        kill_priv: false,
    };
    let seq = world.send(a, append.clone());
    assert!(world.reply(a, seq).is_some_and(|(result, _)| result.is_ok()) && is_short(&world));
    data.extend(b"once");
    crash(&mut world, a);
    world.send_again(a, seq, append);
    assert_eq!(content(&mut world, a, ino), data);
}
