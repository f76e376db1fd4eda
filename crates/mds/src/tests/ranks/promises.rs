//! Lookup leases: what answers promise of the directories on a path, that what would break it waits until it has ended, and nothing else does.

use std::sync::Arc;

use loligo_namespace::LOOKUP_LEASE;
use loligo_types::msg::{Request, ToClient, ToServer};
use loligo_types::{Cred, FsError, Ino, Kind, Lease, Name, Op, Replicas, Seq, XattrMode};

use super::walks::chmod;
use super::*;

/// From now on directories may be promised for so long, and those that are made in it.
fn allow(cluster: &mut Cluster, client: usize, ino: Ino, text: &str) {
    let (name, value) = (LOOKUP_LEASE.into(), text.as_bytes().into());
    assert!(cluster.call(client, Op::SetXattr { ino, name, value, mode: XattrMode::Set }).is_ok());
}

/// Sends a walk from the root with which leases are welcome; as a user, or root.
fn send_way(cluster: &mut Cluster, (client, uid): (usize, u32), at: usize, names: &[&str]) -> Seq {
    let names = names.iter().map(|text| name(text)).collect::<Arc<[Name]>>();
    let op = Op::Walk { dir: Ino::ROOT, names, by: Replicas::OnTheWay };
    let cred = if uid == 0 { Cred::root() } else { Cred::user(uid, uid) };
    cluster.at(at, |world| {
        world.clients[client].next_seq += 1;
        let seq = Seq(world.clients[client].next_seq);
        let request = Request { seq, answered: Seq(0), want: Lease::NONE, cred, op, ino: None, ways: Some(0) };
        world.message(client, ToServer::Request(request));
        seq
    })
}

/// The lookup leases that it gives, from the root on.
fn ways_of(cluster: &mut Cluster, asks: (usize, u32), at: usize, names: &[&str]) -> Vec<(Ino, u16)> {
    let seq = send_way(cluster, asks, at, names);
    for _ in 0..40 {
        let found = cluster.at(at, |world| {
            world.clients[asks.0].inbox.iter().find_map(|msg| match msg {
                ToClient::Reply { seq: of, ways, .. } if *of == seq => Some(ways.clone()),
                _ => None,
            })
        });
        if let Some(ways) = found {
            return ways;
        }
        cluster.wait(50);
    }
    panic!("{names:?} is not answered")
}

fn waits(cluster: &mut Cluster, client: usize, at: usize, op: Op) -> u64 {
    let seq = cluster.send(client, at, op.clone());
    for ms in (0..3000).step_by(50) {
        match cluster.outcome(client, at, seq) {
            Some(Outcome::Answered(Ok(_))) => return ms,
            Some(other) => panic!("{op:?}: {other:?}"),
            None => cluster.wait(50),
        }
    }
    panic!("{op:?} waits for ever")
}

/// One rank, a client, and `/a/b` with files in it, all of which may be promised for so long.
fn alone(text: &str) -> (Cluster, usize, Ino, Ino) {
    let mut cluster = Cluster::new(1);
    let client = cluster.client();
    allow(&mut cluster, client, Ino::ROOT, text);
    let a = cluster.mkdir(client, Ino::ROOT, "a");
    let b = cluster.mkdir(client, a, "b");
    cluster.touch(client, b, "f");
    (cluster, client, a, b)
}

#[test]
fn a_walk_promises_of_each_directory_that_it_stays_and_only_what_would_break_that_waits() {
    let (mut cluster, one, a, b) = alone("250ms");
    let all = vec![(Ino::ROOT, 250), (a, 250), (b, 250)];
    assert_eq!(ways_of(&mut cluster, (one, 0), 0, &["a", "b", "f"]), all);
    // Also where the name is not there.
    assert_eq!(ways_of(&mut cluster, (one, 0), 0, &["a", "b", "no"]), all);
    // What is in it may change.
    for op in [
        Op::Mkdir { dir: b, name: name("sub"), mode: 0o755, umask: 0 },
        Op::Mknod { dir: b, name: name("g"), kind: Kind::File, mode: 0o644, umask: 0, rdev: 0 },
        rename(b, "f", b, "h"),
        Op::Unlink { dir: b, name: name("h") },
        rmdir(b, "sub"),
    ] {
        assert_eq!(waits(&mut cluster, one, 0, op), 0);
    }
    assert_eq!(waits(&mut cluster, one, 0, rename(a, "b", a, "c")), 300);
    assert_eq!(waits(&mut cluster, one, 0, rename(a, "c", a, "b")), 0, "nobody was told of it");
    ways_of(&mut cluster, (one, 0), 0, &["a", "b", "f"]);
    assert_eq!(waits(&mut cluster, one, 0, chmod(b, 0o711)), 300);
    ways_of(&mut cluster, (one, 0), 0, &["a", "b", "f"]);
    cluster.call(one, Op::Unlink { dir: b, name: name("g") }).expect("it is there");
    assert_eq!(waits(&mut cluster, one, 0, rmdir(a, "b")), 300);
    assert_eq!(cluster.world(0).mds.status().paths.promise_waits, 3);
    cluster.finish();
}

#[test]
fn while_a_change_waits_nothing_is_promised_and_everybody_goes_on() {
    let (mut cluster, one, a, b) = alone("1s");
    ways_of(&mut cluster, (one, 0), 0, &["a", "b", "f"]);
    let change = cluster.send(one, 0, chmod(a, 0o700));
    for _ in 0..10 {
        cluster.wait(50);
        // Found as before, and not for longer than this answer.
        assert_eq!(ways_of(&mut cluster, (one, 0), 0, &["a", "b", "f"]), [(Ino::ROOT, 1000), (a, 0), (b, 1000)]);
        assert_eq!(cluster.lookup(one, a, "b"), Ok(b));
    }
    assert!(cluster.outcome(one, 0, change).is_none());
    cluster.wait(650);
    assert!(cluster.outcome(one, 0, change).is_some(), "others could keep it from ever happening");
    cluster.finish();
}

#[test]
fn who_may_not_search_a_directory_is_promised_nothing_of_it() {
    let (mut cluster, one, a, b) = alone("100ms");
    assert!(cluster.call(one, chmod(a, 0o700)).is_ok());
    assert_eq!(ways_of(&mut cluster, (one, 7), 0, &["a", "b", "f"]), [(Ino::ROOT, 100)]);
    assert_eq!(ways_of(&mut cluster, (one, 0), 0, &["a", "b", "f"]), [(Ino::ROOT, 100), (a, 100), (b, 100)]);
    cluster.finish();
}

#[test]
fn without_the_policy_nothing_is_promised_and_taking_it_away_waits_for_what_was() {
    let (mut cluster, one, a, b) = alone("250ms alone");
    assert_eq!(ways_of(&mut cluster, (one, 0), 0, &["a", "b", "f"]), [(Ino::ROOT, 250)], "it was not passed on");
    allow(&mut cluster, one, b, "1s");
    assert_eq!(
        ways_of(&mut cluster, (one, 0), 0, &["a", "b", "f"]),
        [(Ino::ROOT, 250), (a, 0), (b, 1000)],
        "of each by itself"
    );
    let gone = Op::RemoveXattr { ino: b, name: LOOKUP_LEASE.into() };
    assert_eq!(waits(&mut cluster, one, 0, gone), 1150);
    assert_eq!(ways_of(&mut cluster, (one, 0), 0, &["a", "b", "f"]), [(Ino::ROOT, 250)]);
    cluster.finish();
}

#[test]
fn by_rate_what_often_changes_is_promised_for_less() {
    let (mut cluster, one, _, b) = alone("rate");
    for n in 0..6 {
        ways_of(&mut cluster, (one, 0), 0, &["a", "b", "f"]);
        waits(&mut cluster, one, 0, chmod(b, 0o700 + n));
    }
    let ways = ways_of(&mut cluster, (one, 0), 0, &["a", "b", "f"]);
    assert!(ways[0].1 == 800 && ways[2].1 < 500, "{ways:?}");
    cluster.finish();
}

/// Two ranks: `/top` is rank 0's, `/top/below` rank 1's; all may be promised for 250 ms.
fn two() -> (Cluster, usize, Ino, Ino) {
    let mut cluster = Cluster::new(2);
    let client = cluster.client();
    allow(&mut cluster, client, Ino::ROOT, "250ms");
    let top = cluster.mkdir(client, Ino::ROOT, "top");
    let below = cluster.mkdir(client, top, "below");
    cluster.touch(client, below, "f");
    cluster.migrate(below, 0, 1);
    // Until nothing of before can count any more.
    cluster.wait(2000);
    (cluster, client, top, below)
}

#[test]
fn what_another_rank_promises_by_a_replica_is_kept_when_that_is_given_back() {
    let (mut cluster, one, top, below) = two();
    let all = [(Ino::ROOT, 250), (top, 250), (below, 250)];
    assert_eq!(ways_of(&mut cluster, (one, 0), 1, &["top", "below", "f"]), all);
    let change = cluster.send(one, 0, chmod(top, 0o711));
    cluster.wait(100);
    assert_eq!(cluster.world(0).mds.status().paths.lent, 1, "the root's is still lent, that of top given back");
    assert!(cluster.outcome(one, 0, change).is_none());
    cluster.wait(200);
    assert!(cluster.outcome(one, 0, change).is_some());
    // The other way round nobody has a replica, but rank 1 itself has promised it.
    ways_of(&mut cluster, (one, 0), 1, &["top", "below", "f"]);
    assert_eq!(waits(&mut cluster, one, 1, chmod(below, 0o711)), 300);
    cluster.finish();
}

#[test]
fn a_directory_that_moves_keeps_what_was_promised_of_it_and_moves_at_once() {
    let (mut cluster, one, top, below) = two();
    ways_of(&mut cluster, (one, 0), 1, &["top", "below", "f"]);
    cluster.migrate(below, 1, 0);
    // Rank 0 does not know what rank 1 promised: it waits as long as that can last.
    let ms = waits(&mut cluster, one, 0, chmod(below, 0o711));
    assert!((800..=1150).contains(&ms), "{ms}");
    assert_eq!(waits(&mut cluster, one, 0, chmod(top, 0o711)), 0, "that is known to have ended");
    cluster.finish();
}

#[test]
fn a_rank_that_starts_again_waits_as_long_as_its_promises_could_last() {
    let (mut cluster, one, a, _) = alone("1s");
    let plain = cluster.mkdir(one, Ino::ROOT, "plain");
    cluster
        .call(one, Op::RemoveXattr { ino: plain, name: LOOKUP_LEASE.into() })
        .expect("it has the policy of the root");
    ways_of(&mut cluster, (one, 0), 0, &["a", "b", "f"]);
    cluster.crash(0);
    assert_eq!(waits(&mut cluster, one, 0, chmod(plain, 0o711)), 0, "it has no such policy");
    let ms = waits(&mut cluster, one, 0, chmod(a, 0o711));
    assert!((1000..=1150).contains(&ms), "{ms}");
    cluster.finish();
}

#[test]
fn under_placement_table_who_may_search_is_nothing_to_paths_and_changes_at_once() {
    let mut cluster = Cluster::new(1);
    let one = cluster.client();
    allow(&mut cluster, one, Ino::ROOT, "1s");
    let (name, value) = (loligo_namespace::PLACEMENT.into(), b"table"[..].into());
    let place = Op::SetXattr { ino: Ino::ROOT, name, value, mode: XattrMode::Set };
    assert!(cluster.call(one, place).is_ok());
    let row = cluster.mkdir(one, Ino::ROOT, "row");
    assert!(row.is_table());
    cluster.touch(one, row, "f");
    assert_eq!(ways_of(&mut cluster, (one, 0), 0, &["row", "f"]), [(Ino::ROOT, 1000), (row, 1000)]);
    assert_eq!(waits(&mut cluster, one, 0, chmod(row, 0o700)), 0);
    // Through it whoever asks comes, and is promised so.
    assert_eq!(ways_of(&mut cluster, (one, 7), 0, &["row", "f"]), [(Ino::ROOT, 1000), (row, 1000)]);
    cluster.call(one, Op::Unlink { dir: row, name: super::name("f") }).expect("it is there");
    assert_eq!(waits(&mut cluster, one, 0, rmdir(Ino::ROOT, "row")), 1150);
    assert_eq!(cluster.lookup(one, Ino::ROOT, "row"), Err(FsError::NotFound));
    cluster.finish();
}

#[test]
fn what_is_answered_before_it_is_durable_promises_nothing() {
    let (mut cluster, client, a, b) = alone("1s");
    let (name_of_policy, value) = (loligo_namespace::SUBTREE.into(), b"preset = 'relaxed'"[..].into());
    let policy = Op::SetXattr { ino: a, name: name_of_policy, value, mode: XattrMode::Set };
    assert!(cluster.call(client, policy).is_ok());
    cluster.wait(8000);
    // The first one reserves numbers.
    cluster.mkdir(client, b, "first");
    cluster.mkdir(client, b, "kept");
    cluster.at(0, |world| world.syncs = false);
    let ask = |cluster: &mut Cluster, names: &[&str]| {
        let names = names.iter().map(|text| name(text)).collect::<Arc<[Name]>>();
        let seq = cluster.at(0, |world| {
            world.clients[client].next_seq += 1;
            let seq = Seq(world.clients[client].next_seq);
            let (cred, op) = (Cred::root(), Op::Walk { dir: a, names, by: Replicas::Unused });
            let request = Request { seq, answered: Seq(0), want: Lease::NONE, cred, op, ino: None, ways: Some(0) };
            world.message(client, ToServer::Request(request));
            seq
        });
        let inbox = &cluster.world(0).clients[client].inbox;
        let found = inbox.iter().find_map(|msg| match msg {
            ToClient::Reply { seq: of, ways, .. } if *of == seq => Some(ways.len()),
            _ => None,
        });
        found.expect("it is answered at once")
    };
    assert!(ask(&mut cluster, &["b", "kept"]) > 0, "all is durable");
    let seq = cluster.send(client, 0, Op::Mkdir { dir: b, name: name("early"), mode: 0o755, umask: 0 });
    assert!(cluster.outcome(client, 0, seq).is_some(), "it is answered early");
    assert_eq!(ask(&mut cluster, &["b", "early"]), 0);
}
