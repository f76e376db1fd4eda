//! Directories that get ranks of their own: over the commands, restarts, and a dump that is loaded elsewhere.

use std::collections::BTreeSet;
use std::sync::Arc;

use loligo_driver::Address;
use loligo_driver::client::{Call, Client, Fs, Options, Subtree, SubtreeOptions};
use loligo_types::{Answer, Cred, FsError, Op, Rank};

use super::run::{Place, Service, loligo};

fn connect(place: &Place) -> (Client, Fs) {
    let address = Address::Unix(place.data().join("loligo.sock"));
    let client = Client::connect(&address, Options { name: "test".into(), ..Options::default() }).expect("it serves");
    let fs = client.fs(Arc::new(Cred::root()));
    (client, fs)
}

/// Checks that a client finds the whole tree that [`make`] makes.
fn look(fs: &Fs) {
    for n in 0..40 {
        assert_eq!(fs.read(format!("/top/d{n}/f")).expect("it is there"), format!("file {n}").into_bytes());
        assert_eq!(fs.stat(format!("/top/d{n}/e")).expect("it is there").nlink, 2);
    }
    assert_eq!(fs.stat("/top").map(|attr| (attr.size, attr.nlink)), Ok((40, 42)));
}

/// Forty directories with a file and a directory each; the ranks that they are at.
fn make(fs: &Fs) -> BTreeSet<Option<Rank>> {
    let one = |n| {
        let dir = fs.mkdir(format!("/top/d{n}"), 0o755).expect("made");
        fs.write(format!("/top/d{n}/f"), format!("file {n}").into_bytes()).expect("written");
        fs.mkdir(format!("/top/d{n}/e"), 0o755).expect("made");
        dir.ino.zeroth_rank()
    };
    (0..40).map(one).collect()
}

#[test]
fn directories_below_one_that_is_placed_so_are_at_all_ranks_and_survive_restarts_dumps_and_ranks_that_go() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --ranks 3 --set balancer=none", &[&data]);
    let (client, fs) = connect(&place);
    fs.mkdir("/top", 0o755).expect("made");
    let told = |words: &str| loligo(&format!("subtree {words}"), &[&data]).ok().out;
    assert!(told("place --data {} /top giga").contains("rank of their own"));
    assert_eq!(make(&fs), (0..3).map(|rank| Some(Rank(rank))).collect());
    look(&fs);
    // Nothing of that is in the subtree map: the root has the only line.
    let lines = loligo("subtree list --data {} --json", &[&data]).ok().json();
    assert_eq!(lines.as_array().map(Vec::len), Some(1), "{lines}");
    let decoupled = Subtree::decouple(&fs, "/top", &SubtreeOptions::default()).err();
    assert_eq!(decoupled, Some(FsError::NotSupported), "nobody could be kept out of what is all ranks'");
    client.stop(std::time::Duration::from_secs(10)).expect("it ends");
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();

    let dump = place.dir.path().join("dump");
    std::fs::write(&dump, loligo("dump --data {}", &[&data]).ok().out).expect("written");
    let server = Service::start("serve --data {} --ranks 3 --set balancer=none", &[&data]);
    let (client, fs) = connect(&place);
    look(&fs);
    loligo("rank drain --data {} 1 --wait", &[&data]).ok();
    look(&fs);
    assert!(told("unplace --data {} /top").contains("with their names"));
    loligo("subtree unplace --data {} /top", &[&data]).fails(1, &["does not say"]);
    client.stop(std::time::Duration::from_secs(10)).expect("it ends");
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();

    // Elsewhere there is one rank at first.
    let other = Place::new();
    loligo("load --data {} {}", &[&other.data(), &dump]).ok();
    loligo("fsck --data {}", &[&other.data()]).ok();
    let server = Service::start("serve --data {} --ranks 1 --set balancer=none", &[&other.data()]);
    let (client, fs) = connect(&other);
    look(&fs);
    loligo("rank add --data {} 2", &[&other.data()]).ok();
    look(&fs);
    fs.mkdir("/top/d0/more", 0o755).expect("made");
    for n in 0..40 {
        fs.unlink(format!("/top/d{n}/f")).expect("it goes");
        fs.rmdir(format!("/top/d{n}/e")).expect("it goes");
    }
    client.stop(std::time::Duration::from_secs(10)).expect("it ends");
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&other.data()]).ok();
}

#[test]
fn lookup_leases_are_allowed_from_the_root_down_and_a_copy_of_the_file_system_has_them_too() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --ranks 2 --set balancer=none", &[&data]);
    let (client, fs) = connect(&place);
    fs.mkdir("/jobs", 0o755).expect("made");
    fs.mkdir("/jobs/top", 0o755).expect("made");
    let told = loligo("subtree lease --data {} /jobs/top 250ms", &[&data]).ok().out;
    assert!(told.contains("250 ms") && told.contains("2 directories above it"), "{told}");
    fs.mkdir("/jobs/top/new", 0o755).expect("made");
    let allowed = |fs: &Fs, path: &str| {
        let ino = fs.stat(path).expect("it is there").ino;
        let get = Op::GetXattr { ino, name: b"loligo.policy.lookup_lease"[..].into() };
        match fs.client().call(fs.cred(), Call::Op(get)).map(|done| done.answer) {
            Ok(Answer::Bytes(text)) => String::from_utf8_lossy(&text).into_owned(),
            other => panic!("{path}: {other:?}"),
        }
    };
    let all = |fs: &Fs| {
        for (path, text) in
            [("/", "250ms alone"), ("/jobs", "250ms alone"), ("/jobs/top", "250ms"), ("/jobs/top/new", "250ms")]
        {
            assert_eq!(allowed(fs, path), text, "{path}");
        }
    };
    all(&fs);
    loligo("subtree lease --data {} /jobs 2s", &[&data]).fails(2, &["1ms to 1000ms"]);
    let top = fs.stat("/jobs/top/new").expect("it is there").ino;
    assert!(fs.rename("/jobs/top/new", "/jobs/top/old").is_ok());
    assert_eq!(fs.stat("/jobs/top/old").map(|attr| attr.ino), Ok(top));
    fs.rename("/jobs/top/old", "/jobs/top/new").expect("renamed");
    client.stop(std::time::Duration::from_secs(10)).expect("it ends");
    assert_eq!(server.stop().0, 0);
    let dump = place.dir.path().join("dump");
    std::fs::write(&dump, loligo("dump --data {}", &[&data]).ok().out).expect("written");
    let other = Place::new();
    loligo("load --data {} {}", &[&other.data(), &dump]).ok();
    let server = Service::start("serve --data {} --set balancer=none", &[&other.data()]);
    let (client, fs) = connect(&other);
    all(&fs);
    loligo("subtree unlease --data {} /jobs", &[&other.data()]).ok();
    loligo("subtree unlease --data {} /jobs", &[&other.data()]).fails(1, &["allows no lookup leases"]);
    client.stop(std::time::Duration::from_secs(10)).expect("it ends");
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&other.data()]).ok();
}

#[test]
fn a_subtree_with_such_directories_further_below_is_decoupled_and_its_owner_finds_them() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --ranks 3 --set balancer=none", &[&data]);
    let (client, fs) = connect(&place);
    fs.mkdir("/plain", 0o755).expect("made");
    fs.mkdir("/plain/top", 0o755).expect("made");
    loligo("subtree place --data {} /plain/top giga", &[&data]).ok();
    for n in 0..10 {
        fs.mkdir(format!("/plain/top/d{n}"), 0o755).expect("made");
        fs.write(format!("/plain/top/d{n}/f"), b"old".to_vec()).expect("written");
    }
    let mut job = Subtree::decouple(&fs, "/plain", &SubtreeOptions::default()).expect("nobody uses it");
    for n in 0..10 {
        assert_eq!(&*job.read(format!("top/d{n}/f")).expect("it is there"), b"old");
        job.write(format!("top/d{n}/new"), b"new".to_vec()).expect("written");
        assert_eq!(fs.read(format!("/plain/top/d{n}/f")), Err(FsError::Busy), "d{n} is its owner's now");
    }
    job.merge().expect("his");
    job.recouple().expect("nothing is outstanding");
    for n in 0..10 {
        assert_eq!(fs.read(format!("/plain/top/d{n}/new")).expect("merged"), b"new");
    }
    client.stop(std::time::Duration::from_secs(10)).expect("it ends");
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}

#[test]
fn advice_on_placement_counts_what_is_done_below_the_directory_and_nothing_else() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --ranks 3 --set balancer=none", &[&data]);
    let (client, fs) = connect(&place);
    fs.mkdir("/top", 0o755).expect("made");
    fs.mkdir("/other", 0o755).expect("made");
    loligo("policy advise --data {} /top --seconds 1", &[&data])
        .fails(1, &["nothing was done below /top", "--seconds"]);
    loligo("subtree place --data {} /top giga", &[&data]).ok();
    make(&fs);
    for n in 0..2000 {
        fs.write(format!("/other/f{n}"), b"x".to_vec()).expect("written");
    }
    let told = loligo("policy advise --data {} /top --seconds 1 --json", &[&data]).ok().json();
    // Forty directories are made in the top, and one in each of them; one request of eight counts. One rank would have time for all that.
    let number = |of: &serde_json::Value| of.as_f64().unwrap_or_else(|| panic!("no number in {told}"));
    assert_eq!((&told["ranks"], &told["advice"]), (&3.into(), &"subtree".into()), "{told}");
    assert!((2..=81).contains(&told["directories"].as_u64().expect("so many")), "{told}");
    assert!(number(&told["dirs_made_per_s"]) > 0.0 && number(&told["dirs_changed_per_s"]) == 0.0, "{told}");
    assert!(number(&told["placements"]["giga"]["messages_per_operation"]) > 1.0, "{told}");
    assert!(told["advice_unchecked"].is_null(), "{told}");
    let of_all = loligo("policy advise --data {} / --seconds 1 --json", &[&data]).ok().json();
    let (here, all) = (number(&told["requests_per_s"]), number(&of_all["requests_per_s"]));
    assert!(all > 1.5 * here, "{all} in all, of that {here} below /top");
    let text = loligo("policy advise --data {} /top --seconds 1 --ranks 8", &[&data]).ok().out;
    for word in ["8 ranks", "% of what all ranks were asked", "subtree, as it is", "giga", "advice: "] {
        assert!(text.contains(word), "no {word} in {text}");
    }
    // What is asked by paths meanwhile.
    let told = std::thread::scope(|scope| {
        let (ended, until_ended) = std::sync::mpsc::channel::<()>();
        let fs = &fs;
        scope.spawn(move || {
            while until_ended.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                look(fs);
            }
        });
        let told = loligo("policy advise --data {} /top --seconds 1 --json", &[&data]);
        drop(ended);
        told.ok().json()
    });
    let share = told["paths_share"].as_f64().unwrap_or_else(|| panic!("no share in {told}"));
    assert!(share > 0.25 && share <= 1.0, "{told}");
    loligo("policy advise --data {} /top --ranks 0", &[&data]).fails(2, &["0 ranks"]);
    client.stop(std::time::Duration::from_secs(10)).expect("it ends");
    assert_eq!(server.stop().0, 0);
}

#[test]
fn directories_that_are_there_are_moved_to_where_they_would_have_been_made_and_back() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --ranks 3 --set balancer=none", &[&data]);
    let (client, fs) = connect(&place);
    fs.mkdir("/top", 0o755).expect("made");
    make(&fs);
    // By rank, how many lines of the subtree map there are below the top.
    let lines = || -> [usize; 3] {
        let told = loligo("subtree list --data {} --json", &[&data]).ok().json();
        let below = |line: &&serde_json::Value| line["path"].as_str().is_some_and(|path| path.starts_with("/top/"));
        let of = |rank: u64| told.as_array().expect("lines").iter().filter(below).filter(|l| l["rank"] == rank).count();
        [of(0), of(1), of(2)]
    };
    assert_eq!(lines(), [0, 0, 0], "all is where its name is");
    let told = loligo("subtree place --data {} /top giga --move", &[&data]).ok().out;
    assert!(told.contains("all 80 directories below /top are where they are to be"), "{told}");
    let spread = lines();
    assert!(spread[1] > 10 && spread[2] > 10, "{spread:?}");
    look(&fs);
    let told = loligo("subtree place --data {} /top giga --move", &[&data]).ok().out;
    assert!(told.contains("; 0 moved"), "they are there: {told}");
    // Some are removed, others made, while they are moved back.
    let told = std::thread::scope(|scope| {
        let moves = scope.spawn(|| loligo("subtree place --data {} /top subtree --move", &[&data]).ok().out);
        for n in 0..20 {
            fs.mkdir(format!("/top/new{n}"), 0o755).expect("made");
            fs.write(format!("/top/new{n}/f"), b"x".to_vec()).expect("written");
        }
        moves.join().expect("it ends")
    });
    assert!(told.contains("are where they are to be"), "{told}");
    let back = lines();
    assert_eq!(back[1] + back[2], 0, "{back:?}");
    for n in 0..20 {
        fs.unlink(format!("/top/new{n}/f")).expect("removed");
        fs.rmdir(format!("/top/new{n}")).expect("removed");
    }
    look(&fs);
    client.stop(std::time::Duration::from_secs(10)).expect("it ends");
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}
