//! Two sessions always see each other's acknowledged changes.

use loligo_types::{Answer, Control, FsError, Ino, Lease, Op};

use super::*;

fn two() -> (World, usize, usize) {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    (world, a, b)
}

#[test]
fn what_one_makes_the_other_finds() {
    let (mut world, a, b) = two();
    let made = world.mkdir(a, Ino::ROOT, "d");
    let found = world.lookup(b, Ino::ROOT, "d");
    assert_eq!(found.map(|attr| attr.ino), Ok(made.ino));
    assert_eq!(world.lookup(b, made.ino, "nothing"), Err(FsError::NotFound));
    world.create(a, made.ino, "f", WRITE, 1);
    assert!(world.lookup(b, made.ino, "f").is_ok());
}

#[test]
fn a_change_waits_until_the_attributes_were_given_back() {
    let (mut world, a, b) = two();
    let dir = world.mkdir(a, Ino::ROOT, "d").ino;
    let (_, granted) = world.call_granted(b, Op::GetAttr { ino: dir });
    assert_eq!(granted, [(dir, Lease::ATTR)]);
    world.clients[b].obeys = false;
    let seq = world.send(a, chmod(dir, 0o700));
    assert_eq!(world.reply(a, seq), None);
    assert_eq!(world.clients[b].recalls.len(), 1);
    assert_eq!((world.clients[b].recalls[0].0, world.clients[b].recalls[0].2), (dir, Lease::ATTR));
    // The holder may still read what it had; another reader sees the old state and gets no lease.
    let c = world.client();
    let (answer, granted) = world.call_granted(c, Op::GetAttr { ino: dir });
    assert_eq!(answer.map(|a| a.attr().map(|a| a.mode)), Ok(Some(0o755)));
    assert_eq!(granted, []);
    world.clients[b].obeys = true;
    world.pump();
    assert!(world.reply(a, seq).is_some_and(|(result, _)| result.is_ok()));
    let (answer, granted) = world.call_granted(b, Op::GetAttr { ino: dir });
    assert_eq!(answer.map(|a| a.attr().map(|a| a.mode)), Ok(Some(0o700)));
    // The owner of the change keeps its lease, and both share now.
    assert_eq!(granted, [(dir, Lease::ATTR)]);
}

#[test]
fn an_absent_name_is_given_back_before_it_is_made() {
    let (mut world, a, b) = two();
    let dir = world.mkdir(a, Ino::ROOT, "d").ino;
    let (answer, granted) = world.call_granted(b, Op::Lookup { dir, name: name("f") });
    assert_eq!((answer, granted), (Err(FsError::NotFound), vec![(dir, Lease::NAMES)]));
    world.clients[b].obeys = false;
    let seq = world.send(a, create(dir, "f", WRITE, 1));
    assert_eq!(world.reply(a, seq), None);
    assert!(world.clients[b].recalls.iter().any(|(ino, _, bits)| *ino == dir && bits.has(Lease::NAMES)));
    world.clients[b].obeys = true;
    world.pump();
    assert!(world.reply(a, seq).is_some());
    assert!(world.lookup(b, dir, "f").is_ok());
}

#[test]
fn the_session_that_changes_keeps_its_own_leases() {
    let (mut world, a, _) = two();
    let dir = world.mkdir(a, Ino::ROOT, "d").ino;
    world.call_granted(a, Op::GetAttr { ino: dir }).0.expect("it is there");
    assert_eq!(world.lookup(a, dir, "x"), Err(FsError::NotFound));
    world.clients[a].obeys = false;
    world.create(a, dir, "f", WRITE, 1);
    assert!(world.clients[a].recalls.is_empty());
}

#[test]
fn a_grant_never_outlives_a_change_made_before_it_left() {
    let (mut world, a, b) = two();
    let dir = world.mkdir(a, Ino::ROOT, "d").ino;
    world.syncs = false;
    world.send(a, mkdir(Ino::ROOT, "other"));
    // The answer to b waits for the journal; meanwhile a changes what it says.
    let seq = world.send(b, Op::GetAttr { ino: dir });
    let changed = world.send(a, chmod(dir, 0o700));
    assert_eq!(world.reply(b, seq), None);
    world.syncs = true;
    world.pump();
    let (answer, granted) = world.reply(b, seq).expect("the journal is durable");
    assert_eq!(answer.map(|a| a.attr().map(|a| a.mode)), Ok(Some(0o755)));
    assert_eq!(granted, [], "the attributes are old already");
    assert!(world.reply(a, changed).is_some());
    assert!(world.clients[b].recalls.is_empty());
}

#[test]
fn nothing_is_granted_on_what_somebody_waits_to_change() {
    let (mut world, a, b) = two();
    let c = world.client();
    let dir = world.mkdir(a, Ino::ROOT, "d").ino;
    world.call(b, Op::GetAttr { ino: dir }).expect("it is there");
    world.clients[b].obeys = false;
    let seq = world.send(a, chmod(dir, 0o700));
    for _ in 0..3 {
        assert_eq!(world.call_granted(c, Op::GetAttr { ino: dir }).1, []);
    }
    world.clients[b].obeys = true;
    world.pump();
    assert!(world.reply(a, seq).is_some(), "readers cannot starve a writer");
}

#[test]
fn names_of_a_contended_directory_are_withheld_for_a_while() {
    let (mut world, a, b) = two();
    let dir = world.mkdir(a, Ino::ROOT, "d").ino;
    let lookup = |text| Op::Lookup { dir, name: name(text) };
    assert_eq!(world.call_granted(b, lookup("x")).1, [(dir, Lease::NAMES)]);
    world.create(a, dir, "f", WRITE, 1);
    assert_eq!(world.call_granted(b, lookup("y")).1, []);
    assert_eq!(world.call_granted(b, Op::GetAttr { ino: dir }).1, []);
    world.wait_alive(1500);
    assert_eq!(world.call_granted(b, lookup("y")).1, [(dir, Lease::NAMES)]);
}

#[test]
fn a_change_that_fails_disturbs_nobody() {
    let (mut world, a, b) = two();
    let dir = world.mkdir(a, Ino::ROOT, "d").ino;
    world.call(b, Op::GetAttr { ino: dir }).expect("it is there");
    assert_eq!(world.lookup(b, dir, "x"), Err(FsError::NotFound));
    world.clients[b].obeys = false;
    assert_eq!(world.call(a, unlink(dir, "x")), Err(FsError::NotFound));
    assert!(world.clients[b].recalls.is_empty());
}

#[test]
fn renames_ask_all_who_know_either_directory() {
    let (mut world, a, b) = two();
    let (d, e) = (world.mkdir(a, Ino::ROOT, "d").ino, world.mkdir(a, Ino::ROOT, "e").ino);
    let file = world.create(a, d, "f", WRITE, 1).ino;
    world.call(a, close(1)).expect("it is open");
    for op in [Op::Lookup { dir: d, name: name("f") }, Op::Lookup { dir: e, name: name("g") }] {
        let _ = world.call(b, op);
    }
    world.clients[b].obeys = false;
    let mode = loligo_types::RenameMode::Replace;
    let seq = world.send(a, Op::Rename { dir: d, name: name("f"), new_dir: e, new_name: name("g"), mode });
    let mut asked: Vec<Ino> = world.clients[b].recalls.iter().map(|(ino, ..)| *ino).collect();
    asked.sort();
    asked.dedup();
    assert_eq!(asked, [d, e, file]);
    world.clients[b].obeys = true;
    world.pump();
    assert!(world.reply(a, seq).is_some_and(|(result, _)| result.is_ok()));
    assert_eq!(world.lookup(b, d, "f"), Err(FsError::NotFound));
    assert_eq!(world.lookup(b, e, "g").map(|attr| attr.ino), Ok(file));
}

#[test]
fn a_rename_lends_the_names_of_the_new_directory() {
    let (mut world, a, b) = two();
    let (d, e) = (world.mkdir(a, Ino::ROOT, "d").ino, world.mkdir(a, Ino::ROOT, "e").ino);
    world.create(a, d, "f", WRITE, 1);
    let rename = |dir, from: &str, new_dir, to: &str| {
        let mode = loligo_types::RenameMode::Replace;
        Op::Rename { dir, name: name(from), new_dir, new_name: name(to), mode }
    };
    let (answer, granted) = world.call_granted(a, rename(d, "f", e, "g"));
    assert_eq!((answer, granted), (Ok(Answer::Done), vec![(e, Lease::NAMES)]));
    let (answer, granted) = world.call_granted(a, rename(e, "g", e, "h"));
    assert_eq!((answer, granted), (Ok(Answer::Done), vec![(e, Lease::NAMES)]));
    // Another one has just had to ask for them back.
    let _ = world.call(b, rename(e, "h", e, "i"));
    let (answer, granted) = world.call_granted(a, rename(e, "i", e, "j"));
    assert_eq!((answer, granted), (Ok(Answer::Done), vec![]));
}

#[test]
fn readdir_with_attributes_lends_each_of_them() {
    let (mut world, a, b) = two();
    let dir = world.mkdir(a, Ino::ROOT, "d").ino;
    for i in 0..5 {
        world.create(a, dir, &format!("f{i}"), WRITE, i);
    }
    world.call(a, Op::Control(Control::Close { handles: vec![0, 1, 2, 3], lost: false })).expect("they are open");
    let op = Op::Readdir { dir, cookie: 0, limit: 100, plus: true, handle: None };
    let (Ok(Answer::Entries { entries, end, .. }), _) = world.call_granted(b, op) else { panic!("not readable") };
    assert!(end);
    let lent = entries.iter().filter(|entry| entry.lease == Lease::ATTR).count();
    assert_eq!(lent, 4, "all but the one that another session is writing");
}

#[test]
fn the_oldest_leases_are_asked_back_when_there_are_too_many() {
    let mut world = World::with(crate::Config { leases_max: 10, ..config() });
    let a = world.client();
    let dir = world.mkdir(a, Ino::ROOT, "d").ino;
    world.clients[a].obeys = false;
    for i in 0..20 {
        world.create(a, dir, &format!("f{i}"), WRITE, i);
    }
    assert!(!world.clients[a].recalls.is_empty());
    world.clients[a].obeys = true;
    world.pump();
    for i in 20..40 {
        world.create(a, dir, &format!("f{i}"), WRITE, i);
    }
    assert!(world.mds.status().leases <= 12, "{}", world.mds.status().leases);
}

#[test]
fn leases_given_back_are_not_recalled() {
    let (mut world, a, b) = two();
    let dir = world.mkdir(a, Ino::ROOT, "d").ino;
    world.call(b, Op::GetAttr { ino: dir }).expect("it is there");
    world.message(b, loligo_types::msg::ToServer::Release(vec![(dir, Lease::ATTR)]));
    world.clients[b].obeys = false;
    world.call(a, chmod(dir, 0o700)).expect("nobody minds");
    assert!(world.clients[b].recalls.is_empty());
}
