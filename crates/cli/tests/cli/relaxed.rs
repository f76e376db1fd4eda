//! Directories with the policy `relaxed` as programs meet them: their server is killed, with SIGKILL, while they work there through a mount of its
//! own. Not here: crashes between any two operations, which are the metadata server's tests (`crates/mds/src/tests/relaxed.rs`).

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::run::{Place, Service, can_mount, loligo, until};

fn serve(place: &Place, ranks: u16) -> Service {
    let ranks = ranks.to_string();
    let settings = "serve --data {} --ranks {} --set session_ms=5000 --set grace_ms=2000";
    Service::start(settings, &[&place.data(), Path::new(&ranks)])
}

/// Makes `f0`, `f1`, ..., each of which gets its last name when the next one is there; how many were acknowledged, with both names.
fn work(dir: &Path, acknowledged: &AtomicUsize, ends: &AtomicBool) {
    for number in 0.. {
        if ends.load(Ordering::Relaxed) || File::create(dir.join(format!("f{number}"))).is_err() {
            return;
        }
        if number > 0 {
            let (from, to) = (format!("f{}", number - 1), format!("g{}", number - 1));
            if std::fs::rename(dir.join(from), dir.join(to)).is_err() {
                return;
            }
        }
        acknowledged.store(number + 1, Ordering::Relaxed);
    }
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

/// Number of files that have their last name. Checks that nothing else is there but one file, or two, and the results of the call that
/// was sent again after the crash and of the one after it: the program goes on.
fn whole(dir: &Path, sent_last: usize) -> usize {
    let mut found = names(dir);
    let renamed = (0..).take_while(|number| found.remove(&format!("g{number}"))).count();
    for number in [renamed, renamed + 1] {
        found.remove(&format!("f{number}"));
    }
    for number in sent_last.saturating_sub(2)..=sent_last + 1 {
        found.remove(&format!("f{number}"));
        found.remove(&format!("g{number}"));
    }
    assert_eq!(found, BTreeSet::new(), "beside {renamed} whole ones in {}", dir.display());
    renamed
}

#[test]
fn a_killed_server_leaves_a_relaxed_directory_as_it_was_at_one_moment_and_a_strict_one_whole() {
    kills(1, 4);
}

#[test]
fn a_killed_server_of_several_ranks_leaves_the_relaxed_directories_of_each_as_they_were_at_one_moment() {
    kills(3, 3);
}

/// The server is killed so often. The directories of a round are one rank's.
fn kills(ranks: u16, rounds: u16) {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    loligo("format --data {}", &[&place.data()]).ok();
    let mut server = Some(serve(&place, ranks));
    let at = place.path("mnt");
    std::fs::create_dir_all(&at).expect("a directory");
    let mount = Service::start("mount --server {} {}", &[&place.data(), &at]);
    for round in 0..rounds {
        let (relaxed, strict) = (at.join(format!("relaxed{round}")), at.join(format!("strict{round}")));
        for dir in [&relaxed, &strict] {
            std::fs::create_dir(dir).expect("made");
        }
        loligo("policy set {} relaxed", &[&relaxed]).ok();
        let rank = (ranks - 1 - round % ranks).to_string();
        for dir in [&relaxed, &strict].into_iter().filter(|_| rank != "0") {
            loligo("subtree migrate {} {}", &[dir, Path::new(&rank)]).ok();
        }
        let (done, counts) = (AtomicBool::new(false), [AtomicUsize::new(0), AtomicUsize::new(0)]);
        std::thread::scope(|scope| {
            for (dir, count) in [&relaxed, &strict].into_iter().zip(&counts) {
                let done = &done;
                scope.spawn(move || work(dir, count, done));
            }
            until("they have worked for a while", || counts.iter().all(|count| count.load(Ordering::Relaxed) > 30));
            server.take().expect("it runs").kill();
            done.store(true, Ordering::Relaxed);
            server = Some(serve(&place, ranks));
        });
        let [early, sure] = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        let kept = whole(&relaxed, early);
        assert!(whole(&strict, sure) + 1 >= sure, "a strict directory lost something");
        // Who was told more than is there hears of it once.
        let sync = || File::open(&relaxed).expect("it is there").sync_all();
        let first = sync();
        let there =
            || names(&relaxed).into_iter().filter(|name| name[1..].parse::<usize>().is_ok_and(|at| at + 6 > kept));
        assert!(
            kept + 1 >= early || first.is_err(),
            "{kept} of {early} are there, and an fsync says that all is: {:?}",
            there().collect::<Vec<_>>()
        );
        assert!(sync().is_ok());
        // What is fsynced is there whoever dies then.
        File::create(relaxed.join("synced")).and_then(|file| file.sync_all()).expect("it is durable");
        server.take().expect("it runs").kill();
        server = Some(serve(&place, ranks));
        assert!(names(&relaxed).contains("synced"));
    }
    loligo("umount {}", &[&at]).ok();
    assert_eq!(mount.stop().0, 0);
    assert_eq!(server.take().expect("it runs").stop().0, 0);
    loligo("fsck --data {} --data-checksums", &[&place.data()]).ok();
}

#[test]
fn a_directory_is_relaxed_where_there_are_several_ranks_too_and_when_the_others_were_removed() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (data, at) = (place.data(), place.path("mnt"));
    let server = Service::start("up --data {} --mount {}", &[&data, &at]);
    let dir = at.join("relaxed");
    std::fs::create_dir(&dir).expect("made");
    loligo("policy set {} relaxed", &[&dir]).ok();
    let answers = || {
        let status = loligo("status --data {} --json", &[&data]).ok().json();
        status["ranks"][0]["relaxed_answers"].as_u64().expect("a number")
    };
    let works = |name: &str| {
        let before = answers();
        (0..20).for_each(|number| _ = File::create(dir.join(format!("{name}{number}"))).expect("made"));
        answers() > before
    };
    until("it is relaxed", || works("a"));
    loligo("rank add 1 --data {}", &[&data]).ok();
    until("it is relaxed with two ranks", || works("b"));
    loligo("rank drain 1 --wait --data {}", &[&data]).ok();
    until("it is relaxed again", || works("c"));
    assert_eq!(server.stop().0, 0);
}
