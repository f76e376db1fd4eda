//! Migrations of which one side or both die on the way: the directory is wholly at one rank afterwards.

use loligo_types::msg::Reclaim;
use loligo_types::{Answer, Ino, Lease, Letter, Op};

use super::*;
use crate::peer::PeerMsg;

/// A migration of a directory from rank 0 to rank 1, at the moment before its record: a file in it is open.
struct Scene {
    cluster: Cluster,
    client: usize,
    dir: Ino,
    file: Ino,
}

fn frozen() -> Scene {
    let (mut cluster, a, here, _) = two_ranks();
    let below = cluster.mkdir(a, here, "below");
    cluster.touch(a, below, "g");
    let Ok(Answer::Opened { attr, .. }) = cluster.call(a, create(below, "f", WRITE, 1)) else { panic!("it is made") };
    let file = attr.ino;
    cluster.at(0, |world| world.quiesces = false);
    let id = cluster.begin_move(here, 0, 1);
    cluster.wait_for("the moment before the record", |cluster| !cluster.world(0).pending_quiesces.is_empty());
    assert_eq!(cluster.state(0, id), "freezing");
    cluster.hold(0, 1);
    Scene { cluster, client: a, dir: here, file }
}

impl Scene {
    /// The exporter makes its record.
    fn record(&mut self) {
        self.cluster.at(0, |world| world.quiesces = true);
    }

    fn letter_is_on_its_way(&self) -> bool {
        let is_import =
            |msg: &&PeerMsg| matches!(msg, PeerMsg::Letter { letter, .. } if matches!(**letter, Letter::Import { .. }));
        self.cluster.waiting(0, 1).iter().any(is_import)
    }

    /// A rank dies.
    fn kill(&mut self, at: usize) {
        self.cluster.kill(at);
    }

    /// It starts again, and the client tells it what it held.
    fn start(&mut self, at: usize) {
        self.cluster.held.clear();
        self.cluster.start(at);
        let mut held = Reclaim::default();
        if at == 0 {
            held.opens.push((1, self.file, WRITE, Lease::CACHE | Lease::BUFFER));
        }
        let client = self.client;
        self.cluster.come_back(client, at, held);
    }

    /// Everything is at this rank, and the file is open there.
    fn ends_wholly_at(mut self, at: usize) {
        self.cluster.release();
        self.cluster.wait(1000);
        let (client, file) = (self.client, self.file);
        let (answer, asked) = self.cluster.call_by(client, at, &Op::GetAttr { ino: self.dir });
        assert!(answer.is_ok() && asked == [at], "{answer:?} {asked:?}");
        let written = self.cluster.ask(client, at, write_inline(file, 1, 0, b"open"));
        assert!(matches!(written, Outcome::Answered(Ok(_))), "the file is open: {written:?}");
        let walk = self.cluster.walk(client);
        let paths: Vec<&str> = walk.keys().map(String::as_str).collect();
        assert_eq!(paths, ["/here", "/here/below", "/here/below/f", "/here/below/g", "/there"]);
        let other = 1 - at;
        for path in ["/here", "/here/below", "/here/below/f", "/here/below/g"] {
            let ino = walk[path].0;
            assert!(!self.cluster.has(other, ino), "{path} is not at rank {other}");
        }
        self.cluster.ask(client, at, close(1));
        // And once more, back and forth.
        let dir = self.dir;
        self.cluster.migrate(dir, at, other);
        self.cluster.migrate(dir, other, at);
        assert_eq!(self.cluster.walk(client).len(), 5);
        self.cluster.finish();
    }
}

#[test]
fn a_migration_whose_exporter_dies_before_its_record_has_never_been() {
    let mut scene = frozen();
    scene.kill(0);
    scene.start(0);
    scene.ends_wholly_at(0);
    // The record was made, and not durable.
    let mut scene = frozen();
    scene.cluster.at(0, |world| world.syncs = false);
    scene.record();
    assert!(!scene.letter_is_on_its_way());
    scene.kill(0);
    scene.start(0);
    scene.ends_wholly_at(0);
}

#[test]
fn a_migration_whose_exporter_dies_after_its_record_is_ended_by_its_next_life() {
    let mut scene = frozen();
    scene.record();
    assert!(scene.letter_is_on_its_way());
    scene.kill(0);
    scene.start(0);
    scene.ends_wholly_at(1);
}

#[test]
fn a_migration_whose_importer_dies_before_the_letter_is_delivered_to_its_next_life() {
    let mut scene = frozen();
    scene.record();
    assert!(scene.letter_is_on_its_way());
    scene.kill(1);
    scene.start(1);
    scene.ends_wholly_at(1);
    // It had come, and the importer's record of it was not durable.
    let mut scene = frozen();
    scene.record();
    scene.cluster.at(1, |world| world.syncs = false);
    while scene.letter_is_on_its_way() {
        scene.cluster.deliver(0, 1);
    }
    assert!(!scene.cluster.world(1).volatile.is_empty());
    scene.kill(1);
    scene.start(1);
    scene.ends_wholly_at(1);
}

#[test]
fn a_migration_whose_importer_dies_when_it_has_the_letter_is_not_made_twice() {
    let mut scene = frozen();
    scene.record();
    while scene.letter_is_on_its_way() {
        scene.cluster.deliver(0, 1);
    }
    // The exporter does not hear of it.
    scene.kill(1);
    scene.cluster.held.clear();
    scene.cluster.start(1);
    // The client tells the importer, at which it is since, what it holds.
    let opens = vec![(1, scene.file, WRITE, Lease::CACHE | Lease::BUFFER)];
    let client = scene.client;
    scene.cluster.come_back(client, 1, Reclaim { opens, ..Reclaim::default() });
    scene.ends_wholly_at(1);
}

#[test]
fn a_migration_of_which_both_sides_die_after_its_record_is_ended_by_their_next_lives() {
    for first in [0, 1] {
        let mut scene = frozen();
        scene.record();
        assert!(scene.letter_is_on_its_way());
        scene.kill(first);
        scene.kill(1 - first);
        scene.cluster.held.clear();
        scene.cluster.start(first);
        scene.start(1 - first);
        let client = scene.client;
        scene.cluster.come_back(client, first, Reclaim::default());
        scene.ends_wholly_at(1);
    }
}

#[test]
fn a_migration_whose_connection_breaks_before_its_record_fails_and_everything_goes_on() {
    let mut scene = frozen();
    scene.cluster.held.clear();
    let waits = scene.cluster.send(scene.client, 0, write_inline(scene.file, 1, 0, b"x"));
    assert_eq!(scene.cluster.outcome(scene.client, 0, waits), None, "requests wait");
    scene.cluster.reconnect(0, 1);
    let state = scene.cluster.state(0, 2);
    assert_eq!(state, "failed: the connection to the other rank was lost: try again");
    assert!(matches!(scene.cluster.outcome(scene.client, 0, waits), Some(Outcome::Answered(Ok(_)))));
    scene.record();
    scene.ends_wholly_at(0);
}

#[test]
fn what_was_changed_after_the_move_survives_a_crash_of_either_rank() {
    let mut scene = frozen();
    scene.record();
    scene.cluster.release();
    scene.cluster.wait(500);
    let (a, dir, file) = (scene.client, scene.dir, scene.file);
    scene.cluster.ask(a, 1, close(1));
    scene.cluster.touch(a, dir, "new");
    scene.cluster.call(a, chmod(file, 0o600)).expect("it may");
    let before = scene.cluster.walk(a);
    scene.cluster.crash(0);
    assert_eq!(scene.cluster.walk(a), before);
    scene.cluster.crash(1);
    assert_eq!(scene.cluster.walk(a), before);
    scene.cluster.wait(5000);
    scene.cluster.crash(1);
    scene.cluster.crash(0);
    assert_eq!(scene.cluster.walk(a), before);
    scene.cluster.finish();
}

#[test]
fn what_was_changed_while_a_directory_was_being_moved_does_not_come_back_over_what_its_new_rank_did() {
    let (mut cluster, a, here, _) = two_ranks();
    let file = cluster.touch(a, here, "f");
    cluster.touch(a, here, "gone");
    cluster.at(0, |world| world.checkpoints = false);
    let id = cluster.begin_move(here, 0, 1);
    cluster.wait(200);
    // Behind the checkpoint that is under way: the table does not get this from rank 0.
    cluster.call(a, chmod(file, 0o600)).expect("it may");
    cluster.call(a, unlink(here, "gone")).expect("it is there");
    cluster.touch(a, here, "late");
    cluster.at(0, |world| world.checkpoints = true);
    cluster.wait_for("the end", |cluster| cluster.state(0, id) == "done");
    assert_eq!(cluster.attr(a, file).map(|attr| attr.mode), Ok(0o600));
    cluster.call(a, chmod(file, 0o640)).expect("it may");
    cluster.touch(a, here, "gone");
    cluster.call(a, unlink(here, "late")).expect("it is there");
    let before = cluster.walk(a);
    assert_eq!(before["/here/f"].3, 0o640);
    cluster.crash(0);
    assert_eq!(cluster.walk(a), before);
    // Both write what they have into the table, and only that is left.
    for at in [1, 0] {
        cluster.wait(5000);
        cluster.crash(at);
        assert_eq!(cluster.walk(a), before);
    }
    cluster.finish();
}

#[test]
fn what_was_imported_before_a_crash_is_said_to_be_in_the_table_when_it_is() {
    let (mut cluster, a, here, _) = two_ranks();
    cluster.touch(a, here, "f");
    cluster.at(1, |world| world.checkpoints = false);
    cluster.migrate(here, 0, 1);
    let knows = |cluster: &mut Cluster| cluster.at(0, |world| !world.mds.cluster.atlas.departed.is_empty());
    assert!(knows(&mut cluster), "the table may not have it yet");
    cluster.kill(1);
    cluster.start(1);
    cluster.at(1, |world| world.checkpoints = false);
    cluster.come_back(a, 1, Default::default());
    cluster.wait(500);
    assert!(knows(&mut cluster), "only the journal of the other rank has it");
    cluster.at(1, |world| world.checkpoints = true);
    cluster.wait(8000);
    assert!(!knows(&mut cluster));
    cluster.finish();
}
