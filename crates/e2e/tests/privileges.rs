//! Privileges that a change of a file ends: setuid, setgid and file capabilities. Each way to change content or size, by each kind of
//! process, of small and large files; through the mount that made the file and through another one; and the same on ext4, where there is
//! one. Not: what chmod and chown do with them (`setattr.rs` in the namespace).

use std::ffi::{CString, c_char, c_int};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use loligo_e2e::{PATIENCE, Scratch, within};
use rustix::fs::{FallocateFlags, XattrFlags, fallocate};
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

const SETID: u32 = 0o6777;
/// Setgid without execution by the group.
const SETGID_ALONE: u32 = 0o2767;
const CAPABILITY: &str = "security.capability";
/// `cap_setuid+ep`, version 2.
const VALUE: [u8; 20] = [1, 0, 0, 2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const SMALL: usize = 60;
const LARGE: usize = 200_000;

/// The privilege that the file has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Has {
    SetId,
    SetGidAlone,
    Capability,
}

const PRIVILEGES: [Has; 3] = [Has::SetId, Has::SetGidAlone, Has::Capability];

impl Has {
    fn mode(self) -> u32 {
        match self {
            Has::SetId => SETID,
            Has::SetGidAlone => SETGID_ALONE,
            Has::Capability => 0o777,
        }
    }
}

/// Process that changes the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Actor {
    Owner,
    /// Of the file's group.
    Member,
    Other,
    Root,
    /// Root without CAP_FSETID.
    BareRoot,
}

const ACTORS: [Actor; 5] = [Actor::Owner, Actor::Member, Actor::Other, Actor::Root, Actor::BareRoot];

/// Way in which the file is changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    Write,
    WriteMore,
    Append,
    Direct,
    Splice,
    Sendfile,
    Mapped,
    Truncate,
    TruncateToSame,
    Ftruncate,
    OpenTruncated,
    CreateTruncated,
    Allocate,
    AllocateInside,
    KeepSize,
    Punch,
    PunchBeyond,
    Zero,
    ZeroKeep,
    CopyRange,
}

const WAYS: [How; 20] = [
    How::Write,
    How::WriteMore,
    How::Append,
    How::Direct,
    How::Splice,
    How::Sendfile,
    How::Mapped,
    How::Truncate,
    How::TruncateToSame,
    How::Ftruncate,
    How::OpenTruncated,
    How::CreateTruncated,
    How::Allocate,
    How::AllocateInside,
    How::KeepSize,
    How::Punch,
    How::PunchBeyond,
    How::Zero,
    How::ZeroKeep,
    How::CopyRange,
];

impl Actor {
    /// Gives this thread the user, groups and capabilities of the actor.
    fn become_it(self) {
        let id = |uid: u32, gid: u32, groups: &[u32]| {
            let groups: Vec<Gid> = groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
            rustix::thread::set_thread_groups(&groups).expect("root may");
            rustix::thread::set_thread_gid(Gid::from_raw(gid)).expect("root may");
            rustix::thread::set_thread_uid(Uid::from_raw(uid)).expect("root may");
        };
        match self {
            Actor::Owner => id(4321, 4321, &[]),
            Actor::Member => id(4322, 4322, &[5000]),
            Actor::Other => id(4323, 4323, &[]),
            Actor::Root => {}
            Actor::BareRoot => {
                let mut sets = capabilities(None).expect("they can be read");
                sets.effective.remove(CapabilitySet::FSETID);
                set_capabilities(None, sets).expect("fewer can always be had");
            }
        }
    }
}

unsafe extern "C" {
    /// truncate(2), which the standard library does not have by path.
    fn truncate(path: *const c_char, len: i64) -> c_int;
}

fn pipe_with(bytes: &[u8]) -> io::Result<std::os::fd::OwnedFd> {
    let (from, to) = rustix::pipe::pipe()?;
    File::from(to).write_all(bytes)?;
    Ok(from)
}

/// Changes the file. `source`: one that everybody may read.
fn change(how: How, path: &Path, source: &Path) -> io::Result<()> {
    let open = || OpenOptions::new().read(true).write(true).open(path);
    let allocate = |flags, offset, len| Ok(fallocate(open()?, flags, offset, len)?);
    match how {
        How::Write => open()?.write_all_at(b"x", 0),
        How::WriteMore => open()?.write_all_at(&vec![b'x'; LARGE], 10),
        How::Append => OpenOptions::new().append(true).open(path)?.write_all(b"x"),
        How::Direct => {
            use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
            let file = OpenOptions::new().write(true).custom_flags(0o40000).open(path)?;
            let (len, access) = (4096, ProtFlags::READ | ProtFlags::WRITE);
            // SAFETY: a fresh mapping that nobody else has; it outlives the slice.
            unsafe {
                let at = mmap_anonymous(std::ptr::null_mut(), len, access, MapFlags::PRIVATE)?;
                let written = file.write_all_at(std::slice::from_raw_parts(at.cast::<u8>(), len), 0);
                munmap(at, len)?;
                written
            }
        }
        How::Splice => {
            let pipe = pipe_with(b"xx")?;
            let flags = rustix::pipe::SpliceFlags::empty();
            rustix::pipe::splice(&pipe, None, open()?, Some(&mut 0), 2, flags)?;
            Ok(())
        }
        How::Sendfile => {
            rustix::fs::sendfile(open()?, File::open(source)?, None, 5)?;
            Ok(())
        }
        How::Mapped => {
            use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
            let (file, access) = (open()?, ProtFlags::READ | ProtFlags::WRITE);
            // SAFETY: the file has that many bytes, nobody cuts it, and nothing refers to the mapping after it is gone.
            unsafe {
                let at = mmap(std::ptr::null_mut(), SMALL, access, MapFlags::SHARED, &file, 0)?;
                at.cast::<u8>().write_volatile(b'x');
                msync(at, SMALL, MsyncFlags::SYNC)?;
                munmap(at, SMALL)?;
            }
            Ok(())
        }
        How::Truncate | How::TruncateToSame => {
            let size = if how == How::Truncate { 5 } else { fs::metadata(path)?.len() };
            let path = CString::new(path.as_os_str().as_bytes())?;
            // SAFETY: the path ends with a NUL and outlives the call.
            let result = unsafe { truncate(path.as_ptr(), size.cast_signed()) };
            if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        }
        How::Ftruncate => open()?.set_len(5),
        How::OpenTruncated => OpenOptions::new().write(true).truncate(true).open(path).map(drop),
        How::CreateTruncated => File::create(path).map(drop),
        How::Allocate => allocate(FallocateFlags::empty(), 0, LARGE as u64 + 9000),
        How::AllocateInside => allocate(FallocateFlags::empty(), 0, 50),
        How::KeepSize => allocate(FallocateFlags::KEEP_SIZE, 0, LARGE as u64 + 9000),
        How::Punch => allocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 50),
        How::PunchBeyond => allocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 2 * LARGE as u64, 4096),
        How::Zero => allocate(FallocateFlags::ZERO_RANGE, 0, LARGE as u64 + 9000),
        How::ZeroKeep => allocate(FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, 0, 50),
        How::CopyRange => {
            let copied = rustix::fs::copy_file_range(File::open(source)?, Some(&mut 0), open()?, Some(&mut 0), 20)?;
            if copied == 20 { Ok(()) } else { Err(io::Error::other(format!("{copied} bytes copied"))) }
        }
    }
}

/// State of the file after the change.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Left {
    result: Result<(), String>,
    mode: u32,
    capability: bool,
}

fn look(path: &Path) -> (u32, bool) {
    let mode = fs::metadata(path).expect("it is there").permissions().mode() & 0o7777;
    (mode, rustix::fs::getxattr(path, CAPABILITY, &mut [0_u8; 64][..]).is_ok())
}

/// Makes a file with privileges through `made`, changes it through `used`, and says what is left, as both show it.
fn one(made: &Path, used: &Path, (how, actor, size): (How, Actor, usize), has: Has) -> Left {
    let name = format!("{how:?}-{actor:?}-{size}-{has:?}");
    let (path, elsewhere) = (made.join(&name), used.join(&name));
    fs::write(&path, vec![b'o'; size]).expect("made");
    std::os::unix::fs::chown(&path, Some(4321), Some(5000)).expect("root may");
    fs::set_permissions(&path, Permissions::from_mode(has.mode())).expect("root may");
    if has == Has::Capability {
        rustix::fs::setxattr(&path, CAPABILITY, &VALUE, XattrFlags::empty()).expect("root may");
    }
    let source = used.join("source");
    let act = || {
        actor.become_it();
        change(how, &elsewhere, &source).map_err(|error| error.to_string())
    };
    let result = std::thread::scope(|scope| scope.spawn(act).join().expect("no panic"));
    let (mode, capability) = look(&elsewhere);
    assert_eq!((mode, capability), look(&path), "{name}: as another mount shows it");
    Left { result, mode, capability }
}

/// Linux's rule.
fn expected(how: How, actor: Actor, has: Has) -> Left {
    // A page that is written to through a mapping does not tell who did so.
    let ends = actor != Actor::Root && how != How::Mapped;
    // Without execution by the group setgid is a sign for those outside of the group.
    let stays = !ends || has == Has::SetGidAlone && actor == Actor::Member;
    let mode = if stays { has.mode() } else { has.mode() & 0o777 };
    Left { result: Ok(()), mode, capability: has == Has::Capability && how == How::Mapped }
}

/// Differs from ext4, and is meant to: written pages end capabilities when they come to the server.
fn expected_here(how: How, actor: Actor, has: Has) -> Left {
    Left { capability: false, ..expected(how, actor, has) }
}

fn matrix(what: &str, ways: &[How], (made, used): (&Path, &Path), expected: impl Fn(How, Actor, Has) -> Left) {
    fs::set_permissions(made, Permissions::from_mode(0o777)).expect("root may");
    fs::write(made.join("source"), vec![b's'; LARGE]).expect("made");
    let mut wrong = Vec::new();
    for how in ways.iter().copied() {
        for actor in ACTORS {
            for (size, has) in [SMALL, LARGE].into_iter().flat_map(|size| PRIVILEGES.map(|has| (size, has))) {
                let (got, want) = (one(made, used, (how, actor, size), has), expected(how, actor, has));
                if got != want {
                    wrong.push(format!("{how:?} by {actor:?}, {size} bytes, {has:?}: {got:?}, not {want:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

/// A directory on an ext4, if one can be made here.
struct Ext4 {
    dir: PathBuf,
}

impl Ext4 {
    fn make(top: PathBuf) -> Option<Ext4> {
        let (image, dir) = (top.join("ext4.image"), top.join("ext4"));
        fs::create_dir_all(&dir).expect("made");
        File::create(&image).and_then(|file| file.set_len(256 << 20)).expect("there is room");
        let quiet = |command: &mut Command| {
            let done = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            done.is_ok_and(|status| status.success())
        };
        let made = quiet(Command::new("mkfs.ext4").arg("-q").arg("-F").arg(&image))
            && quiet(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&dir));
        made.then_some(Ext4 { dir })
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.dir, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn every_change_of_content_or_size_ends_what_linux_ends() {
    let Some(scratch) = Scratch::new("privileges") else { return };
    let server = scratch.serve();
    let (a, b) = (scratch.mount("a"), scratch.mount("b"));
    let (first, second) = (a.path().to_owned(), b.path().to_owned());
    within(5 * PATIENCE, "the matrix", move || {
        for (what, made, used) in [("one mount", &first, &first), ("another mount", &first, &second)] {
            let dir = what.replace(' ', "-");
            fs::create_dir(made.join(&dir)).expect("made");
            matrix(what, &WAYS, (&made.join(&dir), &used.join(&dir)), expected_here);
        }
    });
    a.stop();
    b.stop();
    server.stop();
}

#[test]
fn in_a_decoupled_directory_a_change_ends_the_same() {
    let (Some(scratch), Some(program)) = (Scratch::new("privileges-apart"), loligo_e2e::program()) else { return };
    let up = scratch.up("mnt");
    let dir = up.path().join("apart");
    within(3 * PATIENCE, "the matrix", move || {
        fs::create_dir(&dir).expect("made");
        let run = |words: &[&str]| {
            let ran = Command::new(&program).args(words).arg(&dir).output().expect("loligo runs");
            assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
        };
        run(&["decouple", "--policy", "batchfs"]);
        // A file that became longer than its inode holds by no write cannot be merged.
        let ways: Vec<How> = WAYS.into_iter().filter(|how| !matches!(how, How::Allocate | How::Zero)).collect();
        matrix("decoupled", &ways, (&dir, &dir), expected_here);
        run(&["recouple"]);
        for how in ways {
            let path = dir.join(format!("{how:?}-{:?}-{LARGE}-Capability", Actor::Member));
            assert_eq!(look(&path), (0o777, false), "{how:?}, merged");
        }
    });
    up.stop();
}

#[test]
fn ext4_answers_as_the_rule_has_it() {
    let Some(scratch) = Scratch::new("privileges-ext4") else { return };
    let Some(ext4) = Ext4::make(scratch.place("rule")) else {
        eprintln!("NOT TESTED: no ext4 can be made here");
        return;
    };
    matrix("ext4", &WAYS, (&ext4.dir, &ext4.dir), expected);
}

#[test]
fn a_capability_that_is_set_after_a_write_stays_and_one_that_was_there_before_is_not_seen_after_it() {
    let Some(scratch) = Scratch::new("capability-order") else { return };
    let up = scratch.up("mnt");
    let path = up.path().join("file");
    within(PATIENCE, "writing", move || {
        for append in [false, true] {
            let mut options = OpenOptions::new();
            let mut file = options.create(true).append(append).write(true).open(&path).expect("made");
            file.write_all(&[b'x'; LARGE]).expect("written");
            rustix::fs::fsetxattr(&file, CAPABILITY, &VALUE, XattrFlags::empty()).expect("root may");
            file.sync_all().expect("durable");
            assert!(look(&path).1, "what was held back came before it");
            file.write_all(b"x").expect("written");
            assert!(!look(&path).1, "a write of root's ends it, also before it is at the server");
            drop(file);
            assert!(!look(&path).1);
        }
    });
    up.stop();
}
