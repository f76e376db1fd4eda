//! Clients with an identity: what a read-only one is refused, and what ends when one is revoked.

use std::sync::Arc;

use loligo_types::{Access, FsError, Ino, Kind, Op, OpenFlags, RenameMode, SetAttr, SetTime, XattrMode};

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
        Op::SetData { ino, handle, cuts: 0, grow_to: None, behind: None, mtime, spilled: false, kill_priv: false },
        Op::Extend { ino, handle, len: 1, kill_priv: false },
        Op::GrantInos { count: 1 },
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
