//! One test for each line of the table in `docs/subtree-policies.md`: what the owner does, what others do, and what is there after the
//! merge.

use super::*;

#[test]
fn a_name_that_both_give_is_the_owners_and_what_others_gave_it_to_is_kept_whole() {
    let mut s = Scene::new();
    s.own_put(s.dir, "file", b"own");
    let own = s.own(mkdir(s.dir, "dir")).expect("free");
    s.own_put(own, "in", b"own");
    s.own_put(s.dir, "other", b"own");
    s.other_put(s.dir, "file", b"theirs");
    let theirs = s.other(mkdir(s.dir, "dir"));
    s.other_put(theirs, "in", b"theirs");
    s.other(mkdir(s.dir, "other"));
    let (there, kinds) = s.merged();
    let kept = "/.conflicts/ /.conflicts/dir~1-1/ /.conflicts/dir~1-1/in=theirs /.conflicts/file~1-1=theirs /.conflicts/other~1-1/";
    assert_eq!(there, format!("{kept} /d/ /dir/ /dir/in=own /e/ /e/x=base /f=base /file=own /g=base /other=own"));
    assert_eq!(kinds, [ConflictKind::Name; 3]);
    let attr = s.world.lookup(s.b, s.dir, ".conflicts").expect("it was made");
    assert_eq!((attr.mode, attr.uid, attr.size), (0o755, 0, 3));
}

#[test]
fn a_name_that_the_owner_renamed_onto_is_the_owners() {
    let mut s = Scene::new();
    s.own(rename(s.dir, "f", s.dir, "new")).expect("it is there");
    s.own(rename(s.dir, "e", s.d, "new")).expect("it is there");
    s.other_put(s.dir, "new", b"theirs");
    s.other_put(s.d, "new", b"theirs");
    let (there, kinds) = s.merged();
    let kept = "/.conflicts/ /.conflicts/new~1-1=theirs /.conflicts/new~1-2=theirs";
    assert_eq!(there, format!("{kept} /d/ /d/new/ /d/new/x=base /g=base /new=base"));
    assert_eq!(kinds, [ConflictKind::Name; 2]);
}

#[test]
fn what_the_owner_removed_and_others_changed_is_kept_and_what_they_did_not_touch_is_gone() {
    let mut s = Scene::new();
    for op in [unlink(s.dir, "f"), unlink(s.dir, "g"), unlink(s.e, "x")] {
        s.own(op).expect("it is there");
    }
    s.other_write(s.f, b"theirs");
    s.other(chmod(s.x, 0o600));
    let (there, kinds) = s.merged();
    assert_eq!(there, "/.conflicts/ /.conflicts/f~1-1=theirs /.conflicts/x~1-1=base /d/ /e/");
    assert_eq!(kinds, [ConflictKind::Removed; 2]);
    assert_eq!(s.world.mds.core.tree.inode(s.g), None);
}

#[test]
fn what_the_owner_removed_and_others_renamed_is_kept() {
    let mut s = Scene::new();
    s.own(unlink(s.dir, "f")).expect("it is there");
    s.own(rmdir(s.dir, "d")).expect("it is there");
    s.other(rename(s.dir, "f", s.e, "moved"));
    s.other(rename(s.dir, "d", s.e, "moved-dir"));
    let (there, kinds) = s.merged();
    assert_eq!(there, "/.conflicts/ /.conflicts/moved-dir~1-1/ /.conflicts/moved~1-1=base /e/ /e/x=base /g=base");
    assert_eq!(kinds, [ConflictKind::Removed; 2]);
}

#[test]
fn a_directory_that_the_owner_removed_and_others_put_something_into_is_kept_whole() {
    let mut s = Scene::new();
    s.own(rmdir(s.dir, "d")).expect("it is empty");
    s.own(unlink(s.e, "x")).expect("it is there");
    s.own(rmdir(s.dir, "e")).expect("it is empty");
    s.other_put(s.d, "new", b"theirs");
    s.other(rename(s.dir, "g", s.e, "g"));
    let (there, kinds) = s.merged();
    let kept =
        "/.conflicts/ /.conflicts/d~1-1/ /.conflicts/d~1-1/new=theirs /.conflicts/e~1-1/ /.conflicts/e~1-1/g=base";
    assert_eq!(there, format!("{kept} /f=base"));
    assert_eq!(kinds, [ConflictKind::Removed; 2]);
}

#[test]
fn what_both_removed_is_gone_without_a_word() {
    let mut s = Scene::new();
    s.own(unlink(s.dir, "f")).expect("it is there");
    s.own(rmdir(s.dir, "d")).expect("it is empty");
    s.other(unlink(s.dir, "f"));
    s.other(rmdir(s.dir, "d"));
    assert_eq!(s.merged(), ("/e/ /e/x=base /g=base".into(), vec![]));
    assert_eq!(s.world.mds.core.tree.orphans().count(), 0);
}

#[test]
fn of_a_file_that_both_wrote_the_owners_data_count_and_those_of_others_are_kept_as_a_file() {
    let mut s = Scene::new();
    s.own_write(s.f, b"owners");
    s.own(truncate(s.g, 0)).expect("it is his");
    s.own(rename(s.e, "x", s.e, "y")).expect("it is there");
    s.own_write(s.x, b"owners");
    s.other_write(s.f, b"theirs");
    s.other(chmod(s.f, 0o600));
    s.other_write(s.g, b"theirs");
    s.other_write(s.x, b"theirs");
    let (there, kinds) = s.merged();
    let kept = "/.conflicts/ /.conflicts/f~1-1=theirs /.conflicts/g~1-1=theirs /.conflicts/x~1-1=theirs";
    assert_eq!(there, format!("{kept} /d/ /e/ /e/y=owners /f=owners /g="));
    assert_eq!(kinds, [ConflictKind::Data; 3]);
    assert_eq!(ino(&mut s.world, s.b, s.dir, "f"), s.f, "it is the same file");
    let [kept, file] = [".conflicts", "f"].map(|text| s.world.lookup(s.b, s.dir, text).expect("there"));
    let kept = s.world.lookup(s.b, kept.ino, "f~1-1").expect("there");
    assert_eq!((kept.mode, file.mode), (0o600, 0o600), "the owner did not set it");
}

#[test]
fn of_a_file_that_others_made_too_large_for_an_inode_theirs_is_kept_and_it_stays_the_same_file_with_all_its_names() {
    let mut s = Scene::new();
    s.own_write(s.f, b"owners");
    s.own(unlink(s.dir, "g")).expect("it is there");
    s.own(chmod(s.x, 0o600)).expect("it is there");
    s.other(Op::Link { ino: s.f, dir: s.d, name: name("l") });
    s.other(chmod(s.f, 0o640));
    for file in [s.f, s.g, s.x] {
        s.other(truncate(file, 1 << 20));
        let events = [Event::InlineGone(file), {
            let inode = s.world.mds.core.tree.inode(file).expect("there").clone();
            Event::Inode(Box::new(Inode { inline: false, change: inode.change + 1, ..inode }))
        }];
        s.world.mds.commit(None, &events);
        s.world.pump();
    }
    let (there, kinds) = s.merged();
    let kept = "/.conflicts/ /.conflicts/f~1-1= /.conflicts/g~1-1=";
    assert_eq!(there, format!("{kept} /d/ /d/l=owners /e/ /e/x= /f=owners"));
    assert_eq!(kinds, [ConflictKind::Removed, ConflictKind::Data]);
    let file = s.world.lookup(s.b, s.dir, "f").expect("there");
    assert_eq!((file.ino, file.size, file.mode, file.nlink), (s.f, 6, 0o640, 2), "handles of either side stay with it");
    let dir = ino(&mut s.world, s.b, s.dir, ".conflicts");
    let kept = s.world.lookup(s.b, dir, "f~1-1").expect("there");
    assert_eq!((kept.size, kept.mode, kept.nlink), (1 << 20, 0o640, 1));
    assert_eq!(s.world.lookup(s.b, s.e, "x").map(|attr| (attr.size, attr.mode)), Ok((1 << 20, 0o600)));
}

#[test]
fn of_attributes_that_both_set_the_owners_count_and_all_others_come_together() {
    let mut s = Scene::new();
    s.own(chmod(s.f, 0o600)).expect("it is his");
    let set = |file: Ino, text: &str, value: &str| Op::SetXattr {
        ino: file,
        name: text.as_bytes().into(),
        value: value.as_bytes().into(),
        mode: loligo_types::XattrMode::Set,
    };
    let chown = |file, uid| {
        let set = loligo_types::SetAttr { uid: Some(uid), ..Default::default() };
        Op::SetAttr { ino: file, set, handle: None }
    };
    s.own(set(s.f, "user.both", "owners")).expect("his");
    s.own(set(s.f, "user.own", "owners")).expect("his");
    s.own(chmod(s.g, 0o640)).expect("his");
    s.other(chmod(s.f, 0o666));
    s.other(chown(s.f, 7));
    s.other(chown(s.g, 8));
    s.other(set(s.f, "user.both", "theirs"));
    s.other(set(s.f, "user.theirs", "theirs"));
    let (_, kinds) = s.merged();
    assert_eq!(kinds, [ConflictKind::Attributes]);
    let of = |s: &mut Scene, text: &str| {
        let answer = s.world.call(s.b, Op::GetXattr { ino: s.f, name: text.as_bytes().into() });
        let Ok(Answer::Bytes(bytes)) = answer else { panic!("{answer:?}") };
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let values = ["user.both", "user.own", "user.theirs"].map(|text| of(&mut s, text));
    assert_eq!(values, ["owners", "owners", "theirs"]);
    let attrs = ["f", "g"].map(|text| s.world.lookup(s.b, s.dir, text).expect("there"));
    assert_eq!(attrs.map(|attr| (attr.mode, attr.uid)), [(0o600, 7), (0o640, 8)]);
}

#[test]
fn what_the_owner_changed_and_others_removed_is_back_where_it_was() {
    let mut s = Scene::new();
    s.own_write(s.f, b"owners");
    s.own(chmod(s.x, 0o600)).expect("his");
    s.own_put(s.d, "new", b"own");
    for op in [unlink(s.dir, "f"), unlink(s.dir, "g"), unlink(s.e, "x"), rmdir(s.dir, "e"), rmdir(s.dir, "d")] {
        s.other(op);
    }
    let (there, kinds) = s.merged();
    assert_eq!(there, "/d/ /d/new=own /e/ /e/x=base /f=owners");
    assert_eq!(kinds, [ConflictKind::Returned; 4], "of g only the others spoke");
    assert_eq!(s.world.mds.core.tree.inode(s.g), None);
}

#[test]
fn what_comes_back_takes_its_name_from_what_others_put_there() {
    let mut s = Scene::new();
    s.own_write(s.f, b"owners");
    s.other(unlink(s.dir, "f"));
    s.other_put(s.dir, "f", b"theirs");
    let (there, kinds) = s.merged();
    assert_eq!(there, "/.conflicts/ /.conflicts/f~1-1=theirs /d/ /e/ /e/x=base /f=owners /g=base");
    assert_eq!(kinds, [ConflictKind::Name, ConflictKind::Returned]);
}

#[test]
fn what_the_owner_changed_in_a_directory_that_others_renamed_is_there_under_the_new_name() {
    let mut s = Scene::new();
    s.own_put(s.e, "new", b"own");
    s.own_write(s.x, b"owners");
    s.own_write(s.f, b"owners");
    s.other(rename(s.dir, "e", s.d, "moved"));
    s.other(rename(s.dir, "f", s.dir, "moved"));
    let (there, kinds) = s.merged();
    assert_eq!(there, "/d/ /d/moved/ /d/moved/new=own /d/moved/x=owners /g=base /moved=owners");
    assert_eq!(kinds, []);
}

#[test]
fn what_both_renamed_has_the_owners_name() {
    let mut s = Scene::new();
    s.own(rename(s.dir, "f", s.dir, "own")).expect("there");
    s.own(rename(s.dir, "e", s.dir, "own-dir")).expect("there");
    s.other(rename(s.dir, "f", s.dir, "theirs"));
    s.other(rename(s.dir, "e", s.d, "theirs-dir"));
    let (there, kinds) = s.merged();
    assert_eq!(there, "/d/ /g=base /own=base /own-dir/ /own-dir/x=base");
    assert_eq!(kinds, [ConflictKind::Moved; 2]);
}

#[test]
fn directories_that_both_moved_into_each_others_are_no_loop() {
    let mut s = Scene::new();
    s.own(rename(s.dir, "d", s.e, "d")).expect("there");
    s.other(rename(s.dir, "e", s.d, "e"));
    let (there, kinds) = s.merged();
    assert_eq!(there, "/.conflicts/ /.conflicts/e~1-1/ /.conflicts/e~1-1/d/ /.conflicts/e~1-1/x=base /f=base /g=base");
    assert_eq!(kinds, [ConflictKind::Loop]);
}

#[test]
fn a_file_with_several_names_keeps_those_that_either_side_gave_and_loses_those_that_either_took() {
    let link = |file, dir, text: &str| Op::Link { ino: file, dir, name: name(text) };
    let mut s = Scene::new();
    s.own(link(s.f, s.dir, "own")).expect("there");
    s.other(link(s.f, s.e, "theirs"));
    s.own(link(s.g, s.d, "g2")).expect("there");
    s.other(unlink(s.dir, "g"));
    s.own(unlink(s.e, "x")).expect("there");
    s.other(link(s.x, s.dir, "x2"));
    let (there, _) = s.merged();
    assert_eq!(there, "/d/ /d/g2=base /e/ /e/theirs=base /f=base /own=base /x2=base");
    let links = ["f", "own", "x2"].map(|text| s.world.lookup(s.b, s.dir, text).expect("there").nlink);
    assert_eq!(links, [3, 3, 1]);
}

#[test]
fn what_the_owner_moved_and_others_removed_is_where_the_owner_moved_it() {
    let mut s = Scene::new();
    s.own(rename(s.dir, "f", s.e, "moved")).expect("there");
    s.own(rename(s.dir, "d", s.e, "d")).expect("there");
    s.other(unlink(s.dir, "f"));
    s.other(rmdir(s.dir, "d"));
    let (there, kinds) = s.merged();
    assert_eq!(there, "/e/ /e/d/ /e/moved=base /e/x=base /g=base");
    assert_eq!(kinds, [ConflictKind::Returned; 2]);
}

#[test]
fn what_others_put_where_the_owner_only_passed_by_stays() {
    let mut s = Scene::new();
    s.own_put(s.dir, "tmp", b"own");
    s.own(unlink(s.dir, "tmp")).expect("his");
    s.own(rename(s.dir, "g", s.dir, "h")).expect("there");
    s.other_put(s.dir, "tmp", b"theirs");
    s.other(rename(s.dir, "f", s.dir, "g"));
    let (there, kinds) = s.merged();
    assert_eq!(there, "/d/ /e/ /e/x=base /g=base /h=base /tmp=theirs");
    assert_eq!(kinds, [ConflictKind::Returned], "others had put f in the place of g");
}

#[test]
fn names_of_what_is_kept_never_meet() {
    let mut s = Scene::new();
    let own = s.own(mkdir(s.dir, "sub")).expect("free");
    s.own_put(s.dir, "n", b"own");
    s.own_put(own, "n", b"own");
    let theirs = s.other(mkdir(s.dir, "sub"));
    s.other_put(theirs, "n", b"theirs");
    s.other_put(s.dir, "n", b"theirs");
    let long = "n".repeat(255);
    s.own_put(s.dir, &long, b"own");
    s.other_put(s.dir, &long, b"theirs");
    let kept = s.other(mkdir(s.dir, ".conflicts"));
    s.other_put(kept, "n~1-1", b"earlier");
    let (there, kinds) = s.merged();
    assert!(there.contains("/.conflicts/n~1-1=earlier /.conflicts/n~1-2=theirs"), "{there}");
    assert!(there.contains(&format!("/.conflicts/{}~1-1=theirs", "n".repeat(251))), "{there}");
    assert_eq!(kinds.len(), 3);
}

#[test]
fn a_file_that_is_called_as_the_directory_of_conflicts_stays_and_the_directory_is_called_otherwise() {
    let mut s = Scene::new();
    s.own_put(s.dir, ".conflicts", b"own");
    s.own_put(s.dir, "n", b"own");
    s.other_put(s.dir, "n", b"theirs");
    let (there, _) = s.merged();
    assert!(there.starts_with("/.conflicts=own /.conflicts~1/ /.conflicts~1/n~1-1=theirs "), "{there}");
}

#[test]
fn several_merges_each_begin_with_what_is_there_by_then() {
    let mut s = Scene::new();
    for n in 0..3 {
        s.own_write(s.f, format!("own {n}").as_bytes());
        s.other_write(s.f, format!("theirs {n}").as_bytes());
        s.owner.merge(&mut s.world).expect("his");
        s.own(Op::Lookup { dir: s.dir, name: name("f") }).expect("there");
    }
    let kinds: Vec<ConflictKind> = s.owner.conflicts.iter().map(|conflict| conflict.kind).collect();
    assert_eq!(kinds, [ConflictKind::Data; 3]);
    let (there, _) = s.merged();
    let kept = "/.conflicts/ /.conflicts/f~1-1=theirs 0 /.conflicts/f~2-1=theirs 1 /.conflicts/f~3-1=theirs 2";
    assert_eq!(there, format!("{kept} /d/ /e/ /e/x=base /f=own 2 /g=base"));
}
