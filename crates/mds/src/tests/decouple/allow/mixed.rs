//! Whatever both sides do: after each merge all counts are right, and nothing that either made is lost.

use std::collections::BTreeSet;

use super::*;

/// All that the owner sees of its subtree: what its files hold, by their paths.
fn owners_view(owner: &mut Owner, world: &mut World) -> BTreeMap<String, (Ino, Option<String>)> {
    let mut found = BTreeMap::new();
    let mut todo = vec![(String::new(), owner.subtree.root())];
    while let Some((path, dir)) = todo.pop() {
        let op = Op::Readdir { dir, cookie: 0, limit: 1000, plus: true, handle: None };
        let Ok(Answer::Entries { entries, .. }) = owner.run(world, &op) else { continue };
        for entry in entries {
            let path = format!("{path}/{}", entry.name);
            // What it fetched at different times need not go together.
            if path.len() > 100 {
                continue;
            }
            if entry.kind == Kind::Dir {
                todo.push((path.clone(), entry.ino));
                found.insert(path, (entry.ino, None));
            } else if let Ok(Answer::Bytes(data)) = owner.run(world, &Op::ReadInline { ino: entry.ino, handle: 1 }) {
                found.insert(path, (entry.ino, Some(String::from_utf8_lossy(&data).into_owned())));
            }
        }
    }
    found
}

fn files(view: &BTreeMap<String, (Ino, Option<String>)>) -> BTreeSet<String> {
    view.values().filter_map(|(_, data)| data.clone()).collect()
}

/// A change anywhere in what one side sees.
fn any_op(random: &mut Random, view: &BTreeMap<String, (Ino, Option<String>)>, root: Ino) -> Op {
    let dirs: Vec<Ino> = std::iter::once(root)
        .chain(
            view.iter().filter(|(path, (_, data))| data.is_none() && !path.contains(".conf")).map(|(_, (ino, _))| *ino),
        )
        .collect();
    let files: Vec<Ino> = view.values().filter(|(_, data)| data.is_some()).map(|(ino, _)| *ino).collect();
    let dir = dirs[random.below(dirs.len() as u64) as usize];
    let new_dir = dirs[random.below(dirs.len() as u64) as usize];
    let file = files.get(random.below(files.len().max(1) as u64) as usize).copied();
    let (text, other) = (random.name(), random.name());
    match (random.below(12), file) {
        (0 | 1, _) => mkdir(dir, &text),
        (2, _) => create(dir, &text, WRITE, 1),
        (3, _) => unlink(dir, &text),
        (4, _) => rmdir(dir, &text),
        (5..=7, _) => {
            let mode = if random.below(5) == 0 { RenameMode::Exchange } else { RenameMode::Replace };
            Op::Rename { dir, name: name(&text), new_dir, new_name: name(&other), mode }
        }
        (8, Some(file)) => Op::Link { ino: file, dir, name: name(&text) },
        (9, Some(file)) => chmod(file, 0o600 + random.below(64) as u16),
        (10, Some(file)) => Op::SetXattr {
            ino: file,
            name: format!("user.{}", random.below(3)).into_bytes().into(),
            value: vec![1; random.below(20) as usize].into(),
            mode: loligo_types::XattrMode::Set,
        },
        (_, Some(file)) => write_inline(file, 1, 0, b"longer than anything that was there before"),
        _ => create(dir, &text, WRITE, 1),
    }
}

struct Mixed {
    world: World,
    owner: Owner,
    b: usize,
    dir: Ino,
    random: Random,
    serial: u32,
}

impl Mixed {
    fn new(seed: u64) -> Mixed {
        let mut world = World::with(crate::Config { dirty_ms_max: 50, checkpoint_records: 7, ..config() });
        let (a, b) = (world.client(), world.client());
        let dir = world.mkdir(a, Ino::ROOT, "job").ino;
        for n in 0..3 {
            put(&mut world, a, dir, &format!("n{n}"), format!("base {n}").as_bytes());
            let sub = world.mkdir(a, dir, &format!("n{}", n + 3)).ino;
            put(&mut world, a, sub, "n0", format!("base in {n}").as_bytes());
        }
        let owner = Owner::with(&mut world, a, dir, allow_op(1000)).expect("free");
        Mixed { world, owner, b, dir, random: Random::new(seed), serial: 0 }
    }

    fn text(&mut self, who: &str) -> Vec<u8> {
        self.serial += 1;
        format!("{who} wrote this as number {}, and nobody else has written the same", self.serial).into_bytes()
    }

    fn owner_does(&mut self) {
        let view = owners_view(&mut self.owner, &mut self.world);
        let op = any_op(&mut self.random, &view, self.dir);
        let made = self.owner.run(&mut self.world, &op);
        let file = match (&op, made) {
            (Op::Create { .. }, Ok(answer)) => {
                answer.attr().filter(|attr| attr.kind == Kind::File).map(|attr| attr.ino)
            }
            (Op::WriteInline { ino, .. }, Ok(_)) => Some(*ino),
            _ => None,
        };
        if let Some(ino) = file {
            let data = self.text("the owner");
            let _ = self.owner.run(&mut self.world, &write_inline(ino, 1, 0, &data));
        }
    }

    fn others_do(&mut self) {
        let view = listing(&mut self.world, self.b, self.dir);
        let op = any_op(&mut self.random, &view, self.dir);
        let file = match &op {
            Op::WriteInline { ino, .. } => {
                self.world.call(self.b, Op::Open { ino: *ino, flags: WRITE, handle: 1 }).ok()
            }
            op => self.world.call(self.b, op.clone()).ok().filter(|_| matches!(op, Op::Create { .. })),
        };
        if let Some(ino) = file.and_then(|answer| answer.attr().map(|attr| attr.ino)) {
            let data = self.text("another one");
            let _ = self.world.call(self.b, write_inline(ino, 1, 0, &data));
        }
        let _ = self.world.call(self.b, close(1));
    }

    fn revive(&mut self) {
        self.world.crash();
        for at in [self.owner.at, self.b] {
            self.world.resume(at);
            self.world.reclaim(at, loligo_types::msg::Reclaim::default());
        }
        self.world.wait_alive(100);
        // As a driver does that hears `Stale`.
        let again = decouple_op(77, self.owner.epoch(), 1);
        ask(&mut self.world, self.owner.at, self.dir, again).expect("it knows its number");
    }
}

#[test]
fn whatever_both_do_nothing_that_either_made_is_lost_and_all_counts_are_right() {
    let (mut conflicts, mut kinds) = (0, BTreeSet::new());
    for seed in 0..150 {
        let mut m = Mixed::new(seed);
        for round in 0..4 {
            // First the owner, then all others: so it knows of nothing that they do in this round.
            let steps = m.random.below(25);
            (0..steps).for_each(|_| m.owner_does());
            let mine = owners_view(&mut m.owner, &mut m.world);
            let before = listing(&mut m.world, m.b, m.dir);
            let steps = m.random.below(25);
            (0..steps).for_each(|_| m.others_do());
            let theirs = listing(&mut m.world, m.b, m.dir);
            if m.random.below(4) == 0 {
                m.revive();
            }
            m.owner.merge(&mut m.world).unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
            let after = listing(&mut m.world, m.b, m.dir);
            let held = files(&after);
            let known = files(&before);
            for text in files(&mine).iter().filter(|text| text.starts_with("the owner") && !known.contains(*text)) {
                assert!(held.contains(text), "seed {seed}, round {round}: the owner's is lost: {text}");
            }
            for text in files(&theirs).iter().filter(|text| text.starts_with("another") && !known.contains(*text)) {
                assert!(held.contains(text), "seed {seed}, round {round}: another's is lost: {text}");
            }
            let inos: BTreeSet<Ino> = after.values().map(|(ino, _)| *ino).collect();
            let old: BTreeSet<Ino> = before.values().map(|(ino, _)| *ino).collect();
            for (path, (ino, _)) in theirs.iter().filter(|(_, (ino, _))| !old.contains(ino)) {
                assert!(inos.contains(ino), "seed {seed}, round {round}: {path} is lost");
            }
            // All that the owner made has the owner's name, if its directory is where the owner has it.
            let fresh = |path: &&String| !before.values().any(|(ino, _)| *ino == mine[*path].0);
            for path in mine.keys().filter(fresh) {
                let (parent, _) = path.rsplit_once('/').expect("a path has one");
                let same =
                    |dir: &str| dir.is_empty() || after.get(dir).map(|one| one.0) == mine.get(dir).map(|one| one.0);
                if same(parent) {
                    let (is, was) = (after.get(path).map(|one| one.0), mine[path].0);
                    assert_eq!(is, Some(was), "seed {seed}, round {round}: {path} is not the owner's");
                }
            }
            if m.random.below(3) == 0 {
                m.revive();
                assert_eq!(listing(&mut m.world, m.b, m.dir), after, "seed {seed}, round {round}: after a restart");
            }
        }
        m.owner.end(&mut m.world).expect("his");
        assert_eq!(faults(&mut m.world), Vec::<String>::new(), "seed {seed}");
        assert_eq!(m.world.mds.core.tree.orphans().count(), 0, "seed {seed}: nothing is held for ever");
        conflicts += m.owner.conflicts.len();
        kinds.extend(m.owner.conflicts.iter().map(|conflict| conflict.kind));
    }
    assert!(conflicts > 200 && kinds.len() >= 6, "{conflicts} {kinds:?}");
}

#[test]
fn whatever_both_do_at_the_same_time_all_counts_are_right() {
    for seed in 1000..1100 {
        let mut m = Mixed::new(seed);
        if seed % 3 == 0 {
            // Several groups at once: the later ones were decided over what the earlier ones meant to make.
            m.owner.subtree = m.owner.subtree.with_groups(200);
        }
        for round in 0..4 {
            for _ in 0..m.random.below(40) {
                if m.random.below(2) == 0 { m.owner_does() } else { m.others_do() }
            }
            m.owner.merge(&mut m.world).unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
        }
        let after = listing(&mut m.world, m.b, m.dir);
        m.owner.end(&mut m.world).expect("his");
        assert_eq!(faults(&mut m.world), Vec::<String>::new(), "seed {seed}");
        m.world.crash();
        m.world.wait(20_000);
        let c = m.world.client();
        assert_eq!(listing(&mut m.world, c, m.dir), after, "seed {seed}: after a restart");
    }
}
