//! A server in a process that has used up its descriptors. Alone in its program, as it lowers the limit of it.

#[expect(dead_code, reason = "one scenario needs a part of it")]
#[path = "suite/common/mod.rs"]
mod common;

use std::os::fd::OwnedFd;

use common::{Raw, Site, mkdir};
use loligo_types::Ino;
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, getrlimit, setrlimit};

#[test]
fn a_connection_that_finds_no_descriptor_is_taken_when_there_are_some_again_and_nothing_ends() {
    let site = Site::new();
    let server = site.start();
    let mut before = Raw::session(&site.socket());
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(512);
    setrlimit(Resource::Nofile, limit).expect("it may be lowered");
    let mut taken: Vec<OwnedFd> = std::iter::from_fn(|| eventfd(0, EventfdFlags::CLOEXEC).ok()).collect();
    // One for this end of the connection; the server has none for its own.
    taken.pop();
    let mut waiting = Raw::connect(&site.socket());
    for n in 0..20 {
        before.entry(mkdir(Ino::ROOT, &format!("d{n}")));
    }
    assert_eq!(server.status().expect("it runs").ranks[0].metrics.accepted.get(), 1, "there is no descriptor for it");
    drop(taken);
    waiting.hello(None);
    waiting.entry(mkdir(Ino::ROOT, "after"));
    server.stop().expect("a clean stop");
}
