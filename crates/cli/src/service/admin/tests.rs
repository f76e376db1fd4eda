//! Questions and orders of other servers, without a cluster: on a server in memory. On several servers it is tested in
//! `tests/rados`.

use std::sync::Arc;

use loligo_driver::{FormatOptions, Server, ServerConfig};
use loligo_store::Identity;
use loligo_store::mem::MemDisk;
use loligo_types::Rank;
use loligo_types::link::{Method, Question, Reply};

use super::others::Other;
use super::{Source, handing, pages};
use crate::settings::{Given, Settings};

fn source() -> Source {
    let backend = MemDisk::new(Identity::new([1; 16], [2; 16])).open().expect("memory opens");
    loligo_driver::format(&*backend, &FormatOptions::default()).expect("there is room");
    let server = Server::start(ServerConfig::new(backend), &mut |_| {}).expect("it starts");
    let given = Given { file: None, set: Vec::new() };
    let settings = Settings::load(&given, None, &[]).expect("the defaults");
    Source::new(Arc::new(server), settings, "/nowhere".into())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn another_server_is_told_by_the_pages_that_the_owner_has_and_gets_no_private_key() {
    let (source, runtime) = (Arc::new(source().for_servers()), runtime());
    let ask = |method, path: &str, text: &str| {
        let question = Question { method, path: path.into(), text: text.into() };
        runtime.block_on(pages::reply(pages::pages_and_orders(&source), question))
    };
    let Reply { status, text } = ask(Method::Get, "/api/v1/ranks", "");
    let ranks: serde_json::Value = serde_json::from_str(&text).expect("a document");
    assert_eq!((status, &ranks[0]["rank"], &ranks[0]["state"]), (200, &0.into(), &"serving".into()));
    assert_eq!(ask(Method::Get, "/api/v1/subtrees", "").text, "[]");
    assert_eq!(ask(Method::Get, "/api/v1/heat", "").text, "[]", "nothing was done yet");
    let refused = ask(Method::Post, "/api/v1/rank/handover/0", "s1");
    assert!(refused.status == 409 && refused.text.contains("on one machine's disk"), "{refused:?}");
    let refused = ask(Method::Post, "/api/v1/auth/add", "{\"name\":\"one\",\"read_only\":true}");
    assert!(refused.status == 409 && !refused.text.contains("PRIVATE"), "{refused:?}");
    assert_eq!(ask(Method::Get, "/api/v1/auth", "").text, "[]", "nothing was made");
    assert_eq!(ask(Method::Post, "/api/v1/status", "").status, 405);
    assert_eq!(ask(Method::Get, "/no/such/page", "").status, 404);
    assert_eq!(ask(Method::Get, "/ a", "").status, 400);
}

#[test]
fn what_was_handed_on_is_not_handed_on_again_but_answered_with_try_again() {
    let (source, runtime) = (source(), runtime());
    let leader = || Ok(Other::Server { number: 7, name: "s7".into(), ranks: vec![Rank(1)] });
    let given = |source: Source| {
        let source = Arc::new(source);
        let order = handing::given_to(&source, leader(), "/api/v1/rank/add/1".into(), String::new());
        let answer = runtime.block_on(order);
        let text = runtime.block_on(axum::body::to_bytes(answer.into_body(), 1 << 20)).expect("it is short");
        String::from_utf8(text.into()).expect("text")
    };
    let text = given(source.for_servers());
    assert!(text.contains("try again") && text.contains("did nothing"), "{text}");
    // Of whoever is asked first it is; here there is no way to the other one.
    let text = given(source);
    assert!(text.contains("s7, which leads, is not reached") && text.contains("nothing was done"), "{text}");
}
