//! Invariants of the table after a merge of any parts: directories form a tree, and outside of the subtree names lead to inodes of
//! their kind and all counters are right. The sums of the subtree, and the file that a name in it leads to, are its owner's word
//! (docs/subtree-policies.md).

use std::collections::BTreeMap;

use loligo_journal::table::{Meta, Row, decode_row};
use loligo_namespace::{FragConfig, Loaded, Tree, fsck, invariants};
use loligo_types::{Event, Ino, Kind, Rank, Target};

use crate::{Input, Scene};

/// All of the file system, as the table has it.
#[derive(Default)]
struct All {
    events: Vec<Event>,
    kinds: BTreeMap<Ino, Kind>,
    entries: BTreeMap<Ino, Vec<(loligo_types::Name, Target)>>,
    xattrs: BTreeMap<Ino, Vec<(std::sync::Arc<[u8]>, std::sync::Arc<[u8]>)>>,
}

/// Stops the rank, so that all is in the table, and looks at it.
pub fn is_sound(mut scene: Scene, honest: bool) {
    let world = &mut scene.world;
    world.call(scene.root, crate::close(9)).expect("it is open");
    world.input(Input::Stop);
    for _ in 0..1000 {
        if world.stopped {
            break;
        }
        world.wait_alive(50);
    }
    assert!(world.stopped && world.fatal.is_none(), "it does not stop: {:?}", world.fatal);
    let settings =
        loligo_namespace::Config { inline_max: world.config.inline_max, rank: Rank::ZERO, frag: FragConfig::default() };
    let mut tree = Tree::new(world.config.hash_key, settings);
    let all = read(&scene, &mut tree);
    let outside = [Ino::ROOT, scene.a, scene.b, scene.theirs, scene.apart];
    all.is_a_tree(&outside);
    let mut faults = invariants::check(&tree);
    if !honest {
        let outside: Vec<String> = outside.iter().chain([&scene.secret]).map(|ino| ino.0.to_string()).collect();
        let first = |fault: &str| fault.split(|c: char| !c.is_ascii_digit()).find(|n| !n.is_empty()).map(str::to_owned);
        // What is below is counted in the sums of the directories above, too.
        faults.retain(|fault| {
            first(fault).is_some_and(|first| outside.contains(&first)) && !fault.contains(" has sums ")
        });
    } else {
        // Of what an owner has said that is not so this would find files without names, and count them where it would put them.
        let found = fsck::check_all(scene.world.config.hash_key, &all.events).findings;
        faults.extend(found.into_iter().map(|found| found.text));
    }
    assert_eq!(faults, Vec::<String>::new(), "{:?}", all.entries);
}

fn read(scene: &Scene, tree: &mut Tree) -> All {
    let mut all = All::default();
    for (key, value) in &scene.world.table {
        match decode_row(key, value).expect("the table holds what was written") {
            Row::Inode(inode) => {
                all.kinds.insert(inode.ino, inode.kind);
                if inode.kind == Kind::Dir {
                    all.entries.entry(inode.ino).or_default();
                }
                all.events.push(Event::Inode(inode.clone()));
                tree.load(Loaded::Inode(inode.ino, Some(inode)));
            }
            Row::Entry { dir, name, target, .. } => {
                let (ino, kind, remote) = (target.ino, target.kind, target.remote);
                all.events.push(Event::Entry { dir, name: name.clone(), ino, kind, remote });
                all.entries.entry(dir).or_default().push((name, target));
            }
            Row::Xattr { ino, name, value } => {
                all.events.push(Event::Xattr { ino, name: name.clone(), value: value.clone() });
                all.xattrs.entry(ino).or_default().push((name, value));
            }
            Row::Inline { ino, data } => {
                all.events.push(Event::Inline { ino, data: data.clone() });
                tree.load(Loaded::Inline(ino, Some(data)));
            }
            Row::Orphan { ino, .. } => {
                all.events.push(Event::Orphan(ino));
                tree.load(Loaded::Orphan(ino));
            }
            Row::Meta { meta: Meta::NextIno, value, .. } => {
                all.events.push(Event::NextIno(Ino(value)));
                tree.load(Loaded::NextIno(Ino(value)));
            }
            _ => {}
        }
    }
    for (dir, entries) in &all.entries {
        let entries = entries.clone();
        tree.load(Loaded::Range { dir: *dir, from_hash: 0, upto_hash: u64::MAX, entries });
    }
    for (ino, items) in &all.xattrs {
        tree.load(Loaded::Xattrs(*ino, items.clone()));
    }
    all
}

impl All {
    /// Each directory has one name, but the root, which has none, and is reached from the root.
    fn is_a_tree(&self, outside: &[Ino]) {
        let mut named: BTreeMap<Ino, Ino> = BTreeMap::new();
        for (dir, entries) in &self.entries {
            assert_eq!(self.kinds.get(dir), Some(&Kind::Dir), "{dir} has names");
            for (name, target) in entries {
                let is = self.kinds.get(&target.ino);
                if outside.contains(dir) || target.kind == Kind::Dir || is == Some(&Kind::Dir) {
                    assert_eq!(is, Some(&target.kind), "{dir}/{name} is {}", target.ino);
                }
                if target.kind == Kind::Dir {
                    let before = named.insert(target.ino, *dir);
                    assert_eq!(before, None, "{} has two names", target.ino);
                }
            }
        }
        assert_eq!(named.get(&Ino::ROOT), None, "the root has a name");
        for dir in self.kinds.iter().filter(|(_, kind)| **kind == Kind::Dir).map(|(ino, _)| *ino) {
            let (mut at, mut steps) = (dir, 0);
            while at != Ino::ROOT {
                at = *named.get(&at).unwrap_or_else(|| panic!("{dir} is not reached: {at} has no name"));
                steps += 1;
                assert!(steps < 1000, "{dir} is below itself");
            }
        }
    }
}
