//! A new connection while something is not durable yet: hello says only what no crash can take back, and no more is said to
//! clients.

use loligo_types::msg::Reclaim;
use loligo_types::{Answer, Ino, Letter};

use super::*;
use crate::peer::PeerMsg;

/// From now on nothing becomes durable at a rank.
fn stall(cluster: &mut Cluster, at: usize) {
    cluster.at(at, |world| world.syncs = false);
}

fn go_on(cluster: &mut Cluster, at: usize) {
    cluster.at(at, |world| world.syncs = true);
}

fn hellos(cluster: &Cluster, from: usize, to: usize) -> usize {
    cluster.waiting(from, to).iter().filter(|msg| matches!(msg, PeerMsg::Hello { .. })).count()
}

fn restart(cluster: &mut Cluster, at: usize, client: usize) {
    cluster.kill(at);
    cluster.start(at);
    cluster.come_back(client, at, Reclaim::default());
}

/// A rename whose letter has come to rank 1, which has applied it; its record is not durable.
fn half_renamed() -> (Cluster, usize, Ino, Ino) {
    let (mut cluster, a, here, there) = two_ranks();
    let file = cluster.touch(a, here, "f");
    cluster.held.insert((0, 1));
    let seq = cluster.send(a, 0, rename(here, "f", there, "g"));
    let is_commit =
        |msg: &PeerMsg| matches!(msg, PeerMsg::Letter { letter, .. } if matches!(**letter, Letter::Commit { .. }));
    while !cluster.waiting(0, 1).iter().any(|msg| is_commit(msg)) {
        cluster.deliver(0, 1);
    }
    assert_eq!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(Answer::Done))));
    stall(&mut cluster, 1);
    cluster.release();
    assert!(!cluster.world(1).volatile.is_empty(), "it is applied");
    (cluster, a, there, file)
}

#[test]
fn a_letter_that_a_crash_can_still_take_back_is_not_said_to_have_come() {
    let (mut cluster, a, there, file) = half_renamed();
    cluster.reconnect(0, 1);
    restart(&mut cluster, 1, a);
    cluster.wait(200);
    assert_eq!(cluster.lookup(a, there, "g"), Ok(file));
    assert_eq!(cluster.walk(a).len(), 3);
    cluster.finish();
}

#[test]
fn hello_is_said_once_and_on_the_last_connection_when_the_journal_has_caught_up() {
    let (mut cluster, a, there, file) = half_renamed();
    cluster.hold(0, 1);
    for _ in 0..3 {
        cluster.reconnect(0, 1);
        assert_eq!((hellos(&cluster, 0, 1), hellos(&cluster, 1, 0)), (1, 0));
    }
    // What the other rank says first waits.
    cluster.deliver(0, 1);
    go_on(&mut cluster, 1);
    assert_eq!(hellos(&cluster, 1, 0), 1);
    cluster.release();
    assert_eq!(cluster.lookup(a, there, "g"), Ok(file));
    assert_eq!(cluster.world(1).mds.under_way(), Vec::<String>::new());
    assert_eq!(cluster.world(0).mds.under_way(), Vec::<String>::new());
    cluster.finish();
}

/// Three ranks, and a directory of rank 0 just before the record that gives it to rank 1.
fn about_to_move() -> (Cluster, usize, Ino) {
    let mut cluster = Cluster::new(3);
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    cluster.call(a, create(dir, "f", WRITE, 1)).expect("it is made");
    cluster.at(0, |world| world.quiesces = false);
    cluster.begin_move(dir, 0, 1);
    cluster.wait_for("the moment before the record", |cluster| !cluster.world(0).pending_quiesces.is_empty());
    (cluster, a, dir)
}

#[test]
fn a_move_that_a_crash_takes_back_was_told_to_nobody() {
    let (mut cluster, a, dir) = about_to_move();
    stall(&mut cluster, 0);
    cluster.at(0, |world| world.quiesces = true);
    assert!(!cluster.world(0).volatile.is_empty(), "the record is made");
    cluster.reconnect(0, 2);
    restart(&mut cluster, 0, a);
    // The others tell it what they know.
    let (answer, asked) = cluster.call_by(a, 2, &loligo_types::Op::GetAttr { ino: dir });
    assert!(answer.is_ok() && asked == [2, 0], "{answer:?} {asked:?}");
    cluster.migrate(dir, 0, 2);
    cluster.migrate(dir, 2, 1);
    assert_eq!(cluster.walk(a).len(), 2);
    cluster.finish();
}

#[test]
fn what_another_rank_tells_before_hello_can_be_said_is_not_lost() {
    let mut cluster = Cluster::new(3);
    let a = cluster.client();
    let [d, e, x] = ["d", "e", "x"].map(|text| cluster.mkdir(a, Ino::ROOT, text));
    cluster.migrate(d, 0, 1);
    cluster.migrate(e, 0, 1);
    stall(&mut cluster, 1);
    cluster.send(a, 1, mkdir(d, "below"));
    cluster.reconnect(1, 2);
    // Rank 2 gets a directory while it waits for hello, and nobody else tells rank 1.
    cluster.hold(0, 1);
    cluster.migrate(x, 0, 2);
    go_on(&mut cluster, 1);
    let lines = cluster.at(1, |world| world.mds.cluster.atlas.routes.lines(x));
    assert_eq!(lines.iter().map(|line| usize::from(line.rank.0)).collect::<Vec<_>>(), [2]);
    cluster.release();
    // And they do with each other what they did before.
    cluster.migrate(e, 1, 2);
    cluster.call(a, rename(d, "below", x, "moved")).expect("it is there");
    assert_eq!(cluster.walk(a).len(), 4);
    cluster.finish();
}

#[test]
fn a_letter_comes_behind_a_hello_that_is_said_late() {
    let (mut cluster, a, here, there) = two_ranks();
    let file = cluster.touch(a, here, "f");
    cluster.held.insert((0, 1));
    cluster.send(a, 0, rename(here, "f", there, "g"));
    while !cluster.waiting(0, 1).iter().any(|msg| matches!(msg, PeerMsg::Letter { .. })) {
        cluster.deliver(0, 1);
    }
    // It is durable, and lost with the connection; what comes after it is not.
    stall(&mut cluster, 0);
    cluster.send(a, 0, mkdir(here, "d"));
    cluster.reconnect(0, 1);
    assert!(cluster.waiting(0, 1).is_empty(), "{:?}", cluster.waiting(0, 1));
    go_on(&mut cluster, 0);
    cluster.release();
    assert_eq!(cluster.lookup(a, there, "g"), Ok(file));
    cluster.finish();
}

#[test]
fn a_move_that_a_crash_takes_back_was_told_to_no_client_that_comes_back() {
    let (mut cluster, a, dir) = about_to_move();
    stall(&mut cluster, 0);
    cluster.at(0, |world| world.quiesces = true);
    assert!(!cluster.world(0).volatile.is_empty(), "the record is made");
    cluster.at(0, |world| world.reconnect(a));
    let welcome = cluster.world(0).clients[a].welcome.clone().expect("it goes on");
    assert_eq!((welcome.kept, welcome.routes), (true, vec![]));
    restart(&mut cluster, 0, a);
    // What that version of the line means now.
    cluster.migrate(dir, 0, 2);
    assert_eq!(cluster.walk(a).len(), 2);
    cluster.finish();
}

#[test]
fn a_move_that_a_crash_takes_back_was_told_to_no_client_that_asks_for_something_else() {
    let (mut cluster, a, dir) = about_to_move();
    let away = cluster.mkdir(a, Ino::ROOT, "away");
    cluster.at(0, |world| world.quiesces = true);
    cluster.migrate(dir, 1, 0);
    cluster.migrate(away, 0, 1);
    cluster.at(0, |world| world.quiesces = false);
    cluster.begin_move(dir, 0, 1);
    cluster.wait_for("the moment before the record", |cluster| !cluster.world(0).pending_quiesces.is_empty());
    stall(&mut cluster, 0);
    // The answer waits for what was changed before it, and not for the record of the move.
    cluster.send(a, 0, mkdir(Ino::ROOT, "x"));
    let seq = cluster.send(a, 0, loligo_types::Op::GetAttr { ino: away });
    cluster.at(0, |world| world.quiesces = true);
    assert_eq!(cluster.world(0).volatile.len(), 2, "both records are made");
    cluster.at(0, |world| {
        let (lsn, record) = world.volatile.pop_front().expect("a record");
        world.journal.insert(lsn, record);
        world.input(crate::Input::Durable { lsn });
    });
    let Some(Outcome::Redirected { rank: 1, routes, .. }) = cluster.outcome(a, 0, seq) else { panic!("no answer") };
    let told: Vec<(Ino, usize)> = routes.iter().map(|line| (line.dir, usize::from(line.rank.0))).collect();
    assert_eq!(told, [(away, 1), (dir, 0)]);
    restart(&mut cluster, 0, a);
    cluster.migrate(dir, 0, 2);
    assert_eq!(cluster.walk(a).len(), 4);
    cluster.finish();
}

/// Two ranks, and clients of which one has a session with both; `a` has a file open below what moves to rank 1, where the letter is
/// applied and nothing of it durable.
fn letter_applied() -> (Cluster, usize, usize, usize) {
    let mut cluster = Cluster::new(2);
    let (walker, a, b) = (cluster.client(), cluster.client_at(0), cluster.client_at(0));
    let dir = cluster.mkdir(walker, Ino::ROOT, "d");
    let outcome = cluster.ask(a, 0, create(dir, "f", WRITE, 1));
    assert!(matches!(outcome, Outcome::Answered(Ok(_))), "{outcome:?}");
    cluster.held.insert((0, 1));
    cluster.begin_move(dir, 0, 1);
    cluster.wait_for("the letter", |cluster| {
        while cluster.waiting(0, 1).first().is_some_and(|msg| !matches!(msg, PeerMsg::Letter { .. })) {
            cluster.deliver(0, 1);
        }
        !cluster.waiting(0, 1).is_empty()
    });
    stall(&mut cluster, 1);
    cluster.release();
    (cluster, walker, a, b)
}

#[test]
fn what_moved_is_never_durable_without_the_sessions_that_hold_it() {
    let records = letter_applied().0.world(1).volatile.len();
    assert!(records > 1);
    for durable in 0..=records {
        let (mut cluster, walker, a, _) = letter_applied();
        for _ in 0..durable {
            cluster.at(1, |world| {
                let (lsn, record) = world.volatile.pop_front().expect("a record");
                world.journal.insert(lsn, record);
                world.input(crate::Input::Durable { lsn });
            });
        }
        cluster.kill(1);
        cluster.start(1);
        cluster.connect(a, 1);
        let welcome = cluster.world(1).clients[a].welcome.clone().expect("a welcome");
        assert!(welcome.resumed, "with {durable} records its session is lost");
        for client in [walker, a] {
            cluster.come_back(client, 1, Reclaim::default());
        }
        cluster.wait(1000);
        assert_eq!(cluster.walk(walker).len(), 2);
        cluster.finish();
    }
}

#[test]
fn a_session_that_came_with_what_moved_is_told_of_when_no_crash_can_take_it_back() {
    for dies in [false, true] {
        let (mut cluster, walker, a, b) = letter_applied();
        cluster.connect(a, 1);
        let welcome = |cluster: &Cluster, client: usize| cluster.world(1).clients[client].welcome.clone();
        assert_eq!(welcome(&cluster, a), None);
        if dies {
            cluster.kill(1);
            cluster.hold(0, 1);
            cluster.start(1);
            // Others come first.
            cluster.connect(b, 1);
            cluster.release();
            cluster.connect(a, 1);
            cluster.come_back(walker, 1, Reclaim::default());
        } else {
            go_on(&mut cluster, 1);
        }
        let [of_a, of_b] = [a, b].map(|client| welcome(&cluster, client).map(|welcome| welcome.session));
        assert!(of_a.is_some() && of_a != of_b, "{of_a:?} {of_b:?}");
        assert_eq!(cluster.ask(a, 1, close(1)), Outcome::Answered(Ok(Answer::Done)));
        assert_eq!(cluster.walk(walker).len(), 2);
        cluster.finish();
    }
}

#[test]
fn a_rank_with_an_older_journal_is_refused() {
    for sends in [false, true] {
        let (mut cluster, a, here, there) = two_ranks();
        let [from, to] = if sends { [there, here] } else { [here, there] };
        cluster.touch(a, from, "f");
        let old = cluster.world(1).journal.clone();
        cluster.call(a, rename(from, "f", to, "g")).expect("it is there");
        cluster.at(1, |world| world.journal = old);
        cluster.hold(0, 1);
        cluster.kill(1);
        cluster.start(1);
        let [hello] = cluster.waiting(1, 0)[..] else { panic!("{:?}", cluster.waiting(1, 0)) };
        let (hello, from) = (hello.clone(), rank(1));
        let fatal = cluster.at(0, |world| {
            world.input(crate::Input::Peer { from, msg: hello });
            world.fatal.take()
        });
        let text = fatal.expect("it does not go on");
        let numbers = if sends {
            "of those from rank 0 it has 1 and had 1, of its own to rank 0 it knows of 0 and 1 have come"
        } else {
            "of those from rank 0 it has 1 and had 2, of its own to rank 0 it knows of 0 and 0 have come"
        };
        assert!(text.starts_with("rank 1 has forgotten letters: ") && text.contains(numbers), "{text}");
    }
}
