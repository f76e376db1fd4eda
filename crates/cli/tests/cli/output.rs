//! Where output goes: full disks, readers that go away, terminals and pipes.

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::run::{LOLIGO, Place, Service, can_mount, loligo, loligo_in, sh, until};

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").expect("/dev/full").into()
}

/// The paths go to the data directory of a server that runs, to one that does not, and to a third that is new.
#[test]
fn an_answer_that_cannot_be_written_is_a_failure_with_a_cause() {
    let place = Place::new();
    let (served, idle, new) = (place.data(), place.path("idle"), place.path("new"));
    loligo("format --data {}", &[&served]).ok();
    loligo("format --data {}", &[&idle]).ok();
    let dump = place.path("dump");
    loligo("dump --data {} -o {}", &[&idle, &dump]).ok();
    let server = Service::start("serve --data {}", &[&served]);
    for (words, paths) in [
        ("config", &[][..]),
        ("config --json", &[]),
        ("completions bash", &[]),
        ("format --data {}", &[&new]),
        ("status --data {}", &[&served]),
        ("status --data {} --json", &[&served]),
        ("top --data {} --count 1 --interval 0.1", &[&served]),
        ("fsck --data {}", &[&idle]),
        ("fsck --data {} --json", &[&idle]),
        ("dump --data {}", &[&idle]),
        ("load --data {} {}", &[&place.path("loaded"), &dump]),
        ("journal inspect --data {}", &[&served]),
        ("journal diff {} {}", &[&served, &served]),
        ("bench md --data {} --files 5 --phases create", &[&served]),
        ("down --data {}", &[&served]),
    ] {
        let paths: Vec<&Path> = paths.iter().map(|path| path.as_path()).collect();
        let ran = loligo_in(words, &paths, |command| _ = command.arg("--quiet").stdout(full()));
        ran.fails(1, &["cannot write to standard output: No space left on device", "make room"]);
    }
    assert_eq!(server.ended().0, 0);
    // The text of an error that cannot be written is lost, its code is not.
    let lost = |words: &str| loligo_in(words, &[], |command| _ = command.stderr(full()));
    assert_eq!((lost("status").code, lost("status --data /no/such/place").code), (2, 1));
}

#[test]
fn a_log_on_a_full_disk_does_not_end_a_server() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let mut server = Command::new(LOLIGO);
    server.args(["serve", "--log", "debug", "--data"]).arg(&data).stdin(Stdio::null());
    let mut server = server.stdout(full()).stderr(full()).spawn().expect("a server");
    until("the server is there", || loligo("status --data {}", &[&data]).code == 0);
    loligo("bench md --data {} --files 20 --phases create,unlink", &[&data]).ok();
    loligo("down --data {}", &[&data]).ok();
    assert!(server.wait().expect("its end").success());
}

#[test]
fn a_dump_never_replaces_what_is_no_file_and_leaves_no_half() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let whole = loligo("dump --data {}", &[&data]).ok().out;
    // It holds names and contents that others may not see.
    let plain = place.path("plain");
    loligo("dump --data {} -o {}", &[&data, &plain]).ok();
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&plain).expect("it is there").permissions());
    assert_eq!(mode & 0o777, 0o600);
    std::fs::remove_file(&plain).expect("it is there");
    let pipe = place.path("pipe");
    let read = format!("mkfifo $D; cat $D & timeout 60 {LOLIGO} dump --data {} -o $D; wait", data.display());
    assert_eq!(sh(&read, &pipe).ok().out, whole);
    assert!(std::fs::metadata(&pipe).expect("it is there").file_type().is_fifo());
    loligo("dump --data {} -o /dev/full", &[&data]).fails(1, &["cannot write to /dev/full", "make room"]);
    assert!(std::fs::metadata("/dev/full").expect("it is there").file_type().is_char_device());
    loligo("dump --data {} -o {}", &[&data, place.dir.path()]).fails(1, &["directory"]);
    loligo("dump --data {} -o {}", &[&data, &place.path("no/where")]).fails(1, &["output file", "no/where"]);
    // A file that a symlink names is replaced, not the symlink.
    std::fs::write(place.path("old"), "old").expect("a file");
    std::os::unix::fs::symlink("old", place.path("link")).expect("a symlink");
    loligo("dump --data {} -o {}", &[&data, &place.path("link")]).ok();
    assert_eq!(std::fs::read_to_string(place.path("old")).expect("a file"), whole);
    let names = |dir: &Path| std::fs::read_dir(dir).expect("a directory").count();
    assert_eq!(names(place.dir.path()), 4, "data, pipe, old, link");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    for words in ["dump --data $D", "config", "completions zsh", "journal inspect --data $D", "help"] {
        let ran = sh(&format!("timeout 60 {LOLIGO} {words} | true"), &data).ok();
        assert_eq!(ran.err, "", "{words}");
    }
}

/// Runs it with stderr on a terminal of 80 columns; what the terminal got, and the exit code.
fn on_terminal(words: &str, paths: &[&Path]) -> (String, i32) {
    on_a_terminal(words, paths, false)
}

/// The same; with `all` also stdout.
fn on_a_terminal(words: &str, paths: &[&Path], all: bool) -> (String, i32) {
    let (mut master, mut slave) = (-1, -1);
    let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the two numbers are filled, and owned below; the size is only read.
    let made = unsafe { libc::openpty(&mut master, &mut slave, std::ptr::null_mut(), std::ptr::null(), &size) };
    assert_eq!(made, 0, "a terminal");
    // SAFETY: both were just made and belong to nobody else.
    let (master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    let reader = std::thread::spawn(move || {
        let (mut master, mut bytes, mut buffer) = (master, Vec::new(), [0; 4096]);
        // When the last process has closed the terminal, reading fails.
        while let Ok(n @ 1..) = std::io::Read::read(&mut master, &mut buffer) {
            bytes.extend_from_slice(&buffer[..n]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let ran = loligo_in(words, paths, |command| {
        if all {
            command.stdout(slave.try_clone().expect("a descriptor"));
        }
        command.env("TERM", "xterm").stderr(slave);
    });
    (reader.join().expect("no panic"), ran.code)
}

/// Enough that a journal is there to be read.
fn killed_with_content(data: &Path) {
    loligo("format --data {}", &[data]).ok();
    let server = Service::start("serve --data {}", &[data]);
    loligo("bench md --data {} --files 300 --phases create --keep", &[data]).ok();
    server.kill();
}

#[test]
fn long_work_shows_a_bar_on_a_terminal_only() {
    let place = Place::new();
    let (data, text, copy) = (place.data(), place.path("text"), place.path("copy"));
    killed_with_content(&data);
    let works: [(&str, &[&Path], &[&str]); 4] = [
        ("dump --data {} -o {}", &[&data, &text], &["reading the journal [", "counting", "dumping ["]),
        ("fsck --data {} --data-checksums", &[&data], &["reading the journal [", "checking ", "listing objects"]),
        ("load --data {} {}", &[&copy, &text], &["loading ["]),
        ("bench md --data {} --files 5 --phases create,unlink", &[&data], &["measuring create ["]),
    ];
    for (words, paths, bars) in works {
        let server = words.starts_with("bench").then(|| Service::start("serve --data {}", &[&data]));
        let (seen, code) = on_terminal(words, paths);
        assert_eq!(code, 0, "{seen}");
        for bar in bars {
            assert!(seen.contains(bar), "{words}: no `{bar}` in {seen:?}");
        }
        // At the end the bar is taken away.
        assert!(seen.contains("\x1b["), "{words}: {seen:?}");
        let again = ["copy2", "text2"].map(|name| place.path(name));
        let paths: Vec<&Path> = match words.split(' ').next() {
            Some("load") => vec![&again[0], &text],
            Some("dump") => vec![&data, &again[1]],
            _ => paths.to_vec(),
        };
        let quiet = on_terminal(&format!("{words} --quiet"), &paths);
        assert!(quiet.1 == 0 && !quiet.0.contains("\x1b[") && !quiet.0.contains("ing ["), "{words}: {quiet:?}");
        if words.starts_with("load") {
            std::fs::remove_dir_all(&again[0]).expect("removed");
        }
        let piped = loligo(words, &paths).ok();
        assert!(!piped.err.contains("ing [") && !piped.err.contains('\x1b'), "{words}: {}", piped.err);
        if !words.starts_with("dump") && !words.starts_with("load") {
            let json = on_terminal(&format!("{words} --json"), &paths);
            assert!(json.1 == 0 && !json.0.contains("\x1b["), "{words}: {json:?}");
        }
        drop(server);
    }
}

#[test]
fn status_and_top_fit_a_terminal_of_80_columns() {
    if !can_mount() {
        return;
    }
    // Paths are shown whole, so these are short.
    let dir = tempfile::Builder::new().prefix("l").rand_bytes(3).tempdir_in("/tmp").expect("a directory for the test");
    let place = Place { dir };
    let (data, mount) = (place.path("d"), place.path("m"));
    let up = Service::start("up --data {} --mount {}", &[&data, &mount]);
    sh("for i in 1 2 3; do echo $i > $D/$i; cat $D/$i; done; ls -l $D", &mount).ok();
    let status = loligo("status --data {}", &[&data]).ok().out;
    let top = loligo("top --data {} --count 1 --interval 0.1", &[&data]).ok().out;
    assert_eq!(up.stop().0, 0);
    for line in status.lines().chain(top.lines()) {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
}

#[test]
fn a_private_key_is_not_shown_on_a_terminal() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {}", &[&data]);
    let (seen, code) = on_a_terminal("auth add laptop --data {}", &[&data], true);
    assert_eq!(code, 2, "{seen}");
    assert!(seen.contains("the private key of laptop would be shown") && seen.contains("--out FILE"), "{seen}");
    assert!(!seen.contains("PRIVATE"), "{seen}");
    assert_eq!(loligo("auth list --data {} --json", &[&data]).ok().out.trim(), "[]", "none was made");
    // A pipe is no terminal.
    assert!(loligo("auth add laptop --data {}", &[&data]).ok().out.contains("PRIVATE KEY"));
    assert_eq!(server.stop().0, 0);
}
