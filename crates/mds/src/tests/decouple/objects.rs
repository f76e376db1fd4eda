//! The owner's access to the objects of its files, and the rest of those that are none in the end.

use loligo_types::StoredJournal;

use super::*;

#[test]
fn the_owner_reaches_the_objects_of_its_files_and_what_is_no_file_in_the_end_is_dropped() {
    let (mut world, a, b, dir, old) = scene();
    let elsewhere = world.create(b, Ino::ROOT, "elsewhere", WRITE, 9).ino;
    let mut owner = Owner::new(&mut world, a, dir, 100).expect("nobody has it");
    let (epoch, session) = (owner.epoch(), world.session(a));
    let made = owner.made(&mut world, &create(dir, "big", WRITE, 1));
    let unmade = Ino(made.0 + 1);
    let right = |world: &World, ino| world.access.get(&(session, ino)).copied();
    assert_eq!(right(&world, made), None, "nobody was told of it");
    let journals = owner.subtree.record().journal_inos();
    ask(&mut world, a, dir, SubtreeOp::Data { epoch, inos: vec![made, old, journals[0]] }).expect("they are its own");
    for ino in [made, unmade, old, journals[0], journals[1]] {
        assert_eq!(right(&world, ino), Some(crate::DataAccess::Write), "{ino}");
    }
    for (ino, why) in [(elsewhere, FsError::NotFound), (dir, FsError::Invalid), (Ino(1 << 40), FsError::NotFound)] {
        assert_eq!(ask(&mut world, a, dir, SubtreeOp::Data { epoch, inos: vec![ino] }), Err(why), "{ino}");
    }
    let journal = StoredJournal { ino: made, bytes: 10 };
    assert_eq!(ask(&mut world, a, dir, SubtreeOp::Keep { epoch, journal }), Err(FsError::Invalid), "that is a file's");
    let journal = StoredJournal { ino: journals[1], bytes: 10 };
    ask(&mut world, a, dir, SubtreeOp::Keep { epoch, journal }).expect("that is reserved for it");
    owner.merge(&mut world).expect("it is his");
    world.crash();
    let record = world.mds.core.tree.decoupled(dir).cloned().expect("it is kept");
    assert_eq!((record.journal, record.objects.len()), (Some(journal), 1), "{record:?}");
    for at in [a, b] {
        world.resume(at);
        world.reclaim(at, loligo_types::msg::Reclaim::default());
    }
    world.discards = false;
    told(ask(&mut world, a, dir, decouple_op(77, epoch, 1))).expect("it goes on");
    ask(&mut world, a, dir, SubtreeOp::Data { epoch, inos: vec![made, old] })
        .expect("they are files of the subtree by now");
    owner.end(&mut world).expect("it is his");
    let dropped: std::collections::BTreeSet<Ino> = world.pending_discards.iter().map(|(ino, _)| *ino).collect();
    assert!(!dropped.contains(&made) && !dropped.contains(&old), "{dropped:?}");
    assert!(dropped.contains(&unmade) && dropped.contains(&journals[1]), "{dropped:?}");
    for ino in [made, unmade, old, journals[0]] {
        let right = right(&world, ino);
        assert!(matches!(right, None | Some(crate::DataAccess::None)), "{ino}: {right:?}");
    }
}
