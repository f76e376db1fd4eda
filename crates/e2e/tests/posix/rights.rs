//! Programs about permissions: modes, owners, setuid and setgid, sticky and setgid directories.

use crate::calls::*;

/// Name, whether it runs as an ordinary user, body.
pub const PROGRAMS: &[Entry] = &[
    ("modes", true, modes),
    ("owners", true, owners),
    ("directories", true, directories),
    ("umask", true, umask),
    ("root", false, root),
];

fn access(path: &str, how: i32) -> i64 {
    // SAFETY: a C string.
    with_path(path, |path| unsafe { libc::access(path, how) })
}

fn modes(log: &mut Log) {
    file("f", b"abc");
    for bits in [0o000, 0o400, 0o200, 0o100, 0o070, 0o007, 0o700] {
        chmod("f", bits);
        let fds = [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR].map(|flags| open("f", flags, 0));
        let accesses = [libc::R_OK, libc::W_OK, libc::X_OK].map(|how| outcome(access("f", how)));
        log.say(&format!("mode {bits:o}"), format!("{:?} {accesses:?}", fds.map(|fd| fd >= 0)));
        fds.into_iter().for_each(close);
    }
    for bits in [0o4755, 0o2755, 0o2745, 0o1755, 0o7777] {
        log.call(&format!("chmod {bits:o}"), chmod("f", bits));
        log.say(&format!("mode after chmod {bits:o}"), mode("f"));
        let fd = open("f", libc::O_WRONLY, 0);
        write(fd, b"x");
        close(fd);
        log.say(&format!("mode after a write to {bits:o}"), mode("f"));
    }
    for (label, step) in [
        ("truncate", (|| _ = truncate("f", 1)) as fn()),
        ("a chown to nobody else", || _ = chown("f", u32::MAX, u32::MAX)),
        ("a chown to its owner", || _ = chown("f", crate::USER, crate::USER)),
        ("a second name", || _ = link("f", "g")),
        ("an open that truncates", || close(open("f", libc::O_WRONLY | libc::O_TRUNC, 0))),
        ("times", || _ = std::fs::File::open("f").and_then(|f| f.set_modified(std::time::SystemTime::UNIX_EPOCH))),
    ] {
        chmod("f", 0o6777);
        step();
        log.say(&format!("6777 after {label}"), mode("f"));
    }
    for (label, how) in [
        ("fallocate", 0),
        ("fallocate that keeps the size", libc::FALLOC_FL_KEEP_SIZE),
        ("a punched hole", libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE),
        ("a zeroed range", libc::FALLOC_FL_ZERO_RANGE),
    ] {
        file("h", &[b'x'; 10_000]);
        chmod("h", 0o6777);
        let fd = open("h", libc::O_RDWR, 0);
        fallocate(fd, how, 0, 20_000);
        close(fd);
        log.say(&format!("6777 after {label}"), mode("h"));
    }
    file("from", b"abc");
    chmod("h", 0o6777);
    let (from, to) = (open("from", libc::O_RDONLY, 0), open("h", libc::O_WRONLY, 0));
    // SAFETY: numbers, and positions of the files' own.
    unsafe { libc::copy_file_range(from as i32, std::ptr::null_mut(), to as i32, std::ptr::null_mut(), 3, 0) };
    log.say("6777 after a copied range", mode("h"));
}

fn owners(log: &mut Log) {
    file("f", b"");
    log.call("given to root", chown("f", 0, u32::MAX));
    log.call("given to a group that is not the user's", chown("f", u32::MAX, 0));
    log.call("given to its own group", chown("f", u32::MAX, crate::USER));
    log.call("of a missing file", chown("none", crate::USER, crate::USER));
    log.call("chmod of a missing file", chmod("none", 0o644));
    log.call("chmod of what is root's", chmod("/", 0o755));
}

fn directories(log: &mut Log) {
    mkdir("d", 0o755);
    file("d/f", b"");
    for bits in [0o000, 0o100, 0o400, 0o500, 0o300, 0o700] {
        chmod("d", bits);
        let lists = std::fs::read_dir("d").is_ok();
        let found = access("d/f", libc::F_OK);
        let found = outcome(found);
        let made = outcome(mkdir("d/sub", 0o755).min(0));
        rmdir("d/sub");
        log.say(&format!("directory {bits:o}"), format!("lists {lists}, finds {found}, makes {made}"));
    }
    mkdir("g", 0o755);
    log.call("a setgid directory", chmod("g", 0o2755));
    mkdir("g/sub", 0o755);
    file("g/f", b"");
    log.say("what is made in it", format!("{} {}", mode("g/sub"), mode("g/f")));
    log.works("a setgid file made in it", open("g/s", libc::O_CREAT | libc::O_WRONLY, 0o2775));
    log.say("its mode", mode("g/s"));
    log.call("a directory with all bits", mkdir("all", 0o7777));
    log.say("its bits", mode("all"));
}

fn umask(log: &mut Log) {
    for mask in [0o000, 0o022, 0o077, 0o777] {
        // SAFETY: a number.
        unsafe { libc::umask(mask) };
        let name = format!("{mask:o}");
        close(open(format!("f{name}"), libc::O_CREAT | libc::O_WRONLY, 0o6777));
        mkdir(format!("d{name}"), 0o3777);
        mknod(format!("p{name}"), libc::S_IFIFO | 0o777, 0);
        symlink("x", format!("l{name}"));
        let modes = ["f", "d", "p", "l"].map(|kind| mode(format!("{kind}{name}")));
        log.say(&format!("umask {mask:o}"), modes.join(" "));
    }
}

fn root(log: &mut Log) {
    file("f", b"abc");
    chmod("f", 0o000);
    log.works("root opens what nobody may", open("f", libc::O_RDWR, 0));
    log.call("root may not execute it", access("f", libc::X_OK));
    chmod("f", 0o6777);
    let fd = open("f", libc::O_WRONLY, 0);
    write(fd, b"x");
    log.say("6777 after root wrote", mode("f"));
    truncate("f", 0);
    log.say("6777 after root truncated", mode("f"));
    log.call("given away", chown("f", 7, 8));
    log.say("6777 after that", mode("f"));
    chmod("f", 0o2745);
    chown("f", 8, u32::MAX);
    log.say("2745 after that", mode("f"));
    mkdir("d", 0o755);
    chmod("d", 0o6755);
    chown("d", 9, 9);
    log.say("a directory keeps them", mode("d"));
    symlink("f", "l");
    log.call("a link given away", chown("l", 5, 5));
    let (link, file) = (lstat("l"), lstat("f"));
    log.say("owners of link and file", format!("{} {}", link.st_uid, file.st_uid));
}
