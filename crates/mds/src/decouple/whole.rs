//! Checks that all parts of a merge together leave a tree, and nothing outside that knows of something which is gone. Counts of files and
//! sums are their owner's word (`fsck` mends them); here is what would lose a directory, or what others have, if it were not so.
//!
//! Each directory has one name, where it says that it is, and the way from there leads to the root. A directory that was there before loses
//! its name only if it gets another one or is gone, and goes only without directories in it. A file that may have names outside is counted:
//! it keeps a link for each name that the merge does not take. A file whose bytes go although its owner may not write to it is gone. Xattrs
//! are within their bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use loligo_journal::view_record;
use loligo_namespace::{Found, Lookup, Tree, merged};
use loligo_types::limits::{DEPTH_MAX, DIR_NLINK_MAX, XATTR_TOTAL_MAX};
use loligo_types::{DecoupledRecord, Event, EventView, Ino, Inode, Kind, Name, Need};

use super::intake::Intake;
use super::look::Bar;
use super::shape::NewDir;
use crate::core::Core;

/// Names that are read at once.
const READS_MAX: usize = 4096;

/// Number of names of a directory that is to be gone, and those that are taken.
type Emptied = (u64, BTreeSet<Box<[u8]>>);
/// Of inodes that were there before, and whose xattrs may change with the merge: whether each has some then.
pub(super) type HaveXattrs = BTreeMap<Ino, bool>;
/// Which file a name leads to before the merge, and with it.
type Whose = (Option<Ino>, Option<Ino>);

/// An error if it is not so.
fn right(is: bool) -> Result<(), Bar> {
    if is { Ok(()) } else { Err(Bar::Wrong) }
}

fn place_of(inode: &Inode) -> NewDir {
    NewDir { parent: inode.parent, hash: inode.place.hash(), nlink: inode.nlink, size: inode.size }
}

impl Core {
    /// Checks that a merge can be true. `used`: the numbers that its owner says it has used. If it can be: whether inodes that were there
    /// before have xattrs with it.
    pub(super) fn is_whole(&self, record: &DecoupledRecord, intake: &Intake, used: Ino) -> Result<HaveXattrs, Bar> {
        right(intake.shape.is_made_below(used))?;
        all_is_known(&self.tree, record, intake)?;
        right(intake.ends.iter().all(|ino| intake.ends(*ino) || record.is_new(*ino)))?;
        dirs_are_a_tree(&self.tree, record, intake)?;
        names_are_taken(&self.tree, record, intake)?;
        xattrs_are_within_bounds(&self.tree, record, intake)
    }
}

/// An inode that was there before, as the table and memory have it.
fn before(tree: &Tree, ino: Ino) -> Result<&Inode, Bar> {
    match tree.find(ino) {
        Found::Here(inode) => Ok(inode),
        Found::Gone => Err(Bar::Wrong),
        Found::Unknown => Err(Bar::Load(vec![Need::Inode(ino)])),
    }
}

/// Checks that all that was there before, and matters, is in memory.
fn all_is_known(tree: &Tree, record: &DecoupledRecord, intake: &Intake) -> Result<(), Bar> {
    let shape = &intake.shape;
    let named = shape.names.values().flat_map(BTreeMap::values).filter(|ino| !record.is_new(**ino));
    let all = intake.known.keys().chain(&intake.linked).chain(shape.left.keys()).chain(named);
    let unknown = |ino: &&Ino| matches!(tree.find(**ino), Found::Unknown);
    let needs: BTreeSet<Need> = all.filter(unknown).map(|ino| Need::Inode(*ino)).collect();
    if needs.is_empty() { Ok(()) } else { Err(Bar::Load(needs.into_iter().collect())) }
}

/// A directory as it is with the merge.
fn dir_after(tree: &Tree, record: &DecoupledRecord, intake: &Intake, ino: Ino) -> Result<NewDir, Bar> {
    if record.is_new(ino) {
        return intake.shape.dirs.get(&ino).copied().ok_or(Bar::Wrong);
    }
    let now = before(tree, ino)?;
    match intake.known.get(&ino) {
        Some((_, None)) => Err(Bar::Wrong),
        Some((base, Some(made))) => Ok(place_of(&merged(now, base, made))),
        None => Ok(place_of(now)),
    }
}

fn dirs_are_a_tree(tree: &Tree, record: &DecoupledRecord, intake: &Intake) -> Result<(), Bar> {
    let (shape, mut placed) = (&intake.shape, BTreeSet::new());
    // How many directories more a directory has in it.
    let mut more: BTreeMap<Ino, i64> = BTreeMap::new();
    for (dir, names) in &shape.names {
        for (name, ino) in names {
            let hash = tree.hash(&Name::new(name).map_err(|_| Bar::Wrong)?);
            let after = dir_after(tree, record, intake, *ino)?;
            right((after.parent, after.hash) == (*dir, Some(hash)) && placed.insert(*ino))?;
            *more.entry(*dir).or_default() += 1;
        }
    }
    for (ino, dir) in &shape.left {
        right(placed.contains(ino) || intake.ends(*ino))?;
        *more.entry(*dir).or_default() -= 1;
    }
    right(shape.dirs.keys().all(|ino| placed.contains(ino)))?;
    for (dir, more) in &more {
        let counts = shape.dirs.contains_key(dir) || intake.known.contains_key(dir);
        right(*more == 0 || counts)?;
    }
    let more = |ino: &Ino| more.get(ino).copied().unwrap_or(0);
    // The link counts of directories tell whether there are directories in them.
    let holds = |dir: &NewDir| dir.nlink >= 2 && dir.size >= u64::from(dir.nlink) - 2;
    for (ino, dir) in &shape.dirs {
        right(i64::from(dir.nlink) == 2 + more(ino) && holds(dir))?;
    }
    for (ino, (base, made)) in intake.known.iter().filter(|(_, (base, _))| base.kind == Kind::Dir) {
        let now = before(tree, *ino)?;
        let Some(made) = made else {
            let empties = i64::from(now.nlink) - 2 + more(ino) == 0;
            right(shape.left.contains_key(ino) && !placed.contains(ino) && empties)?;
            continue;
        };
        let after = place_of(&merged(now, base, made));
        let is_many = made.nlink.max(base.nlink) >= DIR_NLINK_MAX / 2;
        right(is_many || i64::from(made.nlink) - i64::from(base.nlink) == more(ino))?;
        right(holds(&after))?;
        if *ino == record.dir {
            // Its own name is not the subtree's.
            right((base.parent, base.place) == (made.parent, made.place))?;
        } else if (after.parent, after.hash) != (now.parent, now.place.hash()) {
            right(placed.contains(ino) && shape.left.contains_key(ino))?;
        }
    }
    ways_lead_to_root(tree, record, intake, &placed)
}

/// Checks that each directory that got a name is below the root.
fn ways_lead_to_root(
    tree: &Tree,
    record: &DecoupledRecord,
    intake: &Intake,
    placed: &BTreeSet<Ino>,
) -> Result<(), Bar> {
    let mut leads = BTreeSet::from([record.dir]);
    for ino in placed {
        let (mut at, mut way) = (*ino, BTreeSet::new());
        while !leads.contains(&at) {
            right(at != Ino::ROOT && at.0 != 0 && way.len() < DEPTH_MAX && way.insert(at))?;
            at = dir_after(tree, record, intake, at)?.parent;
        }
        leads.extend(way);
    }
    Ok(())
}

/// Checks that directories that are gone are empty, and files that may have names outside keep a link for each of
/// those.
fn names_are_taken(tree: &Tree, record: &DecoupledRecord, intake: &Intake) -> Result<(), Bar> {
    let mut emptied: BTreeMap<Ino, Emptied> = BTreeMap::new();
    for (ino, (base, made)) in &intake.known {
        let size = if base.kind == Kind::Dir && made.is_none() { before(tree, *ino)?.size } else { 0 };
        if size > 0 {
            emptied.insert(*ino, (size, BTreeSet::new()));
        }
    }
    if intake.linked.is_empty() && emptied.is_empty() {
        return Ok(());
    }
    // Names that such a file had before, or gets: whose each was, and whose it is in the end.
    let mut names: BTreeMap<(Ino, Box<[u8]>), Whose> = BTreeMap::new();
    let mut needs = Vec::new();
    let mut note = |dir: Ino, name: &[u8], to: Option<Ino>| {
        let to = to.filter(|ino| intake.linked.contains(ino));
        let Ok(checked) = Name::new(name) else { return };
        let had = if record.is_new(dir) { Lookup::Absent } else { tree.entry(dir, &checked) };
        let had = match had {
            Lookup::Present(target) => {
                if let Some((_, taken)) = emptied.get_mut(&dir) {
                    taken.insert(name.into());
                }
                Some(target.ino).filter(|ino| intake.linked.contains(ino))
            }
            Lookup::Absent => None,
            Lookup::Unknown => {
                needs.push(Need::Entry { dir, name: checked });
                None
            }
        };
        if had.is_some() || to.is_some() {
            names.insert((dir, name.into()), (had, to));
        } else if let Some((_, last)) = names.get_mut(&(dir, Box::from(name))) {
            *last = None;
        }
    };
    for body in tree.merge_bodies(record.dir) {
        let read = view_record(body, |event| {
            match event {
                EventView::Entry { dir, name, ino, .. } => note(dir, name, Some(ino)),
                EventView::Other(Event::EntryGone { dir, name }) => note(*dir, name.as_bytes(), None),
                _ => {}
            }
            ControlFlow::Continue(())
        });
        right(read.is_ok())?;
    }
    if !needs.is_empty() {
        needs.truncate(READS_MAX);
        return Err(Bar::Load(needs));
    }
    right(emptied.values().all(|(size, taken)| *size == taken.len() as u64))?;
    let mut more: BTreeMap<Ino, i64> = BTreeMap::new();
    for (had, has) in names.into_values() {
        had.iter().for_each(|ino| *more.entry(*ino).or_default() -= 1);
        has.iter().for_each(|ino| *more.entry(*ino).or_default() += 1);
    }
    for ino in &intake.linked {
        let now = i64::from(before(tree, *ino)?.nlink);
        let after = match intake.known.get(ino) {
            Some((_, made)) => made.as_ref().map_or(0, |made| i64::from(made.nlink)),
            None => now,
        };
        right(after >= now + more.get(ino).copied().unwrap_or(0))?;
    }
    Ok(())
}

/// Checks that inodes have no more xattrs than they can have, and that those that the merge makes say whether they have some. Of those
/// that were there before it is found here: a rank may have given one a policy since its owner fetched it, which is an xattr, or taken
/// it away.
fn xattrs_are_within_bounds(tree: &Tree, record: &DecoupledRecord, intake: &Intake) -> Result<HaveXattrs, Bar> {
    let mut needs = Vec::new();
    let mut have = HaveXattrs::new();
    let says_otherwise = |(_, (base, made)): &(&Ino, &(Box<Inode>, Option<Box<Inode>>))| {
        made.as_ref().is_some_and(|made| made.has_xattrs != base.has_xattrs)
    };
    let known = intake.known.iter().filter(says_otherwise).map(|(ino, _)| ino);
    let inos: BTreeSet<Ino> = intake.xattrs.keys().chain(&intake.shape.xattrs).chain(known).copied().collect();
    for ino in inos {
        let (mut there, is_new) = (Vec::new(), record.is_new(ino));
        let is_gone = if is_new { !intake.shape.is_made(ino) } else { intake.ends(ino) };
        if is_gone {
            continue;
        }
        if !is_new {
            let now = before(tree, ino)?;
            match tree.xattrs(now) {
                Some(pairs) => there = pairs,
                None => {
                    needs.push(Need::Xattrs(ino));
                    continue;
                }
            }
        }
        let cost = |name: &[u8], value: usize| name.len() + 1 + value;
        let mut all: BTreeMap<&[u8], usize> = BTreeMap::new();
        all.extend(there.iter().map(|(name, value)| (&**name, cost(name, value.len()))));
        for (name, bytes) in intake.xattrs.get(&ino).into_iter().flatten() {
            match bytes {
                Some(bytes) => _ = all.insert(name, cost(name, *bytes)),
                None => _ = all.remove(&**name),
            }
        }
        right(all.values().sum::<usize>() <= XATTR_TOTAL_MAX)?;
        let has = !all.is_empty();
        if is_new {
            right(intake.shape.xattrs.contains(&ino) == has)?;
        } else if intake.known.contains_key(&ino) {
            have.insert(ino, has);
        } else {
            // Its owner says nothing of the inode itself.
            right(before(tree, ino)?.has_xattrs == has)?;
        }
    }
    if needs.is_empty() { Ok(have) } else { Err(Bar::Load(needs)) }
}
