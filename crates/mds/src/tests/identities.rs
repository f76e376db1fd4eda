//! Clients with an identity: what a read-only one is refused, and what ends when one is revoked.

use std::sync::Arc;

use loligo_types::msg::{Refusal, ToClient, ToServer};
use loligo_types::{Access, Control, FsError, Ino, Kind, Op, OpenFlags, RenameMode, SetAttr, SetTime, XattrMode};

use super::*;
use crate::{Identity, Input, Peer, Rights};

fn peer(key: u8, read_only: bool) -> Peer {
    let identity = Identity { key: [key; 32], name: key.to_string(), rights: Rights::everywhere(!read_only) };
    Peer { uid: None, groups: Vec::new(), trusted: true, local: false, identity: Some(Arc::new(identity)) }
}

#[test]
fn a_read_only_identity_is_refused_every_change_by_any_user() {
    let mut world = World::new();
    let a = world.client_from_afar(peer(1, true));
    let (ino, dir, new_dir) = (Ino::ROOT, Ino::ROOT, Ino::ROOT);
    let (name, new_name) = (name("n"), name("m"));
    let value: Arc<[u8]> = (*b"user.x").into();
    let flags = OpenFlags { read: true, ..OpenFlags::default() };
    let (mode, umask, handle, mtime) = (0o644, 0, 1, SetTime::Now);
    let atime = SetAttr { atime: Some(SetTime::Now), ..SetAttr::default() };
    let changes = [
        Op::SetAttr { ino, set: atime, handle: None },
        Op::Open { ino, flags: OpenFlags { write: true, ..flags }, handle },
        Op::Open { ino, flags: OpenFlags { truncate: true, ..flags }, handle },
        Op::Open { ino, flags: OpenFlags { append: true, ..flags }, handle },
        Op::Create { dir, name: name.clone(), mode, umask, flags, exclusive: false, handle },
        Op::Tmpfile { dir, mode, umask, flags, linkable: true, handle },
        Op::Mknod { dir, name: name.clone(), kind: Kind::Fifo, mode, umask, rdev: 0 },
        Op::Mkdir { dir, name: name.clone(), mode, umask },
        Op::Symlink { dir, name: name.clone(), target: value.clone() },
        Op::Link { ino, dir, name: name.clone() },
        Op::Unlink { dir, name: name.clone() },
        Op::Rmdir { dir, name: name.clone() },
        Op::Rename { dir, name, new_dir, new_name, mode: RenameMode::Replace },
        Op::SetXattr { ino, name: value.clone(), value: value.clone(), mode: XattrMode::Set },
        Op::RemoveXattr { ino, name: value.clone() },
        Op::Access { ino, want: Access { write: true, ..Access::default() } },
        Op::WriteInline { ino, handle, offset: None, data: value, mtime, kill_priv: false },
        Op::SetData {
            ino,
            handle,
            cuts: 0,
            grow_to: None,
            behind: None,
            mtime,
            spilled: false,
            kill_priv: false,
            patches: None,
        },
        Op::Extend { ino, handle, len: 1 },
        Op::Control(Control::GrantInos { count: 1 }),
    ];
    for op in changes {
        assert_eq!(world.call(a, op.clone()).err(), Some(FsError::ReadOnly), "{op:?}");
        // Nor with the way to it.
        if let Some(what) = op.clone().done_at(Ino(0)) {
            let (names, by) = ([crate::tests::harness::name("way")].into(), loligo_types::Replicas::Unused);
            let via = Op::Via { dir, names, by, what: Box::new(what) };
            assert_eq!(world.call(a, via).err(), Some(FsError::ReadOnly), "{op:?}");
        }
    }
    let read = Access { read: true, ..Access::default() };
    for op in [Op::GetAttr { ino }, Op::Access { ino, want: read }] {
        assert!(world.call(a, op.clone()).is_ok(), "{op:?}");
    }
}

#[test]
fn sessions_of_identities_that_are_not_left_are_evicted_and_no_others() {
    let mut world = World::new();
    let (a, b) = (world.client_from_afar(peer(1, false)), world.client_from_afar(peer(2, false)));
    let (away, c) = (world.client_from_afar(peer(1, false)), world.client());
    world.disconnect(away);
    world.input(Input::Identities(Arc::new([[2; 32]].into())));
    assert_eq!(world.mds.status().evicted, 2, "one of them has lost its connection");
    world.sync();
    assert!(world.clients[a].closed);
    for at in [b, c] {
        assert!(world.call(at, Op::GetAttr { ino: Ino::ROOT }).is_ok());
    }
}

/// Begins a session with this peer: why it is refused, if it is.
fn begins(world: &mut World, peer: Peer) -> Result<usize, String> {
    let at = world.client_from_afar(peer);
    match world.clients[at].inbox.pop_front() {
        Some(ToClient::Refused { why: Refusal::TooMany, text }) => Err(text),
        Some(other) => panic!("instead of a welcome: {other:?}"),
        None => Ok(at),
    }
}

#[test]
fn one_identity_takes_half_of_the_sessions_and_many_together_leave_some_to_the_next() {
    let mut world = World::with(crate::Config { sessions_max: 64, ..config() });
    let taken = |world: &mut World, key: u8| {
        let mut count = 0;
        while begins(world, peer(key, false)).is_ok() {
            count += 1;
        }
        count
    };
    assert_eq!([1, 2, 3].map(|key| taken(&mut world, key)), [32, 16, 8]);
    let text = begins(&mut world, peer(1, true)).expect_err("it has its share");
    assert!(text.contains("this identity has 32 sessions") && text.contains("8 of 64 are free"), "{text}");
    // The owner of the file system has no share, and an identity that has nothing gets something.
    let own = world.client();
    assert!(world.call(own, Op::GetAttr { ino: Ino::ROOT }).is_ok());
    let last = begins(&mut world, peer(9, false)).expect("some are left");
    // Lost connections change nothing; a session that is resumed needs no new place; one that ends leaves its place.
    world.disconnect(last);
    assert!(begins(&mut world, peer(1, false)).is_err());
    world.resume(last);
    assert!(world.call(last, Op::GetAttr { ino: Ino::ROOT }).is_ok());
    let text = loop {
        let key = 10 + world.clients.len() as u8;
        match begins(&mut world, peer(key, false)) {
            Ok(_) => continue,
            Err(text) => break text,
        }
    };
    assert!(text.contains("the server has 64 sessions"), "{text}");
    world.message(0, ToServer::Goodbye { gone: true });
    assert!(begins(&mut world, peer(8, false)).is_ok());
}

#[test]
fn a_user_who_acts_for_himself_alone_takes_half_of_the_sessions() {
    let mut world = World::with(crate::Config { sessions_max: 8, ..config() });
    let user = |uid| Peer { uid: Some(uid), groups: vec![uid], trusted: false, local: false, identity: None };
    for _ in 0..4 {
        begins(&mut world, user(1000)).expect("there is room");
    }
    let text = begins(&mut world, user(1000)).expect_err("it has its share");
    assert!(text.contains("this user has 4 sessions"), "{text}");
    begins(&mut world, user(1001)).expect("another one has not");
    for _ in 0..3 {
        let root = world.client();
        assert!(world.call(root, Op::GetAttr { ino: Ino::ROOT }).is_ok());
    }
}
