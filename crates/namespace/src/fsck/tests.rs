//! A sound tree has no findings; each kind of damage has one, and its repairs make the tree sound again.

use std::sync::Arc;

use loligo_types::{Event, Ino, Kind, Lsn, Name, Place, RStat, Rank};

use super::check_all;
use crate::testing::script;
use crate::testing::table::{KEY, Table};
use crate::{Loaded, Record, apply};

fn sound() -> Table {
    let mut fs = script::check(
        "
        0 mkdir /a 755
        0 mkdir /a/b 755
        0 mkdir /a/b/c 755
        0 create /a/f 644
        0 write /a/f 0 hello
        0 create /a/b/x 644
        0 setxattr /a/b/x user.a 1
        0 link /a/f /a/b/g
        0 symlink /l target
        0 create /o 644
        0 hold /o
        0 unlink /o
        ",
    );
    fs.settle();
    fs.checkpoint(usize::MAX);
    fs.table
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a good name")
}

/// The table after the events.
fn with(table: &Table, events: &[Event]) -> Table {
    let mut table = table.clone();
    for event in events {
        let hash = match event {
            Event::Entry { name, .. } | Event::EntryGone { name, .. } => crate::hash63(KEY, name.as_bytes()),
            _ => 0,
        };
        table.write(&Record { event: event.clone(), hash, sweep: true });
    }
    table
}

/// Damage is found with these words, and mended.
fn damage(damage: impl Fn(&Table) -> Vec<Event>, words: &str) {
    let sound = sound();
    let broken = with(&sound, &damage(&sound));
    let report = check_all(KEY, &broken.events());
    let texts: Vec<&str> = report.findings.iter().map(|finding| finding.text.as_str()).collect();
    assert!(texts.iter().any(|text| text.contains(words)), "no \"{words}\" in {texts:#?}");
    let mended = with(&broken, &report.repairs);
    let again = check_all(KEY, &mended.events());
    assert_eq!(again.findings, [], "after {:#?}", report.repairs);
    // The mended table holds the invariants of a live tree.
    let mut tree = crate::testing::empty_tree();
    mended.small().into_iter().for_each(|item: Loaded| tree.load(item));
    mended.events().iter().for_each(|event| apply(&mut tree, event, Lsn(1)));
    assert_eq!(crate::invariants::check(&tree), Vec::<String>::new());
}

fn edit(ino: u64, edit: impl Fn(&mut loligo_types::Inode)) -> impl Fn(&Table) -> Vec<Event> {
    move |table| {
        let mut inode = table.inodes[&Ino(ino)].clone();
        edit(&mut inode);
        vec![Event::Inode(Box::new(inode))]
    }
}

const A: u64 = 256;
const B: u64 = 257;
const C: u64 = 258;
const F: u64 = 259;
const X: u64 = 260;
const O: u64 = 262;

#[test]
fn a_sound_tree_has_no_findings() {
    let report = check_all(KEY, &sound().events());
    assert_eq!(report.findings, []);
    assert_eq!(report.repairs, []);
    assert_eq!((report.inodes, report.entries), (8, 7));
}

#[test]
fn wrong_numbers() {
    damage(edit(A, |i| i.nlink = 7), "says 7 links, has 3");
    damage(edit(F, |i| i.nlink = 1), "says 1 links, has 2");
    damage(edit(B, |i| i.size = 9), "says 9 entries, has 3");
    damage(edit(C, |i| i.parent = Ino(A)), "says its parent is 256, is in 257");
    damage(edit(A, |i| i.extra_mut().rstat = RStat { entries: 77, bytes: 0 }), "has sums");
    damage(edit(X, |i| i.has_xattrs = false), "has_xattrs false");
    damage(edit(F, |i| i.has_xattrs = true), "has_xattrs true");
    damage(edit(F, |i| i.frag_bits = 3), "says 2^3 fragments and 0 entries expected");
    damage(edit(B, |i| i.frag_bits = 25), "says 2^25 fragments");
    damage(edit(B, |i| i.extra_mut().expected_entries = 1 << 41), "2199023255552 entries expected");
    damage(|_| vec![Event::NextIno(Ino(200))], "beyond the counter");
}

#[test]
fn data_and_xattrs_without_their_inode_or_the_other_way_round() {
    damage(|_| vec![Event::InlineGone(Ino(F))], "lost its 5 bytes");
    damage(|_| vec![Event::Inline { ino: Ino(X), data: Arc::from(&b"??"[..]) }], "not its own");
    damage(|_| vec![Event::Inline { ino: Ino(999), data: Arc::default() }], "which is no inode");
    damage(|_| vec![Event::Xattr { ino: Ino(999), name: Arc::default(), value: Arc::default() }], "which is no inode");
    damage(edit(F, |i| i.size = 3), "says 3 bytes, has 5");
}

#[test]
fn a_history_of_a_policy_that_is_damaged_begins_anew_and_one_of_a_newer_program_stays() {
    let of = |bytes: &[u8]| Event::Xattr { ino: Ino(B), name: Arc::from(crate::HISTORY), value: Arc::from(bytes) };
    let of = |bytes: &'static [u8]| {
        move |table: &Table| {
            let mut inode = table.inodes[&Ino(B)].clone();
            inode.has_xattrs = true;
            vec![Event::Inode(Box::new(inode)), of(bytes)]
        }
    };
    damage(of(b"\x01damaged"), "the history of the policy of directory 257 cannot be read");
    let newer = with(&sound(), &of(b"\x02anything")(&sound()));
    assert_eq!(check_all(KEY, &newer.events()).findings, []);
}

#[test]
fn entries_that_lead_nowhere_or_lie() {
    let entry = |dir, text: &str, ino, kind| Event::Entry {
        dir: Ino(dir),
        name: name(text),
        ino: Ino(ino),
        kind,
        remote: false,
    };
    damage(|_| vec![entry(A, "n", 999, Kind::File)], "points to 999, which is no inode");
    damage(|_| vec![entry(F, "n", X, Kind::File)], "which is no directory");
    damage(|_| vec![entry(A, "f", F, Kind::Fifo)], "wrong type");
    damage(|_| vec![entry(A, "d", C, Kind::Dir)], "one more name");
    damage(|_| vec![entry(C, "r", 1, Kind::Dir)], "one more name");
}

#[test]
fn what_nothing_leads_to_is_put_in_lost_found() {
    let gone = |dir, text: &str| Event::EntryGone { dir: Ino(dir), name: name(text) };
    damage(|_| vec![gone(B, "x")], "put in lost+found as #260");
    damage(|_| vec![gone(A, "b")], "put in lost+found as #257");
    damage(|_| vec![gone(B, "x"), gone(1, "a")], "nothing leads to inode 256");
    // A ring: a/b is moved below itself.
    let ring = |table: &Table| {
        let mut b = table.inodes[&Ino(B)].clone();
        b.parent = Ino(C);
        let entry = Event::Entry { dir: Ino(C), name: name("b"), ino: Ino(B), kind: Kind::Dir, remote: false };
        vec![gone(A, "b"), entry, Event::Inode(Box::new(b))]
    };
    damage(ring, "nothing leads to inode 257");
}

#[test]
fn orphans_and_their_records() {
    damage(|_| vec![Event::OrphanGone(Ino(O))], "was unlinked, but is no orphan");
    damage(|_| vec![Event::Orphan(Ino(999))], "is no inode");
    damage(|_| vec![Event::Orphan(Ino(F))], "is an orphan, but has a name");
}

#[test]
fn files_live_with_one_of_their_names_or_with_none() {
    let entry = |dir, text: &str, ino, remote| Event::Entry {
        dir: Ino(dir),
        name: name(text),
        ino: Ino(ino),
        kind: Kind::File,
        remote,
    };
    let elsewhere = |i: &mut loligo_types::Inode| i.place = Place::embedded(1 << 62 | 5);
    let floats = |i: &mut loligo_types::Inode| i.place = Place::floating(Rank::ZERO);
    damage(edit(X, floats), "inode 260 does not say that it lives with x in 257");
    damage(edit(X, elsewhere), "inode 260 does not say that it lives with x in 257");
    damage(edit(X, |i| i.parent = Ino(A)), "inode 260 does not say that it lives with x in 257");
    damage(|_| vec![entry(B, "x", X, true)], "entry x in 257 does not say that inode 260 lives with it");
    let both = |_: &Table| vec![entry(A, "f", F, false), entry(B, "g", F, false)];
    damage(both, "says that inode 259 lives with it, which has another primary name");
    damage(
        |table| [edit(X, elsewhere)(table), vec![entry(B, "x", X, true)]].concat(),
        "inode 260 says that it lives with a name that it does not have",
    );
    damage(edit(O, elsewhere), "inode 262 says that it lives with a name that it does not have");
    damage(edit(C, elsewhere), "directory 258 does not say that it lives with c in 257");
}

#[test]
fn what_lives_elsewhere_than_with_its_entry_is_sound() {
    let sound = sound();
    let floating = edit(X, |i| i.place = Place::floating(Rank(3)))(&sound);
    let far = Event::Entry { dir: Ino(B), name: name("x"), ino: Ino(X), kind: Kind::File, remote: true };
    let dir = Event::Entry { dir: Ino(B), name: name("c"), ino: Ino(C), kind: Kind::Dir, remote: true };
    let spread = with(&with(&sound, &floating), &[far, dir]);
    assert_eq!(check_all(KEY, &spread.events()).findings, []);
}

#[test]
fn further_names_that_move_leave_the_file_where_it_lives() {
    let further = "
        0 mkdir /d 755
        0 mkdir /e 755
        0 create /d/g 644
        0 link /d/g /d/h
        0 rename /d/g /e/g
        0 link /e/g /e/i
        ";
    // Its primary name goes; the last one that is left then moves to where nobody counts it.
    let floating = "
        0 mkdir /d 755
        0 mkdir /e 755
        0 create /e/h 644
        0 link /e/h /d/g
        0 unlink /d/g
        0 rename /e/h /x
        0 rename /x /d/x
        ";
    for steps in [further, floating] {
        let mut fs = script::check(steps);
        fs.settle();
        fs.checkpoint(usize::MAX);
        assert_eq!(check_all(KEY, &fs.table.events()).findings, [], "{steps}");
    }
}

#[test]
fn each_rank_has_a_counter() {
    let far = Ino::first_of(Rank(2));
    let mut file = loligo_types::Inode::new(Ino(far.0 + 7), Kind::File, 0, 0, 0, Ino(0), loligo_types::Time(0));
    (file.nlink, file.place) = (0, Place::floating(Rank(2)));
    let mut events = sound().events();
    events.extend([Event::Orphan(file.ino), Event::NextIno(Ino(far.0 + 3)), Event::Inode(Box::new(file))]);
    let report = check_all(KEY, &events);
    assert_eq!(report.repairs, [Event::NextIno(Ino(far.0 + 8))], "{:?}", report.findings);
    events.extend(report.repairs);
    assert_eq!(check_all(KEY, &events).findings, []);
}

#[test]
fn without_a_root() {
    damage(|_| vec![Event::InodeGone(Ino::ROOT)], "there is no root");
}
