//! Names that are made or taken away at the end of a way, with one request.

use std::sync::Arc;

use loligo_types::{Answer, FsError, Ino, Kind, Name, Op, Replicas};

use super::walks::chmod;
use super::*;

fn via(names: &[&str], by: Replicas, what: Op) -> Op {
    let names = names.iter().map(|text| name(text)).collect::<Arc<[Name]>>();
    Op::Via { dir: Ino::ROOT, names, by, what: Box::new(what) }
}

fn mkdir(text: &str) -> Op {
    Op::Mkdir { dir: Ino(0), name: name(text), mode: 0o755, umask: 0 }
}

fn unlink(text: &str) -> Op {
    Op::Unlink { dir: Ino(0), name: name(text) }
}

/// Number of names that the way alone led on, the inode at its end, and the rank that has it.
fn gone(cluster: &mut Cluster, client: usize, at: usize, op: Op) -> (u32, Ino, Option<usize>) {
    match cluster.ask(client, at, op) {
        Outcome::Answered(Ok(Answer::Walked { done, last, .. })) => match *last {
            Answer::Entry(attr) => (done, attr.ino, None),
            Answer::Remote { ino, rank, .. } => (done, ino, Some(usize::from(rank.0))),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn made(outcome: &Outcome) -> Ino {
    match outcome {
        Outcome::Answered(Ok(Answer::Entry(attr))) => attr.ino,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_request_goes_the_way_and_does_what_is_to_be_done_there() {
    let (mut cluster, a, here, _) = two_ranks();
    let d = cluster.mkdir(a, here, "d");
    let f = cluster.touch(a, d, "f");
    let way = ["here", "d"];
    let count = |cluster: &Cluster, op: &str| cluster.world(0).mds.status().ops.get(op).map_or(0, |count| count.count);
    let before = (count(&cluster, "mkdir"), count(&cluster, "unlink"));
    let outcome = cluster.ask(a, 0, via(&way, Replicas::ToTheEnd, mkdir("new")));
    let new = made(&outcome);
    assert_eq!(cluster.lookup(a, d, "new"), Ok(new));
    assert!(matches!(
        cluster.ask(a, 0, via(&way, Replicas::Unused, mkdir("new"))),
        Outcome::Answered(Err(FsError::Exists))
    ));
    assert_eq!(cluster.ask(a, 0, via(&way, Replicas::ToTheEnd, unlink("f"))), Outcome::Answered(Ok(Answer::Done)));
    assert_eq!(cluster.lookup(a, d, "f"), Err(FsError::NotFound));
    assert_eq!((count(&cluster, "mkdir"), count(&cluster, "unlink")), (before.0 + 2, before.1 + 1));
    // Nothing is done where the way does not lead to a directory, or what is asked for is nothing of this kind.
    let g = cluster.touch(a, d, "g");
    assert_ne!(f, g);
    let outcome = cluster.ask(a, 0, via(&["here", "no"], Replicas::ToTheEnd, mkdir("x")));
    assert!(matches!(outcome, Outcome::Answered(Err(FsError::NotFound))));
    assert_eq!(gone(&mut cluster, a, 0, via(&["here", "d", "g"], Replicas::ToTheEnd, mkdir("x"))), (3, g, None));
    let odd = Op::Lookup { dir: Ino(0), name: name("g") };
    assert!(matches!(cluster.ask(a, 0, via(&way, Replicas::ToTheEnd, odd)), Outcome::Answered(Err(FsError::Invalid))));
    assert!(matches!(
        cluster.ask(a, 0, via(&[], Replicas::ToTheEnd, mkdir("x"))),
        Outcome::Answered(Err(FsError::Invalid))
    ));
    cluster.finish();
}

#[test]
fn where_the_directory_is_another_ranks_it_says_so_and_that_one_does_it_alone() {
    let (mut cluster, a, _, there) = two_ranks();
    let e = cluster.mkdir(a, there, "e");
    let way = ["there", "e"];
    let (done, to, at) = gone(&mut cluster, a, 0, via(&way, Replicas::Unused, mkdir("x")));
    assert_eq!((done, to, at), (1, there, Some(1)));
    let (done, to, at) = gone(&mut cluster, a, 0, via(&way, Replicas::ToTheEnd, mkdir("x")));
    assert!(matches!((done, at), (1 | 2, Some(1))) && (to == there || to == e));
    assert_eq!(cluster.lookup(a, e, "x"), Err(FsError::NotFound));
    let outcome = cluster.ask(a, 1, via(&way, Replicas::ToTheEnd, mkdir("x")));
    let x = made(&outcome);
    assert_eq!(cluster.lookup(a, e, "x"), Ok(x));
    // Of a directory in fragments of several ranks each takes the names that it has.
    let wide = cluster.mkdir(a, there, "wide");
    cluster.touch_all(a, wide, 8);
    cluster.migrate_frag(wide, loligo_types::Frag { bits: 1, value: 1 }, 1, 0);
    let way = ["there", "wide"];
    let mut elsewhere = 0;
    for n in 0..16 {
        let text = format!("d{n}");
        match cluster.ask(a, 1, via(&way, Replicas::ToTheEnd, mkdir(&text))) {
            Outcome::Answered(Ok(Answer::Entry(_))) => {}
            Outcome::Answered(Ok(Answer::Walked { done: 2, last, .. })) => {
                assert!(matches!(*last, Answer::Remote { ino, kind: Kind::Dir, rank } if ino == wide && rank.0 == 0));
                let outcome = cluster.ask(a, 0, via(&way, Replicas::ToTheEnd, mkdir(&text)));
                assert!(matches!(outcome, Outcome::Answered(Ok(Answer::Entry(_)))), "{outcome:?}");
                elsewhere += 1;
            }
            other => panic!("{other:?}"),
        }
        assert!(cluster.lookup(a, wide, &text).is_ok());
    }
    assert!((1..16).contains(&elsewhere), "{elsewhere} of 16");
    cluster.finish();
}

#[test]
fn sent_again_it_is_not_done_twice_wherever_the_way_leads_by_then() {
    let (mut cluster, a, here, _) = two_ranks();
    let d = cluster.mkdir(a, here, "d");
    cluster.touch(a, d, "f");
    let way = ["here", "d"];
    let make = via(&way, Replicas::ToTheEnd, mkdir("new"));
    let take = via(&way, Replicas::ToTheEnd, unlink("f"));
    let first = cluster.send(a, 0, make.clone());
    let new = made(&cluster.outcome(a, 0, first).expect("done"));
    let second = cluster.send(a, 0, take.clone());
    assert_eq!(cluster.outcome(a, 0, second), Some(Outcome::Answered(Ok(Answer::Done))));
    // Another directory has its name, with a file of the same name; the rank starts anew in between.
    assert_eq!(cluster.call(a, rename(here, "d", here, "old")), Ok(Answer::Done));
    let other = cluster.mkdir(a, here, "d");
    let file = cluster.touch(a, other, "f");
    for restart in [false, true] {
        if restart {
            cluster.crash(0);
        }
        cluster.at(0, |world| world.send_again(a, first, make.clone()));
        assert_eq!(made(&cluster.outcome(a, 0, first).expect("answered")), new, "after a restart: {restart}");
        cluster.at(0, |world| world.send_again(a, second, take.clone()));
        assert_eq!(cluster.outcome(a, 0, second), Some(Outcome::Answered(Ok(Answer::Done))));
    }
    assert_eq!((cluster.lookup(a, other, "f"), cluster.lookup(a, other, "new")), (Ok(file), Err(FsError::NotFound)));
    cluster.finish();
}

#[test]
fn who_may_not_go_the_way_or_change_the_directory_does_neither() {
    let (mut cluster, a, here, _) = two_ranks();
    let user = cluster.client();
    cluster.at(0, |world| world.clients[user].uid = 7);
    let d = cluster.mkdir(a, here, "d");
    let way = ["here", "d"];
    let refused = |cluster: &mut Cluster| cluster.ask(user, 0, via(&way, Replicas::ToTheEnd, mkdir("x")));
    assert!(matches!(refused(&mut cluster), Outcome::Answered(Err(FsError::Access))));
    assert!(cluster.call(a, chmod(d, 0o777)).is_ok());
    assert!(cluster.call(a, chmod(here, 0o700)).is_ok());
    assert!(matches!(refused(&mut cluster), Outcome::Answered(Err(FsError::Access))));
    assert!(cluster.call(a, chmod(here, 0o711)).is_ok());
    let outcome = refused(&mut cluster);
    let x = made(&outcome);
    assert_eq!(cluster.attr(a, x).expect("it is there").uid, 7);
    cluster.finish();
}
