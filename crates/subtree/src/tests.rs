//! The owner of a decoupled subtree, without a rank: the root is empty, so nothing needs to be fetched.

use loligo_types::{Kind, Name, OpenFlags, SetTime};

use super::*;

const EPOCH: u64 = 1000;
const WRITE: OpenFlags = OpenFlags { read: true, write: true, truncate: false, append: false, exec: false };

fn empty() -> Subtree {
    let mut record =
        DecoupledRecord { dir: Ino(300), epoch: EPOCH, used: Ino(EPOCH + 2), ..DecoupledRecord::default() };
    record.grant(Ino(EPOCH), 100);
    let root = Inode::new(Ino(300), Kind::Dir, 0o755, 0, 0, Ino(1), Time(5));
    let split = SplitRule { split: 1 << 20, merge: 10, bits: 2 };
    let settings = Settings { hash_key: (1, 2), inline_max: 64, split };
    let mut subtree = Subtree::new(settings, record, root).with_objects();
    subtree.learn(vec![Loaded::Range { dir: Ino(300), from_hash: 0, entries: Vec::new(), upto_hash: u64::MAX }]);
    subtree
}

fn done(subtree: &mut Subtree, op: &Op, open: &[Ino]) -> FsResult<Answer> {
    #[allow(clippy::cast_possible_truncation)] // A few.
    let count = |ino: Ino| open.iter().filter(|one| **one == ino).count() as u32;
    match subtree.run_while_open(op, &Cred::root(), Time(10), &count) {
        Outcome::Done(result) => result,
        other => panic!("{op:?}: {other:?}"),
    }
}

fn create(subtree: &mut Subtree, text: &str) -> Ino {
    let name = Name::new(text.as_bytes()).expect("a name");
    let op = Op::Create { dir: Ino(300), name, mode: 0o644, umask: 0, flags: WRITE, exclusive: true, handle: 1 };
    done(subtree, &op, &[]).expect("it is new").attr().expect("it has some").ino
}

fn unlink(text: &str) -> Op {
    Op::Unlink { dir: Ino(300), name: Name::new(text.as_bytes()).expect("a name") }
}

fn spilled(ino: Ino, size: u64) -> Op {
    Op::SetData {
        ino,
        handle: 1,
        cuts: 0,
        grow_to: Some(size),
        behind: None,
        mtime: SetTime::Now,
        spilled: true,
        kill_priv: false,
        patches: None,
    }
}

fn events(subtree: &mut Subtree) -> Vec<Event> {
    let parts: Vec<_> = subtree.groups().into_iter().flat_map(|group| group.parts).collect();
    parts.iter().flat_map(|part| loligo_journal::decode_record(part).expect("its own").events).collect()
}

#[test]
fn an_open_file_lives_on_without_a_name_and_the_journal_says_that_it_is_gone() {
    let mut subtree = empty();
    let ino = create(&mut subtree, "f");
    done(&mut subtree, &spilled(ino, 1 << 20), &[ino]).expect("it is open");
    done(&mut subtree, &unlink("f"), &[ino]).expect("it is there");
    let attr = done(&mut subtree, &Op::GetAttr { ino }, &[ino]).expect("it is open");
    assert_eq!(attr.attr().map(|attr| (attr.nlink, attr.size)), Some((0, 1 << 20)));
    done(
        &mut subtree,
        &Op::SetData {
            ino,
            handle: 1,
            cuts: 0,
            grow_to: Some(2 << 20),
            behind: None,
            mtime: SetTime::Now,
            spilled: false,
            kill_priv: false,
            patches: None,
        },
        &[ino],
    )
    .expect("it is open");
    let said = events(&mut subtree);
    let last = said.iter().rev().find(|event| {
        matches!(event, Event::Inode(inode) if inode.ino == ino)
            || matches!(event, Event::InodeGone(gone) if *gone == ino)
    });
    assert_eq!(last, Some(&Event::InodeGone(ino)), "{said:?}");
    assert!(!said.iter().any(|event| matches!(event, Event::Discard { .. } | Event::Orphan(_))), "{said:?}");
    let drop = subtree.closed(ino).expect("it has objects");
    assert_eq!((drop.ino, drop.from), (ino, 0));
    assert_eq!(subtree.closed(ino), None);
    assert!(done(&mut subtree, &Op::GetAttr { ino }, &[]).is_err());
}

#[test]
fn a_cut_of_objects_is_made_at_once_and_a_removal_with_the_merge() {
    let mut subtree = empty();
    let ino = create(&mut subtree, "f");
    done(&mut subtree, &spilled(ino, 1 << 20), &[]).expect("it is there");
    assert_eq!(subtree.take_drops(), []);
    let set = loligo_types::SetAttr { size: Some(100), ..Default::default() };
    done(&mut subtree, &Op::SetAttr { ino, set, handle: None }, &[]).expect("it is there");
    let drops = subtree.take_drops();
    assert_eq!(drops.iter().map(|drop| (drop.ino, drop.from)).collect::<Vec<_>>(), [(ino, 100)]);
    assert!(!events(&mut subtree).iter().any(|event| matches!(event, Event::Discard { .. })));
    done(&mut subtree, &unlink("f"), &[]).expect("it is there");
    assert_eq!(subtree.take_drops(), []);
    assert!(events(&mut subtree).iter().any(|event| matches!(event, Event::Discard { from: 0, .. })));
}

#[test]
fn without_somebody_who_has_objects_no_file_outgrows_its_inode() {
    let mut subtree = Subtree { objects: false, ..empty() };
    let ino = create(&mut subtree, "f");
    assert_eq!(done(&mut subtree, &spilled(ino, 1 << 20), &[]), Err(FsError::NotSupported));
}

#[test]
fn what_is_done_to_a_file_without_a_name_is_nothing_to_merge() {
    let mut subtree = empty();
    let ino = create(&mut subtree, "f");
    done(&mut subtree, &unlink("f"), &[ino]).expect("it is there");
    let used = subtree.used();
    assert_eq!(subtree.sealed().len(), 1);
    subtree.merged(1, used);
    assert_eq!(subtree.outstanding().changes, 0);
    done(&mut subtree, &spilled(ino, 1 << 20), &[ino]).expect("it is open");
    let set = loligo_types::SetAttr { mode: Some(0o600), ..Default::default() };
    done(&mut subtree, &Op::SetAttr { ino, set, handle: None }, &[ino]).expect("it is open");
    assert_eq!((subtree.outstanding().changes, subtree.sealed().len()), (0, 0));
    create(&mut subtree, "g");
    let groups = subtree.sealed();
    assert!(subtree.outstanding().changes == 1 && groups.len() == 1 && !groups[0].parts.is_empty());
}

#[test]
fn what_is_new_is_counted_before_it_is_merged_and_the_root_says_of_all_of_it() {
    let mut subtree = empty();
    let dir = |dir: u64, text: &str| {
        let name = Name::new(text.as_bytes()).expect("a name");
        Op::Mkdir { dir: Ino(dir), name, mode: 0o755, umask: 0 }
    };
    let made =
        |subtree: &mut Subtree, op: &Op| done(subtree, op, &[]).expect("it is new").attr().expect("it has some").ino;
    let outer = made(&mut subtree, &dir(300, "a"));
    let inner = made(&mut subtree, &dir(outer.0, "b"));
    for text in ["f", "g"] {
        let name = Name::new(text.as_bytes()).expect("a name");
        let op = Op::Create { dir: inner, name, mode: 0o644, umask: 0, flags: WRITE, exclusive: true, handle: 1 };
        let file = made(&mut subtree, &op);
        done(&mut subtree, &spilled(file, 100), &[]).expect("his");
    }
    let events = events(&mut subtree);
    let last = |ino: Ino| {
        let is_it = |event: &&Event| matches!(event, Event::Inode(inode) if inode.ino == ino);
        match events.iter().rfind(is_it) {
            Some(Event::Inode(inode)) => inode.clone(),
            other => panic!("{other:?}"),
        }
    };
    for event in &events {
        if let Event::Inode(inode) = event
            && inode.ino.0 > EPOCH
        {
            let last = last(inode.ino);
            assert_eq!(last.own(), last.accounted, "{last:?}");
        }
    }
    let below = |ino| (last(ino).rstat().entries, last(ino).rstat().bytes);
    assert_eq!((below(inner), below(outer), below(Ino(300))), ((2, 200), (3, 200), (4, 200)));
    // Of what was merged the rank counts by itself.
    let used = subtree.used();
    subtree.merged(1, used);
    let late = Ino(used.0 - 1);
    done(&mut subtree, &spilled(late, 500), &[]).expect("his");
    let events = self::events(&mut subtree);
    let counts: Vec<_> = events
        .iter()
        .filter_map(
            |event| if let Event::Inode(inode) = event { Some((inode.ino, inode.accounted.bytes)) } else { None },
        )
        .collect();
    assert_eq!(counts, [(late, 100), (late, 100)], "as it was, and as it is");
}
