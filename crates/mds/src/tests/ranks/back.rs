//! A directory goes away and comes back, and with it files of which no letter on the way back needs to tell.

use loligo_types::msg::{Reclaim, ToServer};
use loligo_types::{Answer, Ino, Lease, Op};

use super::*;

/// A file in a directory that goes from rank 0 to rank 1. It is open then, so rank 0 puts down that it has given it away.
fn gone(ranks: usize) -> (Cluster, usize, Ino, Ino) {
    let mut cluster = Cluster::new(ranks);
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    let Ok(Answer::Opened { attr, .. }) = cluster.call(a, create(dir, "f", WRITE, 1)) else { panic!("it is made") };
    cluster.at(1, |world| world.checkpoints = false);
    cluster.migrate(dir, 0, 1);
    assert!(cluster.world(0).mds.cluster.atlas.departed.contains_key(&attr.ino));
    cluster.ask(a, 1, close(1));
    (cluster, a, dir, attr.ino)
}

#[test]
fn what_is_open_where_it_came_back_to_is_open_there_after_a_restart_of_all() {
    let (mut cluster, a, dir, file) = gone(2);
    // Rank 0 still has in its journal that the file went; rank 1 has the file in the table.
    cluster.at(0, |world| world.checkpoints = false);
    cluster.at(1, |world| world.checkpoints = true);
    cluster.wait(8000);
    assert!(cluster.world(0).mds.cluster.atlas.departed.is_empty());
    cluster.migrate(dir, 1, 0);
    let (answer, asked) = cluster.call_by(a, 0, &Op::Open { ino: file, flags: WRITE, handle: 2 });
    assert!(answer.is_ok() && asked == [0], "{answer:?} {asked:?}");
    cluster.kill(0);
    cluster.kill(1);
    cluster.start(0);
    // Rank 1 cannot say yet that the table has what it was given.
    let opens = vec![(2, file, WRITE, Lease::CACHE | Lease::BUFFER)];
    cluster.come_back(a, 0, Reclaim { opens, ..Reclaim::default() });
    cluster.start(1);
    cluster.come_back(a, 1, Reclaim::default());
    cluster.wait(1000);
    let written = cluster.ask(a, 0, write_inline(file, 2, 0, b"open"));
    assert!(matches!(written, Outcome::Answered(Ok(_))), "the file is open: {written:?}");
    cluster.at(0, |world| world.checkpoints = true);
    cluster.finish();
}

#[test]
fn what_came_back_by_way_of_a_third_rank_is_served_while_the_first_one_cannot_be_heard() {
    let (mut cluster, a, dir, file) = gone(3);
    cluster.hold(0, 1);
    cluster.at(1, |world| world.checkpoints = true);
    cluster.migrate(dir, 1, 2);
    cluster.wait(8000);
    // Else it would be in memory because of it.
    cluster.at(2, |world| world.message(a, ToServer::Release(vec![(file, Lease::ATTR)])));
    cluster.migrate(dir, 2, 0);
    assert!(!cluster.has(0, file) && cluster.world(0).mds.cluster.atlas.departed.contains_key(&file));
    let (answer, asked) = cluster.call_by(a, 0, &Op::Open { ino: file, flags: WRITE, handle: 2 });
    assert!(answer.is_ok() && asked == [0], "{answer:?} {asked:?}");
    cluster.release();
    cluster.finish();
}

#[test]
fn what_is_gone_is_not_looked_for_in_a_table_that_is_behind_when_something_else_comes_back() {
    let mut cluster = Cluster::new(3);
    let a = cluster.client();
    let (dir, old, other) =
        (cluster.mkdir(a, Ino::ROOT, "d"), cluster.mkdir(a, Ino::ROOT, "old"), cluster.mkdir(a, Ino::ROOT, "other"));
    let renamed = cluster.touch(a, old, "renamed");
    cluster.migrate(other, 0, 2);
    cluster.wait(8000);
    cluster.at(1, |world| world.checkpoints = false);
    cluster.at(0, |world| world.checkpoints = false);
    cluster.touch(a, dir, "before");
    let id = cluster.begin_move(dir, 0, 1);
    cluster.wait(200);
    // Behind the checkpoint that is under way: the table learns of both from rank 1 only.
    let made = cluster.touch(a, dir, "made");
    assert_eq!(cluster.call(a, rename(old, "renamed", dir, "renamed")), Ok(Answer::Done));
    cluster.at(0, |world| world.checkpoints = true);
    cluster.wait_for("the end", |cluster| cluster.state(0, id) == "done");
    cluster.migrate(other, 2, 0);
    for (file, text) in [(made, "made"), (renamed, "renamed")] {
        assert!(!cluster.has(0, file), "{text}");
        assert!(cluster.world(0).mds.cluster.atlas.may_be_back(file), "{text}");
        let seq = cluster.send(a, 0, Op::GetAttr { ino: file });
        cluster.wait(100);
        let outcome = cluster.outcome(a, 0, seq);
        assert!(matches!(outcome, Some(Outcome::Redirected { rank: 1, .. })), "{text}: {outcome:?}");
    }
    cluster.at(1, |world| world.checkpoints = true);
    cluster.finish();
}
