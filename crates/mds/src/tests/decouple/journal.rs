//! How long the journal is kept for a merge.

use super::*;

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
    assert_eq!(world.mds.tree.oldest_dirty(), None, "nothing is held for ever");
}
