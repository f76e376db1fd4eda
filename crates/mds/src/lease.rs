//! Holders of the leases ATTR and NAMES. Rights on file data live with the opens (`open.rs`).
//!
//! One lease is one node of 24 bytes in a slab, chained with the others of its inode, and with those of its session
//! from the newest to the oldest; with its share of the index about 50 bytes. A renewed lease is only marked, and gets
//! its second chance when the oldest are looked for.

use loligo_types::{Ino, Lease};

use crate::session::Slot;
use crate::shards::Shards;

const NIL: u32 = u32::MAX;
/// Mark in a node's bits: renewed since it was last looked at. Not a right.
const USED: Lease = Lease(0x80);

struct Node {
    ino: Ino,
    /// Next of the same inode, or next free node.
    next: u32,
    newer: u32,
    older: u32,
    slot: Slot,
    bits: Lease,
}

const _: () = assert!(size_of::<Node>() == 24);

/// The leases of one session.
#[derive(Clone, Copy)]
struct List {
    newest: u32,
    oldest: u32,
    count: usize,
    /// The session has ended: its leases count for nothing and are freed bit by bit.
    dead: bool,
}

impl Default for List {
    fn default() -> List {
        List { newest: NIL, oldest: NIL, count: 0, dead: false }
    }
}

/// All of them.
pub(crate) struct Leases {
    nodes: Vec<Node>,
    free: u32,
    heads: Shards<u32>,
    lists: Vec<List>,
    draining: Vec<Slot>,
    /// While somebody goes through all of them: inodes that leases were given on since.
    given: Option<Vec<Ino>>,
}

impl Default for Leases {
    fn default() -> Leases {
        Leases {
            nodes: Vec::new(),
            free: NIL,
            heads: Shards::default(),
            lists: Vec::new(),
            draining: Vec::new(),
            given: None,
        }
    }
}

impl Leases {
    /// The leases of a session on an inode.
    pub(crate) fn held(&self, ino: Ino, slot: Slot) -> Lease {
        self.holders(ino).find(|(s, _)| *s == slot).map_or(Lease::NONE, |(_, bits)| bits)
    }

    /// Sessions with leases on an inode.
    #[inline]
    pub(crate) fn holders(&self, ino: Ino) -> impl Iterator<Item = (Slot, Lease)> + '_ {
        let mut at = if self.heads.is_empty() { NIL } else { self.heads.get(ino).unwrap_or(NIL) };
        std::iter::from_fn(move || {
            while at != NIL {
                let node = &self.nodes[at as usize];
                at = node.next;
                if !self.lists[usize::from(node.slot.0)].dead {
                    return Some((node.slot, node.bits.without(USED)));
                }
            }
            None
        })
    }

    /// Begins to go through all leases: a place behind the last one. Until [`Leases::watch_ends`] is called, it is
    /// remembered on what leases are given.
    pub(crate) fn watch(&mut self) -> usize {
        self.given.get_or_insert_default();
        self.nodes.len()
    }

    /// A place behind the last lease.
    pub(crate) fn places(&self) -> usize {
        self.nodes.len()
    }

    /// Nobody wants to know any more.
    pub(crate) fn watch_ends(&mut self) {
        self.given = None;
    }

    /// The inodes that leases were given on since this was asked last.
    pub(crate) fn given(&mut self) -> Vec<Ino> {
        self.given.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The lease at a place, if there is one that counts.
    pub(crate) fn at(&self, place: usize) -> Option<(Ino, Slot, Lease)> {
        let node = self.nodes.get(place).filter(|node| !node.bits.without(USED).is_none())?;
        let dead = self.lists[usize::from(node.slot.0)].dead;
        (!dead).then_some((node.ino, node.slot, node.bits.without(USED)))
    }

    /// True if anybody but this session holds one of the bits.
    #[inline]
    pub(crate) fn others_hold(&self, ino: Ino, slot: Slot, bits: Lease) -> bool {
        self.holders(ino).any(|(s, held)| s != slot && held.any(bits))
    }

    /// Gives bits, and makes the lease the newest of its session.
    pub(crate) fn grant(&mut self, ino: Ino, slot: Slot, bits: Lease) {
        let head = self.heads.get(ino).unwrap_or(NIL);
        let mut at = head;
        while at != NIL && self.nodes[at as usize].slot != slot {
            at = self.nodes[at as usize].next;
        }
        if at == NIL {
            if let Some(given) = &mut self.given {
                given.push(ino);
            }
            at = self.new_node(Node { ino, next: head, newer: NIL, older: NIL, slot, bits });
            self.heads.insert(ino, at);
            self.link_newest(at);
        } else {
            let node = &mut self.nodes[at as usize];
            node.bits = node.bits | bits | USED;
        }
    }

    /// Takes bits.
    pub(crate) fn take(&mut self, ino: Ino, slot: Slot, bits: Lease) {
        let Some(head) = self.heads.get(ino) else { return };
        let (mut before, mut at) = (NIL, head);
        while at != NIL && self.nodes[at as usize].slot != slot {
            (before, at) = (at, self.nodes[at as usize].next);
        }
        if at == NIL {
            return;
        }
        let node = &mut self.nodes[at as usize];
        node.bits = node.bits.without(bits);
        if !node.bits.without(USED).is_none() {
            return;
        }
        let next = node.next;
        match (before, next) {
            (NIL, NIL) => self.heads.remove(ino),
            (NIL, next) => self.heads.insert(ino, next),
            (before, next) => self.nodes[before as usize].next = next,
        }
        self.unlink(at);
        let node = &mut self.nodes[at as usize];
        (node.next, node.bits) = (self.free, Lease::NONE);
        self.free = at;
    }

    /// The inode is gone for good, so that nothing on it can become untrue any more.
    pub(crate) fn forget(&mut self, ino: Ino) {
        while let Some(head) = self.heads.get(ino) {
            self.take(ino, self.nodes[head as usize].slot, Lease(u8::MAX));
        }
    }

    /// A session ends: all it holds is void at once; the memory comes back with [`Leases::drain`].
    pub(crate) fn end(&mut self, slot: Slot) {
        let list = self.list(slot);
        if list.count > 0 {
            list.dead = true;
            self.draining.push(slot);
        }
    }

    /// Frees up to `max` leases of ended sessions.
    pub(crate) fn drain(&mut self, max: usize) {
        for _ in 0..max {
            let Some(slot) = self.draining.last().copied() else { return };
            let oldest = self.list(slot).oldest;
            if oldest == NIL {
                self.list(slot).dead = false;
                self.draining.pop();
                continue;
            }
            let ino = self.nodes[oldest as usize].ino;
            self.take(ino, slot, Lease(u8::MAX));
        }
    }

    /// True if the place of an ended session may be used again.
    pub(crate) fn is_drained(&self, slot: Slot) -> bool {
        self.lists.get(usize::from(slot.0)).is_none_or(|list| list.count == 0 && !list.dead)
    }

    /// Up to `max` leases of a session that were not renewed for the longest time.
    pub(crate) fn unused(&mut self, slot: Slot, max: usize) -> Vec<(Ino, Lease)> {
        let (mut at, mut found) = (self.list(slot).oldest, Vec::new());
        for _ in 0..8 * max {
            let Some(node) = self.nodes.get_mut(at as usize) else { break };
            let next = node.newer;
            if node.bits.any(USED) {
                node.bits = node.bits.without(USED);
                self.unlink(at);
                self.link_newest(at);
            } else {
                found.push((node.ino, node.bits));
            }
            if found.len() == max {
                break;
            }
            at = next;
        }
        found
    }

    /// Number of leases of a session.
    pub(crate) fn count(&self, slot: Slot) -> usize {
        self.lists.get(usize::from(slot.0)).map_or(0, |list| list.count)
    }

    /// Number of leases of all sessions.
    pub(crate) fn total(&self) -> usize {
        self.lists.iter().map(|list| list.count).sum()
    }

    /// Bytes of memory they take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.heads.heap_bytes()
    }

    fn list(&mut self, slot: Slot) -> &mut List {
        let index = usize::from(slot.0);
        if index >= self.lists.len() {
            self.lists.resize(index + 1, List::default());
        }
        &mut self.lists[index]
    }

    fn new_node(&mut self, node: Node) -> u32 {
        if self.free == NIL {
            self.nodes.push(node);
            return (self.nodes.len() - 1) as u32;
        }
        let at = self.free;
        self.free = self.nodes[at as usize].next;
        self.nodes[at as usize] = node;
        at
    }

    fn link_newest(&mut self, at: u32) {
        let slot = self.nodes[at as usize].slot;
        let list = self.list(slot);
        let before = std::mem::replace(&mut list.newest, at);
        list.count += 1;
        if before == NIL {
            list.oldest = at;
        } else {
            self.nodes[before as usize].newer = at;
        }
        let node = &mut self.nodes[at as usize];
        (node.newer, node.older) = (NIL, before);
    }

    fn unlink(&mut self, at: u32) {
        let Node { newer, older, slot, .. } = self.nodes[at as usize];
        if newer == NIL {
            self.list(slot).newest = older;
        } else {
            self.nodes[newer as usize].older = older;
        }
        if older == NIL {
            self.list(slot).oldest = newer;
        } else {
            self.nodes[older as usize].newer = newer;
        }
        self.list(slot).count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_shared_and_taken_bit_by_bit() {
        let mut leases = Leases::default();
        leases.grant(Ino(5), Slot(0), Lease::ATTR);
        leases.grant(Ino(5), Slot(1), Lease::ATTR | Lease::NAMES);
        assert!(leases.others_hold(Ino(5), Slot(0), Lease::NAMES));
        assert!(!leases.others_hold(Ino(5), Slot(1), Lease::NAMES));
        leases.take(Ino(5), Slot(1), Lease::NAMES);
        assert_eq!(leases.held(Ino(5), Slot(1)), Lease::ATTR);
        leases.take(Ino(5), Slot(1), Lease::ATTR);
        leases.take(Ino(5), Slot(0), Lease::ATTR);
        assert_eq!(leases.total(), 0);
        assert!(leases.heads.is_empty());
    }

    #[test]
    fn oldest_first_and_a_renewed_one_has_a_second_chance() {
        let mut leases = Leases::default();
        for ino in 1..=3 {
            leases.grant(Ino(ino), Slot(0), Lease::ATTR);
        }
        leases.grant(Ino(1), Slot(0), Lease::ATTR);
        let mut order = |max| leases.unused(Slot(0), max).into_iter().map(|(ino, _)| ino.0).collect::<Vec<_>>();
        assert_eq!(order(2), [2, 3]);
        assert_eq!(order(3), [2, 3, 1]);
    }

    #[test]
    fn an_ended_session_holds_nothing_and_is_drained_in_steps() {
        let mut leases = Leases::default();
        for ino in 1..=10 {
            leases.grant(Ino(ino), Slot(3), Lease::ATTR);
            leases.grant(Ino(ino), Slot(4), Lease::ATTR);
        }
        leases.end(Slot(3));
        assert!(!leases.others_hold(Ino(1), Slot(4), Lease::ATTR));
        assert!(!leases.is_drained(Slot(3)));
        leases.drain(5);
        assert!(!leases.is_drained(Slot(3)));
        leases.drain(6);
        assert!(leases.is_drained(Slot(3)));
        assert_eq!((leases.count(Slot(3)), leases.count(Slot(4))), (0, 10));
    }

    #[test]
    fn each_is_met_once_by_who_goes_through_all_or_is_told_as_given_since() {
        let mut leases = Leases::default();
        for ino in 0..10 {
            leases.grant(Ino(ino), Slot(0), Lease::ATTR);
        }
        leases.take(Ino(3), Slot(0), Lease::ATTR);
        let end = leases.watch();
        let met: Vec<u64> = (0..end).rev().filter_map(|place| leases.at(place)).map(|(ino, ..)| ino.0).collect();
        assert_eq!(met, [9, 8, 7, 6, 5, 4, 2, 1, 0]);
        // In the place of the one that is gone, which may have been passed already.
        leases.grant(Ino(77), Slot(1), Lease::ATTR);
        leases.grant(Ino(5), Slot(0), Lease::NAMES);
        assert_eq!(leases.given(), [Ino(77)]);
        assert_eq!(leases.given(), []);
        leases.watch_ends();
        leases.grant(Ino(78), Slot(1), Lease::ATTR);
        assert_eq!(leases.given(), []);
        leases.end(Slot(1));
        assert_eq!(leases.at(3), None, "those of an ended session do not count");
    }

    #[test]
    fn a_million_take_fifty_bytes_each() {
        let mut leases = Leases::default();
        for ino in 0..1_000_000 {
            leases.grant(Ino(ino), Slot(0), Lease::ATTR);
        }
        assert!(leases.memory_bytes() / 1_000_000 <= 64, "{}", leases.memory_bytes());
    }
}
