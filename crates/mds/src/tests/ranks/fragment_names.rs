//! Names of directories whose fragments are several ranks', as others borrow them: one by one, not a part as a whole.

use loligo_types::{Frag, FsError, Ino, Seq};

use super::shown::said;
use super::spread::{halves, name_in};
use super::*;

const LOWER: Frag = Frag { bits: 1, value: 0 };

fn outcome(cluster: &mut Cluster, client: usize, at: usize, seq: Seq) -> Option<Result<(), FsError>> {
    match cluster.outcome(client, at, seq)? {
        Outcome::Answered(result) => Some(result.map(|_| ())),
        other => panic!("{other:?}"),
    }
}

/// Two files of the first rank's half are about to be renamed into the other one's, which has lent the names: their names before
/// and after, and the requests.
struct UnderWay {
    cluster: Cluster,
    clients: [usize; 2],
    dir: Ino,
    upper: Frag,
    new: [String; 2],
    renames: [Seq; 2],
}

fn under_way() -> UnderWay {
    let (mut cluster, a, dir, upper) = halves();
    let b = cluster.client();
    let old = ["old", "other"].map(|prefix| name_in(&cluster, LOWER, prefix));
    let new = ["new", "next"].map(|prefix| name_in(&cluster, upper, prefix));
    old.iter().for_each(|name| _ = cluster.touch(a, dir, name));
    cluster.hold(0, 1);
    let clients = [a, b];
    let renames = [0, 1].map(|n| cluster.send(clients[n], 0, rename(dir, &old[n], dir, &new[n])));
    assert_eq!(said(&cluster, 0, 1), ["borrow", "borrow"]);
    cluster.deliver(0, 1);
    cluster.deliver(0, 1);
    UnderWay { cluster, clients, dir, upper, new, renames }
}

#[test]
fn several_are_renamed_into_a_fragment_at_once_while_others_are_made_in_it() {
    let UnderWay { mut cluster, clients: [a, b], dir, upper, new, renames } = under_way();
    assert_eq!(said(&cluster, 1, 0), ["lent", "lent"], "each has its name");
    let text = name_in(&cluster, upper, "free");
    let free = cluster.send(b, 1, mkdir(dir, &text));
    assert_eq!(outcome(&mut cluster, b, 1, free), Some(Ok(())), "nobody has that name");
    let taken = cluster.send(b, 1, mkdir(dir, &new[0]));
    assert_eq!(outcome(&mut cluster, b, 1, taken), None, "it is not known yet whether it is there");
    cluster.release();
    for (client, seq) in [a, b].into_iter().zip(renames) {
        assert_eq!(outcome(&mut cluster, client, 0, seq), Some(Ok(())));
    }
    assert_eq!(outcome(&mut cluster, b, 1, taken), Some(Err(FsError::Exists)));
    assert_eq!(cluster.attr(a, dir).map(|attr| (attr.size, attr.nlink)), Ok((43, 3)));
    for rank in [0, 1] {
        cluster.crash(rank);
    }
    assert_eq!(cluster.attr(a, dir).map(|attr| (attr.size, attr.nlink)), Ok((43, 3)));
    cluster.finish();
}

#[test]
fn who_changes_a_directory_as_a_whole_waits_for_names_of_it_that_are_lent() {
    let UnderWay { mut cluster, clients: [a, b], dir, renames, .. } = under_way();
    let chmod = cluster.send(b, 0, chmod(dir, 0o700));
    cluster.deliver(0, 1);
    assert!(!said(&cluster, 1, 0)[2..].contains(&"lent"), "who renames has looked at the mode as it is");
    cluster.release();
    for (client, seq) in [(a, renames[0]), (b, renames[1]), (b, chmod)] {
        assert_eq!(outcome(&mut cluster, client, 0, seq), Some(Ok(())));
    }
    assert_eq!(cluster.attr(a, dir).map(|attr| (attr.mode, attr.size)), Ok((0o700, 42)));
    cluster.finish();
}

#[test]
fn a_fragment_does_not_move_while_a_name_of_it_is_lent() {
    let UnderWay { mut cluster, clients: [a, _], dir, upper, new, .. } = under_way();
    let id = cluster.begin_frag(dir, upper, 1, 0);
    cluster.wait(200);
    assert_ne!(cluster.state(1, id), "done");
    cluster.release();
    cluster.wait_for("its end", |cluster| {
        let state = cluster.state(1, id);
        state == "done" || state.starts_with("failed")
    });
    for name in &new {
        assert!(cluster.lookup(a, dir, name).is_ok(), "{name}");
    }
    assert_eq!(cluster.attr(a, dir).map(|attr| attr.size), Ok(42));
    cluster.finish();
}

#[test]
fn the_same_name_is_renamed_to_by_one_after_the_other() {
    let (mut cluster, a, dir, upper) = halves();
    let b = cluster.client();
    let old = ["old", "other"].map(|prefix| name_in(&cluster, LOWER, prefix));
    let new = name_in(&cluster, upper, "new");
    old.iter().for_each(|name| _ = cluster.touch(a, dir, name));
    cluster.hold(0, 1);
    let first = cluster.send(a, 0, rename(dir, &old[0], dir, &new));
    let second = cluster.send(b, 0, rename(dir, &old[1], dir, &new));
    cluster.deliver(0, 1);
    cluster.deliver(0, 1);
    assert_eq!(said(&cluster, 1, 0).into_iter().filter(|word| *word == "lent").count(), 1);
    cluster.release();
    for (client, seq) in [(a, first), (b, second)] {
        assert_eq!(outcome(&mut cluster, client, 0, seq), Some(Ok(())));
    }
    assert_eq!(cluster.attr(a, dir).map(|attr| attr.size), Ok(41), "one has replaced the other");
    cluster.finish();
}
