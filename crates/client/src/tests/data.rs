//! Requests to the server for reads and writes of files: which, when, and in which order.

use std::sync::Arc;

use loligo_types::{Answer, DataError, FsError, Ino, OpenFlags, SetAttr};

use super::net::{Net, config, ro, rw, wo, write};
use crate::{Call, Config, Fallocate, Fh, Input, Invalidation};

fn release(net: &mut Net, at: usize, fh: Fh) {
    net.ok(at, Call::Release { fh, flock_owner: None });
}

/// Operations of the server since the last look, without those that only look.
fn log(net: &mut Net) -> Vec<String> {
    std::mem::take(&mut net.server.log).into_iter().map(|line| line[2..].to_string()).collect()
}

/// A file in objects, open for reading and writing, synced, with the given size.
fn in_objects(net: &mut Net, size: usize) -> (Fh, Ino) {
    let (fh, ino) = net.create(0, "a");
    net.write(0, fh, 0, &vec![1; size]);
    net.fsync(0, fh).unwrap();
    log(net);
    (fh, ino)
}

#[test]
fn a_small_file_is_one_request_and_read_from_memory() {
    let mut net = Net::new(1);
    let (fh, ino) = net.create(0, "a");
    net.write(0, fh, 0, b"hello");
    net.write(0, fh, 5, b", world");
    net.write(0, fh, 0, b"J");
    assert_eq!(net.read(0, fh, 0, 100), b"Jello, world");
    assert_eq!(net.attr(0, ino).size, 12);
    net.flush(0, fh).unwrap();
    assert_eq!(net.read(0, fh, 4, 3), b"o, ");
    release(&mut net, 0, fh);
    assert_eq!(log(&mut net), ["create", "getattr", "write_inline"]);
    assert_eq!(net.server.content(ino), b"Jello, world");
}

#[test]
fn times_of_what_is_held_back_show_and_stay() {
    let mut net = Net::new(1);
    let (fh, ino) = net.create(0, "a");
    net.pass_time(1000);
    net.write(0, fh, 0, b"x");
    let held_back = net.attr(0, ino);
    net.pass_time(500);
    net.flush(0, fh).unwrap();
    let written = net.server.attr(ino);
    assert_eq!((written.mtime, written.ctime), (held_back.mtime, held_back.ctime));
    assert_eq!((net.attr(0, ino).mtime, net.attr(0, ino).ctime), (held_back.mtime, held_back.ctime));
}

#[test]
fn a_file_that_outgrows_the_inode_is_spilled() {
    let mut net = Net::new(1);
    let (fh, ino) = net.create(0, "a");
    net.server.soil(ino, 0, &[9; 500]);
    net.write(0, fh, 0, &[1; 50]);
    net.flush(0, fh).unwrap();
    net.write(0, fh, 100, &[2; 50]);
    assert!(net.server.attr(ino).inline);
    log(&mut net);
    net.flush(0, fh).unwrap();
    // The bytes were durable in the inode: they must be so in the object before it lets go of them.
    assert_eq!(log(&mut net), ["discard 0", "write 0 50", "write 100 50", "sync", "set_data"]);
    assert_eq!(net.server.content(ino), [&[1; 50][..], &[0; 50], &[2; 50]].concat());
}

#[test]
fn a_handle_that_may_not_read_leaves_the_spill_to_the_server() {
    let mut net = Net::new(1);
    let (fh, ino) = net.create(0, "a");
    net.write(0, fh, 0, &[1; 50]);
    net.flush(0, fh).unwrap();
    release(&mut net, 0, fh);
    net.pass_time(1000);
    let log_file = net.open(0, ino, wo());
    net.append(0, log_file, &[2; 50]);
    net.flush(0, log_file).unwrap();
    assert_eq!(net.server.content(ino), [[1; 50], [2; 50]].concat());
    assert!(!net.server.attr(ino).inline);
}

#[test]
fn a_gap_does_not_show_what_a_dead_writer_left() {
    let mut net = Net::new(1);
    let (fh, ino) = in_objects(&mut net, 100);
    release(&mut net, 0, fh);
    net.pass_time(1000);
    net.server.soil(ino, 100, &[9; 500]);
    let fh = net.open(0, ino, rw());
    log(&mut net);
    net.write(0, fh, 100, &[2; 10]);
    net.write(0, fh, 200, &[3; 10]);
    net.fsync(0, fh).unwrap();
    assert_eq!(log(&mut net), ["discard 100", "write 100 10", "write 200 10", "sync", "set_data"]);
    assert_eq!(net.read(0, fh, 105, 100), [&[2; 5][..], &[0; 90], &[3; 5]].concat());
}

#[test]
fn fsync_makes_data_durable_before_the_size_that_shows_it() {
    let mut net = Net::new(1);
    let (fh, _) = in_objects(&mut net, 100);
    net.write(0, fh, 100, &[2; 10]);
    net.flush(0, fh).unwrap();
    assert_eq!(log(&mut net), ["write 100 10", "set_data"]);
    net.fsync(0, fh).unwrap();
    assert_eq!(log(&mut net), ["sync"]);
    net.fsync(0, fh).unwrap();
    assert!(log(&mut net).is_empty());
}

#[test]
fn an_error_of_writing_back_is_told_once_to_each_handle() {
    let mut net = Net::new(1);
    let (a, ino) = net.create(0, "a");
    let b = net.open(0, ino, rw());
    net.server.faults.inline.push_back(FsError::Io);
    net.write(0, a, 0, b"lost");
    net.pass_time(4000);
    assert_eq!(net.fsync(0, a).unwrap_err().error, FsError::Io);
    net.fsync(0, a).unwrap();
    assert_eq!(net.flush(0, b).unwrap_err().error, FsError::Io);
    net.flush(0, b).unwrap();
    assert_eq!(net.attr(0, ino).size, 0);
    net.write(0, a, 0, b"kept");
    net.flush(0, a).unwrap();
    assert_eq!(net.server.content(ino), b"kept");
}

#[test]
fn a_full_store_is_told_by_close_and_then_by_write() {
    let mut net = Net::new(1);
    let (fh, ino) = in_objects(&mut net, 100);
    net.server.faults.data.extend([DataError::NoSpace, DataError::NoSpace]);
    net.write(0, fh, 0, &[7; 10]);
    assert_eq!(net.flush(0, fh).unwrap_err().error, FsError::NoSpace);
    assert_eq!(net.err(0, write(fh, 0, &[7; 10])), FsError::NoSpace);
    net.flush(0, fh).unwrap();
    net.write(0, fh, 0, &[8; 10]);
    assert_eq!(net.server.content(ino)[..10], [8; 10], "written through while the store may be full");
    net.pass_time(6000);
    log(&mut net);
    net.write(0, fh, 0, &[9; 10]);
    assert!(log(&mut net).is_empty());
}

/// The objects of a file may hold bytes although its size was refused. Only the server can drop them once the file is closed.
#[test]
fn a_file_whose_write_failed_is_closed_as_one_that_leaves_bytes() {
    for buffered in [true, false] {
        let mut net = Net::new(1);
        let (fh, ino) = in_objects(&mut net, 100);
        let (sound, other) = net.create(0, "sound");
        net.write(0, sound, 0, b"x");
        if buffered {
            net.server.faults.data.push_back(DataError::NoSpace);
            net.write(0, fh, 0, &[7; 10]);
            assert_eq!(net.flush(0, fh).unwrap_err().error, FsError::NoSpace);
        } else {
            fill(&mut net);
            net.server.faults.data.push_back(DataError::NoSpace);
            assert_eq!(net.err(0, write(fh, 200, &[7; 10])), FsError::NoSpace);
        }
        release(&mut net, 0, fh);
        release(&mut net, 0, sound);
        net.pass_time(10_000);
        let mut closed = std::mem::take(&mut net.server.closed);
        closed.sort();
        assert_eq!(closed, [(ino, true), (other, false)], "buffered: {buffered}");
    }
}

#[test]
fn a_write_that_fails_tells_of_itself_and_not_of_what_was_lost_before() {
    let mut net = Net::new(1);
    let (fh, ino) = net.create(0, "a");
    net.server.faults.inline.extend([FsError::NoSpace, FsError::NoSpace]);
    net.write(0, fh, 0, b"lost");
    net.pass_time(4000);
    assert_eq!(net.err(0, write(fh, 4, b"refused")), FsError::NoSpace);
    assert_eq!(net.fsync(0, fh).unwrap_err().error, FsError::NoSpace, "nobody was told of the first");
    net.fsync(0, fh).unwrap();
    assert!(net.server.content(ino).is_empty());
}

/// Another file meets a full store: the next writes of all files go through at once.
fn fill(net: &mut Net) {
    let (other, _) = net.create(0, "other");
    net.server.faults.inline.push_back(FsError::NoSpace);
    net.write(0, other, 0, b"x");
    assert_eq!(net.flush(0, other).unwrap_err().error, FsError::NoSpace);
}

#[test]
fn a_write_that_fails_with_what_was_held_back_before_does_not_tell_of_that() {
    let mut net = Net::new(1);
    let (fh, ino) = net.create(0, "a");
    net.write(0, fh, 0, b"held back");
    fill(&mut net);
    net.server.faults.inline.push_back(FsError::NoSpace);
    assert_eq!(net.err(0, write(fh, 9, b"refused")), FsError::NoSpace);
    assert_eq!(net.flush(0, fh).unwrap_err().error, FsError::NoSpace, "both were lost");
    net.flush(0, fh).unwrap();
    assert!(net.server.content(ino).is_empty());
}

#[test]
fn a_write_does_not_fail_because_one_before_it_was_lost() {
    let mut net = Net::new(1);
    let (fh, ino) = net.create(0, "a");
    net.write(0, fh, 0, b"lost");
    net.pass_time(2000);
    fill(&mut net);
    // What was held back is under way when the next write comes.
    net.ms += 1500;
    net.feed(0, Input::Tick);
    net.server.faults.inline.push_back(FsError::NoSpace);
    net.write(0, fh, 0, b"kept");
    assert_eq!(net.server.content(ino), b"kept");
    assert_eq!(net.fsync(0, fh).unwrap_err().error, FsError::NoSpace);
    net.fsync(0, fh).unwrap();
}

#[test]
fn a_write_that_waits_through_a_restart_does_not_tell_of_what_that_has_lost() {
    let mut net = Net::new(1);
    let (fh, ino) = in_objects(&mut net, 100);
    // Too much to be kept here until it is synced.
    net.write(0, fh, 0, &[2; 1200]);
    net.flush(0, fh).unwrap();
    fill(&mut net);
    let writing = net.submit(0, write(fh, 0, &[3; 10]));
    net.server.restart();
    net.disconnect(0);
    net.run();
    net.nodes[0].done.remove(&writing).unwrap().unwrap();
    assert_eq!(net.server.content(ino)[..10], [3; 10]);
    assert_eq!(net.fsync(0, fh).unwrap_err().error, FsError::Io);
}

#[test]
fn a_busy_data_server_is_asked_again() {
    let mut net = Net::new(1);
    let (fh, ino) = in_objects(&mut net, 100);
    net.server.faults.data.extend([DataError::Busy, DataError::Busy, DataError::Busy]);
    net.write(0, fh, 0, &[7; 100]);
    net.fsync(0, fh).unwrap();
    assert_eq!(net.server.content(ino), [7; 100]);
}

#[test]
fn a_reopen_by_the_same_user_is_free_until_permissions_change() {
    let mut net = Net::new(1);
    let (fh, ino) = net.create(0, "a");
    net.write(0, fh, 0, b"x");
    net.flush(0, fh).unwrap();
    release(&mut net, 0, fh);
    log(&mut net);
    let again = net.ok(0, Call::Open { ino, flags: rw() });
    assert!(again.keep_data);
    assert_eq!(net.read(0, again.fh.unwrap(), 0, 9), b"x");
    release(&mut net, 0, again.fh.unwrap());
    assert!(log(&mut net).is_empty());
    net.ok(0, Call::SetAttr { ino, set: SetAttr { mode: Some(0), ..SetAttr::default() }, fh: None });
    net.open(0, ino, rw());
    assert_eq!(log(&mut net), ["setattr", "open"]);
}

#[test]
fn handles_are_closed_after_a_while_in_one_request() {
    let mut net = Net::new(1);
    for n in 0..10 {
        let (fh, _) = net.create(0, &format!("f{n}"));
        release(&mut net, 0, fh);
    }
    net.pass_time(300);
    assert_eq!(net.server.open_handles(0), 10);
    log(&mut net);
    net.pass_time(500);
    assert_eq!(net.server.open_handles(0), 0);
    assert_eq!(log(&mut net), ["close"]);
}

#[test]
fn an_idle_handle_is_closed_when_another_client_opens() {
    let mut net = Net::new(2);
    let (fh, ino) = net.create(0, "a");
    net.write(0, fh, 0, b"x");
    release(&mut net, 0, fh);
    let done = net.ok(1, Call::Open { ino, flags: rw() });
    assert_eq!(net.server.open_handles(0), 0);
    assert_eq!(net.read(1, done.fh.unwrap(), 0, 9), b"x");
    let Answer::Opened { rights, .. } = done.answer else { panic!() };
    assert!(rights.has(loligo_types::Lease::CACHE));
}

#[test]
fn the_kernel_drops_its_pages_before_another_may_write() {
    let mut net = Net::new(2);
    let (fh, ino) = net.create(0, "a");
    net.write(0, fh, 0, b"one");
    net.hold_invalidations = true;
    let opening = net.submit(1, Call::Open { ino, flags: rw() });
    net.run();
    assert!(net.nodes[1].done.is_empty(), "not before the caches of the other are clean");
    assert!(net.nodes[0].invalidations.iter().any(|(_, what)| *what == Invalidation::Data(ino)));
    // The kernel may hold a page that is being written while it drops pages: that write must not wait.
    net.write(0, fh, 0, b"two");
    assert_eq!(net.read(0, fh, 0, 9), b"two");
    net.hold_invalidations = false;
    net.run();
    let theirs = net.nodes[1].done.remove(&opening).unwrap().unwrap().fh.unwrap();
    assert_eq!(net.read(1, theirs, 0, 9), b"two");
    // From now on what is read is not to stay in the kernel.
    net.nodes[0].invalidations.clear();
    net.hold_invalidations = true;
    net.read(0, fh, 0, 9);
    assert!(net.nodes[0].invalidations.iter().any(|(_, what)| *what == Invalidation::Data(ino)));
}

#[test]
fn another_clients_stat_sees_what_is_held_back() {
    let mut net = Net::new(2);
    let (fh, ino) = net.create(0, "a");
    net.write(0, fh, 0, b"held back");
    assert_eq!(net.attr(1, ino).size, 9);
    net.write(0, fh, 9, b", still");
    assert_eq!(net.attr(1, ino).size, 16);
    assert_eq!(net.count("write_inline"), 2, "the right to hold back was kept");
}

#[test]
fn a_sequential_reader_is_fetched_ahead_for_and_a_random_one_is_not() {
    let mut net = Net::with(1, &Config { write_behind: 64 << 20, ..Config::default() }, 1);
    let (fh, ino) = net.create(0, "a");
    let content: Vec<u8> = (0..8u32 << 20).map(|i| (i >> 8) as u8).collect();
    net.write(0, fh, 0, &content);
    net.fsync(0, fh).unwrap();
    log(&mut net);
    assert_eq!(net.read(0, fh, 5_000_000, 10), content[5_000_000..5_000_010]);
    assert_eq!(log(&mut net), ["read 5000000 10"]);
    let reader = net.open(0, ino, ro());
    log(&mut net);
    for n in 0..64 {
        let offset = n * (128 << 10);
        assert!(net.read(0, reader, offset as u64, 128 << 10) == content[offset..offset + (128 << 10)]);
    }
    net.run();
    let mut fetched = log(&mut net);
    fetched.sort();
    let blocks: Vec<_> = (0..8).map(|n| format!("read {} {}", n << 20, 1 << 20)).collect();
    assert_eq!(fetched, blocks);
    // All of it is here now, and what is written is put into it.
    net.write(0, fh, 3 << 20, b"patch");
    net.flush(0, fh).unwrap();
    log(&mut net);
    assert_eq!(
        net.read(0, reader, (3 << 20) - 1, 7),
        [&content[(3 << 20) - 1..3 << 20], b"patch", &[content[(3 << 20) + 5]]].concat()
    );
    assert!(log(&mut net).is_empty());
}

#[test]
fn the_read_cache_has_a_limit() {
    let small = Config { read_cache: 3 << 20, read_ahead: 0, write_behind: 64 << 20, ..Config::default() };
    let mut net = Net::with(1, &small, 1);
    let (fh, _) = net.create(0, "a");
    net.write(0, fh, 0, &vec![5; 6 << 20]);
    net.fsync(0, fh).unwrap();
    for n in 0..6 {
        net.read(0, fh, n << 20, 1 << 20);
        assert!(net.nodes[0].client.files.block_bytes <= 3 << 20);
    }
    log(&mut net);
    net.read(0, fh, 5 << 20, 100);
    assert!(log(&mut net).is_empty());
}

#[test]
fn writers_wait_when_too_much_waits_to_be_written() {
    let mut net = Net::with(1, &Config { write_behind: 1 << 20, ..config() }, 1);
    let (fh, ino) = in_objects(&mut net, 100);
    net.run();
    let first = net.submit(0, write(fh, 0, &[1; 900]));
    assert!(net.nodes[0].done.remove(&first).is_some());
    let second = net.submit(0, write(fh, 900, &[2; 900]));
    assert!(!net.nodes[0].done.contains_key(&second));
    net.run();
    assert!(net.nodes[0].done.remove(&second).is_some());
    assert_eq!(net.server.content(ino), [[1; 900], [2; 900]].concat());
}

#[test]
fn a_truncate_comes_after_the_writes_before_it() {
    let mut net = Net::new(1);
    let (fh, ino) = in_objects(&mut net, 300);
    net.write(0, fh, 250, &[2; 100]);
    net.truncate(0, ino, Some(fh), 260);
    assert_eq!(log(&mut net), ["write 250 100", "set_data", "setattr"]);
    net.write(0, fh, 270, &[3; 1]);
    assert_eq!(net.read(0, fh, 245, 100), [&[1; 5][..], &[2; 10], &[0; 10], &[3]].concat());
}

#[test]
fn chmod_comes_after_the_writes_that_would_undo_it() {
    let mut net = Net::new(1);
    let (fh, ino) = net.create(0, "a");
    net.write(0, fh, 0, b"x");
    let set = SetAttr { mode: Some(0o4755), ..SetAttr::default() };
    let attr = *net.ok(0, Call::SetAttr { ino, set, fh: None }).attr().unwrap();
    assert_eq!((attr.mode, attr.size), (0o4755, 1));
    assert_eq!(log(&mut net), ["create", "write_inline", "setattr"]);
    // Now that there is a bit to be cleared, a write that clears it is not held back.
    let call = Call::Write { fh, offset: 0, data: Arc::from(&b"y"[..]), append: false, kill_priv: true };
    net.ok(0, call);
    assert_eq!(log(&mut net), ["write_inline"]);
}

#[test]
fn space_is_freed_and_found() {
    let mut net = Net::new(1);
    let (fh, ino) = in_objects(&mut net, 300);
    let punch = |how, offset, len| Call::Fallocate { fh, how, offset, len, kill_priv: false };
    net.ok(0, punch(Fallocate::PunchHole, 100, 100));
    assert_eq!(net.read(0, fh, 99, 102), [&[1][..], &[0; 100], &[1]].concat());
    net.ok(0, punch(Fallocate::Allocate { keep_size: false }, 0, 500));
    assert_eq!(net.attr(0, ino).size, 500);
    net.ok(0, punch(Fallocate::ZeroRange { keep_size: true }, 0, 600));
    assert_eq!(net.read(0, fh, 0, 600), [0; 500]);
    assert_eq!(net.err(0, punch(Fallocate::PunchHole, 0, 0)), FsError::Invalid);
    assert_eq!(net.ok(0, Call::Seek { fh, offset: 10, data: false }).answer, Answer::Offset(500));
    assert_eq!(net.err(0, Call::Seek { fh, offset: 500, data: true }), FsError::NoSuchOffset);
}

#[test]
fn what_was_not_opened_for_it_is_refused() {
    let mut net = Net::new(1);
    let (fh, ino) = net.create(0, "a");
    let (reader, writer) = (net.open(0, ino, ro()), net.open(0, ino, wo()));
    assert_eq!(net.err(0, write(reader, 0, b"x")), FsError::BadHandle);
    assert_eq!(net.err(0, Call::Read { fh: writer, offset: 0, len: 1 }), FsError::BadHandle);
    assert_eq!(net.err(0, Call::Read { fh: Fh(999), offset: 0, len: 1 }), FsError::BadHandle);
    assert_eq!(net.err(0, write(fh, u64::MAX - 1, b"xyz")), FsError::FileTooBig);
    assert_eq!(net.ok(0, write(fh, u64::MAX, b"")).answer, Answer::Offset(0));
}

#[test]
fn concurrent_writers_of_both_clients_all_arrive() {
    for seed in 1..60 {
        let mut net = Net::with(2, &config(), seed * 7919);
        let (fh, ino) = net.create(0, "a");
        let theirs = net.open(1, ino, rw());
        let mut expected = vec![0; 1600];
        for n in 0..32u8 {
            let (at, handle) = if n % 2 == 0 { (0, fh) } else { (1, theirs) };
            let offset = usize::from(n) * 50;
            expected[offset..offset + 50].fill(n + 1);
            net.submit(at, write(handle, offset as u64, &[n + 1; 50]));
            let steps = net.random(6);
            for _ in 0..steps {
                net.step();
            }
            if n % 8 == 7 {
                net.disconnect(usize::from(n / 8) % 2);
            }
        }
        net.pass_time(1000);
        assert!(net.nodes.iter().flat_map(|node| node.done.values()).all(Result::is_ok));
        assert!(net.server.content(ino) == expected, "seed {seed}");
    }
}

#[test]
fn open_with_truncate_drops_what_was_held_back() {
    let mut net = Net::new(1);
    let (fh, ino) = net.create(0, "a");
    net.write(0, fh, 0, b"old");
    let cut = net.open(0, ino, OpenFlags { truncate: true, ..rw() });
    assert_eq!(net.read(0, cut, 0, 9), b"");
    net.write(0, cut, 1, b"n");
    assert_eq!(net.read(0, fh, 0, 9), b"\0n");
    net.feed(0, Input::Stop);
    net.run();
    assert!(net.nodes[0].stopped);
    assert_eq!(net.server.content(ino), b"\0n");
}

#[test]
fn what_was_fetched_for_an_earlier_open_is_not_taken_for_a_later_one() {
    let mut net = Net::new(1);
    let (fh, ino) = in_objects(&mut net, 100);
    release(&mut net, 0, fh);
    net.pass_time(1000);
    let fh = net.open(0, ino, rw());
    net.server.faults.reads.extend([DataError::Busy, DataError::Busy]);
    // The second of these reads ahead.
    assert!(net.read(0, fh, 100, 10).is_empty() && net.read(0, fh, 101, 10).is_empty());
    net.run();
    assert_eq!(net.server.faults.reads.len(), 1);
    release(&mut net, 0, fh);
    net.ok(0, Call::Forget { inos: vec![ino] });
    let fh = net.open(0, ino, rw());
    net.write(0, fh, 100, &[2; 100]);
    net.flush(0, fh).unwrap();
    // Both are asked for again now, and the first answer is that of the shorter file.
    assert_eq!(net.read(0, fh, 150, 50), [2; 50]);
}

#[test]
fn a_sync_of_everything_covers_closed_files_too() {
    let mut net = Net::new(1);
    let (fh, ino) = in_objects(&mut net, 100);
    net.write(0, fh, 0, &[2; 10]);
    release(&mut net, 0, fh);
    net.ok(0, Call::Forget { inos: vec![ino] });
    net.pass_time(1000);
    assert_eq!(net.server.open_handles(0), 0);
    log(&mut net);
    net.ok(0, Call::SyncAll);
    // The client knows nothing of the file any more; the server syncs it.
    assert_eq!(log(&mut net), ["sync"]);
    net.server.faults.syncs.push_back(FsError::Io);
    assert_eq!(net.err(0, Call::SyncAll), FsError::Io);
    net.ok(0, Call::SyncAll);
}

#[test]
fn a_sync_of_everything_says_once_what_was_lost_before_it() {
    let mut net = Net::new(1);
    let (fh, _) = in_objects(&mut net, 100);
    net.write(0, fh, 0, &[2; 10]);
    net.server.faults.data.push_back(DataError::Io);
    assert_eq!(net.err(0, Call::SyncAll), FsError::Io);
    net.ok(0, Call::SyncAll);
    // An earlier failure, that only the handle was told.
    net.write(0, fh, 0, &[3; 10]);
    net.server.faults.data.push_back(DataError::Io);
    net.fsync(0, fh).unwrap_err();
    assert_eq!(net.err(0, Call::SyncAll), FsError::Io);
    net.ok(0, Call::SyncAll);
}

#[test]
fn a_sync_of_everything_says_that_a_restart_lost_data_of_a_closed_file() {
    for (synced, clean) in [(false, false), (true, false), (false, true)] {
        let mut net = Net::new(1);
        let (fh, ino) = in_objects(&mut net, 100);
        net.write(0, fh, 0, &[2; 10]);
        release(&mut net, 0, fh);
        net.ok(0, Call::Forget { inos: vec![ino] });
        net.pass_time(1000);
        if synced {
            net.ok(0, Call::SyncAll);
        }
        if clean {
            net.server.restart_cleanly()
        } else {
            net.server.restart()
        }
        net.disconnect(0);
        net.run();
        let told = net.call(0, Call::SyncAll);
        assert_eq!(told.is_err(), !synced && !clean, "{told:?}");
        net.ok(0, Call::SyncAll);
    }
}

#[test]
fn making_room_never_takes_away_what_is_written_meanwhile() {
    for seed in 1..200 {
        for others in [false, true] {
            let mut net = Net::with(2, &config(), seed * 7);
            let (fh, ino) = net.create(0, "a");
            let (at, second) = if others { (1, net.open(1, ino, rw())) } else { (0, net.open(0, ino, rw())) };
            let how = Fallocate::Allocate { keep_size: false };
            let room = net.submit(0, Call::Fallocate { fh, how, offset: 0, len: 20, kill_priv: false });
            let steps = net.random(20);
            for _ in 0..steps {
                net.step();
            }
            let wrote = net.submit(at, write(second, 30, &[7; 10]));
            net.run();
            net.pass_time(5000);
            assert!(net.nodes[0].done.remove(&room).unwrap().is_ok());
            assert!(net.nodes[at].done.remove(&wrote).unwrap().is_ok());
            assert_eq!(net.server.content(ino), [&[0; 30][..], &[7; 10]].concat(), "seed {seed}, {others}");
        }
    }
}

#[test]
fn making_room_beyond_what_the_inode_holds_moves_a_shared_file_to_objects() {
    let mut net = Net::new(2);
    let (fh, ino) = net.create(0, "a");
    net.write(0, fh, 0, b"some");
    net.open(1, ino, rw());
    let how = Fallocate::Allocate { keep_size: false };
    net.ok(0, Call::Fallocate { fh, how, offset: 0, len: 20, kill_priv: false });
    assert_eq!(net.server.content(ino), [&b"some"[..], &[0; 16]].concat());
    net.ok(0, Call::Fallocate { fh, how, offset: 0, len: 500, kill_priv: false });
    assert_eq!(net.server.content(ino), [&b"some"[..], &[0; 496]].concat());
}
