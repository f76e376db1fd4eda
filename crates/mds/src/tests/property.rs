//! Random operations with random delays, crashes and checkpoints: what was acknowledged is there, and a recovered
//! machine over table and journal equals the one that lived.

use std::collections::{BTreeMap, BTreeSet};

use loligo_journal::decode_record;
use loligo_namespace::{FragConfig, Tree, apply};
use loligo_types::msg::{Reclaim, ToServer};
use loligo_types::{Answer, Attr, Control, Event, FsResult, Ino, Lsn, Op, Rank, RenameMode, Seq};

use super::*;

/// Directories that exist or existed.
fn random_op(random: &mut Random, dirs: &[Ino], files: &[Ino], handle: u64) -> Op {
    let dir = dirs[random.below(dirs.len() as u64) as usize];
    let new_dir = dirs[random.below(dirs.len() as u64) as usize];
    let any = if files.is_empty() { dir } else { files[random.below(files.len() as u64) as usize] };
    let text = random.name();
    match random.below(13) {
        0 | 1 => mkdir(dir, &text),
        2 | 3 => create(dir, &text, WRITE, handle),
        4 => unlink(dir, &text),
        5 => Op::Rmdir { dir, name: name(&text) },
        6 | 7 => {
            let new_name = name(&random.name());
            let mode = if random.below(4) == 0 { RenameMode::Exchange } else { RenameMode::Replace };
            Op::Rename { dir, name: name(&text), new_dir, new_name, mode }
        }
        8 => Op::Link { ino: any, dir, name: name(&text) },
        9 => chmod(any, 0o600 + random.below(64) as u16),
        10 => Op::SetXattr {
            ino: any,
            name: format!("user.{}", random.below(3)).into_bytes().into(),
            value: vec![1; random.below(20) as usize].into(),
            mode: loligo_types::XattrMode::Set,
        },
        11 => truncate(any, random.below(5000)),
        _ => Op::Lookup { dir, name: name(&text) },
    }
}

fn learn(result: &FsResult<Answer>, dirs: &mut Vec<Ino>, files: &mut Vec<Ino>) {
    let Ok(answer) = result else { return };
    let Some(attr) = answer.attr() else { return };
    let list = if attr.kind == loligo_types::Kind::Dir { dirs } else { files };
    if !list.contains(&attr.ino) {
        list.push(attr.ino);
    }
}

/// Everything but what a crash may undo: nothing.
type Picture = BTreeMap<String, (Attr, Vec<u8>)>;

fn restart(world: &mut World, clients: &[usize], unanswered: &mut BTreeMap<(usize, Seq), Op>) {
    let inboxes: Vec<_> = clients.iter().map(|at| std::mem::take(&mut world.clients[*at].inbox)).collect();
    world.crash();
    for (at, inbox) in clients.iter().zip(inboxes) {
        world.clients[*at].inbox = inbox;
        world.resume(*at);
        world.reclaim(*at, Reclaim::default());
    }
    let again: Vec<_> = unanswered.iter().map(|((at, seq), op)| (*at, *seq, op.clone())).collect();
    again.into_iter().for_each(|(at, seq, op)| world.send_again(at, seq, op));
}

fn collect(world: &mut World, unanswered: &mut BTreeMap<(usize, Seq), Op>, dirs: &mut Vec<Ino>, files: &mut Vec<Ino>) {
    for (at, seq) in unanswered.keys().copied().collect::<Vec<_>>() {
        if let Some((result, _)) = world.reply(at, seq) {
            unanswered.remove(&(at, seq));
            learn(&result, dirs, files);
        }
    }
}

/// With everything answered, a crash changes nothing, however far the checkpoint of the moment is.
fn crash_when_quiet(
    world: &mut World,
    clients: &[usize],
    unanswered: &mut BTreeMap<(usize, Seq), Op>,
    dirs: &mut Vec<Ino>,
    files: &mut Vec<Ino>,
) {
    let checkpoints = world.checkpoints;
    (world.syncs, world.loads, world.discards) = (true, true, true);
    world.pump();
    // Requests that wait for room in the cache: only checkpoints make it, one after the other.
    world.checkpoints = true;
    for _ in 0..10 {
        if world.mds.status().waiting_count == 0 {
            break;
        }
        world.wait_alive(100);
        world.pump();
    }
    world.checkpoints = checkpoints;
    collect(world, unanswered, dirs, files);
    assert!(unanswered.is_empty(), "{unanswered:?}");
    let alive = world.walk(clients[0]);
    restart(world, clients, unanswered);
    collect(world, unanswered, dirs, files);
    assert_eq!(world.walk(clients[0]), alive);
    world.checkpoints = checkpoints;
}

fn run(seed: u64, steps: usize) {
    let mut random = Random::new(seed);
    let small = crate::Config { dirty_ms_max: 200, checkpoint_records: 7, cache_bytes_max: 6000, ..config() };
    let mut world = World::with(small);
    let clients = [world.client(), world.client()];
    let (mut dirs, mut files) = (vec![Ino::ROOT], Vec::new());
    let mut unanswered: BTreeMap<(usize, Seq), Op> = BTreeMap::new();
    for step in 0..steps {
        (world.syncs, world.loads) = (random.below(3) > 0, random.below(4) > 0);
        (world.checkpoints, world.discards) = (random.below(3) > 0, random.below(3) > 0);
        match random.below(40) {
            0 => restart(&mut world, &clients, &mut unanswered),
            1 => crash_when_quiet(&mut world, &clients, &mut unanswered, &mut dirs, &mut files),
            2..=7 => world.wait_alive(100),
            8 => world.reconnect_and_resend(clients[0], &unanswered),
            9..=13 => {
                let handles = (0..step as u64).collect();
                let at = clients[random.below(2) as usize];
                let op = Op::Control(Control::Close { handles, lost: false });
                unanswered.insert((at, world.send(at, op.clone())), op);
            }
            _ => {
                let at = clients[random.below(2) as usize];
                let op = random_op(&mut random, &dirs, &files, step as u64);
                unanswered.insert((at, world.send(at, op.clone())), op);
            }
        }
        collect(&mut world, &mut unanswered, &mut dirs, &mut files);
    }
    (world.syncs, world.loads, world.checkpoints, world.discards) = (true, true, true, true);
    world.pump();
    collect(&mut world, &mut unanswered, &mut dirs, &mut files);
    assert!(unanswered.is_empty(), "seed {seed}: not answered: {unanswered:?} {:?}", world.mds.status());
    let handles: Vec<u64> = (0..steps as u64).collect();
    for at in clients {
        world
            .call(at, Op::Control(Control::Close { handles: handles.clone(), lost: false }))
            .expect("a close never fails");
    }
    let alive: Picture = world.walk(clients[0]);
    restart(&mut world, &clients, &mut unanswered);
    assert_eq!(world.walk(clients[0]), alive, "seed {seed}: recovered from table and journal");
    world.input(crate::Input::Stop);
    assert!(world.stopped && world.journal.is_empty(), "seed {seed}");
    restart(&mut world, &clients, &mut unanswered);
    assert_eq!(world.walk(clients[0]), alive, "seed {seed}: recovered from the table alone");
    world.message(clients[1], ToServer::Goodbye { gone: false });
    assert_eq!(world.mds.status().waiting_count, 0, "seed {seed}");
}

impl World {
    fn reconnect_and_resend(&mut self, at: usize, unanswered: &BTreeMap<(usize, Seq), Op>) {
        self.reconnect(at);
        for ((of, seq), op) in unanswered {
            if *of == at && !self.has_reply(at, *seq) {
                self.send_again(at, *seq, op.clone());
            }
        }
    }

    fn has_reply(&self, at: usize, seq: Seq) -> bool {
        let is_it = |msg: &loligo_types::msg::ToClient| matches!(msg, loligo_types::msg::ToClient::Reply { seq: s, .. } if *s == seq);
        self.clients[at].inbox.iter().any(is_it)
    }
}

#[test]
fn random_operations_survive_crashes_at_random_points() {
    for seed in 1..=60 {
        run(seed, 120);
    }
}

#[test]
fn a_long_run_in_a_small_cache() {
    run(4711, 1500);
}

/// The records that a rank which gets these changes, and knows nothing else, has to write into the table.
fn written<'a>(events: impl Iterator<Item = &'a Event>) -> BTreeSet<String> {
    let settings = loligo_namespace::Config { inline_max: 4096, rank: Rank::ZERO, frag: FragConfig::default() };
    let mut tree = Tree::new(config().hash_key, settings);
    events.for_each(|event| apply(&mut tree, event, Lsn(1)));
    let records = tree.take_checkpoint(usize::MAX).records;
    records.into_iter().map(|record| format!("{record:?}")).collect()
}

#[test]
fn of_several_changes_of_one_thing_the_last_says_all() {
    for seed in 1..=100u64 {
        let mut random = Random::new(seed);
        let mut world = World::new();
        let a = world.client();
        world.checkpoints = false;
        let (mut dirs, mut files) = (vec![Ino::ROOT], Vec::new());
        for step in 0..200 {
            let op = match random.below(8) {
                0 => close(random.below(step + 1)),
                _ => random_op(&mut random, &dirs, &files, step),
            };
            let result = world.call(a, op);
            learn(&result, &mut dirs, &mut files);
        }
        let mut inline = loligo_journal::InlineLog::default();
        let records = world.journal.iter().map(|(lsn, record)| {
            let mut events = decode_record(record).expect("it was encoded").events;
            inline.make_whole(*lsn, &mut events).expect("changes have what they build on");
            events
        });
        let mut events: Vec<Event> = records.flatten().filter(Event::is_of_inode).collect();
        // From any point on: what was before is in the table.
        let changes = events.split_off(random.below(events.len() as u64) as usize);
        let counts = crate::cluster::last_of_each(&changes);
        let last = changes.iter().zip(&counts).filter(|(_, counts)| **counts).map(|(event, _)| event);
        assert_eq!(written(last), written(changes.iter()), "seed {seed}");
        assert!(seed != 1 || counts.iter().any(|counts| !counts));
    }
}
