//! Rights in subtrees in which others work while their owner does: a merge gives nobody more than it had on one side, and a change that its owner
//! may not make any more is a conflict, not the end of all its work. Not here: any other pair of changes (`pairs.rs`).

use super::*;

const CAPABILITY: &str = "security.capability";

fn set_xattr(ino: Ino, text: &str) -> Op {
    let mode = loligo_types::XattrMode::Set;
    Op::SetXattr { ino, name: text.as_bytes().into(), value: b"value"[..].into(), mode }
}

fn chown(ino: Ino, uid: u32) -> Op {
    let set = loligo_types::SetAttr { uid: Some(uid), ..Default::default() };
    Op::SetAttr { ino, set, handle: None }
}

impl Scene {
    /// Mode and owner of a file, and whether it has capabilities.
    fn rights_of(&mut self, ino: Ino) -> (u16, u32, bool) {
        let inode = self.world.mds.core.tree.inode(ino).expect("it is there").clone();
        let get = Op::GetXattr { ino, name: CAPABILITY.as_bytes().into() };
        (inode.mode, inode.uid, self.world.call(self.b, get).is_ok())
    }
}

#[test]
fn setuid_setgid_and_capabilities_of_one_side_do_not_get_data_of_the_other() {
    let mut s = Scene::new();
    s.own(chmod(s.f, 0o6755)).expect("his");
    s.own(set_xattr(s.f, CAPABILITY)).expect("root may");
    s.other_write(s.f, b"theirs");
    s.own_write(s.g, b"owners");
    s.other(chmod(s.g, 0o6755));
    s.other(set_xattr(s.g, CAPABILITY));
    let (there, kinds) = s.merged();
    assert!(there.contains("/f=theirs") && there.contains("/g=owners"), "{there}");
    assert!(kinds.contains(&ConflictKind::Attributes), "{kinds:?}");
    assert_eq!([s.f, s.g].map(|file| s.rights_of(file)), [(0o755, 0, false); 2]);
}

#[test]
fn setuid_and_capabilities_of_one_side_do_not_get_an_owner_of_the_other() {
    let mut s = Scene::new();
    s.own(chmod(s.f, 0o4755)).expect("his");
    s.own(set_xattr(s.f, CAPABILITY)).expect("root may");
    s.other(chown(s.f, 7));
    s.own(chown(s.g, 7)).expect("root may");
    s.other(chmod(s.g, 0o4755));
    s.other(set_xattr(s.g, CAPABILITY));
    s.merged();
    assert_eq!([s.f, s.g].map(|file| s.rights_of(file)), [(0o755, 7, false); 2]);
}

#[test]
fn setuid_and_capabilities_stay_where_one_side_alone_changed_a_file() {
    let mut s = Scene::new();
    s.own(chmod(s.f, 0o4755)).expect("his");
    s.own(set_xattr(s.f, CAPABILITY)).expect("root may");
    s.other(chmod(s.x, 0o4755));
    s.other(set_xattr(s.x, CAPABILITY));
    s.own(rename(s.e, "x", s.d, "moved")).expect("his");
    let (there, kinds) = s.merged();
    assert_eq!((&*there, kinds), ("/d/ /d/moved=base /e/ /f=base /g=base", vec![]));
    assert_eq!([s.f, s.x].map(|file| s.rights_of(file)), [(0o4755, 0, true); 2]);
}

#[test]
fn a_file_of_which_others_set_attributes_alone_was_not_written() {
    let mut s = Scene::new();
    s.own_write(s.f, b"owners");
    s.own_write(s.g, b"owners");
    s.other(chmod(s.f, 0o640));
    s.other(chown(s.f, 7));
    s.other(set_xattr(s.g, "user.theirs"));
    let (there, kinds) = s.merged();
    assert_eq!((&*there, kinds), ("/d/ /e/ /e/x=base /f=owners /g=owners", vec![]));
    assert_eq!(s.rights_of(s.f), (0o640, 7, false));
}

#[test]
fn a_version_that_is_kept_is_for_nobody_who_could_not_reach_it_where_it_was() {
    let mut s = Scene::new();
    s.other(chmod(s.e, 0o700));
    s.other(chown(s.e, 7));
    for file in [s.f, s.x] {
        s.other(chmod(file, 0o644));
        s.own_write(file, b"owners");
        s.other_write(file, b"theirs");
    }
    let (there, _) = s.merged();
    let dir = s.world.lookup(s.b, s.dir, ".conflicts").expect("there");
    assert_eq!(dir.mode & 0o022, 0, "nobody else changes what is kept");
    let names: Vec<&str> = there.split(' ').filter_map(|path| path.strip_prefix("/.conflicts/")).collect();
    let modes: Vec<u16> = names
        .iter()
        .filter_map(|name| name.strip_suffix("=theirs"))
        .map(|name| s.world.lookup(s.b, dir.ino, name).expect("there").mode)
        .collect();
    assert_eq!(modes, [0o644, 0o600], "{there}");
    assert!(there.contains("/.conflicts/f~1-1=theirs /.conflicts/inode-"), "{there}");
}

#[test]
fn a_directory_of_conflicts_that_somebody_else_may_change_is_not_used() {
    for (mode, uid) in [(0o777, 0), (0o755, 7)] {
        let mut s = Scene::new();
        let dir = s.other(mkdir(s.dir, ".conflicts"));
        s.other(chmod(dir, mode));
        s.other(chown(dir, uid));
        s.own_write(s.f, b"owners");
        s.other_write(s.f, b"theirs");
        let (there, _) = s.merged();
        assert_eq!(there, "/.conflicts/ /.conflicts~1/ /.conflicts~1/f~1-1=theirs /d/ /e/ /e/x=base /f=owners /g=base");
    }
}

/// A directory of user 1000 with files `his` of its own and `f` of root, whom all may write, and a directory `d` of root.
fn unprivileged() -> (World, usize, Owner, [Ino; 4]) {
    let mut world = World::with(crate::Config { dirty_ms_max: 50, checkpoint_records: 7, ..config() });
    let a = world.client();
    let dir = world.mkdir(a, Ino::ROOT, "job").ino;
    let [f, his] = ["f", "his"].map(|text| put(&mut world, a, dir, text, b"base"));
    let d = world.mkdir(a, dir, "d").ino;
    for (ino, mode) in [(f, 0o666), (d, 0o777)] {
        world.call(a, chmod(ino, mode)).expect("root may");
    }
    for ino in [dir, his] {
        world.call(a, chown(ino, 1000)).expect("root may");
    }
    let user = crate::Peer { uid: Some(1000), groups: vec![1000], trusted: false, local: false, identity: None };
    let at = world.client_as(1000, user);
    let mut owner = Owner::with(&mut world, at, dir, allow_op(100)).expect("his");
    owner.cred = Cred { uid: 1000, gid: 1000, groups: Vec::new() };
    for text in ["f", "his", "d"] {
        owner.run(&mut world, &Op::Lookup { dir, name: name(text) }).expect("it is there");
    }
    (world, a, owner, [dir, f, his, d])
}

#[test]
fn a_change_that_others_do_not_permit_any_more_is_kept_and_told_and_all_else_is_merged() {
    let (mut world, a, mut owner, [dir, f, his, d]) = unprivileged();
    owner.run(&mut world, &write_inline(f, 1, 0, b"owners")).expect("all may");
    owner.run(&mut world, &chmod(his, 0o600)).expect("his");
    owner.write(&mut world, dir, "own", b"own");
    owner.write(&mut world, d, "new", b"new");
    world.call(a, chmod(f, 0o4755)).expect("root may");
    world.call(a, chmod(d, 0o755)).expect("root may");
    world.call(a, chown(his, 7)).expect("root may");
    owner.merge(&mut world).expect("others do not end it");
    let kinds: Vec<_> = owner.conflicts.iter().map(|conflict| conflict.kind).collect();
    assert!(kinds.len() >= 4 && kinds.iter().all(|kind| *kind == ConflictKind::Denied), "{kinds:?}");
    let there = shown(&mut world, a, dir);
    assert_eq!(
        there,
        "/.conflicts/ /.conflicts/f~1-1=owners /.conflicts/inode-1099511627783~1-1=new /d/ /f=base /his=base /own=own"
            .replace("inode-1099511627783~1-1", &kept_of(&there, "=new"))
    );
    let mode = |world: &World, ino: Ino| world.mds.core.tree.inode(ino).map(|inode| (inode.mode, inode.uid));
    assert_eq!(mode(&world, f), Some((0o4755, 0)), "of root, with what root knows");
    assert_eq!(mode(&world, his), Some((0o644, 7)));
    let conflicts = world.lookup(a, dir, ".conflicts").expect("there").ino;
    let kept = world.lookup(a, conflicts, "f~1-1").expect("there");
    assert_eq!((kept.mode, kept.uid), (0o600, 1000), "it is whose data it has");
    owner.end(&mut world).expect("his");
    assert_eq!(faults(&mut world), Vec::<String>::new());
}

/// The name in the directory of conflicts of a file with this content.
fn kept_of(there: &str, content: &str) -> String {
    let path = there.split(' ').find_map(|path| path.strip_prefix("/.conflicts/")?.strip_suffix(content));
    path.unwrap_or_else(|| panic!("{there}")).to_string()
}
