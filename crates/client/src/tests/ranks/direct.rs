//! Data operations that the client does in the store by itself.

use super::*;
use crate::DirectError;

const BOTH: Lease = Lease(Lease::CACHE.0 | Lease::BUFFER.0);

/// Data operations that ranks were asked for, and the addresses that they were told.
type Played = (Vec<(Rank, DataOp)>, Vec<(Rank, Arc<[u8]>)>);

impl Ranks {
    /// There is a connection to the store.
    fn reaches_store(&mut self, address: &[u8]) {
        self.feed(Input::Direct { address: Some(address.into()) });
    }

    /// Answers what ranks are asked, data operations included; what was asked, and the addresses that ranks were told.
    fn plays(&mut self) -> Played {
        let (mut done, mut told) = (Vec::new(), Vec::new());
        loop {
            let wire = self.take();
            if wire.is_empty() {
                return (done, told);
            }
            for wire in wire {
                match wire {
                    Wire::Ask(rank, seq, Op::Control(Control::DataAddress { address })) => {
                        told.push((rank, address));
                        self.answer(rank, seq, Answer::Done, &[]);
                    }
                    Wire::Ask(rank, seq, Op::Control(Control::GetLock { .. })) => {
                        self.answer(rank, seq, Answer::Lock(None), &[])
                    }
                    Wire::Ask(rank, seq, Op::Control(Control::Close { .. })) => {
                        self.answer(rank, seq, Answer::Done, &[])
                    }
                    Wire::Ask(rank, seq, _) => {
                        let in_objects = Attr { inline: false, size: 4, ..attr(FILE, Kind::File) };
                        self.answer(rank, seq, Answer::Entry(in_objects), &[]);
                    }
                    Wire::Data(rank, id, op) => {
                        let result = Ok(match &op {
                            DataOp::Read { len, .. } => DataAnswer::Bytes(vec![1; *len as usize].into()),
                            _ => DataAnswer::Done,
                        });
                        done.push((rank, op));
                        self.says(rank, ToClient::Data { id, result });
                    }
                    Wire::Other(..) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    /// The only operation that is to be done in the store.
    fn in_store(&mut self) -> (u64, DataOp) {
        match &std::mem::take(&mut self.direct)[..] {
            [request] => (request.id, request.op.clone()),
            other => panic!("not one operation: {other:?}"),
        }
    }

    fn stores(&mut self, id: u64, result: Result<DataAnswer, DirectError>) {
        self.feed(Input::DirectDone { id, result });
    }

    fn flush(&mut self, fh: Fh) -> u64 {
        self.call(Call::Flush { fh, owner: None })
    }
}

/// A file of the first rank in objects, by these rights; the rank knows of the connection to the store.
fn known(rights: Lease) -> (Ranks, Fh) {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    world.reaches_store(b"here");
    let fh = world.create(R0, DIR, FILE, false, rights);
    world.call(write(fh, b"data"));
    let flush = world.flush(fh);
    let (done, told) = world.plays();
    world.result(flush).unwrap();
    assert!(world.direct.is_empty(), "not before the rank knows");
    assert_eq!(done.len(), 1, "so it was written through the rank");
    let knows: Vec<_> = rights.has(Lease::BUFFER).then(|| (R0, Arc::from(&b"here"[..]))).into_iter().collect();
    assert_eq!(told, knows);
    (world, fh)
}

/// The same with a write under way in the store.
fn writing() -> (Ranks, Fh, u64, u64) {
    let (mut world, fh) = known(BOTH);
    world.write(fh, b"more");
    let flush = world.flush(fh);
    let (id, op) = world.in_store();
    assert!(matches!(op, DataOp::Write { offset: 0, .. }), "{op:?}");
    assert_eq!(world.take(), [], "the size is told when it is written");
    (world, fh, flush, id)
}

#[test]
fn who_alone_may_write_a_file_writes_in_the_store() {
    let (mut world, _, flush, id) = writing();
    world.stores(id, Ok(DataAnswer::Done));
    let (done, told) = world.plays();
    assert!(done.is_empty() && told.is_empty());
    world.result(flush).unwrap();
}

#[test]
fn what_several_write_goes_through_the_rank() {
    let (mut world, fh) = known(Lease::NONE);
    let id = world.call(write(fh, b"more"));
    let (done, told) = world.plays();
    world.result(id).unwrap();
    assert!(matches!(done[..], [(R0, DataOp::Write { .. })]) && told.is_empty() && world.direct.is_empty());
}

#[test]
fn what_the_store_refuses_is_asked_of_the_rank_and_a_new_connection_is_told_before_it_is_used() {
    let (mut world, fh, flush, id) = writing();
    world.feed(Input::Direct { address: None });
    world.stores(id, Err(DirectError::Refused));
    let (done, _) = world.plays();
    assert!(matches!(&done[..], [(R0, DataOp::Write { data, .. })] if data[..] == *b"more"), "{done:?}");
    world.result(flush).unwrap();
    world.reaches_store(b"there");
    world.call(write(fh, b"most"));
    let flush = world.flush(fh);
    let (done, told) = world.plays();
    assert_eq!((done.len(), &told[..]), (1, &[(R0, Arc::from(&b"there"[..]))][..]));
    world.result(flush).unwrap();
    world.write(fh, b"last");
    world.flush(fh);
    world.in_store();
}

#[test]
fn a_right_is_given_back_when_what_was_written_by_it_is_answered() {
    let (mut world, _, _, id) = writing();
    world.says(R0, ToClient::Recall { ino: FILE, id: 9, bits: BOTH });
    let gives_back = |wire: &Wire| matches!(wire, Wire::Other(R0, ToServer::RecallDone { id: 9, .. }));
    assert!(!world.take().iter().any(gives_back));
    world.stores(id, Ok(DataAnswer::Done));
    let told = world.asked();
    world.answer(R0, told.1, Answer::Entry(Attr { inline: false, size: 4, ..attr(FILE, Kind::File) }), &[]);
    for (token, _) in std::mem::take(&mut world.dropped) {
        world.feed(Input::Invalidated { token });
    }
    assert!(world.take().iter().any(gives_back));
}

#[test]
fn what_is_read_late_is_not_kept_when_the_right_is_gone() {
    let (mut world, fh) = known(BOTH);
    world.says(R0, ToClient::Recall { ino: FILE, id: 8, bits: Lease::FLUSH });
    world.take();
    let read = world.call(Call::Read { fh, offset: 0, len: 4 });
    let (id, _) = world.in_store();
    world.says(R0, ToClient::Recall { ino: FILE, id: 9, bits: BOTH });
    for (token, _) in std::mem::take(&mut world.dropped) {
        world.feed(Input::Invalidated { token });
    }
    world.take();
    world.stores(id, Ok(DataAnswer::Bytes(b"old!"[..].into())));
    world.plays();
    world.result(read).unwrap();
    let again = world.call(Call::Read { fh, offset: 0, len: 4 });
    let (done, _) = world.plays();
    assert!(matches!(done[..], [(R0, DataOp::Read { .. })]), "{done:?}");
    world.result(again).unwrap();
}

/// The file has moved to the second rank before the first one ended the session, unheard.
#[test]
fn what_is_left_of_a_lost_file_is_waited_for_before_others_may_have_it() {
    let (mut world, _, _, id) = writing();
    world.meet_second();
    world.says(R0, ToClient::Evicted);
    world.wire.retain(|wire| !matches!(wire, Wire::Connect(..)));
    let closes = |wire: &Wire| matches!(wire, Wire::Ask(R1, _, Op::Control(Control::Close { lost: true, .. })));
    let gives_back = |wire: &Wire| matches!(wire, Wire::Other(R1, ToServer::RecallDone { .. }));
    world.says(R1, ToClient::Recall { ino: FILE, id: 9, bits: BOTH });
    let wire = world.take();
    assert!(!wire.iter().any(|wire| closes(wire) || gives_back(wire)), "{wire:?}");
    world.feed(Input::Direct { address: None });
    world.stores(id, Err(DirectError::Refused));
    let wire = world.take();
    assert!(wire.iter().any(closes) && wire.iter().any(gives_back), "{wire:?}");
    assert!(!wire.iter().any(|wire| matches!(wire, Wire::Data(..))), "it is lost");
}

#[test]
fn a_session_is_not_ended_while_something_is_written() {
    let (mut world, _, _, id) = writing();
    world.feed(Input::Stop);
    let leaves = |wire: &Wire| matches!(wire, Wire::Other(_, ToServer::Goodbye { .. }));
    assert!(!world.take().iter().any(leaves));
    world.stores(id, Ok(DataAnswer::Done));
    let wire = world.take();
    assert!(!wire.iter().any(leaves));
    world.wire = wire;
    world.plays();
    world.feed(Input::Tick);
    world.plays();
}

/// The connection breaks twice before the rank has said that it knows what is open. What has waited for that is sent once: a drop that
/// came a second time would come after what is written in the store by then.
#[test]
fn what_waited_for_a_rank_that_has_restarted_is_sent_once_however_often_it_was_waited_for() {
    let (mut world, fh) = known(BOTH);
    for _ in 0..2 {
        world.feed(Input::Disconnected { rank: R0 });
        world.take();
        world.connect(R0, Welcome { resumed: true, direct: "there".into(), ..welcome(R0, 2) });
    }
    let closes = |wire: &Wire| matches!(wire, Wire::Ask(R0, _, Op::Control(Control::Close { handles, .. })) if handles.is_empty());
    assert_eq!(world.wire.iter().filter(|wire| closes(wire)).count(), 2, "{:?}", world.wire);
    world.call(write(fh, b"more"));
    world.flush(fh);
    let (done, _) = world.plays();
    assert!(matches!(&done[..], [(R0, DataOp::Write { .. })]), "{done:?}");
}
