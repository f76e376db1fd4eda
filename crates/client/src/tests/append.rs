//! Appends to a file that others write, too: bytes first, then the size, and nothing of what fails.

use std::sync::Arc;

use loligo_types::{DataError, FsError, Ino};

use super::net::{Net, config, rw, write};
use crate::{Call, Fh};

/// A file of 100 bytes in objects that both clients have open.
fn shared(net: &mut Net) -> (Fh, Fh, Ino) {
    let (fh, ino) = net.create(0, "a");
    net.write(0, fh, 0, &[1; 100]);
    net.fsync(0, fh).unwrap();
    let other = net.open(1, ino, rw());
    net.server.log.clear();
    (fh, other, ino)
}

fn append(fh: Fh, data: &[u8]) -> Call {
    Call::Write { fh, offset: 0, data: Arc::from(data), append: true, kill_priv: false }
}

/// Records as a reader sees them: whole ones behind the first 100 bytes, and no bytes that nobody wrote.
fn records(content: &[u8]) -> Vec<u8> {
    assert!(content.len() >= 100 && content[..100] == [1; 100]);
    let records = content[100..].chunks(10);
    records.map(|record| if record == [record[0]; 10] { record[0] } else { panic!("{record:?} is torn") }).collect()
}

#[test]
fn the_bytes_are_there_before_the_size_is_told() {
    let mut net = Net::new(2);
    let (fh, _, ino) = shared(&mut net);
    net.append(0, fh, &[2; 10]);
    assert_eq!(net.server.log, ["0 extend", "0 write 100 10", "0 set_data"]);
    assert_eq!(records(&net.server.content(ino)), [2]);
}

#[test]
fn nobody_sees_a_part_of_an_append_of_several() {
    for seed in 1..200 {
        let mut net = Net::with(2, &config(), seed * 11);
        let (fh, other, ino) = shared(&mut net);
        let calls: Vec<_> = (0..8)
            .map(|n| {
                let at = n % 2;
                (at, net.submit(at, append(if at == 0 { fh } else { other }, &[2 + n as u8; 10])))
            })
            .collect();
        while net.step() {
            records(&net.server.content(ino));
        }
        net.pass_time(10_000);
        for (at, call) in calls {
            assert!(net.nodes[at].done.remove(&call).unwrap().is_ok(), "seed {seed}");
        }
        let mut all = records(&net.server.content(ino));
        all.sort_unstable();
        assert_eq!(all, [2, 3, 4, 5, 6, 7, 8, 9], "seed {seed}");
    }
}

#[test]
fn an_append_that_fails_leaves_nothing_and_holds_up_nobody() {
    let mut net = Net::new(2);
    let (fh, other, ino) = shared(&mut net);
    net.server.faults.data.push_back(DataError::NoSpace);
    assert_eq!(net.err(0, append(fh, &[2; 10])), FsError::NoSpace);
    net.run();
    // Writes that fail are not in it. The second one gives back what the first one got.
    assert_eq!(net.server.log, ["0 extend", "0 extend"]);
    assert_eq!(net.server.attr(ino).size, 100);
    net.append(1, other, &[3; 10]);
    assert_eq!(records(&net.server.content(ino)), [3]);
}

#[test]
fn a_write_behind_the_end_that_fails_says_that_something_may_be_left_there() {
    let mut net = Net::new(2);
    let (fh, _, ino) = shared(&mut net);
    net.server.faults.data.push_back(DataError::NoSpace);
    assert_eq!(net.err(0, write(fh, 200, &[2; 10])), FsError::NoSpace);
    net.run();
    assert_eq!(net.server.log, ["0 extend"]);
    assert_eq!(net.server.attr(ino).size, 100);
    // Inside the file it is as with any overwrite.
    net.server.faults.data.push_back(DataError::NoSpace);
    net.server.log.clear();
    assert_eq!(net.err(0, write(fh, 50, &[2; 10])), FsError::NoSpace);
    net.run();
    assert!(net.server.log.is_empty(), "{:?}", net.server.log);
}

#[test]
fn appends_that_a_restart_meets_are_there_once_wherever_they_were() {
    for seed in 1..300 {
        let mut net = Net::with(2, &config(), seed * 13);
        let (fh, other, ino) = shared(&mut net);
        let calls = [(0, fh, 2), (1, other, 3), (0, fh, 4), (1, other, 5)];
        let calls = calls.map(|(at, fh, byte)| (at, net.submit(at, append(fh, &[byte; 10]))));
        let steps = net.random(24);
        for _ in 0..steps {
            net.step();
            records(&net.server.content(ino));
        }
        if net.random(2) == 0 {
            net.server.restart()
        } else {
            net.server.restart_cleanly()
        }
        net.disconnect(0);
        net.disconnect(1);
        while net.step() {
            records(&net.server.content(ino));
        }
        net.pass_time(10_000);
        for (at, call) in calls {
            assert!(net.nodes[at].done.remove(&call).unwrap().is_ok(), "seed {seed}");
        }
        let mut all = records(&net.server.content(ino));
        all.sort_unstable();
        assert_eq!(all, [2, 3, 4, 5], "seed {seed}");
    }
}
