//! A file that is cut by a request of before, while what is written to it is on its way into objects.

use loligo_types::{DataAnswer, SetAttr};

use super::*;
use crate::Fallocate;

/// Carries data requests out until the server is told of them: what was written where, and the number of that request.
fn told(world: &mut Ranks) -> (Vec<(u64, Vec<u8>)>, u64) {
    let mut written = Vec::new();
    for _ in 0..20 {
        for wire in world.take() {
            match wire {
                Wire::Data(rank, id, op) => {
                    if let DataOp::Write { offset, data } = op {
                        written.push((offset, data.to_vec()));
                    }
                    world.says(rank, ToClient::Data { id, result: Ok(DataAnswer::Done) });
                }
                Wire::Ask(_, seq, Op::SetData { .. }) => return (written, seq),
                other => panic!("{other:?}"),
            }
        }
    }
    panic!("the server is never told of {written:?}");
}

#[test]
fn content_that_is_cut_while_it_is_moved_into_objects_is_not_written_again() {
    let mut world = Ranks::of(1);
    world.look_up_dir();
    // Both are asked before the file is known here, so nothing puts them in order but the server.
    let plain = world.call(Call::Open { ino: FILE, flags: rw() });
    let (_, first, _) = world.asked();
    let cutting = world.call(Call::Open { ino: FILE, flags: OpenFlags { truncate: true, ..rw() } });
    let (_, second, op) = world.asked();
    assert!(matches!(op, Op::Open { flags: OpenFlags { truncate: true, .. }, .. }), "{op:?}");
    let rights = Lease::CACHE | Lease::BUFFER;
    let old = Attr { size: 3, inline: true, ..attr(FILE, Kind::File) };
    let data = Some(Arc::from(&b"old"[..]));
    world.answer(R0, first, Answer::Opened { attr: old, created: false, rights, data }, &[]);
    let fh = world.result(plain).unwrap().fh.unwrap();
    let id =
        world.call(Call::Write { fh, offset: 10_000, data: Arc::from(&b"new"[..]), append: false, kill_priv: false });
    world.result(id).unwrap();
    let flush = world.call(Call::Flush { fh, owner: None });
    let (before, seq) = told(&mut world);
    assert_eq!(before, [(0, b"old".to_vec()), (10_000, b"new".to_vec())]);
    // The server had cut it before it was told, and refuses; that it was cut is answered first.
    let cut = Attr { size: 0, inline: true, cuts: 1, ..attr(FILE, Kind::File) };
    world.answer(R0, second, Answer::Opened { attr: cut, created: false, rights, data: None }, &[]);
    world.result(cutting).unwrap();
    let read = world.call(Call::Read { fh, offset: 0, len: 20 });
    assert_eq!(world.result(read).unwrap().answer, Answer::Bytes(Arc::from(&[0; 20][..])));
    world.says(R0, ToClient::reply(seq, Err(FsError::Stale)));
    world.answers(R0, Answer::Entry(cut));
    let (after, seq) = told(&mut world);
    assert_eq!(after, [(10_000, b"new".to_vec())]);
    world.answer(R0, seq, Answer::Entry(Attr { size: 10_003, inline: false, ..cut }), &[]);
    world.result(flush).unwrap();
}

#[test]
fn content_that_is_being_cut_is_not_written_again_beside_what_is_new() {
    for cuts in [false, true] {
        let mut world = Ranks::of(1);
        world.look_up_dir();
        let plain = world.call(Call::Open { ino: FILE, flags: rw() });
        let (_, first, _) = world.asked();
        world.call(Call::Open { ino: FILE, flags: OpenFlags { truncate: cuts, ..rw() } });
        world.asked();
        let rights = Lease::CACHE | Lease::BUFFER;
        let old = Attr { size: 6, inline: true, ..attr(FILE, Kind::File) };
        let data = Some(Arc::from(&b"oldold"[..]));
        world.answer(R0, first, Answer::Opened { attr: old, created: false, rights, data }, &[]);
        let fh = world.result(plain).unwrap().fh.unwrap();
        for offset in [0, 4] {
            let data = Arc::from(&b"n"[..]);
            let id = world.call(Call::Write { fh, offset, data, append: false, kill_priv: false });
            world.result(id).unwrap();
        }
        world.call(Call::Flush { fh, owner: None });
        let (_, _, op) = world.asked();
        let Op::WriteInline { offset: Some(0), data, .. } = op else { panic!("{op:?}") };
        assert_eq!(&data[..], if cuts { &b"n"[..] } else { &b"nldond"[..] });
    }
}

#[test]
fn what_is_written_while_the_file_is_cut_by_an_open_comes_after_that() {
    let mut world = Ranks::of(1);
    world.look_up_dir();
    let plain = world.call(Call::Open { ino: FILE, flags: rw() });
    let (_, first, _) = world.asked();
    let cutting = world.call(Call::Open { ino: FILE, flags: OpenFlags { truncate: true, ..rw() } });
    let (_, second, _) = world.asked();
    let rights = Lease::CACHE | Lease::BUFFER;
    let empty = Attr { size: 0, inline: false, ..attr(FILE, Kind::File) };
    world.answer(R0, first, Answer::Opened { attr: empty, created: false, rights, data: None }, &[]);
    let fh = world.result(plain).unwrap().fh.unwrap();
    let write = |world: &mut Ranks, offset, data: &[u8]| {
        let call = Call::Write { fh, offset, data: Arc::from(data), append: false, kill_priv: false };
        let id = world.call(call);
        world.result(id).unwrap();
    };
    write(&mut world, 500, b"far");
    let cut = Attr { cuts: 1, change: empty.change + 1, ..empty };
    world.answer(R0, second, Answer::Opened { attr: cut, created: false, rights, data: None }, &[]);
    world.result(cutting).unwrap();
    write(&mut world, 10, b"near");
    let flush = world.call(Call::Flush { fh, owner: None });
    let mut reaches = None;
    for _ in 0..20 {
        for wire in world.take() {
            match wire {
                Wire::Data(rank, id, _) => world.says(rank, ToClient::Data { id, result: Ok(DataAnswer::Done) }),
                Wire::Ask(_, seq, Op::SetData { grow_to, .. }) => {
                    reaches = grow_to;
                    world.answer(R0, seq, Answer::Entry(Attr { size: 503, ..cut }), &[]);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    world.result(flush).unwrap();
    assert_eq!(reaches, Some(503), "as far as was written");
}

#[test]
fn room_is_made_by_a_request_that_never_cuts_what_others_write_before_it_is_done() {
    let mut world = Ranks::of(1);
    world.look_up_dir();
    let rights = Lease::CACHE | Lease::BUFFER;
    let fh = world.create(R0, DIR, FILE, true, rights);
    let room = world.call(Call::Fallocate {
        fh,
        how: Fallocate::Allocate { keep_size: false },
        offset: 300,
        len: 84,
        kill_priv: false,
    });
    let empty = Attr { size: 0, inline: true, ..attr(FILE, Kind::File) };
    world.answers(R0, Answer::Entry(empty));
    let (_, seq, op) = world.asked();
    let set = SetAttr { size: Some(384), grow: true, ..SetAttr::default() };
    assert_eq!(op, Op::SetAttr { ino: FILE, set, handle: Some(1) });
    // It waits there, and others may write by now.
    world.says(R0, ToClient::Recall { ino: FILE, id: 5, bits: rights });
    for (token, _) in std::mem::take(&mut world.dropped) {
        world.feed(Input::Invalidated { token });
    }
    let done = |wire: &Wire| matches!(wire, Wire::Other(R0, ToServer::RecallDone { ino: FILE, id: 5 }));
    assert!(world.take().iter().any(done));
    let longer = Attr { size: 512, inline: false, change: empty.change + 1, ..empty };
    world.answer(R0, seq, Answer::Entry(longer), &[]);
    world.result(room).unwrap();
}

#[test]
fn a_cut_comes_after_what_a_restart_makes_write_again() {
    let mut world = Ranks::of(1);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, false, Lease::CACHE | Lease::BUFFER);
    world.write(fh, b"old");
    let flush = world.call(Call::Flush { fh, owner: None });
    let wire = world.take();
    let [Wire::Data(R0, id, DataOp::Write { offset: 0, .. })] = wire[..] else { panic!("{wire:?}") };
    world.says(R0, ToClient::Data { id, result: Ok(DataAnswer::Done) });
    let in_objects = Attr { inline: false, size: 3, ..attr(FILE, Kind::File) };
    assert!(matches!(world.answers(R0, Answer::Entry(in_objects)), Op::SetData { .. }));
    world.result(flush).unwrap();
    let more = Call::Write { fh, offset: 3, data: Arc::from(&b"new"[..]), append: false, kill_priv: false };
    let more = world.call(more);
    world.result(more).unwrap();
    world.call(Call::SetAttr { ino: FILE, set: SetAttr { size: Some(1), ..SetAttr::default() }, fh: Some(fh) });
    let wire = world.take();
    assert!(matches!(wire[..], [Wire::Data(R0, _, DataOp::Write { offset: 3, .. })]), "{wire:?}");
    // What was not synced may be gone, and what is on its way fails.
    world.feed(Input::Disconnected { rank: R0 });
    world.take();
    world.connect(R0, Welcome { resumed: true, kept: false, data_epoch: 2, ..welcome(R0, 1) });
    let seq = reclaims(&world.take());
    world.answer(R0, seq, Answer::Done, &[]);
    let wire = world.take();
    let [Wire::Data(R0, id, DataOp::Write { offset: 3, .. })] = wire[..] else { panic!("{wire:?}") };
    world.says(R0, ToClient::Data { id, result: Err(DataError::Io) });
    let wire = world.take();
    assert!(matches!(wire[..], [Wire::Data(R0, _, DataOp::Write { offset: 0, .. })]), "before the cut: {wire:?}");
}
