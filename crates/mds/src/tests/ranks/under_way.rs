//! Inodes on their way to another rank: a client that asks for one is not sent there before it is there, also if the rank
//! that gives it restarts meanwhile.

use loligo_types::msg::Reclaim;
use loligo_types::{Answer, Frag, Ino, Op, Seq};

use super::*;
use crate::peer::PeerMsg;

/// Files, so that names of some are in each half of the directory.
const FILES: usize = 12;

/// Three ranks. A directory of rank 0's with open files moves to rank 1, a fragment of it if one is named; the record of that is
/// durable, and the letter was not delivered.
fn given(frag: Option<Frag>) -> (Cluster, usize, Ino, Vec<Ino>) {
    let mut cluster = Cluster::new(3);
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    let files = (0..FILES).map(|n| match cluster.call(a, create(dir, &format!("f{n}"), WRITE, n as u64)) {
        Ok(Answer::Opened { attr, .. }) => attr.ino,
        other => panic!("{other:?}"),
    });
    let files = files.collect();
    cluster.held.insert((0, 1));
    match frag {
        Some(frag) => cluster.begin_frag(dir, frag, 0, 1),
        None => cluster.begin_move(dir, 0, 1),
    };
    let is_it = |msg: &&PeerMsg| matches!(msg, PeerMsg::Letter { letter, .. } if letter.gives().is_some());
    while !cluster.waiting(0, 1).iter().any(is_it) {
        match cluster.waiting(0, 1).is_empty() {
            true => cluster.wait(50),
            false => drop(cluster.deliver(0, 1)),
        }
    }
    (cluster, a, dir, files)
}

/// True if the third rank has heard that something of a directory is the second's.
fn third_knows(cluster: &mut Cluster, dir: Ino) -> bool {
    cluster.at(2, |world| world.mds.cluster.atlas.routes.lines(dir).iter().any(|line| line.rank == rank(1)))
}

#[test]
fn who_asks_for_what_is_on_its_way_is_sent_there_when_it_is_there() {
    for restarts in [false, true] {
        for frag in [None, Some(Frag { bits: 1, value: 1 })] {
            let (mut cluster, a, dir, files) = given(frag);
            if restarts {
                cluster.kill(0);
                cluster.start(0);
                // All but the letter.
                while !matches!(cluster.waiting(0, 1).first(), Some(PeerMsg::Letter { .. })) {
                    cluster.deliver(0, 1);
                }
                cluster.come_back(a, 0, Reclaim::default());
            }
            let case = format!("restarts: {restarts}, {frag:?}");
            let told = cluster.at(0, |world| world.mds.cluster.atlas.routes_about(&world.mds.core, None));
            assert!(told.iter().all(|line| line.rank != rank(1)), "{case}: {told:?}");
            cluster.reconnect(0, 2);
            assert!(!third_knows(&mut cluster, dir), "{case}");
            let names = (0..FILES).map(|n| Op::Lookup { dir, name: name(&format!("f{n}")) });
            let ops = names.chain(files.iter().map(|ino| Op::GetAttr { ino: *ino }));
            let asks: Vec<Seq> = ops.map(|op| cluster.send(a, 0, op)).collect();
            cluster.wait(3000);
            let is_open = |cluster: &mut Cluster, seq: &Seq| match cluster.outcome(a, 0, *seq) {
                None => true,
                Some(Outcome::Answered(Ok(_))) => false,
                other => panic!("{case}: {seq:?} {other:?}"),
            };
            let waiting: Vec<Seq> = asks.into_iter().filter(|seq| is_open(&mut cluster, seq)).collect();
            assert!(waiting.len() >= if frag.is_some() { 2 } else { 2 * FILES }, "{case}: {waiting:?}");
            cluster.held.clear();
            cluster.run();
            for seq in waiting {
                let outcome = cluster.outcome(a, 0, seq);
                assert!(matches!(outcome, Some(Outcome::Redirected { rank: 1, .. })), "{case}: {outcome:?}");
            }
            assert!(third_knows(&mut cluster, dir), "{case}");
            assert_eq!(cluster.lookup(a, dir, "f0"), Ok(files[0]), "{case}");
            cluster.finish();
        }
    }
}
