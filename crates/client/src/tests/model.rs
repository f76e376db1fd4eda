//! Random calls by two clients on one file, over a network that reorders between connections, loses connections and
//! restarts the server, against a plain vector of bytes: every read and every size must be as if there were no cache.

use loligo_types::{FsError, Rank};
use proptest::prelude::*;

use super::net::{Net, config, create, ro, rw, wo};
use crate::{Call, Fallocate, Fh};

#[derive(Clone, Debug)]
enum Act {
    Open { read: bool, write: bool, truncate: bool },
    Close { which: usize },
    Write { which: usize, offset: u64, len: usize },
    Append { which: usize, len: usize },
    Read { which: usize, offset: u64, len: u32 },
    Truncate { size: u64 },
    Ftruncate { which: usize, size: u64 },
    Size,
    Fsync { which: usize },
    Punch { which: usize, offset: u64, len: u64, how: u8 },
    Copy { which: usize, from: u64, to: u64, len: u64 },
    Wait { ms: u64 },
    Deliver { steps: usize },
    Disconnect { restart: bool },
    CreateAgain { truncate: bool },
}

fn act() -> impl Strategy<Value = (usize, Act)> {
    let offset = prop_oneof![0u64..40, 0u64..150, 0u64..1200];
    let len = prop_oneof![1usize..10, 1usize..100, 1usize..500];
    let which = 0usize..4;
    let act = prop_oneof![
        3 => (any::<bool>(), any::<bool>(), 0..8u8).prop_map(|(read, write, t)| Act::Open { read, write, truncate: t == 0 }),
        2 => which.clone().prop_map(|which| Act::Close { which }),
        8 => (which.clone(), offset.clone(), len.clone()).prop_map(|(which, offset, len)| Act::Write { which, offset, len }),
        2 => (which.clone(), len).prop_map(|(which, len)| Act::Append { which, len }),
        8 => (which.clone(), offset.clone(), 1u32..600).prop_map(|(which, offset, len)| Act::Read { which, offset, len }),
        1 => offset.clone().prop_map(|size| Act::Truncate { size }),
        1 => (which.clone(), offset.clone()).prop_map(|(which, size)| Act::Ftruncate { which, size }),
        2 => Just(Act::Size),
        1 => which.clone().prop_map(|which| Act::Fsync { which }),
        1 => (which.clone(), offset.clone(), 1u64..200, 0..4u8)
            .prop_map(|(which, offset, len, how)| Act::Punch { which, offset, len, how }),
        1 => (which, offset.clone(), offset, 1u64..200).prop_map(|(which, from, to, len)| Act::Copy { which, from, to, len }),
        1 => (1u64..4000).prop_map(|ms| Act::Wait { ms }),
        2 => (1usize..20).prop_map(|steps| Act::Deliver { steps }),
        1 => any::<bool>().prop_map(|restart| Act::Disconnect { restart }),
        1 => any::<bool>().prop_map(|truncate| Act::CreateAgain { truncate }),
    ];
    (0usize..2, act)
}

struct Run {
    net: Net,
    model: Vec<u8>,
    ino: loligo_types::Ino,
    /// Open handles of each client: handle, may read, may write.
    open: Vec<Vec<(Fh, bool, bool)>>,
    byte: u8,
    /// The server restarted: what could not be written again is said to be lost, though this server keeps it.
    restarted: bool,
}

impl Run {
    fn check_written(&self, result: crate::CallResult) {
        if let Err(failed) = result {
            assert!(self.restarted && failed.error == FsError::Io, "{failed:?}");
        }
    }

    fn pick(&self, at: usize, which: usize, read: bool, write: bool) -> Option<Fh> {
        let fit: Vec<_> = self.open[at].iter().filter(|(_, r, w)| (*r || !read) && (*w || !write)).collect();
        (!fit.is_empty()).then(|| fit[which % fit.len()].0)
    }

    fn fresh(&mut self, len: usize) -> Vec<u8> {
        (0..len)
            .map(|_| {
                self.byte = self.byte.wrapping_mul(31).wrapping_add(7) | 1;
                self.byte
            })
            .collect()
    }

    fn put(&mut self, offset: usize, data: &[u8]) {
        if self.model.len() < offset + data.len() {
            self.model.resize(offset + data.len(), 0);
        }
        self.model[offset..offset + data.len()].copy_from_slice(data);
    }

    fn expect(&self, offset: u64, len: u64) -> &[u8] {
        let start = (offset as usize).min(self.model.len());
        &self.model[start..self.model.len().min((offset + len) as usize)]
    }

    fn act(&mut self, at: usize, act: &Act) {
        match *act {
            Act::Open { read, write, truncate } => {
                let mut flags = match (read, write) {
                    (true, true) => rw(),
                    (false, true) => wo(),
                    _ => ro(),
                };
                flags.truncate = truncate && write;
                let fh = self.net.open(at, self.ino, flags);
                self.open[at].push((fh, flags.read, flags.write));
                if flags.truncate {
                    self.model.clear();
                }
            }
            Act::CreateAgain { truncate } => {
                let flags = loligo_types::OpenFlags { truncate, ..rw() };
                let fh = self.net.ok(at, create("a", flags)).fh.unwrap();
                self.open[at].push((fh, true, true));
                if truncate {
                    self.model.clear();
                }
            }
            Act::Close { which } => {
                if let Some(fh) = self.pick(at, which, false, false) {
                    let result = self.net.flush(at, fh);
                    self.check_written(result);
                    self.net.ok(at, Call::Release { fh, flock_owner: None });
                    self.open[at].retain(|(open, _, _)| *open != fh);
                }
            }
            Act::Write { which, offset, len } => {
                if let Some(fh) = self.pick(at, which, false, true) {
                    let data = self.fresh(len);
                    self.net.write(at, fh, offset, &data);
                    self.put(offset as usize, &data);
                }
            }
            Act::Append { which, len } => {
                if let Some(fh) = self.pick(at, which, false, true) {
                    let data = self.fresh(len);
                    self.net.append(at, fh, &data);
                    self.put(self.model.len(), &data);
                }
            }
            Act::Read { which, offset, len } => {
                if let Some(fh) = self.pick(at, which, true, false) {
                    let bytes = self.net.read(at, fh, offset, len);
                    assert!(bytes == self.expect(offset, u64::from(len)), "read {offset} {len} by {at}: {bytes:?}");
                }
            }
            Act::Truncate { size } => {
                self.net.truncate(at, self.ino, None, size);
                self.model.resize(size as usize, 0);
            }
            Act::Ftruncate { which, size } => {
                if let Some(fh) = self.pick(at, which, false, true) {
                    self.net.truncate(at, self.ino, Some(fh), size);
                    self.model.resize(size as usize, 0);
                }
            }
            Act::Size => assert_eq!(self.net.attr(at, self.ino).size, self.model.len() as u64),
            Act::Fsync { which } => {
                if let Some(fh) = self.pick(at, which, false, true) {
                    let result = self.net.fsync(at, fh);
                    self.check_written(result);
                    assert_eq!(self.net.server.content(self.ino), self.model, "after fsync");
                }
            }
            Act::Punch { which, offset, len, how } => {
                if let Some(fh) = self.pick(at, which, false, true) {
                    let (how, keep) = match how {
                        0 => (Fallocate::PunchHole, true),
                        1 => (Fallocate::ZeroRange { keep_size: true }, true),
                        2 => (Fallocate::ZeroRange { keep_size: false }, false),
                        _ => (Fallocate::Allocate { keep_size: false }, false),
                    };
                    self.net.ok(at, Call::Fallocate { fh, how, offset, len, kill_priv: false });
                    let end = (offset + len) as usize;
                    if !matches!(how, Fallocate::Allocate { .. }) {
                        let size = self.model.len();
                        self.model[(offset as usize).min(size)..end.min(size)].fill(0);
                    }
                    if !keep && end > self.model.len() {
                        self.model.resize(end, 0);
                    }
                }
            }
            Act::Copy { which, from, to, len } => {
                if let Some(fh) = self.pick(at, which, true, true) {
                    let call = Call::Copy { from: fh, from_offset: from, to: fh, to_offset: to, len, kill_priv: false };
                    match self.net.call(at, call) {
                        Ok(_) => {
                            let data = self.expect(from, len).to_vec();
                            if !data.is_empty() {
                                self.put(to as usize, &data);
                            }
                        }
                        Err(failed) => assert_eq!(failed.error, FsError::Invalid),
                    }
                }
            }
            Act::Wait { ms } => self.net.pass_time(ms),
            Act::Deliver { steps } => {
                for _ in 0..steps {
                    self.net.step();
                }
            }
            Act::Disconnect { restart } => {
                self.net.server.forgets = restart;
                if restart {
                    self.restarted = true;
                    self.net.server.restart();
                    self.net.disconnect(1 - at);
                }
                self.net.disconnect(at);
                // A restarted server waits for those it knew before it goes on.
                while restart && self.net.nodes.iter().any(|node| !node.client.ranks.is_up(Rank::ZERO)) {
                    self.net.step();
                }
                self.net.server.forgets = false;
            }
        }
    }
}

fn run(acts: &[(usize, Act)], seed: u64) {
    let mut net = Net::with(2, &config(), seed);
    let (fh, ino) = net.create(0, "a");
    // Something that a writer left who died before it told the size.
    net.server.soil(ino, 0, &[255; 2000]);
    let mut run =
        Run { net, model: Vec::new(), ino, open: vec![vec![(fh, true, true)], Vec::new()], byte: 1, restarted: false };
    for (at, act) in acts {
        run.act(*at, act);
    }
    for at in 0..2 {
        while !run.open[at].is_empty() {
            run.act(at, &Act::Close { which: 0 });
        }
    }
    assert_eq!(run.net.server.content(ino), run.model, "when all is closed");
    // What a restart made dirty again is written after a while, and only then its handles are closed.
    run.net.pass_time(6000);
    for at in 0..2 {
        assert_eq!(run.net.server.open_handles(at), 0, "handles left open by {at}");
        run.net.feed(at, crate::Input::Stop);
        assert!(run.net.nodes[at].stopped);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400), max_shrink_iters: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn data_is_as_without_caches(acts in prop::collection::vec(act(), 1..120), seed in any::<u64>()) {
        run(&acts, seed);
    }
}
