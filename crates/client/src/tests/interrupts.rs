//! Calls that nobody waits for any more.

use loligo_types::{FsError, Ino, Lease, SetAttr};

use super::net::{Net, create, ro, rw, write};
use crate::{Call, CallId, Input};

fn interrupt(net: &mut Net, id: CallId, unserved: bool) {
    net.feed(0, Input::Interrupt { id, unserved });
}

fn error(net: &mut Net, id: CallId) -> Option<FsError> {
    net.nodes[0].done.remove(&id).map(|result| result.expect_err("it was interrupted").error)
}

fn is_unsettled(net: &Net, ino: Ino) -> bool {
    let client = &net.nodes[0].client;
    client.calls.is_unsettled(&client.ranks, ino, Lease::ATTR)
}

#[test]
fn a_call_ends_and_what_was_sent_for_it_is_unsettled_until_it_is_answered() {
    let mut net = Net::new(1);
    let (_, ino) = net.create(0, "a");
    net.run();
    let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    let change = net.submit(0, Call::SetAttr { ino, set, fh: None });
    interrupt(&mut net, change, false);
    assert_eq!(error(&mut net, change), Some(FsError::Interrupted));
    assert!(is_unsettled(&net, ino), "it is on its way");
    interrupt(&mut net, change, false);
    net.run();
    net.pass_time(100);
    assert_eq!(net.server.attr(ino).mode & 0o777, 0o600, "it was sent");
    assert!(!is_unsettled(&net, ino));
    assert!(net.nodes[0].done.is_empty(), "it is answered once");
}

#[test]
fn what_was_never_sent_is_not_done() {
    let mut net = Net::new(1);
    let (fh, ino) = net.create(0, "a");
    net.run();
    net.server.faults.mute = true;
    net.disconnect(0);
    let make = net.submit(0, create("b", rw()));
    let set = SetAttr { size: Some(7), ..SetAttr::default() };
    let cut = net.submit(0, Call::SetAttr { ino, set, fh: Some(fh) });
    let look = net.submit(0, Call::GetAttr { ino });
    for id in [make, cut] {
        interrupt(&mut net, id, false);
        assert_eq!(error(&mut net, id), Some(FsError::Interrupted));
    }
    net.server.faults.mute = false;
    net.run();
    assert!(net.nodes[0].done.remove(&look).expect("answered").is_ok(), "the others are");
    assert_eq!((net.count("create"), net.server.attr(ino).size), (1, 0));
    net.create(0, "c");
    net.write(0, fh, 0, b"goes on");
    net.fsync(0, fh).unwrap();
    assert_eq!(net.server.content(ino), b"goes on");
}

#[test]
fn a_call_that_a_server_serves_may_go_on() {
    let mut net = Net::new(1);
    let (_, ino) = net.create(0, "a");
    net.run();
    let look = net.submit(0, Call::GetAttr { ino });
    interrupt(&mut net, look, true);
    net.run();
    assert!(net.nodes[0].done.remove(&look).expect("answered").is_ok());
    net.server.faults.mute = true;
    net.disconnect(0);
    let look = net.submit(0, Call::GetAttr { ino });
    interrupt(&mut net, look, true);
    assert_eq!(error(&mut net, look), Some(FsError::Interrupted));
}

#[test]
fn what_was_written_and_is_closed_by_nobody_who_waits_is_written_nevertheless() {
    let mut net = Net::new(1);
    let (fh, ino) = net.create(0, "a");
    net.write(0, fh, 0, b"held back");
    net.server.faults.mute = true;
    net.disconnect(0);
    let close = net.submit(0, Call::Flush { fh, owner: None });
    let more = net.submit(0, write(fh, 9, b"!"));
    interrupt(&mut net, close, true);
    interrupt(&mut net, more, false);
    assert_eq!(error(&mut net, close), Some(FsError::Interrupted));
    let release = net.submit(0, Call::Release { fh, flock_owner: None });
    net.server.faults.mute = false;
    net.pass_time(1000);
    assert!(net.nodes[0].done.remove(&release).expect("answered").is_ok());
    assert!(net.server.content(ino).starts_with(b"held back"));
    let again = net.open(0, ino, ro());
    assert!(net.read(0, again, 0, 9) == b"held back");
}

#[test]
fn a_file_that_is_opened_for_nobody_is_closed() {
    let mut net = Net::new(1);
    let (fh, ino) = net.create(0, "a");
    net.ok(0, Call::Release { fh, flock_owner: None });
    net.pass_time(2000);
    assert_eq!(net.server.open_handles(0), 0);
    let open = net.submit(0, Call::Open { ino, flags: ro() });
    interrupt(&mut net, open, false);
    assert_eq!(error(&mut net, open), Some(FsError::Interrupted));
    net.run();
    assert_eq!(net.server.open_handles(0), 1);
    net.pass_time(2000);
    assert_eq!(net.server.open_handles(0), 0);
}
