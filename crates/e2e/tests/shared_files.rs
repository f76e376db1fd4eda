//! Two mounts that read and write the same files: what one reads of what the other writes, appends and maps.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loligo_e2e::{PATIENCE, Process, Scratch, Thrasher, eventually, within};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

/// A server and two mounts; they end in the reverse order of their start.
struct Two {
    a: Process,
    b: Process,
    server: Process,
    /// With several ranks what is used moves between them.
    thrasher: Option<Thrasher>,
    scratch: Scratch,
}

impl Two {
    fn start(name: &str) -> Option<Two> {
        let mut two = Two::still(name)?;
        two.thrasher = (two.scratch.ranks() > 1).then(|| two.scratch.thrash(&["/"]));
        Some(two)
    }

    /// Nothing moves: a process whose access to a mapping fails, for whatever reason, is ended by a signal.
    fn still(name: &str) -> Option<Two> {
        let scratch = Scratch::new(name)?;
        let server = scratch.serve();
        let (a, b) = (scratch.mount("a"), scratch.mount("b"));
        Some(Two { a, b, server, thrasher: None, scratch })
    }

    fn paths(&self, name: &str) -> (PathBuf, PathBuf) {
        (self.a.path().join(name), self.b.path().join(name))
    }

    fn stop(self) {
        drop(self.thrasher);
        self.a.stop();
        self.b.stop();
        self.server.stop();
    }
}

/// A shared mapping of a file, which is not cut where it is looked at.
struct Mapping {
    at: *mut u8,
    len: usize,
}

impl Mapping {
    fn new(file: &File, len: usize) -> Mapping {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping.
        let at = unsafe { mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, file, 0) }.expect("mapped");
        Mapping { at: at.cast(), len }
    }

    fn get(&self, i: usize) -> u8 {
        assert!(i < self.len);
        // SAFETY: within the mapping; volatile, because the kernel changes it.
        unsafe { self.at.add(i).read_volatile() }
    }

    fn set(&self, i: usize, byte: u8) {
        assert!(i < self.len);
        // SAFETY: within the mapping.
        unsafe { self.at.add(i).write_volatile(byte) }
    }

    fn sync(&self) {
        // SAFETY: the whole mapping.
        unsafe { msync(self.at.cast(), self.len, MsyncFlags::SYNC) }.expect("written back");
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: as mapped, and not used any more.
        let _ = unsafe { munmap(self.at.cast(), self.len) };
    }
}

/// Lines of appended records, each of which tells its length: no byte that nobody wrote, and no line that is not whole.
fn check_records(bytes: &[u8]) {
    assert!(!bytes.contains(&0), "NUL at {:?} of {}", bytes.iter().position(|byte| *byte == 0), bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let text = String::from_utf8_lossy(line);
        let len: usize = text.split(' ').next().and_then(|len| len.parse().ok()).unwrap_or(0);
        assert_eq!(len, line.len(), "torn: {text:?}");
    }
}

fn record(i: usize) -> String {
    let len = 20 + i * 37 % 300;
    format!("{len} {:x<1$}\n", "", len - 2 - len.to_string().len())
}

#[test]
fn a_reader_finds_no_nuls_in_a_file_that_is_appended_to() {
    let Some(two) = Two::start("nuls") else { return };
    let (on_a, on_b) = two.paths("log");
    File::create(&on_a).expect("made");
    let writing = Arc::new(AtomicUsize::new(2));
    let writers: Vec<_> = [on_a.clone(), on_b.clone()]
        .into_iter()
        .map(|path| {
            let writing = writing.clone();
            std::thread::spawn(move || {
                let mut log = OpenOptions::new().append(true).open(path).expect("open");
                (0..300).for_each(|i| log.write_all(record(i).as_bytes()).expect("appended"));
                writing.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    within(2 * PATIENCE, "reading what is appended", move || {
        let files = [File::open(&on_a).expect("open"), File::open(&on_b).expect("open")];
        let mut last = false;
        while !last {
            last = writing.load(Ordering::SeqCst) == 0;
            for (file, path) in files.iter().zip([&on_a, &on_b]) {
                // The size as it is told, and the end as a read finds it.
                let mut bytes = vec![1; file.metadata().expect("stat").len() as usize];
                file.read_exact_at(&mut bytes, 0).expect("as long as it was told");
                check_records(&bytes);
                check_records(&fs::read(path).expect("read"));
            }
        }
        let all = (0..300).map(|i| 2 * record(i).len() as u64).sum::<u64>();
        assert_eq!(files.map(|file| file.metadata().expect("stat").len()), [all; 2]);
    });
    writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
    two.stop();
}

#[test]
fn a_mount_that_is_killed_while_it_appends_leaves_no_nuls_behind() {
    let Some(two) = Two::start("nulskilled") else { return };
    let (on_a, on_b) = two.paths("log");
    fs::write(&on_b, record(0).repeat(500)).expect("written");
    let Two { a, b, server, thrasher, scratch: _scratch } = two;
    // Somebody else has it open, so that nothing is held back.
    let other = OpenOptions::new().append(true).open(&on_b).expect("open");
    let (sender, appended) = std::sync::mpsc::channel();
    let place = a.path().to_owned();
    let writer = std::thread::spawn(move || {
        let mut log = OpenOptions::new().append(true).open(on_a).expect("open");
        let appends = (0..).map(|i| log.write_all(record(i).as_bytes()));
        appends.take_while(Result::is_ok).for_each(|_| _ = sender.send(()));
    });
    (0..20).for_each(|_| appended.recv_timeout(PATIENCE).expect("it appends"));
    a.kill();
    loligo_e2e::detach(&place);
    writer.join().expect("no panic");
    within(2 * PATIENCE, "appending without the other", move || {
        (&other).write_all(record(1).as_bytes()).expect("appended");
        check_records(&fs::read(&on_b).expect("read"));
    });
    drop(thrasher);
    b.stop();
    server.stop();
}

#[test]
fn both_mounts_show_the_same_times_of_a_write() {
    let Some(two) = Two::start("times") else { return };
    for (name, len) in [("small", 5), ("large", 100_000)] {
        let (on_a, on_b) = two.paths(name);
        let times = |path: &Path| fs::metadata(path).map(|m| (m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()));
        let file = File::create(&on_a).expect("made");
        (&file).write_all(&vec![b'x'; len]).expect("written");
        let first = times(&on_a).expect("stat");
        // The server hears of it later than it was written.
        std::thread::sleep(std::time::Duration::from_millis(20));
        file.sync_all().expect("synced");
        drop(file);
        assert_eq!(times(&on_b).expect("stat"), first, "{name}: on the other mount");
        assert_eq!(times(&on_a).expect("stat"), first, "{name}: where it was written");
        assert_eq!(fs::read(&on_b).expect("read").len(), len);
        assert_eq!(times(&on_a).expect("stat"), first, "{name}: when the other one has read it");
    }
    two.stop();
}

/// Each of them has the file open for writing all the time, so neither holds anything back.
fn open_both(two: &Two, name: &str, len: usize) -> [File; 2] {
    let (on_a, on_b) = two.paths(name);
    fs::write(&on_a, vec![b'0'; len]).expect("written");
    let open = |path: &Path| OpenOptions::new().read(true).write(true).open(path).expect("open");
    [open(&on_a), open(&on_b)]
}

#[test]
fn a_mapping_of_a_file_that_another_mount_has_open_follows_what_is_written_there() {
    let Some(two) = Two::still("follows") else { return };
    let [on_a, on_b] = open_both(&two, "f", 65536);
    let map = Mapping::new(&on_b, 65536);
    assert_eq!(map.get(0), b'0');
    for round in b'1'..=b'9' {
        on_a.write_all_at(&[round; 3], 0).expect("written");
        on_a.write_all_at(&[round; 3], 40_000).expect("written");
        eventually("the mapping shows what was written", || map.get(2) == round && map.get(40_001) == round);
    }
    drop(map);
    two.stop();
}

#[test]
fn of_a_page_that_a_mapping_changes_only_the_changes_are_written() {
    let Some(two) = Two::still("pages") else { return };
    let [on_a, on_b] = open_both(&two, "f", 65536);
    let maps = [Mapping::new(&on_a, 65536), Mapping::new(&on_b, 65536)];
    let page = |n: usize| 4096 * n;
    for n in 1..10 {
        // A page that is changed through the mapping here and by a write there, before it is written back.
        maps[1].set(page(n) + 100, b'B');
        maps[1].set(page(n) + 4095, b'b');
        on_a.write_all_at(b"AAA", page(n) as u64 + 200).expect("written");
        // One that both have mapped, and change in different places.
        maps[0].set(page(n) + 300, b'a');
        maps[1].sync();
        maps[0].sync();
    }
    for file in [&on_a, &on_b] {
        let mut bytes = vec![0; 65536];
        file.read_exact_at(&mut bytes, 0).expect("read");
        for n in 1..10 {
            let at = |i: usize| bytes[page(n) + i];
            let found = [at(100), at(4095), at(200), at(202), at(300), at(0), at(101)];
            assert_eq!(found.map(char::from), ['B', 'b', 'A', 'A', 'a', '0', '0'], "page {n}");
        }
    }
    drop(maps);
    two.stop();
}

/// The kernel looks at the size that it knows before it asks for a page. What another mount has let grow it knows by any look at the file.
#[test]
fn a_mapping_reaches_what_another_mount_let_grow_again_after_a_look_at_the_size() {
    let Some(two) = Two::still("regrown") else { return };
    let [on_a, on_b] = open_both(&two, "f", 65536);
    let map = Mapping::new(&on_b, 65536);
    assert_eq!(map.get(40_000), b'0');
    on_a.set_len(100).expect("cut");
    assert_eq!(on_b.metadata().expect("stat").len(), 100);
    on_a.set_len(65536).expect("longer");
    on_a.write_all_at(b"x", 50_000).expect("written");
    assert_eq!(on_b.metadata().expect("stat").len(), 65536);
    assert_eq!((map.get(40_000), map.get(50_000), map.get(0)), (0, b'x', b'0'));
    drop(map);
    two.stop();
}
