//! Transactions over ranks that wait for clients, that meet, and whose ranks crash on the way. Messages are delivered by hand
//! where their order matters.

use loligo_types::{Answer, FsError, Ino, Lease, Letter, Op, RenameMode};

use super::*;
use crate::peer::PeerMsg;

/// The messages on their way, in a word each.
pub(super) fn on_the_way(cluster: &Cluster, from: usize, to: usize) -> Vec<&'static str> {
    let word = |msg: &&PeerMsg| match msg {
        PeerMsg::Borrow { .. } => "borrow",
        PeerMsg::Lent { .. } => "lent",
        PeerMsg::Denied { .. } => "denied",
        PeerMsg::Ready { .. } => "ready",
        PeerMsg::Return { .. } => "return",
        PeerMsg::Letter { letter, .. } if matches!(**letter, Letter::Commit { .. }) => "commit",
        PeerMsg::Received { .. } => "received",
        _ => "other",
    };
    cluster.waiting(from, to).iter().map(word).collect()
}

/// Rank 0 wants a name of its own for a file of rank 1. All that it borrows (the file, then the directory above it, which
/// counts it) is locked, and the last of it is on its way.
fn lend_for_a_link(cluster: &mut Cluster, client: usize, file: Ino, dir: Ino) -> loligo_types::Seq {
    cluster.hold(0, 1);
    let seq = cluster.send(client, 0, Op::Link { ino: file, dir, name: name("g") });
    cluster.deliver(0, 1);
    assert_eq!(on_the_way(cluster, 1, 0), ["lent"]);
    cluster.deliver(1, 0);
    assert_eq!(on_the_way(cluster, 0, 1), ["borrow"]);
    cluster.deliver(0, 1);
    assert_eq!(on_the_way(cluster, 1, 0), ["lent"]);
    assert_eq!(cluster.outcome(client, 0, seq), None);
    seq
}

#[test]
fn while_a_lender_waits_for_a_client_nothing_is_locked() {
    let (mut cluster, a, here, there) = two_ranks();
    let (b, c) = (cluster.client(), cluster.client());
    let file = cluster.touch(a, here, "f");
    cluster.ask(b, 0, Op::Open { ino: file, flags: WRITE, handle: 1 });
    cluster.at(0, |world| world.clients[b].obeys = false);
    let link = cluster.send(a, 1, Op::Link { ino: file, dir: there, name: name("g") });
    assert_eq!(cluster.outcome(a, 1, link), None);
    assert!(!cluster.world(0).clients[b].recalls.is_empty(), "b is asked for what it may hold back");
    let under_way = cluster.world(0).mds.under_way();
    assert!(!under_way.iter().any(|line| line.contains("is lent")), "{under_way:?}");
    // Others get answers that b's rights do not forbid.
    let (read, below) =
        (Op::GetXattr { ino: file, name: (*b"user.x").into() }, Op::Lookup { dir: here, name: name("x") });
    let read = cluster.send(c, 0, read);
    assert_eq!(cluster.outcome(c, 0, read), Some(Outcome::Answered(Err(FsError::NoData))));
    let below = cluster.send(c, 0, below);
    assert_eq!(cluster.outcome(c, 0, below), Some(Outcome::Answered(Err(FsError::NotFound))));
    cluster.at(0, |world| world.clients[b].obeys = true);
    let Some(Outcome::Answered(Ok(Answer::Entry(attr)))) = cluster.outcome(a, 1, link) else { panic!("it is linked") };
    assert_eq!((attr.ino, attr.nlink), (file, 2));
    cluster.ask(b, 0, close(1));
    cluster.finish();
}

fn exchange(dir: Ino, text: &str, new_dir: Ino, new_text: &str) -> Op {
    Op::Rename { dir, name: name(text), new_dir, new_name: name(new_text), mode: RenameMode::Exchange }
}

#[test]
fn of_two_transactions_that_want_each_others_records_the_older_gets_through_and_then_the_younger() {
    for older in [0, 1] {
        let (mut cluster, a, here, there) = two_ranks();
        let dirs = [here, there];
        let (mine, theirs) = (cluster.touch(a, here, "f"), cluster.touch(a, there, "g"));
        cluster.hold(0, 1);
        let younger = 1 - older;
        let texts = ["f", "g"];
        let first = cluster.send(a, older, exchange(dirs[older], texts[older], dirs[younger], texts[younger]));
        cluster.wait(100);
        let second = cluster.send(a, younger, exchange(dirs[younger], texts[younger], dirs[older], texts[older]));
        // Both have locked what the other one wants before the answers come.
        assert_eq!(on_the_way(&cluster, older, younger), ["borrow"]);
        assert_eq!(on_the_way(&cluster, younger, older), ["borrow"]);
        cluster.deliver(older, younger);
        cluster.deliver(younger, older);
        assert_eq!((on_the_way(&cluster, 0, 1), on_the_way(&cluster, 1, 0)), (vec!["lent"], vec!["lent"]));
        cluster.deliver(younger, older);
        cluster.deliver(older, younger);
        let early = (cluster.outcome(a, older, first), cluster.outcome(a, younger, second));
        assert_eq!(early, (None, None), "neither goes over the other's locks");
        // The younger one gives way.
        assert_eq!(on_the_way(&cluster, younger, older), ["return"]);
        cluster.deliver(younger, older);
        cluster.wait(50);
        assert!(on_the_way(&cluster, older, younger).contains(&"commit"), "{:?}", cluster.waiting(older, younger));
        assert_eq!(cluster.outcome(a, older, first), Some(Outcome::Answered(Ok(Answer::Done))));
        assert_eq!(cluster.outcome(a, younger, second), None);
        cluster.release();
        cluster.wait(200);
        assert_eq!(cluster.outcome(a, younger, second), Some(Outcome::Answered(Ok(Answer::Done))));
        // There and back.
        assert_eq!((cluster.lookup(a, here, "f"), cluster.lookup(a, there, "g")), (Ok(mine), Ok(theirs)));
        cluster.finish();
    }
}

#[test]
fn a_decision_that_is_durable_is_delivered_by_the_next_life_of_its_rank_and_applied_once() {
    for received in [false, true] {
        let (mut cluster, a, here, there) = two_ranks();
        let file = cluster.touch(a, there, "f");
        let link = lend_for_a_link(&mut cluster, a, file, here);
        cluster.deliver(1, 0);
        assert!(matches!(cluster.outcome(a, 0, link), Some(Outcome::Answered(Ok(_)))));
        assert_eq!(on_the_way(&cluster, 0, 1), ["commit"]);
        if received {
            // Applied, but the sender never hears of it.
            cluster.deliver(0, 1);
            assert_eq!(on_the_way(&cluster, 1, 0), ["received"]);
        }
        let links = |cluster: &Cluster| {
            let found = cluster.world(1).mds.core.tree.inode(file).map(|inode| inode.nlink);
            found.expect("the lender has it")
        };
        assert_eq!(links(&cluster), 1 + u32::from(received));
        cluster.kill(0);
        if !received {
            let under_way = cluster.world(1).mds.under_way();
            assert!(under_way.iter().any(|line| line.contains("is lent")), "it stays locked: {under_way:?}");
        }
        cluster.held.clear();
        cluster.start(0);
        assert_eq!(links(&cluster), 2);
        cluster.come_back(a, 0, Default::default());
        assert_eq!(cluster.attr(a, file).map(|attr| attr.nlink), Ok(2));
        assert_eq!(cluster.lookup(a, here, "g"), Ok(file));
        cluster.finish();
    }
}

#[test]
fn a_decision_that_was_not_durable_has_never_been() {
    let (mut cluster, a, here, there) = two_ranks();
    let file = cluster.touch(a, there, "f");
    cluster.at(0, |world| world.syncs = false);
    let seq = lend_for_a_link(&mut cluster, a, file, here);
    cluster.deliver(1, 0);
    assert_eq!((cluster.outcome(a, 0, seq), on_the_way(&cluster, 0, 1)), (None, vec![]), "nothing leaves");
    cluster.kill(0);
    cluster.held.clear();
    assert!(cluster.world(1).mds.under_way().iter().any(|line| line.contains("is lent")));
    cluster.start(0);
    assert_eq!(cluster.world(1).mds.under_way(), Vec::<String>::new(), "the locks are gone");
    cluster.come_back(a, 0, Default::default());
    assert_eq!(cluster.lookup(a, here, "g"), Err(FsError::NotFound));
    assert_eq!(cluster.attr(a, file).map(|attr| attr.nlink), Ok(1));
    cluster.finish();
}

#[test]
fn a_transaction_whose_lender_crashes_begins_anew_and_gets_through() {
    let (mut cluster, a, here, there) = two_ranks();
    let file = cluster.touch(a, there, "f");
    let seq = lend_for_a_link(&mut cluster, a, file, here);
    cluster.kill(1);
    assert_eq!(cluster.outcome(a, 0, seq), None);
    cluster.held.clear();
    cluster.start(1);
    cluster.come_back(a, 1, Default::default());
    cluster.wait(100);
    let outcome = cluster.outcome(a, 0, seq);
    assert!(matches!(outcome, Some(Outcome::Answered(Ok(Answer::Entry(attr)))) if attr.nlink == 2), "{outcome:?}");
    assert_eq!(cluster.attr(a, file).map(|attr| attr.nlink), Ok(2));
    cluster.finish();
}

#[test]
fn a_lender_that_was_restarted_serves_nothing_before_it_knows_what_was_decided() {
    let (mut cluster, a, here, there) = two_ranks();
    let file = cluster.touch(a, there, "f");
    let seq = lend_for_a_link(&mut cluster, a, file, here);
    cluster.deliver(1, 0);
    assert!(matches!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(_)))));
    assert_eq!(on_the_way(&cluster, 0, 1), ["commit"]);
    cluster.kill(1);
    cluster.start(1);
    cluster.come_back(a, 1, Default::default());
    let read = cluster.send(a, 1, Op::GetAttr { ino: file });
    // Hello from there, then the letter.
    assert_eq!(cluster.outcome(a, 1, read), None);
    cluster.deliver(1, 0);
    cluster.deliver(0, 1);
    assert_eq!(cluster.outcome(a, 1, read), None, "the letter is missing");
    cluster.release();
    cluster.wait(100);
    let outcome = cluster.outcome(a, 1, read);
    assert!(matches!(outcome, Some(Outcome::Answered(Ok(Answer::Entry(attr)))) if attr.nlink == 2), "{outcome:?}");
    cluster.finish();
}

#[test]
fn a_connection_that_breaks_at_any_message_of_a_transaction_loses_and_repeats_nothing() {
    for steps in 0..6 {
        let (mut cluster, a, here, there) = two_ranks();
        let file = cluster.touch(a, here, "f");
        cluster.hold(0, 1);
        let seq = cluster.send(a, 0, rename(here, "f", there, "g"));
        let mut done = 0;
        while done < steps {
            let Some(wire) = [(0, 1), (1, 0)].into_iter().find(|(from, to)| !cluster.waiting(*from, *to).is_empty())
            else {
                break;
            };
            cluster.deliver(wire.0, wire.1);
            done += 1;
        }
        cluster.held.clear();
        cluster.reconnect(0, 1);
        cluster.wait(200);
        assert_eq!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(Answer::Done))), "after {steps} messages");
        assert_eq!(cluster.lookup(a, here, "f"), Err(FsError::NotFound));
        assert_eq!(cluster.lookup(a, there, "g"), Ok(file));
        assert_eq!(cluster.walk(a).len(), 3);
        cluster.finish();
    }
}

#[test]
fn a_lent_file_is_read_by_others_only_after_the_decision() {
    let (mut cluster, a, here, there) = two_ranks();
    let b = cluster.client();
    let (file, sub) = (cluster.touch(a, there, "f"), cluster.mkdir(a, there, "sub"));
    let seq = lend_for_a_link(&mut cluster, a, file, here);
    let read = cluster.send(b, 1, Op::GetAttr { ino: file });
    assert_eq!(cluster.outcome(b, 1, read), None);
    let other = cluster.send(b, 1, Op::Lookup { dir: sub, name: name("x") });
    assert_eq!(cluster.outcome(b, 1, other), Some(Outcome::Answered(Err(FsError::NotFound))), "that is not lent");
    cluster.release();
    assert!(matches!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(_)))));
    let outcome = cluster.outcome(b, 1, read);
    assert!(matches!(outcome, Some(Outcome::Answered(Ok(Answer::Entry(attr)))) if attr.nlink == 2), "{outcome:?}");
    cluster.finish();
}

#[test]
fn leases_on_a_ranks_directory_are_asked_back_for_a_change_that_another_rank_decides() {
    let (mut cluster, a, here, there) = two_ranks();
    let b = cluster.client();
    cluster.touch(a, here, "f");
    // b remembers that the name is not there.
    let op = Op::Lookup { dir: there, name: name("g") };
    assert_eq!(cluster.ask(b, 1, op), Outcome::Answered(Err(FsError::NotFound)));
    cluster.ask(b, 1, Op::GetAttr { ino: there });
    cluster.at(1, |world| world.clients[b].obeys = false);
    let seq = cluster.send(a, 0, rename(here, "f", there, "g"));
    assert_eq!(cluster.outcome(a, 0, seq), None);
    let names = |(ino, _, bits): &(Ino, u64, Lease)| *ino == there && bits.any(Lease::NAMES);
    assert!(cluster.world(1).clients[b].recalls.iter().any(names));
    cluster.at(1, |world| world.clients[b].obeys = true);
    assert_eq!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(Answer::Done))));
    cluster.finish();
}

#[test]
fn a_coordinator_that_waits_for_its_own_client_has_given_back_what_it_borrowed() {
    let (mut cluster, a, here, there) = two_ranks();
    let (b, c) = (cluster.client(), cluster.client());
    let file = cluster.touch(a, there, "f");
    // b knows the names of the directory in which the new one is to be.
    cluster.ask(b, 0, Op::Lookup { dir: here, name: name("x") });
    cluster.at(0, |world| world.clients[b].obeys = false);
    let seq = cluster.send(a, 0, Op::Link { ino: file, dir: here, name: name("g") });
    assert_eq!(cluster.outcome(a, 0, seq), None);
    assert!(!cluster.world(0).clients[b].recalls.is_empty());
    cluster.wait(7000);
    let under_way = cluster.world(1).mds.under_way();
    assert!(!under_way.iter().any(|line| line.contains("is lent")), "{under_way:?}");
    let changed = cluster.send(c, 1, chmod(file, 0o600));
    assert!(matches!(cluster.outcome(c, 1, changed), Some(Outcome::Answered(Ok(_)))));
    cluster.at(0, |world| world.clients[b].obeys = true);
    let outcome = cluster.outcome(a, 0, seq);
    assert!(matches!(outcome, Some(Outcome::Answered(Ok(Answer::Entry(attr)))) if attr.nlink == 2), "{outcome:?}");
    cluster.finish();
}

#[test]
fn a_client_that_takes_its_time_to_give_back_holds_a_transaction_up_and_does_not_end_it() {
    let (mut cluster, a, here, there) = two_ranks();
    let b = cluster.client();
    let file = cluster.touch(a, there, "f");
    cluster.ask(b, 1, Op::Open { ino: file, flags: WRITE, handle: 1 });
    cluster.at(1, |world| world.clients[b].obeys = false);
    let seq = cluster.send(a, 0, Op::Link { ino: file, dir: here, name: name("g") });
    cluster.wait(20_000);
    assert_eq!(cluster.outcome(a, 0, seq), None);
    cluster.at(1, |world| world.clients[b].obeys = true);
    cluster.wait(100);
    assert!(matches!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(_)))));
    cluster.ask(b, 1, close(1));
    cluster.finish();
}

#[test]
fn a_directory_whose_name_is_another_ranks_gets_no_second_one_and_that_is_said_at_once() {
    let (mut cluster, a, here, there) = two_ranks();
    let dir = cluster.mkdir(a, there, "d");
    // Its name stays with the directory above.
    cluster.migrate(dir, 1, 0);
    cluster.at(0, |world| world.read.clear());
    let (result, _) = cluster.call_by(a, 0, &Op::Link { ino: dir, dir: here, name: name("e") });
    assert_eq!(result, Err(FsError::Perm));
    cluster.finish();
}
