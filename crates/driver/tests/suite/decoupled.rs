//! A directory that is decoupled for a client whose programs know nothing of it: the calls are those of any directory, over a real server
//! and its socket. Who sees what when, bytes beyond an inode, servers that restart, and who is refused. The client library that knows what
//! it does is in `subtree.rs`.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::common::Site;
use crate::common::commands::{call, decouple, fact, order, status};
use loligo_driver::Address;
use loligo_driver::client::path::OpenHow;
use loligo_driver::client::subtree::Kept;
use loligo_driver::client::{Client, Fs, Options, Subtree, SubtreeOptions};
use loligo_store::Backend;
use loligo_types::{Control, Cred, FsError, Ino, Kind, Op, Random, SetAttr, XattrMode};

const BATCHFS: &str = "preset = 'batchfs'\nallocated_inodes = 50\n";
const BIG: usize = 300_000;

fn connect_with(site: &Site, options: Options) -> (Client, Fs) {
    let client = Client::connect(&Address::Unix(site.socket()), options).expect("it serves");
    let fs = client.fs(Arc::new(Cred::root()));
    (client, fs)
}

fn connect(site: &Site) -> (Client, Fs) {
    connect_with(site, Options { name: "job".into(), cache: true, cache_names: true, ..Options::default() })
}

fn stop(client: &Client) {
    client.stop(Duration::from_secs(10)).expect("it ends");
}

fn big(seed: u8) -> Vec<u8> {
    (0..BIG).map(|n| (n as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[test]
fn programs_that_know_nothing_of_it_work_there_and_others_see_it_when_it_was_merged_and_given_back() {
    let site = Site::new();
    let _server = site.start();
    let (client, fs) = connect(&site);
    let (other, seen) = connect(&site);
    let root = fs.mkdir("/job", 0o755).expect("made").ino;
    fs.write("/job/old", big(1)).expect("written");
    let policy = "preset = 'ramdisk'\nconsistency = 'weak'\n";
    decouple(&fs, root, policy);
    // More than the numbers that were granted.
    fs.mkdir("/job/d", 0o750).expect("made");
    for n in 0..200 {
        fs.write(format!("/job/d/f{n}"), format!("file {n}").into_bytes()).expect("written");
    }
    fs.write("/job/big", big(2)).expect("written");
    assert!(fs.read("/job/big").expect("there") == big(2) && fs.read("/job/old").expect("there") == big(1));
    fs.rename("/job/d/f1", "/job/g1").expect("both are in it");
    fs.unlink("/job/d/f2").expect("there");
    fs.set_attr("/job/d/f3", SetAttr { size: Some(2), ..SetAttr::default() }).expect("there");
    assert_eq!(fs.read("/job/d/f3").expect("there"), b"fi");
    assert_eq!(fs.readdir("/job/d").expect("a directory").len(), 198);
    assert_eq!(fs.stat("/job").expect("there").size, 4, "old, d, big, g1");
    // A file that is open when it loses its name.
    let open = fs.open("/job/d/f4", OpenHow::read_write()).expect("there");
    open.write_at(0, big(3)).expect("open");
    fs.unlink("/job/d/f4").expect("there");
    assert_eq!(&open.read_at(0, 8).expect("open")[..], &big(3)[..8]);
    // Across its edge nothing goes.
    fs.write("/outside", b"x".to_vec()).expect("written");
    assert_eq!(fs.rename("/outside", "/job/inside"), Err(FsError::CrossDevice));
    assert_eq!(fs.link("/job/g1", "/linked"), Err(FsError::CrossDevice));
    assert_eq!(seen.stat("/job/d"), Err(FsError::Busy));
    assert_eq!(seen.stat("/job").expect("its name is its parent's").size, 1, "as it was");
    assert_eq!(order(&fs, root, "recouple"), Err("Busy".into()), "something is open");
    open.close().expect("open");
    order(&fs, root, "sync").expect("it is its own");
    assert_eq!(seen.stat("/job/d"), Err(FsError::Busy), "merged, and still its own");
    fs.write("/job/late", b"late".to_vec()).expect("written");
    order(&fs, root, "recouple").expect("it is its own");
    assert_eq!(status(&fs, root).lines().filter(|line| line.starts_with("epoch")).count(), 0);
    for (fs, whose) in [(&fs, "its own"), (&seen, "another's")] {
        assert_eq!(fs.stat("/job").expect("there").size, 5, "{whose}");
        assert_eq!(fs.readdir("/job/d").expect("there").len(), 197, "{whose}");
        assert_eq!(fs.read("/job/big").expect("there"), big(2), "{whose}");
        assert_eq!(fs.read("/job/g1").expect("there"), b"file 1", "{whose}");
        assert_eq!(fs.read("/job/late").expect("there"), b"late", "{whose}");
        assert_eq!(fs.stat("/job/d/f4"), Err(FsError::NotFound), "{whose}");
    }
    // What was cached while it was its own is not believed any more.
    seen.write("/job/g1", b"others".to_vec()).expect("written");
    seen.unlink("/job/d/f5").expect("there");
    assert_eq!(fs.read("/job/g1").expect("there"), b"others");
    assert_eq!(fs.stat("/job/d/f5"), Err(FsError::NotFound));
    stop(&client);
    stop(&other);
}

#[test]
fn what_is_dropped_leaves_nothing_and_what_stays_as_it_was() {
    let site = Site::new();
    let server = site.start();
    let (client, fs) = connect(&site);
    let root = fs.mkdir("/job", 0o755).expect("made").ino;
    fs.write("/job/old", b"old".to_vec()).expect("written");
    decouple(&fs, root, "preset = 'ramdisk'");
    fs.write("/job/big", big(1)).expect("written");
    fs.unlink("/job/old").expect("there");
    assert_eq!(order(&fs, root, "recouple"), Err("NotEmpty".into()), "its policy merges nothing");
    assert_eq!(fs.stat("/job/old"), Err(FsError::NotFound), "it is its own still");
    order(&fs, root, "abandon").expect("its own");
    assert_eq!(fs.read("/job/old").expect("there"), b"old");
    assert_eq!(fs.stat("/job/big"), Err(FsError::NotFound));
    assert_eq!(fs.stat("/job").expect("there").size, 1);
    stop(&client);
    server.stop().expect("it stops");
    drop(server);
    // No object of what was dropped is left.
    let backend = site.disk.open().expect("the disk is free");
    let mut left = Vec::new();
    let list = backend.blobs().list(&mut |object, _| {
        left.push(object);
        ControlFlow::Continue(())
    });
    list.expect("it can be listed");
    assert_eq!(left, []);
}

#[test]
fn it_goes_on_over_a_restart_of_the_server_and_what_was_synced_and_merged_is_there_after_lost_power() {
    let site = Site::new();
    let server = site.start();
    let (client, fs) = connect(&site);
    let root = fs.mkdir("/job", 0o755).expect("made").ino;
    fs.write("/job/old", big(1)).expect("written");
    fs.sync_all().expect("durable");
    decouple(
        &fs,
        root,
        BATCHFS.replace("batchfs", "ramdisk").replace("\nalloc", "\nconsistency = 'weak'\nalloc").as_str(),
    );
    let open = fs.open("/job/big", OpenHow::create()).expect("made");
    open.write_at(0, big(2)).expect("open");
    open.sync().expect("written");
    open.write_at(BIG as u64, big(3)).expect("open");
    // Over its end, as bytes of an object that the old life may have forgotten.
    site.power_loss(server);
    let server = site.start();
    open.write_at(2 * BIG as u64, big(4)).expect("open");
    fs.write("/job/new", b"new".to_vec()).expect("written");
    open.sync().expect("what was forgotten is written again");
    assert_eq!(fs.read("/job/old").expect("there"), big(1));
    order(&fs, root, "sync").expect("its own");
    fs.write("/job/after", b"after".to_vec()).expect("written");
    drop(open);
    order(&fs, root, "recouple").expect("its own");
    fs.sync_all().expect("durable");
    site.power_loss(server);
    let _server = site.start();
    let all = fs.read("/job/big").expect("there");
    assert!(all[..BIG] == big(2) && all[BIG..2 * BIG] == big(3) && all[2 * BIG..] == big(4), "{}", all.len());
    assert_eq!(fs.read("/job/new").expect("there"), b"new");
    assert_eq!(fs.read("/job/after").expect("there"), b"after");
    stop(&client);
}

#[test]
fn fsync_keeps_on_this_machine_what_the_policy_says_and_it_is_merged_without_its_owner() {
    let site = Site::new();
    let _server = site.start();
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options { name: "job".into(), keep: Some(dir.path().join("kept")), ..Options::default() };
    let (client, fs) = connect_with(&site, options);
    let root = fs.mkdir("/job", 0o755).expect("made").ino;
    decouple(&fs, root, BATCHFS);
    fs.write("/job/a", big(1)).expect("written");
    let open = fs.open("/job/b", OpenHow::create()).expect("made");
    open.write_at(0, b"b".to_vec()).expect("open");
    assert_eq!(fact(&fs, root, "persisted"), Some(0));
    let held = fs.open("/job/held", OpenHow::create()).expect("made");
    held.write_at(0, b"held".to_vec()).expect("open");
    let changes = fact(&fs, root, "changes").expect("it is decoupled");
    open.sync().expect("kept");
    assert_eq!(fact(&fs, root, "changes"), Some(changes + 1), "of other files nothing is written for it");
    assert_eq!(fact(&fs, root, "persisted"), fact(&fs, root, "changes"), "{}", status(&fs, root));
    drop(held);
    fs.write("/job/lost", b"lost".to_vec()).expect("written");
    let file = status(&fs, root).lines().find_map(|line| line.strip_prefix("kept ").map(String::from)).expect("kept");
    // The file has the owner's number. That gives nothing while the owner is connected; root takes the directory.
    let kept = Kept::read(&file).expect("a good file");
    let (other, seen) = connect(&site);
    assert_eq!(seen.stat("/job/a"), Err(FsError::Busy), "its lease is not over");
    let options = SubtreeOptions::default();
    assert_eq!(Subtree::resume(&seen, &kept, &options).err(), Some(FsError::Busy));
    let mut job = Subtree::take_now(&seen, root, &options).expect("root may");
    job.merge_kept(&kept).expect("good");
    job.recouple().expect("nothing is outstanding");
    assert_eq!(seen.read("/job/a").expect("there"), big(1));
    assert_eq!(seen.read("/job/b").expect("there"), b"b");
    assert_eq!(seen.stat("/job/lost"), Err(FsError::NotFound));
    stop(&other);
    // Who had it finds that out when it asks for something.
    assert_eq!(order(&fs, root, "sync"), Err("Stale".into()));
    assert_eq!(open.write_at(0, b"late".to_vec()), Err(FsError::Stale));
    assert_eq!(fs.read("/job/b").expect("as others see it"), b"b");
    stop(&client);
}

#[test]
fn a_policy_is_changed_while_programs_work_and_counts_when_what_is_outstanding_is_as_it_says() {
    let site = Site::new();
    let _server = site.start();
    let (client, fs) = connect(&site);
    let root = fs.mkdir("/job", 0o755).expect("made").ino;
    let set = |text: &str| {
        let value = text.as_bytes().into();
        call(&fs, Op::SetXattr { ino: root, name: b"loligo.policy.subtree"[..].into(), value, mode: XattrMode::Set })
    };
    decouple(&fs, root, "preset = 'ramdisk'");
    fs.write("/job/a", b"a".to_vec()).expect("written");
    assert_eq!(set("preset = 'nonsense'").map(drop), Err(FsError::Invalid));
    assert_eq!(fact(&fs, root, "merges"), Some(0));
    set("pipeline = 'append_client_journal + volatile_apply'").expect("stronger");
    assert_eq!((fact(&fs, root, "merges"), fact(&fs, root, "changes")), (Some(1), Some(0)));
    assert!(status(&fs, root).contains("pipeline append_client_journal + volatile_apply"));
    fs.write("/job/b", b"b".to_vec()).expect("written");
    // Strong: it cannot stay decoupled.
    set("preset = 'posix'").expect("stronger");
    assert_eq!(fact(&fs, root, "epoch"), None);
    let (other, seen) = connect(&site);
    assert_eq!(seen.read("/job/b").expect("seen by all"), b"b");
    stop(&client);
    stop(&other);
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let site = Site::new();
    let _server = site.start();
    let (client, fs) = connect(&site);
    let root = fs.mkdir("/job", 0o755).expect("made").ino;
    for (words, why) in [
        ("decouple\npreset = 'posix'", "NotSupported"),
        ("decouple\npreset = 'nonsense'", "Invalid"),
        ("decouple\npreset = 'batchfs'", "NotSupported"), // This client has no place to keep a journal.
        ("decouple\nallocated_inodes = 0\npreset = 'ramdisk'", "Invalid"),
        ("dance", "NoData"),
        ("sync", "NoData"),
        ("abandon", "NoData"),
    ] {
        assert_eq!(order(&fs, root, words), Err(why.into()), "{words}");
    }
    assert_eq!(order(&fs, Ino::ROOT, "decouple\npreset = 'ramdisk'"), Err("Invalid".into()), "the root of all");
    let file = fs.write("/job/f", b"f".to_vec()).and_then(|()| fs.stat("/job/f")).expect("there").ino;
    assert_eq!(order(&fs, file, "decouple\npreset = 'ramdisk'"), Err("NotDir".into()));
    decouple(&fs, root, "preset = 'ramdisk'");
    assert_eq!(order(&fs, root, "decouple\npreset = 'ramdisk'"), Err("Busy".into()), "it is already");
    assert_eq!(order(&fs, root, "dance"), Err("Invalid".into()));
    let stranger = client.fs(Arc::new(Cred { uid: 7, ..Cred::root() }));
    assert_eq!(order(&stranger, root, "abandon"), Err("Perm".into()));
    order(&fs, root, "abandon").expect("its own");
    stop(&client);
}

#[test]
fn what_goes_into_the_store_counts_over_lost_power_and_is_merged_once() {
    let site = Site::new();
    let server = site.start();
    let (client, fs) = connect(&site);
    let root = fs.mkdir("/job", 0o755).expect("made").ino;
    decouple(&fs, root, "preset = 'hdfs'\nallocated_inodes = 2000\n");
    for n in 0..1500 {
        fs.write(format!("/job/f{n}"), format!("{n}").into_bytes()).expect("written");
    }
    let open = fs.open("/job/big", OpenHow::create()).expect("made");
    open.write_at(0, big(7)).expect("open");
    open.sync().expect("in the store");
    assert_eq!(fact(&fs, root, "stored"), fact(&fs, root, "changes"), "{}", status(&fs, root));
    fs.write("/job/more", b"more".to_vec()).expect("written");
    open.sync().expect("added");
    // It is merged, and what comes then is stored again.
    order(&fs, root, "sync").expect("its own");
    assert_eq!((fact(&fs, root, "stored"), fact(&fs, root, "changes")), (Some(0), Some(0)));
    fs.write("/job/second", b"second".to_vec()).expect("written");
    open.sync().expect("in the store");
    site.power_loss(server);
    let server = site.start();
    fs.write("/job/third", b"third".to_vec()).expect("written");
    open.sync().expect("in the store of the new life");
    assert_eq!(fact(&fs, root, "stored"), fact(&fs, root, "changes"), "{}", status(&fs, root));
    drop(open);
    order(&fs, root, "recouple").expect("its own");
    assert_eq!(fs.readdir("/job").expect("there").len(), 1504);
    assert_eq!(
        (fs.read("/job/big").expect("there"), fs.read("/job/third").expect("there")),
        (big(7), b"third".to_vec())
    );
    stop(&client);
    server.stop().expect("it stops");
}

#[test]
fn a_client_that_stops_completes_what_the_policies_say() {
    let site = Site::new();
    let _server = site.start();
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options { name: "job".into(), keep: Some(dir.path().into()), ..Options::default() };
    let (client, fs) = connect_with(&site, options);
    let roots: Vec<Ino> = ["/weak", "/invisible"].iter().map(|path| fs.mkdir(path, 0o755).expect("made").ino).collect();
    decouple(&fs, roots[0], BATCHFS);
    decouple(&fs, roots[1], "preset = 'deltafs'");
    fs.write("/weak/f", big(1)).expect("written");
    fs.write("/invisible/f", big(2)).expect("written");
    let epoch = fact(&fs, roots[1], "epoch").expect("it is decoupled");
    stop(&client);
    let (other, seen) = connect(&site);
    assert_eq!(seen.read("/weak/f").expect("it is merged and given back"), big(1));
    assert_eq!(seen.stat("/invisible/f"), Err(FsError::Busy), "nobody was to see it");
    let files = std::fs::read_dir(dir.path()).expect("it is there").flatten().map(|file| file.path());
    let kept: Vec<_> = files.filter(|path| path.to_string_lossy().ends_with(&format!("-{epoch}.journal"))).collect();
    assert!(Kept::read(&kept[0]).expect("a good file").torn().is_none() && kept.len() == 1);
    stop(&other);
}

#[test]
fn a_sync_of_everything_and_the_interval_of_a_policy_do_what_it_says() {
    let site = Site::new();
    let _server = site.start();
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options { name: "job".into(), keep: Some(dir.path().into()), ..Options::default() };
    let (client, fs) = connect_with(&site, options);
    let roots: Vec<Ino> = ["/a", "/b"].iter().map(|path| fs.mkdir(path, 0o755).expect("made").ino).collect();
    decouple(&fs, roots[0], BATCHFS);
    decouple(&fs, roots[1], "preset = 'ramdisk'\nsync_interval = '10ms'\n");
    fs.write("/a/f", big(1)).expect("written");
    fs.sync_all().expect("durable");
    assert_eq!(fact(&fs, roots[0], "persisted"), fact(&fs, roots[0], "changes"));
    fs.mkdir("/a/d", 0o755).expect("made");
    call(&fs, Op::Control(Control::Sync)).expect("as after an fsync of a directory");
    assert_eq!(fact(&fs, roots[0], "persisted"), fact(&fs, roots[0], "changes"));
    // By and by all of it is merged, while more is done.
    for n in 0.. {
        fs.write(format!("/b/f{n}"), b"data".to_vec()).expect("written");
        if fact(&fs, roots[1], "merges") >= Some(2) {
            break;
        }
    }
    order(&fs, roots[1], "merge").expect("its own");
    assert_eq!(fact(&fs, roots[1], "changes"), Some(0));
    stop(&client);
}

/// All that is below a directory: paths, kinds, modes, links, content.
fn picture(fs: &Fs, top: &str) -> Vec<(String, u16, u32, Vec<u8>)> {
    let (mut all, mut todo) = (Vec::new(), vec![String::new()]);
    while let Some(at) = todo.pop() {
        for entry in fs.readdir(format!("{top}{at}")).expect("a directory") {
            let path = format!("{at}/{}", String::from_utf8_lossy(entry.name.as_bytes()));
            let attr = fs.lstat(format!("{top}{path}")).expect("it was listed");
            let content = match attr.kind {
                Kind::Dir => {
                    todo.push(path.clone());
                    Vec::new()
                }
                Kind::File => fs.read(format!("{top}{path}")).expect("it may be read"),
                _ => fs.readlink(format!("{top}{path}")).expect("a link").to_vec(),
            };
            all.push((path, attr.mode, attr.nlink, content));
        }
    }
    all.sort();
    all
}

fn both(seed: u64) {
    let mut random = Random::new(seed);
    let site = Site::new();
    let mut server = Some(site.start());
    let (client, fs) = connect(&site);
    fs.mkdir("/plain", 0o755).expect("made");
    let root = fs.mkdir("/job", 0o755).expect("made").ino;
    let policy = match seed % 3 {
        0 => "preset = 'hdfs'",
        1 => "pipeline = 'append_client_journal + nonvolatile_apply'",
        _ => "pipeline = 'append_client_journal + nonvolatile_apply'\nblind = true",
    };
    decouple(&fs, root, &format!("{policy}\nallocated_inodes = 10\n"));
    let mut open = Vec::new();
    for step in 0..120 {
        let name = |random: &mut Random| match random.below(3) {
            0 => format!("/d{}/n{}", random.below(2), random.below(4)),
            _ => format!("/n{}", random.below(5)),
        };
        let (one, other) = (name(&mut random), name(&mut random));
        let (kind, size, at) = (random.below(16), random.below(3), random.below(90_000));
        let content = vec![step as u8 + 1; [10, 5000, 120_000][size as usize]];
        let run = |top: &str| -> Result<(), FsError> {
            let (one, other) = (format!("{top}{one}"), format!("{top}{other}"));
            match kind {
                0..=3 => fs.write(&one, content.clone()),
                4 => fs.mkdir(format!("{top}/d{}", at % 2), 0o755).map(drop),
                5 => fs.rename(&one, &other),
                6 => fs.unlink(&one),
                7 => fs.link(&one, &other).map(drop),
                8 => fs.symlink("n1", &one).map(drop),
                9 => fs.set_attr(&one, SetAttr { size: Some(at), ..SetAttr::default() }).map(drop),
                10 => {
                    fs.set_attr(&one, SetAttr { mode: Some(0o600 + (at % 64) as u16), ..SetAttr::default() }).map(drop)
                }
                11 => fs.rmdir(format!("{top}/d{}", at % 2)),
                12 => {
                    let file = fs.open(&one, OpenHow::read_write())?;
                    file.write_at(at, content.clone())?;
                    file.sync()
                }
                _ => fs.lstat(&one).map(drop),
            }
        };
        assert_eq!(run("/plain"), run("/job"), "seed {seed}, step {step}: kind {kind} of {one}, {other}");
        if kind == 13 && open.len() < 4 {
            let files = ["/plain", "/job"].map(|top| fs.open(format!("{top}{one}"), OpenHow::read_write()));
            if let [Ok(plain), Ok(job)] = files {
                open.push((plain, job));
            }
        }
        for (plain, job) in &open {
            let data = vec![random.below(250) as u8; 3000];
            let results = [plain, job].map(|file| file.write_at(at, data.clone()));
            assert_eq!(results[0], results[1], "seed {seed}, step {step}");
            let sizes = [plain, job].map(|file| file.stat().map(|attr| (attr.size, attr.nlink)));
            assert_eq!(sizes[0], sizes[1], "seed {seed}, step {step}");
        }
        if random.below(25) == 0 {
            open.clear();
        }
        if random.below(12) == 0 {
            order(&fs, root, "sync").unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}"));
        }
        if random.below(50) == 0 {
            if let Some(server) = server.take() {
                server.stop().expect("it stops");
            }
            server = Some(site.start());
        }
        if random.below(20) == 0 {
            assert_eq!(picture(&fs, "/plain"), picture(&fs, "/job"), "seed {seed}, step {step}");
        }
    }
    drop(open);
    order(&fs, root, "recouple").unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let (other, seen) = connect(&site);
    assert_eq!(picture(&seen, "/plain"), picture(&seen, "/job"), "seed {seed}");
    stop(&other);
    stop(&client);
}

#[test]
fn whatever_programs_do_comes_out_as_in_a_directory_that_is_not_decoupled() {
    // More of them by hand.
    let seeds = std::env::var("LOLIGO_DECOUPLED_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    (1..seeds).for_each(both);
}

#[test]
fn what_root_takes_from_a_living_owner_fails_there_from_the_moment_on_that_root_is_told_and_its_journal_stays() {
    let site = Site::new();
    let _server = site.start();
    let none = "consistency = 'weak'\ndurability = 'none'\n";
    for policy in [BATCHFS, "preset = 'hdfs'\n", "preset = 'ramdisk'\n", none] {
        let keep = tempfile::tempdir().expect("a directory");
        let options = Options { name: "job".into(), keep: Some(keep.path().into()), cache: true, ..Options::default() };
        let (job, fs) = connect_with(&site, options);
        let (root, other) = connect(&site);
        let dir = fs.mkdir("/job", 0o755).expect("made").ino;
        decouple(&fs, dir, policy);
        let open = fs.open("/job/f", OpenHow::create()).expect("made");
        open.write_at(0, b"before".to_vec()).expect("open");
        open.sync().expect("it is its own");
        open.write_at(6, b"more".to_vec()).expect("open");
        let mut taken = Subtree::take_now(&other, dir, &SubtreeOptions::default()).expect("root may");
        taken.abandon().expect("its own");
        assert!(open.sync().is_err(), "{policy}: a sync says it");
        assert_eq!(open.write_at(0, b"after".to_vec()), Err(FsError::Stale), "{policy}");
        assert_eq!(open.sync(), Err(FsError::Stale), "{policy}");
        assert_eq!(order(&fs, dir, "sync"), Err("Stale".into()), "{policy}: orders say it");
        assert_eq!(fs.stat("/job/f").err(), Some(FsError::NotFound), "{policy}: it was not merged");
        fs.write("/job/new", b"new".to_vec()).expect("it is a directory like others");
        fs.unlink("/job/new").expect("its own");
        drop(open);
        stop(&job);
        // Its thread lets go of the file by itself.
        let claimed = |path: std::path::PathBuf| loop {
            match Kept::claim(&path) {
                Err(loligo_driver::client::subtree::KeptError::InUse(_)) => std::thread::yield_now(),
                kept => break kept.expect("it is whole"),
            }
        };
        let files = std::fs::read_dir(keep.path()).expect("there").flatten().map(|file| claimed(file.path()));
        let is_kept = policy == BATCHFS || policy.contains("hdfs");
        assert_eq!(files.count(), usize::from(is_kept), "{policy}: what it had not merged can be looked at");
        other.rmdir("/job").expect("it is empty");
        stop(&root);
    }
}
