//! Files of a decoupled subtree that have a name outside of it, too.

use super::*;
use crate::tests::cluster_harness::rename;

fn open_op(ino: Ino, handle: u64) -> Op {
    Op::Open { ino, flags: WRITE, handle }
}

#[test]
fn a_file_in_it_is_not_changed_or_opened_through_a_name_outside_before_it_is_given_back() {
    let (mut world, a, b, dir, _) = scene();
    let file = world.create(a, Ino::ROOT, "out", WRITE, 4).ino;
    world.call(a, close(4)).expect("it is open");
    // The last name that it got is the one that counts.
    world.call(a, Op::Link { ino: file, dir, name: name("in") }).expect("root may");
    world.create(b, Ino::ROOT, "other", WRITE, 5);
    world.call(b, close(5)).expect("it is open");
    let mut owner = Owner::new(&mut world, a, dir, 100).expect("free");
    let rename = |from, to| rename(Ino::ROOT, from, Ino::ROOT, to);
    let open = |exclusive| Op::Create {
        dir: Ino::ROOT,
        name: name("out"),
        mode: 0o644,
        umask: 0,
        flags: WRITE,
        exclusive,
        handle: 6,
    };
    for op in [unlink(Ino::ROOT, "out"), rename("other", "out"), rename("out", "away"), open(false)] {
        assert_eq!(world.call(b, op.clone()), Err(FsError::Busy), "{op:?}");
    }
    owner.run(&mut world, &unlink(dir, "in")).expect("his");
    owner.merge(&mut world).expect("his");
    owner.end(&mut world).expect("his");
    assert_eq!(world.lookup(b, Ino::ROOT, "out").map(|attr| (attr.ino, attr.nlink)), Ok((file, 1)));
    world.call(b, unlink(Ino::ROOT, "out")).expect("root may");
    assert!(world.call(b, Op::GetAttr { ino: file }).is_err(), "nothing of it is left");
}

#[test]
fn a_file_in_it_that_nothing_counts_any_more_is_its_owners_once_it_has_found_it() {
    let (mut world, a, b, dir, _) = scene();
    let side = world.mkdir(a, Ino::ROOT, "side").ino;
    let file = world.create(a, dir, "in", WRITE, 4).ino;
    world.call(a, close(4)).expect("it is open");
    world.call(a, Op::Link { ino: file, dir: side, name: name("out") }).expect("root may");
    world.call(a, unlink(side, "out")).expect("root may");
    world.call(a, Op::Rmdir { dir: Ino::ROOT, name: name("side") }).expect("it is empty");
    world.call(b, open_op(file, 5)).expect("it is known by its number");
    let mut owner = Owner::new(&mut world, a, dir, 100).expect("nothing is known to be in use below it");
    let look = Op::Lookup { dir, name: name("in") };
    let what = SubtreeOp::Fetch { epoch: owner.epoch(), needs: vec![loligo_types::Need::Inode(file)] };
    let seq = world.send(a, Op::Control(Control::Subtree { dir, what: Box::new(what) }));
    assert_eq!(world.reply(a, seq), None, "somebody has it open");
    world.call(b, close(5)).expect("it is open");
    world.tick();
    assert!(world.reply(a, seq).is_some_and(|(result, _)| result.is_ok()), "nobody has it any more");
    let found = owner.run(&mut world, &look).expect("nobody has it open").attr().map(|attr| attr.ino);
    assert_eq!(found, Some(file));
    for op in [open_op(file, 6), Op::GetAttr { ino: file }, Op::ListXattr { ino: file }] {
        assert_eq!(world.call(b, op.clone()), Err(FsError::Busy), "{op:?}");
    }
    owner.run(&mut world, &write_inline(file, 1, 0, b"his")).expect("his");
    owner.merge(&mut world).expect("his");
    assert_eq!(world.call(b, open_op(file, 6)), Err(FsError::Busy));
    owner.end(&mut world).expect("his");
    world.call(b, open_op(file, 6)).expect("it is all's");
}
