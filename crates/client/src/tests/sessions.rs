//! Lost connections, servers and sessions; leases that are given back.

use std::sync::Arc;

use loligo_types::msg::{Refusal, ToClient, ToServer, Welcome};
use loligo_types::{Answer, Cred, FileLock, FsError, Ino, Lease, LockKind, LockOwner, Name, Op, Rank, RenameMode};

use super::net::{Net, create, ro, rw, write};
use crate::{Call, CallId, Client, Config, Input, Invalidation, Now, Output};

#[test]
fn a_request_is_executed_once_however_often_the_connection_breaks() {
    for seed in 1..100 {
        let mut net = Net::with(1, &super::net::config(), seed * 31);
        let ids: Vec<CallId> = (0..20).map(|n| net.submit(0, create(&format!("f{n}"), rw()))).collect();
        for _ in 0..6 {
            let steps = net.random(30);
            for _ in 0..steps {
                net.step();
            }
            net.disconnect(0);
        }
        net.run();
        assert!(ids.iter().all(|id| net.nodes[0].done[id].is_ok()));
        assert_eq!(net.count("create"), 20);
    }
}

#[test]
fn a_lost_session_makes_handles_stale_and_lost_data_known_once() {
    let mut net = Net::new(1);
    let (fh, ino) = net.create(0, "a");
    let reader = net.open(0, ino, ro());
    net.write(0, fh, 0, b"lost");
    net.hold_invalidations = true;
    net.server.evict_all();
    net.disconnect(0);
    net.run();
    let told: Vec<_> = net.nodes[0].invalidations.iter().map(|(_, what)| *what).collect();
    assert!(told.contains(&Invalidation::Attr(ino)) && told.contains(&Invalidation::Data(ino)));
    assert_eq!(net.fsync(0, fh).unwrap_err().error, FsError::Io);
    assert_eq!(net.flush(0, fh).unwrap_err().error, FsError::Stale);
    assert_eq!(net.err(0, write(fh, 0, b"x")), FsError::Stale);
    assert_eq!(net.err(0, Call::Read { fh: reader, offset: 0, len: 1 }), FsError::Stale);
    net.ok(0, Call::Release { fh, flock_owner: None });
    let again = net.open(0, ino, rw());
    net.write(0, again, 0, b"new");
    net.flush(0, again).unwrap();
    assert_eq!(net.server.content(ino), b"new");
}

#[test]
fn calls_under_way_when_the_session_is_lost_are_asked_again_or_fail() {
    let mut net = Net::new(1);
    let (_, ino) = net.create(0, "a");
    net.run();
    let look = net.submit(0, Call::GetAttr { ino });
    let make = net.submit(0, create("b", rw()));
    let name = Name::new(b"d").unwrap();
    let mkdir = net.submit(0, Call::Op(Op::Mkdir { dir: Ino::ROOT, name, mode: 0o755, umask: 0 }));
    net.server.evict_all();
    net.disconnect(0);
    net.run();
    assert!(net.nodes[0].done.remove(&look).unwrap().is_ok());
    assert_eq!(net.nodes[0].done.remove(&make).unwrap().unwrap_err().error, FsError::Stale);
    assert_eq!(net.nodes[0].done.remove(&mkdir).unwrap().unwrap_err().error, FsError::Io);
}

#[test]
fn a_restarted_server_is_told_what_was_held() {
    let mut net = Net::new(1);
    let (fh, ino) = net.create(0, "a");
    net.write(0, fh, 0, b"held back");
    net.server.restart();
    net.disconnect(0);
    net.run();
    net.flush(0, fh).unwrap();
    assert_eq!(net.server.content(ino), b"held back");
    assert_eq!(net.server.open_handles(0), 1);
}

#[test]
fn calls_end_when_nobody_is_there_for_long_and_work_again_later() {
    let mut net = Net::new(1);
    let (_, ino) = net.create(0, "a");
    net.run();
    net.server.faults.mute = true;
    let waiting = net.submit(0, Call::GetAttr { ino });
    net.pass_time(11_000);
    assert!(!net.nodes[0].done.contains_key(&waiting), "the connection is given up first");
    net.pass_time(70_000);
    assert_eq!(net.nodes[0].done.remove(&waiting).unwrap().unwrap_err().error, FsError::Unavailable);
    assert_eq!(net.err(0, Call::GetAttr { ino }), FsError::Unavailable);
    net.server.faults.mute = false;
    net.run();
    net.ok(0, Call::GetAttr { ino });
}

#[test]
fn calls_to_a_server_that_hangs_end_when_they_have_waited_for_the_set_time() {
    for give_up_ms in [1000, 2000, 5000, 20_000, 60_000] {
        // The server was heard a moment ago, or not for long.
        for idle_ms in [0, 300, 2500] {
            let mut hand = Hand::connected_with(Config { give_up_ms, ..Config::default() });
            hand.ms += idle_ms;
            hand.feed(Input::Tick);
            hand.feed(Input::Message { rank: Rank::ZERO, message: ToClient::Pong { at_ms: 0 } });
            let begun = hand.ms;
            hand.call(1, Call::GetAttr { ino: Ino(500) });
            let ended = loop {
                hand.ms += 50;
                let out = hand.feed(Input::Tick);
                if out.iter().any(|output| matches!(output, Output::Connect { .. })) {
                    // The system takes connections for it.
                    hand.feed(Input::Connected { rank: Rank::ZERO });
                }
                let ends = |output: &Output| matches!(output, Output::Complete { result: Err(failed), .. } if failed.error == FsError::Unavailable);
                if out.iter().any(ends) {
                    break hand.ms - begun;
                }
                assert!(hand.ms < begun + 2 * give_up_ms + 10_000, "{give_up_ms} {idle_ms}");
            };
            assert!((give_up_ms..=give_up_ms + 500).contains(&ended), "{give_up_ms} {idle_ms}: {ended}");
        }
    }
}

#[test]
fn nothing_cached_is_used_when_the_server_may_have_given_it_away() {
    let mut net = Net::new(1);
    let (fh, ino) = net.create(0, "a");
    net.write(0, fh, 0, b"mine");
    net.flush(0, fh).unwrap();
    net.hold_invalidations = true;
    net.server.faults.mute = true;
    net.disconnect(0);
    net.pass_time(9_000);
    let told: Vec<_> = net.nodes[0].invalidations.iter().map(|(_, what)| *what).collect();
    assert!(told.contains(&Invalidation::Attr(ino)) && told.contains(&Invalidation::Data(ino)), "{told:?}");
    let reading = net.submit(0, Call::Read { fh, offset: 0, len: 9 });
    let writing = net.submit(0, write(fh, 0, b"y"));
    assert!(net.nodes[0].done.is_empty());
    net.server.faults.mute = false;
    net.pass_time(1000);
    assert!(net.nodes[0].done.remove(&reading).unwrap().is_ok());
    assert!(net.nodes[0].done.remove(&writing).unwrap().is_ok());
    assert_eq!(net.read(0, fh, 0, 9), b"yine");
}

fn welcome() -> Welcome {
    let mut net = Net::new(1);
    net.server.receive(0, ToServer::Hello(loligo_types::msg::Hello { versions: (1, 1), ..Default::default() }));
    match net.server.out[0].pop_front() {
        Some(ToClient::Welcome(welcome)) => welcome,
        other => panic!("no welcome: {other:?}"),
    }
}

/// A client by hand: what it says, and what it is told.
struct Hand {
    client: Client,
    ms: u64,
}

impl Hand {
    fn connected() -> Hand {
        Hand::connected_with(Config::default())
    }

    fn connected_with(config: Config) -> Hand {
        let mut hand = Hand { client: Client::new(config), ms: 1 };
        hand.feed(Input::Connected { rank: Rank::ZERO });
        hand.feed(Input::Message { rank: Rank::ZERO, message: ToClient::Welcome(welcome()) });
        hand
    }

    fn feed(&mut self, input: Input) -> Vec<Output> {
        self.client.handle(Now { ms: self.ms, ..Now::default() }, input);
        std::iter::from_fn(|| self.client.poll()).collect()
    }

    fn call(&mut self, id: u64, call: Call) -> Vec<Output> {
        self.feed(Input::Call { id: CallId(id), cred: Arc::new(Cred::root()), call })
    }
}

fn sent(outputs: &[Output]) -> Vec<&ToServer> {
    outputs
        .iter()
        .filter_map(|output| if let Output::Send { message, .. } = output { Some(message) } else { None })
        .collect()
}

fn attr(ino: u64) -> loligo_types::Attr {
    let kind = loligo_types::Kind::Dir;
    loligo_types::Inode::new(Ino(ino), kind, 0o755, 0, 0, Ino::ROOT, loligo_types::Time(1)).attr()
}

fn reply(seq: u64, granted: &[(Ino, Lease)]) -> Input {
    let result = Ok(loligo_types::Answer::Entry(attr(500)));
    Input::Message {
        rank: Rank::ZERO,
        message: ToClient::Reply {
            seq: loligo_types::Seq(seq),
            result,
            granted: granted.to_vec(),
            ways: Vec::new(),
            volatile: None,
            journal: None,
        },
    }
}

#[test]
fn a_live_client_pings_at_a_third_of_the_sessions_time() {
    let mut hand = Hand::connected();
    hand.ms = 3000;
    assert!(sent(&hand.feed(Input::Tick)).is_empty());
    hand.ms = 3400;
    assert_eq!(sent(&hand.feed(Input::Tick)), [&ToServer::Ping]);
    assert!(sent(&hand.feed(Input::Tick)).is_empty());
    hand.feed(Input::Message { rank: Rank::ZERO, message: ToClient::Pong { at_ms: 0 } });
    hand.ms = 14_000;
    assert!(matches!(hand.feed(Input::Tick)[..], [Output::Connect { address: None, .. }]));
}

#[test]
fn leases_are_given_up_before_a_server_that_answers_no_ping_may_end_the_session() {
    let mut hand = Hand::connected();
    hand.call(1, Call::GetAttr { ino: Ino(500) });
    hand.feed(reply(1, &[(Ino(500), Lease::ATTR)]));
    hand.ms = 3400;
    assert_eq!(sent(&hand.feed(Input::Tick)), [&ToServer::Ping]);
    // It says something, but that it has heard the client is not said by that.
    hand.ms = 5000;
    let recall = ToClient::Recall { ino: Ino(501), id: 5, bits: Lease::ATTR };
    hand.feed(Input::Message { rank: Rank::ZERO, message: recall });
    hand.ms = 7400;
    assert!(hand.feed(Input::Tick).iter().all(|output| matches!(output, Output::Send { message: ToServer::Ping, .. })));
    hand.ms = 7600;
    let out = hand.feed(Input::Tick);
    assert!(
        matches!(out[..], [Output::Connect { .. }, Output::Invalidate { what: Invalidation::Attr(Ino(500)), .. }]),
        "{out:?}"
    );
    // The welcome has been on its way for longer than the session may have lived.
    hand.feed(Input::Connected { rank: Rank::ZERO });
    hand.ms = 16_000;
    let welcome = Welcome { resumed: true, kept: true, ..welcome() };
    let out = hand.feed(Input::Message { rank: Rank::ZERO, message: ToClient::Welcome(welcome) });
    assert!(matches!(out[..], [Output::Ready { .. }, .., Output::Connect { .. }]), "{out:?}");
}

#[test]
fn what_is_dropped_because_the_server_was_silent_is_given_back_when_the_caches_above_have_dropped_it() {
    let mut hand = Hand::connected();
    hand.call(1, Call::GetAttr { ino: Ino(500) });
    hand.feed(reply(1, &[(Ino(500), Lease::ATTR)]));
    hand.ms = 7600;
    let out = hand.feed(Input::Tick);
    let [Output::Connect { .. }, Output::Invalidate { token: first, .. }] = out[..] else { panic!("{out:?}") };
    // It has kept the session, and another client wants to change what is still being dropped.
    hand.feed(Input::Connected { rank: Rank::ZERO });
    let welcome = Welcome { resumed: true, kept: true, ..welcome() };
    hand.feed(Input::Message { rank: Rank::ZERO, message: ToClient::Welcome(welcome) });
    let recall = ToClient::Recall { ino: Ino(500), id: 5, bits: Lease::ATTR };
    let out = hand.feed(Input::Message { rank: Rank::ZERO, message: recall });
    let [Output::Invalidate { token: second, .. }] = out[..] else { panic!("{out:?}") };
    assert!(hand.feed(Input::Invalidated { token: first }).is_empty());
    let out = hand.feed(Input::Invalidated { token: second });
    assert_eq!(sent(&out), [&ToServer::RecallDone { ino: Ino(500), id: 5 }]);
    // Once it is dropped there is nothing to wait for.
    let recall = ToClient::Recall { ino: Ino(500), id: 6, bits: Lease::ATTR };
    let out = hand.feed(Input::Message { rank: Rank::ZERO, message: recall });
    assert_eq!(sent(&out), [&ToServer::RecallDone { ino: Ino(500), id: 6 }]);
}

#[test]
fn forgotten_leases_are_given_back_in_a_batch() {
    let mut hand = Hand::connected();
    for seq in 1..=2 {
        hand.call(seq, Call::GetAttr { ino: Ino(500) });
    }
    let both = Lease::ATTR | Lease::NAMES;
    hand.feed(reply(1, &[(Ino(500), both), (Ino(501), Lease::ATTR)]));
    hand.call(9, Call::Forget { inos: vec![Ino(500), Ino(501), Ino(777)] });
    // 500 is used again before the batch goes.
    hand.call(3, Call::GetAttr { ino: Ino(500) });
    let done = hand.feed(reply(3, &[]));
    assert!(matches!(&done[..], [Output::Complete { result: Ok(done), .. }] if done.attr_cached));
    let out = hand.feed(Input::Tick);
    assert_eq!(sent(&out), [&ToServer::Release(vec![(Ino(501), Lease::ATTR)])]);
    // An answer from before the release grants nothing that was given back.
    hand.feed(reply(2, &[(Ino(501), Lease::ATTR)]));
    let out = hand.feed(Input::Message {
        rank: Rank::ZERO,
        message: ToClient::Recall { ino: Ino(501), id: 5, bits: Lease::ATTR },
    });
    assert_eq!(sent(&out), [&ToServer::RecallDone { ino: Ino(501), id: 5 }]);
}

fn look_up() -> Call {
    Call::Op(loligo_types::Op::Lookup { dir: Ino(600), name: loligo_types::Name::new(b"a").expect("a name") })
}

#[test]
fn an_answer_that_was_asked_for_before_the_lease_was_held_and_did_not_bring_it_is_not_cached() {
    let mut hand = Hand::connected();
    for seq in 1..=2 {
        hand.call(seq, look_up());
    }
    let both = [(Ino(600), Lease::NAMES), (Ino(500), Lease::ATTR)];
    hand.feed(reply(2, &both));
    // It waited for the journal meanwhile, and others may have changed the directory before the other one was made.
    let done = hand.feed(reply(1, &[]));
    assert!(
        matches!(&done[..], [Output::Complete { result: Ok(done), .. }] if !done.attr_cached && !done.names_cached)
    );
    hand.call(3, look_up());
    let done = hand.feed(reply(3, &[]));
    assert!(matches!(&done[..], [Output::Complete { result: Ok(done), .. }] if done.attr_cached && done.names_cached));
}

#[test]
fn what_is_known_of_a_renamed_name_is_true_of_the_new_one_only_if_names_there_are_lent_with_the_answer() {
    let mut hand = Hand::connected();
    let name = |text: &[u8]| loligo_types::Name::new(text).expect("a name");
    let renamed = |hand: &mut Hand, seq, mode, granted: &[(Ino, Lease)]| {
        let (dir, new_dir) = (Ino(600), Ino(700));
        let asked = hand.call(
            seq,
            Call::Op(loligo_types::Op::Rename { dir, name: name(b"a"), new_dir, new_name: name(b"b"), mode }),
        );
        let wants = asked.iter().find_map(|out| match out {
            Output::Send { message: ToServer::Request(request), .. } => Some(request.want),
            _ => None,
        });
        assert_eq!(wants, Some(Lease::NAMES), "{asked:?}");
        let reply = ToClient::Reply {
            seq: loligo_types::Seq(seq),
            result: Ok(Answer::Done),
            granted: granted.to_vec(),
            ways: Vec::new(),
            volatile: None,
            journal: None,
        };
        let done = hand.feed(Input::Message { rank: Rank::ZERO, message: reply });
        let [Output::Complete { result: Ok(done), .. }] = &done[..] else { panic!("{done:?}") };
        done.names_cached
    };
    let (old, new) = ((Ino(600), Lease::NAMES), (Ino(700), Lease::NAMES));
    assert!(!renamed(&mut hand, 1, RenameMode::Replace, &[]));
    assert!(!renamed(&mut hand, 2, RenameMode::Replace, &[old]));
    assert!(renamed(&mut hand, 3, RenameMode::Replace, &[new]));
    assert!(!renamed(&mut hand, 4, RenameMode::Replace, &[]), "another rank may have the new name");
    assert!(renamed(&mut hand, 5, RenameMode::Exchange, &[new]));
    let recall = ToClient::Recall { ino: Ino(600), id: 5, bits: Lease::NAMES };
    let out = hand.feed(Input::Message { rank: Rank::ZERO, message: recall });
    let [Output::Invalidate { token, .. }] = out[..] else { panic!("{out:?}") };
    hand.feed(Input::Invalidated { token });
    assert!(
        !renamed(&mut hand, 6, RenameMode::Exchange, &[new]),
        "the other one has come into a directory of which nothing is lent"
    );
    assert!(renamed(&mut hand, 7, RenameMode::Replace, &[new]));
}

#[test]
fn a_recall_is_answered_when_the_caches_above_have_dropped_it() {
    let mut hand = Hand::connected();
    hand.call(1, Call::GetAttr { ino: Ino(500) });
    let both = Lease::ATTR | Lease::NAMES;
    hand.feed(reply(1, &[(Ino(500), both)]));
    let out =
        hand.feed(Input::Message { rank: Rank::ZERO, message: ToClient::Recall { ino: Ino(500), id: 5, bits: both } });
    let [
        Output::Invalidate { token: names, what: Invalidation::Names(_) },
        Output::Invalidate { token: attr, what: Invalidation::Attr(_) },
    ] = out[..]
    else {
        panic!("{out:?}")
    };
    assert!(hand.feed(Input::Invalidated { token: attr }).is_empty());
    let out = hand.feed(Input::Invalidated { token: names });
    assert_eq!(sent(&out), [&ToServer::RecallDone { ino: Ino(500), id: 5 }]);
    let out = hand.call(2, Call::GetAttr { ino: Ino(500) });
    assert_eq!(sent(&out).len(), 1);
    let out = hand.feed(reply(2, &[]));
    assert!(matches!(&out[..], [Output::Complete { result: Ok(done), .. }] if !done.attr_cached));
}

#[test]
fn a_refusal_ends_everything() {
    let mut hand = Hand { client: Client::new(Config::default()), ms: 1 };
    hand.call(1, Call::GetAttr { ino: Ino::ROOT });
    hand.feed(Input::Connected { rank: Rank::ZERO });
    let why = Refusal::NotAuthorized;
    let out = hand.feed(Input::Message { rank: Rank::ZERO, message: ToClient::Refused { why, text: "no".into() } });
    assert!(matches!(&out[..], [Output::Refused { .. }, Output::Complete { result: Err(_), .. }]));
    assert!(hand.feed(Input::Disconnected { rank: Rank::ZERO }).is_empty());
    let out = hand.call(2, Call::GetAttr { ino: Ino::ROOT });
    assert!(matches!(&out[..], [Output::Complete { result: Err(failed), .. }] if failed.error == FsError::Unavailable));
}

#[test]
fn a_client_that_lost_its_session_waits_for_a_server_that_is_stopping() {
    let mut hand = Hand::connected();
    hand.feed(Input::Message { rank: Rank::ZERO, message: ToClient::Evicted });
    hand.feed(Input::Connected { rank: Rank::ZERO });
    let (why, text) = (Refusal::Stopping, "soon".into());
    let out = hand.feed(Input::Message { rank: Rank::ZERO, message: ToClient::Refused { why, text } });
    assert!(matches!(&out[..], [Output::Connect { address: None, .. }]), "{out:?}");
}

#[test]
fn a_wait_for_a_lock_that_the_server_ends_is_begun_again() {
    let mut net = Net::new(1);
    let (fh, _) = net.create(0, "a");
    net.run();
    let owner = LockOwner(1);
    let lock = FileLock { kind: LockKind::Posix, owner, pid: 1, exclusive: true, start: 0, end: 9 };
    net.server.faults.locks.push_back(FsError::Busy);
    net.ok(0, Call::SetLock { fh, lock, wait: true });
    assert_eq!(net.count("setlock"), 2);
    net.ok(0, Call::Unlock { fh, lock: FileLock { start: 5, end: 5, ..lock } });
    net.ok(0, Call::Flush { fh, owner: Some(LockOwner(2)) });
    assert_eq!(net.count("unlock"), 1, "another owner holds none");
    net.ok(0, Call::Flush { fh, owner: Some(owner) });
    assert_eq!(net.count("unlock"), 2);
    net.ok(0, Call::Flush { fh, owner: Some(owner) });
    assert_eq!(net.count("unlock"), 2);
}

#[test]
fn locks_are_claimed_again_with_their_ranges() {
    let mut net = Net::new(1);
    let (fh, ino) = net.create(0, "a");
    let owner = LockOwner(1);
    let lock = FileLock { kind: LockKind::Posix, owner, pid: 1, exclusive: true, start: 0, end: 9 };
    net.ok(0, Call::SetLock { fh, lock, wait: false });
    net.ok(0, Call::Unlock { fh, lock: FileLock { start: 4, end: 5, ..lock } });
    net.server.restart();
    net.disconnect(0);
    net.run();
    let claimed: Vec<_> = net.server.claimed.iter().map(|(of, _, lock)| (*of, lock.start, lock.end)).collect();
    assert_eq!(claimed, [(ino, 0, 3), (ino, 6, 9)]);
}

#[test]
fn locks_of_an_open_file_end_with_it_and_not_with_the_handle_that_is_kept_for_the_next() {
    let mut net = Net::new(1);
    let (_, ino) = net.create(0, "a");
    let (one, other) = (net.open(0, ino, rw()), net.open(0, ino, rw()));
    let lock = |owner, start, end| FileLock {
        kind: LockKind::Posix,
        owner: LockOwner(owner),
        pid: 1,
        exclusive: true,
        start,
        end,
    };
    net.ok(0, Call::SetLock { fh: one, lock: lock(1, 0, 9), wait: false });
    net.ok(0, Call::SetLock { fh: one, lock: lock(1, 20, 29), wait: false });
    net.ok(0, Call::SetLock { fh: other, lock: lock(2, 40, 49), wait: false });
    net.ok(0, Call::SetLock { fh: other, lock: lock(1, 60, 69), wait: false });
    let opens = net.count("open");
    net.ok(0, Call::Release { fh: one, flock_owner: None });
    net.run();
    assert_eq!(net.server.unlocked, [(ino, LockOwner(1), 0, 9), (ino, LockOwner(1), 20, 29)]);
    net.open(0, ino, rw());
    assert_eq!(net.count("open"), opens, "the handle serves the next open");
    net.server.restart();
    net.disconnect(0);
    net.run();
    let claimed: Vec<_> = net.server.claimed.iter().map(|(_, _, lock)| (lock.owner, lock.start)).collect();
    assert_eq!(claimed, [(LockOwner(1), 60), (LockOwner(2), 40)], "what was taken through another open file stays");
}

/// Two clients write to one file, and neither may hold anything back; their handles.
fn written_by_two(net: &mut Net) -> (crate::Fh, crate::Fh) {
    let (a, ino) = net.create(0, "a");
    net.write(0, a, 0, &[1; 100]);
    let b = net.open(1, ino, rw());
    net.write(0, a, 0, b"one");
    net.write(1, b, 50, b"two");
    (a, b)
}

fn reconnect_all(net: &mut Net) {
    (0..net.nodes.len()).for_each(|at| net.disconnect(at));
    net.run();
}

#[test]
fn after_a_clean_restart_nothing_counts_as_lost() {
    let mut net = Net::new(2);
    let (a, b) = written_by_two(&mut net);
    let writes = net.server.log.len();
    net.server.restart_cleanly();
    reconnect_all(&mut net);
    assert!(net.server.log[writes..].iter().all(|line| !line.contains("write")), "{:?}", net.server.log);
    net.fsync(0, a).unwrap();
    net.flush(1, b).unwrap();
}

#[test]
fn after_another_restart_what_cannot_be_written_again_is_lost() {
    for between in [false, true] {
        let mut net = Net::new(2);
        let (a, b) = written_by_two(&mut net);
        net.server.restart();
        if between {
            // Nobody noticed the first one: the second, a clean one, must not hide it.
            net.server.restart_cleanly();
        }
        reconnect_all(&mut net);
        assert_eq!(net.fsync(0, a).unwrap_err().error, FsError::Io);
        assert_eq!(net.flush(1, b).unwrap_err().error, FsError::Io);
        net.fsync(0, a).unwrap();
    }
}

#[test]
fn a_server_that_does_not_say_whether_data_was_lost_is_not_trusted() {
    let mut net = Net::new(2);
    net.server.data_epoch = 0;
    let (a, _) = written_by_two(&mut net);
    net.server.restart_cleanly();
    reconnect_all(&mut net);
    assert_eq!(net.fsync(0, a).unwrap_err().error, FsError::Io);
}
