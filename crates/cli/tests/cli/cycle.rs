//! Up, use, down, kill, up again: what was written is there.

use super::run::{Place, Service, can_mount, fuse_mounts, loligo, sh};

#[test]
fn files_survive_down_and_up() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.path("to/mnt"));
    let up = Service::start("up --data {} --mount {}", &[&data, &mount]);
    for word in ["mounted at", "loligo status", "Ctrl-C", "loligo down --data"] {
        assert!(up.welcome.contains(word), "{}", up.welcome);
    }
    sh("mkdir $D/d; echo hello > $D/d/a; ln $D/d/a $D/b; ln -s d/a $D/c; head -c 5000000 /dev/zero > $D/big", &mount)
        .ok();
    let told = loligo("down --data {}", &[&data]).ok().out;
    assert!(told.contains("stopped the server"), "{told}");
    let (code, log) = up.ended();
    assert_eq!(code, 0, "{log}");
    assert!(fuse_mounts(&mount).is_empty());
    assert!(std::fs::read_dir(&mount).expect("the mount point").next().is_none());
    let up = Service::start("up --data {} --mount {}", &[&data, &mount]);
    assert!(!up.welcome.contains("made a new"), "{}", up.welcome);
    let ran = sh("cat $D/c; stat -c %h $D/b; wc -c < $D/big; ls $D", &mount).ok();
    assert_eq!(ran.out, "hello\n2\n5000000\nb\nbig\nc\nd\n");
    assert_eq!(up.stop().0, 0);
    loligo("fsck --data {} --data-checksums", &[&data]).ok();
}

#[test]
fn up_works_at_once_after_kill_9_and_everything_synced_is_there() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    let mut up = Service::start("up --data {} --mount {}", &[&data, &mount]);
    for round in 0..3 {
        sh(&format!("for i in $(seq 50); do echo {round} > $D/f{round}.$i; done; sync $D/f{round}.50"), &mount).ok();
        up.kill();
        up = Service::start("up --data {} --mount {}", &[&data, &mount]);
        let ran = sh("ls $D | wc -l; cat $D/f*.1 | tr '\\n' ' '", &mount).ok();
        let seen: String = (0..=round).map(|n| format!("{n} ")).collect();
        assert_eq!(ran.out, format!("{}\n{seen}", 50 * (round + 1)));
    }
    assert_eq!(fuse_mounts(&mount).len(), 1, "dead mounts are taken away");
    assert_eq!(up.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn a_daemon_is_ready_when_the_command_returns_and_its_errors_show() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    let told = loligo("up --daemon --data {} --mount {}", &[&data, &mount]).ok().out;
    assert!(told.contains("mounted at") && told.contains("loligo down --data"), "{told}");
    sh("echo here > $D/x; cat $D/x", &mount).ok();
    loligo("up --daemon --data {} --mount {}", &[&data, &place.path("m2")]).fails(1, &["is served already", "mnt"]);
    let again = loligo("serve --daemon --data {}", &[&data]);
    again.fails(1, &["in use by another server", "loligo.log"]);
    loligo("down --data {}", &[&data]).ok();
    assert!(fuse_mounts(&mount).is_empty());
    assert!(std::fs::read_to_string(data.join("loligo.log")).expect("a log").contains("SIGTERM"));
}

#[test]
fn unmounting_ends_what_had_mounted() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount, second) = (place.data(), place.mount(), place.path("second"));
    let up = Service::start("up --data {} --mount {}", &[&data, &mount]);
    let other = Service::start("mount --data {} {}", &[&data, &second]);
    sh("echo one > $D/x", &mount).ok();
    assert_eq!(sh("cat $D/x; echo two > $D/x", &second).ok().out, "one\n");
    assert_eq!(sh("cat $D/x", &mount).ok().out, "two\n");
    let told = loligo("umount {}", &[&second]).ok().err;
    assert_eq!((told.as_str(), other.ended().0), ("", 0));
    let told = loligo("umount {}", &[&mount]).ok().err;
    assert!(told.contains("stops now that it is unmounted") && told.contains("loligo serve --data"), "{told}");
    assert_eq!(up.ended().0, 0);
    loligo("status --data {}", &[&data]).fails(1, &["no server runs on"]);
}

#[test]
fn umount_returns_when_the_process_of_the_mount_has_ended() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {}", &[&data]);
    let mounts = || {
        let status = loligo("status --json --data {}", &[&data]).ok().json();
        let sessions = status["sessions"].as_array().expect("a list").clone();
        sessions.iter().filter(|one| one["name"].as_str().is_some_and(|name| name.starts_with("mount "))).count()
    };
    for round in 0..5 {
        loligo("mount --daemon --data {} {}", &[&data, &mount]).ok();
        sh(&format!("echo {round} > $D/x"), &mount).ok();
        assert_eq!(mounts(), 1);
        loligo("umount {}", &[&mount]).ok();
        assert_eq!(mounts(), 0, "it has said goodbye");
    }
    assert_eq!(server.stop().0, 0);
    // That of `up` ends its server, too: nobody has the data directory any more.
    for _ in 0..5 {
        loligo("up --daemon --data {} --mount {}", &[&data, &mount]).ok();
        assert_eq!(sh("cat $D/x", &mount).ok().out, "4\n");
        loligo("umount {}", &[&mount]).ok();
        loligo("down --data {}", &[&data]).fails(1, &["no server runs on"]);
        loligo("fsck --data {}", &[&data]).ok();
    }
}

#[test]
fn down_after_another_program_has_unmounted_waits_for_the_goodbye() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    loligo("format --data {}", &[&data]).ok();
    for round in 0..5 {
        loligo("serve --daemon --data {}", &[&data]).ok();
        loligo("mount --daemon --data {} {}", &[&data, &mount]).ok();
        sh(&format!("echo {round} > $D/x; umount $D"), &mount).ok();
        loligo("down --data {}", &[&data]).ok();
        let server = Service::start("serve --data {}", &[&data]);
        let ranks = loligo("status --json --data {}", &[&data]).ok().json();
        assert_eq!(ranks["health"], "serving", "there is nobody to wait for: {ranks:#}");
        assert_eq!(server.stop().0, 0);
    }
}

#[test]
fn down_names_the_mounts_that_go_on_without_the_server() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount, other) = (place.data(), place.mount(), place.path("other"));
    loligo("up --daemon --data {} --mount {}", &[&data, &mount]).ok();
    let second = Service::start("mount --data {} {}", &[&data, &other]);
    sh("echo here > $D/x", &other).ok();
    let told = loligo("down --data {}", &[&data]).ok().err;
    assert!(told.contains("without the server of") && told.contains("wait until a server runs again"), "{told}");
    assert!(told.contains(&format!("mount {} of ", other.display())), "{told}");
    assert!(!told.contains(&format!("mount {}", mount.display())), "its own ends with it: {told}");
    // With nobody left there is nothing to say.
    loligo("up --daemon --data {} --mount {}", &[&data, &mount]).ok();
    assert_eq!(sh("cat $D/x", &other).ok().out, "here\n");
    assert_eq!(second.stop().0, 0);
    let told = loligo("down --data {}", &[&data]).ok().err;
    assert!(!told.contains("without the server"), "{told}");
}

#[test]
fn a_mount_over_tcp_and_read_only() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --listen 127.0.0.1:0 --set trust_tcp=true", &[&data]);
    let at =
        server.welcome.split("tcp:").nth(1).and_then(|rest| rest.split(',').next()).expect("a TCP address").to_string();
    let mounted = Service::start(&format!("mount --server {at} --read-only {{}}"), &[&mount]);
    assert_eq!(sh("ls $D | wc -l", &mount).ok().out, "0\n");
    assert_ne!(sh("echo x > $D/x", &mount).code, 0);
    assert_eq!(mounted.stop().0, 0);
    assert_eq!(server.stop().0, 0);
    // Nobody is let in by his word alone.
    let server = Service::start(&format!("serve --data {{}} --listen {at}"), &[&data]);
    loligo(&format!("mount --server {at} {{}}"), &[&mount]).fails(1, &["refuses", "without an identity", "--identity"]);
    assert_eq!(server.stop().0, 0);
}
