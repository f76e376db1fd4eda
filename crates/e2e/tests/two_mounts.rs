//! Two mounts of one file system see each other's acknowledged changes at once, and get in each other's way only as two
//! programs on one machine would.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};

use loligo_e2e::{PATIENCE, Two, eventually, within};
use rustix::fs::{CWD, FlockOperation, RenameFlags, fcntl_lock, flock, renameat_with};

/// Runs a body on two threads that start together, each with one mount.
fn race<T: Send + 'static>(
    two: &Two,
    what: &str,
    body: impl Fn(&Path, usize) -> T + Send + Sync + Clone + 'static,
) -> (T, T) {
    let roots = [two.a.path().to_owned(), two.b.path().to_owned()];
    within(2 * PATIENCE, what, move || {
        let barrier = Arc::new(Barrier::new(2));
        let [first, second] = roots.into_iter().enumerate().collect::<Vec<_>>().try_into().expect("two");
        let run = |(i, root): (usize, PathBuf)| {
            let (barrier, body) = (barrier.clone(), body.clone());
            std::thread::spawn(move || {
                barrier.wait();
                body(&root, i)
            })
        };
        let (first, second) = (run(first), run(second));
        (first.join().expect("no panic"), second.join().expect("no panic"))
    })
}

#[test]
fn a_created_or_removed_name_is_seen_at_once_also_by_who_knew_it_absent() {
    let Some(two) = Two::start("names") else { return };
    let (a, b) = (two.a.path().to_owned(), two.b.path().to_owned());
    within(PATIENCE, "creating and removing", move || {
        for i in 0..150 {
            let name = format!("file-{i}");
            let (maker, looker) = if i % 2 == 0 { (&a, &b) } else { (&b, &a) };
            assert!(!looker.join(&name).exists(), "absent at first");
            File::create(maker.join(&name)).expect("made");
            assert!(looker.join(&name).exists(), "{name} was made and is not seen");
            fs::set_permissions(maker.join(&name), fs::Permissions::from_mode(0o600)).expect("changed");
            assert_eq!(fs::metadata(looker.join(&name)).expect("there").mode() & 0o777, 0o600);
            if i % 3 == 0 {
                fs::remove_file(looker.join(&name)).expect("removed");
                assert!(!maker.join(&name).exists(), "{name} was removed and is still seen");
            }
        }
        let list = |root: &Path| {
            let mut names: Vec<_> =
                fs::read_dir(root).expect("readable").map(|e| e.expect("an entry").file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(list(&a).len(), 100);
        assert_eq!(list(&a), list(&b));
    });
    two.stop();
}

#[test]
fn what_was_written_is_read_elsewhere_before_it_is_closed() {
    let Some(two) = Two::start("writes") else { return };
    let (on_a, on_b) = two.paths("f");
    within(PATIENCE, "writing and reading", move || {
        let a = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&on_a).expect("made");
        a.write_all_at(b"first", 0).expect("written");
        let b = OpenOptions::new().read(true).write(true).open(&on_b).expect("open");
        // From inside the inode to objects, and with both ends writing.
        let mut expected = b"first".to_vec();
        for i in 0..60u64 {
            let (writer, reader) = if i % 2 == 0 { (&a, &b) } else { (&b, &a) };
            let piece = vec![b'a' + (i % 26) as u8; 700];
            writer.write_all_at(&piece, expected.len() as u64).expect("written");
            expected.extend(&piece);
            assert_eq!(reader.metadata().expect("there").len(), expected.len() as u64);
            let mut got = vec![0; expected.len()];
            reader.read_exact_at(&mut got, 0).expect("read");
            assert!(got == expected, "round {i}");
        }
        a.set_len(1000).expect("cut");
        assert_eq!(b.metadata().expect("there").len(), 1000);
        assert_eq!(fs::read(&on_b).expect("read"), expected[..1000]);
        b.set_len(3000).expect("grown");
        let got = fs::read(&on_a).expect("read");
        assert!(got[..1000] == expected[..1000] && got[1000..].iter().all(|x| *x == 0) && got.len() == 3000);
    });
    two.stop();
}

#[test]
fn closed_files_are_read_whole_elsewhere() {
    let Some(two) = Two::start("closed") else { return };
    let (a, b) = (two.a.path().to_owned(), two.b.path().to_owned());
    within(PATIENCE, "writing and reading", move || {
        for i in 0..60usize {
            let (writer, reader) = if i % 2 == 0 { (&a, &b) } else { (&b, &a) };
            let content: Vec<u8> = (0..i * 997).map(|x| (x + i) as u8).collect();
            // The same name again and again, so that each finds what it has cached replaced.
            fs::write(writer.join("same"), &content).expect("written");
            assert!(fs::read(reader.join("same")).expect("read") == content, "round {i}");
        }
    });
    two.stop();
}

#[test]
fn renames_in_opposite_directions_never_lock_up_and_lose_nothing() {
    let Some(two) = Two::start("renames") else { return };
    fs::create_dir(two.a.path().join("p")).expect("made");
    fs::create_dir(two.a.path().join("q")).expect("made");
    fs::write(two.a.path().join("p/x"), "x").expect("written");
    fs::create_dir(two.a.path().join("p/d")).expect("made");
    let done = race(&two, "renaming", |root, side| {
        let (from, to) = if side == 0 { ("p", "q") } else { ("q", "p") };
        let mut done = [0u32; 2];
        for _ in 0..2000 {
            for (i, name) in ["x", "d"].into_iter().enumerate() {
                match fs::rename(root.join(from).join(name), root.join(to).join(name)) {
                    Ok(()) => done[i] += 1,
                    // The kernel itself refuses to take in, while it renames, that a directory was moved elsewhere.
                    // Any other look at it does.
                    Err(e) if e.kind() == ErrorKind::StaleNetworkFileHandle && name == "d" => {
                        let _ = fs::symlink_metadata(root.join(from).join(name));
                    }
                    Err(e) => assert_eq!(e.kind(), ErrorKind::NotFound, "{e}"),
                }
            }
        }
        done
    });
    for (i, name) in ["x", "d"].into_iter().enumerate() {
        let (there, back) = (done.0[i], done.1[i]);
        assert!(there == back || there == back + 1, "{name}: {there} there, {back} back");
        let at = if there == back { "p" } else { "q" };
        for root in [two.a.path(), two.b.path()] {
            assert!(root.join(at).join(name).exists());
            assert!(!root.join(if at == "p" { "q" } else { "p" }).join(name).exists());
        }
    }
    two.stop();
}

#[test]
fn what_was_renamed_into_a_directory_that_others_work_in_is_not_seen_there_when_they_have_taken_it_away() {
    let Some(two) = Two::start("renamed") else { return };
    let (a, b) = (two.a.path().to_owned(), two.b.path().to_owned());
    within(PATIENCE, "renaming", move || {
        for round in 0..20 {
            let (from, to) = (format!("from-{round}"), format!("to-{round}"));
            for dir in [&from, &to] {
                fs::create_dir(a.join(dir)).expect("made");
            }
            // Both make names there, so nobody is lent them for a while.
            for i in 0..3 {
                File::create(a.join(&to).join(format!("a-{i}"))).expect("made");
                File::create(b.join(&to).join(format!("b-{i}"))).expect("made");
            }
            let (file, other, dir) = (from.clone() + "/file", to.clone() + "/other", from.clone() + "/dir");
            File::create(a.join(&file)).expect("made");
            File::create(a.join(&other)).expect("made");
            fs::create_dir(a.join(&dir)).expect("made");
            for name in [&file, &dir, &other] {
                fs::metadata(a.join(name)).expect("there");
            }
            File::create(b.join(&to).join("b-last")).expect("made");
            let (file, dir) = (to.clone() + "/file", to.clone() + "/dir");
            fs::rename(a.join(from.clone() + "/file"), a.join(&file)).expect("renamed");
            fs::rename(a.join(from.clone() + "/dir"), a.join(&dir)).expect("renamed");
            if round % 2 == 0 {
                exchange(&a.join(&file), &a.join(&other));
            }
            for name in [&file, &dir, &other] {
                fs::rename(b.join(name), b.join(name.clone() + "-gone")).expect("renamed elsewhere");
                let found = fs::metadata(a.join(name)).map(|found| found.ino());
                assert_eq!(found.map_err(|e| e.kind()), Err(ErrorKind::NotFound), "{name} was taken away, and is seen");
            }
        }
    });
    two.stop();
}

fn exchange(one: &Path, other: &Path) {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).expect("exchanged");
}

#[test]
fn an_exclusive_create_has_one_winner() {
    let Some(two) = Two::start("excl") else { return };
    let (a, b) = race(&two, "creating", |root, _| {
        let mut won = Vec::new();
        for i in 0..300 {
            match OpenOptions::new().write(true).create_new(true).open(root.join(format!("n{i}"))) {
                Ok(_) => won.push(i),
                Err(e) => assert_eq!(e.kind(), ErrorKind::AlreadyExists, "{e}"),
            }
        }
        won
    });
    let mut all = [a, b].concat();
    all.sort_unstable();
    assert_eq!(all, (0..300).collect::<Vec<_>>());
    two.stop();
}

#[test]
fn appends_from_both_sides_neither_overlap_nor_get_lost() {
    let Some(two) = Two::start("append") else { return };
    const RECORDS: usize = 400;
    File::create(two.a.path().join("log")).expect("made");
    race(&two, "appending", |root, side| {
        let mut log = OpenOptions::new().append(true).open(root.join("log")).expect("open");
        for i in 0..RECORDS {
            let record = format!("{side}:{i:05}:{}\n", "x".repeat(i % 40));
            assert_eq!(log.write(record.as_bytes()).expect("appended"), record.len());
        }
    });
    for root in [two.a.path(), two.b.path()] {
        let text = fs::read_to_string(root.join("log")).expect("read");
        let mut next = [0; 2];
        for line in text.lines() {
            let mut parts = line.split(':');
            let side: usize = parts.next().and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("torn: {line:?}"));
            let number: usize = parts.next().and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("torn: {line:?}"));
            assert_eq!(number, next[side], "in the order of each side");
            assert_eq!(parts.next().map(str::len), Some(number % 40), "torn: {line:?}");
            next[side] += 1;
        }
        assert_eq!(next, [RECORDS; 2]);
    }
    two.stop();
}

fn count_up(path: &Path) {
    let file = OpenOptions::new().read(true).write(true).open(path).expect("open");
    let mut text = String::new();
    (&file).read_to_string(&mut text).expect("read");
    let number: u32 = text.trim().parse().unwrap_or_else(|_| panic!("not a number: {text:?}"));
    file.write_all_at(format!("{:>8}\n", number + 1).as_bytes(), 0).expect("written");
}

#[test]
fn locks_of_both_families_exclude_the_other_mount() {
    let Some(two) = Two::start("locks") else { return };
    for kind in ["flock", "fcntl"] {
        fs::write(two.a.path().join(kind), format!("{:>8}\n", 0)).expect("written");
        fs::write(two.a.path().join("lock"), "").expect("written");
        race(&two, kind, move |root, _| {
            for _ in 0..60 {
                let lock = OpenOptions::new().read(true).write(true).open(root.join("lock")).expect("open");
                if kind == "flock" {
                    flock(&lock, FlockOperation::LockExclusive).expect("locked");
                } else {
                    fcntl_lock(&lock, FlockOperation::LockExclusive).expect("locked");
                }
                count_up(&root.join(kind));
                // Closing gives it back.
            }
        });
        let text = fs::read_to_string(two.b.path().join(kind)).expect("read");
        assert_eq!(text.trim(), "120", "{kind}");
    }
    let (a, b) = two.paths("lock");
    let (a, b) =
        (File::options().write(true).open(a).expect("open"), File::options().write(true).open(b).expect("open"));
    flock(&a, FlockOperation::LockExclusive).expect("locked");
    assert_eq!(flock(&b, FlockOperation::NonBlockingLockExclusive), Err(rustix::io::Errno::WOULDBLOCK));
    fcntl_lock(&b, FlockOperation::NonBlockingLockExclusive).expect("the families do not meet");
    assert_eq!(fcntl_lock(&a, FlockOperation::NonBlockingLockExclusive), Err(rustix::io::Errno::AGAIN));
    drop((a, b));
    two.stop();
}

#[test]
fn a_file_removed_elsewhere_lives_on_while_it_is_open() {
    let Some(two) = Two::start("orphan") else { return };
    let (on_a, on_b) = two.paths("f");
    within(PATIENCE, "using a removed file", move || {
        fs::write(&on_a, vec![7; 10_000]).expect("written");
        let open = OpenOptions::new().read(true).write(true).open(&on_a).expect("open");
        fs::remove_file(&on_b).expect("removed");
        assert!(!on_a.exists());
        fs::write(&on_b, "another").expect("written");
        let mut got = vec![0; 10_000];
        open.read_exact_at(&mut got, 0).expect("read");
        assert!(got.iter().all(|x| *x == 7));
        open.write_all_at(b"more", 10_000).expect("written");
        assert_eq!(open.metadata().expect("there").len(), 10_004);
        assert_eq!(open.metadata().expect("there").nlink(), 0);
        assert_eq!(fs::read(&on_a).expect("read"), b"another");
    });
    two.stop();
}

#[test]
fn a_mapping_follows_what_is_written_elsewhere() {
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    let Some(two) = Two::start("mapping") else { return };
    let (on_a, on_b) = two.paths("f");
    fs::write(&on_a, vec![b'0'; 8192]).expect("written");
    let file = File::open(&on_a).expect("open");
    // SAFETY: a fresh mapping of 8192 bytes of a file of that length, which is not cut while it is mapped.
    let at = unsafe { mmap(std::ptr::null_mut(), 8192, ProtFlags::READ, MapFlags::SHARED, &file, 0) }.expect("mapped");
    let byte = |i: usize| {
        // SAFETY: within the mapping; volatile, because the kernel changes it.
        unsafe { at.cast::<u8>().add(i).read_volatile() }
    };
    assert_eq!((byte(0), byte(8191)), (b'0', b'0'));
    let writer = OpenOptions::new().write(true).open(&on_b).expect("open");
    for round in b'1'..=b'9' {
        writer.write_all_at(&[round; 8192], 0).expect("written");
        eventually("the mapping shows what was written", || byte(0) == round && byte(8191) == round);
    }
    // SAFETY: as mapped above, and not used any more.
    unsafe { munmap(at, 8192) }.expect("unmapped");
    drop((file, writer));
    two.stop();
}

#[test]
fn a_mount_that_is_killed_does_not_hold_up_the_other_for_ever() {
    let Some(two) = Two::start("killed") else { return };
    let (on_a, on_b) = two.paths("f");
    fs::write(&on_a, "from a").expect("written");
    assert_eq!(fs::read(&on_b).expect("read"), b"from a");
    let Two { a, b, server, thrasher, scratch: _scratch } = two;
    let place = a.path().to_owned();
    a.kill();
    loligo_e2e::detach(&place);
    within(2 * PATIENCE, "working on without the other", move || {
        fs::write(&on_b, "from b").expect("written");
        fs::rename(&on_b, on_b.with_file_name("g")).expect("renamed");
        assert_eq!(fs::read(on_b.with_file_name("g")).expect("read"), b"from b");
    });
    drop(thrasher);
    b.stop();
    server.stop();
}
