//! Directories whose fragments are several ranks'.

use std::collections::BTreeSet;

use loligo_namespace::{EXPECTED_ENTRIES, FragConfig, Need, PLACEMENT, SUBTREE};
use loligo_types::{Answer, Frag, FsError, Ino, Letter, Op, Rank, RankState, XattrMode};

use super::*;
use crate::admin::{Ask, Told};
use crate::peer::PeerMsg;

/// Two ranks, a client, and a directory with files `f0` to `f39`, of which rank 0 has the first half of the hashes and
/// rank 1 the other one.
pub(super) fn halves() -> (Cluster, usize, Ino, Frag) {
    let mut cluster = Cluster::new(2);
    let client = cluster.client();
    let dir = cluster.mkdir(client, Ino::ROOT, "d");
    cluster.touch_all(client, dir, 40);
    let upper = Frag { bits: 1, value: 1 };
    cluster.migrate_frag(dir, upper, 0, 1);
    (cluster, client, dir, upper)
}

fn list(cluster: &mut Cluster, client: usize, dir: Ino) -> Vec<String> {
    let all = cluster.walk(client);
    let _ = dir;
    all.keys().filter(|path| path.starts_with("/d/")).cloned().collect()
}

/// A name in `dir` whose hash is in a fragment.
pub(super) fn name_in(cluster: &Cluster, frag: Frag, prefix: &str) -> String {
    let hash = |text: &str| cluster.world(0).mds.tree_hash(text);
    (0..).map(|n| format!("{prefix}{n}")).find(|text| frag.contains(hash(text))).expect("there is one")
}

#[test]
fn the_first_fragment_does_not_leave_alone_if_others_came_while_its_migration_waited() {
    let mut cluster = Cluster::new(3);
    let a = cluster.client();
    let (dir, other) = (cluster.mkdir(a, Ino::ROOT, "d"), cluster.mkdir(a, Ino::ROOT, "other"));
    cluster.touch_all(a, dir, 20);
    let (lower, third) = (Frag { bits: 1, value: 0 }, Frag { bits: 2, value: 2 });
    cluster.migrate_frag(dir, third, 0, 1);
    cluster.migrate_frag(dir, Frag { bits: 2, value: 3 }, 0, 2);
    // The one before it takes its time.
    cluster.hold(0, 2);
    cluster.begin_move(other, 0, 2);
    let waits = cluster.begin_frag(dir, lower, 0, 1);
    cluster.wait(200);
    cluster.migrate_frag(dir, third, 1, 0);
    cluster.release();
    cluster.wait_for("its end", |cluster| {
        let state = cluster.state(0, waits);
        state == "done" || state.starts_with("failed")
    });
    assert!(cluster.state(0, waits).starts_with("failed"), "its inode lives with it, and the rest would have none");
    for n in 0..20 {
        assert!(cluster.lookup(a, dir, &format!("f{n}")).is_ok(), "f{n}");
    }
    assert_eq!(cluster.attr(a, dir).map(|attr| attr.size), Ok(20));
    cluster.finish();
}

#[test]
fn names_of_both_halves_are_made_found_listed_and_removed() {
    let (mut cluster, a, dir, upper) = halves();
    let lower = Frag { bits: 1, value: 0 };
    assert_eq!(list(&mut cluster, a, dir).len(), 40);
    for n in 0..40 {
        let (result, asked) = cluster.call_by(a, 0, &Op::Lookup { dir, name: name(&format!("f{n}")) });
        assert!(result.is_ok() && asked.len() <= 2, "f{n}: {result:?} {asked:?}");
    }
    for (frag, rank) in [(lower, 0), (upper, 1)] {
        let text = name_in(&cluster, frag, "new");
        let file = cluster.touch(a, dir, &text);
        assert_eq!(file.birth_rank(), super::rank(rank));
        assert_eq!(cluster.lookup(a, dir, &text), Ok(file));
    }
    assert_eq!(cluster.attr(a, dir).map(|attr| (attr.size, attr.nlink)), Ok((42, 2)));
    for n in 0..40 {
        cluster.call(a, unlink(dir, &format!("f{n}"))).expect("it is there");
    }
    assert_eq!(list(&mut cluster, a, dir).len(), 2);
    assert_eq!(cluster.attr(a, dir).map(|attr| (attr.size, attr.nlink)), Ok((2, 2)));
    cluster.finish();
}

#[test]
fn a_directory_is_known_by_all_that_its_ranks_count_and_its_change_counter_only_grows() {
    let (mut cluster, a, dir, upper) = halves();
    let before = cluster.attr(a, dir).expect("it is there");
    let text = name_in(&cluster, upper, "sub");
    let sub = cluster.mkdir(a, dir, &text);
    assert_eq!(sub.birth_rank(), rank(1));
    let after = cluster.attr(a, dir).expect("it is there");
    assert_eq!((after.size, after.nlink), (before.size + 1, before.nlink + 1));
    assert!(after.change > before.change && after.mtime >= before.mtime && after.ctime >= before.ctime);
    let file = cluster.touch(a, sub, "below");
    assert_eq!((file.birth_rank(), cluster.lookup(a, sub, "below")), (rank(1), Ok(file)));
    let (answer, _) = cluster.call_by(a, 1, &Op::LookupParent { dir: sub });
    assert!(matches!(answer, Ok(Answer::Remote { ino, .. }) if ino == dir), "{answer:?}");
    // Times that are set count, whatever was done before at another rank.
    let set = loligo_types::SetAttr {
        mtime: Some(loligo_types::SetTime::At(loligo_types::Time(5))),
        ..loligo_types::SetAttr::default()
    };
    cluster.call(a, Op::SetAttr { ino: dir, set, handle: None }).expect("root may");
    assert_eq!(cluster.attr(a, dir).map(|attr| attr.mtime), Ok(loligo_types::Time(5)));
    cluster.finish();
}

#[test]
fn a_change_of_mode_holds_at_all_ranks() {
    let (mut cluster, a, dir, upper) = halves();
    cluster.call(a, chmod(dir, 0o2750)).expect("root may");
    let text = name_in(&cluster, upper, "sub");
    let sub = cluster.mkdir(a, dir, &text);
    assert_eq!(cluster.attr(a, sub).map(|attr| attr.mode & 0o2000), Ok(0o2000), "setgid is inherited");
    assert_eq!(cluster.attr(a, dir).map(|attr| (attr.mode, attr.size, attr.nlink)), Ok((0o2750, 41, 3)));
    cluster.finish();
}

#[test]
fn removed_names_do_not_stay_in_the_table_when_the_rank_of_a_part_removes_the_directory() {
    let mut cluster = Cluster::new(2);
    let a = cluster.client();
    let parent = cluster.mkdir(a, Ino::ROOT, "p");
    let dir = cluster.mkdir(a, parent, "d");
    cluster.touch_all(a, dir, 40);
    // Rank 1 has the name of the directory and half of its names; rank 0 has its inode.
    cluster.migrate_frag(dir, Frag { bits: 1, value: 1 }, 0, 1);
    cluster.migrate(parent, 0, 1);
    for n in 0..40 {
        cluster.call(a, unlink(dir, &format!("f{n}"))).expect("it is there");
    }
    cluster.call(a, rmdir(parent, "d")).expect("it is empty");
    cluster.finish();
}

#[test]
fn only_an_empty_directory_is_removed_wherever_its_last_name_is() {
    for last in 0..2u32 {
        let (mut cluster, a, dir, _) = halves();
        let kept = name_in(&cluster, Frag { bits: 1, value: last }, "kept");
        cluster.touch(a, dir, &kept);
        for n in 0..40 {
            cluster.call(a, unlink(dir, &format!("f{n}"))).expect("it is there");
        }
        assert_eq!(cluster.call(a, rmdir(Ino::ROOT, "d")), Err(FsError::NotEmpty));
        cluster.call(a, unlink(dir, &kept)).expect("it is there");
        cluster.call(a, rmdir(Ino::ROOT, "d")).expect("it is empty");
        assert_eq!(cluster.lookup(a, Ino::ROOT, "d"), Err(FsError::NotFound));
        assert!(cluster.attr(a, dir).is_err());
        cluster.finish();
    }
}

#[test]
fn fragments_that_come_together_again_are_one_directory() {
    let (mut cluster, a, dir, upper) = halves();
    for n in 0..20 {
        cluster.call(a, unlink(dir, &format!("f{n}"))).expect("it is there");
    }
    let before = cluster.walk(a);
    cluster.migrate_frag(dir, upper, 1, 0);
    assert_eq!(cluster.walk(a), before);
    let Told::Routes(routes) = cluster.admin(1, Ask::Routes) else { panic!("routes") };
    assert_eq!(routes.iter().map(|route| (route.frag, route.rank)).collect::<Vec<_>>(), [(Frag::WHOLE, rank(0))]);
    assert_eq!(cluster.attr(a, dir).map(|attr| (attr.size, attr.nlink)), Ok((20, 2)));
    cluster.crash(0);
    cluster.crash(1);
    assert_eq!(cluster.walk(a), before);
    cluster.finish();
}

#[test]
fn files_are_renamed_within_a_directory_into_it_and_out_of_it_over_its_fragments() {
    let (mut cluster, a, dir, upper) = halves();
    let lower = Frag { bits: 1, value: 0 };
    let other = cluster.mkdir(a, Ino::ROOT, "other");
    for (from, to) in [(lower, upper), (upper, lower), (lower, lower), (upper, upper)] {
        let (old, new) = (name_in(&cluster, from, "old"), name_in(&cluster, to, "new"));
        let file = cluster.touch(a, dir, &old);
        let below = cluster.mkdir(a, dir, &format!("{old}d"));
        cluster.call(a, rename(dir, &old, dir, &new)).expect("within");
        assert_eq!(cluster.lookup(a, dir, &new), Ok(file));
        cluster.call(a, rename(dir, &new, other, "out")).expect("out of it");
        cluster.call(a, rename(other, "out", dir, &new)).expect("into it");
        assert_eq!(cluster.lookup(a, dir, &new), Ok(file));
        cluster.call(a, rename(dir, &format!("{old}d"), dir, &format!("{new}d"))).expect("a directory");
        cluster.touch(a, below, "x");
        assert_eq!(cluster.lookup(a, dir, &format!("{new}d")), Ok(below));
        assert_eq!(cluster.attr(a, dir).map(|attr| (attr.size, attr.nlink)), Ok((42, 3)));
        cluster.call(a, unlink(below, "x")).expect("it is there");
        cluster.call(a, rmdir(dir, &format!("{new}d"))).expect("it is empty");
        cluster.call(a, unlink(dir, &new)).expect("it is there");
    }
    cluster.call(a, rename(Ino::ROOT, "d", other, "e")).expect("the directory itself");
    assert_eq!(cluster.attr(a, dir).map(|attr| (attr.size, attr.nlink)), Ok((40, 2)));
    cluster.finish();
}

#[test]
fn fragments_at_three_ranks_move_on_and_the_home_does_too() {
    let mut cluster = Cluster::new(3);
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    cluster.touch_all(a, dir, 30);
    let before = cluster.walk(a);
    let upper = Frag { bits: 1, value: 1 };
    let quarters = upper.split(1);
    cluster.migrate_frag(dir, upper, 0, 1);
    cluster.migrate_frag(dir, quarters[1], 1, 2);
    assert_eq!(cluster.walk(a), before);
    assert_eq!(cluster.attr(a, dir).map(|attr| attr.size), Ok(30));
    // The home to a rank that has a part.
    cluster.migrate(dir, 0, 2);
    assert_eq!(cluster.walk(a), before);
    assert_eq!(cluster.attr(a, dir).map(|attr| attr.size), Ok(30));
    cluster.finish();
}

#[test]
fn all_fragments_are_gathered() {
    let (mut cluster, a, dir, _) = halves();
    assert_eq!(cluster.admin(0, Ask::Gather { dir }), Told::Begun(0));
    cluster.wait_for("one line", |cluster| {
        let Told::Routes(routes) = cluster.admin(0, Ask::Routes) else { panic!("routes") };
        routes.iter().all(|route| route.frag == Frag::WHOLE)
    });
    assert_eq!(cluster.attr(a, dir).map(|attr| attr.size), Ok(40));
    cluster.finish();
}

#[test]
fn a_crash_of_either_side_at_any_message_of_a_migration_loses_nothing() {
    for (down, steps) in (0..2).flat_map(|down| (0..6).map(move |steps| (down, steps))) {
        let (mut cluster, a, dir, upper) = halves();
        let quarter = Frag { bits: 2, value: 1 };
        let before = cluster.walk(a);
        cluster.begin_frag(dir, quarter, 0, 1);
        cluster.begin_frag(dir, upper, 1, 0);
        cluster.hold(0, 1);
        for _ in 0..steps {
            for (from, to) in [(0, 1), (1, 0)] {
                if !cluster.waiting(from, to).is_empty() {
                    cluster.deliver(from, to);
                }
            }
            cluster.wait(200);
        }
        cluster.crash(down);
        cluster.release();
        cluster.wait(2000);
        assert_eq!(cluster.walk(a), before, "rank {down} after {steps} steps");
        assert_eq!(cluster.attr(a, dir).map(|attr| (attr.size, attr.nlink)), Ok((40, 2)));
        cluster.finish();
    }
}

/// Delivers what goes to rank 2 until the next is a letter with something that has moved.
fn deliver_until_it_moves(cluster: &mut Cluster, from: usize) {
    let moves = |msg: &&PeerMsg| matches!(msg, PeerMsg::Letter { letter, .. } if matches!(**letter, Letter::Import { .. } | Letter::Fragment { .. }));
    for _ in 0..100 {
        while cluster.waiting(from, 2).first().is_some_and(|msg| !moves(msg)) {
            cluster.deliver(from, 2);
        }
        while !cluster.waiting(2, from).is_empty() {
            cluster.deliver(2, from);
        }
        if cluster.waiting(from, 2).first().is_some_and(moves) {
            return;
        }
        cluster.wait(100);
    }
    panic!("no letter came from rank {from}");
}

#[test]
fn what_the_lines_of_others_say_is_a_ranks_is_so_when_the_letter_has_come() {
    let mut cluster = Cluster::new(3);
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    cluster.touch_all(a, dir, 30);
    let upper = Frag { bits: 1, value: 1 };
    cluster.migrate_frag(dir, upper, 0, 1);
    // Rank 1 counts those that are made now.
    let counted = name_in(&cluster, upper, "g");
    cluster.touch(a, dir, &counted);
    let before = cluster.walk(a);
    (0..2).for_each(|from| cluster.hold(from, 2));
    // What rank 1 has of it follows.
    cluster.begin_move(dir, 0, 2);
    (0..2).for_each(|from| deliver_until_it_moves(&mut cluster, from));
    // The table has the lines of both, and rank 2 reads them when it starts again, before it has either letter.
    cluster.wait(10_000);
    cluster.crash(2);
    deliver_until_it_moves(&mut cluster, 1);
    cluster.deliver(1, 2);
    cluster.wait(500);
    cluster.release();
    cluster.wait(2000);
    assert_eq!(cluster.walk(a), before);
    assert_eq!(cluster.attr(a, dir).map(|attr| (attr.size, attr.nlink)), Ok((31, 2)));
    cluster.finish();
}

#[test]
fn open_files_and_leases_move_with_a_fragment() {
    let (mut cluster, a, dir, upper) = halves();
    let text = name_in(&cluster, upper, "f");
    let (answer, asked) = cluster.call_by(a, 1, &create(dir, &text, WRITE, 77));
    let Ok(Answer::Opened { attr, .. }) = answer else { panic!("{answer:?}") };
    assert_eq!(asked, [1]);
    cluster.migrate_frag(dir, upper, 1, 0);
    cluster.call(a, unlink(dir, &text)).expect("it is there");
    assert_eq!(cluster.attr(a, attr.ino).map(|attr| attr.nlink), Ok(0), "it is open still");
    cluster.ask(a, 0, close(77));
    cluster.wait_for("its end", |cluster| cluster.attr(a, attr.ino).is_err());
    cluster.finish();
}

#[test]
fn a_fragment_that_cannot_be_moved_is_refused_with_what_to_do() {
    let (mut cluster, _, dir, upper) = halves();
    let ask = |frag, to| Ask::MigrateFrag { dir, frag, to: rank(to) };
    assert_eq!(cluster.admin(0, ask(upper, 0)), Told::Elsewhere(rank(1)));
    let first = Frag { bits: 2, value: 0 };
    let told = cluster.admin(0, ask(first, 1));
    let text = "the directory's own inode lives with fragment 0/2: move the others, or the directory as a whole";
    assert_eq!(told, Told::Refused(text.into()));
    cluster.finish();
}

#[test]
fn what_a_fragment_brings_to_a_directory_that_is_lent_is_counted_even_if_its_rank_crashes_before_the_decision_comes() {
    for crashes in [false, true] {
        let mut cluster = Cluster::new(3);
        let a = cluster.client();
        let (here, dir) = (cluster.mkdir(a, Ino::ROOT, "here"), cluster.mkdir(a, Ino::ROOT, "d"));
        cluster.migrate(dir, 0, 1);
        let (lower, upper) = (Frag { bits: 1, value: 0 }, Frag { bits: 1, value: 1 });
        cluster.migrate_frag(dir, upper, 1, 2);
        let sub = name_in(&cluster, upper, "sub");
        cluster.mkdir(a, dir, &sub);
        cluster.touch(a, dir, &name_in(&cluster, upper, "f"));
        cluster.touch(a, here, "f");
        let to = name_in(&cluster, lower, "b");
        // Rank 1 lends the directory to rank 0, and the other half of it comes before it hears what was decided.
        cluster.hold(0, 1);
        let seq = cluster.send(a, 0, rename(here, "f", dir, &to));
        while cluster.outcome(a, 0, seq).is_none() {
            if cluster.waiting(0, 1).iter().any(|msg| matches!(msg, PeerMsg::Borrow { .. })) {
                cluster.deliver(0, 1);
            } else {
                cluster.deliver(1, 0);
            }
        }
        cluster.migrate_frag(dir, upper, 2, 1);
        if crashes {
            cluster.kill(1);
            cluster.held.clear();
            cluster.start(1);
            cluster.come_back(a, 1, Default::default());
        }
        cluster.release();
        cluster.wait(500);
        assert_eq!(cluster.attr(a, dir).map(|attr| (attr.size, attr.nlink)), Ok((3, 3)), "crashes: {crashes}");
        cluster.finish();
    }
}

/// Ranks that split what has more than 8 entries, in two, and merge what has less than 2.
fn that_split_early(ranks: usize) -> Cluster {
    let frag = FragConfig { split_entries: 8, merge_entries: 2, split_bits: 1 };
    Cluster::with(&vec![RankState::Up; ranks], frag)
}

/// In how many fragments, as bits, a rank has cut what it has of a directory.
fn bits_at(cluster: &Cluster, at: usize, dir: Ino) -> u8 {
    cluster.world(at).mds.core.tree.peek(dir).map(|inode| inode.frag_bits).expect("it has some of it")
}

#[test]
fn each_rank_cuts_what_it_has_of_a_directory_as_it_grows_and_shrinks_and_keeps_that_over_a_crash() {
    let mut cluster = that_split_early(2);
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    let upper = Frag { bits: 1, value: 1 };
    cluster.migrate_frag(dir, upper, 0, 1);
    assert_eq!((bits_at(&cluster, 0, dir), bits_at(&cluster, 1, dir)), (0, 0));
    cluster.touch_all(a, dir, 200);
    cluster.wait(500);
    // 200 entries of 8 are 25 fragments, so 32; each rank knows only those of its half, and hashes are only nearly uniform.
    let grown = [bits_at(&cluster, 0, dir), bits_at(&cluster, 1, dir)];
    assert!(grown.iter().all(|bits| (4..=6).contains(bits)), "{grown:?}");
    assert!(cluster.world(1).mds.status().splits > 0);
    cluster.crash(1);
    cluster.wait(500);
    assert_eq!(bits_at(&cluster, 1, dir), grown[1]);
    // It knows its names only by the table now, and looks when more of them change.
    for n in 0..200 {
        cluster.call(a, unlink(dir, &format!("f{n}"))).expect("it is there");
    }
    cluster.wait(1000);
    assert_eq!((bits_at(&cluster, 0, dir), bits_at(&cluster, 1, dir)), (0, 0));
    assert!(cluster.world(1).mds.status().merges > 0);
    assert_eq!(cluster.attr(a, dir).map(|attr| attr.size), Ok(0));
    cluster.call(a, rmdir(Ino::ROOT, "d")).expect("it is empty");
    cluster.finish();
}

#[test]
fn a_change_of_mode_does_not_change_how_other_ranks_have_cut_a_directory_and_a_policy_does() {
    let mut cluster = that_split_early(2);
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    let upper = Frag { bits: 1, value: 1 };
    cluster.migrate_frag(dir, upper, 0, 1);
    let hash = |cluster: &Cluster, text: &str| cluster.world(0).mds.tree_hash(text);
    let all: Vec<String> =
        (0..150).map(|n| format!("f{n}")).filter(|text| upper.contains(hash(&cluster, text))).collect();
    all.iter().for_each(|text| _ = cluster.touch(a, dir, text));
    cluster.wait(500);
    let grown = bits_at(&cluster, 1, dir);
    assert!(grown > 2 && bits_at(&cluster, 0, dir) == 0, "rank 0 has no names of it");
    cluster.call(a, chmod(dir, 0o700)).expect("root may");
    assert_eq!((bits_at(&cluster, 0, dir), bits_at(&cluster, 1, dir)), (0, grown));
    let value = b"80000".as_slice().into();
    let set = Op::SetXattr {
        ino: dir,
        name: loligo_namespace::EXPECTED_ENTRIES.into(),
        value,
        mode: loligo_types::XattrMode::Set,
    };
    cluster.call(a, set).expect("root may");
    assert_eq!((bits_at(&cluster, 0, dir), bits_at(&cluster, 1, dir)), (14, 14));
    cluster.finish();
}

#[test]
fn fragments_of_one_rank_that_are_halves_of_one_get_one_line_again_which_all_learn() {
    for crashes in [false, true] {
        let (mut cluster, a, dir, upper) = halves();
        let before = cluster.walk(a);
        let quarters = upper.split(1);
        cluster.migrate_frag(dir, quarters[0], 1, 0);
        cluster.wait(300);
        cluster.migrate_frag(dir, quarters[0], 0, 1);
        if crashes {
            cluster.crash(1);
        }
        cluster.wait(500);
        for at in 0..2 {
            let lines = cluster.world(at).mds.cluster.atlas.routes.lines(dir);
            let who: Vec<(Frag, loligo_types::Rank)> = lines.iter().map(|line| (line.frag, line.rank)).collect();
            assert_eq!(who, [(Frag { bits: 1, value: 0 }, rank(0)), (upper, rank(1))], "at rank {at}");
        }
        assert_eq!(cluster.walk(a), before);
        cluster.crash(0);
        cluster.crash(1);
        assert_eq!(cluster.walk(a), before);
        cluster.finish();
    }
}

#[test]
fn new_names_in_a_fragment_that_came_from_another_rank_soon_cost_no_reads() {
    let (mut cluster, client, dir, upper) = halves();
    // More than are read to see how many there are.
    for n in 0..160 {
        let text = name_in(&cluster, upper, &format!("more{n}."));
        cluster.touch(client, dir, &text);
    }
    cluster.wait(5000);
    cluster.crash(1);
    cluster.wait(5000);
    let touch = |cluster: &mut Cluster, prefix: &str| {
        cluster.at(1, |world| world.read.clear());
        for n in 0..40 {
            let text = name_in(cluster, upper, &format!("{prefix}{n}."));
            cluster.touch(client, dir, &text);
        }
        let read = &cluster.world(1).read;
        let count = |what: fn(&Need) -> bool| read.iter().filter(|need| what(need)).count();
        (count(|need| matches!(need, Need::Entry { .. })), count(|need| matches!(need, Need::Hashes { .. })))
    };
    let (first, hashes) = touch(&mut cluster, "a");
    assert!(first > 0 && hashes == first, "{first} names and {hashes} times hashes");
    touch(&mut cluster, "b");
    touch(&mut cluster, "c");
    let (then, _) = touch(&mut cluster, "d");
    assert!(2 * then < first, "{then} names after {first}");
    // There and back: what was known of the names is no more.
    cluster.migrate_frag(dir, upper, 1, 0);
    for n in 0..40 {
        let text = name_in(&cluster, upper, &format!("e{n}."));
        cluster.touch(client, dir, &text);
    }
    cluster.wait(5000);
    cluster.migrate_frag(dir, upper, 0, 1);
    for prefix in ["a", "b", "c", "d", "e"] {
        for n in 0..40 {
            let text = name_in(&cluster, upper, &format!("{prefix}{n}."));
            assert_eq!(cluster.call(client, mkdir(dir, &text)), Err(FsError::Exists), "{text}");
        }
    }
    cluster.finish();
}

fn say(ino: Ino, policy: &[u8], value: &str) -> Op {
    Op::SetXattr { ino, name: policy.into(), value: value.as_bytes().into(), mode: XattrMode::Set }
}

/// The ranks that have some of a directory, as its lines at a rank say.
fn ranks_of(cluster: &mut Cluster, at: usize, dir: Ino) -> BTreeSet<Rank> {
    let Told::Routes(lines) = cluster.admin(at, Ask::Routes) else { panic!("these are the lines") };
    lines.into_iter().filter(|line| line.dir == dir).map(|line| line.rank).collect()
}

/// Some ranks that cut directories early, a client, a directory that scatters, and an empty one in it that lives at rank 1.
fn empty_at_1(ranks: usize) -> (Cluster, usize, Ino) {
    let frag = FragConfig { split_entries: 16, merge_entries: 1, split_bits: 1 };
    let mut cluster = Cluster::with(&vec![RankState::Up; ranks], frag);
    let a = cluster.client();
    let top = cluster.mkdir(a, Ino::ROOT, "top");
    cluster.call(a, say(top, PLACEMENT, "giga")).expect("root may");
    let mut made = (0..100).map(|n| cluster.mkdir(a, top, &format!("d{n}")));
    let dir = made.find(|dir| dir.zeroth_rank() == Some(rank(1))).expect("there is one");
    drop(made);
    (cluster, a, dir)
}

/// Names of a directory are made at all ranks that have some of it, and stay over crashes of all.
fn is_used(cluster: &mut Cluster, a: usize, dir: Ino) {
    let files: Vec<Ino> = (0..40).map(|n| cluster.touch(a, dir, &format!("f{n}"))).collect();
    let makers: BTreeSet<Rank> = files.iter().map(|file| file.birth_rank()).collect();
    assert_eq!(makers.len(), cluster.len(), "each rank made some of them: {makers:?}");
    for at in 0..cluster.len() {
        cluster.crash(at);
    }
    for (n, file) in files.into_iter().enumerate() {
        assert_eq!(cluster.lookup(a, dir, &format!("f{n}")), Ok(file));
    }
    assert_eq!(cluster.attr(a, dir).map(|attr| attr.size), Ok(40));
}

#[test]
fn a_scattered_directory_that_will_be_large_comes_to_all_ranks_while_it_is_empty() {
    let (mut cluster, a, dir) = empty_at_1(4);
    // 64 entries are four fragments of 16.
    cluster.call(a, say(dir, EXPECTED_ENTRIES, "64")).expect("root may");
    cluster.wait_for("all ranks to have some of it", |cluster| ranks_of(cluster, 1, dir).len() == 4);
    assert_eq!(cluster.attr(a, dir).map(|attr| (attr.size, attr.nlink)), Ok((0, 2)));
    is_used(&mut cluster, a, dir);
    cluster.finish();
}

#[test]
fn so_does_one_that_is_expected_to_be_large_and_scatters_later_by_attribute_or_by_document() {
    for (policy, value) in [(PLACEMENT, "replicated"), (SUBTREE, "placement = 'giga'")] {
        let frag = FragConfig { split_entries: 16, merge_entries: 1, split_bits: 1 };
        let mut cluster = Cluster::with(&[RankState::Up; 3], frag);
        let a = cluster.client();
        let dir = cluster.mkdir(a, Ino::ROOT, "d");
        cluster.call(a, say(dir, EXPECTED_ENTRIES, "1000")).expect("root may");
        cluster.wait(6000);
        assert_eq!(ranks_of(&mut cluster, 0, dir), BTreeSet::new(), "where a directory lives its name says");
        cluster.call(a, say(dir, policy, value)).expect("root may");
        cluster.wait_for("all ranks to have some of it", |cluster| ranks_of(cluster, 0, dir).len() == 3);
        is_used(&mut cluster, a, dir);
        cluster.finish();
    }
}

#[test]
fn one_that_will_be_large_comes_to_all_ranks_whoever_dies_on_the_way() {
    for dies in [vec![0], vec![1], vec![2], vec![0, 1, 2]] {
        for after_ms in [0, 100, 200, 400, 800, 1600, 6000] {
            let (mut cluster, a, dir) = empty_at_1(3);
            cluster.call(a, say(dir, EXPECTED_ENTRIES, "1000")).expect("root may");
            cluster.wait(after_ms);
            for at in &dies {
                cluster.crash(*at);
            }
            // A rank that has forgotten what it had in memory learns of it with the first that somebody asks for.
            cluster.attr(a, dir).expect("it is there");
            cluster.wait_for("all ranks to have some of it", |cluster| ranks_of(cluster, 1, dir).len() == 3);
            is_used(&mut cluster, a, dir);
            cluster.finish();
        }
    }
}
