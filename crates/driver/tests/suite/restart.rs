//! Durability over retries, restarts, lost power, full and failing disks.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Raw, Site, create, lookup, mkdir};
use loligo_driver::{Address, FormatOptions, Offline, RowsError, Server, ServerConfig, ServerError, format};
use loligo_journal::table::Row;
use loligo_store::mem::{CrashPlan, Fault, FaultPoint};
use loligo_store::{Backend, ObjectId, StoreError};
use loligo_store_local::{LocalStore, OpenOptions};
use loligo_types::msg::{DataRequest, Reclaim, ToClient, ToServer};
use loligo_types::{Answer, DataOp, FsError, Ino, Op, OpenFlags, SetTime};

const ROOT: Ino = Ino::ROOT;

#[test]
fn a_request_repeated_on_a_new_connection_is_executed_once() {
    let site = Site::new();
    let _server = site.start();
    let mut raw = Raw::connect(&site.socket());
    let welcome = raw.hello(None);
    let request = raw.request(mkdir(ROOT, "a"));
    raw.send(&request);
    let first = raw.reply(1).expect("made");
    drop(raw.stream);
    let mut raw = Raw::connect(&site.socket());
    let again = raw.hello(Some((welcome.session, welcome.secret)));
    assert!(again.resumed && again.kept && again.session == welcome.session);
    raw.send(&request);
    assert_eq!(raw.reply(1), Ok(first), "the same answer, and not `exists`");
}

#[test]
fn a_request_repeated_after_lost_power_is_executed_once() {
    let site = Site::new();
    let server = site.start();
    let mut raw = Raw::connect(&site.socket());
    let welcome = raw.hello(None);
    let request = raw.request(mkdir(ROOT, "a"));
    raw.send(&request);
    raw.reply(1).expect("made");
    site.power_loss(server);
    let _server = site.start();
    let mut raw = Raw::connect(&site.socket());
    let again = raw.hello(Some((welcome.session, welcome.secret)));
    assert!(again.resumed && !again.kept);
    raw.send(&ToServer::Reclaim(Reclaim::default()));
    raw.send(&request);
    assert!(raw.reply(1).is_ok(), "answered again, not `exists`");
    raw.seq = 1;
    assert_eq!(raw.call(mkdir(ROOT, "a")), Err(FsError::Exists));
}

#[test]
fn everything_acknowledged_survives_stops_and_lost_power() {
    let site = Site::new();
    let mut made: Vec<(String, Ino)> = Vec::new();
    for round in 0..6 {
        let server = site.start();
        let mut raw = Raw::session(&site.socket());
        for (name, ino) in &made {
            assert_eq!(raw.entry(lookup(ROOT, name)).ino, *ino, "{name}");
        }
        for n in 0..50 {
            let name = format!("d{round}.{n}");
            let ino = raw.entry(mkdir(ROOT, &name)).ino;
            assert!(made.iter().all(|(_, known)| *known != ino), "a number given twice");
            made.push((name, ino));
        }
        if round % 2 == 0 {
            site.power_loss(server);
        } else {
            server.stop().expect("it stops");
        }
    }
}

#[test]
fn after_a_clean_stop_nothing_is_replayed() {
    let site = Site::new();
    let server = site.start();
    let mut raw = Raw::session(&site.socket());
    for n in 0..100 {
        raw.entry(mkdir(ROOT, &format!("d{n}")));
    }
    server.stop().expect("it stops");
    drop(server);
    let mut records = None;
    let _server = Server::start(site.config(), &mut |progress| records = Some(progress.records)).expect("it starts");
    assert_eq!(records, Some(0));
}

#[test]
fn offline_sees_what_the_journal_has_and_writes_repairs() {
    let site = Site::new();
    let server = site.start();
    let mut raw = Raw::session(&site.socket());
    let dir = raw.entry(mkdir(ROOT, "a"));
    raw.entry(mkdir(ROOT, "b"));
    raw.call(loligo_types::Op::Rmdir { dir: ROOT, name: crate::common::name("b") }).expect("empty");
    site.power_loss(server);
    let backend: Arc<dyn Backend> = site.disk.open().expect("free");
    let mut offline = Offline::open(backend, &mut |_| {}).expect("it opens");
    assert!(!offline.was_clean());
    let names = |offline: &Offline| {
        let mut names = Vec::new();
        offline
            .rows(&mut |(_, row)| {
                if let Row::Entry { name, .. } = row.expect("good rows") {
                    names.push(name.to_string());
                }
                ControlFlow::Continue(())
            })
            .expect("it reads");
        names
    };
    assert_eq!(names(&offline), ["a"]);
    let renamed = crate::common::name("z");
    let kind = loligo_types::Kind::Dir;
    offline
        .write(&[
            loligo_types::Event::EntryGone { dir: ROOT, name: crate::common::name("a") },
            loligo_types::Event::Entry { dir: ROOT, name: renamed, ino: dir.ino, kind, remote: false },
        ])
        .expect("it writes");
    assert_eq!(names(&offline), ["z"]);
    offline.close().expect("it closes");
    let _server = site.start();
    let mut raw = Raw::session(&site.socket());
    assert_eq!(raw.entry(lookup(ROOT, "z")).ino, dir.ino);
    assert_eq!(raw.call(lookup(ROOT, "a")), Err(FsError::NotFound));
    assert!(raw.entry(mkdir(ROOT, "new")).ino > dir.ino);
}

#[test]
fn a_full_disk_makes_changes_wait_and_loses_nothing() {
    let site = Site::new();
    let server = site.start();
    let mut raw = Raw::session(&site.socket());
    raw.entry(mkdir(ROOT, "before"));
    site.disk.set_capacity(Some(site.disk.used()));
    let request = raw.request(mkdir(ROOT, "during"));
    raw.send(&request);
    raw.stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a time-out");
    let mut byte = [0];
    let waited = std::io::Read::read(&mut raw.stream, &mut byte);
    assert!(waited.is_err(), "no answer while it is not durable: {waited:?}");
    assert_eq!(server.metrics().journal_full.get(), 1);
    site.disk.set_capacity(None);
    raw.stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    raw.reply(2).expect("made when there was space");
    // The rank hears a moment after the journal that there is room, and refuses changes until then.
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while let Err(error) = raw.call(mkdir(ROOT, "after")) {
        assert_eq!(error, FsError::NoSpace);
        assert!(std::time::Instant::now() < until, "it never hears of it");
    }
    server.stop().expect("it stops");
}

#[test]
fn a_server_that_cannot_checkpoint_ends_when_told_and_loses_nothing() {
    let site = Site::new();
    let server = site.start();
    let mut raw = Raw::session(&site.socket());
    raw.entry(mkdir(ROOT, "a"));
    site.disk.set_capacity(Some(site.disk.used()));
    let error = server.stop_within(Duration::from_millis(300)).expect_err("it cannot stop cleanly");
    assert!(error.to_string().contains("next start recovers"), "{error}");
    drop(server);
    site.disk.set_capacity(None);
    let _server = site.start();
    Raw::session(&site.socket()).entry(lookup(ROOT, "a"));
}

#[test]
fn a_failed_sync_stops_the_server_and_takes_back_nothing() {
    let site = Site::new();
    let server = site.start();
    let mut raw = Raw::session(&site.socket());
    raw.entry(mkdir(ROOT, "acknowledged"));
    site.disk.fail(FaultPoint::LogSync, 1, Fault::Io);
    let request = raw.request(mkdir(ROOT, "lost"));
    raw.send(&request);
    assert_eq!(raw.try_recv(), None, "no answer, and the end");
    let text = server.wait_fatal(Some(Duration::from_secs(10))).expect("it says why");
    assert!(text.contains("journal"), "{text}");
    assert!(server.stop().is_err());
    drop(server);
    let _server = site.start();
    let mut raw = Raw::session(&site.socket());
    raw.entry(lookup(ROOT, "acknowledged"));
}

#[test]
fn a_checkpoint_that_fails_is_tried_again() {
    let site = Site::new();
    let server = site.start();
    let mut raw = Raw::session(&site.socket());
    raw.entry(mkdir(ROOT, "a"));
    site.disk.fail(FaultPoint::TableWrite, 1, Fault::Io);
    server.stop().expect("the second attempt goes well");
    drop(server);
    let _server = site.start();
    Raw::session(&site.socket()).entry(lookup(ROOT, "a"));
}

#[test]
fn a_second_server_and_a_second_format_are_refused() {
    let site = Site::new();
    let server = site.start();
    assert!(matches!(site.disk.open(), Err(StoreError::InUse { .. })));
    server.stop().expect("it stops");
    drop(server);
    let backend = site.disk.open().expect("free");
    assert!(matches!(format(&*backend, &FormatOptions::default()), Err(ServerError::AlreadyFormatted)));
}

#[test]
fn a_store_without_a_file_system_is_refused() {
    let disk = loligo_store::mem::MemDisk::new(loligo_store::Identity::new([1; 16], [2; 16]));
    let config = ServerConfig::new(disk.open().expect("free"));
    assert!(matches!(Server::start(config, &mut |_| {}), Err(ServerError::Rows(RowsError::NotFormatted))));
}

#[test]
fn a_directory_on_a_real_disk_serves_stops_and_serves_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    LocalStore::format(&data, &loligo_store_local::FormatOptions::default()).expect("formatted");
    let open = || LocalStore::open(&data, &OpenOptions::default());
    format(&open().expect("opens"), &FormatOptions::default()).expect("a file system");
    let socket = data.join("loligo.sock");
    let mut inos = Vec::new();
    for round in 0..3 {
        let backend: Arc<dyn Backend> = Arc::new(open().expect("opens"));
        let mut config = ServerConfig::new(backend);
        config.listen.push(Address::Unix(socket.clone()));
        config.mds.grace_ms = 100;
        let server = Server::start(config, &mut |_| {}).expect("it starts");
        assert!(matches!(open(), Err(StoreError::InUse { .. })), "a second server");
        let mut raw = Raw::session(&socket);
        for (n, ino) in inos.iter().enumerate() {
            assert_eq!(raw.entry(lookup(ROOT, &format!("f{n}"))).ino, *ino);
        }
        inos.push(raw.entry(create(ROOT, &format!("f{round}"), 1)).ino);
        server.stop().expect("it stops");
    }
}

#[test]
fn a_small_journal_is_trimmed_under_load_and_never_stops_the_work() {
    let site = Site::new();
    let mut config = site.config();
    (config.journal_bytes, config.segment_bytes) = (1, 1);
    config.mds.dirty_max = 500;
    let server = Server::start(config, &mut |_| {}).expect("it starts");
    let mut raw = Raw::pair(&server);
    raw.hello(None);
    let value: Arc<[u8]> = Arc::from(vec![b'x'; 60_000]);
    for n in 0..600 {
        let set = loligo_types::Op::SetXattr {
            ino: ROOT,
            name: Arc::from(&b"user.a"[..]),
            value: value.clone(),
            mode: loligo_types::XattrMode::Set,
        };
        raw.call(set).unwrap_or_else(|error| panic!("change {n}: {error}"));
    }
    let metrics = server.metrics();
    assert!(metrics.journal_bytes.get() > 32 << 20, "{}", metrics.journal_bytes.get());
    assert!(metrics.journal_space.get() < 20 << 20, "{}", metrics.journal_space.get());
    site.power_loss(server);
    let _server = site.start();
    let get = loligo_types::Op::GetXattr { ino: ROOT, name: Arc::from(&b"user.a"[..]) };
    assert_eq!(Raw::session(&site.socket()).call(get), Ok(loligo_types::Answer::Bytes(value)));
}

#[test]
fn small_appends_to_a_file_in_its_inode_survive_lost_power_whatever_the_table_has() {
    let site = Site::new();
    let start = || {
        let mut config = site.config();
        (config.mds.inline_max, config.mds.dirty_ms_max) = (16 << 10, 5);
        Server::start(config, &mut |_| {}).expect("it starts")
    };
    let mut data: Vec<u8> = Vec::new();
    for round in 0..6 {
        let server = start();
        let mut raw = Raw::session(&site.socket());
        let ino = match round {
            0 => raw.entry(create(ROOT, "log", 1)).ino,
            _ => raw.entry(lookup(ROOT, "log")).ino,
        };
        let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
        raw.call(Op::Open { ino, flags, handle: 2 }).expect("it is there");
        let there = raw.call(Op::ReadInline { ino, handle: 2 });
        assert!(there == Ok(Answer::Bytes(data.as_slice().into())), "round {round}");
        for n in 0..25u8 {
            let more: Arc<[u8]> = vec![round * 25 + n; 97].into();
            data.extend_from_slice(&more);
            let (offset, mtime) = (None, SetTime::Now);
            raw.call(Op::WriteInline { ino, handle: 2, offset, data: more, mtime, kill_priv: false }).expect("written");
        }
        site.power_loss(server);
    }
    let _server = start();
    let mut raw = Raw::session(&site.socket());
    let ino = raw.entry(lookup(ROOT, "log")).ino;
    let flags = OpenFlags { read: true, ..OpenFlags::default() };
    raw.call(Op::Open { ino, flags, handle: 2 }).expect("it is there");
    assert!(raw.call(Op::ReadInline { ino, handle: 2 }) == Ok(Answer::Bytes(data.into())), "at the end");
}

#[test]
fn a_client_known_to_be_dead_is_not_waited_for_after_a_restart() {
    let site = Site::new();
    let patient = || {
        let mut config = site.config();
        config.mds.grace_ms = 600_000;
        Server::start(config, &mut |_| {}).expect("the server starts")
    };
    let server = patient();
    let mut gone = Raw::connect(&site.socket());
    let welcome = gone.hello(None);
    gone.call(create(ROOT, "f", 1)).expect("made");
    // What a client leaves behind that was killed: its file, without the lock.
    let files = site.socket().with_file_name("sessions");
    std::fs::create_dir_all(&files).expect("a directory of the test");
    std::fs::write(files.join(welcome.session.to_string()), "").expect("a file of the test");
    site.power_loss(server);
    let _server = patient();
    // The raw client gives up long before the grace time is over.
    let mut other = Raw::session(&site.socket());
    assert!(other.call(mkdir(ROOT, "d")).is_ok());
}

#[test]
fn a_client_is_told_whether_data_that_was_not_synced_may_be_lost() {
    let site = Site::new();
    let mut server = site.start();
    let mut raw = Raw::connect(&site.socket());
    let first = raw.hello(None);
    assert_ne!(first.data_epoch, 0);
    let mut epoch = first.data_epoch;
    for clean in [true, false, true, true] {
        if clean {
            server.stop().expect("it stops");
            drop(server);
        } else {
            site.power_loss(server);
        }
        server = site.start();
        let mut raw = Raw::connect(&site.socket());
        let again = raw.hello(Some((first.session, first.secret)));
        assert!(again.resumed);
        assert_eq!(again.data_epoch == epoch, clean);
        epoch = again.data_epoch;
    }
    site.power_loss(server);
    // That a repair leaves everything in order does not bring data back.
    let backend: Arc<dyn Backend> = site.disk.open().expect("free");
    Offline::open(backend, &mut |_| {}).expect("it opens").close().expect("it closes");
    let _server = site.start();
    let mut raw = Raw::connect(&site.socket());
    assert_ne!(raw.hello(None).data_epoch, epoch);
}

#[test]
fn data_that_was_not_synced_survives_a_clean_stop() {
    let site = Site::new();
    let server = site.start();
    let mut raw = Raw::session(&site.socket());
    let file = raw.entry(create(ROOT, "f", 1));
    let op = DataOp::Write { offset: 0, data: Arc::from(&b"written"[..]) };
    let object_size = file.layout.object_size;
    raw.send(&ToServer::Data(DataRequest { id: 1, ino: file.ino, object_size, op }));
    assert!(matches!(raw.recv(), ToClient::Data { result: Ok(_), .. }));
    server.stop().expect("it stops");
    drop(server);
    site.disk.crash(&CrashPlan::lose_all());
    let blobs = site.disk.open().expect("free").blobs();
    let mut bytes = [0; 7];
    blobs.read_at(ObjectId::new(file.ino.0, 0), 0, &mut bytes).expect("it reads");
    assert_eq!(&bytes, b"written");
}

/// A client was killed between the first object of a file and the word to the server, and the server with it.
#[test]
fn after_a_kill_objects_that_no_file_tells_of_are_dropped() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let data = dir.path().join("data");
    std::fs::create_dir(&data).expect("made");
    LocalStore::format(&data, &loligo_store_local::FormatOptions::default()).expect("formatted");
    let open = || Arc::new(LocalStore::open(&data, &OpenOptions::default()).expect("it opens"));
    format(&*open(), &FormatOptions::default()).expect("formatted");
    let socket = dir.path().join("socket");
    let start = |store: Arc<LocalStore>| {
        let config = ServerConfig { listen: vec![Address::Unix(socket.clone())], ..ServerConfig::new(store) };
        Server::start(config, &mut |_| {}).expect("it starts")
    };
    let server = start(open());
    let mut raw = Raw::session(&socket);
    let inos: Vec<Ino> = ["kept inline", "removed"].iter().map(|name| raw.entry(create(ROOT, name, 1)).ino).collect();
    drop(raw);
    server.stop().expect("it stops");
    drop(server);
    let killed = open();
    for ino in &inos {
        killed.blobs().write_at(ObjectId::new(ino.0, 0), 0, &[7; 9000]).expect("written");
    }
    // Not closed.
    drop(killed);
    let store = open();
    let server = start(store.clone());
    let mut raw = Raw::session(&socket);
    raw.call(loligo_types::Op::Unlink { dir: ROOT, name: crate::common::name("removed") }).expect("it is there");
    let left = || inos.iter().any(|ino| !store.blobs().objects_of(ino.0).expect("listed").is_empty());
    crate::common::wait_until("the objects are gone", || !left());
    drop(raw);
    server.stop().expect("it stops");
}
