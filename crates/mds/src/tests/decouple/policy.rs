//! The policy of a root while it is decoupled: its owner's to change, who brings what is outstanding to it first.

use std::sync::Arc;

use super::*;

#[test]
fn while_it_is_decoupled_its_policy_is_changed_through_its_owner_alone() {
    let (mut world, a, b, dir, _) = scene();
    let name: Arc<[u8]> = b"loligo.policy.subtree"[..].into();
    let set = |text: &str| Op::SetXattr {
        ino: dir,
        name: b"loligo.policy.subtree"[..].into(),
        value: text.as_bytes().into(),
        mode: loligo_types::XattrMode::Set,
    };
    world.call(b, set("preset = 'ramdisk'")).expect("nobody has it");
    let mut owner = Owner::new(&mut world, a, dir, 100).expect("nobody has it");
    assert_eq!(world.call(b, set("preset = 'posix'")), Err(FsError::Busy));
    assert_eq!(world.call(b, Op::RemoveXattr { ino: dir, name: name.clone() }), Err(FsError::Busy));
    world.call(b, Op::GetXattr { ino: dir, name: name.clone() }).expect("everybody reads it");
    world.call(a, set("preset = 'batchfs'")).expect("its owner may");
    owner.end(&mut world).expect("it is his");
    world.call(b, set("preset = 'posix'")).expect("nobody has it");
}
