//! File data that is damaged, as users are told of it: the file by its path, in the status and health of a server, in its log, by `fsck` and
//! `store check`; and the way from an inode's number to its path. A table that has lost the end of its log, and files of a data directory that are
//! missing, as every command meets them. Not here: how damage is found, which is the store's.

use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::run::{LOLIGO, Place, Service, can_mount, loligo, loligo_at, until};

const LEN: usize = 300_000;

/// Spoils all objects of a data directory.
fn spoil(data: &Path) -> usize {
    let (mut dirs, mut spoiled) = (vec![data.join("objects")], 0);
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).expect("a directory").flatten() {
            let meta = entry.metadata().expect("attributes");
            if meta.is_dir() {
                dirs.push(entry.path());
            } else if meta.len() > LEN as u64 {
                let file = std::fs::File::options().write(true).open(entry.path()).expect("the object");
                file.write_all_at(b"damage", meta.len() - 1000).expect("written");
                spoiled += 1;
            }
        }
    }
    spoiled
}

fn served(place: &Place, at: &Path) -> (Service, Service) {
    std::fs::create_dir_all(at).expect("a directory");
    let server = Service::start("serve --data {} --admin off", &[&place.data()]);
    let mount = Service::start("mount --data {} {}", &[&place.data(), at]);
    (server, mount)
}

#[test]
fn a_damaged_file_is_named_by_its_path_until_it_is_written_anew() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, at) = (place.data(), place.mount());
    loligo("format --data {}", &[&data]).ok();
    let (server, mount) = served(&place, &at);
    let file = at.join("a/b/file");
    std::fs::create_dir_all(at.join("a/b")).expect("made");
    std::fs::write(&file, vec![7; LEN]).expect("written");
    let (inode, dir) =
        (std::fs::metadata(&file).expect("there").ino(), std::fs::metadata(at.join("a/b")).expect("there").ino());
    let ask = |what: &str| loligo(&format!("path {what} --data {{}}"), &[&data]);
    assert_eq!(ask(&format!("{inode} {dir} 1")).ok().out, "/a/b/file\n/a/b\n/\n");
    ask("999999").fails(1, &["inode 999999 has no path"]);
    assert_eq!((mount.stop().0, server.stop().0), (0, 0));
    // The same of one that is not served.
    assert_eq!(ask(&format!("{inode} {dir} 1")).ok().out, "/a/b/file\n/a/b\n/\n");
    let none = ask("999999 1 --json");
    assert_eq!(
        (none.code, none.json()),
        (1, serde_json::json!([{ "inode": 999_999, "path": null }, { "inode": 1, "path": "/" }]))
    );
    assert!(spoil(&data) > 0, "there is an object");
    let found = loligo("fsck --data {} --data-checksums", &[&data]).fails(3, &["problems found"]);
    assert!(found.out.contains(&format!("data of /a/b/file (inode {inode}): ")), "{}", found.out);
    let found = loligo("store check --data {}", &[&data]).fails(3, &[]);
    let said = found.out + &found.err;
    assert!(said.contains(&format!("loligo path {inode} --data {}", data.display())), "{said}");
    // Who reads it is told of an error, and the server is not well from then on.
    let (server, mount) = served(&place, &at);
    let status = || loligo("status --data {}", &[&data]).ok().out;
    assert!(!status().contains("damaged"), "nobody has read it: {}", status());
    assert_eq!(
        std::fs::read(&file).expect_err("it is damaged").raw_os_error(),
        Some(rustix::io::Errno::IO.raw_os_error())
    );
    let said = status();
    assert!(said.contains("damaged: the data of 1 file could not be read or written"), "{said}");
    assert!(said.contains(&format!("damaged: /a/b/file (inode {inode}), ")), "{said}");
    let json = loligo("status --data {} --json", &[&data]).ok().json();
    let one = &json["ranks"][0]["damaged"][0];
    assert_eq!((&json["health"], &one["inode"], &one["path"]), (&"damaged".into(), &inode.into(), &"/a/b/file".into()));
    assert!(json["ranks"][0]["data_errors"].as_u64() > Some(0), "{json}");
    until("the log says so", || server.log().contains(&format!("data of /a/b/file (inode {inode}): ")));
    // With the bytes goes the damage.
    std::fs::write(&file, "new").expect("written");
    until("it is well again", || {
        std::fs::File::open(&file).expect("there").sync_all().expect("durable");
        !status().contains("damaged")
    });
    assert_eq!((mount.stop().0, server.stop().0), (0, 0));
    loligo("fsck --data {} --data-checksums", &[&data]).ok();
}

#[test]
fn a_path_is_shown_to_those_alone_who_could_have_found_it() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, at) = (place.data(), place.mount());
    loligo("format --data {}", &[&data]).ok();
    let (server, mount) = served(&place, &at);
    std::fs::create_dir_all(at.join("a/secret/b")).expect("made");
    std::fs::write(at.join("a/file"), "").expect("written");
    std::fs::set_permissions(at.join("a/secret"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("set");
    let number = |path: &str| std::fs::metadata(at.join(path)).expect("there").ino();
    for path in [place.dir.path(), &data] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("set");
    }
    let socket: PathBuf = data.join("loligo.sock");
    std::fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("set");
    // The directories above the program that was built may not be theirs to search.
    let program = place.path("loligo");
    std::fs::copy(LOLIGO, &program).expect("copied");
    let as_other = |ino: u64| {
        let path = format!("path {ino} --server {{}}");
        let other = |command: &mut _| _ = std::os::unix::process::CommandExt::uid(command, 1000);
        loligo_at(&program, &path, &[&socket], other)
    };
    assert_eq!(as_other(number("a/secret")).ok().out, "/a/secret\n");
    as_other(number("a/secret/b")).fails(1, &["no path"]);
    as_other(number("a/file")).fails(1, &["no path"]);
    assert_eq!((mount.stop().0, server.stop().0), (0, 0));
}

/// Puts a data directory back as it was.
fn put_back(data: &Path, kept: &Path) {
    let _ = std::fs::remove_dir_all(data);
    assert!(std::process::Command::new("cp").arg("-a").args([kept, data]).status().expect("cp runs").success());
}

/// Cuts the logs of a table by so many bytes; `None`: removes them.
fn cut_logs(data: &Path, by: Option<u64>) {
    let files = std::fs::read_dir(data.join("table")).expect("a table").flatten().map(|entry| entry.path());
    let logs: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "log")).collect();
    assert!(!logs.is_empty());
    for log in logs {
        let len = log.metadata().expect("there").len();
        match by {
            Some(by) if len > by => {
                let file = std::fs::File::options().write(true).open(&log).expect("there");
                file.set_len(len - by).expect("cut");
            }
            Some(_) => {}
            None => std::fs::remove_file(&log).expect("removed"),
        }
    }
}

#[test]
fn an_identity_that_was_revoked_does_not_come_back_unsaid_with_the_end_of_the_table() {
    let place = Place::new();
    let (data, kept) = (place.data(), place.path("kept"));
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --admin off", &[&data]);
    loligo("auth add mallory --data {}", &[&data]).ok();
    loligo("auth revoke mallory --data {}", &[&data]).ok();
    server.kill();
    std::fs::rename(&data, &kept).expect("renamed");
    put_back(&data, &kept);
    loligo("store check --data {}", &[&data]).ok();
    loligo("fsck --data {}", &[&data]).ok();
    let words = "was durable up to change";
    for by in [Some(40), None] {
        put_back(&data, &kept);
        cut_logs(&data, by);
        let found = loligo("store check --data {}", &[&data]).fails(3, &["1 problems found"]);
        assert!(found.out.contains(words) && found.out.contains("removed or revoked"), "{}", found.out);
        loligo("fsck --data {}", &[&data]).fails(1, &[words, "loligo fsck --repair"]);
        let ran = loligo("serve --data {} --admin off", &[&data]);
        assert!(ran.code != 0 && ran.err.contains(words), "{}", ran.err);
        let ran = loligo("fsck --data {} --repair", &[&data]).ok();
        assert!(ran.out.contains("LOST : the end of the table was lost"), "{}", ran.out);
        assert!(ran.out.contains("loligo auth list") && ran.err.contains("found and mended"), "{}{}", ran.out, ran.err);
        loligo("store check --data {}", &[&data]).ok();
        loligo("fsck --data {}", &[&data]).ok();
        let server = Service::start("serve --data {} --admin off", &[&data]);
        // Without all of the log the identity was never made; without its end it is there again, which was said.
        let is_back = by.is_some();
        assert_eq!(loligo("auth list --data {}", &[&data]).ok().out.contains("mallory"), is_back);
        if is_back {
            loligo("auth revoke mallory --data {}", &[&data]).ok();
        }
        assert_eq!(server.stop().0, 0);
        loligo("store check --data {}", &[&data]).ok();
    }
}

#[test]
fn a_file_that_each_start_makes_is_missed_and_the_start_that_makes_it_anew_says_so() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    for name in ["marks", "buckets"] {
        assert_eq!(Service::start("serve --data {} --admin off", &[&data]).stop().0, 0);
        loligo("store check --data {}", &[&data]).ok();
        std::fs::remove_file(data.join(name)).expect("it was made");
        let found = loligo("store check --data {}", &[&data]).fails(3, &["1 problems found"]);
        assert!(found.out.contains(&format!("/{name}: the file is missing")), "{}", found.out);
        let (code, log) = Service::start("serve --data {} --admin off", &[&data]).stop();
        assert_eq!(code, 0);
        assert!(log.contains(&format!("/{name}: the file is missing")) && log.contains("it is made anew"), "{log}");
        loligo("store check --data {}", &[&data]).ok();
    }
}
