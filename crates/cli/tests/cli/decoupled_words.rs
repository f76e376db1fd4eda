//! Answers of the commands about decoupled directories: they say what is so at that moment, name the cause and the directory, and their remedies are
//! commands that help. Not here: what becomes of the changes (`owner.rs`, `readers.rs`, `allow.rs`, `cells.rs`).

use std::path::{Path, PathBuf};

use super::readers::{mounted, serve};
use super::run::{LOLIGO, Place, can_mount, loligo, sh, until};

fn has(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "no `{word}` in: {said}");
    }
}

fn has_not(said: &str, words: &[&str]) {
    for word in words {
        assert!(!said.contains(word), "`{word}` in: {said}");
    }
}

fn made(dir: PathBuf) -> PathBuf {
    std::fs::create_dir_all(&dir).expect("made");
    dir
}

#[test]
fn show_says_whether_a_directory_is_decoupled_now_and_with_what() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = serve(&place, 1);
    let (mount, other) = (mounted(&place, "mnt"), mounted(&place, "other"));
    let dir = made(place.path("mnt/job"));
    let show = |dir: &Path| loligo("policy show {}", &[dir]).ok().out;
    let has_first = |said: &str, words: &[&str]| has(said.lines().next().unwrap_or_default(), words);
    has_not(&show(&dir), &["decoupled by", "When"]);
    for (preset, words) in [
        ("batchfs", "When decoupled: The client that makes a change sees it at once"),
        ("deltafs", "others see it only after `loligo merge`. "),
        ("ramdisk", "loses it. A change is only in the memory of its client."),
    ] {
        loligo("policy set {} {}", &[&dir, Path::new(preset)]).ok();
        has(&show(&dir), &["\nNot decoupled now: behaves as posix. When decoupled: ", words]);
    }
    has_not(&show(&dir), &["Until the pipeline"]);
    loligo("policy unset {}", &[&dir]).ok();
    loligo("decouple {} --policy batchfs", &[&dir]).ok();
    let said = show(&dir);
    has_first(&said, &["Now decoupled by this mount with weak/local; see `loligo policy explain "]);
    has(&said, &["\nWhen it is given back: All clients see a change"]);
    let json = loligo("policy show {} --json", &[&dir]).ok().json();
    assert_eq!((&json["decoupled"]["this_mount"], &json["now"]["cell"]), (&true.into(), &"weak/local".into()));
    has_first(&show(&place.path("other/job")), &["Now decoupled by mount ", "(user 0); see"]);
    let far = loligo("policy show /job --data {}", &[&place.data()]).ok().out;
    has_first(&far, &["Now decoupled by mount ", "loligo policy explain /job --data "]);
    let explained = loligo("policy explain {}", &[&place.path("other/job")]).ok().out;
    has(&explained, &["decoupled by mount "]);
    has_not(&explained, &["who has it"]);
    loligo("recouple {}", &[&dir]).ok();
    has_not(&show(&dir), &["decoupled"]);
    assert_eq!((mount.stop().0, other.stop().0, server.stop().0), (0, 0, 0));
}

#[test]
fn a_merge_counts_changes_as_explain_does_and_a_number_is_said_once() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = serve(&place, 1);
    let mount = mounted(&place, "mnt");
    let dir = made(place.path("mnt/job"));
    let policy = place.path("read.toml");
    std::fs::write(&policy, "preset = 'batchfs'\ninterfere = 'read'\n").expect("written");
    let dry = loligo("decouple {} --policy {} --dry-run", &[&dir, &policy]).ok().out;
    has(
        &dry,
        &["strong/global -> decoupled for this mount, weak/local; others read the last merge", "nothing was changed"],
    );
    loligo("sync {}", &[&dir]).fails(1, &["is not decoupled by this mount"]);
    let said = loligo("decouple {} --policy {}", &[&dir, &policy]).ok().out;
    has(&said, &["is decoupled for this mount; others read the last merge, weak/local: "]);
    has_not(&said, &["alone"]);
    sh("for n in 1 2 3; do mkdir $D/d$n; done", &dir).ok();
    let explained = loligo("policy explain {}", &[&dir]).ok().out;
    has(&explained, &["outstanding   3 changes, ", "this machine  3 changes\n"]);
    has(&explained, &["the rank      nothing: merged changes are durable; the others are at this client"]);
    has_not(&explained, &["otherwise"]);
    has(&loligo("merge {}", &[&dir]).ok().out, &["3 changes were merged (", "stays decoupled"]);
    sh("mkdir $D/d4", &dir).ok();
    has(&loligo("recouple {}", &[&dir]).ok().out, &["1 change was merged ("]);
    let json = loligo("decouple {} --policy batchfs --json", &[&dir]).ok().json();
    assert_eq!((&json["cell"], &json["interfere"]), (&"weak/local".into(), &"block".into()));
    sh("mkdir $D/d5", &dir).ok();
    assert_eq!(loligo("abandon {} --json", &[&dir]).ok().json()["dropped"], 1);
    assert_eq!((mount.stop().0, server.stop().0), (0, 0));
}

#[test]
fn a_dry_run_of_a_policy_says_what_becomes_of_outstanding_changes() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = serve(&place, 1);
    let mount = mounted(&place, "mnt");
    let dir = made(place.path("mnt/job"));
    loligo("decouple {} --policy deltafs", &[&dir]).ok();
    sh("mkdir $D/one $D/two", &dir).ok();
    let set = |words: &str| loligo(&format!("policy set {{}} {words}"), &[&dir]).ok().out;
    let dry = set("posix --dry-run");
    has(
        &dry,
        &[
            "decoupled by this mount with invisible/local: 2 changes outstanding are merged, and all see them",
            "given back",
        ],
    );
    has(
        &set("hdfs --dry-run"),
        &["2 changes outstanding are merged, and all see them, and it stays decoupled, with weak/global"],
    );
    has(&set("ramdisk --dry-run"), &["2 changes outstanding, not merged by this, and it stays decoupled"]);
    // It was a dry run.
    has(&loligo("policy explain {}", &[&dir]).ok().out, &["outstanding   2 changes", "invisible/local"]);
    has(&set("posix"), &["is merged, and it is given back"]);
    assert_eq!((mount.stop().0, server.stop().0), (0, 0));
}

#[test]
fn a_run_reports_the_policy_that_counted_at_its_end() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = serve(&place, 1);
    let mount = mounted(&place, "mnt");
    let dir = made(place.path("mnt/job"));
    let script = place.path("script");
    let run = |text: &str| {
        std::fs::write(&script, text.replace("loligo", LOLIGO)).expect("written");
        loligo("run --policy batchfs {} -- sh -eu {} {}", &[&dir, &script, &dir]).ok().err
    };
    has(&run("loligo policy set $1 hdfs >&2; mkdir $1/a"), &["weak/global; ", "merged ("]);
    has(&run("mkdir $1/b"), &["1 change in ", "weak/local; 1 change was merged ("]);
    has(&run("mkdir $1/c; loligo policy set $1 posix >&2"), &["gave ", "back"]);
    assert_eq!(sh("ls $D", &dir).ok().out, "a\nb\nc\n");
    assert_eq!((mount.stop().0, server.stop().0), (0, 0));
}

#[test]
fn what_is_in_the_way_of_decoupling_or_giving_back_is_named_with_its_owner() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = serve(&place, 3);
    let (mount, other) = (mounted(&place, "mnt"), mounted(&place, "other"));
    let dir = made(place.path("mnt/job"));
    let sub = made(dir.join("sub"));
    let top = place.path("mnt");
    loligo("decouple {}", &[&top]).fails(1, &["is the root of the file system", "name a directory below the root"]);
    loligo("run {} -- true", &[&top]).fails(1, &["is the root of the file system"]);
    // A file is open.
    std::fs::write(dir.join("file"), "x").expect("written");
    let open = std::fs::File::open(dir.join("file")).expect("there");
    let this = format!("(process {}) has {} open", std::process::id(), dir.join("file").display());
    loligo("decouple {} --policy batchfs", &[&dir]).fails(1, &["is in use: ", &this, "close it"]);
    loligo("decouple {} --policy batchfs", &[&place.path("other/job")]).fails(1, &["is in use: ", &this]);
    drop(open);
    loligo("decouple {} --policy batchfs", &[&dir]).ok();
    // Below one that is decoupled, the root is named.
    let refused = loligo("decouple {} --policy batchfs", &[&sub]);
    let remedy = format!("loligo merge {0}, then loligo recouple {0};", dir.display());
    refused.fails(1, &["job, which is decoupled by this mount already", &remedy]);
    loligo("decouple {} --policy batchfs", &[&place.path("other/job")])
        .fails(1, &["is decoupled by mount ", "(user 0)"]);
    loligo("decouple {} --policy batchfs", &[&place.path("other/job/sub")])
        .fails(1, &["in a directory that another client has decoupled", "loligo policy explain"]);
    // It is merged, and a file keeps it from being given back.
    let mut open = std::fs::File::create(dir.join("made")).expect("made");
    std::io::Write::write_all(&mut open, b"x").expect("written");
    let this = format!("(process {}) has {} open", std::process::id(), dir.join("made").display());
    let again = format!("then: loligo recouple {}", dir.display());
    loligo("recouple {}", &[&dir]).fails(1, &["merged, but not given back, as a file is open still: ", &this, &again]);
    drop(open);
    loligo("recouple {}", &[&dir]).ok();
    // One below is another's.
    loligo("decouple {} --policy batchfs", &[&place.path("other/job/sub")]).ok();
    loligo("decouple {} --policy batchfs", &[&dir]).fails(1, &["/job/sub, which is below ", "is decoupled by mount "]);
    loligo("recouple {}", &[&place.path("other/job/sub")]).ok();
    // One below is another rank's.
    loligo("subtree pin {} 2", &[&sub]).ok();
    until("it is at rank 2", || {
        let lines = loligo("subtree list {} --json", &[&top]).ok().json();
        lines.as_array().is_some_and(|all| all.iter().any(|line| line["path"] == "/job/sub" && line["rank"] == 2))
    });
    loligo("decouple {} --policy batchfs", &[&dir])
        .fails(1, &["/job/sub, which is in ", "is at rank 2", "loligo subtree unpin"]);
    assert_eq!((mount.stop().0, other.stop().0, server.stop().0), (0, 0, 0));
}

#[test]
fn conflicts_are_named_by_their_paths_and_the_rest_of_many_by_where_it_is_kept() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let server = serve(&place, 1);
    let (mount, other) = (mounted(&place, "mnt"), mounted(&place, "other"));
    let (mine, theirs) = (made(place.path("mnt/job")), place.path("other/job"));
    let policy = place.path("allow.toml");
    std::fs::write(&policy, "preset = 'batchfs'\ninterfere = 'allow'\nallocated_inodes = 1000\n").expect("written");
    sh("mkdir $D/sub; for n in 1 2 3; do echo before > $D/sub/f$n; done", &mine).ok();
    loligo("decouple {} --policy {}", &[&mine, &policy]).ok();
    sh("echo mine > $D/sub/f1; echo mine > $D/sub/f2", &mine).ok();
    sh("echo theirs > $D/sub/f1; rm $D/sub/f2", &theirs).ok();
    let told = loligo("merge {}", &[&mine]).ok().err;
    has(&told, &["sub/f1: others had written it, too", "sub/f2: others had removed it, and it is back"]);
    has_not(&told, &["inode "]);
    sh("for n in $(seq 12); do echo mine > $D/sub/n$n; done", &mine).ok();
    sh("for n in $(seq 12); do echo theirs > $D/sub/n$n; done", &theirs).ok();
    let told = loligo("recouple {}", &[&mine]).ok().err;
    has(&told, &["and 4 more; ", &format!("ls {}", mine.join(".conflicts").display())]);
    assert_eq!((mount.stop().0, other.stop().0, server.stop().0), (0, 0, 0));
}
