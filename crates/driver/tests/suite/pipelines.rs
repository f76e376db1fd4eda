//! The stages of a policy's pipeline: carried out in the order in which they are written, those in parallel at the same time, and what a failure of
//! each leaves behind; for programs that know nothing of it, and for programs that use the client library. Over a real server and its socket.
//! Not what each stage makes durable: `decoupled.rs`, `subtree_store.rs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::Site;
use crate::common::commands::{call, fact, order, status, xattr};
use loligo_driver::client::subtree::{CompleteError, Kept};
use loligo_driver::client::{Client, Fs, Options, Subtree, SubtreeOptions};
use loligo_driver::{Address, Server};
use loligo_store::mem::{CrashPlan, Fault, FaultPoint};
use loligo_subtree_policy::Mechanism::{GlobalPersist, LocalPersist, NonvolatileApply, VolatileApply};
use loligo_subtree_policy::policy::History;
use loligo_types::{Cred, FsError, FsResult, Ino, Interfere, Op, XattrMode};

const POLICY: &[u8] = b"loligo.policy.subtree";
const HISTORY: &[u8] = b"loligo.policy.subtree.history";
/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client of its own whose journals are kept in a directory, of which it may be that nothing can be kept there.
struct Owner {
    client: Client,
    fs: Fs,
    keep: PathBuf,
    _dir: tempfile::TempDir,
}

impl Owner {
    fn of(site: &Site) -> Owner {
        let dir = tempfile::tempdir().expect("a directory");
        let keep = dir.path().join("kept");
        let options = Options { name: "job".into(), keep: Some(keep.clone()), ..Options::default() };
        let client = Client::connect(&Address::Unix(site.socket()), options).expect("it serves");
        let fs = client.fs(Arc::new(Cred::root()));
        Owner { client, fs, keep, _dir: dir }
    }

    /// From now on nothing can be kept.
    fn break_disk(&self) {
        std::fs::write(&self.keep, b"a file in the place of the directory").expect("a file");
    }

    fn mend_disk(&self) {
        std::fs::remove_file(&self.keep).expect("it was broken");
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.keep).map(|all| all.flatten().map(|entry| entry.path()).collect());
        entries.unwrap_or_default()
    }

    /// Waits until no journal is kept. A thread of its own removes the file of a merged journal, after the answer to the order.
    fn keeps_nothing(&self) {
        let begun = Instant::now();
        while !self.files().is_empty() {
            assert!(begun.elapsed() < PATIENCE, "{:?}", self.files());
            std::thread::yield_now();
        }
    }

    fn stop(&self) {
        self.client.stop(Duration::from_secs(10)).expect("it ends");
    }
}

fn plain(site: &Site) -> (Client, Fs) {
    let options = Options { name: "other".into(), ..Options::default() };
    let client = Client::connect(&Address::Unix(site.socket()), options).expect("it serves");
    let fs = client.fs(Arc::new(Cred::root()));
    (client, fs)
}

fn set_policy(fs: &Fs, path: &str, text: &str) -> FsResult<()> {
    let (ino, value) = (fs.stat(path)?.ino, text.as_bytes().into());
    call(fs, Op::SetXattr { ino, name: POLICY.into(), value, mode: XattrMode::Set }).map(drop)
}

/// A directory that is decoupled by a client like a mount's, with something outstanding.
fn decoupled(owner: &Owner, pipeline: &str) -> Ino {
    let root = owner.fs.mkdir("/job", 0o755).expect("made").ino;
    order(&owner.fs, root, &format!("decouple\npipeline = '{pipeline}'\n")).expect("nobody uses it");
    owner.fs.write("/job/a", b"a".to_vec()).expect("written");
    root
}

/// True if all outstanding changes are on the disk, the same for the store, and the number of merges.
fn reached(owner: &Owner, root: Ino) -> (bool, bool, Option<u64>) {
    let fact = |key| fact(&owner.fs, root, key);
    let all = fact("changes");
    (fact("persisted") == all, fact("stored") == all, fact("merges"))
}

#[test]
fn on_a_mount_stages_run_in_the_written_order_and_a_failure_keeps_what_was_done_before() {
    let cases = [
        // What has come about when the disk of the machine fails, and when the store does.
        ("local_persist + global_persist + volatile_apply", (false, false), (true, false)),
        ("global_persist + local_persist + volatile_apply", (false, true), (false, false)),
        ("local_persist || global_persist + volatile_apply", (false, true), (true, false)),
    ];
    for (stages, without_disk, without_store) in cases {
        let site = Site::new();
        let _server = site.start();
        let owner = Owner::of(&site);
        let root = decoupled(&owner, &format!("append_client_journal + {stages}"));
        owner.break_disk();
        let error = order(&owner.fs, root, "sync").expect_err("the disk is broken");
        assert!(error.ends_with(" at local_persist"), "{stages}: {error}");
        assert_eq!(reached(&owner, root), (without_disk.0, without_disk.1, Some(0)), "{stages}");
        assert!(status(&owner.fs, root).contains("\nfailed_stage local_persist "), "{}", status(&owner.fs, root));
        owner.mend_disk();
        // Something else is outstanding, so that all stages have something to do.
        owner.fs.write("/job/b", b"b".to_vec()).expect("written");
        site.disk.fail(FaultPoint::BlobWrite, 1, Fault::Io);
        let error = order(&owner.fs, root, "sync").expect_err("the store is broken");
        assert_eq!(error, "Io at global_persist", "{stages}");
        assert_eq!(reached(&owner, root), (without_store.0, without_store.1, Some(0)), "{stages}");
        assert!(status(&owner.fs, root).contains("\nfailed_stage global_persist Io\n"), "{}", status(&owner.fs, root));
        site.disk.heal();
        // The same again does what is left, and nothing twice.
        order(&owner.fs, root, "sync").expect("all is well");
        assert_eq!((fact(&owner.fs, root, "changes"), fact(&owner.fs, root, "merges")), (Some(0), Some(1)), "{stages}");
        assert!(!status(&owner.fs, root).contains("failed_stage"), "{}", status(&owner.fs, root));
        owner.keeps_nothing();
        order(&owner.fs, root, "recouple").expect("nothing is outstanding");
        let (other, seen) = plain(&site);
        assert_eq!(seen.readdir("/job").expect("all's").len(), 2);
        other.stop(PATIENCE).expect("it ends");
        owner.stop();
    }
}

#[test]
fn a_stage_that_fails_by_itself_is_told_and_begun_again_when_the_interval_has_gone_by() {
    let site = Site::new();
    let _server = site.start();
    let owner = Owner::of(&site);
    let root = owner.fs.mkdir("/job", 0o755).expect("made").ino;
    owner.break_disk();
    order(&owner.fs, root, "decouple\npreset = 'batchfs'\nsync_interval = '10ms'\n").expect("free");
    owner.fs.write("/job/a", b"a".to_vec()).expect("written");
    let begun = Instant::now();
    while !status(&owner.fs, root).contains("failed_stage local_persist") {
        assert!(begun.elapsed() < PATIENCE, "{}", status(&owner.fs, root));
    }
    assert_eq!(fact(&owner.fs, root, "merges"), Some(0), "nothing is merged that is not kept");
    owner.mend_disk();
    while fact(&owner.fs, root, "merges") == Some(0) {
        assert!(begun.elapsed() < PATIENCE, "{}", status(&owner.fs, root));
    }
    assert!(!status(&owner.fs, root).contains("failed_stage"), "{}", status(&owner.fs, root));
    owner.stop();
}

#[test]
fn an_fsync_of_one_that_says_both_persists_fails_with_either_and_is_good_when_both_are() {
    let site = Site::new();
    let _server = site.start();
    let owner = Owner::of(&site);
    let root = decoupled(&owner, "append_client_journal + local_persist || global_persist");
    let open = owner.fs.open("/job/open", loligo_driver::client::path::OpenHow::create()).expect("made");
    owner.break_disk();
    assert!(open.sync().is_err());
    assert!(status(&owner.fs, root).contains("failed_stage local_persist"), "{}", status(&owner.fs, root));
    owner.mend_disk();
    open.sync().expect("both");
    assert_eq!(reached(&owner, root), (true, true, Some(0)));
    drop(open);
    order(&owner.fs, root, "abandon").expect("its own");
    owner.stop();
}

#[test]
fn a_program_has_a_directory_decoupled_and_completed_as_the_policy_above_it_says() {
    let site = Site::new();
    let _server = site.start();
    let owner = Owner::of(&site);
    for dir in ["/top", "/top/job"] {
        owner.fs.mkdir(dir, 0o755).expect("made");
    }
    let text = "pipeline = 'append_client_journal + local_persist || global_persist + volatile_apply'\ninterfere = 'block'\n\
                allocated_inodes = 3000\n[ceiling]\nlease = '20s'\n";
    set_policy(&owner.fs, "/top", text).expect("root may");
    let mut job = Subtree::decouple_by_policy(&owner.fs, "/top/job").expect("it says so");
    assert_eq!(job.policy().map(|policy| policy.cell().to_string()).as_deref(), Some("weak/global"));
    let record = job.record().clone();
    assert_eq!((record.interfere, record.lease_ms), (Interfere::Block, 20_000));
    assert!(record.left() >= 3000, "{}", record.left());
    job.write("f", b"data".to_vec()).expect("his");
    let synced = job.sync().expect("all is well");
    assert_eq!((synced.stages, synced.recoupled), (vec![LocalPersist, GlobalPersist, VolatileApply], false));
    job.write("g", b"more".to_vec()).expect("his");
    let completed = job.complete().expect("all is well");
    assert!(completed.recoupled && completed.merged.records > 0, "{completed:?}");
    owner.keeps_nothing();
    let (other, seen) = plain(&site);
    assert_eq!(seen.read("/top/job/g").expect("all's"), b"more");
    assert_eq!(job.write("h", b"late".to_vec()), Err(FsError::Stale));
    other.stop(PATIENCE).expect("it ends");
    owner.stop();
}

#[test]
fn a_completion_names_the_stage_that_failed_keeps_what_was_done_and_is_done_by_the_next_one() {
    for (stages, kept_first) in [
        ("local_persist + global_persist + nonvolatile_apply", false),
        ("global_persist + local_persist + nonvolatile_apply", true),
        ("local_persist || global_persist + nonvolatile_apply", true),
    ] {
        let site = Site::new();
        let _server = site.start();
        let owner = Owner::of(&site);
        owner.fs.mkdir("/job", 0o755).expect("made");
        set_policy(&owner.fs, "/job", &format!("pipeline = 'append_client_journal + {stages}'\ninterfere = 'block'\n"))
            .expect("root may");
        let mut job = Subtree::decouple_by_policy(&owner.fs, "/job").expect("it says so");
        job.write("f", b"data".to_vec()).expect("his");
        owner.break_disk();
        let error = job.complete().expect_err("the disk is broken");
        let done = if kept_first { vec![GlobalPersist] } else { vec![] };
        match &error {
            CompleteError::Stage { stage: LocalPersist, done: said, .. } => assert_eq!(*said, done, "{stages}"),
            other => panic!("{stages}: {other}"),
        }
        assert!(error.to_string().contains("the stage local_persist of the pipeline"), "{error}");
        assert_eq!(job.record().merges, 0);
        assert_eq!(job.stored().expect("it is whole").is_some(), kept_first, "{stages}");
        owner.mend_disk();
        site.disk.fail(FaultPoint::TableWrite, 1, Fault::Io);
        // A table that cannot take rows is no failure of the merge: memory takes them.
        let completed = job.complete().expect("all is well");
        assert_eq!(completed.stages.last(), Some(&NonvolatileApply));
        assert!(completed.recoupled);
        assert_eq!(owner.fs.read("/job/f").expect("all's"), b"data");
        owner.keeps_nothing();
        owner.stop();
    }
}

#[test]
fn what_is_kept_is_not_kept_twice_and_without_an_apply_it_stays_decoupled() {
    let site = Site::new();
    let _server = site.start();
    let owner = Owner::of(&site);
    owner.fs.mkdir("/job", 0o755).expect("made");
    set_policy(&owner.fs, "/job", "preset = 'deltafs'\ninterfere = 'block'\n").expect("root may");
    let mut job = Subtree::decouple_by_policy(&owner.fs, "/job").expect("it says so");
    job.write("f", b"data".to_vec()).expect("his");
    let completed = job.complete().expect("kept");
    assert!(!completed.recoupled && completed.stages == [LocalPersist], "it is never merged: {completed:?}");
    let files = owner.files();
    let [file] = &files[..] else { panic!("{files:?}") };
    let before = Kept::read(file).expect("it is whole").groups().len();
    // Kept again, there is nothing new to be kept.
    job.complete().expect("kept");
    assert_eq!(Kept::read(file).expect("it is whole").groups().len(), before);
    assert_eq!(job.recouple(), Err(FsError::NotEmpty));
    job.merge().expect("a program may all the same");
    assert!(job.complete().expect("nothing is outstanding").recoupled);
    assert_eq!(owner.fs.read("/job/f").expect("all's"), b"data");
    owner.stop();
}

#[test]
fn what_a_policy_or_bounds_above_do_not_permit_a_program_does_not_get() {
    let site = Site::new();
    let _server = site.start();
    let owner = Owner::of(&site);
    let (other, without_keep) = plain(&site);
    for dir in ["/floor", "/floor/job", "/posix", "/local", "/shut", "/shut/job"] {
        owner.fs.mkdir(dir, 0o755).expect("made");
    }
    let by = |fs: &Fs, path: &str| {
        Subtree::decouple_by_policy(fs, path).map(|_| ()).map_err(|error| (path.to_string(), error))
    };
    assert_eq!(by(&owner.fs, "/posix"), Err(("/posix".into(), FsError::NotSupported)), "the default");
    set_policy(&owner.fs, "/posix", "preset = 'relaxed'").expect("root may");
    assert_eq!(by(&owner.fs, "/posix"), Err(("/posix".into(), FsError::NotSupported)), "each operation is the rank's");
    set_policy(&owner.fs, "/local", "preset = 'batchfs'").expect("root may");
    assert_eq!(by(&without_keep, "/local"), Err(("/local".into(), FsError::NotSupported)), "no place for the journal");
    // The rank says what is below a floor, whatever options are named; and by its policy nothing is.
    set_policy(&owner.fs, "/floor", "preset = 'hdfs'\n[floor]\nconsistency = 'weak'\ndurability = 'global'\n")
        .expect("root");
    assert_eq!(set_policy(&owner.fs, "/floor/job", "preset = 'batchfs'"), Err(FsError::Perm));
    let options = SubtreeOptions::default();
    assert_eq!(Subtree::decouple(&owner.fs, "/floor/job", &options).map(|_| ()), Err(FsError::Perm));
    let mut job = Subtree::decouple_by_policy(&owner.fs, "/floor/job").expect("it gives as much");
    assert_eq!(job.complete().map(|done| done.recoupled).map_err(|error| error.to_string()), Ok(true));
    set_policy(&owner.fs, "/shut", "preset = 'hdfs'\n[ceiling]\ndecouple = false\n").expect("root may");
    assert_eq!(by(&owner.fs, "/shut/job"), Err(("/shut/job".into(), FsError::Perm)));
    // With options of its own there is no policy to complete.
    owner.fs.mkdir("/own", 0o755).expect("made");
    let mut own = Subtree::decouple(&owner.fs, "/own", &options).expect("free");
    assert!(matches!(own.complete(), Err(CompleteError::NoPolicy)));
    own.abandon().expect("its own");
    other.stop(PATIENCE).expect("it ends");
    owner.stop();
}

#[test]
fn a_program_that_is_at_work_sends_on_what_is_outstanding_in_the_interval_and_hears_what_fails() {
    let site = Site::new();
    let _server = site.start();
    let owner = Owner::of(&site);
    owner.fs.mkdir("/job", 0o755).expect("made");
    set_policy(&owner.fs, "/job", "preset = 'batchfs'\ninterfere = 'block'\nsync_interval = '10ms'\n")
        .expect("root may");
    let mut job = Subtree::decouple_by_policy(&owner.fs, "/job").expect("it says so");
    owner.break_disk();
    let begun = Instant::now();
    for n in 0.. {
        job.write(format!("f{n}"), b"data".to_vec()).expect("an operation does not fail for that");
        if job.failed_stage().is_some() {
            break;
        }
        assert!(begun.elapsed() < PATIENCE);
    }
    assert_eq!((job.failed_stage().map(|(stage, _)| stage), job.record().merges), (Some(LocalPersist), 0));
    owner.mend_disk();
    while job.record().merges < 2 {
        job.write("again", b"data".to_vec()).expect("his");
        assert!(begun.elapsed() < PATIENCE);
    }
    assert_eq!(job.failed_stage(), None);
    // Nothing happens while there is nothing outstanding.
    job.merge().expect("his");
    let merges = job.record().merges;
    job.sync_if_due();
    assert_eq!(job.record().merges, merges);
    assert!(job.complete().expect("all is well").recoupled);
    owner.stop();
}

#[test]
fn what_makes_no_sense_as_a_policy_is_refused_by_the_rank_and_is_no_version() {
    let site = Site::new();
    let _server = site.start();
    let (client, fs) = plain(&site);
    let root = fs.mkdir("/job", 0o755).expect("made").ino;
    for text in [
        "preset = 'relaxed'\nlag = '0s'",
        "preset = 'relaxed'\nlag = '1ms'",
        "preset = 'relaxed'\nlag = '24h'",
        "preset = 'posix'\nlag = '1s'",
        "preset = 'batchfs'\nlag = '1s'",
        "preset = 'batchfs'\ninterfere = 'both'",
        "preset = 'batchfs'\ninterfere = true",
        "preset = 'posix'\nsync_interval = '1s'",
        "preset = 'batchfs'\nsync_interval = '1ms'",
        "pipeline = 'append_client_journal || local_persist'",
        "pipeline = 'append_client_journal + local_persist || volatile_apply'",
        "pipeline = 'append_client_journal + volatile_apply || nonvolatile_apply'",
        "pipeline = 'append_client_journal + volatile_apply + global_persist'",
        "pipeline = 'append_client_journal + local_persist || local_persist'",
        "pipeline = 'append_client_journal + local_persist ||'",
        "pipeline = 'rpcs || global_persist'",
        "pipeline = 'rpcs + stream'\nconsistency = 'weak'",
        "preset = 'batchfs'\n[floor]\ndurability = 'global'",
        "preset = 'ramdisk'\n[floor]\nconsistency = 'weak'",
        "preset = 'batchfs'\nallocated_inodes = 0",
        "preset = 'batchfs'\nallocated_inodes = 10\n[ceiling]\nallocated_inodes = 5",
    ] {
        assert_eq!(set_policy(&fs, "/job", text), Err(FsError::Invalid), "{text}");
    }
    assert_eq!((xattr(&fs, root, POLICY), xattr(&fs, root, HISTORY)), (None, None));
    client.stop(PATIENCE).expect("it ends");
}

#[test]
fn one_that_is_decoupled_with_another_policy_has_that_until_the_directorys_is_set_and_not_below_a_floor() {
    let site = Site::new();
    let _server = site.start();
    let owner = Owner::of(&site);
    owner.fs.mkdir("/top", 0o755).expect("made");
    let root = owner.fs.mkdir("/top/job", 0o755).expect("made").ino;
    set_policy(&owner.fs, "/top/job", "preset = 'hdfs'\n").expect("root may");
    order(&owner.fs, root, "decouple\npreset = 'ramdisk'\n").expect("nothing forbids it");
    owner.fs.write("/top/job/a", b"a".to_vec()).expect("written");
    order(&owner.fs, root, "sync").expect("that says nothing of it");
    assert!(fact(&owner.fs, root, "changes") > Some(0), "it is what counts");
    // The directory's own is set again: from then on that counts, and what is outstanding is as it says.
    set_policy(&owner.fs, "/top/job", "preset = 'hdfs'\n").expect("root may");
    assert_eq!(fact(&owner.fs, root, "changes"), Some(0));
    assert!(status(&owner.fs, root).contains("pipeline append_client_journal + global_persist + volatile_apply"));
    order(&owner.fs, root, "recouple").expect("nothing is outstanding");
    let history = History::read(&xattr(&owner.fs, root, HISTORY).expect("it has one")).expect("it is one");
    assert_eq!(history.changes().len(), 1, "it was set as it is");
    set_policy(&owner.fs, "/top", "preset = 'hdfs'\n[floor]\nconsistency = 'weak'\ndurability = 'global'\n")
        .expect("root");
    let refused = order(&owner.fs, root, "decouple\npreset = 'ramdisk'\n").expect_err("a floor is above it");
    assert!(refused.starts_with("Refused floor "), "{refused}");
    owner.stop();
}

/// Takes a directory over whose owner is dead, merges what is in the store, and gives it back.
fn recover(fs: &Fs, root: Ino) {
    let mut job = match Subtree::take_now(fs, root, &SubtreeOptions::default()) {
        Ok(job) => job,
        // Nobody has it.
        Err(FsError::NotFound) => return,
        Err(error) => panic!("{error}"),
    };
    if let Some(kept) = job.stored().expect("it is whole") {
        job.merge_kept(&kept).expect("it is as it was kept");
    }
    job.recouple().expect("nothing is outstanding");
}

/// Sets a policy of a decoupled directory with something outstanding while the server dies at the `nth` call of a kind, and its owner with it if it is
/// not told that the new one counts. Whether the call came.
fn change_and_die(new: &str, at: Option<(FaultPoint, u64)>) -> bool {
    const OLD: &str = "pipeline = 'append_client_journal'\n";
    let site = Site::new();
    let start = || {
        let mut config = site.config();
        config.mds.session_ms = 300;
        Server::start(config, &mut |_| {}).expect("the server starts")
    };
    let mut server = start();
    let owner = Owner::of(&site);
    let root = owner.fs.mkdir("/job", 0o755).expect("made").ino;
    set_policy(&owner.fs, "/job", OLD).expect("root may");
    order(&owner.fs, root, &format!("decouple\n{OLD}")).expect("nobody uses it");
    for n in 0..20 {
        owner.fs.write(format!("/job/f{n}"), b"data".to_vec()).expect("written");
    }
    if let Some((point, nth)) = at {
        site.disk.fail(point, nth, Fault::Die);
    }
    let setting = std::thread::spawn({
        let (fs, new) = (owner.fs.clone(), new.to_string());
        move || set_policy(&fs, "/job", &new)
    });
    let mut died = false;
    while !setting.is_finished() {
        if server.wait_fatal(Some(Duration::from_millis(5))).is_some() {
            died = true;
            let _ = owner.client.stop(Duration::ZERO);
            break;
        }
    }
    let told = setting.join().expect("no panic");
    if at.is_none() {
        told.expect("nothing failed");
    }
    let _ = owner.client.stop(Duration::ZERO);
    site.disk.crash(&CrashPlan::lose_all());
    drop(server);
    server = start();
    let (other, seen) = plain(&site);
    // One of the two counts, and its history says the same.
    let text = String::from_utf8(xattr(&seen, root, POLICY).expect("it has one")).expect("text");
    let history = History::read(&xattr(&seen, root, HISTORY).expect("it has one")).expect("it is one");
    assert!(text == OLD || text == new, "{at:?}: {text}");
    assert_eq!(history.version(history.now()).map(|now| now.text.clone()), Some(text.clone().into_bytes()), "{at:?}");
    assert_eq!(history.changes().len(), if text == OLD { 1 } else { 2 }, "{at:?}");
    assert!(told.is_err() || text == new, "{at:?}: it was told that it counts");
    recover(&seen, root);
    let there = seen.readdir("/job").expect("all's").len();
    // The old one promises nothing once its owner is dead: what had come about before stays, whole. The new one promises all.
    assert!(there == 20 || text == OLD && there == 0, "{at:?}: {there} of 20 by {text}");
    other.stop(PATIENCE).expect("it ends");
    drop(server);
    died
}

#[test]
fn whenever_all_die_while_a_policy_is_changed_the_old_or_the_new_one_counts_and_keeps_its_promise() {
    for new in ["preset = 'hdfs'\n", "pipeline = 'append_client_journal + global_persist'\n", "preset = 'posix'\n"] {
        change_and_die(new, None);
        for point in [FaultPoint::LogAppend, FaultPoint::LogSync, FaultPoint::BlobWrite, FaultPoint::BlobSync] {
            // All calls that the change makes.
            let came = (1..).take_while(|nth| change_and_die(new, Some((point, *nth)))).count();
            assert!(came < 50, "{new}: {point:?} {came}");
            let needs_log = matches!(point, FaultPoint::LogAppend | FaultPoint::LogSync);
            assert!(!needs_log || came > 0, "{new}: a change is put down");
        }
    }
}

#[test]
fn the_history_of_a_policy_goes_with_its_directory_and_survives_lost_power() {
    let site = Site::new();
    let server = site.start();
    let (client, fs) = plain(&site);
    let root = fs.mkdir("/job", 0o755).expect("made").ino;
    for text in ["preset = 'batchfs'\n", "preset = 'hdfs'\n", "preset = 'batchfs'\n"] {
        set_policy(&fs, "/job", text).expect("root may");
    }
    let _ = client.stop(PATIENCE);
    site.power_loss(server);
    let server = site.start();
    let (client, fs) = plain(&site);
    let history = History::read(&xattr(&fs, root, HISTORY).expect("it has one")).expect("it is one");
    let versions: Vec<u32> = history.changes().iter().map(|change| change.version).collect();
    assert_eq!((versions, history.before()), (vec![1, 2, 1], Some(2)));
    fs.rmdir("/job").expect("it is empty");
    assert_eq!(call(&fs, Op::GetXattr { ino: root, name: HISTORY.into() }), Err(FsError::Stale));
    client.stop(PATIENCE).expect("it ends");
    server.stop().expect("it stops");
}

// The example of the guide, from here.
fn follow(fs: &Fs, data: Vec<u8>) -> Result<(), Box<dyn std::error::Error>> {
    let mut job = Subtree::decouple_by_policy(fs, "/job")?;
    job.mkdir("out", 0o755)?;
    job.write("out/part-0", data)?;
    let completed = job.complete()?;
    assert!(completed.recoupled, "its policy does not merge");
    Ok(())
}
// To here.

#[test]
fn the_example_of_the_guide_follows_a_policy() {
    let site = Site::new();
    let _server = site.start();
    let owner = Owner::of(&site);
    owner.fs.mkdir("/job", 0o755).expect("made");
    set_policy(&owner.fs, "/job", "preset = 'batchfs'\n").expect("root may");
    follow(&owner.fs, b"data".to_vec()).expect("it is as the guide says");
    assert_eq!(owner.fs.read("/job/out/part-0").expect("all's"), b"data");
    owner.stop();
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/subtree-policies.md");
    let text = std::fs::read_to_string(guide).expect("the guide");
    let example =
        include_str!("pipelines.rs").split("// The example of the guide, from here.\n").nth(1).expect("it is here");
    let example = example.split("// To here.").next().expect("it ends");
    assert!(text.contains(example.trim_end()), "the guide has another example than this:\n{example}");
}
