//! Writes that fail at the server: nothing is lost in silence, and nothing that fsync promised.

use std::collections::BTreeSet;

use loligo_types::{DataError, FsError};
use proptest::prelude::*;

use super::net::{Net, config, rw, write};
use crate::Call;

const CELL: usize = 20;
const CELLS: usize = 12;

#[derive(Clone, Debug)]
enum Act {
    Write { cell: usize },
    Fsync,
    Close,
    Wait { ms: u64 },
    Fault { full: bool, count: usize },
    Disconnect,
    Evict,
    Check { cell: usize },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (0..CELLS).prop_map(|cell| Act::Write { cell }),
        2 => Just(Act::Fsync),
        1 => Just(Act::Close),
        2 => (1u64..7000).prop_map(|ms| Act::Wait { ms }),
        2 => (any::<bool>(), 1usize..4).prop_map(|(full, count)| Act::Fault { full, count }),
        1 => Just(Act::Disconnect),
        1 => Just(Act::Evict),
        4 => (0..CELLS).prop_map(|cell| Act::Check { cell }),
    ]
}

/// Values that each cell may hold.
struct Cells(Vec<BTreeSet<u8>>);

impl Cells {
    /// A success was told: what the server has now stays.
    fn settle(&mut self, content: &[u8]) {
        for (n, cell) in self.0.iter_mut().enumerate() {
            let value = content[n * CELL];
            assert!(cell.contains(&value), "{value} in cell {n}: {cell:?}");
            *cell = BTreeSet::from([value]);
        }
    }
}

fn run(acts: &[Act], seed: u64) {
    let mut net = Net::with(1, &config(), seed);
    let (mut fh, ino) = net.create(0, "a");
    net.write(0, fh, 0, &[0; CELL * CELLS]);
    net.fsync(0, fh).unwrap();
    let mut cells = Cells(vec![BTreeSet::from([0]); CELLS]);
    let mut stamp = 0u8;
    for act in acts {
        match *act {
            Act::Write { cell } => {
                stamp = stamp.wrapping_add(1).max(1);
                let result = net.call(0, write(fh, (cell * CELL) as u64, &[stamp; CELL]));
                cells.0[cell].insert(stamp);
                match result {
                    Ok(_) => {}
                    Err(failed) => {
                        let told = matches!(failed.error, FsError::NoSpace | FsError::Io | FsError::Stale);
                        assert!(told, "{failed:?}");
                        // It was told that something is lost: any of the values may be there.
                        if failed.error == FsError::Stale || failed.error == FsError::Io {
                            fh = net.open(0, ino, rw());
                        }
                    }
                }
            }
            Act::Fsync => match net.fsync(0, fh) {
                Ok(_) => cells.settle(&net.server.content(ino)),
                Err(failed) if matches!(failed.error, FsError::Stale) => fh = net.open(0, ino, rw()),
                Err(_) => {}
            },
            Act::Close => {
                let clean = net.flush(0, fh).is_ok();
                net.ok(0, Call::Release { fh, flock_owner: None });
                if clean {
                    cells.settle(&net.server.content(ino));
                }
                fh = net.open(0, ino, rw());
            }
            Act::Wait { ms } => net.pass_time(ms),
            Act::Fault { full, count } => {
                let error = if full { DataError::NoSpace } else { DataError::Io };
                net.server.faults.data.extend(std::iter::repeat_n(error, count));
            }
            Act::Disconnect => net.disconnect(0),
            Act::Evict => {
                net.server.evict_all();
                net.disconnect(0);
                net.run();
            }
            Act::Check { cell } => {
                if let Ok(done) = net.call(0, Call::Read { fh, offset: (cell * CELL) as u64, len: CELL as u32 }) {
                    let loligo_types::Answer::Bytes(bytes) = done.answer else { panic!() };
                    assert!(bytes.iter().all(|b| *b == bytes[0]), "a torn cell");
                    assert!(cells.0[cell].contains(&bytes[0]), "{} in cell {cell}: {:?}", bytes[0], cells.0[cell]);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_promised_is_lost_when_writes_fail(acts in prop::collection::vec(act(), 1..60), seed in any::<u64>()) {
        run(&acts, seed);
    }

    /// Without faults every success means the newest value. A write that fails says so of itself alone.
    #[test]
    fn a_success_without_an_error_before_means_the_newest(
        acts in prop::collection::vec(0..3 * CELLS, 1..60),
        fault_at in 0usize..60,
        (full, count) in (any::<bool>(), 1usize..4),
        seed in any::<u64>(),
    ) {
        let mut net = Net::with(1, &config(), seed);
        let (fh, ino) = net.create(0, "a");
        net.write(0, fh, 0, &[0; CELL * CELLS]);
        net.fsync(0, fh).unwrap();
        let mut newest = [Some(0u8); CELLS];
        let mut told = false;
        for (n, act) in acts.iter().enumerate() {
            if n == fault_at {
                let error = if full { DataError::NoSpace } else { DataError::Io };
                net.server.faults.data.extend(std::iter::repeat_n(error, count));
            }
            if *act < CELLS {
                let wrote = net.call(0, write(fh, (act * CELL) as u64, &[n as u8 + 1; CELL]));
                prop_assert!(wrote.is_ok() || full && wrote.as_ref().is_err_and(|failed| failed.error == FsError::NoSpace));
                newest[*act] = wrote.is_ok().then_some(n as u8 + 1);
            } else if *act < 2 * CELLS {
                net.pass_time(1000);
            } else {
                told |= net.fsync(0, fh).is_err();
                if !told {
                    let content = net.server.content(ino);
                    for (cell, newest) in newest.iter().enumerate() {
                        prop_assert!(newest.is_none_or(|newest| content[cell * CELL] == newest));
                    }
                }
            }
        }
    }
}
