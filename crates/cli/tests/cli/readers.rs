//! A directory that one mount has decoupled and another one reads meanwhile (`interfere = "read"`), through two real mounts and their kernels' caches:
//! what a reader sees is what was merged, of one generation at a time, and is not older than the interval. What a rank and the client's
//! machine decide is tested there.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::run::{Place, Service, can_mount, loligo, sh};

const FILES: usize = 24;

pub fn serve(place: &Place, ranks: u16) -> Service {
    loligo("format --data {}", &[&place.data()]).ok();
    let ranks = ranks.to_string();
    let settings = "serve --data {} --ranks {} --set session_ms=1000 --set grace_ms=500";
    Service::start(settings, &[&place.data(), Path::new(&ranks)])
}

pub fn mounted(place: &Place, at: &str) -> Service {
    let keep = format!("keep_dir={}", place.path(&format!("keep-{at}")).display());
    let at = place.path(at);
    std::fs::create_dir_all(&at).expect("a directory");
    Service::start("mount --server {} {} --set {}", &[&place.data(), &at, Path::new(&keep)])
}

/// Content of a file in a generation: some files are held in their inodes, some in objects; the length changes.
fn content(file: usize, generation: u32) -> Vec<u8> {
    let len = if file.is_multiple_of(3) { 150_000 } else { 200 } + generation as usize % 5 * 1000;
    format!("{generation:08}\n").into_bytes().into_iter().cycle().take(len / 9 * 9).collect()
}

/// The generation of what was read; an error says that it is of several, or cut off.
fn generation_of(file: usize, bytes: &[u8]) -> Result<u32, String> {
    let head = bytes.get(..8).and_then(|head| std::str::from_utf8(head).ok());
    let generation = head.and_then(|head| head.parse().ok()).ok_or_else(|| format!("file {file}: {bytes:.40?}"))?;
    match content(file, generation) == bytes {
        true => Ok(generation),
        false => Err(format!("file {file}: not all of {} bytes is of generation {generation}", bytes.len())),
    }
}

/// A file, by one call: what is atomic.
fn read_at_once(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; 200_000];
    let len = std::fs::File::open(path)?.read_at(&mut bytes, 0)?;
    bytes.truncate(len);
    Ok(bytes)
}

#[test]
fn a_reader_on_another_mount_sees_whole_generations_while_the_owner_writes_and_merges_in_a_loop() {
    generations(1);
}

#[test]
fn a_reader_sees_whole_generations_of_a_directory_that_another_rank_has() {
    generations(3);
}

/// The directory is the last rank's.
fn generations(ranks: u16) {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = serve(&place, ranks);
    let (writer, reader) = (mounted(&place, "writer"), mounted(&place, "reader"));
    let (mine, theirs) = (place.path("writer/job"), place.path("reader/job"));
    std::fs::create_dir(&mine).expect("it is writable");
    let write = |generation: u32| {
        std::fs::write(mine.join("begun"), generation.to_string()).expect("it is the owner's");
        for file in 0..FILES {
            let path = mine.join(format!("f{file}"));
            let bytes = content(file, generation);
            match file % 4 {
                // As most programs do it: cut and written anew.
                0 | 1 => std::fs::write(&path, bytes).expect("it is the owner's"),
                // In place.
                2 => {
                    use std::os::unix::fs::FileExt;
                    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(&path);
                    let file = file.expect("it is the owner's");
                    file.write_all_at(&bytes, 0).expect("it is open");
                    file.set_len(bytes.len() as u64).expect("it is open");
                }
                // As editors do it.
                _ => {
                    let next = mine.join("next");
                    std::fs::write(&next, bytes).expect("it is the owner's");
                    std::fs::rename(&next, &path).expect("both are in it");
                }
            }
        }
        std::fs::write(mine.join("done"), generation.to_string()).expect("it is the owner's");
    };
    write(1);
    if ranks > 1 {
        loligo("subtree migrate {} {}", &[&mine, Path::new(&(ranks - 1).to_string())]).ok();
    }
    let policy = place.path("policy.toml");
    std::fs::write(&policy, "preset = 'batchfs'\ninterfere = 'read'\nallocated_inodes = 100000\n").expect("written");
    loligo("decouple {} --policy {}", &[&mine, &policy]).ok();
    loligo("status {}", &[&place.data()]).ok();
    let (over, merged) = (AtomicBool::new(false), AtomicU32::new(1));
    let (mut passes, mut whole, mut newest) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for generation in 2..=25 {
                write(generation);
                loligo("sync {}", &[&mine]).ok();
                merged.store(generation, Ordering::Release);
            }
            over.store(true, Ordering::Release);
        });
        let number = |name: &str| -> u32 {
            let bytes = read_at_once(&theirs.join(name)).expect("it is there in each generation");
            String::from_utf8(bytes).expect("text").parse().expect("a number")
        };
        while !over.load(Ordering::Acquire) {
            let at_least = merged.load(Ordering::Acquire);
            let before = number("begun");
            let listed = sh("cd $D && ls -lR .", &theirs).ok().out;
            let mut seen = Vec::new();
            for file in 0..FILES {
                let path = theirs.join(format!("f{file}"));
                let bytes = loop {
                    match read_at_once(&path) {
                        // Another file got its name with a merge, after it was opened.
                        Err(error) if file % 4 == 3 && error.raw_os_error() == Some(116) => {}
                        read => break read.expect("it is there in each generation"),
                    }
                };
                match generation_of(file, &bytes) {
                    Ok(generation) => seen.push(generation),
                    Err(error) => panic!("{error}"),
                }
            }
            let after = number("done");
            assert!(before >= at_least, "generation {at_least} was merged, and {before} is seen");
            assert!(seen.iter().all(|generation| (before..=after).contains(generation)), "{before} {seen:?} {after}");
            passes += 1;
            newest = newest.max(after);
            if before == after {
                // No merge came in between: the listing is of the same one.
                whole += 1;
                assert!(!listed.contains(" next"), "half of a merge is seen: {listed}");
                for file in 0..FILES {
                    let (name, len) = (format!(" f{file}\n"), content(file, before).len());
                    let line = listed.split_inclusive('\n').find(|line| line.ends_with(&name)).expect("it is listed");
                    assert!(line.contains(&format!(" {len} ")), "{line}");
                }
            }
        }
    });
    assert!(passes > 5 && whole > 0 && newest > 10, "{passes} passes, {whole} of one generation, up to {newest}");
    // Changes are refused.
    let refused = sh("cd $D && echo x >others", &theirs);
    assert!(refused.code != 0 && refused.err.to_lowercase().contains("busy"), "{}", refused.err);
    for script in ["echo x >>f1", "chmod 600 f1", "rm f1", "mv f1 ..", "mkdir d", "setfattr -n user.a -v b f1"] {
        assert_ne!(sh(&format!("cd $D && {script}"), &theirs).code, 0, "{script}");
    }
    sh("cd $D && find . -type f | xargs stat >/dev/null; getfattr -d f1; cat f0 >/dev/null", &theirs).ok();
    let explained = loligo("policy explain {}", &[&theirs.join("f1")]).ok().out;
    assert!(explained.contains("others read the state of the last merge"), "{explained}");
    let status = loligo("status {}", &[&place.data()]).ok().out;
    assert!(status.contains("others read the last merge"), "{status}");
    loligo("recouple {}", &[&mine]).ok();
    std::fs::write(theirs.join("others"), "x").expect("it is a directory like others again");
    assert_eq!((reader.stop().0, writer.stop().0, server.stop().0), (0, 0, 0));
    // Files that were replaced while they were open leave no objects, and all copies are dropped.
    loligo("fsck --data {} --data-checksums", &[&place.data()]).ok();
}

#[test]
fn a_map_an_open_file_and_a_lock_of_a_reader_go_over_merges_and_over_the_death_of_the_owner() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = serve(&place, 1);
    let (writer, reader) = (mounted(&place, "writer"), mounted(&place, "reader"));
    let (mine, theirs) = (place.path("writer/job"), place.path("reader/job"));
    std::fs::create_dir(&mine).expect("it is writable");
    std::fs::write(mine.join("f"), vec![b'1'; 300_000]).expect("written");
    let policy = place.path("policy.toml");
    std::fs::write(&policy, "preset = 'batchfs'\nsync_interval = '200ms'\n").expect("written");
    loligo("decouple {} --policy {} --lease 0.2", &[&mine, &policy]).ok();
    // A reader that keeps a file open, locked and mapped, and tells what it sees of it for each line that it is given.
    let script = "import sys, fcntl, mmap
f = open('f', 'rb', buffering=0)
fcntl.flock(f, fcntl.LOCK_SH)
m = mmap.mmap(f.fileno(), 300000, prot=mmap.PROT_READ)
kinds = lambda b: ''.join(chr(c) for c in sorted(set(b)))
for line in sys.stdin:
    try:
        f.seek(0)
        print('read', kinds(f.read(1 << 20)), 'map', kinds(m[:]), flush=True)
    except OSError as e:
        print('error', e.errno, flush=True)
";
    if sh("command -v python3", place.dir.path()).code != 0 {
        return super::run::not_tested("a reader with a map: it needs python3");
    }
    use std::io::{BufRead, BufReader, Write};
    let mut child = std::process::Command::new("python3")
        .args(["-c", script])
        .current_dir(&theirs)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let mut told = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut ask = |to: &mut std::process::Child| {
        writeln!(to.stdin.as_mut().expect("piped"), "look").expect("it reads");
        told.next().expect("it answers").expect("text")
    };
    assert_eq!(ask(&mut child), "read 1 map 1");
    // In place: a map behind the end of a file that is cut is no page any more.
    let in_place = std::fs::OpenOptions::new().write(true).open(mine.join("f")).expect("it is the owner's");
    std::os::unix::fs::FileExt::write_all_at(&in_place, "2".repeat(300_000).as_bytes(), 0).expect("it is open");
    drop(in_place);
    let begun = Instant::now();
    // It is merged by itself.
    loop {
        let said = ask(&mut child);
        if said.starts_with("read 2 ") {
            break;
        }
        assert!(said.starts_with("read 1 map"), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(60), "it is never merged");
    }
    // Of the map each page is of some merge.
    let said = ask(&mut child);
    assert!(["read 2 map 1", "read 2 map 2", "read 2 map 12"].contains(&&*said), "{said}");
    std::fs::remove_file(mine.join("f")).expect("it is the owner's");
    std::fs::write(mine.join("g"), "new").expect("it is the owner's");
    loligo("sync {}", &[&mine]).ok();
    let said = ask(&mut child);
    assert!(said == "error 116" || said.starts_with("read 2 "), "{said}");
    assert_eq!(std::fs::read(theirs.join("g")).expect("merged"), b"new");
    // The owner dies with something that is not merged.
    std::fs::write(mine.join("g"), vec![b'x'; 200_000]).expect("it is the owner's");
    writer.kill();
    assert_eq!(std::fs::read(theirs.join("g")).expect("as it was merged"), b"new");
    super::run::until("the directory is taken back", || std::fs::write(theirs.join("others"), "x").is_ok());
    assert_eq!(std::fs::read(theirs.join("g")).expect("as it was merged"), b"new");
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success(), "the reader has lived through all of it");
    let _ = std::process::Command::new("umount").arg("-l").arg(place.path("writer")).output();
    assert_eq!((reader.stop().0, server.stop().0), (0, 0));
}

#[test]
fn a_merge_comes_to_its_end_while_files_are_cut_and_written_without_a_pause() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = serve(&place, 1);
    let writer = mounted(&place, "writer");
    let mine = place.path("writer/job");
    std::fs::create_dir(&mine).expect("it is writable");
    let policy = place.path("policy.toml");
    std::fs::write(&policy, "preset = 'batchfs'\ninterfere = 'read'\nallocated_inodes = 10000\n").expect("written");
    for file in 0..60 {
        std::fs::write(mine.join(format!("f{file}")), vec![b'1'; 150_000]).expect("it is writable");
    }
    loligo("decouple {} --policy {}", &[&mine, &policy]).ok();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for from in 0..3 {
            let (over, mine) = (&over, &mine);
            scope.spawn(move || {
                for file in (from * 20..from * 20 + 20).cycle() {
                    let path = mine.join(format!("f{file}"));
                    let cut = rustix::fs::open(&path, rustix::fs::OFlags::WRONLY, rustix::fs::Mode::empty())
                        .and_then(|file| rustix::fs::ftruncate(file, 100_000));
                    cut.expect("it is the owner's");
                    std::fs::write(&path, vec![b'2'; 150_000]).expect("it is the owner's");
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        for _ in 0..5 {
            loligo("merge {}", &[&mine]).ok();
        }
        over.store(true, Ordering::Relaxed);
    });
    loligo("recouple {}", &[&mine]).ok();
    assert_eq!((writer.stop().0, server.stop().0), (0, 0));
    loligo("fsck --data {} --data-checksums", &[&place.data()]).ok();
}
