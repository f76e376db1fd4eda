//! A pool that becomes full under servers, and has room again: in one of its own, with a quota. Who needs room is told so, all else goes on,
//! and a server that dies then is replaced. Only on a cluster with a manager: nobody else counts what is in a pool.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loligo_driver::Address;
use loligo_driver::client::Fs;
use loligo_driver::client::path::OpenHow;
use loligo_rados::Cluster;
use loligo_types::{FsError, FsResult};

use crate::servers::{PATIENCE, Place, Server, connect};

/// Bytes of a file that is not small, so that it is in objects.
const LARGE: usize = 300_000;
const LEASE: Duration = Duration::from_millis(1500);

/// A pool for as long as this lives.
struct Own {
    cluster: Arc<Cluster>,
    pool: String,
}

impl Own {
    /// One, and a file system in it.
    fn new() -> Option<(Own, Place)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut place = Place::new()?;
        let cluster = Cluster::connect(&place.conf, "client.admin", &[]).expect("there is a cluster");
        if cluster.space().expect("the cluster answers").total == 0 {
            eprintln!("not tested: the cluster has no manager");
            return None;
        }
        let pool = format!("full_cli.{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let own = Own { cluster, pool: pool.clone() };
        own.ask(&format!(r#""prefix": "osd pool create", "pool": "{pool}", "pg_num": 4"#));
        place.store = format!("rados:{pool}/fs");
        place.run(&["format"], 0);
        Some((own, place))
    }

    fn ask(&self, what: &str) {
        self.cluster.ask(&format!("{{{what}}}")).expect("the monitors answer");
    }

    /// From some moment on there is no room, or there is again.
    fn is_full(&self, full: bool) {
        let quota = r#""prefix": "osd pool set-quota", "field": "max_objects""#;
        self.ask(&format!(r#"{quota}, "pool": "{}", "val": "{}""#, self.pool, u8::from(full)));
    }

    /// Objects with file data.
    fn objects(&self) -> usize {
        let mut count = 0;
        let each = &mut |_: &str| {
            count += 1;
            ControlFlow::Continue(())
        };
        self.cluster.pool(&self.pool, "fs.data").and_then(|pool| pool.list(each)).expect("the list");
        count
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let name = &self.pool;
        let _ = self.cluster.ask(&format!(
            r#"{{"prefix": "osd pool delete", "pool": "{name}", "pool2": "{name}", "yes_i_really_really_mean_it": true}}"#
        ));
    }
}

/// Counters of the programs' operations.
#[derive(Default)]
struct Counts {
    /// Files that were made and synced.
    made: AtomicU64,
    /// Names that were refused, and contents.
    no_names: AtomicU64,
    no_contents: AtomicU64,
    /// Files that were read again, renamed and removed.
    read: AtomicU64,
    renamed: AtomicU64,
    removed: AtomicU64,
    stop: AtomicBool,
}

/// A directory, and the files in it.
type Dir = (String, BTreeMap<String, Vec<u8>>);

/// Programs under way, and what each has to find in its directory at the end.
struct Programs {
    counts: Arc<Counts>,
    threads: Vec<JoinHandle<Dir>>,
}

impl Programs {
    fn start(address: &Address, count: usize) -> Programs {
        let counts = Arc::<Counts>::default();
        let start = |number: usize| {
            let (address, counts) = (address.clone(), counts.clone());
            std::thread::spawn(move || program(&connect(&address), number, &counts))
        };
        Programs { threads: (0..count).map(start).collect(), counts }
    }

    /// Waits until so many more of it were counted.
    fn until_more(&self, count: u64, of: impl Fn(&Counts) -> &AtomicU64) {
        let (from, until) = (of(&self.counts).load(Ordering::Acquire), Instant::now() + PATIENCE);
        while of(&self.counts).load(Ordering::Acquire) < from + count {
            assert!(self.threads.iter().all(|thread| !thread.is_finished()), "a program has failed");
            assert!(Instant::now() < until, "it does not go on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends them, and looks whether all of it is there, by a client that knows nothing.
    fn check(self, address: &Address) {
        self.counts.stop.store(true, Ordering::Release);
        let fs = connect(address);
        for thread in self.threads {
            let (dir, files) = thread.join().expect("a program failed");
            assert_eq!(names(&fs, &dir), files.keys().cloned().collect::<Vec<_>>(), "{dir}");
            for (name, content) in files {
                assert!(fs.read(format!("{dir}/{name}")).expect("it is there") == content, "{dir}/{name}");
            }
        }
    }
}

fn names(fs: &Fs, dir: &str) -> Vec<String> {
    let entries = fs.readdir(dir).expect("the directory");
    let mut names: Vec<String> =
        entries.iter().map(|entry| String::from_utf8_lossy(entry.name.as_bytes()).into_owned()).collect();
    names.retain(|name| name != "." && name != "..");
    names.sort_unstable();
    names
}

fn write(fs: &Fs, name: &str, content: &[u8]) -> FsResult<()> {
    let file = fs.open(name, OpenHow::read_write())?;
    let wrote = file.write_at(0, content.to_vec()).and_then(|_| file.sync());
    // Whatever was held back is told no later than here.
    let closed = file.close();
    wrote.and(closed)
}

/// Makes files, reads, renames and removes them; what is refused for want of room it does not have, and nothing else is refused.
fn program(fs: &Fs, number: usize, counts: &Counts) -> Dir {
    let dir = format!("/d{number}");
    fs.mkdir(&dir, 0o755).expect("there is room");
    let mut files = BTreeMap::new();
    for turn in 0u64.. {
        if counts.stop.load(Ordering::Acquire) {
            break;
        }
        let name = format!("f{turn:06}");
        let path = format!("{dir}/{name}");
        let content = format!("{number}.{turn} ").repeat(if turn % 3 == 0 { LARGE / 8 } else { 20 }).into_bytes();
        match fs.open(&path, OpenHow { exclusive: true, ..OpenHow::create() }).and_then(|file| file.close()) {
            Ok(()) => match write(fs, &path, &content) {
                Ok(()) => {
                    files.insert(name.clone(), content);
                    counts.made.fetch_add(1, Ordering::AcqRel);
                }
                Err(FsError::NoSpace) => {
                    counts.no_contents.fetch_add(1, Ordering::AcqRel);
                    fs.unlink(&path).expect("what has no room can be removed");
                }
                Err(error) => panic!("{path}: {error}"),
            },
            Err(FsError::NoSpace) => _ = counts.no_names.fetch_add(1, Ordering::AcqRel),
            Err(error) => panic!("{path}: {error}"),
        }
        let Some((old, content)) = files.iter().next().map(|(old, content)| (old.clone(), content.clone())) else {
            continue;
        };
        assert!(fs.read(format!("{dir}/{old}")).expect("it is there") == content, "{dir}/{old}");
        counts.read.fetch_add(1, Ordering::AcqRel);
        if turn % 4 == 1 && files.len() > 4 {
            fs.unlink(format!("{dir}/{old}")).expect("it is there");
            files.remove(&old);
            counts.removed.fetch_add(1, Ordering::AcqRel);
        } else if turn % 4 == 3 {
            let new = format!("r{turn:06}");
            fs.rename(format!("{dir}/{old}"), format!("{dir}/{new}")).expect("it is there");
            files.remove(&old);
            files.insert(new, content);
            counts.renamed.fetch_add(1, Ordering::AcqRel);
        }
        assert_eq!(names(fs, &dir), files.keys().cloned().collect::<Vec<_>>(), "{dir}");
    }
    (dir, files)
}

/// Health of the server, in a word.
fn state(place: &Place, server: usize) -> String {
    let said = place.say(&["status", "--json", "--data", &place.data(server).display().to_string()], 0);
    let status: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    status["health"].as_str().unwrap_or_default().to_owned()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Checks the operations that go on in a full pool, for some leases.
fn goes_on(own: &Own, place: &Place, server: usize, programs: &Programs, fs: &Fs) {
    programs.until_more(3, |counts| &counts.no_names);
    until("status says that it is full", || state(place, server) == "full");
    let begun = Instant::now();
    while begun.elapsed() < 2 * LEASE {
        programs.until_more(4, |counts| &counts.read);
    }
    assert_eq!(fs.mkdir("/more", 0o755).err(), Some(FsError::NoSpace));
    assert_eq!(fs.link("/there", "/more").err(), Some(FsError::NoSpace));
    // As long as it was, it may be overwritten.
    write(fs, "/there", &vec![2; LARGE]).expect("no more room than it has");
    assert_eq!(write(fs, "/there", &vec![3; 20 * LARGE]), Err(FsError::NoSpace));
    assert_eq!(write(fs, "/small", b"longer than it was, though not by much"), Err(FsError::NoSpace));
    let there = fs.read("/there").expect("it can be read");
    assert!(there.len() >= LARGE && there.iter().all(|byte| [2, 3].contains(byte)), "of {} bytes", there.len());
    assert_eq!(fs.read("/small").as_deref(), Ok(b"small".as_slice()));
    assert!(own.objects() > 0);
}

#[test]
fn a_pool_that_becomes_full_refuses_what_needs_room_and_everything_else_goes_on_also_by_a_server_that_takes_over() {
    let Some((own, place)) = Own::new() else { return };
    let lease = format!("lease_ms={}", LEASE.as_millis());
    let args = ["--ranks", "2", "--set", &lease];
    let mut first = place.serve(0, &args);
    first.until_serves();
    let mut second = place.serve(1, &args);
    let fs = connect(&place.address(2));
    for name in ["/there", "/gone"] {
        fs.open(name, OpenHow::create()).and_then(|file| file.close()).expect("there is room");
        write(&fs, name, &vec![1; LARGE]).expect("there is room");
    }
    fs.open("/small", OpenHow::create()).and_then(|file| file.close()).expect("there is room");
    write(&fs, "/small", b"small").expect("there is room");
    let programs = Programs::start(&place.address(2), 2);
    programs.until_more(40, |counts| &counts.made);

    own.is_full(true);
    goes_on(&own, &place, 0, &programs, &fs);
    assert!(!first.is_over() && !second.serves(), "nobody has taken over");

    first.kill();
    second.until_serves();
    goes_on(&own, &place, 1, &programs, &fs);
    // What is removed makes room.
    let before = own.objects();
    fs.unlink("/gone").expect("it can be removed");
    programs.until_more(1, |counts| &counts.read);
    let third = place.serve(0, &args);
    eprintln!("{before} objects with file data before a file was removed, {} after", own.objects());

    own.is_full(false);
    programs.until_more(40, |counts| &counts.made);
    fs.mkdir("/more", 0o755).expect("there is room again");
    until("status says that it serves", || state(&place, 1) == "serving");
    let Counts { made, no_names, no_contents, read, renamed, removed, .. } = &*programs.counts;
    eprintln!(
        "made {made:?}, names refused {no_names:?}, contents {no_contents:?}, read {read:?}, renamed {renamed:?}, removed {removed:?}"
    );
    programs.check(&place.address(2));
    drop((fs, third));
    second.end();
    place.run(&["store", "check"], 0);
}

/// With all of it removed the pool has room by itself, although the quota stays.
#[test]
fn removing_files_from_a_full_pool_makes_room() {
    let Some((own, place)) = Own::new() else { return };
    let mut server: Server = place.serve(0, &[]);
    server.until_serves();
    let fs = connect(&place.address(1));
    for number in 0..40 {
        let name = format!("/f{number}");
        fs.open(&name, OpenHow::create()).and_then(|file| file.close()).expect("there is room");
        write(&fs, &name, &vec![1; LARGE]).expect("there is room");
    }
    let quota = r#""prefix": "osd pool set-quota", "field": "max_objects""#;
    own.ask(&format!(r#"{quota}, "pool": "{}", "val": "40""#, own.pool));
    until("it is full", || match fs.mkdir("/more", 0o755) {
        Ok(_) => {
            fs.rmdir("/more").expect("it was just made");
            false
        }
        Err(error) => error == FsError::NoSpace,
    });
    (0..40).for_each(|number| fs.unlink(format!("/f{number}")).expect("it can be removed"));
    until("there is room", || fs.mkdir("/more", 0o755).is_ok());
    assert!(own.objects() < 40);
    write_new(&fs, "/new").expect("there is room");
    drop(fs);
    server.end();
    place.run(&["store", "check"], 0);
}

fn write_new(fs: &Fs, name: &str) -> FsResult<()> {
    fs.open(name, OpenHow::create()).and_then(|file| file.close())?;
    write(fs, name, &vec![1; LARGE])
}

#[test]
fn the_space_that_is_shown_is_the_pools_within_its_quota() {
    let Some((own, place)) = Own::new() else { return };
    let mut server = place.serve(0, &[]);
    server.until_serves();
    let data = place.data(0).display().to_string();
    let limit = 64u64 << 20;
    let quota = r#""prefix": "osd pool set-quota", "field": "max_bytes""#;
    own.ask(&format!(r#"{quota}, "pool": "{}", "val": "{limit}""#, own.pool));
    let until = Instant::now() + PATIENCE;
    loop {
        let status: serde_json::Value =
            serde_json::from_str(&place.say(&["status", "--data", &data, "--json"], 0)).expect("JSON");
        let disk = &status["space"];
        if disk["total_bytes"].as_u64() == Some(limit) {
            assert!(disk["free_bytes"].as_u64().is_some_and(|free| free <= limit), "{disk}");
            break;
        }
        assert!(Instant::now() < until, "{disk}");
        std::thread::sleep(Duration::from_millis(50));
    }
    server.end();
}
