//! Files of a decoupled subtree that have a name outside of it, too.

use super::*;
use crate::tests::cluster_harness::rename;

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
