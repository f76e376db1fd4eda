//! Programs about names: making, renaming, linking and removing them, and what paths may look like.

use std::os::unix::ffi::OsStrExt;

use crate::calls::*;

/// Name, whether it runs as an ordinary user, body.
pub const PROGRAMS: &[Entry] = &[
    ("rename", true, rename_kinds),
    ("rename-flags", true, rename_flags),
    ("remove", true, remove),
    ("links", true, links),
    ("symlinks", true, symlinks),
    ("long-names", true, long_names),
    ("odd-names", true, odd_names),
    ("listing", true, listing),
    ("special-files", false, special_files),
    ("removed-directory", true, removed_directory),
];

fn rename_kinds(log: &mut Log) {
    mkdir("dir", 0o755);
    mkdir("full", 0o755);
    mkdir("empty", 0o755);
    file("full/x", b"x");
    file("a", b"a");
    file("b", b"b");
    log.call("a file over a directory", rename("a", "empty"));
    log.call("a directory over a file", rename("dir", "a"));
    log.call("a directory over a full one", rename("dir", "full"));
    log.call("a directory below itself", rename("full", "full/x/y"));
    log.call("a directory into itself", rename("dir", "dir/sub"));
    log.call("a directory over an empty one", rename("dir", "empty"));
    log.call("a directory over its parent", rename("full/x", "full"));
    log.call("a file over another one", rename("a", "b"));
    log.say("its content then", content("b"));
    log.call("a missing file", rename("a", "c"));
    link("b", "b2");
    log.call("one of two names over the other one", rename("b", "b2"));
    log.say("both stay", format!("{} {}", content("b"), lstat("b2").st_nlink));
    log.call("a file with a slash behind it", rename("b/", "c"));
    log.call("to a name with a slash behind it", rename("b", "c/"));
    log.call("a directory to a name with a slash behind it", rename("empty", "moved/"));
    log.call("the working directory", rename(".", "elsewhere"));
    log.call("to the parent", rename("moved", ".."));
    log.call("to nothing", rename("b", ""));
    symlink("b", "to-b");
    log.call("over a symlink", rename("b2", "to-b"));
    log.say("the target stays", content("b"));
    log.call("below a file", rename("to-b", "b/x"));
}

fn rename_flags(log: &mut Log) {
    file("a", b"a");
    file("b", b"bb");
    mkdir("dir", 0o755);
    mkdir("dir/sub", 0o755);
    log.call("no replace of what is there", rename_with("a", "b", libc::RENAME_NOREPLACE));
    log.call("no replace of nothing", rename_with("a", "c", libc::RENAME_NOREPLACE));
    log.call("exchange with nothing", rename_with("c", "none", libc::RENAME_EXCHANGE));
    log.call("exchange of files", rename_with("c", "b", libc::RENAME_EXCHANGE));
    log.say("content after it", format!("{} {}", content("c"), content("b")));
    log.call("exchange of file and directory", rename_with("c", "dir/sub", libc::RENAME_EXCHANGE));
    log.say("modes after it", format!("{} {}", mode("c"), mode("dir/sub")));
    log.call("exchange of a directory with what is in it", rename_with("dir", "dir/sub", libc::RENAME_EXCHANGE));
    log.call("both flags", rename_with("b", "x", libc::RENAME_EXCHANGE | libc::RENAME_NOREPLACE));
    log.call("an unknown flag", rename_with("b", "x", 1 << 20));
    log.call("with itself", rename_with("b", "b", libc::RENAME_EXCHANGE));
    log.call("no replace of itself", rename_with("b", "b", libc::RENAME_NOREPLACE));
}

fn remove(log: &mut Log) {
    mkdir("full", 0o755);
    mkdir("empty", 0o755);
    file("full/x", b"");
    symlink("empty", "to-empty");
    log.call("unlink of a directory", unlink("empty"));
    log.call("rmdir of a file", rmdir("full/x"));
    log.call("rmdir of a full directory", rmdir("full"));
    log.call("rmdir of dot", rmdir("empty/."));
    log.call("rmdir of dot dot", rmdir("empty/.."));
    log.call("rmdir of a symlink", rmdir("to-empty"));
    log.call("rmdir of a symlink with a slash behind it", rmdir("to-empty/"));
    log.call("unlink of a name with a slash behind it", unlink("full/x/"));
    log.call("rmdir with a slash behind it", rmdir("empty/"));
    log.call("unlink of a missing name", unlink("none"));
    log.call("unlink of nothing", unlink(""));
    log.call("unlink below a file", unlink("full/x/y"));
    let fd = open("full/x", libc::O_RDWR, 0);
    log.call("unlink of an open file", unlink("full/x"));
    log.say("its links then", fstat(fd).st_nlink);
    log.call("a write to it", write(fd, b"abc"));
    log.say("a read from it", pread(fd, 8, 0));
    let again = format!("/proc/self/fd/{fd}");
    // SAFETY: both are C strings.
    let named = with_paths(&again, "full/again", |from, to| unsafe {
        libc::linkat(libc::AT_FDCWD, from, libc::AT_FDCWD, to, libc::AT_SYMLINK_FOLLOW)
    });
    log.call("a new name for it", named);
    close(fd);
    log.call("rmdir when it is empty", rmdir("full"));
}

fn links(log: &mut Log) {
    file("a", b"a");
    mkdir("dir", 0o755);
    log.call("a second name", link("a", "dir/a"));
    log.say("links", lstat("a").st_nlink);
    log.call("over a name that is there", link("a", "dir/a"));
    log.call("of a directory", link("dir", "dir2"));
    log.call("of nothing", link("none", "x"));
    symlink("a", "to-a");
    log.call("of a symlink", link("to-a", "to-a2"));
    log.say("which stays one", mode("to-a2"));
    log.call("with a slash behind it", link("a", "b/"));
    log.call("of a file with a slash behind it", link("a/", "b"));
    let before = lstat("a");
    unlink("dir/a");
    log.say("links after an unlink", lstat("a").st_nlink);
    log.say("ctime grows with an unlink", later(&before, &lstat("a")));
    let fd = open(".", libc::O_TMPFILE | libc::O_RDWR, 0o600);
    log.works("a file without a name", fd);
    log.say("its links", fstat(fd).st_nlink);
    let path = format!("/proc/self/fd/{fd}");
    // SAFETY: both are C strings.
    let name = |to: &str| {
        with_paths(&path, to, |from, to| unsafe {
            libc::linkat(libc::AT_FDCWD, from, libc::AT_FDCWD, to, libc::AT_SYMLINK_FOLLOW)
        })
    };
    log.call("it gets a name", name("named"));
    log.say("its links with a name", fstat(fd).st_nlink);
    log.call("and a second one", name("named-twice"));
    close(fd);
    log.say("links of directories", format!("{} {}", lstat(".").st_nlink, lstat("dir").st_nlink));
    mkdir("dir/sub", 0o755);
    log.say("links with one below", lstat("dir").st_nlink);
    rename("dir/sub", "sub");
    log.say("links when that has moved", lstat("dir").st_nlink);
}

fn later(before: &libc::stat, after: &libc::stat) -> bool {
    (after.st_ctime, after.st_ctime_nsec) >= (before.st_ctime, before.st_ctime_nsec)
}

fn symlinks(log: &mut Log) {
    log.call("to nothing", symlink("none", "dangling"));
    log.works("open of it", open("dangling", libc::O_RDONLY, 0));
    log.works("exclusive create over it", open("dangling", libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY, 0o644));
    log.works("create through it", open("dangling", libc::O_CREAT | libc::O_WRONLY, 0o644));
    log.say("made its target", mode("none"));
    log.works("open without following", open("dangling", libc::O_RDONLY | libc::O_NOFOLLOW, 0));
    log.works("open of the link itself", open("dangling", libc::O_PATH | libc::O_NOFOLLOW, 0));
    log.call("an empty target", symlink("", "empty"));
    log.call("over a name", symlink("x", "none"));
    symlink("b", "a");
    symlink("a", "b");
    log.works("a loop", open("a", libc::O_RDONLY, 0));
    for depth in 0..45 {
        symlink(if depth == 0 { "none".into() } else { format!("chain{}", depth - 1) }, format!("chain{depth}"));
    }
    log.works("forty links", open("chain39", libc::O_RDONLY, 0));
    log.works("forty-one links", open("chain40", libc::O_RDONLY, 0));
    let long = "x".repeat(4095);
    log.call("a target of 4095 bytes", symlink(&long, "long"));
    log.call("a target of 4096 bytes", symlink(format!("{long}x"), "longer"));
    log.say("size of a link", format!("{} {}", lstat("dangling").st_size, lstat("long").st_size));
    let mut buffer = [0u8; 3];
    // SAFETY: pointer and length of an array.
    let cut = unsafe { libc::readlink(c"dangling".as_ptr(), buffer.as_mut_ptr().cast(), 3) };
    log.call("readlink into three bytes", cut as i64);
    log.call("chmod through a dangling link", {
        unlink("none");
        chmod("dangling", 0o600)
    });
    log.say("mode of a link", mode("dangling"));
}

fn long_names(log: &mut Log) {
    let longest = "n".repeat(255);
    log.works("a name of 255 bytes", open(&longest, libc::O_CREAT | libc::O_WRONLY, 0o644));
    log.works("a name of 256 bytes", open("n".repeat(256), libc::O_CREAT | libc::O_WRONLY, 0o644));
    log.call("lookup of a name of 256 bytes", unlink("n".repeat(256)));
    log.call("rename to a name of 256 bytes", rename(&longest, "m".repeat(256)));
    log.call("a directory of 255 bytes", mkdir("d".repeat(255), 0o755));
    log.works("a path of 4096 bytes", open("./".repeat(2048), libc::O_RDONLY, 0));
    log.works("a path of 4094 bytes", open("./".repeat(2047), libc::O_RDONLY, 0));
    // SAFETY: a C string.
    log.call("pathconf NAME_MAX", with_path(".", |path| unsafe { libc::pathconf(path, libc::_PC_NAME_MAX) as i32 }));
    // SAFETY: as above.
    log.call("pathconf LINK_MAX", with_path(".", |path| unsafe { libc::pathconf(path, libc::_PC_LINK_MAX) as i32 }));
}

fn odd_names(log: &mut Log) {
    for (label, name) in [
        ("bytes that are no text", &b"\xff\xfe\x80"[..]),
        ("a line break", b"a\nb"),
        ("a tab and a space", b" \t "),
        ("three dots", b"..."),
        ("a backslash", b"a\\b"),
        ("a star", b"*"),
        ("a byte of one", b"\x01"),
    ] {
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name));
        log.works(label, open(path, libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY, 0o644));
    }
    log.works("the empty name", open("", libc::O_CREAT | libc::O_WRONLY, 0o644));
    log.works("create with a slash behind it", open("x/", libc::O_CREAT | libc::O_WRONLY, 0o644));
    log.call("mkdir with a slash behind it", mkdir("y/", 0o755));
    log.call("mkdir of dot", mkdir(".", 0o755));
    log.call("mkdir of a name that is there", mkdir("y", 0o755));
    log.call("mkdir below nothing", mkdir("no/where", 0o755));
    log.works("open of a directory for writing", open("y", libc::O_WRONLY, 0));
    log.works("create of a directory's name", open("y", libc::O_CREAT | libc::O_RDONLY, 0o644));
    log.works("a file as a directory", open("*", libc::O_RDONLY | libc::O_DIRECTORY, 0));
    log.works("case counts", open("Y", libc::O_RDONLY, 0));
}

fn names_in(dir: &str) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn listing(log: &mut Log) {
    mkdir("dir", 0o755);
    (0..500).for_each(|n| file(format!("dir/{n:03}"), b""));
    mkdir("dir/sub", 0o755);
    symlink("x", "dir/link");
    mknod("dir/fifo", libc::S_IFIFO | 0o644, 0);
    let names = names_in("dir");
    log.say("names", format!("{} {} {}", names.len(), names[0], names[names.len() - 1]));
    // SAFETY: the stream is open until closedir; entries are read before the next call on it.
    unsafe {
        let stream = libc::opendir(c"dir".as_ptr());
        let (mut kinds, mut seen, mut places) = (std::collections::BTreeMap::new(), 0, Vec::new());
        loop {
            let place = libc::telldir(stream);
            let entry = libc::readdir(stream);
            if entry.is_null() {
                break;
            }
            let name = std::ffi::CStr::from_ptr((*entry).d_name.as_ptr()).to_string_lossy().into_owned();
            *kinds.entry((*entry).d_type).or_insert(0) += 1;
            places.push((place, name));
            seen += 1;
        }
        log.say("types", format!("{kinds:?}"));
        log.say("entries with dot and dot dot", seen);
        let (place, name) = places[250].clone();
        libc::seekdir(stream, place);
        let entry = libc::readdir(stream);
        let is = std::ffi::CStr::from_ptr((*entry).d_name.as_ptr()).to_string_lossy().into_owned();
        log.say("seekdir leads back to the same entry", is == name);
        // What is removed meanwhile does not come, what stays comes once.
        libc::rewinddir(stream);
        let mut left = std::collections::BTreeMap::new();
        let mut count = 0;
        loop {
            let entry = libc::readdir(stream);
            if entry.is_null() {
                break;
            }
            let name = std::ffi::CStr::from_ptr((*entry).d_name.as_ptr()).to_string_lossy().into_owned();
            *left.entry(name).or_insert(0) += 1;
            count += 1;
            if count == 100 {
                (0..500).filter(|n| n % 2 == 0).for_each(|n| _ = unlink(format!("dir/{n:03}")));
            }
        }
        let odd = (0..500).filter(|n| n % 2 == 1).all(|n| left.get(&format!("{n:03}")) == Some(&1));
        log.say("entries that stay come once while others are removed", odd);
        libc::closedir(stream);
    }
    log.say("names left", names_in("dir").len());
}

fn special_files(log: &mut Log) {
    log.call("a fifo", mknod("fifo", libc::S_IFIFO | 0o640, 0));
    log.works("write end without a reader", open("fifo", libc::O_WRONLY | libc::O_NONBLOCK, 0));
    let reader = log.works("read end", open("fifo", libc::O_RDONLY | libc::O_NONBLOCK, 0));
    let writer = log.works("write end with one", open("fifo", libc::O_WRONLY | libc::O_NONBLOCK, 0));
    log.call("through it", write(writer, b"abc"));
    close(reader);
    close(writer);
    log.call("truncate of a fifo", truncate("fifo", 0));
    log.call("a character device", mknod("null", libc::S_IFCHR | 0o666, libc::makedev(1, 3)));
    let null = lstat("null");
    log.say("its number", format!("{} {}", libc::major(null.st_rdev), libc::minor(null.st_rdev)));
    log.call("a block device", mknod("block", libc::S_IFBLK | 0o600, libc::makedev(300, 70_000)));
    let block = lstat("block");
    log.say("its large number", format!("{} {}", libc::major(block.st_rdev), libc::minor(block.st_rdev)));
    log.call("a socket", mknod("socket", libc::S_IFSOCK | 0o600, 0));
    log.works("open of a socket", open("socket", libc::O_RDONLY, 0));
    log.call("a plain file by mknod", mknod("plain", libc::S_IFREG | 0o640, 0));
    log.call("a directory by mknod", mknod("dir", libc::S_IFDIR | 0o755, 0));
    let listener = std::os::unix::net::UnixListener::bind("listen");
    log.say("a listening socket", listener.is_ok());
    log.say("a connection to it", std::os::unix::net::UnixStream::connect("listen").is_ok());
    log.call("a second name for it", link("listen", "listen2"));
    log.say("a connection to that", std::os::unix::net::UnixStream::connect("listen2").is_ok());
    for name in ["fifo", "null", "block", "socket", "plain", "listen"] {
        log.say(&format!("mode of {name}"), mode(name));
    }
}

fn removed_directory(log: &mut Log) {
    mkdir("dir", 0o755);
    let fd = open("dir", libc::O_RDONLY | libc::O_DIRECTORY, 0);
    log.call("removed while it is open", rmdir("dir"));
    log.say("its links", fstat(fd).st_nlink);
    // SAFETY: a C string and numbers.
    let make = i64::from(unsafe { libc::openat(fd as i32, c"x".as_ptr(), libc::O_CREAT | libc::O_WRONLY, 0o644) });
    log.works("a file made in it", make);
    let mut buffer = [0u8; 512];
    // SAFETY: pointer and length of an array.
    let listed = unsafe { libc::syscall(libc::SYS_getdents64, fd, buffer.as_mut_ptr(), buffer.len()) };
    log.say("its listing is empty", if listed < 0 { errno() } else { (listed == 0).to_string() });
    mkdir("again", 0o755);
    std::env::set_current_dir("again").expect("it is there");
    log.call("the working directory removed", rmdir("../again"));
    let mut path = [0 as libc::c_char; 4096];
    // SAFETY: pointer and length of an array.
    let cwd = unsafe { libc::getcwd(path.as_mut_ptr(), path.len()) };
    log.say("getcwd then", if cwd.is_null() { errno() } else { "a path".into() });
    log.works("a file made there", open("y", libc::O_CREAT | libc::O_WRONLY, 0o644));
    log.call("a directory made there", mkdir("y", 0o755));
    log.works("the parent opened", open("..", libc::O_RDONLY, 0));
}
