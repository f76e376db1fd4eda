//! Programs about open files: flags, positions, times, extended attributes and locks.

use crate::calls::*;

/// Name, whether it runs as an ordinary user, body.
pub const PROGRAMS: &[Entry] = &[
    ("open", true, open_flags),
    ("positions", true, positions),
    ("times", true, times),
    ("xattrs", false, extended),
    ("record-locks", true, record_locks),
    ("whole-locks", true, whole_locks),
    ("limits", true, limits),
];

fn open_flags(log: &mut Log) {
    file("f", b"0123456789");
    mkdir("dir", 0o755);
    log.works(
        "exclusive create of a file that is there",
        open("f", libc::O_CREAT | libc::O_EXCL | libc::O_RDWR, 0o644),
    );
    log.works("create below a file", open("f/x", libc::O_CREAT | libc::O_RDWR, 0o644));
    log.works("a directory as one", open("dir", libc::O_RDONLY | libc::O_DIRECTORY, 0));
    log.works("a directory to write", open("dir", libc::O_RDWR, 0));
    log.works("a directory to truncate", open("dir", libc::O_RDONLY | libc::O_TRUNC, 0));
    let fd = open("f", libc::O_RDONLY, 0);
    log.call("a write to a descriptor for reading", write(fd, b"x"));
    log.call("its truncation", ftruncate(fd, 1));
    log.call("its allocation", fallocate(fd, 0, 0, 100));
    close(fd);
    let fd = open("f", libc::O_WRONLY, 0);
    log.say("a read from a descriptor for writing", pread(fd, 1, 0));
    close(fd);
    close(open("f", libc::O_RDONLY | libc::O_TRUNC, 0));
    log.say("truncated by a reader's open", content("f"));
    file("f", b"0123456789");
    let fd = open("f", libc::O_WRONLY | libc::O_APPEND, 0);
    log.call("an append", write(fd, b"ab"));
    log.call("a write by offset to an appender", pwrite(fd, b"cd", 0));
    log.call("its position", lseek(fd, 0, libc::SEEK_CUR));
    close(fd);
    log.say("content then", content("f"));
    let fd = open("f", libc::O_PATH, 0);
    log.call("a write to a path descriptor", write(fd, b"x"));
    close(fd);
    chmod("f", 0o444);
    log.works("a file without permission to write", open("f", libc::O_WRONLY, 0));
    let fd = open("new", libc::O_CREAT | libc::O_RDWR, 0o444);
    log.call("a write to a new file that may not be written", write(fd, b"abc"));
    close(fd);
    log.works("a file without a name below a file", open("f", libc::O_TMPFILE | libc::O_RDWR, 0o600));
    log.works("a file without a name to read", open(".", libc::O_TMPFILE | libc::O_RDONLY, 0o600));
    let fd = open("f", libc::O_RDONLY, 0);
    log.works("unaligned direct reading", open("f", libc::O_RDONLY | libc::O_DIRECT, 0));
    // SAFETY: numbers only.
    log.call("flags of a reader", i64::from(unsafe { libc::fcntl(fd as i32, libc::F_GETFL) } & libc::O_ACCMODE));
    log.works("flags by ioctl", {
        let mut flags: libc::c_long = 0;
        // SAFETY: the call writes a number of this size.
        i64::from(unsafe { libc::ioctl(fd as i32, 0x8008_6601, &mut flags) })
    });
}

fn positions(log: &mut Log) {
    file("f", b"0123456789");
    let fd = open("f", libc::O_RDWR, 0);
    for (label, at, whence) in [
        ("to the end", 0, libc::SEEK_END),
        ("before the end", -3, libc::SEEK_END),
        ("before the beginning", -1, libc::SEEK_SET),
        ("far beyond the end", 1 << 40, libc::SEEK_SET),
        ("an unknown whence", 0, 17),
        ("before the beginning by steps", -(1 << 41), libc::SEEK_CUR),
    ] {
        log.call(label, lseek(fd, at, whence));
    }
    log.say("a read beyond the end", pread(fd, 5, 100));
    log.say("a read at a negative offset", pread(fd, 5, -1));
    log.call("a write at a negative offset", pwrite(fd, b"x", -1));
    log.call("a write of nothing beyond the end", pwrite(fd, b"", 1000));
    log.say("size after it", fstat(fd).st_size);
    log.call("a write beyond the end", pwrite(fd, b"x", 20));
    log.say("content after it", content("f"));
    lseek(fd, 5, libc::SEEK_SET);
    log.call("a write at the position", write(fd, b"yy"));
    log.call("position after it", lseek(fd, 0, libc::SEEK_CUR));
    ftruncate(fd, 3);
    log.call("position after a truncation", lseek(fd, 0, libc::SEEK_CUR));
    log.call("a write behind the truncation", write(fd, b"z"));
    log.say("content at last", content("f"));
}

fn stamp(path: &str) -> (i64, i64, i64, i64, i64, i64) {
    let s = lstat(path);
    (s.st_atime, s.st_atime_nsec, s.st_mtime, s.st_mtime_nsec, s.st_ctime, s.st_ctime_nsec)
}

/// Which of atime, mtime and ctime a step changes.
fn changes(path: &str, step: impl FnOnce()) -> String {
    let before = stamp(path);
    // Clocks of file systems go in steps of a tick of the kernel.
    std::thread::sleep(std::time::Duration::from_millis(30));
    step();
    let after = stamp(path);
    let mut text = String::new();
    for (name, was, is) in [
        ("a", (before.0, before.1), (after.0, after.1)),
        ("m", (before.2, before.3), (after.2, after.3)),
        ("c", (before.4, before.5), (after.4, after.5)),
    ] {
        if was != is {
            text += name;
        }
    }
    text
}

fn utimes(path: &str, access: (i64, i64), change: (i64, i64)) -> i64 {
    let times = [
        libc::timespec { tv_sec: access.0, tv_nsec: access.1 },
        libc::timespec { tv_sec: change.0, tv_nsec: change.1 },
    ];
    // SAFETY: a C string and an array of two.
    with_path(path, |path| unsafe { libc::utimensat(libc::AT_FDCWD, path, times.as_ptr(), 0) })
}

fn times(log: &mut Log) {
    file("f", b"0123456789");
    mkdir("d", 0o755);
    log.say("a write", changes("f", || file("f", b"abc")));
    log.say("a chmod", changes("f", || _ = chmod("f", 0o600)));
    log.say("a chmod that changes nothing", changes("f", || _ = chmod("f", 0o600)));
    log.say("a truncation", changes("f", || _ = truncate("f", 1)));
    log.say("a truncation to the same size", changes("f", || _ = truncate("f", 1)));
    log.say("a longer size", changes("f", || _ = truncate("f", 5)));
    log.say("a second name", changes("f", || _ = link("f", "g")));
    log.say("a rename", changes("f", || _ = rename("g", "h")));
    log.say("one name less", changes("f", || _ = unlink("h")));
    log.say("an xattr", changes("f", || _ = setxattr("f", c"user.x", b"1", 0)));
    log.say("a file made in a directory", changes("d", || file("d/x", b"")));
    log.say("a file written in a directory", changes("d", || file("d/x", b"y")));
    log.say("a file removed in a directory", changes("d", || _ = unlink("d/x")));
    log.say("an open for writing", changes("f", || close(open("f", libc::O_WRONLY, 0))));
    log.say("a truncation of an empty file by open", {
        truncate("f", 0);
        changes("f", || close(open("f", libc::O_WRONLY | libc::O_TRUNC, 0)))
    });
    log.say("a write of nothing", {
        let fd = open("f", libc::O_WRONLY, 0);
        let text = changes("f", || _ = write(fd, b""));
        close(fd);
        text
    });
    // Whether a read changes the access time is an option of a mount of ext4, so that is not compared.
    log.call("times set", utimes("f", (1_000_000_000, 123_456_789), (1_100_000_000, 987_654_321)));
    let (a, an, m, mn, ..) = stamp("f");
    log.say("as they are then", format!("{a}.{an:09} {m}.{mn:09}"));
    log.call("before 1970", utimes("f", (-1, 5), (-1_000_000, 0)));
    let (a, an, m, mn, ..) = stamp("f");
    log.say("as they are before 1970", format!("{a}.{an:09} {m}.{mn:09}"));
    log.call("only one of them", utimes("f", (0, libc::UTIME_OMIT), (7, 0)));
    let (a, _, m, ..) = stamp("f");
    log.say("as they are with one left out", format!("{a} {m}"));
    log.call("a nanosecond too many", utimes("f", (0, 1_000_000_000), (7, 0)));
    log.call("the year 2200", utimes("f", (7_258_118_400, 0), (7_258_118_400, 0)));
    log.say("as it is", stamp("f").2);
    log.call("of a missing file", utimes("none", (0, 0), (0, 0)));
}

fn extended(log: &mut Log) {
    file("f", b"");
    mkdir("d", 0o755);
    symlink("f", "l");
    log.call("a user attribute", setxattr("f", c"user.a", b"value", 0));
    log.call("its length", getxattr("f", c"user.a", 0));
    log.call("its value", getxattr("f", c"user.a", 100));
    log.call("into too little room", getxattr("f", c"user.a", 2));
    log.call("one that is not there", getxattr("f", c"user.none", 100));
    log.call("create of one that is there", setxattr("f", c"user.a", b"", libc::XATTR_CREATE));
    log.call("replace of one that is not", setxattr("f", c"user.none", b"", libc::XATTR_REPLACE));
    log.call("an empty value", setxattr("f", c"user.empty", b"", 0));
    log.call("the length of that", getxattr("f", c"user.empty", 0));
    log.call("no namespace", setxattr("f", c"plain", b"1", 0));
    log.call("an unknown namespace", setxattr("f", c"strange.x", b"1", 0));
    log.call("a namespace without a name", setxattr("f", c"user.", b"1", 0));
    log.call("a trusted one", setxattr("f", c"trusted.t", b"1", 0));
    log.call("a security one", setxattr("f", c"security.s", b"1", 0));
    log.say("all names", xattrs("f"));
    log.call("a user attribute of a symlink", setxattr("l", c"user.a", b"1", 0));
    log.call("a trusted one of a symlink", setxattr("l", c"trusted.t", b"1", 0));
    log.say("names of the symlink", xattrs("l"));
    log.call("of a directory", setxattr("d", c"user.a", b"1", 0));
    log.call("a value of 3000 bytes", setxattr("f", c"user.long", &[b'x'; 3000], 0));
    log.call("a value of 60000 bytes", setxattr("f", c"user.longer", &[b'x'; 60_000], 0));
    log.call("a value of 65537 bytes", setxattr("f", c"user.longest", &[b'x'; 65_537], 0));
    log.call("removed", removexattr("f", c"user.a"));
    log.call("removed twice", removexattr("f", c"user.a"));
    let name = std::ffi::CString::new(format!("user.{}", "n".repeat(250))).expect("no NUL");
    log.call("a name of 255 bytes", setxattr("f", &name, b"1", 0));
    let name = std::ffi::CString::new(format!("user.{}", "n".repeat(251))).expect("no NUL");
    log.call("a name of 256 bytes", setxattr("f", &name, b"1", 0));
    log.call("a broken ACL", setxattr("f", c"system.posix_acl_access", b"broken", 0));
    log.call("a default ACL of a file", setxattr("f", c"system.posix_acl_default", &acl(), 0));
    log.call("an ACL", setxattr("d", c"system.posix_acl_default", &acl(), 0));
    log.say("names of the directory", xattrs("d"));
    mkdir("d/sub", 0o777);
    log.say("handed down", format!("{} {}", mode("d/sub"), xattrs("d/sub")));
}

/// `user::rwx,user:7:r--,group::r-x,mask::r-x,other::---`.
fn acl() -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in [(1u16, 7u16, u32::MAX), (2, 4, 7), (4, 5, u32::MAX), (16, 5, u32::MAX), (32, 0, u32::MAX)] {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(perm.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn lock(fd: i64, command: i32, kind: i32, start: i64, len: i64) -> (i64, libc::flock) {
    // SAFETY: a plain structure of numbers, which the call may fill.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = kind as i16;
        lock.l_whence = libc::SEEK_SET as i16;
        (lock.l_start, lock.l_len) = (start, len);
        let result = i64::from(libc::fcntl(fd as i32, command, &mut lock));
        (result, lock)
    }
}

/// Lock that another owner sees in a range: by a description of its own.
fn seen(start: i64, len: i64) -> String {
    let fd = open("f", libc::O_RDWR, 0);
    let (result, lock) = lock(fd, libc::F_OFD_GETLK, libc::F_WRLCK, start, len);
    close(fd);
    match i32::from(lock.l_type) {
        _ if result < 0 => errno(),
        libc::F_UNLCK => "free".into(),
        libc::F_RDLCK => format!("read {} {}", lock.l_start, lock.l_len),
        _ => format!("write {} {}", lock.l_start, lock.l_len),
    }
}

fn record_locks(log: &mut Log) {
    file("f", b"0123456789");
    let fd = open("f", libc::O_RDWR, 0);
    let reader = open("f", libc::O_RDONLY, 0);
    log.call("a write lock", lock(fd, libc::F_SETLK, libc::F_WRLCK, 0, 10).0);
    log.say("as others see it", seen(0, 0));
    log.call("a hole in it", lock(fd, libc::F_SETLK, libc::F_UNLCK, 4, 2).0);
    log.say("the hole", seen(4, 2));
    log.say("before the hole", seen(0, 1));
    log.say("behind the hole", seen(5, 5));
    log.call("a part made a read lock", lock(fd, libc::F_SETLK, libc::F_RDLCK, 0, 2).0);
    log.say("the first byte", seen(0, 1));
    log.call("a write lock by a reader", lock(reader, libc::F_SETLK, libc::F_WRLCK, 20, 1).0);
    log.call("to the end of all files", lock(fd, libc::F_SETLK, libc::F_WRLCK, 100, 0).0);
    log.say("far out", seen(1 << 50, 1));
    log.call("at a negative offset", lock(fd, libc::F_SETLK, libc::F_WRLCK, -5, 2).0);
    log.call("an owner of its own", {
        let other = open("f", libc::O_RDWR, 0);
        lock(other, libc::F_OFD_SETLK, libc::F_WRLCK, 100, 1).0
    });
    // The process's locks end with any of its descriptors of the file.
    close(reader);
    log.say("after another descriptor was closed", seen(0, 0));
    let (one, two) = (open("f", libc::O_RDWR, 0), open("f", libc::O_RDWR, 0));
    log.call("a lock of a description", lock(one, libc::F_OFD_SETLK, libc::F_WRLCK, 0, 5).0);
    log.call("another description's on it", lock(two, libc::F_OFD_SETLK, libc::F_RDLCK, 4, 5).0);
    log.call("beside it", lock(two, libc::F_OFD_SETLK, libc::F_RDLCK, 5, 5).0);
    close(one);
    log.call("after the first one is closed", lock(two, libc::F_OFD_SETLK, libc::F_WRLCK, 0, 10).0);
}

fn flock(fd: i64, how: i32) -> i64 {
    // SAFETY: numbers only.
    i64::from(unsafe { libc::flock(fd as i32, how) })
}

fn whole_locks(log: &mut Log) {
    file("f", b"");
    mkdir("d", 0o755);
    for path in ["f", "d"] {
        let (one, two) = (open(path, libc::O_RDONLY, 0), open(path, libc::O_RDONLY, 0));
        log.call(&format!("{path}: shared"), flock(one, libc::LOCK_SH | libc::LOCK_NB));
        log.call(&format!("{path}: shared twice"), flock(two, libc::LOCK_SH | libc::LOCK_NB));
        log.call(&format!("{path}: exclusive beside shared"), flock(one, libc::LOCK_EX | libc::LOCK_NB));
        flock(one, libc::LOCK_UN);
        log.call(&format!("{path}: exclusive"), flock(two, libc::LOCK_EX | libc::LOCK_NB));
        log.call(&format!("{path}: shared beside exclusive"), flock(one, libc::LOCK_SH | libc::LOCK_NB));
        close(two);
        log.call(&format!("{path}: after the close"), flock(one, libc::LOCK_EX | libc::LOCK_NB));
        close(one);
    }
}

fn limits(log: &mut Log) {
    let fd = open("f", libc::O_CREAT | libc::O_RDWR, 0o644);
    log.call("truncate to a negative size", truncate("f", -1));
    log.call("truncate of a directory", truncate(".", 0));
    log.call("truncate of nothing", truncate("none", 0));
    // SAFETY: a signal is set to be ignored, and a structure of numbers is passed.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let limit = libc::rlimit { rlim_cur: 1000, rlim_max: libc::RLIM_INFINITY };
        libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
    }
    log.call("a write over the limit of the process", pwrite(fd, &[b'x'; 2000], 0));
    log.call("a write behind the limit", pwrite(fd, b"x", 1000));
    log.call("a truncation behind the limit", ftruncate(fd, 2000));
    log.say("size then", fstat(fd).st_size);
}
