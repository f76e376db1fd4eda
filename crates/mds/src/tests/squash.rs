//! Clients that may not act as root: identities that are squashed, and users of this machine. What they do in the name of root, and what they
//! say, or leave out, of privileges.

use std::sync::Arc;

use loligo_types::{Answer, FsError, Ino, Kind, Op, OpenFlags, SetAttr, XattrMode};

use super::*;
use crate::{Identity, NOBODY, Peer, Rights, Squash};

fn squashed(squash: Squash) -> Peer {
    let rights = Rights::everywhere(true).squashing(squash);
    let identity = Identity { key: [3; 32], name: "far".into(), rights };
    Peer { uid: None, groups: Vec::new(), trusted: true, local: false, identity: Some(Arc::new(identity)) }
}

fn user(uid: u32) -> Peer {
    Peer { uid: Some(uid), groups: vec![uid], trusted: false, local: false, identity: None }
}

/// A client that acts for this user.
fn client_for(world: &mut World, uid: u32, peer: Peer) -> usize {
    let at = world.client_from_afar(peer);
    world.clients[at].uid = uid;
    at
}

fn mode_of(world: &mut World, at: usize, ino: Ino) -> u16 {
    match world.call(at, Op::GetAttr { ino }) {
        Ok(Answer::Entry(attr)) => attr.mode,
        other => panic!("{other:?}"),
    }
}

/// Root of this machine, with a directory for all, and in it a file of root's with this mode.
fn world_with(mode: u16) -> (World, usize, Ino, Ino) {
    let mut world = World::new();
    let root = world.client();
    let dir = world.mkdir(root, Ino::ROOT, "d").ino;
    world.call(root, chmod(dir, 0o777)).expect("its owner");
    let file = world.create(root, dir, "f", WRITE, 1).ino;
    world.call(root, close(1)).expect("it is open");
    world.call(root, chmod(file, mode)).expect("its owner");
    (world, root, dir, file)
}

#[test]
fn root_of_a_host_that_is_squashed_is_nobody() {
    for squash in [Squash::Root, Squash::All] {
        let (mut world, _, dir, secret) = world_with(0o600);
        let far = world.client_from_afar(squashed(squash));
        let attr = world.create(far, dir, "new", WRITE, 1);
        assert_eq!((attr.uid, attr.gid), (NOBODY, NOBODY));
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        assert_eq!(world.call(far, Op::Open { ino: secret, flags, handle: 2 }).err(), Some(FsError::Access));
        let set = SetAttr { uid: Some(0), ..SetAttr::default() };
        assert_eq!(world.call(far, Op::SetAttr { ino: attr.ino, set, handle: None }).err(), Some(FsError::Perm));
        let (mode, umask) = (0o666, 0);
        let device = Op::Mknod { dir, name: name("sda"), kind: Kind::Block, mode, umask, rdev: 0x800 };
        assert_eq!(world.call(far, device).err(), Some(FsError::Perm));
        let (xattr, value): (Arc<[u8]>, Arc<[u8]>) = ((*b"security.capability").into(), (*b"x").into());
        let capability = Op::SetXattr { ino: attr.ino, name: xattr, value, mode: XattrMode::Set };
        assert_eq!(world.call(far, capability).err(), Some(FsError::Perm));
    }
}

#[test]
fn other_users_of_a_host_whose_root_is_squashed_are_themselves_and_with_all_squashed_they_are_not() {
    for (squash, uid) in [(Squash::None, 1000), (Squash::Root, 1000), (Squash::All, NOBODY)] {
        let (mut world, _, dir, _) = world_with(0o600);
        let far = client_for(&mut world, 1000, squashed(squash));
        assert_eq!(world.create(far, dir, "new", WRITE, 1).uid, uid, "{squash}");
    }
}

#[test]
fn who_may_not_act_as_root_is_not_believed_that_a_writer_has_cap_fsetid() {
    for peer in [squashed(Squash::Root), user(1000)] {
        let (mut world, root, _, file) = world_with(0o666);
        let at = client_for(&mut world, 1000, peer);
        world.open(at, file, WRITE, 1);
        // It had none when it was opened.
        world.call(root, chmod(file, 0o6777)).expect("its owner");
        world.call(at, write_inline(file, 1, 0, b"x")).expect("it is open for writing");
        assert_eq!(mode_of(&mut world, root, file), 0o777);
    }
    let (mut world, root, _, file) = world_with(0o6777);
    let far = client_for(&mut world, 1000, squashed(Squash::None));
    world.open(far, file, WRITE, 1);
    world.call(far, write_inline(file, 1, 0, b"x")).expect("it is open for writing");
    assert_eq!(mode_of(&mut world, root, file), 0o6777, "it could say that it is root");
}

#[test]
fn what_is_open_for_writing_to_a_client_that_may_not_act_as_root_has_no_privileges() {
    for peer in [squashed(Squash::Root), user(1000)] {
        let (mut world, root, _, file) = world_with(0o6777);
        let (xattr, value): (Arc<[u8]>, Arc<[u8]>) = ((*b"security.capability").into(), (*b"x").into());
        let set = Op::SetXattr { ino: file, name: xattr.clone(), value, mode: XattrMode::Set };
        world.call(root, set).expect("root may");
        let at = client_for(&mut world, 1000, peer);
        let read = OpenFlags { read: true, ..OpenFlags::default() };
        world.open(at, file, read, 1);
        assert_eq!(mode_of(&mut world, root, file), 0o6777);
        let (attr, _) = world.open(at, file, WRITE, 2);
        assert_eq!(attr.mode, 0o777, "it may write data from now on, and not say so");
        assert_eq!(mode_of(&mut world, root, file), 0o777);
        let get = Op::GetXattr { ino: file, name: xattr };
        assert_eq!(world.call(root, get).err(), Some(FsError::NoData));
    }
}

#[test]
fn after_a_restart_a_squashed_client_gets_back_what_a_user_of_its_host_could_have_open() {
    for (squash, mode, handles) in [
        (Squash::None, 0o600, 1),
        (Squash::Root, 0o600, 0),
        (Squash::Root, 0o640, 0),
        (Squash::Root, 0o602, 1),
        (Squash::Root, 0o4602, 0),
        (Squash::All, 0o602, 1),
        (Squash::All, 0o600, 0),
    ] {
        let (mut world, root, _, file) = world_with(mode);
        let far = world.client_from_afar(squashed(squash));
        // Of a session that changed nothing a restart knows nothing.
        world.call(far, mkdir(Ino::ROOT, "x")).err();
        world.checkpoint_one();
        world.crash();
        world.resume(root);
        world.reclaim(root, loligo_types::msg::Reclaim::default());
        world.resume(far);
        let opens = vec![(7, file, OpenFlags { write: true, ..OpenFlags::default() }, loligo_types::Lease::NONE)];
        world.reclaim(far, loligo_types::msg::Reclaim { opens, ..Default::default() });
        assert!(world.mds.status().grace.is_none(), "all are back");
        let told = world.call(far, write_inline(file, 7, 0, b"x"));
        assert_eq!(told.is_ok(), handles == 1, "{squash} {mode:o}: {told:?}");
    }
}
