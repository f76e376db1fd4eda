//! Inode numbers that sessions are given before they use them.

use std::collections::BTreeSet;

use loligo_types::{Answer, Control, FsError, FsResult, Ino, Op, Seq, limits};

use super::*;

fn grant(world: &mut World, at: usize, count: u32) -> FsResult<Ino> {
    match world.call(at, Op::Control(Control::GrantInos { count }))? {
        Answer::Inos { first, count: given } => {
            assert_eq!(given, count);
            Ok(first)
        }
        other => panic!("{other:?}"),
    }
}

fn make(world: &mut World, at: usize, op: Op, ino: Ino) -> (Seq, FsResult<Ino>) {
    world.clients[at].next_seq += 1;
    let seq = Seq(world.clients[at].next_seq);
    world.send_numbered(at, seq, op, Some(ino));
    let (result, _) = world.reply(at, seq).expect("it is answered");
    (seq, result.map(|answer| answer.attr().expect("it makes something").ino))
}

fn node(text: &str) -> Op {
    mkdir(Ino::ROOT, text)
}

#[test]
fn what_a_session_makes_has_the_numbers_it_was_given_in_any_order_and_each_once() {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    let first = grant(&mut world, a, 4).expect("given");
    let n = |i: u64| Ino(first.0 + i);
    assert_eq!(make(&mut world, a, node("two"), n(2)).1, Ok(n(2)));
    assert_eq!(make(&mut world, a, create(Ino::ROOT, "zero", WRITE, 1), n(0)).1, Ok(n(0)));
    let link = Op::Symlink { dir: Ino::ROOT, name: name("one"), target: b"x".as_slice().into() };
    assert_eq!(make(&mut world, a, link, n(1)).1, Ok(n(1)));
    // What others make has numbers beyond.
    assert_eq!(world.mkdir(b, Ino::ROOT, "b").ino, n(4));
    assert_eq!(make(&mut world, b, node("c"), n(3)).1, Err(FsError::NotGranted));
    assert_eq!(make(&mut world, a, node("c"), n(2)).1, Err(FsError::NumberUsed));
    assert_eq!(make(&mut world, a, node("c"), n(9)).1, Err(FsError::NotGranted));
    assert_eq!(make(&mut world, a, unlink(Ino::ROOT, "zero"), n(3)).1, Err(FsError::Invalid));
    world.call(a, unlink(Ino::ROOT, "zero")).expect("it is there");
    assert_eq!(make(&mut world, a, node("c"), n(0)).1, Err(FsError::NumberUsed), "not even when it is gone");
    // A creation that makes nothing leaves the number free.
    assert_eq!(make(&mut world, a, node("two"), n(3)).1, Err(FsError::Exists));
    assert_eq!(make(&mut world, a, node("c"), n(3)).1, Ok(n(3)));
}

#[test]
fn grants_are_bounded() {
    let mut world = World::new();
    let at = world.client();
    assert_eq!(grant(&mut world, at, 0), Err(FsError::Invalid));
    assert_eq!(grant(&mut world, at, limits::INO_GRANT_MAX + 1), Err(FsError::Invalid));
    let first = grant(&mut world, at, limits::INO_GRANT_MAX).expect("given");
    assert_eq!(grant(&mut world, at, 1), Err(FsError::Quota));
    assert_eq!(make(&mut world, at, node("a"), first).1, Ok(first));
    assert_eq!(grant(&mut world, at, 1), Ok(Ino(first.0 + u64::from(limits::INO_GRANT_MAX))));
}

#[test]
fn a_crash_forgets_neither_what_was_given_nor_what_was_used() {
    // Where the journal has it all, and where the table has most.
    for checkpointed in [false, true] {
        let mut world = World::new();
        let at = world.client();
        let first = grant(&mut world, at, 10).expect("given");
        let n = |i: u64| Ino(first.0 + i);
        let (seq, made) = make(&mut world, at, node("a"), n(0));
        assert_eq!(made, Ok(n(0)));
        assert_eq!(make(&mut world, at, node("b"), n(5)).1, Ok(n(5)));
        if checkpointed {
            world.wait_alive(30_000);
            assert_eq!(world.mds.status().dirty, 0);
        }
        assert_eq!(make(&mut world, at, node("c"), n(7)).1, Ok(n(7)));
        world.crash();
        world.resume(at);
        // The same request again is answered, and makes nothing.
        world.send_numbered(at, seq, node("a"), Some(n(0)));
        let again = world.reply(at, seq).map(|(result, _)| result.map(|answer| answer.attr().map(|attr| attr.ino)));
        assert_eq!(again, Some(Ok(Some(n(0)))));
        for used in [0, 5, 7] {
            assert_eq!(make(&mut world, at, node("x"), n(used)).1, Err(FsError::NumberUsed));
        }
        assert_eq!(make(&mut world, at, node("d"), n(6)).1, Ok(n(6)));
        assert_eq!(world.mkdir(at, Ino::ROOT, "e").ino, n(10), "beyond what was given");
    }
}

#[test]
fn a_grant_that_was_not_durable_is_asked_for_again_under_its_number() {
    let mut world = World::new();
    let at = world.client();
    world.syncs = false;
    let seq = world.send(at, Op::Control(Control::GrantInos { count: 5 }));
    assert_eq!(world.reply(at, seq), None);
    world.syncs = true;
    world.crash();
    world.resume(at);
    let mut seen = BTreeSet::new();
    for _ in 0..2 {
        // The second time the answer is made again.
        world.send_again(at, seq, Op::Control(Control::GrantInos { count: 5 }));
        let Some((Ok(Answer::Inos { first, count: 5 }), _)) = world.reply(at, seq) else { panic!("not given") };
        seen.insert(first);
    }
    assert_eq!(seen.len(), 1);
    assert_eq!(grant(&mut world, at, 1), Ok(Ino(seen.first().expect("one").0 + 5)));
}

#[test]
fn numbers_that_a_session_did_not_use_are_never_given_again() {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    let first = grant(&mut world, a, 100).expect("given");
    world.message(a, loligo_types::msg::ToServer::Goodbye { gone: false });
    assert_eq!(make(&mut world, b, node("a"), first).1, Err(FsError::NotGranted));
    assert_eq!(grant(&mut world, b, 1), Ok(Ino(first.0 + 100)));
    world.crash();
    world.resume(b);
    assert_eq!(world.mkdir(b, Ino::ROOT, "b").ino, Ino(first.0 + 101));
}
