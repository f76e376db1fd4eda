//! Xattrs in a merge: how many bytes an inode has of them at most, and whether it says that it has some. Policies, which are xattrs that a rank
//! sets, may come and go while their directory is decoupled.

use loligo_types::XattrMode;
use loligo_types::limits::XATTR_TOTAL_MAX;

use super::allow::faults;
use super::escape::merge_used;
use super::*;

const POLICY: &str = "loligo.policy.subtree";

fn set(ino: Ino, text: &str, value: &[u8]) -> Op {
    Op::SetXattr { ino, name: text.as_bytes().into(), value: value.into(), mode: XattrMode::Set }
}

fn remove(ino: Ino, text: &str) -> Op {
    Op::RemoveXattr { ino, name: text.as_bytes().into() }
}

/// Which of these an inode has.
fn has(world: &mut World, at: usize, ino: Ino, names: &[&'static str]) -> Vec<&'static str> {
    let mut there = Vec::new();
    for name in names {
        match world.call(at, Op::GetXattr { ino, name: name.as_bytes().into() }) {
            Ok(_) => there.push(*name),
            Err(error) => assert_eq!(error, FsError::NoData),
        }
    }
    there
}

/// Sends these events as one part and merges them.
fn merge_events(world: &mut World, owner: &Owner, events: &[Event]) -> FsResult<()> {
    merge_used(world, owner, events, false, (owner.subtree.used(), MergeInto::Memory))
}

#[test]
fn a_merge_leaves_an_inode_no_more_bytes_of_xattrs_than_setting_them_would() {
    let (mut world, a, b, dir, old) = scene();
    for n in 0..4 {
        world.call(b, set(old, &format!("user.{n}"), &vec![7; 60_000])).expect("there is room");
    }
    let rest = XATTR_TOTAL_MAX - 4 * ("user.0".len() + 1 + 60_000) - ("user.x".len() + 1);
    assert_eq!(world.call(b, set(old, "user.x", &vec![7; rest + 1])), Err(FsError::NoSpace));
    let owner = Owner::new(&mut world, a, dir, 100).expect("nobody has it");
    let inode = world.mds.core.tree.inode(old).expect("it was just changed").clone();
    let state = || Event::Inode(Box::new(inode.clone()));
    let with = |value: Vec<u8>| {
        let xattr = Event::Xattr { ino: old, name: b"user.x"[..].into(), value: value.into() };
        [state(), xattr, state()]
    };
    assert_eq!(merge_events(&mut world, &owner, &with(vec![8; rest + 1])), Err(FsError::Invalid));
    assert_eq!(merge_events(&mut world, &owner, &with(vec![8; rest])), Ok(()));
    ask(&mut world, a, dir, SubtreeOp::End { epoch: owner.epoch() }).expect("his");
    assert_eq!(has(&mut world, b, old, &["user.0", "user.3", "user.x"]).len(), 3);
    assert_eq!(faults(&mut world), Vec::<String>::new());
}

#[test]
fn a_policy_that_came_while_its_directory_was_decoupled_is_there_after_its_owner_took_all_xattrs_away() {
    let (mut world, a, b, dir, _) = scene();
    world.call(b, set(dir, "user.x", b"1")).expect("nobody has it");
    let mut owner = Owner::new(&mut world, a, dir, 100).expect("nobody has it");
    owner.run(&mut world, &remove(dir, "user.x")).expect("his");
    world.call(a, set(dir, POLICY, b"preset = 'batchfs'")).expect("its owner may");
    owner.merge(&mut world).expect("it is honest");
    owner.end(&mut world).expect("his");
    assert_eq!(has(&mut world, b, dir, &[POLICY, "user.x"]), [POLICY]);
    assert_eq!(faults(&mut world), Vec::<String>::new());
}

#[test]
fn an_xattr_that_an_owner_set_is_seen_although_the_policy_that_was_there_has_gone_meanwhile() {
    let (mut world, a, b, dir, old) = scene();
    world.call(b, set(dir, POLICY, b"preset = 'batchfs'")).expect("nobody has it");
    let mut owner = Owner::new(&mut world, a, dir, 100).expect("nobody has it");
    owner.run(&mut world, &set(dir, "user.x", b"1")).expect("his");
    owner.run(&mut world, &set(old, "user.y", b"1")).expect("his");
    owner.run(&mut world, &remove(old, "user.y")).expect("his");
    world.call(a, remove(dir, POLICY)).expect("its owner may");
    owner.merge(&mut world).expect("it is honest");
    owner.end(&mut world).expect("his");
    assert_eq!(has(&mut world, b, dir, &[POLICY, "user.x"]), ["user.x"]);
    assert_eq!(has(&mut world, b, old, &["user.y"]), Vec::<&str>::new());
    assert_eq!(faults(&mut world), Vec::<String>::new());
}
