//! Ranks of one file system in two processes, which are killed: nothing that was acknowledged is lost, and programs on a
//! mount only wait.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use loligo_driver::client::{Client, Options};
use loligo_types::Cred;

use super::run::{PATIENCE, Place, Service, can_mount, loligo, sh, until};

fn owner(data: &Path) -> Service {
    Service::start("serve --data {} --ranks 4 --elsewhere 2,3 --set balancer=none", &[data])
}

fn join(data: &Path) -> Service {
    // An owner that was just killed, or has not seen yet that the process before is gone, is no reason to fail.
    until("a process can join", || !data.join("join.sock").exists() || may_join(data));
    Service::start("serve --data {} --join 2,3", &[data])
}

/// True if nobody runs the ranks any more.
fn may_join(data: &Path) -> bool {
    let socket = data.join("loligo-2.sock");
    std::os::unix::net::UnixStream::connect(socket).is_err()
}

/// Pins a new directory, and waits until its rank makes what is in it.
fn directory_of(root: &Path, rank: u64) {
    let dir = root.join(format!("d{rank}"));
    fs::create_dir(&dir).expect("made");
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&dir, "loligo.policy.pin", rank.to_string().as_bytes(), flags).expect("pinned");
    let mut tries = 0;
    until("its rank has it", || {
        tries += 1;
        let probe = dir.join(format!("probe{tries}"));
        fs::write(&probe, "").expect("written");
        fs::metadata(probe).expect("there").ino() >> 48 == rank
    });
}

#[test]
fn two_processes_serve_a_mount_and_either_may_be_killed() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, mount) = (place.data(), place.mount());
    loligo("format --data {}", &[&data]).ok();
    let (first, second) = (owner(&data), join(&data));
    fs::create_dir(&mount).expect("made");
    let mounted = Service::start("mount --data {} {}", &[&data, &mount]);
    (0..4).for_each(|rank| directory_of(&mount, rank));
    let work = "cd $D; for d in 0 1 2 3; do mkdir d$d/sub; for n in $(seq 20); do echo $d.$n > d$d/f$n; done; \
                dd if=/dev/zero of=d$d/large bs=1M count=3 conv=fsync 2>/dev/null; ln d$d/f1 d$d/sub/link; done; \
                mv d0/f2 d2/from0; mv d2/f2 d1/from2; mv d3/f2 d2/from3; mv d1/sub d3/sub1; mv d2/sub d0/sub2; \
                ln d3/f3 d0/link3; rm d2/f4; rm -r d3/sub; tar cf d2/tar d1 d3; tar xf d2/tar -C d3; sync";
    sh(work, &mount).ok();
    let check = "cd $D; test $(cat d2/from0) = 0.2; test $(cat d1/from2) = 2.2; test $(cat d2/from3) = 3.2; \
                 test $(cat d3/sub1/link) = 1.1; test $(cat d0/sub2/link) = 2.1; test $(cat d0/link3) = 3.3; \
                 test ! -e d2/f4; test ! -e d3/sub; test $(stat -c %s d3/large) = 3145728; test $(stat -c %h d3/f3) = 2; \
                 for n in $(seq 5 20); do for d in 0 1 2 3; do test $(cat d$d/f$n) = $d.$n; done; done; \
                 test $(cat d3/d1/f7) = 1.7";
    sh(check, &mount).ok();

    // The process that joined is killed: the owner's ranks go on, and what the others have is waited for.
    second.kill();
    sh("echo on > $D/d0/on; mkdir $D/d1/on", &mount).ok();
    let waiting = {
        let mount = mount.clone();
        std::thread::spawn(move || sh("cd $D; echo waited > d2/waited; mv d2/waited d0/waited; cat d0/waited", &mount))
    };
    let second = join(&data);
    assert_eq!(waiting.join().expect("no panic").ok().out, "waited\n");
    sh(check, &mount).ok();
    sh("cd $D; for d in 0 1 2 3; do echo later > d$d/later; done; sync", &mount).ok();

    // The owner is killed: the other one says so and ends, and both come back.
    first.kill();
    let (code, log) = second.ended();
    assert_eq!(code, 1, "{log}");
    assert!(log.contains("the server that owns the data directory is gone"), "{log}");
    let (first, second) = (owner(&data), join(&data));
    sh(check, &mount).ok();
    sh(
        "cd $D; for d in 0 1 2 3; do test $(cat d$d/later) = later; mv d$d/later d$(( (d + 2) % 4 ))/moved; done",
        &mount,
    )
    .ok();
    assert_eq!(mounted.stop().0, 0);
    assert_eq!(first.stop().0, 0);
    let (code, log) = second.ended();
    assert_eq!(code, 0, "{log}");
    loligo("fsck --data {}", &[&data]).ok();
    // One process may run all of them again.
    let all = Service::start("serve --data {}", &[&data]);
    assert_eq!(loligo("rank list --data {} --json", &[&data]).ok().json().as_array().map(Vec::len), Some(4));
    assert_eq!(all.stop().0, 0);
}

#[test]
fn who_cannot_join_is_told_what_to_do() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    loligo("serve --data {} --join 2", &[&data]).fails(1, &["--elsewhere"]);
    loligo("serve --data {} --join 2 --ranks 3", &[&data]).fails(2, &["--ranks"]);
    loligo("serve --data {} --ranks 2 --elsewhere 0", &[&data]).fails(1, &["rank 0"]);
    loligo("serve --data {} --ranks 2 --elsewhere 5", &[&data]).fails(1, &["there are: 0, 1"]);
    let server = Service::start("serve --data {} --ranks 3 --elsewhere 2 --set balancer=none", &[&data]);
    loligo("serve --data {} --join 1", &[&data]).fails(1, &["the server itself runs rank 1"]);
    let joined = Service::start("serve --data {} --join 2", &[&data]);
    loligo("serve --data {} --join 2", &[&data]).fails(1, &["stop that one first"]);
    let list = loligo("rank list --server {} --json", &[&data.join("admin-2.sock")]).ok().json();
    assert_eq!(list[0]["rank"], 2);
    // It stops alone, and may come again.
    let (code, log) = joined.stop();
    assert_eq!(code, 0, "{log}");
    let joined = join_again(&data);
    assert_eq!(server.stop().0, 0);
    let (code, log) = joined.ended();
    assert_eq!(code, 0, "{log}");
}

#[test]
fn a_drain_that_waits_for_a_process_that_is_gone_says_so() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --ranks 3 --elsewhere 2 --set balancer=none", &[&data]);
    let joined = join_again(&data);
    // Rank 1 answers, so it has heard of rank 2: before that it would wait for it, and not say anything of a drain.
    let client = Client::connect(&loligo_driver::socket_in(&data), Options::default()).expect("a connection");
    let fs = client.fs(Arc::new(Cred::root()));
    fs.mkdir("/a", 0o755).expect("made");
    for to in [1, 0] {
        loligo(&format!("subtree migrate --data {{}} /a {to}"), &[&data]).ok();
        fs.stat("/a").expect("it is there");
    }
    client.stop(PATIENCE).expect("it stops");
    joined.kill();
    loligo("rank drain 1 --data {}", &[&data]).ok();
    let why = "there is no connection to rank 2";
    until("the reason is shown", || {
        ["rank list --data {}", "status --data {}", "rank list --data {} --json"]
            .iter()
            .all(|words| loligo(words, &[&data]).ok().out.contains(why))
    });
    let joined = join_again(&data);
    // The drain goes on by itself, and may be at its end when it is asked for again.
    let again = loligo("rank drain 1 --wait --data {}", &[&data]);
    assert!(again.out.contains("removed") || again.err.contains("there is no rank 1"), "{again:?}");
    assert_eq!(loligo("rank list --data {} --json", &[&data]).ok().json().as_array().map(Vec::len), Some(2));
    assert_eq!(server.stop().0, 0);
    let (code, log) = joined.ended();
    assert_eq!(code, 0, "{log}");
}

#[test]
fn one_question_at_the_server_tells_of_all_ranks_and_orders_reach_them() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --ranks 3 --elsewhere 2 --set balancer=none", &[&data]);
    let joined = join_again(&data);
    let ranks = || loligo("rank list --data {} --json", &[&data]).ok().json();
    until("all ranks are listed", || ranks().as_array().map(Vec::len) == Some(3));
    assert_eq!((&ranks()[2]["rank"], &ranks()[2]["state"]), (&2.into(), &"serving".into()));
    let client = Client::connect(&loligo_driver::socket_in(&data), Options::default()).expect("a connection");
    let fs = client.fs(Arc::new(Cred::root()));
    fs.mkdir("/a", 0o755).expect("made");
    fs.write("/a/file", *b"content").expect("written");
    for to in [2, 1, 2] {
        let done = loligo(&format!("subtree migrate --data {{}} /a {to} --json"), &[&data]).ok().json();
        assert_eq!((&done["to"], &done["state"]), (&to.into(), &"done".into()));
    }
    let lines = loligo("subtree list --data {} --json", &[&data]).ok().json();
    let line = lines.as_array().and_then(|all| all.iter().find(|line| line["path"] == "/a"));
    assert_eq!(line.map(|line| &line["rank"]), Some(&2.into()), "{lines}");
    client.stop(PATIENCE).expect("it stops");
    // Drained from here; its process has nothing to do any more, and ends.
    loligo("rank drain 2 --data {} --wait", &[&data]).ok();
    let (code, log) = joined.ended();
    assert_eq!(code, 0, "{log}");
    assert_eq!(ranks().as_array().map(Vec::len), Some(2));
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}

fn join_again(data: &Path) -> Service {
    Service::start("serve --data {} --join 2", &[data])
}
