//! Whatever a user may get wrong: the thing, the cause and what to do, and nothing is changed.

use std::path::Path;

use super::run::{Place, Service, can_mount, loligo, loligo_in, sh};

/// A data directory of a format that nobody has made yet.
fn newer(place: &Place) -> std::path::PathBuf {
    let dir = place.path("newer");
    std::fs::create_dir(&dir).expect("a directory");
    let mut identity = b"LOLIGOFS".to_vec();
    identity.extend_from_slice(&7u32.to_le_bytes());
    identity.resize(64, 0);
    std::fs::write(dir.join("loligo.id"), identity).expect("a file");
    dir
}

fn foreign(place: &Place) -> std::path::PathBuf {
    let dir = place.path("foreign");
    std::fs::create_dir(&dir).expect("a directory");
    std::fs::write(dir.join("letter.txt"), "dear").expect("a file");
    dir
}

/// Commands that want a data directory.
const WANT_DATA: [&str; 8] = [
    "serve --data {}",
    "fsck --data {}",
    "fsck --data {} --repair",
    "dump --data {}",
    "journal inspect --data {}",
    "status --data {}",
    "down --data {}",
    "mount --data {} /no/such/mount",
];

#[test]
fn a_directory_that_is_not_there() {
    let place = Place::new();
    loligo("fsck --data {}", &[&place.path("none")]).fails(1, &["name the directory that was given to loligo up"]);
    for words in WANT_DATA {
        loligo(words, &[&place.path("none")]).fails(1, &["none does not exist"]);
        assert!(!place.path("none").exists(), "{words}");
    }
}

#[test]
fn a_directory_that_is_not_ours() {
    let place = Place::new();
    let dir = foreign(&place);
    for words in WANT_DATA.iter().chain(&[
        "format --data {}",
        "up --data {} --mount /no/such/mount",
        "up --daemon --data {} --mount /m",
    ]) {
        loligo(words, &[&dir]).fails(1, &["foreign is not a data directory of Loligo"]);
    }
    for words in ["serve --data {}", "up --data {} --mount /no/such/mount", "fsck --data {}"] {
        let ran = loligo(words, &[&dir]).fails(1, &["one that is empty or not there yet"]);
        assert!(!ran.err.contains("loligo format"), "that would be refused, too: {}", ran.err);
    }
    std::fs::write(
        place.path("dump"),
        "loligo-dump 1 inodes=0 entries=0 xattrs=0 inline=0 objects=0 object-bytes=0 next-ino=1\n",
    )
    .expect("a file");
    loligo("load --data {} {}", &[&dir, &place.path("dump")]).fails(1, &["not a data directory", "letter.txt"]);
    let left: Vec<_> = std::fs::read_dir(&dir).expect("a directory").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["letter.txt"]);
}

#[test]
fn a_directory_of_a_newer_format() {
    let place = Place::new();
    let dir = newer(&place);
    for words in WANT_DATA.iter().chain(&["format --data {}", "up --data {} --mount /no/such/mount"]) {
        loligo(words, &[&dir]).fails(1, &["newer has format version 7", "up to 1", "newer program"]);
    }
}

#[test]
fn a_directory_that_holds_a_file_system_is_not_formatted_again() {
    let place = Place::new();
    loligo("format --data {}", &[&place.data()]).ok();
    loligo("format --data {}", &[&place.data()]).fails(1, &["already holds the file system", "another directory"]);
    std::fs::write(place.path("dump"), loligo("dump --data {}", &[&place.data()]).ok().out).expect("a file");
    loligo("load --data {} {}", &[&place.data(), &place.path("dump")]).fails(1, &["already holds the file system"]);
    loligo("fsck --data {}", &[&place.data()]).ok();
}

#[test]
fn a_directory_that_a_server_uses() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --admin off", &[&data]);
    let owner = format!("process {}", server.pid());
    for words in ["serve --data {}", "serve --daemon --data {}"] {
        loligo(words, &[&data]).fails(1, &["is in use by another server", &owner, "loligo down --data"]);
    }
    let words = ["is served already by", &owner, "loligo mount --data", "loligo down --data"];
    loligo("up --data {} --mount /no/such/mount", &[&data]).fails(1, &words);
    for words in ["fsck --data {}", "format --data {}"] {
        loligo(words, &[&data]).fails(1, &["in use", &owner]);
    }
    loligo("dump --data {}", &[&data]).ok();
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn whatever_can_be_checked_is_before_a_new_directory_is_made() {
    let place = Place::new();
    let data = place.path("new");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port();
    let (listen, admin) = (format!("--listen 127.0.0.1:{port}"), format!("--admin 127.0.0.1:{port}"));
    let behind = format!("--listen 127.0.0.1:{} --ranks 2", port - 1);
    let everywhere: [(&str, i32, &str); 6] = [
        ("--set listen=nonsense", 2, "nonsense"),
        ("--set listen=127.0.0.1:99999", 2, "127.0.0.1:99999"),
        ("--set admin=8.8.8.8", 2, "admin address 8.8.8.8"),
        ("--set admin=8.8.8.8:80", 2, "reached from other machines"),
        ("--set log=a=b=c", 2, "log = `a=b=c`"),
        ("--set inline_max=1GiB", 2, "inline_max"),
    ];
    let of_up: [(&str, i32, &str); 5] = [
        (&listen, 1, "cannot listen on"),
        (&behind, 1, "cannot listen on"),
        (&admin, 1, "choose another port"),
        ("--path /a/b", 2, "no directories"),
        ("--set identity=/no/such/file", 2, "/no/such/file"),
    ];
    let mount = place.path("mnt-of-new");
    for (words, code, cause) in everywhere {
        loligo(&format!("format --data {{}} {words}"), &[&data]).fails(code, &[cause]);
        assert!(!data.exists(), "format {words}");
    }
    if can_mount() {
        for (words, code, cause) in everywhere.into_iter().chain(of_up) {
            for daemon in ["", "--daemon"] {
                loligo(&format!("up --data {{}} --mount {{}} {words} {daemon}"), &[&data, &mount])
                    .fails(code, &[cause]);
                assert!(!data.exists() && !mount.exists(), "up {words} {daemon}");
            }
        }
    }
    // Of one that is there: nothing is added to it.
    loligo("format --data {}", &[&data]).ok();
    let entries = || std::fs::read_dir(&data).expect("a directory").count();
    let before = entries();
    for (words, code, cause) in everywhere {
        loligo(&format!("serve --data {{}} {words}"), &[&data]).fails(code, &[cause]);
        loligo(&format!("serve --daemon --data {{}} {words}"), &[&data]).fails(code, &[cause]);
        assert_eq!(entries(), before, "serve {words}");
    }
}

#[test]
fn nothing_runs_there() {
    let place = Place::new();
    loligo("format --data {}", &[&place.data()]).ok();
    for words in
        ["status --data {}", "status {}", "top --data {}", "mount --data {} /no/such/mount", "status --server {}"]
    {
        loligo(words, &[&place.data()]).fails(1, &["no server runs on", "loligo up --data"]);
    }
    let ran = loligo("down --data {}", &[&place.data()]).fails(1, &["no server runs on"]);
    assert!(!ran.err.contains("loligo up"), "who wants to stop one does not want to start one: {}", ran.err);
}

#[test]
fn the_server_was_killed() {
    let place = Place::new();
    loligo("format --data {}", &[&place.data()]).ok();
    Service::start("serve --data {}", &[&place.data()]).kill();
    for words in ["status --data {}", "down --data {}"] {
        loligo(words, &[&place.data()])
            .fails(1, &["ended without stopping", "nothing acknowledged is lost", "loligo serve --data"]);
    }
    assert_eq!(Service::start("serve --data {}", &[&place.data()]).stop().0, 0);
    loligo("down --data {}", &[&place.data()]).fails(1, &["no server runs on"]);
}

#[test]
fn an_address_that_makes_no_sense_or_where_nobody_is() {
    let place = Place::new();
    loligo("mount --server nonsense {}", &[&place.mount()]).fails(2, &["nonsense", "HOST:PORT"]);
    loligo("mount --server 127.0.0.1:1 {}", &[&place.mount()])
        .fails(1, &["cannot connect to tcp:127.0.0.1:1", "running"]);
    loligo("mount --server {} {}", &[&place.path("sock"), &place.mount()])
        .fails(1, &["cannot connect to unix:", "running"]);
    loligo("mount --server http://127.0.0.1:1 {}", &[&place.mount()]).fails(2, &["admin address"]);
    loligo("status --server 127.0.0.1:1", &[]).fails(1, &["is for clients", "admin plane", "--data DIR"]);
    loligo("status --server http://127.0.0.1:1", &[]).fails(1, &["http://127.0.0.1:1 does not answer"]);
    loligo("status {}", &[place.dir.path()]).fails(1, &["neither inside a Loligo mount nor", "--data DIR"]);
    loligo("status", &[]).fails(2, &["no server is named", "LOLIGO_SERVER"]);
    let with = |words: &str, server: &str| loligo_in(words, &[], |command| _ = command.env("LOLIGO_SERVER", server));
    with("status", "").fails(2, &["no server is named"]);
    with("mount /no/such/mount", "").fails(2, &["no server is named"]);
    with("status", "/no/such/socket").fails(1, &["/no/such/socket does not answer", "is it running"]);
    with("mount /no/such/mount", "127.0.0.1:1").fails(1, &["cannot connect", "running"]);
    with("bench md", "127.0.0.1:1").fails(1, &["cannot connect"]);
    loligo("bench md --server 127.0.0.1:1", &[]).fails(1, &["cannot connect"]);
    assert!(super::run::fuse_mounts(place.dir.path()).is_empty());
}

#[test]
fn an_address_that_others_could_reach() {
    let place = Place::new();
    loligo("format --data {}", &[&place.data()]).ok();
    // Where clients come in over TLS it may be so (auth.rs); the admin plane has neither that nor a login.
    loligo("serve --data {} --admin 0.0.0.0:0", &[&place.data()])
        .fails(2, &["reached from other machines", "127.0.0.1"]);
    loligo("serve --data {} --admin nonsense", &[&place.data()]).fails(2, &["admin address nonsense", "HOST:PORT"]);
    loligo("serve --data {} --listen nonsense", &[&place.data()]).fails(2, &["nonsense", "HOST:PORT"]);
    assert!(!place.data().join("server.json").exists());
}

#[test]
fn an_address_that_is_taken() {
    let place = Place::new();
    loligo("format --data {}", &[&place.data()]).ok();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = taken.local_addr().expect("an address");
    for option in ["--listen", "--admin"] {
        loligo(&format!("serve --data {{}} {option} {at}"), &[&place.data()]).fails(1, &[&at.to_string(), "in use"]);
    }
}

#[test]
fn values_that_cannot_be() {
    let place = Place::new();
    loligo("format --data {}", &[&place.data()]).ok();
    for (set, words) in [
        ("colour=red", &["unknown setting `colour`", "inline_max"][..]),
        ("grace_ms=soon", &["grace_ms", "soon", "whole number"]),
        ("cache_bytes=2XB", &["cache_bytes", "64MiB"]),
        ("inline_max=1MiB", &["inline_max", "65536"]),
        ("journal_data=1MiB", &["journal_data", "262144"]),
        ("journal_mode=wastless", &["journal_mode", "wasteless"]),
        ("session_ms=1", &["session_ms", "from 1000"]),
        ("log=x=loud", &["log = `x=loud`", "warn"]),
    ] {
        loligo(&format!("serve --data {{}} --set {set}"), &[&place.data()]).fails(2, words);
    }
    loligo("config --set nonsense", &[]).fails(2, &["KEY=VALUE"]);
    loligo("config --config {}", &[&place.path("none.toml")]).fails(2, &["none.toml", "exists"]);
    for (text, words) in [
        (&b"a = ["[..], &["bad.toml", "TOML"][..]),
        (b"colour = \"red\"", &["unknown setting `colour`", "bad.toml", "known are"]),
        (b"[section]\nx = 1", &["unknown setting `section`"]),
        (b"grace_ms = 1.5", &["grace_ms cannot be a float", "loligo config"]),
        (b"grace_ms = -1", &["grace_ms = `-1`", "whole number"]),
        (b"listen = [1, 2]", &["listen cannot be a list of other than text"]),
        (b"listen = { a = 1 }", &["listen cannot be a table"]),
        (b"log = \"\xff\"", &["bad.toml", "UTF-8", "text file"]),
    ] {
        std::fs::write(place.path("bad.toml"), text).expect("a file");
        loligo("config --config {}", &[&place.path("bad.toml")]).fails(2, words);
    }
    loligo("config --config {}", &[place.dir.path()]).fails(2, &["directory"]);
    for ranks in ["0", "65", "many"] {
        loligo(&format!("up --data {{}} --mount /m --ranks {ranks}"), &[&place.data()]).fails(2, &["--ranks", ranks]);
    }
    loligo("up --data {}", &[&place.data()]).fails(2, &["--mount"]);
    loligo("top --data {} --interval 0", &[&place.data()]).fails(2, &["--interval 0"]);
    loligo("bench md --phases create,jump", &[]).fails(2, &["unknown phase `jump`", "smallread"]);
    loligo("bench md --phases stat", &[]).fails(2, &["phase stat", "create"]);
    loligo("bench md --files 0", &[]).fails(2, &["at least one"]);
    loligo("dance", &[]).fails(2, &["dance"]);
    let deep = place.path(&"d".repeat(100));
    loligo("serve --data {}", &[&deep]).fails(2, &["shorter path"]);
}

#[test]
fn a_mount_over_its_own_data() {
    let place = Place::new();
    loligo("format --data {}", &[&place.data()]).ok();
    loligo("up --data {} --mount {} --nonempty", &[&place.data(), place.dir.path()])
        .fails(2, &["cover its own data directory"]);
    for inside in [place.data(), place.path("data/mnt")] {
        loligo("up --data {} --mount {} --nonempty", &[&place.data(), &inside])
            .fails(2, &["is inside its own data directory"]);
    }
    for none in [std::path::PathBuf::from("/proc/zz"), place.path("none/../mnt")] {
        let new = place.path("new");
        loligo("up --data {} --mount {}", &[&new, &none]).fails(1, &[none.to_str().expect("text")]);
        assert!(!new.exists(), "nothing is made before the mount point is looked at");
    }
    let server = Service::start("serve --data {}", &[&place.data()]);
    loligo("mount --data {} {} --nonempty", &[&place.data(), place.dir.path()])
        .fails(2, &["cover its own data directory"]);
    assert_eq!(server.stop().0, 0);
}

#[test]
fn a_place_where_nothing_of_ours_is_mounted() {
    let place = Place::new();
    loligo("umount {}", &[place.dir.path()]).fails(1, &["is no mount point", "findmnt"]);
    loligo("merge {}", &[place.dir.path()]).fails(1, &["is not inside a Loligo mount", "loligo merge FILE --data"]);
    loligo("umount /proc", &[]).fails(1, &["/proc is a mount of proc", "not of Loligo"]);
    loligo("umount {}", &[&place.path("none/at/all")]).fails(1, &["none/at/all"]);
}

#[test]
fn a_mount_point_in_use() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    let up = Service::start("up --data {} --mount {}", &[&data, &mount]);
    let other = place.path("other");
    loligo("up --data {} --mount {}", &[&other, &mount]).fails(1, &["mnt is in use", "unmount it"]);
    loligo("mount --data {} {}", &[&data, &mount]).fails(1, &["mnt is in use"]);
    loligo("up --data {} --mount /proc", &[&other]).fails(1, &["/proc is in use"]);
    std::fs::create_dir(place.path("full")).expect("a directory");
    std::fs::write(place.path("full/x"), "").expect("a file");
    loligo("up --data {} --mount {}", &[&other, &place.path("full")]).fails(1, &["full is not empty", "--nonempty"]);
    loligo("up --data {} --mount {}", &[&other, &place.path("full/x")]).fails(1, &["full/x"]);
    sh("echo x > $D/x; cat $D/x", &mount).ok();
    assert_eq!(up.stop().0, 0);
}

#[test]
fn a_mount_that_somebody_uses_is_not_taken_away_unless_told_to() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let mount = place.mount();
    let up = Service::start("up --data {} --mount {}", &[&place.data(), &mount]);
    let ran = sh(
        &format!(
            "echo x > $D/x; exec 3< $D/x; timeout 20 {} umount $D && exit 9; timeout 20 {} umount --lazy $D",
            super::run::LOLIGO,
            super::run::LOLIGO
        ),
        &mount,
    );
    ran.fails(0, &["mnt is in use", "fuser -vm", "--lazy"]);
    assert_eq!(up.ended().0, 0);
    assert!(super::run::fuse_mounts(Path::new(&mount)).is_empty());
}
