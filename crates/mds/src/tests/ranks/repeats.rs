//! Requests over ranks that are sent again, or whose client goes away.

use loligo_types::msg::{Reclaim, ToServer};
use loligo_types::{Answer, Control, Frag, FsError, Ino, Op, Seq};

use super::*;

#[test]
fn a_request_over_ranks_that_is_sent_again_to_the_next_life_of_its_coordinator_is_not_executed_twice() {
    let (mut cluster, a, here, there) = two_ranks();
    let file = cluster.touch(a, here, "f");
    let op = rename(here, "f", there, "g");
    let seq = cluster.send(a, 0, op.clone());
    let linked = Op::Link { ino: file, dir: here, name: name("h") };
    let link = cluster.send(a, 0, linked.clone());
    // There is another one of that name now: the rename would move it.
    let second = cluster.touch(a, here, "f");
    cluster.kill(0);
    cluster.start(0);
    cluster.come_back(a, 0, Reclaim::default());
    cluster.at(0, |world| world.send_again(a, seq, op));
    cluster.at(0, |world| world.send_again(a, link, linked));
    assert_eq!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(Answer::Done))));
    let outcome = cluster.outcome(a, 0, link);
    assert!(matches!(outcome, Some(Outcome::Answered(Ok(Answer::Entry(attr)))) if attr.nlink == 2), "{outcome:?}");
    assert_eq!((cluster.lookup(a, here, "f"), cluster.lookup(a, there, "g")), (Ok(second), Ok(file)));
    cluster.finish();
}

#[test]
fn a_client_that_leaves_while_its_request_borrows_leaves_nothing_locked() {
    let (mut cluster, a, here, there) = two_ranks();
    let b = cluster.client();
    let file = cluster.touch(a, there, "f");
    cluster.held.insert((1, 0));
    cluster.send(b, 0, Op::Link { ino: file, dir: here, name: name("g") });
    let is_lent = |cluster: &Cluster| cluster.world(1).mds.under_way().iter().any(|line| line.contains("is lent"));
    while !is_lent(&cluster) {
        // The other client is asked for its leases before.
        cluster.deliver(1, 0);
    }
    cluster.at(0, |world| world.message(b, ToServer::Goodbye { gone: false }));
    cluster.release();
    assert_eq!(cluster.world(1).mds.under_way(), Vec::<String>::new());
    assert_eq!(cluster.lookup(a, here, "g"), Err(FsError::NotFound));
    assert_eq!(cluster.attr(a, file).map(|attr| attr.nlink), Ok(1));
    cluster.finish();
}

#[test]
fn what_needs_a_rank_that_is_away_waits_for_it_and_the_rest_goes_on() {
    let (mut cluster, a, here, there) = two_ranks();
    let file = cluster.touch(a, here, "f");
    cluster.kill(1);
    let renamed = cluster.send(a, 0, rename(here, "f", there, "g"));
    let made = cluster.send(a, 0, mkdir(here, "d"));
    assert!(matches!(cluster.outcome(a, 0, made), Some(Outcome::Answered(Ok(_)))));
    cluster.wait(10_000);
    assert_eq!(cluster.outcome(a, 0, renamed), None);
    cluster.start(1);
    cluster.come_back(a, 1, Reclaim::default());
    cluster.wait(100);
    assert_eq!(cluster.outcome(a, 0, renamed), Some(Outcome::Answered(Ok(Answer::Done))));
    assert_eq!(cluster.lookup(a, there, "g"), Ok(file));
    cluster.finish();
}

#[test]
fn a_renamed_file_is_not_lost_when_ranks_crash_before_their_tables_have_it() {
    let (mut cluster, a, here, there) = two_ranks();
    let sub = cluster.mkdir(a, there, "sub");
    let file = cluster.touch(a, here, "f");
    for round in 0..4 {
        cluster.call(a, rename(here, "f", sub, "f")).expect("it is there");
        cluster.crash(round % 2);
        cluster.call(a, rename(sub, "f", here, "f")).expect("it is there");
        cluster.crash(1 - round % 2);
        if round == 1 {
            cluster.migrate(sub, 1, 0);
            cluster.migrate(sub, 0, 1);
        }
    }
    assert_eq!(cluster.lookup(a, here, "f"), Ok(file));
    assert_eq!(cluster.attr(a, file).map(|attr| attr.nlink), Ok(1));
    assert_eq!(cluster.walk(a).len(), 4);
    cluster.finish();
}

/// A directory that a client has made with a number that it had been given; the answer is lost, and others use it meanwhile.
fn made_unheard() -> (Cluster, usize, Seq, Ino) {
    let mut cluster = Cluster::new(2);
    let (a, b) = (cluster.client(), cluster.client());
    let given = cluster.ask(a, 0, Op::Control(Control::GrantInos { count: 4 }));
    let Outcome::Answered(Ok(Answer::Inos { first, .. })) = given else { panic!("{given:?}") };
    let seq = cluster.at(0, |world| {
        world.clients[a].next_seq += 1;
        let seq = Seq(world.clients[a].next_seq);
        world.send_numbered(a, seq, mkdir(Ino::ROOT, "d"), Some(first));
        seq
    });
    assert!(matches!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(_)))));
    cluster.touch_all(b, first, 10);
    cluster.migrate_frag(first, Frag { bits: 1, value: 1 }, 0, 1);
    (cluster, a, seq, first)
}

fn again(cluster: &mut Cluster, client: usize, seq: Seq, ino: Ino) {
    cluster.at(0, |world| world.send_numbered(client, seq, mkdir(Ino::ROOT, "d"), Some(ino)));
}

#[test]
fn a_mkdir_that_is_sent_again_when_the_directory_is_several_ranks_has_made_it() {
    let (mut cluster, a, seq, dir) = made_unheard();
    again(&mut cluster, a, seq, dir);
    cluster.wait(200);
    let outcome = cluster.outcome(a, 0, seq);
    assert!(
        matches!(&outcome, Some(Outcome::Answered(Ok(Answer::Entry(attr)))) if attr.ino == dir && attr.size == 10),
        "{outcome:?}"
    );
    cluster.finish();
}

#[test]
fn a_mkdir_that_is_sent_again_is_known_to_be_executed_also_where_the_directory_moves_meanwhile() {
    let (mut cluster, a, seq, dir) = made_unheard();
    cluster.held.insert((1, 0));
    again(&mut cluster, a, seq, dir);
    cluster.wait(200);
    assert_eq!(cluster.outcome(a, 0, seq), None, "it waits for the other rank");
    cluster.begin_move(dir, 0, 1);
    cluster.release();
    cluster.wait_for("an answer", |cluster| {
        let outcome = cluster.outcome(a, 0, seq);
        match &outcome {
            None => false,
            Some(Outcome::Redirected { rank: 1, done: Some((ino, _)), .. }) => *ino == dir,
            Some(Outcome::Answered(Ok(Answer::Entry(attr)))) => attr.ino == dir,
            Some(_) => panic!("{outcome:?}"),
        }
    });
    cluster.finish();
}
