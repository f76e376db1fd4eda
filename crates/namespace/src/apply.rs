//! The one way a change gets into the cache: the live path, replay after a crash and every tool use it.
//!
//! Infallible, absolute and idempotent: an event carries the state after the change, so nothing must be loaded and it
//! may be applied again. It decides nothing and checks nothing.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_types::{Event, EventView, Frag, Ino, Inode, Kind, Lsn, Route, Target, Time};

use crate::frag::Recut;
use crate::tree::{
    ABSENT, InlineSlot, Key, Slot, Small, Tree, XattrSet, XattrSlot, extra_bytes, flag, hash63, inline_bytes,
};

/// Applies one event of the journal record `lsn`. LSNs must not descend.
pub fn apply(tree: &mut Tree, event: &Event, lsn: Lsn) {
    change(tree, event, lsn, None);
}

/// Applies an event that an operation has just decided, over records that were all loaded; `made` is the number for a new inode that it
/// was given, which no inode had before. The same as [`apply`], but that it also sees which records the table cannot have, so that those
/// which go before a checkpoint takes them are never written. Not for what a journal or another rank tells: the table may be ahead of it.
pub fn apply_decided(tree: &mut Tree, event: &Event, lsn: Lsn, made: Ino) {
    change(tree, event, lsn, Some(made));
}

/// [`apply`] of an event where it stands.
pub(crate) fn apply_view(tree: &mut Tree, event: EventView<'_>, lsn: Lsn) {
    change_view(tree, event, lsn, None);
}

#[inline]
fn change(tree: &mut Tree, event: &Event, lsn: Lsn, made: Option<Ino>) {
    change_view(tree, event.view(), lsn, made);
}

#[inline]
fn change_view(tree: &mut Tree, event: EventView<'_>, lsn: Lsn, made: Option<Ino>) {
    tree.last_lsn = tree.last_lsn.max(lsn);
    match event {
        EventView::Inode(part) if part.part_of().is_some() => put_part(tree, part, lsn),
        EventView::Inode(inode) => put_inode(tree, inode, lsn, made == Some(inode.ino)),
        EventView::Entry { dir, name, ino, kind, remote } => {
            put_entry(tree, dir, name, Target { ino, kind, remote }, lsn, made.is_some());
        }
        EventView::Other(event) => change_other(tree, event, lsn, made),
    }
}

fn change_other(tree: &mut Tree, event: &Event, lsn: Lsn, made: Option<Ino>) {
    match event {
        // They have a view of their own.
        Event::Inode(_) | Event::Entry { .. } => change_view(tree, event.view(), lsn, made),
        Event::InodeGone(ino) => drop_inode(tree, *ino, lsn),
        Event::EntryGone { dir, name } => put_entry(tree, *dir, name.as_bytes(), ABSENT, lsn, false),
        Event::Xattr { ino, name, value } => put_xattr(tree, *ino, name, Some(value), lsn),
        Event::XattrGone { ino, name } => put_xattr(tree, *ino, name, None, lsn),
        Event::Inline { ino, data } => put_inline(tree, *ino, Some(data), lsn, is_new(tree, *ino, made)),
        Event::InlineGone(ino) => put_inline(tree, *ino, None, lsn, false),
        Event::Orphan(ino) => {
            let new = is_new(tree, *ino, made);
            put_new_small(tree, |t| &mut t.orphans, *ino, Some(()), Key::Orphan(*ino), lsn, new);
        }
        Event::OrphanGone(ino) => put_small(tree, |t| &mut t.orphans, *ino, None, Key::Orphan(*ino), lsn),
        Event::Discard { ino, from, object_size } => {
            put_discard(tree, *ino, *from, *object_size, lsn, made.is_some());
        }
        Event::DiscardGone(ino) => put_small(tree, |t| &mut t.discards, *ino, None, Key::Discard(*ino), lsn),
        Event::Session(record) => {
            let value = Some(Box::new(record.clone()));
            put_small(tree, |t| &mut t.sessions, record.id, value, Key::Session(record.id), lsn);
        }
        Event::SessionGone(id) => put_small(tree, |t| &mut t.sessions, *id, None, Key::Session(*id), lsn),
        Event::NextIno(ino) => raise_next_ino(tree, *ino, lsn),
        Event::Route(route) => put_route(tree, route, lsn),
        Event::RouteGone(dir) => drop_routes(tree, *dir, lsn),
        // The journal is the only place that holds letters; how far they have come is a record.
        Event::Letter { .. } => {}
        // It is no record of the table.
        Event::Data { .. } | Event::DataInPlace { .. } | Event::Pad { .. } => {}
        // In journals only: who reads them makes an `Inline` of it.
        Event::InlinePatch(_) => {}
        Event::Peer(peer) => put_small(tree, |t| &mut t.peers, peer.rank, Some(*peer), Key::Peer(peer.rank), lsn),
        Event::Departed(inos) => inos.iter().for_each(|ino| _ = tree.forget(*ino)),
        Event::DepartedFrag { dir, frag } => tree.forget_names(*dir, frag.first(), frag.last()),
        Event::Decoupled(record) => {
            let key = Key::Decoupled(record.dir);
            put_small(tree, |t| &mut t.decoupled, record.dir, Some(record.clone()), key, lsn);
        }
        Event::DecoupledGone(dir) => {
            tree.drop_merge(*dir);
            put_small(tree, |t| &mut t.decoupled, *dir, None, Key::Decoupled(*dir), lsn);
        }
        Event::MergePart { dir, part, body } => tree.add_merge_part(*dir, *part, body, lsn),
        Event::Merge { dir } => {
            tree.begin_merge(*dir);
            while !tree.merge_some(*dir, lsn) {}
        }
        Event::PartGone { dir, .. } => put_small(tree, |t| &mut t.parts, *dir, None, Key::Part(*dir), lsn),
    }
}

/// Sets the flag and says whether the record must be queued: it is there once.
#[inline]
fn becomes_dirty(flags: &Cell<u8>) -> bool {
    let before = flags.get();
    flags.set(before | flag::DIRTY | flag::USED);
    before & flag::DIRTY == 0
}

/// Takes the mark of a change from a new record that goes; whether it was new, and nothing is to be written.
#[inline]
fn goes_unwritten(flags: &Cell<u8>) -> bool {
    let before = flags.get();
    let new = before & flag::NEW != 0;
    if new {
        flags.set(before & !(flag::NEW | flag::DIRTY) | flag::USED);
    }
    new
}

/// True if no checkpoint has taken an inode since it was made.
fn is_new(tree: &Tree, ino: Ino, made: Option<Ino>) -> bool {
    made == Some(ino) || tree.inodes.get(ino.0).is_some_and(|slot| slot.flags.get() & flag::NEW != 0)
}

/// A rank's part of a directory that several have.
fn put_part(tree: &mut Tree, part: &Inode, lsn: Lsn) {
    if let Some(from) = tree.part(part.ino).map(|known| known.frag_bits).filter(|bits| *bits != part.frag_bits) {
        tree.recuts.push(Recut { dir: part.ino, from, to: part.frag_bits });
    }
    put_small(tree, |t| &mut t.parts, part.ino, Some(Box::new(part.clone())), Key::Part(part.ino), lsn);
}

fn put_inode(tree: &mut Tree, inode: &Inode, lsn: Lsn, made: bool) {
    let ino = inode.ino;
    let place = match tree.inodes.place(ino.0) {
        Some(place) => {
            let slot = tree.inodes.at_mut(place).expect("the place was just found");
            tree.heap_bytes -= extra_bytes(&slot.inode);
            if slot.inode.frag_bits != inode.frag_bits {
                tree.recuts.push(Recut { dir: ino, from: slot.inode.frag_bits, to: inode.frag_bits });
            }
            slot.inode.clone_from(inode);
            slot.flags.set(slot.flags.get() & !(flag::GONE | flag::SWEEP));
            place
        }
        None => {
            let flags = Cell::new(if made { flag::NEW } else { 0 });
            tree.inodes.insert(Slot { inode: inode.clone(), flags })
        }
    };
    let slot = tree.inodes.at(place).expect("the place is in use");
    tree.heap_bytes += extra_bytes(&slot.inode);
    if becomes_dirty(&slot.flags) {
        tree.dirty.push(lsn, Key::Inode(ino));
    }
    if crate::rstat::is_unsettled(inode) {
        tree.queue_unsettled(ino);
    } else {
        tree.trim_unsettled();
    }
    if inode.kind == Kind::Dir && inode.size == 0 {
        // What is not in memory is not there. This is how a new directory becomes known in full.
        tree.dir_slot(ino);
        tree.edit_known(ino, |slot| slot.complete.set_all());
    }
    raise_next_ino(tree, Ino(ino.plain().0 + 1), lsn);
}

fn drop_inode(tree: &mut Tree, ino: Ino, lsn: Lsn) {
    if tree.inodes.place(ino.0).is_none() {
        // Nothing is known of it, so anything may be in the table.
        let mut unknown = Inode::new(ino, Kind::File, 0, 0, 0, Ino(0), Time(0));
        (unknown.has_xattrs, unknown.size) = (true, 1);
        tree.inodes.insert(Slot { inode: unknown, flags: Cell::new(0) });
    }
    let slot = tree.inodes.get_mut(ino.0).expect("it is there or was just put there");
    let had_xattrs = slot.inode.has_xattrs || tree.xattrs.contains_key(&ino);
    let had_inline = slot.inode.inline && slot.inode.size > 0 || tree.inline.contains_key(&ino);
    tree.heap_bytes -= extra_bytes(&slot.inode);
    slot.inode.extra = None;
    slot.inode.accounted = slot.inode.own();
    let sweep = if had_xattrs { flag::SWEEP } else { 0 };
    slot.flags.set(slot.flags.get() | flag::GONE | sweep);
    // Xattrs are written by themselves, maybe before it was.
    if !had_xattrs && goes_unwritten(&slot.flags) {
        tree.dirty.idle();
    } else if becomes_dirty(&slot.flags) {
        tree.dirty.push(lsn, Key::Inode(ino));
    }
    if let Some(set) = tree.xattrs.remove(&ino) {
        tree.heap_bytes -= set.heap_bytes();
    }
    if had_inline {
        put_inline(tree, ino, None, lsn, false);
    }
    if tree.dirs.get(ino.0).is_some_and(|dir| dir.entries.is_empty()) {
        tree.drop_dir(ino);
    }
    tree.trim_unsettled();
}

/// `known`: what memory denies, the table does not have either.
fn put_entry(tree: &mut Tree, dir: Ino, name: &[u8], target: Target, lsn: Lsn, known: bool) {
    let hash = hash63(tree.key, name);
    let (entry, added, lacked) = tree.dir_slot(dir).put(hash, name, target);
    if known && lacked {
        entry.flags.set(entry.flags.get() | flag::NEW);
    }
    let idle = target.ino.0 == 0 && goes_unwritten(&entry.flags);
    let queue = !idle && becomes_dirty(&entry.flags);
    tree.heap_bytes += added;
    if queue {
        tree.dirty.push(lsn, Key::Entry(dir, hash));
    }
    if idle {
        tree.dirty.idle();
    }
}

fn put_xattr(tree: &mut Tree, ino: Ino, name: &Arc<[u8]>, value: Option<&Arc<[u8]>>, lsn: Lsn) {
    // An inode without xattrs gets its first: what is not in memory is not there.
    let first = tree.inode(ino).is_some_and(|inode| !inode.has_xattrs);
    let set = tree.xattrs.entry(ino).or_insert_with(|| {
        tree.heap_bytes += XattrSet::default().heap_bytes();
        XattrSet::default()
    });
    set.complete |= first;
    let queued = set.any(flag::DIRTY);
    let before = set.heap_bytes();
    let fresh = || XattrSlot { value: None, flags: Cell::new(0) };
    let slot = set.items.entry(name.clone()).or_insert_with(fresh);
    slot.value = value.cloned();
    becomes_dirty(&slot.flags);
    let after = set.heap_bytes();
    tree.heap_bytes = tree.heap_bytes + after - before;
    if !queued {
        tree.dirty.push(lsn, Key::Xattrs(ino));
    }
}

fn put_inline(tree: &mut Tree, ino: Ino, data: Option<&Arc<[u8]>>, lsn: Lsn, new: bool) {
    let slot = tree.inline.entry(ino).or_insert_with(|| {
        tree.heap_bytes += inline_bytes(None);
        InlineSlot { data: None, flags: Cell::new(if new { flag::NEW } else { 0 }) }
    });
    tree.heap_bytes -= inline_bytes(slot.data.as_ref());
    slot.data = data.cloned();
    tree.heap_bytes += inline_bytes(slot.data.as_ref());
    if data.is_none() && goes_unwritten(&slot.flags) {
        tree.dirty.idle();
    } else if becomes_dirty(&slot.flags) {
        tree.dirty.push(lsn, Key::Inline(ino));
    }
}

/// Records of small tables; what must be dropped only ever grows until it is done, so the lower offset wins.
fn put_discard(tree: &mut Tree, ino: Ino, from: u64, object_size: u32, lsn: Lsn, new: bool) {
    put_new_small(tree, |t| &mut t.discards, ino, Some((from, object_size)), Key::Discard(ino), lsn, new);
}

/// Of two lines for the same fragment the newer one stays. A new one takes the place of those that it covers, and of
/// those that cover it.
fn put_route(tree: &mut Tree, route: &Route, lsn: Lsn) {
    let same = tree.routes.range((route.dir, Frag::WHOLE)..).take_while(|((dir, _), _)| *dir == route.dir);
    let overlap =
        same.filter(|((_, frag), _)| *frag != route.frag && (frag.covers(route.frag) || route.frag.covers(*frag)));
    let old: Vec<(Ino, Frag)> = overlap.filter(|(_, rec)| rec.value.is_some()).map(|(key, _)| *key).collect();
    for key in old {
        put_small(tree, |t| &mut t.routes, key, None, Key::Route(key.0, key.1), lsn);
    }
    let key = (route.dir, route.frag);
    let known = tree.routes.get(&key).and_then(|rec| rec.value);
    if known.is_none_or(|known| known.version <= route.version) {
        put_small(tree, |t| &mut t.routes, key, Some(*route), Key::Route(key.0, key.1), lsn);
    }
}

fn drop_routes(tree: &mut Tree, dir: Ino, lsn: Lsn) {
    let of_it = tree.routes.range((dir, Frag::WHOLE)..).take_while(|((d, _), _)| *d == dir);
    let keys: Vec<(Ino, Frag)> = of_it.map(|(key, _)| *key).collect();
    for key in keys {
        put_small(tree, |t| &mut t.routes, key, None, Key::Route(key.0, key.1), lsn);
    }
}

fn put_small<K: Ord, V>(
    tree: &mut Tree,
    table: impl Fn(&mut Tree) -> &mut BTreeMap<K, Small<V>>,
    key: K,
    value: Option<V>,
    dirty_key: Key,
    lsn: Lsn,
) {
    put_new_small(tree, table, key, value, dirty_key, lsn, false);
}

/// `new`: if memory does not have it, the table does not have it either.
fn put_new_small<K: Ord, V>(
    tree: &mut Tree,
    table: impl Fn(&mut Tree) -> &mut BTreeMap<K, Small<V>>,
    key: K,
    value: Option<V>,
    dirty_key: Key,
    lsn: Lsn,
    new: bool,
) {
    let flags = if new { flag::NEW } else { 0 };
    let record = table(tree).entry(key).or_insert_with(|| Small { value: None, flags: Cell::new(flags) });
    record.value = value;
    if record.value.is_none() && goes_unwritten(&record.flags) {
        tree.dirty.idle();
    } else if becomes_dirty(&record.flags) {
        tree.dirty.push(lsn, dirty_key);
    }
}

fn raise_next_ino(tree: &mut Tree, ino: Ino, lsn: Lsn) {
    if ino.birth_rank() == tree.config.rank && ino > tree.next_ino {
        tree.next_ino = ino;
        if becomes_dirty(&tree.next_ino_flags) {
            tree.dirty.push(lsn, Key::NextIno);
        }
    }
}

#[cfg(test)]
mod tests {
    use loligo_types::{Cred, Name, Op, OpenFlags, RenameMode, SetTime};

    use super::*;
    use crate::testing::{Fs, empty_tree};

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).expect("a good name")
    }

    fn run(fs: &mut Fs, op: Op) -> Ino {
        fs.run(&Cred::root(), &op).expect("root may").origin_ino
    }

    fn create(fs: &mut Fs, text: &str) -> Ino {
        let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
        let (dir, name) = (Ino::ROOT, name(text));
        run(fs, Op::Create { dir, name, mode: 0o644, umask: 0, flags, exclusive: true, handle: 1 })
    }

    fn unlink(fs: &mut Fs, text: &str) {
        run(fs, Op::Unlink { dir: Ino::ROOT, name: name(text) });
    }

    fn rename(fs: &mut Fs, from: &str, to: &str) {
        let (dir, new_dir, mode) = (Ino::ROOT, Ino::ROOT, RenameMode::Replace);
        run(fs, Op::Rename { dir, name: name(from), new_dir, new_name: name(to), mode });
    }

    /// The names and inodes but the root that the next checkpoint takes.
    fn taken(fs: &mut Fs) -> Vec<Event> {
        let records = fs.tree.take_checkpoint(usize::MAX).records;
        let all = records.into_iter().map(|record| record.event);
        let rest = |event: &Event| match event {
            Event::NextIno(_) => false,
            Event::Inode(inode) => inode.ino != Ino::ROOT,
            _ => true,
        };
        all.filter(rest).collect()
    }

    fn checkpointed() -> Fs {
        let mut fs = Fs::new();
        fs.checkpoint(usize::MAX);
        fs
    }

    #[test]
    fn what_comes_and_goes_between_two_checkpoints_is_not_written() {
        let mut fs = checkpointed();
        for _ in 0..3 {
            let ino = create(&mut fs, "f");
            let data = vec![7; 20].into();
            run(
                &mut fs,
                Op::WriteInline { ino, handle: 1, offset: Some(0), data, mtime: SetTime::Now, kill_priv: true },
            );
            assert_eq!(fs.tree.dirty_records(), 5, "the root, the counter, and three of the file");
            unlink(&mut fs, "f");
            assert_eq!(fs.tree.dirty_records(), 2);
        }
        assert_eq!(taken(&mut fs), []);
        fs.tree.checkpoint_done();
        assert_eq!((fs.tree.oldest_dirty(), fs.tree.dirty_queue(), fs.tree.inodes_cached()), (None, 0, 1));
        fs.check();
    }

    #[test]
    fn the_old_name_of_a_new_file_is_not_written() {
        let mut fs = checkpointed();
        let ino = create(&mut fs, "f.tmp");
        rename(&mut fs, "f.tmp", "f");
        let inode = fs.tree.inode(ino).cloned().expect("it was just made");
        let entry = Event::Entry { dir: Ino::ROOT, name: name("f"), ino, kind: Kind::File, remote: false };
        let mut all = taken(&mut fs);
        all.sort_by_key(|event| matches!(event, Event::Entry { .. }));
        assert_eq!(all, [Event::Inode(Box::new(inode)), entry]);
    }

    #[test]
    fn what_a_checkpoint_has_taken_is_written_as_gone() {
        for fails in [false, true] {
            let mut fs = checkpointed();
            let ino = create(&mut fs, "f");
            assert_eq!(taken(&mut fs).len(), 2);
            unlink(&mut fs, "f");
            if fails {
                // Maybe some of it was written.
                fs.tree.checkpoint_failed();
            } else {
                fs.tree.checkpoint_done();
            }
            let gone = [Event::EntryGone { dir: Ino::ROOT, name: name("f") }, Event::InodeGone(ino)];
            let all = taken(&mut fs);
            assert!(gone.iter().all(|event| all.contains(event)) && all.len() == 2, "{all:?}");
        }
    }

    #[test]
    fn a_name_that_is_made_again_while_its_end_is_on_its_way_is_not_new() {
        let mut fs = checkpointed();
        create(&mut fs, "f");
        fs.checkpoint(usize::MAX);
        unlink(&mut fs, "f");
        assert_eq!(taken(&mut fs).len(), 2);
        create(&mut fs, "f");
        // The table still has the old one.
        fs.tree.checkpoint_failed();
        unlink(&mut fs, "f");
        let all = taken(&mut fs);
        assert!(all.contains(&Event::EntryGone { dir: Ino::ROOT, name: name("f") }), "{all:?}");
    }

    #[test]
    fn a_name_that_the_table_has_is_not_new_when_it_is_made_again() {
        let mut fs = checkpointed();
        create(&mut fs, "f");
        fs.checkpoint(usize::MAX);
        unlink(&mut fs, "f");
        create(&mut fs, "f");
        unlink(&mut fs, "f");
        let all = taken(&mut fs);
        assert!(all.contains(&Event::EntryGone { dir: Ino::ROOT, name: name("f") }), "{all:?}");
    }

    #[test]
    fn what_is_replayed_may_be_in_the_table() {
        let mut fs = checkpointed();
        create(&mut fs, "f");
        unlink(&mut fs, "f");
        let mut tree = empty_tree();
        fs.journal.iter().for_each(|(lsn, events)| events.iter().for_each(|event| apply(&mut tree, event, *lsn)));
        fs.tree = tree;
        assert_eq!(taken(&mut fs).len(), 2);
    }
}
