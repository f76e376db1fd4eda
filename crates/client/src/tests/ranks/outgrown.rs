//! A file that outgrows its inode is moved to objects by who may hold back what is written to it, and else by its rank: both must
//! mean the same.

use super::*;

/// More than an inode holds.
const LARGE: [u8; 100] = [7; 100];
const BUFFERS: Lease = Lease(Lease::CACHE.0 | Lease::BUFFER.0);

/// A write that does not fit is refused, because the rank leaves it to this client. The next requests.
fn is_refused(world: &mut Ranks, rank: Rank) -> Vec<Wire> {
    let (at, seq, op) = world.asked();
    assert!(at == rank && matches!(op, Op::WriteInline { ino: FILE, .. }), "{rank} {op:?}");
    world.says(rank, ToClient::reply(seq, Err(FsError::Busy)));
    world.take()
}

#[test]
fn a_write_that_began_before_another_open_brought_the_right_to_hold_back_moves_the_file_by_that() {
    let mut world = Ranks::of(1);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::NONE);
    let id = world.call(write(fh, &LARGE));
    let (_, seq, op) = world.asked();
    assert!(matches!(op, Op::WriteInline { ino: FILE, .. }), "{op:?}");
    let again = world.call(Call::Open { ino: FILE, flags: rw() });
    world.answers(R0, opened(FILE, true, BUFFERS));
    world.result(again).unwrap();
    world.says(R0, ToClient::reply(seq, Err(FsError::Busy)));
    assert!(matches!(world.answers(R0, entry(FILE, Kind::File)), Op::GetAttr { .. }));
    world.result(id).unwrap();
    world.take();
    let flush = world.call(Call::Flush { fh, owner: None });
    assert!(matches!(world.take()[..], [Wire::Data(R0, _, DataOp::Discard { from: 0 })]));
    let _ = flush;
}

#[test]
fn a_rank_that_counts_on_a_right_that_was_given_up_in_doubt_is_told_and_moves_the_file_itself() {
    let mut world = Ranks::with_second();
    let fh = world.create(R1, DIR, FILE, true, BUFFERS);
    // The second rank was not reached for a while, and the file may have moved meanwhile. It has not.
    world.feed(Input::Disconnected { rank: R1 });
    world.take();
    world.connect(R1, Welcome { resumed: true, kept: true, routes: vec![route(DIR, R0, 9)], ..welcome(R1, 2) });
    let asks = |wire: &Wire| match wire {
        Wire::Ask(R0, seq, Op::GetAttr { ino: FILE }) => Some(*seq),
        _ => None,
    };
    let seq = world.take().iter().find_map(asks).expect("it is asked where the file is");
    world.says(R0, ToClient::Redirect { seq: Seq(seq), rank: R1, routes: Vec::new(), done: None });
    world.answers(R1, entry(FILE, Kind::File));
    let id = world.call(write(fh, &LARGE));
    let refresh = is_refused(&mut world, R1);
    let [Wire::Ask(R1, seq, Op::GetAttr { ino: FILE })] = refresh[..] else { panic!("{refresh:?}") };
    world.answer(R1, seq, entry(FILE, Kind::File), &[]);
    let wire = world.take();
    let [Wire::Other(R1, ToServer::Release(given)), Wire::Ask(R1, seq, Op::WriteInline { .. })] = &wire[..] else {
        panic!("{wire:?}");
    };
    assert_eq!(*given, [(FILE, BUFFERS)]);
    world.answer(R1, *seq, entry(FILE, Kind::File), &[]);
    world.result(id).unwrap();
}

#[test]
fn a_right_is_not_given_up_while_an_open_may_bring_it() {
    let mut world = Ranks::of(1);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::NONE);
    world.call(write(fh, &LARGE));
    let refresh = is_refused(&mut world, R0);
    let [Wire::Ask(R0, seq, Op::GetAttr { ino: FILE })] = refresh[..] else { panic!("{refresh:?}") };
    world.call(Call::Open { ino: FILE, flags: rw() });
    world.take();
    world.answer(R0, seq, entry(FILE, Kind::File), &[]);
    let wire = world.take();
    assert!(matches!(wire[..], [Wire::Ask(R0, _, Op::WriteInline { .. })]), "{wire:?}");
}

#[test]
fn a_write_that_is_refused_again_and_again_is_asked_with_pauses_until_the_answer_comes_that_brings_the_right() {
    let mut world = Ranks::of(1);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::NONE);
    let id = world.call(write(fh, &LARGE));
    let open = world.call(Call::Open { ino: FILE, flags: rw() });
    let asked = |world: &mut Ranks| {
        world
            .take()
            .into_iter()
            .filter_map(|wire| match wire {
                Wire::Ask(R0, seq, op) => Some((seq, op)),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    let mut requests = asked(&mut world);
    let opens = requests.iter().position(|(_, op)| matches!(op, Op::Open { .. })).unwrap();
    let opens = requests.remove(opens).0;
    let mut writes = 0;
    for _ in 0..100 {
        for (seq, op) in std::mem::take(&mut requests) {
            if matches!(op, Op::WriteInline { .. }) {
                writes += 1;
                world.says(R0, ToClient::reply(seq, Err(FsError::Busy)));
            } else {
                world.answer(R0, seq, entry(FILE, Kind::File), &[]);
            }
        }
        requests = asked(&mut world);
    }
    assert_eq!((writes, requests.len()), (4, 0), "then it waits a little");
    world.answer(R0, opens, opened(FILE, true, BUFFERS), &[]);
    world.result(open).unwrap();
    world.ms += 50;
    world.feed(Input::Tick);
    let again = asked(&mut world);
    let [(seq, Op::GetAttr { ino: FILE })] = again[..] else { panic!("{again:?}") };
    world.answer(R0, seq, entry(FILE, Kind::File), &[]);
    world.result(id).unwrap();
}
