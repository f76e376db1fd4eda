//! Users of the machine who have nothing to do with the file system, and peers who show no identity: what they see, and that whatever they
//! do takes nothing from those who have.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use loligo_driver::client::{Call, Client, Options};
use loligo_types::{Control, Cred, Ino, Interfere, Name, Op, SubtreeOp};

use super::run::{PATIENCE, Place, Service, can_mount, loligo, loligo_in, not_tested, sh, until};

/// Where its admin plane listens.
fn admin_of(data: &Path) -> SocketAddr {
    let text = std::fs::read_to_string(data.join("server.json")).expect("a file");
    let state: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    state["admin"].as_str().expect("an address").parse().expect("an address")
}

/// Where it listens for clients over TCP.
fn tcp_of(data: &Path) -> SocketAddr {
    let ranks = loligo("rank list --data {} --json", &[data]).ok().json();
    let addresses = ranks[0]["addresses"].as_array().expect("a list").clone();
    let tcp = addresses.iter().find_map(|at| at.as_str()?.strip_prefix("tcp:"));
    tcp.expect("it listens on TCP").parse().expect("an address")
}

/// Answer of the port to a request: code, text.
fn asked(at: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(at).expect("the port");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    (code.unwrap_or_else(|| panic!("no code in {answer:?} to {request:?}")), answer)
}

const PAGES: [&str; 14] = [
    "/",
    "/metrics",
    "/healthz",
    "/api/v1/status",
    "/api/v1/ranks",
    "/api/v1/ops",
    "/api/v1/sessions",
    "/api/v1/subtrees",
    "/api/v1/migrations",
    "/api/v1/heat",
    "/api/v1/config",
    "/api/v1/balancer",
    "/api/v1/auth",
    "/api/v1/rank/drain/0",
];

#[test]
fn anybody_at_the_admin_port_sees_numbers_and_no_names_and_who_has_the_token_the_pages() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --set keep_dir=/secret-dir", &[&data]);
    loligo("auth add secret-identity --data {}", &[&data]).ok();
    let options = Options { name: "secret-client".into(), ..Options::default() };
    let client = Client::connect(&loligo_driver::socket_in(&data), options).expect("a connection");
    let cred = Arc::new(Cred::root());
    let fs = client.fs(cred.clone());
    for dir in ["/secret-dir", "/secret-decoupled"] {
        fs.mkdir(dir, 0o700).expect("made");
    }
    for file in 0..50 {
        fs.write(format!("/secret-dir/secret-{file}"), *b"x").expect("written");
    }
    let name = Name::new(b"secret-decoupled").expect("a name");
    let found = client.call(&cred, Call::Op(Op::Lookup { dir: Ino::ROOT, name })).expect("it is there");
    let dir = found.answer.attr().expect("it has attributes").ino;
    let (owner, inos, lease_ms) = (7, 100, 3_600_000);
    let what = Box::new(SubtreeOp::Decouple {
        owner,
        resume: 0,
        inos,
        lease_ms,
        interfere: Interfere::Block,
        promise: loligo_types::Promise::NONE,
    });
    client.call(&cred, Call::Op(Op::Control(Control::Subtree { dir, what }))).expect("nobody has it");
    let status = loligo("status --data {} --json", &[&data]).ok().json();
    for name in ["/secret-dir", "/secret-decoupled", "secret-client"] {
        assert!(status.to_string().contains(name), "the owner does not see {name}: {status}");
    }

    let at = admin_of(&data);
    let token = std::fs::read_to_string(data.join("admin.token")).expect("a token");
    let token = token.trim();
    for page in PAGES {
        for shown in ["", "Authorization: Bearer 0\r\n", &format!("Authorization: Basic {token}\r\n")] {
            let (code, text) = asked(at, &format!("GET {page} HTTP/1.0\r\n{shown}\r\n"));
            assert_eq!(code, if page.starts_with("/api") { 401 } else { 200 }, "{page}: {text}");
            assert!(
                !text.contains("secret") && !text.contains(place.dir.path().to_str().expect("UTF-8")),
                "{page}: {text}"
            );
        }
        let (code, text) = asked(at, &format!("GET {page} HTTP/1.0\r\nauthorization: bearer {token}\r\n\r\n"));
        assert_eq!(code, if page == "/api/v1/auth" { 404 } else { 200 }, "{page}: {text}");
    }
    assert!(asked(at, "GET /healthz HTTP/1.0\r\n\r\n").1.ends_with("\r\n\r\nok: serving\n"));
    assert!(asked(at, "GET /metrics HTTP/1.0\r\n\r\n").1.contains("\nloligo_ops_total{rank=\"0\",op=\"mkdir\"} 2\n"));
    for page in ["rank/add/1", "rank/drain/0", "migrate/1/0/0", "auth/add", "auth/revoke"] {
        let order = format!("POST /api/v1/{page} HTTP/1.0\r\nContent-Length: 2\r\n");
        assert_eq!(asked(at, &format!("{order}\r\n{{}}")).0, 401, "{page}");
        let code = asked(at, &format!("{order}Authorization: Bearer {token}\r\n\r\n{{}}")).0;
        assert!(code == 404 || code == 405, "{page}: orders are not taken there: {code}");
    }
    loligo(&format!("status --server http://{at}"), &[]).fails(1, &["--data DIR", "LOLIGO_ADMIN_TOKEN=FILE"]);
    let with = |file: &Path| {
        loligo_in(&format!("status --server http://{at}"), &[], |c| _ = c.env("LOLIGO_ADMIN_TOKEN", file))
    };
    assert!(with(&data.join("admin.token")).ok().out.contains("secret-client"));
    with(&data.join("server.json")).fails(2, &["server.json", "no token"]);
    client.stop(PATIENCE).expect("nothing is left");
    assert_eq!(server.stop().0, 0);
}

#[test]
fn a_web_page_whose_name_was_made_to_lead_to_the_admin_port_gets_nothing() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {}", &[&data]);
    let at = admin_of(&data);
    let token = std::fs::read_to_string(data.join("admin.token")).expect("a token");
    let shown = format!("Authorization: Bearer {}\r\n", token.trim());
    for host in [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "[::1].evil.example",
        "",
    ] {
        for (page, shown) in [("/healthz", ""), ("/metrics", ""), ("/api/v1/status", &shown[..])] {
            let (code, text) =
                asked(at, &format!("GET {page} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{shown}\r\n"));
            assert!(code == 421 && !text.contains("loligo_"), "{host}: {code} {text}");
        }
    }
    assert_eq!(asked(at, "GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").0, 421);
    for host in ["localhost", "LOCALHOST:1234", "127.0.0.1", "127.3.2.1:80", "[::1]", "[::1]:80"] {
        assert_eq!(
            asked(at, &format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).0,
            200,
            "{host}"
        );
    }
    assert_eq!(server.stop().0, 0);
}

/// Raises the limit of this process, for tests that open many connections.
fn many_files() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    limit.current.unwrap_or(u64::MAX)
}

/// Keeps opening connections that ask for nothing, or for half of something, until told to stop; how many there were.
fn crowd(at: SocketAddr, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<usize> {
    let (stop, most) = (stop.clone(), (many_files() / 4).min(1500) as usize);
    std::thread::spawn(move || {
        let (mut open, mut tried, mut count) = (std::collections::VecDeque::new(), 0, 0);
        // Also on a slow machine it is a crowd.
        while tried < 600 || !stop.load(Ordering::Relaxed) {
            tried += 1;
            let Ok(mut stream) = TcpStream::connect_timeout(&at, Duration::from_secs(1)) else { continue };
            count += 1;
            let begun: &[u8] =
                [&b""[..], b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", b"\x16\x03\x01\x02\x00\x01"][count % 3];
            let _ = stream.write_all(begun);
            open.push_back(stream);
            if open.len() > most {
                open.pop_front();
            }
        }
        count
    })
}

#[test]
fn thousands_of_connections_that_say_nothing_take_no_descriptor_from_data_and_metadata() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let mut server =
        Service::start_with_files(256, "serve --data {} --listen 127.0.0.1:0 --set journal_bytes=4MiB", &[&data]);
    let (admin, tcp) = (admin_of(&data), tcp_of(&data));
    let file = place.path("one.pem");
    loligo("auth add one --data {} --out {}", &[&data, &file]).ok();
    let stop = Arc::new(AtomicBool::new(false));
    let crowds = [crowd(admin, &stop), crowd(tcp, &stop)];
    let client =
        Client::connect(&loligo_driver::socket_in(&data), Options::default()).expect("the socket is the owner's");
    let fs = client.fs(Arc::new(Cred::root()));
    // More objects than may be open, and segments of the journal that are made anew.
    let bytes = |n: u32| vec![n as u8; 40_000];
    for round in 0..4 {
        fs.mkdir(format!("/{round}"), 0o755).expect("made");
        for n in 0..150 {
            fs.write(format!("/{round}/{n}"), bytes(n)).expect("written");
        }
        // The owner is answered meanwhile, and so are others whom the port is for.
        loligo("status --data {} --json", &[&data]).ok();
    }
    for round in 0..4 {
        for n in 0..150 {
            assert!(fs.read(format!("/{round}/{n}")).expect("read") == bytes(n), "/{round}/{n}");
        }
    }
    let bench =
        format!("bench md --server {tcp} --clients 1 --in-flight 2 --files 20 --phases create,unlink --identity {{}}");
    loligo(&bench, &[&file]).ok();
    stop.store(true, Ordering::Relaxed);
    let counts: Vec<usize> = crowds.into_iter().map(|crowd| crowd.join().expect("no panic")).collect();
    assert!(counts.iter().all(|count| *count > 500), "{counts:?} is no crowd");
    assert!(!server.has_ended(), "{}", server.log());
    client.stop(PATIENCE).expect("all is written");
    let (code, log) = server.stop();
    assert_eq!(code, 0, "{log}");
    assert!(!log.contains("os error 24") && !log.contains("Too many open files") && !log.contains("failed"), "{log}");
    assert!(log.lines().count() < 200, "{} lines", log.lines().count());
    loligo("fsck --data {} --data-checksums", &[&data]).ok();
}

#[test]
fn a_mount_goes_on_while_strangers_hold_all_connections_that_they_can_get() {
    if !can_mount() {
        return not_tested("a mount beside a crowd at the admin port");
    }
    let place = Place::new();
    let (data, mnt) = (place.data(), place.mount());
    let server = Service::start_with_files(256, "up --data {} --mount {}", &[&data, &mnt]);
    let stop = Arc::new(AtomicBool::new(false));
    let crowd = crowd(admin_of(&data), &stop);
    let script =
        "mkdir $D/mnt/d; for n in $(seq 200); do head -c 40000 /dev/zero | tr '\\0' \"$n\" >$D/mnt/d/$n; done; sync
        for n in $(seq 200); do [ $(head -c 40000 $D/mnt/d/$n | wc -c) = 40000 ]; done; rm -r $D/mnt/d";
    sh(script, place.dir.path()).ok();
    // Also through a path in the mount, as its owner.
    assert!(loligo("status {}", &[&mnt]).ok().out.contains("serving"));
    stop.store(true, Ordering::Relaxed);
    assert!(crowd.join().expect("no panic") > 100);
    assert_eq!(server.stop().0, 0);
}

#[test]
fn the_log_says_what_runs_and_when_identities_come_and_go_and_status_whose_sessions_are() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --listen 127.0.0.1:0 --set grace_ms=321", &[&data]);
    let (tcp, file) = (tcp_of(&data), place.path("one.pem"));
    loligo("auth add one --allow rw:/a --data {} --out {}", &[&data, &file]).ok();
    let identity = loligo_driver::Identity::read(&file).expect("a good file");
    let options = Options { name: "far".into(), identity: Some(identity), ..Options::default() };
    let client = Client::connect(&loligo_driver::Address::Tcp(tcp.to_string()), options).expect("it is let in");
    let sessions = loligo("status --data {} --json", &[&data]).ok().json()["sessions"].take();
    assert_eq!(
        (&sessions[0]["uid"], &sessions[0]["identity"]),
        (&serde_json::Value::Null, &"one".into()),
        "{sessions}"
    );
    let text = loligo("status --data {}", &[&data]).ok().out;
    assert!(!text.contains("4294967295") && text.contains("far, identity one"), "{text}");
    client.stop(PATIENCE).expect("nothing is left");
    until("its end is noticed", || server.log().contains("identity one has gone"));
    loligo("auth revoke one --data {}", &[&data]).ok();
    let (code, log) = server.stop();
    assert_eq!(code, 0, "{log}");
    let words = [
        &format!("loligo {} begins on {}", env!("CARGO_PKG_VERSION"), data.display())[..],
        "grace_ms = \"321\" (command line)",
        &format!("tcp:{tcp}"),
        "identity one was made, which may rw:/a",
        "identity one came in to rank 0 from 127.0.0.1: session ",
        "identity one was revoked",
    ];
    for word in words {
        assert!(log.contains(word), "no `{word}` in {log}");
    }
}
