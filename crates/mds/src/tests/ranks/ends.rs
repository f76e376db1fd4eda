//! Operations on the inode at the end of a path, with one request: opened, made and opened, changed, read, listed. Names that are made or
//! taken away are in `via.rs`.

use std::sync::Arc;

use loligo_types::{
    Answer, Control, FileLock, FsError, Ino, Kind, Lease, LockKind, LockOwner, Name, Op, Replicas, SetAttr,
};

use super::table::{home, placed};
use super::walks::chmod as by_number;
use super::*;
use crate::tests::paths::limited;

fn via(names: &[&str], what: Op) -> Op {
    let names = names.iter().map(|text| name(text)).collect::<Arc<[Name]>>();
    let by = match what {
        Op::Create { .. } | Op::Readdir { .. } => Replicas::ToTheEnd,
        _ => Replicas::OnTheWay,
    };
    Op::Via { dir: Ino::ROOT, names, by, what: Box::new(what) }
}

fn open(handle: u64) -> Op {
    Op::Open { ino: Ino(0), flags: READ, handle }
}

fn made(text: &str, exclusive: bool, handle: u64) -> Op {
    Op::Create { dir: Ino(0), name: name(text), mode: 0o644, umask: 0, flags: WRITE, exclusive, handle }
}

fn mode(mode: u16) -> Op {
    Op::SetAttr { ino: Ino(0), set: SetAttr { mode: Some(mode), ..SetAttr::default() }, handle: None }
}

fn list(plus: bool) -> Op {
    Op::Readdir { dir: Ino(0), cookie: 0, limit: 100, plus, handle: None }
}

fn symlink(dir: Ino, text: &str, target: &str) -> Op {
    Op::Symlink { dir, name: name(text), target: target.as_bytes().into() }
}

/// The inode that was opened, and true if it was made.
fn opened(outcome: &Outcome) -> (Ino, bool) {
    match outcome {
        Outcome::Answered(Ok(Answer::Opened { attr, created, .. })) => (attr.ino, *created),
        other => panic!("{other:?}"),
    }
}

fn error(outcome: &Outcome) -> FsError {
    match outcome {
        Outcome::Answered(Err(error)) => *error,
        other => panic!("{other:?}"),
    }
}

/// Number of names that the way alone led on, the inode and kind at its end, and the rank that has it.
fn gone(outcome: &Outcome) -> (u32, Ino, Kind, Option<usize>) {
    match outcome {
        Outcome::Answered(Ok(Answer::Walked { done, last, .. })) => match &**last {
            Answer::Entry(attr) => (*done, attr.ino, attr.kind, None),
            Answer::Remote { ino, kind, rank } => (*done, *ino, *kind, Some(usize::from(rank.0))),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// The directory that was listed, the names in it, and whether that was all.
fn listed(outcome: &Outcome) -> (Ino, Vec<String>, bool) {
    let Outcome::Answered(Ok(Answer::Walked { dir, last, .. })) = outcome else { panic!("{outcome:?}") };
    let Answer::Entries { entries, end, .. } = &**last else { panic!("{last:?}") };
    let mut names: Vec<String> = entries.iter().map(|entry| entry.name.to_string()).collect();
    names.sort_unstable();
    (*dir, names, *end)
}

/// True if a rank knows a handle as one of this file.
fn knows(cluster: &mut Cluster, client: usize, at: usize, ino: Ino, handle: u64) -> bool {
    let (owner, end) = (LockOwner(1), u64::MAX);
    let lock = FileLock { kind: LockKind::Flock, owner, pid: 1, exclusive: true, start: 0, end };
    match cluster.ask(client, at, Op::Control(Control::GetLock { ino, handle, lock })) {
        Outcome::Answered(Ok(Answer::Lock(None))) => true,
        Outcome::Answered(Err(FsError::BadHandle)) => false,
        other => panic!("{other:?}"),
    }
}

fn counted(cluster: &Cluster, op: &str) -> u64 {
    cluster.world(0).mds.status().ops.get(op).map_or(0, |count| count.count)
}

#[test]
fn one_request_goes_the_way_and_opens_what_is_there() {
    let (mut cluster, a, here, _) = two_ranks();
    let d = cluster.mkdir(a, here, "d");
    let f = cluster.touch(a, d, "f");
    let before = (counted(&cluster, "open"), counted(&cluster, "create"), counted(&cluster, "lookup"));
    let way = ["here", "d", "f"];
    // With the rights and leases that an open by number brings.
    cluster.at(0, |world| world.clients[a].want = Lease::ATTR);
    let seq = cluster.send(a, 0, via(&way, open(70)));
    let (result, granted) = cluster.at(0, |world| world.reply(a, seq).expect("answered"));
    let Ok(Answer::Opened { attr, created: false, rights, data }) = result else { panic!("{result:?}") };
    assert_eq!((attr.ino, rights.has(Lease::CACHE), data.as_deref()), (f, true, Some(&[][..])));
    assert_eq!(granted, [(f, Lease::ATTR)]);
    assert!(knows(&mut cluster, a, 0, f, 70));
    let g = opened(&cluster.ask(a, 0, via(&way[..2], made("g", false, 71))));
    assert!(g.1 && cluster.lookup(a, d, "g") == Ok(g.0) && knows(&mut cluster, a, 0, g.0, 71));
    assert_eq!(opened(&cluster.ask(a, 0, via(&way[..2], made("g", false, 72)))), (g.0, false));
    assert_eq!(error(&cluster.ask(a, 0, via(&way[..2], made("g", true, 73)))), FsError::Exists);
    // A directory, too.
    assert_eq!(opened(&cluster.ask(a, 0, via(&way[..2], open(74)))), (d, false));
    let after = (counted(&cluster, "open"), counted(&cluster, "create"), counted(&cluster, "lookup"));
    assert_eq!((after.0 - before.0, after.1 - before.1), (2, 3));
    assert_eq!(error(&cluster.ask(a, 0, via(&["here", "d", "no"], open(75)))), FsError::NotFound);
    assert_eq!(gone(&cluster.ask(a, 0, via(&["here", "d", "f", "x"], open(76)))), (3, f, Kind::File, None));
    assert_eq!(gone(&cluster.ask(a, 0, via(&way, made("x", false, 77)))), (3, f, Kind::File, None));
    let handles = (70..75).filter(|handle| *handle != 73).collect();
    assert!(cluster.call(a, Op::Control(Control::Close { handles, lost: false })).is_ok());
    assert!(!knows(&mut cluster, a, 0, f, 70));
    cluster.finish();
}

#[test]
fn one_request_goes_the_way_and_changes_reads_or_lists_what_is_there() {
    let (mut cluster, a, here, _) = two_ranks();
    let d = cluster.mkdir(a, here, "d");
    cluster.touch(a, d, "f");
    assert!(cluster.call(a, symlink(d, "s", "f")).is_ok());
    let outcome = cluster.ask(a, 0, via(&["here", "d", "f"], mode(0o640)));
    assert!(matches!(&outcome, Outcome::Answered(Ok(Answer::Entry(attr))) if attr.mode == 0o640), "{outcome:?}");
    assert!(matches!(cluster.ask(a, 0, via(&["here", "d"], mode(0o750))), Outcome::Answered(Ok(Answer::Entry(_)))));
    assert_eq!(cluster.attr(a, d).map(|attr| attr.mode), Ok(0o750));
    let read = |names: &[&str]| via(names, Op::Readlink { ino: Ino(0) });
    let target = cluster.ask(a, 0, read(&["here", "d", "s"]));
    assert!(matches!(&target, Outcome::Answered(Ok(Answer::Bytes(bytes))) if **bytes == *b"f"), "{target:?}");
    assert_eq!(error(&cluster.ask(a, 0, read(&["here", "d", "f"]))), FsError::Invalid);
    for plus in [false, true] {
        let all = listed(&cluster.ask(a, 0, via(&["here", "d"], list(plus))));
        assert_eq!(all, (d, vec!["f".into(), "s".into()], true));
    }
    // Of a symbolic link nothing is done but to read it: who asks goes on where it leads.
    let link = cluster.lookup(a, d, "s").expect("it is there");
    for what in [open(1), mode(0o600), list(false), made("x", false, 2)] {
        assert_eq!(gone(&cluster.ask(a, 0, via(&["here", "d", "s"], what))), (3, link, Kind::Symlink, None));
    }
    // Nor what needs a handle, or does not begin at the start.
    let handle = Some(1);
    let odd = [
        Op::SetAttr { ino: Ino(0), set: SetAttr::default(), handle },
        Op::Readdir { dir: Ino(0), cookie: 0, limit: 1, plus: false, handle },
        Op::Readdir { dir: Ino(0), cookie: 1, limit: 1, plus: false, handle: None },
        Op::GetAttr { ino: Ino(0) },
    ];
    for what in odd {
        assert_eq!(error(&cluster.ask(a, 0, via(&["here", "d"], what))), FsError::Invalid);
    }
    cluster.finish();
}

#[test]
fn where_it_is_another_ranks_it_says_so_and_nothing_was_done() {
    let (mut cluster, a, here, there) = two_ranks();
    let e = cluster.mkdir(a, there, "e");
    let f = cluster.touch(a, e, "f");
    let way = ["there", "e", "f"];
    let (done, _, kind, at) = gone(&cluster.ask(a, 0, via(&way, open(70))));
    assert!(done < 3 && kind == Kind::Dir && at == Some(1));
    assert_eq!(opened(&cluster.ask(a, 1, via(&way, open(70)))).0, f);
    assert!(knows(&mut cluster, a, 1, f, 70));
    // A directory that lives elsewhere than its name is asked for there.
    assert_eq!(gone(&cluster.ask(a, 0, via(&["there"], mode(0o700)))), (1, there, Kind::Dir, Some(1)));
    assert_eq!(gone(&cluster.ask(a, 0, via(&["there"], open(71)))), (1, there, Kind::Dir, Some(1)));
    assert_eq!(cluster.attr(a, there).map(|attr| attr.mode), Ok(0o755));
    // A second name of a file of another rank's.
    assert!(cluster.call(a, Op::Link { ino: f, dir: here, name: name("g") }).is_ok());
    assert_eq!(gone(&cluster.ask(a, 0, via(&["here", "g"], open(72)))), (2, f, Kind::File, Some(1)));
    let remote = cluster.ask(a, 0, via(&["here"], made("g", false, 73)));
    assert!(matches!(remote, Outcome::Answered(Ok(Answer::Remote { ino, .. })) if ino == f), "{remote:?}");
    // What is listed by the rank of the directory, with a way that leads over the other.
    assert_eq!(listed(&cluster.ask(a, 1, via(&["there", "e"], list(true)))), (e, vec!["f".into()], true));
    assert_eq!(gone(&cluster.ask(a, 0, via(&["there"], list(false)))), (1, there, Kind::Dir, Some(1)));
    assert!(cluster.call_by(a, 1, &Op::Control(Control::Close { handles: vec![70], lost: false })).0.is_ok());
    cluster.finish();
}

#[test]
fn of_a_directory_in_fragments_a_rank_lists_what_it_has() {
    let (mut cluster, a, here, _) = two_ranks();
    let wide = cluster.mkdir(a, here, "wide");
    cluster.touch_all(a, wide, 8);
    cluster.migrate_frag(wide, loligo_types::Frag { bits: 1, value: 1 }, 0, 1);
    let (dir, first, end) = listed(&cluster.ask(a, 0, via(&["here", "wide"], list(false))));
    assert!(dir == wide && (1..8).contains(&first.len()) && !end, "{first:?}");
    // Its attributes are of all parts: they are borrowed, or asked for where it is at home.
    match cluster.ask(a, 0, via(&["here", "wide"], mode(0o711))) {
        Outcome::Answered(Ok(Answer::Entry(attr))) => assert_eq!(attr.mode, 0o711),
        outcome => assert_eq!((gone(&outcome).1, cluster.call(a, by_number(wide, 0o711)).is_ok()), (wide, true)),
    }
    assert_eq!(cluster.attr(a, wide).map(|attr| attr.mode), Ok(0o711));
    // Files are opened by the rank that has the name.
    let mut elsewhere = 0;
    let names = ["f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"];
    let present: Vec<&str> = names.into_iter().filter(|text| cluster.lookup(a, wide, text).is_ok()).collect();
    for (handle, text) in present.iter().enumerate() {
        match cluster.ask(a, 0, via(&["here", "wide", text], open(100 + handle as u64))) {
            Outcome::Answered(Ok(Answer::Opened { .. })) => {}
            outcome => {
                assert_eq!(gone(&outcome), (2, wide, Kind::Dir, Some(1)));
                assert!(opened(&cluster.ask(a, 1, via(&["here", "wide", text], open(100 + handle as u64)))).0.0 > 0);
                elsewhere += 1;
            }
        }
    }
    assert!(present.is_empty() || (1..8).contains(&elsewhere), "{elsewhere} of {present:?}");
    cluster.finish();
}

#[test]
fn sent_again_it_is_not_done_twice_and_is_open_once() {
    let (mut cluster, a, here, _) = two_ranks();
    let d = cluster.mkdir(a, here, "d");
    let f = cluster.touch(a, d, "f");
    let make = via(&["here", "d"], made("new", true, 70));
    let change = via(&["here", "d", "f"], mode(0o640));
    let open = via(&["here", "d", "f"], open(71));
    let first = cluster.send(a, 0, make.clone());
    let new = opened(&cluster.outcome(a, 0, first).expect("done")).0;
    let second = cluster.send(a, 0, change.clone());
    assert!(matches!(cluster.outcome(a, 0, second), Some(Outcome::Answered(Ok(Answer::Entry(_))))));
    let third = cluster.send(a, 0, open.clone());
    assert_eq!(opened(&cluster.outcome(a, 0, third).expect("done")).0, f);
    // Another directory has its name, with files of the same names; the rank starts anew in between.
    assert_eq!(cluster.call(a, rename(here, "d", here, "old")), Ok(Answer::Done));
    let other = cluster.mkdir(a, here, "d");
    let (g, n) = (cluster.touch(a, other, "f"), cluster.touch(a, other, "new"));
    for restart in [false, true] {
        if restart {
            cluster.crash(0);
        }
        cluster.at(0, |world| world.send_again(a, first, make.clone()));
        assert_eq!(opened(&cluster.outcome(a, 0, first).expect("answered")), (new, true), "after a restart: {restart}");
        assert!(knows(&mut cluster, a, 0, new, 70));
        cluster.at(0, |world| world.send_again(a, second, change.clone()));
        let again = cluster.outcome(a, 0, second);
        let is_it = |attr: &loligo_types::Attr| (attr.ino, attr.mode) == (f, 0o640);
        assert!(matches!(&again, Some(Outcome::Answered(Ok(Answer::Entry(attr)))) if is_it(attr)), "{again:?}");
        // An open changes nothing, and is done anew: what the way leads to by now has the handle, and nothing else.
        cluster.at(0, |world| world.send_again(a, third, open.clone()));
        assert_eq!(opened(&cluster.outcome(a, 0, third).expect("answered")).0, g);
        assert!(knows(&mut cluster, a, 0, g, 71) && !knows(&mut cluster, a, 0, f, 71));
    }
    assert_eq!((cluster.lookup(a, other, "new"), cluster.attr(a, g).map(|attr| attr.mode)), (Ok(n), Ok(0o644)));
    // Where it leads to nothing that can be opened any more, nothing is open: nobody was told that it ever was.
    assert_eq!(cluster.call(a, rename(other, "f", other, "moved")), Ok(Answer::Done));
    cluster.at(0, |world| {
        world.disconnect(a);
        world.resume(a);
        world.send_again(a, third, open.clone());
    });
    assert_eq!(error(&cluster.outcome(a, 0, third).expect("answered")), FsError::NotFound);
    assert!(!knows(&mut cluster, a, 0, g, 71));
    cluster.finish();
}

#[test]
fn what_has_moved_since_it_was_made_is_opened_where_it_is() {
    let (mut cluster, a, here, _) = two_ranks();
    let d = cluster.mkdir(a, here, "d");
    let make = via(&["here", "d"], made("new", true, 70));
    let seq = cluster.send(a, 0, make.clone());
    let new = opened(&cluster.outcome(a, 0, seq).expect("done")).0;
    cluster.migrate(d, 0, 1);
    cluster.at(0, |world| world.send_again(a, seq, make));
    let outcome = cluster.outcome(a, 0, seq);
    let told = matches!(&outcome, Some(Outcome::Redirected { rank: 1, done: Some((ino, _)), .. }) if *ino == new);
    assert!(told, "{outcome:?}");
    assert!(knows(&mut cluster, a, 1, new, 70), "the handle went along");
    cluster.finish();
}

#[test]
fn who_may_not_go_the_way_or_open_the_file_does_neither() {
    let (mut cluster, a, here, _) = two_ranks();
    let user = cluster.client();
    cluster.at(0, |world| world.clients[user].uid = 7);
    let d = cluster.mkdir(a, here, "d");
    let f = cluster.touch(a, d, "f");
    let way = ["here", "d", "f"];
    assert!(cluster.call(a, by_number(f, 0o600)).is_ok());
    for what in [open(70), mode(0o666)] {
        let refused = if matches!(what, Op::Open { .. }) { FsError::Access } else { FsError::Perm };
        assert_eq!(error(&cluster.ask(user, 0, via(&way, what))), refused);
    }
    assert_eq!(error(&cluster.ask(user, 0, via(&way[..2], made("g", false, 71)))), FsError::Access);
    assert!(cluster.call(a, by_number(f, 0o644)).is_ok());
    assert_eq!(opened(&cluster.ask(user, 0, via(&way, open(70)))).0, f);
    assert_eq!(listed(&cluster.ask(user, 0, via(&way[..2], list(false)))).1, ["f"]);
    assert!(cluster.call(a, by_number(d, 0o711)).is_ok());
    assert_eq!(error(&cluster.ask(user, 0, via(&way[..2], list(false)))), FsError::Access);
    assert_eq!(opened(&cluster.ask(user, 0, via(&way, open(72)))).0, f);
    assert!(cluster.call(a, by_number(here, 0o700)).is_ok());
    assert_eq!(error(&cluster.ask(user, 0, via(&way, open(73)))), FsError::Access);
    assert!(!knows(&mut cluster, user, 0, f, 73));
    cluster.finish();
}

#[test]
fn who_is_limited_to_a_path_opens_below_it_and_nowhere_else() {
    let (mut cluster, root, here, _) = two_ranks();
    let (mine, theirs) = (cluster.mkdir(root, here, "mine"), cluster.mkdir(root, here, "theirs"));
    let (f, g) = (cluster.touch(root, mine, "f"), cluster.touch(root, theirs, "f"));
    let user = cluster.client_as(Some(limited(&["r:/here/mine"])));
    assert_eq!(opened(&cluster.ask(user, 0, via(&["here", "mine", "f"], open(70)))).0, f);
    assert_eq!(listed(&cluster.ask(user, 0, via(&["here", "mine"], list(false)))).1, ["f"]);
    let read_only = [via(&["here", "mine", "f"], mode(0o600)), via(&["here", "mine"], made("g", false, 71))];
    for op in read_only {
        let outcome = cluster.ask(user, 0, op);
        assert!(matches!(outcome, Outcome::Answered(Err(FsError::ReadOnly | FsError::NotAuthorized))), "{outcome:?}");
    }
    for op in [via(&["here", "theirs", "f"], open(72)), via(&["here", "theirs"], list(false))] {
        let outcome = cluster.ask(user, 0, op);
        assert!(matches!(outcome, Outcome::Answered(Err(_))), "{outcome:?}");
    }
    assert!(!knows(&mut cluster, root, 0, g, 72));
    cluster.finish();
}

#[test]
fn what_takes_the_name_while_others_give_back_what_they_hold_is_opened_instead() {
    let (mut cluster, a, here, _) = two_ranks();
    let b = cluster.client();
    let f = cluster.touch(a, here, "f");
    let g = cluster.touch(a, here, "g");
    // One who writes and does not answer.
    let open_by_number = Op::Open { ino: f, flags: WRITE, handle: 7 };
    assert!(matches!(cluster.ask(b, 0, open_by_number), Outcome::Answered(Ok(Answer::Opened { .. }))));
    cluster.at(0, |world| world.clients[b].obeys = false);
    let seq = cluster.send(a, 0, via(&["here", "f"], open(70)));
    assert_eq!(cluster.outcome(a, 0, seq), None);
    // It is replaced and closed, and so gone, before that one has answered.
    assert!(cluster.call(b, rename(here, "g", here, "f")).is_ok());
    assert!(cluster.call(b, Op::Control(Control::Close { handles: vec![7], lost: false })).is_ok());
    cluster.at(0, |world| world.clients[b].obeys = true);
    cluster.wait(100);
    assert_eq!(opened(&cluster.outcome(a, 0, seq).expect("answered")).0, g);
    cluster.finish();
}

#[test]
fn under_placement_table_what_a_path_leads_to_decides_by_itself_who_opens_it() {
    let (mut cluster, root, user, top) = placed("table");
    let a = cluster.mkdir(root, top, "a");
    let b = cluster.mkdir(root, a, "b");
    let f = cluster.touch(root, b, "f");
    let home = home(b);
    for dir in [a, b] {
        assert!(cluster.call(root, by_number(dir, 0o700)).is_ok());
    }
    let way = ["top", "a", "b", "f"];
    // Twice: by names, and by what was found before.
    for handle in [70, 71] {
        assert_eq!(opened(&cluster.ask(user, home, via(&way, open(handle)))).0, f);
    }
    assert_eq!(error(&cluster.ask(user, home, via(&way, mode(0o666)))), FsError::Perm);
    assert_eq!(error(&cluster.ask(user, home, via(&way[..3], list(false)))), FsError::Access);
    assert_eq!(error(&cluster.ask(user, home, via(&way[..3], made("new", false, 72)))), FsError::Access);
    assert!(cluster.call(root, by_number(f, 0o600)).is_ok());
    assert_eq!(error(&cluster.ask(user, home, via(&way, open(73)))), FsError::Access);
    cluster.finish();
}
