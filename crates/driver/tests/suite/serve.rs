//! A server and raw connections: what it answers, and what it does with peers that break the rules.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Raw, Site, create, lookup, mkdir};
use loligo_driver::{Address, Server, ServerError};
use loligo_types::msg::{DataRequest, Hello, PROTOCOL_VERSION, Refusal, ToClient, ToServer};
use loligo_types::{Answer, DataAnswer, DataError, DataOp, FsError, Ino, Op, SetTime};

const ROOT: Ino = Ino::ROOT;

#[test]
fn a_connection_makes_and_finds_names() {
    let site = Site::new();
    let server = site.start();
    let mut raw = Raw::session(&site.socket());
    let dir = raw.entry(mkdir(ROOT, "a"));
    let file = raw.entry(create(dir.ino, "b", 1));
    assert_eq!(raw.entry(lookup(dir.ino, "b")).ino, file.ino);
    assert_eq!(raw.call(lookup(dir.ino, "c")), Err(FsError::NotFound));
    assert!(matches!(raw.call(Op::StatFs), Ok(Answer::StatFs(_))));
    raw.send(&ToServer::Ping);
    assert!(matches!(raw.recv(), ToClient::Pong { at_ms: 1.. }), "with its time");
    raw.send(&ToServer::Goodbye { gone: true });
    assert_eq!(raw.try_recv(), None);
    let status = server.status().expect("it runs");
    assert_eq!(status.ranks[0].mds.ops["mkdir"].count, 1);
    let done: u64 = status.ranks[0].metrics.ops.iter().map(|(_, op)| op.done.get()).sum();
    assert_eq!(done, 5);
    assert!(status.ranks[0].metrics.journal_sync.snapshot().count > 0);
    server.stop().expect("it stops");
}

#[test]
fn a_client_of_another_version_is_told_so() {
    let site = Site::new();
    let _server = site.start();
    let mut raw = Raw::connect(&site.socket());
    raw.send(&ToServer::Hello(Hello { versions: (90, 99), ..Hello::default() }));
    assert!(matches!(raw.recv(), ToClient::Refused { why: Refusal::Version, .. }));
    assert_eq!(raw.try_recv(), None);
}

#[test]
fn garbage_and_oversized_frames_close_only_the_connection_they_came_from() {
    let site = Site::new();
    let server = site.start();
    let mut good = Raw::session(&site.socket());
    let mut ping = Vec::new();
    loligo_wire::encode_to_server(&ToServer::Ping, &mut ping);
    let mut huge = ping[..16].to_vec();
    huge[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut broken = ping.clone();
    broken[12] ^= 1;
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), huge, broken] {
        let mut bad = Raw::connect(&site.socket());
        bad.stream.write_all(&bytes).expect("it is sent");
        assert!(matches!(bad.recv(), ToClient::Refused { why: Refusal::Malformed, .. }));
        assert_eq!(bad.try_recv(), None);
    }
    let mut early = Raw::connect(&site.socket());
    early.send(&ToServer::Ping);
    assert_eq!(early.try_recv(), None, "nothing makes sense before a hello");
    good.entry(mkdir(ROOT, "a"));
    assert_eq!(server.metrics().dropped.get(), 3);
}

#[test]
fn ten_thousand_creates_in_flight_are_each_answered_once() {
    const FILES: usize = 10_000;
    const WINDOW: usize = 500;
    let site = Site::new();
    let server = site.start();
    let mut raw = Raw::pair(&server);
    raw.hello(None);
    let mut bytes = Vec::new();
    let mut answered = vec![false; FILES + 1];
    let (mut sent, mut got) = (0, 0);
    while got < FILES {
        bytes.clear();
        while sent < FILES && sent - got < WINDOW {
            let request = raw.request(Op::Mknod {
                dir: ROOT,
                name: crate::common::name(&format!("f{sent}")),
                kind: loligo_types::Kind::File,
                mode: 0o644,
                umask: 0,
                rdev: 0,
            });
            loligo_wire::encode_to_server(&request, &mut bytes);
            sent += 1;
        }
        raw.stream.write_all(&bytes).expect("it is sent");
        let ToClient::Reply { seq, result, .. } = raw.recv() else { panic!("no reply") };
        assert!(result.is_ok(), "{result:?}");
        assert!(!std::mem::replace(&mut answered[seq.0 as usize], true), "answered twice");
        got += 1;
        while answered.get(raw.answered as usize).is_some_and(|a| *a) {
            raw.answered += 1;
        }
    }
    let metrics = server.metrics();
    let syncs = metrics.journal_sync.snapshot().count;
    assert!(syncs < FILES as u64 / 2, "group commit shares syncs: {syncs}");
    server.stop().expect("it stops");
}

#[test]
fn file_data_is_written_synced_and_read_by_who_has_it_open() {
    let site = Site::new();
    let _server = site.start();
    let mut raw = Raw::session(&site.socket());
    let file = raw.entry(create(ROOT, "f", 1));
    let object_size = file.layout.object_size;
    let data = |raw: &mut Raw, id, op| {
        raw.send(&ToServer::Data(DataRequest { id, ino: file.ino, object_size, op }));
        match raw.recv() {
            ToClient::Data { id: got, result } => {
                assert_eq!(got, id);
                result
            }
            other => panic!("instead of data: {other:?}"),
        }
    };
    let bytes: Arc<[u8]> = (0..100_000u32).map(|n| n as u8).collect();
    assert_eq!(data(&mut raw, 1, DataOp::Discard { from: 0 }), Ok(DataAnswer::Done));
    assert_eq!(data(&mut raw, 2, DataOp::Write { offset: 0, data: bytes.clone() }), Ok(DataAnswer::Done));
    assert_eq!(data(&mut raw, 3, DataOp::Sync), Ok(DataAnswer::Done));
    let set = Op::SetData {
        ino: file.ino,
        handle: 1,
        cuts: file.cuts,
        grow_to: Some(100_000),
        behind: None,
        mtime: SetTime::Now,
        spilled: true,
        kill_priv: false,
        patches: None,
    };
    assert_eq!(raw.entry(set).size, 100_000);
    assert_eq!(data(&mut raw, 4, DataOp::Read { offset: 0, len: 100_000 }), Ok(DataAnswer::Bytes(bytes)));
    let mut other = Raw::session(&site.socket());
    assert_eq!(data(&mut other, 5, DataOp::Read { offset: 0, len: 10 }), Err(DataError::Stale));
}

#[test]
fn a_truncated_file_loses_its_objects_before_the_answer() {
    let site = Site::new();
    let server = site.start();
    let mut raw = Raw::session(&site.socket());
    let file = raw.entry(create(ROOT, "f", 1));
    let write = DataOp::Write { offset: 0, data: Arc::from(vec![1u8; 50_000]) };
    raw.send(&ToServer::Data(DataRequest { id: 1, ino: file.ino, object_size: 4 << 20, op: write }));
    assert!(matches!(raw.recv(), ToClient::Data { result: Ok(_), .. }));
    let (ino, handle, mtime) = (file.ino, 1, SetTime::Now);
    let cuts = file.cuts;
    let set = Op::SetData {
        ino,
        handle,
        cuts,
        grow_to: Some(50_000),
        behind: None,
        mtime,
        spilled: true,
        kill_priv: false,
        patches: None,
    };
    raw.entry(set);
    let set = loligo_types::SetAttr { size: Some(10), ..loligo_types::SetAttr::default() };
    assert_eq!(raw.entry(Op::SetAttr { ino, set, handle: Some(1) }).size, 10);
    raw.send(&ToServer::Data(DataRequest {
        id: 2,
        ino,
        object_size: 4 << 20,
        op: DataOp::Read { offset: 0, len: 20 },
    }));
    let mut want = vec![1u8; 10];
    want.resize(20, 0);
    assert_eq!(raw.recv(), ToClient::Data { id: 2, result: Ok(DataAnswer::Bytes(want.into())) });
    server.stop().expect("it stops");
}

#[test]
fn a_peer_that_does_not_read_holds_up_nobody() {
    let site = Site::new();
    let server = site.start();
    let mut slow = Raw::session(&site.socket());
    let file = slow.entry(create(ROOT, "f", 1));
    let read = |id| {
        let op = DataOp::Read { offset: 0, len: 4 << 20 };
        ToServer::Data(DataRequest { id, ino: file.ino, object_size: 4 << 20, op })
    };
    let mut bytes = Vec::new();
    (0..40).for_each(|id| loligo_wire::encode_to_server(&read(id), &mut bytes));
    slow.stream.write_all(&bytes).expect("requests are small");
    let mut quick = Raw::session(&site.socket());
    for n in 0..50 {
        quick.entry(mkdir(ROOT, &format!("d{n}")));
    }
    assert!(server.metrics().bytes_out.get() < 64 << 20);
    for _ in 0..40 {
        assert!(matches!(slow.recv(), ToClient::Data { .. }));
    }
}

#[test]
fn a_connection_over_the_limit_is_told_so() {
    let site = Site::new();
    let mut config = site.config();
    config.connections_max = 2;
    let _server = Server::start(config, &mut |_| {}).expect("it starts");
    let _one = Raw::session(&site.socket());
    let _two = Raw::session(&site.socket());
    let mut three = Raw::connect(&site.socket());
    assert!(matches!(three.recv(), ToClient::Refused { why: Refusal::TooMany, .. }));
}

#[test]
fn who_says_nothing_is_closed_after_a_while() {
    let site = Site::new();
    let _server = site.start();
    let mut silent = UnixStream::connect(site.socket()).expect("it listens");
    silent.set_read_timeout(Some(Duration::from_secs(15))).expect("a time-out");
    let begun = Instant::now();
    assert_eq!(silent.read(&mut [0; 8]).expect("closed, not silent for ever"), 0);
    assert!(begun.elapsed() > Duration::from_secs(3));
}

#[test]
fn an_address_that_is_not_this_hosts_is_refused_with_the_reason() {
    let site = Site::new();
    let mut config = site.config();
    config.listen.push(Address::Tcp("192.0.2.1:9999".into()));
    let error = Server::start(config, &mut |_| {}).err().expect("refused");
    assert!(matches!(error, ServerError::Listen { .. }), "{error}");
    assert!(error.to_string().contains("192.0.2.1"), "{error}");
}

#[test]
fn loopback_tcp_serves_only_where_its_users_are_trusted() {
    for trust in [false, true] {
        let site = Site::new();
        let mut config = site.config();
        config.listen = vec![Address::Tcp("127.0.0.1:0".into())];
        config.trust_tcp = trust;
        let server = Server::start(config, &mut |_| {}).expect("it starts");
        let Address::Tcp(at) = &server.addresses()[0] else { panic!("not TCP") };
        let mut stream = TcpStream::connect(at).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
        let mut bytes = Vec::new();
        let hello = Hello { versions: (PROTOCOL_VERSION, PROTOCOL_VERSION), ..Hello::default() };
        loligo_wire::encode_to_server(&ToServer::Hello(hello), &mut bytes);
        stream.write_all(&bytes).expect("it is sent");
        let mut decoder = loligo_wire::Decoder::<loligo_wire::FromServer>::new();
        let msg = loop {
            let n = stream.read(decoder.space()).expect("an answer");
            decoder.filled(n);
            if let Some(msg) = decoder.next_message().expect("a good frame") {
                break msg;
            }
        };
        match msg {
            ToClient::Welcome(_) => assert!(trust),
            ToClient::Refused { why, .. } => assert!(!trust && why == Refusal::NotAuthorized),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_socket_left_by_a_killed_server_is_replaced_and_a_live_one_is_not() {
    let site = Site::new();
    drop(std::os::unix::net::UnixListener::bind(site.socket()).expect("a socket"));
    let server = site.start();
    Raw::session(&site.socket());
    let other = Site::new();
    let mut config = other.config();
    config.listen = vec![Address::Unix(site.socket())];
    let error = Server::start(config, &mut |_| {}).err().expect("refused");
    assert!(error.to_string().contains("another server"), "{error}");
    server.stop().expect("it stops");
    drop(server);
    assert!(!site.socket().exists(), "a clean stop removes it");
    std::fs::write(site.socket(), b"text").expect("a file");
    let error = Server::start(site.config(), &mut |_| {}).err().expect("refused");
    assert!(error.to_string().contains("no socket"), "{error}");
}

#[test]
fn what_a_dead_client_held_is_free_at_once() {
    let site = Site::new();
    let _server = site.start();
    let mut doomed = Raw::connect(&site.socket());
    let welcome = doomed.hello(None);
    let file = doomed.entry(create(ROOT, "f", 1)).ino;
    // What a client leaves behind that was killed: its file, without the lock.
    let files = site.socket().with_file_name("sessions");
    std::fs::create_dir_all(&files).expect("a directory of the test");
    std::fs::write(files.join(welcome.session.to_string()), "").expect("a file of the test");
    drop(doomed);
    // The attributes are with the one who may hold back writes: asking for them waits for it, or for its end, and its
    // session would last longer than this client's patience.
    let mut other = Raw::session(&site.socket());
    assert_eq!(other.entry(Op::GetAttr { ino: file }).ino, file);
}

#[test]
fn a_status_tells_the_cpu_time_of_the_moment() {
    let site = Site::new();
    let server = site.start();
    let mut raw = Raw::session(&site.socket());
    let before = server.status().expect("it runs").ranks[0].metrics.rank_cpu_ns.get();
    for _ in 0..100 {
        raw.entry(mkdir(Ino::ROOT, "x"));
        raw.call(Op::Rmdir { dir: Ino::ROOT, name: crate::common::name("x") }).expect("it is empty");
    }
    assert!(server.status().expect("it runs").ranks[0].metrics.rank_cpu_ns.get() > before, "100 requests took no time");
}
