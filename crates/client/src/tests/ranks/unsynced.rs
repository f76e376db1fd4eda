//! Data that was written at a rank and not synced, when that restarts and the map says that the file is another's.

use super::*;

/// A file at the first rank, written there and not synced, by these rights.
fn written_by(rights: Lease) -> (Ranks, Fh) {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    world.meet_second();
    let fh = world.create(R0, DIR, FILE, false, rights);
    let id = world.call(write(fh, b"data"));
    let flush = world.call(Call::Flush { fh, owner: None });
    world.serves(R0);
    world.result(id).unwrap();
    world.result(flush).unwrap();
    (world, fh)
}

/// The first rank is there again, and says that the directory is the second one's.
fn comes_back(world: &mut Ranks, kept: bool, data_epoch: u64) {
    world.feed(Input::Disconnected { rank: R0 });
    world.wire.retain(|wire| !matches!(wire, Wire::Connect(..)));
    let before = world.take();
    let routes = vec![route(DIR, R1, 1)];
    world.connect(R0, Welcome { resumed: true, kept, data_epoch, routes, ..welcome(R0, 2) });
    world.wire.splice(..0, before);
}

impl Ranks {
    /// The file moves to the second rank, which restarts before it is met.
    fn moves_restarted(&mut self) {
        let moved = vec![DIR, FILE];
        self.says(R0, ToClient::Routes { routes: vec![route(DIR, R1, 1)], moved, to: Some(R1), frozen_ms: 0 });
        self.take();
        self.connect(R1, Welcome { resumed: true, kept: false, ..welcome(R1, 2) });
    }

    /// Plays all that is wanted: the file is at this rank, which knows the handle. The data operations it was asked for.
    fn serves(&mut self, at: Rank) -> Vec<DataOp> {
        let mut carried_out = Vec::new();
        loop {
            let wire = self.take();
            if wire.is_empty() {
                return carried_out;
            }
            for wire in wire {
                match wire {
                    Wire::Ask(rank, seq, _) if rank != at => {
                        self.says(rank, ToClient::Redirect { seq: Seq(seq), rank: at, routes: Vec::new(), done: None })
                    }
                    Wire::Data(rank, id, _) if rank != at => {
                        self.says(rank, ToClient::Data { id, result: Err(DataError::Stale) });
                    }
                    Wire::Ask(_, seq, Op::Control(Control::GetLock { .. })) => {
                        self.answer(at, seq, Answer::Lock(None), &[])
                    }
                    Wire::Ask(_, seq, Op::Control(Control::Close { .. })) => self.answer(at, seq, Answer::Done, &[]),
                    Wire::Ask(_, seq, _) => {
                        let in_objects = Attr { inline: false, size: 4, ..attr(FILE, Kind::File) };
                        self.answer(at, seq, Answer::Entry(in_objects), &[]);
                    }
                    Wire::Data(_, id, op) => {
                        carried_out.push(op);
                        self.says(at, ToClient::Data { id, result: Ok(DataAnswer::Done) });
                    }
                    Wire::Other(..) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    /// True if the data is written again before a sync of it succeeds; an error: the loss is told.
    fn syncs(&mut self, fh: Fh) -> Result<bool, FsError> {
        let sync = self.call(Call::Fsync { fh, data_only: false });
        let done = self.serves(R0);
        let is_written = |op: &DataOp| matches!(op, DataOp::Write { offset: 0, data } if data[..] == *b"data");
        self.result(sync).map(|_| done.iter().any(is_written)).map_err(|failed| failed.error)
    }
}

#[test]
fn what_a_rank_may_have_lost_in_a_restart_is_written_again_though_the_map_says_that_it_has_moved_away() {
    // The file has lost its name, or has another one: it has stayed.
    let (mut world, fh) = written_by(Lease::CACHE | Lease::BUFFER);
    comes_back(&mut world, false, 2);
    assert_eq!(world.syncs(fh), Ok(true));
}

#[test]
fn what_a_rank_may_have_lost_in_a_restart_is_told_though_the_map_says_that_it_has_moved_away() {
    let (mut world, fh) = written_by(Lease::NONE);
    comes_back(&mut world, false, 2);
    assert_eq!(world.syncs(fh), Err(FsError::Io));
    assert_eq!(world.syncs(fh), Ok(false), "once");
}

#[test]
fn what_a_rank_may_have_lost_in_a_restart_is_told_though_it_was_believed_before_that_it_had_moved_away() {
    for rights in [Lease::NONE, Lease::CACHE | Lease::BUFFER] {
        let (mut world, fh) = written_by(rights);
        comes_back(&mut world, true, 1);
        comes_back(&mut world, false, 2);
        assert_eq!(world.syncs(fh), Err(FsError::Io), "{rights:?}");
    }
}

#[test]
fn what_was_written_before_its_file_has_moved_is_not_told_to_be_lost_when_the_new_rank_restarts_before_it_is_met() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, false, Lease::NONE);
    let id = world.call(write(fh, b"data"));
    world.serves(R0);
    world.result(id).unwrap();
    world.moves_restarted();
    let sync = world.call(Call::Fsync { fh, data_only: false });
    world.serves(R1);
    world.result(sync).unwrap();
}
