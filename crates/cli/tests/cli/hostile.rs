//! A machine that is against the user: no room, no files, names that nobody expects, files that were damaged.

use std::path::Path;

use super::run::{LOLIGO, Place, Service, apart, can_mount, fuse_mounts, loligo, sh};

#[test]
fn a_full_disk_is_said_to_be_full_and_what_was_cut_off_is_finished_later() {
    let place = Place::new();
    let script = "
        run() { timeout 60 \"$@\" 2>&1 && echo done || echo \"code $?\"; }
        mkdir $D/small && mount -t tmpfs -o size=8k none $D/small
        run $L format --data $D/small/data
        run $L up --data $D/small/data --mount $D/mnt --daemon
        echo ---; mount -o remount,size=64m $D/small
        if [ -w /dev/fuse ]; then
            trap 'timeout 20 $L down --data $D/small/data >/dev/null 2>&1 || true' EXIT
            run $L up --data $D/small/data --mount $D/mnt --daemon
            echo here >$D/mnt/x; cat $D/mnt/x
            run $L down --data $D/small/data
        else
            run $L format --data $D/small/data
        fi
        run $L fsck --data $D/small/data";
    let Some(ran) = apart(script, place.dir.path()) else { return };
    let ran = ran.ok();
    let (small, large) = ran.out.split_once("---").expect("both parts");
    assert_eq!((small.matches("no space left").count(), small.matches("code 1\n").count()), (2, 2), "{small}");
    assert!(large.contains("is sound") && !large.contains("code "), "{large}");
}

#[test]
fn a_disk_that_runs_full_gives_enospc_and_goes_on_when_there_is_room() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let script = "
        mkdir $D/small && mount -t tmpfs -o size=3m none $D/small
        trap 'timeout 20 $L down --data $D/small/data >/dev/null 2>&1 || true' EXIT
        timeout 60 $L up --data $D/small/data --mount $D/mnt --daemon >/dev/null
        echo kept >$D/mnt/kept; sync $D/mnt/kept
        for i in $(seq 60); do timeout 60 head -c 100000 /dev/zero >$D/mnt/$i || { echo full; break; }; done
        timeout 60 cat $D/mnt/kept
        timeout 60 rm -f $D/mnt/[0-9]*
        tries=0; until (echo again >$D/mnt/again) 2>/dev/null; do tries=$((tries + 1)); [ $tries -lt 100 ]; sleep 0.1; done
        cat $D/mnt/again
        tries=0; until timeout 60 $L status --data $D/small/data | grep 'health *serving'; do tries=$((tries + 1)); [ $tries -lt 100 ]; sleep 0.1; done
        timeout 60 $L down --data $D/small/data >/dev/null";
    let Some(ran) = apart(script, place.dir.path()) else { return };
    let ran = ran.ok();
    assert_eq!(ran.out, "full\nkept\nagain\nhealth       serving\n", "{}", ran.err);
    assert!(ran.err.contains("No space left on device"), "{}", ran.err);
}

#[test]
fn a_read_only_disk_is_named_as_the_cause_also_in_the_background() {
    let place = Place::new();
    let script = "
        run() { timeout 60 \"$@\" 2>&1 && echo done || echo \"code $?\"; }
        mkdir $D/disk && mount -t tmpfs -o size=300m none $D/disk
        $L format --data $D/disk/data >/dev/null
        mount -o remount,ro $D/disk
        run $L serve --data $D/disk/data
        run $L serve --daemon --data $D/disk/data
        if [ -w /dev/fuse ]; then run $L up --daemon --data $D/disk/data --mount $D/mnt; else run $L serve --daemon --data $D/disk/data; fi
        echo ---; run $L format --data $D/disk/new
        mount -o remount,rw $D/disk; run $L fsck --data $D/disk/data";
    let Some(ran) = apart(script, place.dir.path()) else { return };
    let ran = ran.ok();
    let (served, rest) = ran.out.split_once("---").expect("both parts");
    for words in ["mounted read-only", "mount the disk read-write", "code 1\n"] {
        assert_eq!(served.matches(words).count(), 3, "{words}: {served}");
    }
    assert!(!served.contains("writable for this user") && !served.contains("without --daemon"), "{served}");
    assert!(rest.contains("name one on a disk that is mounted read-write") && rest.contains("is sound"), "{rest}");
}

#[test]
fn too_few_files_are_told_before_anything_is_made() {
    let place = Place::new();
    let limited = |words: &str| sh(&format!("ulimit -n 20; timeout 60 {LOLIGO} {words}"), place.dir.path());
    loligo("format --data {}", &[&place.data()]).ok();
    for words in [
        "serve --data $D/data",
        "serve --data $D/data --daemon",
        "up --data $D/new --mount $D/m",
        "up --data $D/new --mount $D/m --daemon",
    ] {
        limited(words).fails(1, &["may have 20 files open", "ulimit -n"]);
    }
    assert!(!place.path("new").exists() && !place.path("m").exists());
    limited("fsck --data $D/data").ok();
    limited("dump --data $D/data").ok();
    // What may be had is taken.
    let script =
        format!("ulimit -Sn 20; timeout 60 {LOLIGO} serve --data $D --daemon; timeout 60 {LOLIGO} down --data $D");
    sh(&script, &place.data()).ok();
}

#[test]
fn standard_input_and_output_may_be_closed() {
    let place = Place::new();
    loligo("format --data {}", &[&place.data()]).ok();
    for words in ["status", "dump", "fsck", "serve --daemon", "status", "down"] {
        let ran = sh(&format!("timeout 60 {LOLIGO} {words} --data $D <&- >&- && echo $?"), &place.data());
        assert!(ran.code == 0 || ran.err.contains("no server runs"), "{words}: {ran:?}");
        assert!(!ran.err.contains("panicked"), "{words}: {}", ran.err);
    }
}

#[test]
fn names_with_spaces_and_newlines_work_and_are_quoted_in_what_is_to_be_copied() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.path("my data\nit's"), place.path("a mount\n\\point"));
    // What is told to be copied is run as it stands.
    let script = "
        loligo() { timeout 60 $L \"$@\"; }
        loligo up --data \"$DATA\" --mount \"$MNT\" --daemon >/dev/null
        echo hello >\"$MNT/x\"
        loligo status \"$MNT/x\" | grep health; (cd \"$MNT\" && loligo status . | grep health)
        loligo umount \"$MNT\"; while [ -e \"$DATA/server.json\" ]; do sleep 0.05; done
        told=$(loligo status --data \"$DATA\" 2>&1 | sed -n 's/.*start one: //p')
        told=${told%%, or *}
        eval \"${told/% DIR/ \\\"$MNT\\\"} --daemon\" | sed -n 's/^  look *//p' >look
        eval \"$(cat look)\" | grep health
        cat \"$MNT/x\"
        loligo down --data \"$DATA\"";
    let mut bash = std::process::Command::new("timeout");
    bash.args(["-s", "KILL", "120", "bash", "-euc", script]).current_dir(place.dir.path());
    let ran = bash.env("L", LOLIGO).env("DATA", &data).env("MNT", &mount).output().expect("bash is there");
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}\n{err}");
    assert_eq!(out.matches("serving").count(), 3, "{out}\n{err}");
    assert!(out.contains("hello\nstopped the server"), "{out}");
    assert!(data.is_dir() && mount.is_dir());
}

#[test]
fn names_that_are_not_utf_8_are_refused_for_data_and_work_for_mounts() {
    let place = Place::new();
    let script = "
        trap 'timeout 20 $L down --data $D/data >/dev/null 2>&1 || true' EXIT
        odd=$(printf '%s/odd\\377' $D)
        for words in format 'fsck' 'serve' 'down'; do timeout 60 $L $words --data \"$odd\" 2>&1 || echo \"code $?\"; done
        [ ! -e \"$odd\" ]
        [ -w /dev/fuse ] || { echo no fuse; exit 0; }
        timeout 60 $L up --data $D/data --mount \"$odd\" --daemon >/dev/null
        echo hello >\"$odd/x\"
        timeout 60 $L status \"$odd\" | grep health
        timeout 60 $L down --data $D/data
        ls \"$odd\" | wc -l";
    let Some(ran) = apart(script, place.dir.path()) else { return };
    let ran = ran.ok();
    assert_eq!(ran.out.matches("the path is not UTF-8").count(), 3, "{}", ran.out);
    assert_eq!(ran.out.matches("code 2\n").count(), 3, "{}", ran.out);
    assert!(ran.out.contains("no fuse") || ran.out.contains("serving"), "{}", ran.out);
}

#[test]
fn places_where_no_data_can_be() {
    let place = Place::new();
    std::fs::write(place.path("file"), "").expect("a file");
    loligo("format --data {}", &[&place.path("file")]).fails(1, &["file: this is no directory", "name a directory"]);
    for dir in ["file/below", "file/far/below"] {
        loligo("format --data {}", &[&place.path(dir)]).fails(1, &["data directory", dir]);
    }
    loligo("format --data /proc/loligo", &[]).fails(1, &["/proc/loligo cannot be made", "may write to"]);
    for words in ["fsck --data {}", "dump --data {}", "journal inspect --data {}", "status --data {}", "down --data {}"]
    {
        loligo(words, &[&place.path("file")]).fails(1, &["file"]);
    }
    loligo("load --data {} {}", &[&place.data(), place.dir.path()]).fails(1, &["directory"]);
    loligo("load --data {} /dev/zero", &[&place.data()]).fails(1, &["too long for a dump"]);
    assert!(!place.data().exists());
}

#[test]
fn what_a_server_tells_of_itself_may_be_damaged() {
    let place = Place::new();
    let (data, told) = (place.data(), place.path("data/server.json"));
    loligo("format --data {}", &[&data]).ok();
    for text in ["", "{\"pid\": 1", "nonsense"] {
        std::fs::write(&told, text).expect("a file");
        for words in ["status --data {}", "down --data {}", "mount --data {} /no/such/mount"] {
            loligo(words, &[&data]).fails(1, &["server.json", "loligo up"]);
        }
        assert_eq!(Service::start("serve --data {}", &[&data]).stop().0, 0);
    }
    // Where it cannot be written nobody could find the server, so none is left, and no mount.
    std::fs::create_dir(&told).expect("a directory");
    loligo("serve --data {}", &[&data]).fails(1, &["server.json"]);
    if can_mount() {
        for words in ["up --data {} --mount {}", "up --data {} --mount {} --daemon"] {
            loligo(words, &[&data, &place.mount()]).fails(1, &["server.json"]);
            assert!(fuse_mounts(&place.mount()).is_empty(), "{words}");
        }
    }
    std::fs::remove_dir(&told).expect("removed");
    loligo("fsck --data {}", &[&data]).ok();
}

/// Each file of a data directory, cut to nothing, cut in half, replaced by noise or by a directory, or taken away:
/// whatever is said, it is said in words.
#[test]
fn damaged_files_of_a_data_directory_are_told_and_never_panic() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --set inline_max=1KiB", &[&data]);
    loligo("bench md --data {} --clients 1 --files 10 --phases smallwrite --keep", &[&data]).ok();
    assert_eq!(server.stop().0, 0);
    let server = Service::start("serve --data {}", &[&data]);
    loligo("bench md --data {} --clients 1 --files 40 --phases create --keep", &[&data]).ok();
    server.kill();
    let (mut files, mut dirs) = (Vec::new(), vec![data.clone()]);
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).expect("a directory").flatten() {
            let of = if entry.path().is_dir() { &mut dirs } else { &mut files };
            of.push(entry.path());
        }
    }
    files.retain(|file| file.is_file());
    assert!(files.len() > 8, "{files:?}");
    let next = std::sync::atomic::AtomicUsize::new(0);
    // Mostly waiting for the disk.
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (files, next, data, copy) = (&files, &next, &data, place.path(&format!("copy{worker}")));
            scope.spawn(move || {
                while let Some(file) = files.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    for how in ["empty", "half", "noise", "dir", "gone"] {
                        let script = format!("rm -rf $D; cp -a {} $D", data.display());
                        sh(&script, &copy).ok();
                        let inside = file.strip_prefix(data).expect("a file in it");
                        damage(&copy.join(inside), how);
                        is_told(&copy, &format!("{how} {}", inside.display()));
                    }
                }
            });
        }
    });
}

fn damage(file: &Path, how: &str) {
    let len = file.metadata().expect("a file").len();
    match how {
        "empty" => std::fs::write(file, "").expect("written"),
        "half" => std::fs::File::options().write(true).open(file).and_then(|f| f.set_len(len / 2)).expect("cut"),
        "noise" => std::fs::write(file, (0..len).map(|i| (i * 131 % 251) as u8).collect::<Vec<_>>()).expect("written"),
        _ => std::fs::remove_file(file).expect("removed"),
    }
    if how == "dir" {
        std::fs::create_dir(file).expect("made");
    }
}

fn is_told(data: &Path, what: &str) {
    let check = "fsck --data {} --data-checksums --quiet";
    for words in [check, "journal inspect --data {}", "serve --data {} --daemon", "down --data {}"] {
        let ran = loligo(words, &[data]);
        assert!([0, 1, 3].contains(&ran.code), "{words}, {what}: {ran:?}");
        assert!(ran.code == 0 || ran.err.len() > 20, "{words}, {what}: {ran:?}");
        assert!(!ran.err.contains("panicked"), "{words}, {what}: {}", ran.err);
    }
}
