//! The client against the server of this crate, in memory: scenarios of programs, of two clients, and of restarts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loligo_store::mem::{CrashPlan, MemDisk};
use loligo_store::{Backend, Identity};
use loligo_types::{Answer, Cred, FsError, Ino, Name, Op, OpenFlags, SetAttr};

use super::path::OpenHow;
use super::{Call, Client, Invalidate, Options};
use crate::Address;
use crate::server::{FormatOptions, Server, ServerConfig, format};

const LIMIT: Duration = Duration::from_secs(20);

struct World {
    disk: MemDisk,
    server: Option<Server>,
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let disk = MemDisk::new(Identity::new([7; 16], [9; 16]));
        let backend: Arc<dyn Backend> = disk.open().unwrap();
        format(&*backend, &FormatOptions { mode: 0o777, ..FormatOptions::default() }).unwrap();
        drop(backend);
        let mut world = World { disk, server: None, dir: tempfile::tempdir().unwrap() };
        world.start();
        world
    }

    fn address(&self) -> Address {
        Address::Unix(self.dir.path().join("socket"))
    }

    fn start(&mut self) {
        let mut config = ServerConfig::new(self.disk.open().unwrap());
        config.listen = vec![self.address()];
        self.server = Some(Server::start(config, &mut |_| ()).unwrap());
    }

    fn restart(&mut self) {
        self.server.take().unwrap().stop().unwrap();
        self.start();
    }

    /// Ends the server with lost power: unsynced bytes are gone.
    fn power_loss(&mut self) {
        let server = self.server.take().unwrap();
        self.disk.crash(&CrashPlan::lose_all());
        // It fails to stop cleanly, as its disk is gone.
        let _ = server.stop();
        drop(server);
        self.start();
    }

    fn client(&self, name: &str) -> Client {
        Client::connect(&self.address(), options(name)).unwrap()
    }
}

fn options(name: &str) -> Options {
    Options { name: name.into(), cache: true, cache_names: true, ..Options::default() }
}

fn root() -> Arc<Cred> {
    Arc::new(Cred::root())
}

fn pattern(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3] ^ salt).collect()
}

#[test]
fn a_program_uses_paths() {
    let world = World::new();
    let client = world.client("paths");
    let fs = client.fs(root());
    fs.mkdir("/a", 0o755).unwrap();
    fs.mkdir("a/b/", 0o755).unwrap();
    fs.write("/a/b/small", b"hello".to_vec()).unwrap();
    assert_eq!(fs.read("/a/b/small").unwrap(), b"hello");
    fs.symlink("b/small", "/a/link").unwrap();
    fs.symlink("/a", "/top").unwrap();
    assert_eq!(fs.read("/top/./b/../link").unwrap(), b"hello");
    assert_eq!(fs.stat("/top/link").unwrap().size, 5);
    assert_eq!(&*fs.readlink("/a/link").unwrap(), b"b/small");
    assert_eq!(fs.stat("/a/b/small/").unwrap_err(), FsError::NotDir);
    assert_eq!(fs.stat("/none/x").unwrap_err(), FsError::NotFound);
    fs.symlink("loop", "/loop").unwrap();
    assert_eq!(fs.stat("/loop").unwrap_err(), FsError::Loop);
    let file = fs.open("/a/link", OpenHow::append()).unwrap();
    file.write_at(0, b", world".to_vec()).unwrap();
    file.close().unwrap();
    fs.rename("/a/b/small", "/a/big").unwrap();
    assert_eq!(fs.read("/a/big").unwrap(), b"hello, world");
    fs.link("/a/big", "/a/b/again").unwrap();
    let mut names: Vec<_> = fs.readdir("/a").unwrap().iter().map(|entry| entry.name.to_string()).collect();
    names.sort();
    assert_eq!(names, ["b", "big", "link"]);
    fs.set_attr("/a/big", SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
    assert_eq!(fs.stat("/a/b/again").unwrap().mode, 0o600);
    assert_eq!(client.fs(Arc::new(Cred::user(5, 5))).read("/a/big").unwrap_err(), FsError::Access);
    fs.unlink("/a/big").unwrap();
    assert_eq!(fs.rmdir("/a").unwrap_err(), FsError::NotEmpty);
    fs.sync_all().unwrap();
    client.stop(LIMIT).unwrap();
}

#[test]
fn large_files_are_read_as_they_were_written() {
    let world = World::new();
    let client = world.client("large");
    let fs = client.fs(root());
    let content = pattern(10 << 20, 3);
    let file = fs.open("/large", OpenHow::create()).unwrap();
    for (n, chunk) in content.chunks(128 << 10).enumerate() {
        file.write_at((n * (128 << 10)) as u64, chunk.to_vec()).unwrap();
    }
    file.sync().unwrap();
    assert_eq!(file.stat().unwrap().size, content.len() as u64);
    file.write_at(5_000_000, b"patch".to_vec()).unwrap();
    assert_eq!(
        &*file.read_at(4_999_998, 9).unwrap(),
        [&content[4_999_998..5_000_000], b"patch", &content[5_000_005..5_000_007]].concat()
    );
    file.set_len(6_000_000).unwrap();
    file.set_len(6_000_100).unwrap();
    file.close().unwrap();
    let other = world.client("reader");
    let seen = other.fs(root()).read("/large").unwrap();
    assert_eq!(seen.len(), 6_000_100);
    assert!(seen[..5_000_000] == content[..5_000_000]);
    assert!(seen[6_000_000..].iter().all(|b| *b == 0));
    other.stop(LIMIT).unwrap();
    client.stop(LIMIT).unwrap();
}

#[test]
fn two_clients_see_each_others_writes() {
    let world = World::new();
    let (a, b) = (world.client("a"), world.client("b"));
    let (fa, fb) = (a.fs(root()), b.fs(root()));
    for size in [10usize, 3000, 9000, 300_000] {
        let path = format!("/shared{size}");
        let ours = fa.open(&path, OpenHow::create()).unwrap();
        ours.write_at(0, pattern(size, 1)).unwrap();
        assert_eq!(fb.stat(&path).unwrap().size, size as u64, "held back by the other");
        let theirs = fb.open(&path, OpenHow::read_write()).unwrap();
        assert_eq!(&*theirs.read_at(0, 1 << 20).unwrap(), pattern(size, 1));
        theirs.write_at(size as u64, b"more".to_vec()).unwrap();
        assert_eq!(&*ours.read_at(size as u64 - 1, 10).unwrap(), [&pattern(size, 1)[size - 1..], b"more"].concat());
        ours.write_at(1, b"#".to_vec()).unwrap();
        assert_eq!(&*theirs.read_at(1, 1).unwrap(), b"#");
        theirs.set_len(2).unwrap();
        assert_eq!(ours.read_at(0, 10).unwrap().len(), 2);
        ours.close().unwrap();
        theirs.close().unwrap();
    }
    a.stop(LIMIT).unwrap();
    b.stop(LIMIT).unwrap();
}

#[test]
fn appends_of_two_clients_are_all_there() {
    let world = World::new();
    let clients = [world.client("a"), world.client("b")];
    clients[0].fs(root()).write("/log", Vec::new()).unwrap();
    std::thread::scope(|scope| {
        for (n, client) in clients.iter().enumerate() {
            scope.spawn(move || {
                let file = client.fs(root()).open("/log", OpenHow::append()).unwrap();
                for i in 0..200 {
                    file.write_at(0, format!("{n} {i:06} {}\n", "x".repeat(40)).into_bytes()).unwrap();
                }
                file.close().unwrap();
            });
        }
    });
    let text = String::from_utf8(clients[0].fs(root()).read("/log").unwrap()).unwrap();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 400);
    lines.sort();
    lines.dedup();
    assert_eq!(lines.len(), 400);
    for client in clients {
        client.stop(LIMIT).unwrap();
    }
}

/// Remembers what it was told.
#[derive(Default)]
struct Told {
    names: Mutex<Vec<Ino>>,
    attrs: Mutex<Vec<Ino>>,
    data: AtomicUsize,
}

impl Invalidate for Told {
    fn names(&self, dirs: &[Ino]) {
        self.names.lock().unwrap().extend(dirs);
    }
    fn attr(&self, ino: Ino) {
        self.attrs.lock().unwrap().push(ino);
    }
    fn data(&self, _: Ino) {
        self.data.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn caches_above_are_told_before_a_change_of_another_is_acknowledged() {
    let world = World::new();
    let told = Arc::new(Told::default());
    let a = Client::connect(
        &world.address(),
        Options { invalidate: Some(Arc::clone(&told) as Arc<dyn Invalidate>), ..options("a") },
    )
    .unwrap();
    let b = world.client("b");
    b.fs(root()).write("/f", b"1".to_vec()).unwrap();
    let lookup = |name: &[u8]| Call::Op(Op::Lookup { dir: Ino::ROOT, name: Name::new(name).unwrap() });
    // The writer's handle is still open at the server for a while; only then attributes are lent.
    b.fs(root()).read("/f").unwrap();
    let absent = a.call(&root(), lookup(b"g")).unwrap_err();
    assert!(absent.names_cached);
    b.fs(root()).write("/g", b"2".to_vec()).unwrap();
    assert!(told.names.lock().unwrap().contains(&Ino::ROOT));
    b.stop(LIMIT).unwrap();
    let found = a.call(&root(), lookup(b"f")).unwrap();
    assert!(found.attr_cached, "nobody writes it");
    let ino = found.attr().unwrap().ino;
    let c = world.client("c");
    c.fs(root()).set_attr("/f", SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
    assert_eq!(*told.attrs.lock().unwrap(), [ino]);
    let file = a.fs(root()).open("/f", OpenHow::read()).unwrap();
    let before = told.data.load(Ordering::SeqCst);
    c.fs(root()).write("/f", b"3".to_vec()).unwrap();
    assert!(told.data.load(Ordering::SeqCst) > before);
    assert_eq!(&*file.read_at(0, 9).unwrap(), b"3");
    file.close().unwrap();
    a.stop(LIMIT).unwrap();
    c.stop(LIMIT).unwrap();
}

#[test]
fn a_restart_of_the_server_is_not_noticed() {
    let mut world = World::new();
    let client = world.client("survivor");
    let fs = client.fs(root());
    let file = fs.open("/f", OpenHow::create()).unwrap();
    file.write_at(0, pattern(20_000, 1)).unwrap();
    file.sync().unwrap();
    file.write_at(20_000, b"held back over the restart".to_vec()).unwrap();
    fs.write("/gone", b"orphan".to_vec()).unwrap();
    let orphan = fs.open("/gone", OpenHow::read()).unwrap();
    fs.unlink("/gone").unwrap();
    world.restart();
    fs.mkdir("/after", 0o755).unwrap();
    file.close().unwrap();
    assert_eq!(fs.read("/f").unwrap().len(), 20_026);
    assert_eq!(&*orphan.read_at(0, 10).unwrap(), b"orphan");
    orphan.close().unwrap();
    client.stop(LIMIT).unwrap();
}

#[test]
fn what_was_synced_survives_power_losses_under_a_client() {
    let mut world = World::new();
    let client = world.client("stubborn");
    let fs = client.fs(root());
    let file = fs.open("/f", OpenHow::create()).unwrap();
    let mut expected = Vec::new();
    for round in 0..5u8 {
        let part = pattern(3000 * (1 + usize::from(round)), round);
        file.write_at(expected.len() as u64, part.clone()).unwrap();
        expected.extend_from_slice(&part);
        fs.write(format!("/small{round}"), vec![round; 100]).unwrap();
        file.sync().unwrap();
        // Held back, and so not lost with the server.
        file.write_at(expected.len() as u64, vec![round; 10]).unwrap();
        expected.extend_from_slice(&[round; 10]);
        world.power_loss();
        assert_eq!(file.stat().unwrap().size, expected.len() as u64);
    }
    file.sync().unwrap();
    let other = world.client("judge");
    assert!(other.fs(root()).read("/f").unwrap() == expected);
    for round in 0..5u8 {
        assert_eq!(other.fs(root()).read(format!("/small{round}")).unwrap(), [round; 100]);
    }
    other.stop(LIMIT).unwrap();
    file.close().unwrap();
    client.stop(LIMIT).unwrap();
}

#[test]
fn a_callback_that_panics_takes_nobody_else_along() {
    let world = World::new();
    let client = world.client("clumsy");
    client.submit(&root(), Call::GetAttr { ino: Ino::ROOT }, |_| panic!("on purpose"));
    for _ in 0..10 {
        client.call(&root(), Call::GetAttr { ino: Ino::ROOT }).unwrap();
    }
    client.stop(LIMIT).unwrap();
}

#[test]
fn batches_and_futures_are_answered() {
    let world = World::new();
    let client = world.client("batch");
    let (sender, results) = channel();
    let mut batch = client.batch();
    for n in 0..500 {
        let sender = sender.clone();
        let name = Name::new(format!("f{n}").as_bytes()).unwrap();
        let flags = OpenFlags { write: true, ..OpenFlags::default() };
        let call = Call::Create { dir: Ino::ROOT, name, mode: 0o644, umask: 0, flags, exclusive: true };
        batch.add(&root(), call, move |result| sender.send(result).unwrap());
    }
    let statfs = batch.add_async(&root(), Call::Op(Op::StatFs));
    batch.send();
    for _ in 0..500 {
        let done = results.recv_timeout(LIMIT).unwrap().unwrap();
        client.call(&root(), Call::Release { fh: done.fh.unwrap(), flock_owner: None }).unwrap();
    }
    assert!(matches!(super::path::block_on(&client, statfs).unwrap().answer, Answer::StatFs(_)));
    assert_eq!(client.fs(root()).readdir("/").unwrap().len(), 500);
    client.stop(LIMIT).unwrap();
    let call = Call::GetAttr { ino: Ino::ROOT };
    assert_eq!(client.call(&root(), call).unwrap_err().error, FsError::Unavailable);
}

#[test]
fn nobody_there_is_said_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let error = Client::connect(&Address::Unix(dir.path().join("none")), options("x")).err().unwrap();
    assert!(error.to_string().contains("is the server running there?"), "{error}");
}
