//! Random operations: a tree that keeps all in memory against one that checkpoints, evicts and crashes. Both must
//! answer the same, hold the invariants, and end in the same table.

use loligo_types::{
    Access, Cred, Frag, FsResult, Ino, Kind, Name, Op, OpenFlags, RenameMode, SetAttr, SetTime, Time, XattrMode,
};
use proptest::prelude::*;

use super::{Fs, empty_tree, table::Table};
use crate::{Change, Loaded, Need, Record, apply};

/// One random step; the numbers choose among what there is.
type Step = (u8, u8, u8, u8, u16);

fn creds() -> [Cred; 3] {
    [Cred::root(), Cred::user(1000, 1000), Cred { uid: 1001, gid: 1001, groups: vec![1000] }]
}

fn inodes(fs: &Fs, kind: Option<Kind>) -> Vec<Ino> {
    let known = (1..fs.tree.next_ino().0).filter_map(|n| fs.tree.inode(Ino(n)));
    known.filter(|inode| kind.is_none_or(|kind| inode.kind == kind)).map(|inode| inode.ino).collect()
}

fn pick(list: &[Ino], n: u8) -> Ino {
    // Sometimes a number that is gone or never was.
    if n == 255 { Ino(u64::from(n) + 3) } else { list[usize::from(n) % list.len()] }
}

fn name(n: u8) -> Name {
    let long = ["a", "b", "cc", "f", "a-name-longer-than-a-small-name-holds", "k", "kk", "p"];
    Name::new(long[usize::from(n) % long.len()].as_bytes()).expect("good names")
}

fn xattr_name(n: u8) -> std::sync::Arc<[u8]> {
    let names: [&[u8]; 4] = [b"user.a", b"user.b", b"trusted.t", b"security.capability"];
    names[usize::from(n) % names.len()].into()
}

fn acl_value(n: u16) -> std::sync::Arc<[u8]> {
    use loligo_types::{Acl, AclEntry, AclTag::*};
    let perm = |shift: u16| (n >> shift & 7) as u8;
    let none = u32::MAX;
    let mut entries = vec![(UserObj, none, 7), (GroupObj, none, perm(0)), (Other, none, perm(3))];
    if n & 0x100 != 0 {
        entries.extend([(User, 1001, perm(6)), (Group, 1000, perm(9)), (Mask, none, perm(1))]);
    }
    let mut acl = Acl(entries.into_iter().map(|(tag, id, perm)| AclEntry { tag, id, perm }).collect());
    acl.0.sort();
    crate::acl::xattr::print(&acl).into()
}

fn op_of(fs: &Fs, (code, a, b, c, n): Step) -> Op {
    let (dirs, all, files) = (inodes(fs, Some(Kind::Dir)), inodes(fs, None), inodes(fs, Some(Kind::File)));
    let files = if files.is_empty() { all.clone() } else { files };
    let (dir, ino, file) = (pick(&dirs, a), pick(&all, a), pick(&files, a));
    let mode = [0o755, 0o777, 0o1777, 0o2775, 0o6755, 0o600, 0o070, 0o000][usize::from(n) % 8];
    let set = |set: SetAttr| Op::SetAttr { ino, set, handle: None };
    let flags = OpenFlags { read: true, write: n & 1 != 0, truncate: n & 6 == 6, ..OpenFlags::default() };
    match code % 32 {
        0..=4 => Op::Create { dir, name: name(b), mode, umask: 0o22, flags, exclusive: n & 16 != 0, handle: 1 },
        5..=7 => Op::Mkdir { dir, name: name(b), mode, umask: 0 },
        8 => Op::Mknod {
            dir,
            name: name(b),
            kind: if n & 1 == 0 { Kind::Fifo } else { Kind::Char },
            mode,
            umask: 0,
            rdev: 5,
        },
        9 => Op::Symlink { dir, name: name(b), target: name(c).as_bytes().into() },
        10 => Op::Link { ino: pick(&all, c), dir, name: name(b) },
        11 | 12 => Op::Unlink { dir, name: name(b) },
        13 => Op::Rmdir { dir, name: name(b) },
        14..=17 => {
            let new_dir = pick(&dirs, c);
            let mode = [RenameMode::Replace, RenameMode::Whiteout, RenameMode::NoReplace, RenameMode::Exchange];
            let (new_name, mode) = (name((n >> 2) as u8), mode[usize::from(n) % 4]);
            Op::Rename { dir, name: name(b), new_dir, new_name, mode }
        }
        18 => set(SetAttr { mode: Some(mode), ..SetAttr::default() }),
        19 => set(SetAttr {
            uid: Some(1000 + u32::from(b) % 2),
            gid: Some(1000 + u32::from(c) % 2),
            ..SetAttr::default()
        }),
        20 => Op::SetAttr {
            ino: file,
            set: SetAttr { size: Some(u64::from(n) % 150), grow: b & 2 == 2, ..SetAttr::default() },
            handle: (b & 1 == 0).then_some(1),
        },
        21 => set(SetAttr {
            atime: Some(SetTime::Now),
            mtime: (n & 1 == 0).then_some(SetTime::At(Time(7))),
            ..SetAttr::default()
        }),
        22 => Op::SetXattr { ino, name: xattr_name(b), value: name(c).as_bytes().into(), mode: XattrMode::Set },
        23 => Op::RemoveXattr { ino, name: xattr_name(b) },
        24 => {
            let names = [crate::acl::xattr::ACCESS, crate::acl::xattr::DEFAULT];
            Op::SetXattr { ino, name: names[usize::from(b) % 2].into(), value: acl_value(n), mode: XattrMode::Set }
        }
        25 | 26 => {
            let data = vec![b; usize::from(c) % 30].into();
            let offset = (n & 1 == 0).then_some(u64::from(n) % 60);
            Op::WriteInline { ino: file, handle: 1, offset, data, mtime: SetTime::Now, kill_priv: b & 1 == 0 }
        }
        27 => {
            let cuts = fs.tree.inode(file).map(|inode| inode.cuts).unwrap_or_default();
            let huge = if n & 0x300 == 0x300 { loligo_types::limits::FILE_SIZE_MAX - 70_000 } else { 0 };
            let grow_to = (n & 1 == 0).then_some(huge + u64::from(n));
            let spilled = c & 1 == 0;
            let (behind, mtime, kill_priv) = (None, SetTime::Now, false);
            let patches = loligo_types::Patches::of(&[(u64::from(c), vec![b; usize::from(c)].into())]);
            let patches = patches.filter(|_| n & 0x30 == 0x30).map(std::sync::Arc::new);
            Op::SetData { ino: file, handle: 1, cuts, grow_to, behind, mtime, spilled, kill_priv, patches }
        }
        28 => Op::Tmpfile { dir, mode, umask: 0, flags, linkable: n & 1 == 0, handle: 1 },
        29 => Op::Readdir { dir, cookie: u64::from(b) % 7, limit: u32::from(c) % 4, plus: n & 1 == 0, handle: None },
        30 => match n % 6 {
            0 => Op::ListXattr { ino },
            1 => Op::GetXattr { ino, name: xattr_name(b) },
            2 => Op::ReadInline { ino: file, handle: 1 },
            3 => Op::Access { ino, want: Access { read: b & 1 != 0, write: b & 2 != 0, exec: b & 4 != 0 } },
            4 => Op::Extend { ino: file, handle: 1, len: u64::from(b) },
            _ => Op::LookupParent { dir: ino },
        },
        _ => Op::Lookup { dir, name: name(b) },
    }
}

/// Does the server's part when the last handle of a file that was opened ends, in both.
fn toggle_open(fs: &mut Fs, ino: Ino) {
    if fs.open.remove(&ino).is_none() {
        fs.open.insert(ino, 1);
        return;
    }
    fs.tree.load(fs.table.read(&Need::Inode(ino)));
    let events = crate::reap(&fs.tree, ino);
    fs.commit(events);
}

/// A server that starts again over the table and what the journal still holds.
fn recover(fs: Fs) -> Fs {
    let oldest = fs.tree.oldest_dirty();
    let mut tree = empty_tree();
    fs.table.small().into_iter().for_each(|item| tree.load(item));
    for (lsn, events) in &fs.journal {
        if oldest.is_some_and(|oldest| *lsn >= oldest) {
            events.iter().for_each(|event| apply(&mut tree, event, *lsn));
        }
    }
    let journal = fs.journal;
    let last = journal.last().map(|(lsn, _)| *lsn).unwrap_or_default();
    tree.last_lsn = last;
    Fs { tree, table: fs.table, journal, now: fs.now, open: fs.open, distrusted: fs.distrusted }
}

fn load_all(fs: &mut Fs) {
    for ino in fs.table.inodes.keys().copied().collect::<Vec<_>>() {
        for need in [Need::Inode(ino), Need::Xattrs(ino), Need::Inline(ino)] {
            fs.tree.load(fs.table.read(&need));
        }
        let mut from_hash = 1;
        while from_hash <= crate::HASH_MAX {
            let Loaded::Range { dir, upto_hash, entries, .. } = fs.table.read(&Need::Range { dir: ino, from_hash })
            else {
                unreachable!("a range was asked for");
            };
            fs.tree.load(Loaded::Range { dir, from_hash, upto_hash, entries });
            from_hash = upto_hash.saturating_add(1);
            if upto_hash == u64::MAX {
                break;
            }
        }
    }
}

fn final_table(fs: &mut Fs) -> Table {
    load_all(fs);
    fs.check();
    fs.settle();
    fs.check();
    fs.checkpoint(usize::MAX);
    assert_eq!(fs.tree.oldest_dirty(), None);
    fs.table.clone()
}

fn same(a: &FsResult<Change>, b: &FsResult<Change>) -> bool {
    match (a, b) {
        (Ok(a), Ok(b)) => a.answer == b.answer && a.origin_ino == b.origin_ino && a.origin_value == b.origin_value,
        (Err(a), Err(b)) => a == b,
        _ => false,
    }
}

/// Reads a directory to its end; how it is cut into answers may differ.
fn listing(fs: &mut Fs, cred: &Cred, op: &Op) -> FsResult<Vec<loligo_types::DirEntry>> {
    let Op::Readdir { dir, mut cookie, limit, plus, handle } = op.clone() else { return Ok(Vec::new()) };
    let (mut all, mut ended) = (Vec::new(), false);
    while !ended {
        let answer = fs.run(cred, &Op::Readdir { dir, cookie, limit, plus, handle })?.answer;
        let loligo_types::Answer::Entries { entries, end, .. } = answer else { unreachable!("a readdir's answer") };
        assert!(end || !entries.is_empty(), "an answer without entries is the last");
        cookie = entries.last().map_or(cookie, |entry| entry.cookie);
        all.extend(entries);
        ended = end;
    }
    Ok(all)
}

/// Ends a checkpoint that is under way, of which so many records are in the table.
fn land(fs: &mut Fs, flying: &mut Option<(Vec<Record>, usize)>) {
    let Some((records, written)) = flying.take() else { return };
    records[written..].iter().for_each(|record| fs.table.write(record));
    fs.tree.checkpoint_done();
}

fn run(steps: Vec<(Step, u8)>) {
    let (mut a, mut b) = (Fs::new(), Fs::new());
    let mut flying = None;
    let creds = creds();
    for (fs, mode) in [(&mut a, 0o777), (&mut b, 0o777)] {
        let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
        fs.run(&creds[0], &Op::SetAttr { ino: Ino::ROOT, set, handle: None }).expect("root may chmod");
    }
    for (step, other) in steps {
        let op = op_of(&a, step);
        let cred = &creds[usize::from(other) % 3];
        if matches!(op, Op::Readdir { .. }) {
            assert_eq!(listing(&mut a, cred, &op), listing(&mut b, cred, &op));
            b.now = a.now;
        } else {
            let (was, is) = (a.run(cred, &op), b.run(cred, &op));
            assert!(same(&was, &is), "{op:?}: {was:?} and {is:?}");
        }
        a.check();
        match other {
            0..25 => {
                land(&mut b, &mut flying);
                b.checkpoint(usize::from(other) % 7 + 1);
            }
            // One that goes on beside operations; some of it is in the table at once, the rest when it ends.
            25..35 if flying.is_none() => {
                let records = b.tree.take_checkpoint(usize::from(other) - 20).records;
                let written = usize::from(step.4) % (records.len() + 1);
                records[..written].iter().for_each(|record| b.table.write(record));
                flying = Some((records, written));
            }
            25..40 => land(&mut b, &mut flying),
            40..60 => {
                let pinned = |ino: Ino| ino.0.is_multiple_of(3);
                b.tree.evict(0, &pinned);
                b.tree.evict(0, &pinned);
            }
            60..70 => {
                flying = None;
                b = recover(b);
            }
            70..75 => {
                // A checkpoint that is written, but whose end is never told.
                if flying.take().is_none() {
                    let checkpoint = b.tree.take_checkpoint(5);
                    checkpoint.records.iter().for_each(|record| b.table.write(record));
                }
                if other & 1 == 0 { b = recover(b) } else { b.tree.checkpoint_failed() }
            }
            75..110 => {
                let all = inodes(&a, None);
                let ino = pick(&all, step.1);
                toggle_open(&mut a, ino);
                toggle_open(&mut b, ino);
            }
            110..115 => {
                a.settle();
                b.settle();
            }
            115..150 => {
                let (dir, hash) = (pick(&inodes(&a, Some(Kind::Dir)), step.2 % 128), b.tree.hash(&name(step.3)));
                if let Some(from_hash) = b.tree.unknown_from(dir, Frag::WHOLE, hash) {
                    b.tree.load(b.table.read(&Need::Hashes { dir, from_hash }));
                }
            }
            150..160 => b.tree.evict(0, &|_| false),
            _ => {}
        }
    }
    land(&mut b, &mut flying);
    // Replay from nothing.
    let mut replayed = Fs::new();
    replayed.tree = empty_tree();
    replayed.journal.clear();
    for (lsn, events) in &a.journal {
        events.iter().for_each(|event| apply(&mut replayed.tree, event, *lsn));
    }
    replayed.check();
    // Twice over is as once.
    let (first, last) = (a.journal.len() / 2, a.journal.len());
    for (lsn, events) in &a.journal[first..last] {
        let _: Vec<()> = events.iter().map(|event| apply(&mut replayed.tree, event, *lsn)).collect();
    }
    let end = final_table(&mut a);
    assert_eq!(crate::fsck::check_all(super::table::KEY, &end.events()).findings, []);
    assert_eq!(end, final_table(&mut replayed));
    assert_eq!(end, final_table(&mut b));
    b.tree.evict(0, &|_| false);
    b.tree.evict(0, &|_| false);
    assert_eq!(b.tree.inodes_cached(), 1, "only the root stays");
    assert!(b.tree.heap_bytes < 1024, "{} bytes are counted and not there", b.tree.heap_bytes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn checkpoints_evictions_and_crashes_change_nothing(steps in prop::collection::vec(any::<(Step, u8)>(), 1..150)) {
        run(steps);
    }
}
