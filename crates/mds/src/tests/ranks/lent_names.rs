//! Names of directories in fragments of several ranks, which each rank lends for itself.

use loligo_types::{Frag, Ino, Lease, Op};

use super::spread::{halves, name_in};
use super::*;

const LOWER: Frag = Frag { bits: 1, value: 0 };
const UPPER: Frag = Frag { bits: 1, value: 1 };

/// Two ranks with a half of a directory each, two clients, and a name in each half.
fn two_halves() -> (Cluster, usize, usize, Ino, [String; 2]) {
    let (mut cluster, a, dir, _) = halves();
    let b = cluster.client();
    let names = [LOWER, UPPER].map(|half| name_in(&cluster, half, "f"));
    // They meet both ranks before anything is counted.
    for client in [a, b] {
        assert!(names.iter().all(|text| cluster.lookup(client, Ino::ROOT, text).is_err()));
        (0..2).for_each(|at| _ = cluster.ask(client, at, Op::StatFs));
    }
    (cluster, a, b, dir, names)
}

fn is_asked(cluster: &Cluster, at: usize, client: usize, dir: Ino) -> bool {
    let recalls = &cluster.world(at).clients[client].recalls;
    recalls.iter().any(|(of, _, bits)| *of == dir && bits.has(Lease::NAMES))
}

fn obey(cluster: &mut Cluster, client: usize, yes: bool) {
    (0..2).for_each(|at| cluster.at(at, |world| world.clients[client].obeys = yes));
}

#[test]
fn names_of_a_fragment_are_lent_by_its_rank_which_asks_them_back_before_they_change() {
    let (mut cluster, a, b, dir, names) = two_halves();
    for (at, text) in names.iter().enumerate() {
        cluster.ask(a, at, Op::Lookup { dir, name: name(text) });
    }
    obey(&mut cluster, a, false);
    for (at, text) in names.iter().enumerate() {
        assert!(!is_asked(&cluster, at, a, dir), "what changes at the other rank is none of it");
        let gone = cluster.send(b, at, unlink(dir, text));
        assert!(is_asked(&cluster, at, a, dir));
        assert_eq!(cluster.outcome(b, at, gone), None, "it waits");
        cluster.at(at, |world| world.clients[a].obeys = true);
        assert!(matches!(cluster.outcome(b, at, gone), Some(Outcome::Answered(Ok(_)))));
    }
    cluster.finish();
}

#[test]
fn names_are_asked_back_before_their_fragment_moves_and_lent_by_the_new_rank() {
    let (mut cluster, a, b, dir, names) = two_halves();
    cluster.ask(a, 1, Op::Lookup { dir, name: name(&names[1]) });
    obey(&mut cluster, a, false);
    let moving = cluster.begin_frag(dir, UPPER, 1, 0);
    cluster.wait_for("the recall", |cluster| is_asked(cluster, 1, a, dir));
    cluster.wait(200);
    assert_ne!(cluster.state(1, moving), "done", "the client has them yet");
    obey(&mut cluster, a, true);
    cluster.wait_for("its end", |cluster| cluster.state(1, moving) == "done");
    cluster.ask(a, 0, Op::Lookup { dir, name: name(&names[1]) });
    obey(&mut cluster, a, false);
    let gone = cluster.send(b, 0, unlink(dir, &names[1]));
    assert!(is_asked(&cluster, 0, a, dir) && !is_asked(&cluster, 1, a, dir));
    obey(&mut cluster, a, true);
    assert!(matches!(cluster.outcome(b, 0, gone), Some(Outcome::Answered(Ok(_)))));
    cluster.finish();
}

#[test]
fn who_renames_into_another_ranks_fragment_is_lent_no_names_with_the_answer() {
    for (to, lent) in [(LOWER, true), (UPPER, false)] {
        let (mut cluster, a, b, dir, names) = two_halves();
        let new = name_in(&cluster, to, "new");
        let renamed = cluster.ask(a, 0, rename(dir, &names[0], dir, &new));
        assert!(matches!(renamed, Outcome::Answered(Ok(_))), "{renamed:?}");
        obey(&mut cluster, a, false);
        let other = name_in(&cluster, LOWER, "other");
        let made = cluster.send(b, 0, mkdir(dir, &other));
        assert_eq!(is_asked(&cluster, 0, a, dir), lent, "to {to}");
        obey(&mut cluster, a, true);
        assert!(matches!(cluster.outcome(b, 0, made), Some(Outcome::Answered(Ok(_)))));
        cluster.finish();
    }
}
