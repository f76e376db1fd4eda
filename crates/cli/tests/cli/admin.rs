//! Looking at a server: status, top, and the pages behind them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use loligo_driver::client::{Call, Client, Options};
use loligo_types::{Control, Cred, Ino, Interfere, Name, Op, SubtreeOp};

use super::run::{Place, Service, loligo, loligo_in, until};

/// A server with some requests behind it.
fn served(place: &Place, words: &str) -> (Service, Client) {
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start(&format!("serve --data {{}} {words}"), &[&data]);
    let options = Options { name: "a test".into(), ..Options::default() };
    let client = Client::connect(&loligo_driver::socket_in(&data), options).expect("a connection");
    let cred = Arc::new(Cred::root());
    for name in ["a", "b", "c"] {
        let name = Name::new(name.as_bytes()).expect("a name");
        let mkdir = Op::Mkdir { dir: Ino::ROOT, name, mode: 0o755, umask: 0 };
        client.call(&cred, Call::Op(mkdir)).expect("a new directory");
    }
    let name = Name::new(b"a").expect("a name");
    let again = client.call(&cred, Call::Op(Op::Mkdir { dir: Ino::ROOT, name, mode: 0o755, umask: 0 }));
    assert!(again.is_err());
    (server, client)
}

/// One page over the socket in the data directory.
fn page(data: &Path, path: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(data.join("admin.sock")).expect("the admin socket");
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code"), body.to_string())
}

#[test]
fn status_as_json_agrees_with_what_was_done_however_the_server_is_named() {
    let place = Place::new();
    let data = place.data();
    let (server, _client) = served(&place, "");
    let status = loligo("status --data {} --json", &[&data]).ok().json();
    assert_eq!(status["pid"], server.pid());
    assert_eq!(status["health"], "serving");
    let rank = &status["ranks"][0];
    assert_eq!((&rank["ops"]["mkdir"]["count"], &rank["ops"]["mkdir"]["errors"]), (&4.into(), &1.into()));
    assert_eq!(rank["journal"]["last_lsn"], rank["journal"]["durable_lsn"]);
    assert_eq!(rank["sessions"], 1);
    assert_eq!((&status["sessions"][0]["name"], &status["sessions"][0]["connected"]), (&"a test".into(), &true.into()));
    let state: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(data.join("server.json")).expect("a file")).expect("JSON");
    let http = format!("http://{}", state["admin"].as_str().expect("an address"));
    let token = data.join("admin.token");
    for words in [
        "status {} --json".to_string(),
        "status --server {}/loligo.sock --json".to_string(),
        format!("status --server {http} --json"),
    ] {
        let with_token = |command: &mut std::process::Command| _ = command.env("LOLIGO_ADMIN_TOKEN", &token);
        let again = loligo_in(&words, &[&data], with_token).ok().json();
        assert_eq!(again["fs_id"], status["fs_id"], "{words}");
    }
    let text = loligo("status --data {}", &[&data]).ok().out;
    for word in ["file system", "serving", "journal", "mkdir", "a test"] {
        assert!(text.contains(word), "no {word} in {text}");
    }
    let top = loligo("top --data {} --count 2 --interval 0.1", &[&data]).ok().out;
    assert_eq!(top.matches("loligo top").count(), 2, "{top}");
    assert_eq!(server.stop().0, 0);
}

/// Has a directory of the root decoupled; its inode number.
fn decouple(client: &Client, name: &[u8], lease_ms: u32) -> Ino {
    let cred = Arc::new(Cred::root());
    let lookup = Op::Lookup { dir: Ino::ROOT, name: Name::new(name).expect("a name") };
    let found = client.call(&cred, Call::Op(lookup)).expect("it is there");
    let dir = found.answer.attr().expect("it has attributes").ino;
    let what = Box::new(SubtreeOp::Decouple {
        owner: 7,
        resume: 0,
        inos: 100,
        lease_ms,
        interfere: Interfere::Block,
        promise: loligo_types::Promise::NONE,
    });
    client.call(&cred, Call::Op(Op::Control(Control::Subtree { dir, what }))).expect("nobody has it");
    dir
}

#[test]
fn status_and_metrics_tell_of_decoupled_subtrees_and_of_owners_that_are_away() {
    let place = Place::new();
    let data = place.data();
    let (server, client) = served(&place, "--admin off");
    let text = || loligo("status --data {}", &[&data]).ok().out;
    assert!(!text().contains("decoupled"), "nothing is");
    let (a, b) = (decouple(&client, b"a", 3_600_000), decouple(&client, b"b", 1));
    let rank = || loligo("status --data {} --json", &[&data]).ok().json()["ranks"][0].take();
    let there = rank();
    assert_eq!((&there["decoupled_subtrees"], &there["decoupled_away"]), (&2.into(), &0.into()));
    let list = there["decoupled"].as_array().expect("a list");
    let one = list.iter().find(|one| one["dir"] == a.0).expect("the first");
    assert_eq!(
        *one,
        serde_json::json!({
            "dir": a.0, "path": "/a", "name": "a test", "uid": 0, "here": true, "shared": false, "read": false,
            "away_ms": null, "taken_back_in_ms": null, "stored_bytes": null, "waits_in_ms": null,
            "numbers": 100, "numbers_left": 100, "merges": 0, "parts": 0, "part_bytes": 0, "merging": false,
            "epoch": one["epoch"].as_u64().expect("a number"),
        })
    );
    for line in ["/a by a test (uid 0), 0 merges, 100 numbers left\n", "/b by a test"] {
        assert!(text().contains(&format!("\ndecoupled: {line}")), "{}", text());
    }
    // Other servers ask for this page.
    let ranks: serde_json::Value = serde_json::from_str(&page(&data, "/api/v1/ranks").1).expect("JSON");
    assert_eq!(ranks[0]["decoupled"], there["decoupled"]);
    let count = |name: &str| {
        let metrics = page(&data, "/metrics").1;
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name}{{rank=\"0\"}} ")));
        line.unwrap_or_else(|| panic!("no {name}")).to_string()
    };
    let counts = || {
        let names = ["decoupled_subtrees", "decoupled_subtrees_away", "subtree_merges_total", "decouplings_lost_total"];
        names.map(|name| count(&format!("loligo_{name}")))
    };
    assert_eq!(counts(), ["2", "0", "0", "0"]);
    client.stop(std::time::Duration::from_secs(10)).expect("it stops");
    until("the one with the short lease is taken back", || rank()["decouplings_lost"] == 1);
    let there = rank();
    assert_eq!(there["decoupled"].as_array().map(Vec::len), Some(1), "{there}, but not {b:?}");
    assert_eq!((&there["decoupled"][0]["dir"], &there["decoupled"][0]["here"]), (&a.0.into(), &false.into()));
    let ms = |field: &str| there["decoupled"][0][field].as_u64().expect("it is away");
    assert_eq!(ms("away_ms") + ms("taken_back_in_ms"), 3_600_000);
    assert_eq!(counts(), ["1", "1", "0", "1"]);
    assert!(text().contains("100 numbers left; owner not heard for "), "{}", text());
    assert_eq!(server.stop().0, 0);
}

#[test]
fn metrics_are_what_prometheus_reads() {
    let place = Place::new();
    let (server, _client) = served(&place, "--admin off");
    let (code, text) = page(&place.data(), "/metrics");
    assert_eq!(code, 200);
    let mut types = BTreeMap::new();
    let mut samples = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a type");
            assert!(types.insert(name.to_string(), kind.to_string()).is_none(), "{name} is there twice");
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').expect("a series and a value");
            value.parse::<f64>().unwrap_or_else(|e| panic!("{line}: {e}"));
            assert!(samples.insert(series.to_string()), "{series} is there twice");
            let name = series.split('{').next().expect("a name");
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            let kind = types.get(base).or_else(|| types.get(name)).unwrap_or_else(|| panic!("{name} has no type"));
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
        }
    }
    assert!(text.contains("loligo_ops_total{rank=\"0\",op=\"mkdir\"} 4\n"), "{text}");
    assert!(text.contains("loligo_op_errors_total{rank=\"0\",op=\"mkdir\"} 1\n"));
    assert!(text.contains("loligo_op_seconds_bucket{rank=\"0\",op=\"mkdir\",le=\"+Inf\"} 4\n"));
    assert!(text.contains("loligo_placed_ops_total{rank=\"0\",placement=\"subtree\",op=\"mkdir\"} 4\n"), "{text}");
    for name in ["placed_redirects", "waits", "wait_seconds", "walks", "walk_shortcuts", "walk_partings"] {
        assert!(text.contains(&format!("# TYPE loligo_{name}_total counter\n")), "no {name} in {text}");
    }
    assert!(text.contains("loligo_sessions{rank=\"0\",state=\"connected\"} 1\n"));
    assert!(text.contains("loligo_journal_records_total{rank=\"0\"} "));
    assert!(text.contains("loligo_redirects_total{rank=\"0\"} 0\n"), "bench workload sums it");
    assert_eq!(server.stop().0, 0);
}

#[test]
fn the_other_pages_answer_and_unknown_ones_say_so() {
    let place = Place::new();
    let (server, _client) = served(&place, "--set grace_ms=123 --admin off");
    let data = place.data();
    assert_eq!(page(&data, "/healthz"), (200, "ok: serving\n".into()));
    let json = |path: &str| -> serde_json::Value {
        let (code, text) = page(&data, path);
        assert_eq!(code, 200, "{path}");
        serde_json::from_str(&text).expect("JSON")
    };
    assert_eq!(json("/api/v1/config")["grace_ms"]["value"], "123");
    assert_eq!(json("/api/v1/sessions")[0]["name"], "a test");
    assert_eq!(json("/api/v1/ops")["mkdir"]["count"], 4);
    assert!(json("/api/v1/ops")["mkdir"]["latency_ns"][0][0].is_u64());
    assert_eq!(json("/api/v1/status")["ranks"][0]["rank"], 0);
    assert_eq!(json("/api/v1/subtrees"), serde_json::json!([]));
    assert_eq!(json("/api/v1/migrations"), serde_json::json!([]));
    assert_eq!(page(&data, "/nothing").0, 404);
    assert!(page(&data, "/").1.contains("/metrics"));
    // A connection that says nothing does not hold up the end.
    let _silent = UnixStream::connect(data.join("admin.sock")).expect("the admin socket");
    assert_eq!(server.stop().0, 0);
}
