//! Inode numbers that a client has before it uses them: asked for again before they are used up, kept over connections, and
//! forgotten with the session or the rank that gave them.

use loligo_types::limits;

use super::*;

fn mkdir(dir: Ino, text: &str) -> Call {
    Call::Op(Op::Mkdir { dir, name: name(text), mode: 0o755, umask: 0 })
}

/// Connected to rank 0 of two; each rank is asked for so many numbers.
fn that_asks_for(ino_grant: u32) -> Ranks {
    let mut world = Ranks::unconnected(Config { client: 77, ino_grant, ..Config::default() });
    world.connect(R0, welcome(R0, 2));
    world
}

impl Ranks {
    /// Creations since the last look: rank, request number, and the inode number that it names.
    fn creations(&mut self) -> Vec<(Rank, u64, Option<u64>)> {
        let wire = self.take();
        let named = std::mem::take(&mut self.named);
        let of =
            |rank: Rank, seq: u64| named.iter().find(|(r, s, _)| (*r, *s) == (rank, seq)).and_then(|(.., ino)| *ino);
        let each = wire.iter().map(|wire| match wire {
            Wire::Ask(rank, seq, Op::Mkdir { .. }) => (*rank, *seq, of(*rank, *seq).map(|ino| ino.0)),
            other => panic!("{other:?} makes nothing"),
        });
        each.collect()
    }

    /// A directory is made, and answered with the number that it named, or another one.
    fn makes(&mut self, text: &str) -> Option<u64> {
        let id = self.call(mkdir(Ino::ROOT, text));
        let (rank, seq, named) = self.creations().pop().expect("it is asked");
        self.answer(rank, seq, entry(Ino(named.unwrap_or(0x999)), Kind::Dir), &[]);
        self.result(id).expect("it is made");
        named
    }

    /// The first creation, with which numbers are asked for; they are given from this one on.
    fn begins(&mut self, count: u32, first: u64) {
        let id = self.call(mkdir(Ino::ROOT, "first"));
        let wire = self.take();
        let [
            Wire::Ask(R0, grant, Op::Control(Control::GrantInos { count: asked })),
            Wire::Ask(R0, made, Op::Mkdir { .. }),
        ] = &wire[..]
        else {
            panic!("numbers and a directory: {wire:?}")
        };
        assert_eq!((*asked, self.named.pop()), (count, Some((R0, *made, None))));
        self.answer(R0, *grant, Answer::Inos { first: Ino(first), count }, &[]);
        self.answer(R0, *made, entry(Ino(0x999), Kind::Dir), &[]);
        self.result(id).expect("it is made");
        self.named.clear();
    }
}

#[test]
fn more_numbers_are_asked_for_when_half_are_left_and_without_any_a_creation_names_none() {
    let mut world = that_asks_for(4);
    world.begins(4, 0x1000);
    assert_eq!((world.makes("a"), world.makes("b")), (Some(0x1000), Some(0x1001)));
    // Half of them are left: two more are asked for, once, before the next creation.
    let id = world.call(mkdir(Ino::ROOT, "c"));
    let wire = world.take();
    let [Wire::Ask(R0, grant, Op::Control(Control::GrantInos { count: 2 })), Wire::Ask(R0, seq, _)] = &wire[..] else {
        panic!("{wire:?}")
    };
    assert_eq!(world.named.pop(), Some((R0, *seq, Some(Ino(0x1002)))));
    world.answer(R0, *seq, entry(Ino(0x1002), Kind::Dir), &[]);
    world.result(id).expect("it is made");
    assert_eq!((world.makes("d"), world.makes("e")), (Some(0x1003), None), "they are used up, and nobody waits");
    world.answer(R0, *grant, Answer::Inos { first: Ino(0x2000), count: 2 }, &[]);
    let id = world.call(mkdir(Ino::ROOT, "f"));
    assert!(matches!(
        world.take()[..],
        [Wire::Ask(R0, _, Op::Control(Control::GrantInos { count: 2 })), Wire::Ask(..)]
    ));
    assert_eq!(world.named.pop().and_then(|(.., ino)| ino), Some(Ino(0x2000)));
    assert!(!world.done.iter().any(|(done, _)| *done == id));
}

#[test]
fn a_number_that_has_made_nothing_is_named_again() {
    let mut world = that_asks_for(1000);
    world.begins(1000, 0x1000);
    for _ in 0..2 {
        let id = world.call(mkdir(Ino::ROOT, "there"));
        let (_, seq, named) = world.creations().pop().expect("it is asked");
        assert_eq!(named, Some(0x1000));
        world.says(R0, ToClient::reply(seq, Err(FsError::Exists)));
        assert_eq!(world.result(id).expect_err("it is there").error, FsError::Exists);
    }
    assert_eq!((world.makes("a"), world.makes("b")), (Some(0x1000), Some(0x1001)));
}

#[test]
fn a_rank_that_gives_none_is_not_asked_again_and_one_that_does_not_know_its_numbers_makes_without() {
    let mut world = that_asks_for(8);
    let id = world.call(mkdir(Ino::ROOT, "a"));
    let wire = world.take();
    let [Wire::Ask(_, grant, Op::Control(Control::GrantInos { .. })), Wire::Ask(_, made, _)] = &wire[..] else {
        panic!("{wire:?}")
    };
    world.says(R0, ToClient::reply(*grant, Err(FsError::Quota)));
    world.answer(R0, *made, entry(Ino(0x999), Kind::Dir), &[]);
    world.result(id).expect("the creation has nothing to do with it");
    world.named.clear();
    assert_eq!((world.makes("b"), world.makes("c")), (None, None));

    for error in [FsError::NotGranted, FsError::NumberUsed] {
        let mut world = that_asks_for(8);
        world.begins(8, 0x1000);
        let id = world.call(mkdir(Ino::ROOT, "a"));
        let (_, seq, named) = world.creations().pop().expect("it is asked");
        assert_eq!(named, Some(0x1000));
        world.says(R0, ToClient::reply(seq, Err(error)));
        let (_, seq, named) = world.creations().pop().expect("it is asked again");
        assert_eq!(named, None);
        world.answer(R0, seq, entry(Ino(0x999), Kind::Dir), &[]);
        world.result(id).expect("the caller hears nothing of it");
        assert_eq!(world.makes("b"), None);
    }
}

#[test]
fn a_creation_that_another_rank_is_to_do_takes_its_number_back_and_names_one_of_that_rank() {
    let mut world = that_asks_for(1000);
    world.look_up_dir();
    world.named.clear();
    world.begins(1000, 0x1000);
    let id = world.call(mkdir(DIR, "a"));
    let (_, seq, named) = world.creations().pop().expect("it is asked");
    assert_eq!(named, Some(0x1000));
    world.says(R0, ToClient::Redirect { seq: Seq(seq), rank: R1, routes: vec![route(DIR, R1, 1)], done: None });
    world.connect_second();
    let wire = world.take();
    let [Wire::Ask(R1, grant, Op::Control(Control::GrantInos { count: 1000 })), Wire::Ask(R1, made, Op::Mkdir { .. })] =
        &wire[..]
    else {
        panic!("the other rank is asked for numbers, too: {wire:?}")
    };
    assert_eq!(world.named.pop(), Some((R1, *made, None)));
    world.answer(R1, *grant, Answer::Inos { first: Ino(0x8000), count: 1000 }, &[]);
    world.answer(R1, *made, entry(Ino(0x999), Kind::Dir), &[]);
    world.result(id).expect("it is made");
    world.named.clear();
    assert_eq!(world.makes("b"), Some(0x1000), "rank 0 has not seen it used");
    world.call(mkdir(DIR, "c"));
    assert_eq!(world.creations().pop().map(|(rank, _, named)| (rank, named)), Some((R1, Some(0x8000))));
}

#[test]
fn numbers_are_kept_over_a_connection_and_forgotten_with_the_session() {
    for resumed in [true, false] {
        let mut world = that_asks_for(1000);
        world.begins(1000, 0x1000);
        assert_eq!(world.makes("a"), Some(0x1000));
        let id = world.call(mkdir(Ino::ROOT, "b"));
        assert_eq!(world.creations().pop().map(|(.., named)| named), Some(Some(0x1001)));
        world.feed(Input::Disconnected { rank: R0 });
        world.take();
        world.connect(R0, Welcome { resumed, kept: resumed, session: SessionId(9), ..welcome(R0, 2) });
        if resumed {
            let (_, seq, named) = world.creations().pop().expect("it is sent again");
            assert_eq!(named, Some(0x1001), "as it was");
            world.answer(R0, seq, entry(Ino(0x1001), Kind::Dir), &[]);
            world.result(id).expect("it is made");
            assert_eq!(world.makes("c"), Some(0x1002));
            continue;
        }
        // It may have been made: the caller is told, and no number of before is named.
        assert!(world.done.iter().any(|(done, result)| *done == id && result.is_err()));
        world.take();
        world.named.clear();
        world.begins(1000, 0x5000);
        assert_eq!(world.makes("c"), Some(0x5000));
    }
}

#[test]
fn no_more_numbers_are_asked_for_than_a_rank_gives() {
    let mut world = that_asks_for(u32::MAX);
    world.call(mkdir(Ino::ROOT, "a"));
    let wire = world.take();
    let Wire::Ask(R0, _, Op::Control(Control::GrantInos { count })) = wire[0] else { panic!("{wire:?}") };
    assert!(count > 0 && count <= limits::INO_GRANT_MAX / 2, "{count}: those under way count, too");
}
