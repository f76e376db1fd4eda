//! Merges of records that are not in memory: each part waits for its own.

use super::*;

#[test]
fn parts_wait_for_their_records_in_order_and_none_is_sent_again_for_it() {
    // What is in memory is soon in the table, and the journal short.
    let mut world = World::with(crate::Config { dirty_ms_max: 50, checkpoint_records: 100, ..config() });
    let (a, b) = (world.client(), world.client());
    let dir = world.mkdir(a, Ino::ROOT, "job").ino;
    let files: Vec<Ino> = (0..6).map(|n| world.create(b, dir, &format!("cold{n}"), WRITE, 10 + n).ino).collect();
    for n in 0..6 {
        world.call(b, close(10 + n)).expect("it is open");
    }
    world.wait_alive(500);
    let mut owner = Owner::new(&mut world, a, dir, 100).expect("nobody has it");
    for ino in &files {
        owner.run(&mut world, &chmod(*ino, 0o600)).expect("it is root's");
        // What is done next goes into another part.
        owner.subtree.groups();
    }
    let group = owner.subtree.groups().remove(0);
    assert_eq!(group.parts.len(), 6);
    world.wait_alive(500);
    world.crash();
    for at in [a, b] {
        world.resume(at);
        world.reclaim(at, loligo_types::msg::Reclaim::default());
    }
    let epoch = owner.epoch();
    told(ask(&mut world, a, dir, decouple_op(77, epoch, 1))).expect("it goes on");
    world.loads = false;
    let (merge, dir) = (owner.subtree.record().merges + 1, owner.subtree.root());
    let mut sent = Vec::new();
    for (part, body) in (0..).zip(&group.parts) {
        let what = Box::new(SubtreeOp::Part { epoch, merge, part, blind: false, body: body.clone() });
        sent.push(world.send(a, Op::Control(Control::Subtree { dir, what })));
    }
    let mut answered = Vec::new();
    for _ in 0..200 {
        if world.pending_loads.is_empty() {
            world.wait_alive(10);
        } else {
            world.load_one();
        }
        for (part, seq) in sent.iter().enumerate() {
            if let Some((result, _)) = world.reply(a, *seq) {
                result.unwrap_or_else(|error| panic!("part {part}: {error}"));
                answered.push(part);
            }
        }
    }
    assert_eq!(answered, [0, 1, 2, 3, 4, 5], "in order, and each once");
    world.loads = true;
    let op = owner.merge_op(&group);
    let seq = world.send(a, op);
    world.wait_alive(100);
    assert!(world.reply(a, seq).is_some_and(|(result, _)| result.is_ok()));
}
