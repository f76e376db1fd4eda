//! fsstress over two mounts: threads on each make, change, rename, link and remove whatever they like in one small tree, all at once.
//! No call may give an error that the operation cannot have, both mounts must show the same tree at the end, and it must survive a
//! restart and a check of the whole file system. With several ranks directories move all the time.
//!
//! It does not know what a single call should have done: that is `model.rs`. `LOLIGO_STRESS_OPS` and `LOLIGO_STRESS_SEED` make a longer
//! run, or another one.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use loligo_e2e::{PATIENCE, Scratch, within};
use loligo_types::Random;
use rustix::fs::{CWD, FallocateFlags, OFlags, RenameFlags, XattrFlags, fallocate, renameat_with};

/// Threads on each mount.
const THREADS: u64 = 3;
/// Names in a directory: few, so that threads meet.
const NAMES: u64 = 8;
/// Directories below each other.
const DEPTH: u64 = 4;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("it is a number"))
}

/// The error number ESTALE.
fn estale() -> i32 {
    rustix::io::Errno::STALE.raw_os_error()
}

/// True if a race with another thread, or the kind of thing that has the name, explains the error.
fn is_expected(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let allowed = [
        Errno::NOENT,
        Errno::EXIST,
        Errno::NOTDIR,
        Errno::ISDIR,
        Errno::NOTEMPTY,
        Errno::INVAL,
        Errno::LOOP,
        Errno::PERM,
        Errno::NODATA,
        Errno::NXIO,
        Errno::TXTBSY,
        Errno::BUSY,
        // An open without following of a symlink, and a fifo without a reader.
        Errno::NODEV,
    ];
    error.raw_os_error().is_some_and(|number| allowed.iter().any(|errno| errno.raw_os_error() == number))
}

struct Worker {
    root: PathBuf,
    dice: Random,
}

impl Worker {
    fn path(&mut self) -> PathBuf {
        let mut path = self.root.clone();
        for _ in 0..self.dice.below(DEPTH) {
            path.push(format!("d{}", self.dice.below(NAMES / 2)));
        }
        let kind = if self.dice.below(3) == 0 { "d" } else { "f" };
        let names = if kind == "d" { NAMES / 2 } else { NAMES };
        path.push(format!("{kind}{}", self.dice.below(names)));
        path
    }

    fn step(&mut self) -> io::Result<()> {
        let path = self.path();
        match self.dice.below(24) {
            0..4 => fs::create_dir(path),
            4..8 => self.write(&path),
            8 => fs::remove_file(path),
            9 => fs::remove_dir(path),
            10..12 => fs::rename(path, self.path()),
            12 => Ok(renameat_with(CWD, &path, CWD, self.path(), RenameFlags::EXCHANGE)?),
            13 => fs::hard_link(path, self.path()),
            14 => symlink("f0", path),
            15 => fs::set_permissions(path, fs::Permissions::from_mode(0o600 + self.dice.below(0o200) as u32)),
            16 => {
                let value = vec![b'v'; self.dice.below(300) as usize];
                Ok(rustix::fs::lsetxattr(path, "user.stress", &value, XattrFlags::empty())?)
            }
            17 => fs::metadata(&path).map(drop),
            18 => self.list(&path),
            19 => fs::read(&path).map(drop),
            20 => OpenOptions::new().write(true).open(&path)?.set_len(self.dice.below(100_000)),
            21 => self.punch(&path),
            22 => self.without_a_name(&path),
            _ => OpenOptions::new().read(true).open(&path)?.sync_all(),
        }
    }

    fn write(&mut self, path: &Path) -> io::Result<()> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let file = OpenOptions::new().write(true).create(true).truncate(false).custom_flags(flags).open(path)?;
        let bytes = vec![b'a' + self.dice.below(26) as u8; self.dice.below(40_000) as usize];
        file.write_all_at(&bytes, self.dice.below(60_000))
    }

    fn list(&mut self, path: &Path) -> io::Result<()> {
        let dir = path.parent().expect("it is below the root of the test");
        for entry in fs::read_dir(dir)? {
            entry?.file_type()?;
        }
        Ok(())
    }

    fn punch(&mut self, path: &Path) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&file, how, self.dice.below(50_000), 1 + self.dice.below(20_000))?)
    }

    /// A file that is written without a name and gets one, as programs replace files.
    fn without_a_name(&mut self, path: &Path) -> io::Result<()> {
        let dir = path.parent().expect("it is below the root of the test");
        let flags = OFlags::TMPFILE.bits() as i32;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(dir)?;
        file.write_all_at(b"made without a name", 0)?;
        let from = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        Ok(rustix::fs::linkat(CWD, from, CWD, path, rustix::fs::AtFlags::SYMLINK_FOLLOW)?)
    }
}

/// All that a mount shows of a tree, by path.
fn look(root: &Path) -> BTreeMap<PathBuf, String> {
    let (mut all, mut dirs) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a directory can be listed") {
            let path = entry.expect("an entry").path();
            let meta = fs::symlink_metadata(&path).expect("what is listed is there");
            let mut text = format!(
                "{:o} inode {} links {} size {} times {}.{} {}.{}",
                meta.mode(),
                meta.ino(),
                meta.nlink(),
                meta.size(),
                meta.mtime(),
                meta.mtime_nsec(),
                meta.ctime(),
                meta.ctime_nsec()
            );
            let mut value = [0; 512];
            if let Ok(len) = rustix::fs::lgetxattr(&path, "user.stress", &mut value[..]) {
                text += &format!(" xattr of {len}");
            }
            if meta.is_dir() {
                dirs.push(path.clone());
            } else if meta.is_symlink() {
                text += &format!(" to {:?}", fs::read_link(&path).expect("a link"));
            } else {
                let bytes = fs::read(&path).expect("a file can be read");
                // Enough to tell two contents apart.
                let sum = loligo_types::hash::name_hash((0, 0), &bytes);
                text += &format!(" content {sum:x}");
            }
            all.insert(path.strip_prefix(root).expect("below it").to_owned(), text);
        }
    }
    all
}

fn assert_same(what: &str, one: &BTreeMap<PathBuf, String>, two: &BTreeMap<PathBuf, String>) {
    let only = |a: &BTreeMap<PathBuf, String>, b: &BTreeMap<PathBuf, String>| {
        let lines = a.iter().filter(|(path, text)| b.get(*path) != Some(text));
        lines.take(10).map(|(path, text)| format!("{}: {text}", path.display())).collect::<Vec<_>>()
    };
    assert!(one == two, "{what}:\n{:#?}\n{:#?}", only(one, two), only(two, one));
}

#[test]
fn what_two_mounts_do_in_one_tree_at_once_leaves_one_tree_that_both_show_and_that_survives() {
    let Some(scratch) = Scratch::new("stress") else { return };
    let server = scratch.serve();
    let (a, b) = (scratch.mount("a"), scratch.mount("b"));
    fs::create_dir(a.path().join("tree")).expect("a directory");
    let thrasher = (scratch.ranks() > 1).then(|| scratch.thrash(&["/tree", "/tree/d0", "/tree/d1", "/tree/d0/d0"]));
    let (ops, seed) = (number("LOLIGO_STRESS_OPS", 2500), number("LOLIGO_STRESS_SEED", 1));
    let limit = PATIENCE * 4 + PATIENCE * u32::try_from(ops / 1000).unwrap_or(u32::MAX);
    let roots = [a.path().join("tree"), b.path().join("tree")];
    let done = within(limit, "the stress", move || {
        let worker = |n: u64| {
            let mut worker = Worker { root: roots[(n % 2) as usize].clone(), dice: Random::new(seed * 100 + n) };
            std::thread::spawn(move || {
                let (mut done, mut overtaken) = (0, 0);
                for step in 0..ops {
                    match worker.step() {
                        Ok(()) => done += 1,
                        // The kernel looks a path up once more when something of it was gone; others were faster again.
                        Err(error) if error.raw_os_error() == Some(estale()) => {
                            overtaken += 1;
                            assert!(
                                overtaken <= ops / 200,
                                "operation {step} of thread {n}: {error}, {overtaken} times"
                            );
                        }
                        Err(error) if is_expected(&error) => {}
                        Err(error) => panic!("operation {step} of thread {n}: {error}"),
                    }
                }
                done
            })
        };
        let threads: Vec<_> = (0..2 * THREADS).map(worker).collect();
        threads.into_iter().map(|thread| thread.join().expect("no wrong error")).sum::<u64>()
    });
    // A test in which nearly all fails would show nothing.
    assert!(done > 2 * THREADS * ops / 10, "only {done} of {} operations did something", 2 * THREADS * ops);
    drop(thrasher);
    let (one, two) = (look(&a.path().join("tree")), look(&b.path().join("tree")));
    assert!(!one.is_empty(), "something is left");
    assert_same("the two mounts differ", &one, &two);
    a.stop();
    b.stop();
    server.stop();
    let up = scratch.up("again");
    assert_same("a restart changed the tree", &one, &look(&up.path().join("tree")));
    up.stop();
    scratch.check();
}
