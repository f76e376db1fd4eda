//! Time for which the journal is kept for a merge.

use super::*;
use crate::Input;

#[test]
fn a_journal_is_not_trimmed_below_a_merge_before_all_of_it_is_in_the_table() {
    let mut world = World::with(crate::Config { dirty_ms_max: 50, checkpoint_records: 60, ..config() });
    let a = world.client();
    let dir = world.mkdir(a, Ino::ROOT, "job").ino;
    let mut owner = Owner::new(&mut world, a, dir, 10_000).expect("free");
    (0..600).for_each(|n| _ = owner.write(&mut world, dir, &format!("file{n}"), b"x"));
    world.checkpoints = false;
    owner.merge(&mut world).expect("his");
    let mut states: BTreeMap<bool, usize> = BTreeMap::new();
    for _ in 0..50 {
        world.checkpoints = false;
        world.wait_alive(100);
        if !world.pending_checkpoints.is_empty() {
            world.checkpoint_one();
        }
        // A copy of what is on disk now starts anew.
        let mut copy = World::new();
        (copy.table, copy.journal, copy.trimmed) = (world.table.clone(), world.journal.clone(), world.trimmed);
        copy.crash();
        copy.wait(20_000);
        let b = copy.client();
        assert!((0..600).all(|n| copy.lookup(b, dir, &format!("file{n}")).is_ok()));
        *states.entry(world.table.len() > 1200).or_default() += 1;
    }
    assert!(states.len() == 2, "before and after: {states:?}");
    world.checkpoints = true;
    (0..20).for_each(|_| world.wait_alive(100));
    assert_eq!(world.mds.core.tree.oldest_dirty(), None, "nothing is held for ever");
}

#[test]
fn while_the_journal_cannot_be_written_parts_are_refused_and_when_it_can_they_are_sent_again_and_merged() {
    let (mut world, a, b, dir, _) = scene();
    let other = world.mkdir(b, Ino::ROOT, "other").ino;
    let mut owner = Owner::new(&mut world, a, dir, 100).expect("nobody has it");
    owner.write(&mut world, dir, "new", b"data");
    let groups = owner.subtree.groups();
    owner.send_parts(&mut world, &groups[0]).expect("there is room");
    world.input(Input::JournalFull(true));
    assert_eq!(owner.send_parts(&mut world, &groups[0]), Err(FsError::NoSpace));
    let fresh = decouple_op(78, 0, 10);
    assert_eq!(ask(&mut world, b, other, fresh), Err(FsError::NoSpace), "another one");
    let again = decouple_op(77, owner.epoch(), 1);
    told(ask(&mut world, a, dir, again)).expect("the owner goes on, or it would be lost");
    world.input(Input::JournalFull(false));
    owner.merge(&mut world).expect("it is sent again");
    owner.end(&mut world).expect("his");
    assert!(world.lookup(b, dir, "new").is_ok_and(|attr| attr.size == 4));
}
