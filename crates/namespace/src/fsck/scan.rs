//! Goes over all records and gathers, per inode, what others say of it. Repairs single records that speak of nothing.

use std::collections::{BTreeMap, BTreeSet};

use loligo_subtree_policy::policy::History;
use loligo_subtree_policy::policy::history::Unreadable;
use loligo_types::{Event, Frag, Ino, Inode, Kind, LookupLease, Name, Place, Placement, Rank, Time, limits};

use super::Report;
use crate::HISTORY;

/// Directory in the root that unreachable inodes are put in.
pub const LOST_FOUND: &[u8] = b"lost+found";

/// An inode and what the other records say of it.
pub struct Fact {
    pub inode: Inode,
    /// Entries that point to it (kept ones).
    pub links: u32,
    /// Directory: its entries.
    pub entries: u64,
    /// Directory: those that are directories.
    pub subdirs: u32,
    /// Directory: where its entry is.
    pub place: Option<(Ino, Name)>,
    /// Length of its inline record.
    pub inline: Option<u64>,
    /// It has an xattr record.
    pub xattrs: bool,
    /// It has an orphan record.
    pub orphan: bool,
    /// Not a directory: the entry that it is embedded with is there.
    pub embedded: bool,
    /// Directory: its entry says that it lives elsewhere.
    pub remote: bool,
    /// Directory whose fragments are several ranks': what its parts have counted, which is added to the inode here.
    pub parts: Option<Box<Inode>>,
}

impl Fact {
    fn new(inode: Inode) -> Fact {
        Fact {
            inode,
            links: 0,
            entries: 0,
            subdirs: 0,
            place: None,
            inline: None,
            xattrs: false,
            orphan: false,
            embedded: false,
            remote: false,
            parts: None,
        }
    }

    /// A directory that repairs make, in the root.
    pub fn new_dir(ino: Ino) -> Fact {
        Fact::new(Inode::new(ino, Kind::Dir, 0o755, 0, 0, Ino::ROOT, Time(0)))
    }
}

/// An entry of a file that does not fit to where the file says that it lives.
pub struct Stray {
    pub dir: Ino,
    pub name: Name,
    pub ino: Ino,
    pub remote: bool,
}

/// The facts that a scan gathered.
#[derive(Default)]
pub struct Scan {
    /// Under which names are hashed.
    pub key: (u64, u64),
    /// By inode number.
    pub facts: Vec<Fact>,
    /// Of each rank, as far as it says.
    pub next_inos: BTreeMap<Rank, Ino>,
    /// Entries that say they have their file, which says it lives elsewhere; and such as are where their file says it
    /// lives, but say that they do not have it.
    pub strays: Vec<Stray>,
    pub orphans: BTreeSet<Ino>,
    /// The directory for lost inodes, and the names in it.
    pub lost_found: Option<Ino>,
    pub lost_names: BTreeSet<Name>,
    /// Parts of directories whose fragments are several ranks'.
    pub dir_parts: Vec<Inode>,
    /// The root was missing.
    pub root_made: bool,
    pub report: Report,
}

impl Scan {
    pub fn new(key: (u64, u64)) -> Scan {
        Scan { key, ..Scan::default() }
    }

    /// Where an entry with this name has its inode.
    pub fn at(&self, name: &Name) -> Place {
        Place::embedded(crate::hash63(self.key, name.as_bytes()))
    }

    /// First round: inodes and orphans.
    pub fn inodes(&mut self, event: &Event) {
        match event {
            Event::Inode(inode) if inode.part_of().is_some() => self.dir_parts.push((**inode).clone()),
            Event::Inode(inode) => self.facts.push(Fact::new((**inode).clone())),
            Event::Orphan(ino) => drop(self.orphans.insert(*ino)),
            Event::NextIno(ino) => drop(self.next_inos.insert(ino.birth_rank(), *ino)),
            _ => {}
        }
    }

    /// After the first round.
    pub fn sort(&mut self) {
        self.facts.sort_by_key(|fact| fact.inode.ino);
        self.report.inodes = self.facts.len() as u64;
        // As they were found: what is counted of those that are spread is put together after that.
        self.frags();
        self.add_parts();
        let root = self.facts.first().is_some_and(|fact| fact.inode.ino == Ino::ROOT && fact.inode.kind == Kind::Dir);
        if !root {
            self.root_made = true;
            self.facts.retain(|fact| fact.inode.ino != Ino::ROOT);
            self.facts.insert(0, Fact::new_dir(Ino::ROOT));
            self.report.add(true, "there is no root directory; one is made".to_string(), []);
        }
        for ino in std::mem::take(&mut self.orphans) {
            match self.fact(ino) {
                Some(fact) => fact.orphan = true,
                None => {
                    self.report.add(false, format!("orphan {ino} is no inode"), [Event::OrphanGone(ino)]);
                }
            }
        }
    }

    /// Only directories are cut into fragments, and not finer than names' hashes are told apart by.
    fn frags(&mut self) {
        let Scan { facts, report, .. } = self;
        for Fact { inode, .. } in facts {
            let (bits, expected) = (inode.frag_bits, inode.expected_entries());
            let is_dir = inode.kind == Kind::Dir;
            if !is_dir && !inode.lookup_lease().is_none() {
                inode.extra_mut().lookup_lease = LookupLease::NONE;
                let text = format!("inode {} is no directory and has a policy of lookup leases", inode.ino);
                report.add_of(inode.ino, false, text, [Event::Inode(Box::new(inode.clone()))]);
            }
            if !is_dir && inode.placement() != Placement::Inherited {
                inode.extra_mut().placement = Placement::Inherited;
                let text = format!("inode {} is no directory and says where directories live", inode.ino);
                report.add_of(inode.ino, false, text, [Event::Inode(Box::new(inode.clone()))]);
            }
            if bits <= Frag::BITS_MAX
                && expected <= limits::EXPECTED_ENTRIES_MAX
                && (is_dir || (bits, expected) == (0, 0))
            {
                continue;
            }
            inode.frag_bits = if is_dir { bits.min(Frag::BITS_MAX) } else { 0 };
            if let Some(extra) = &mut inode.extra {
                extra.expected_entries = if is_dir { expected.min(limits::EXPECTED_ENTRIES_MAX) } else { 0 };
            }
            let text = format!("inode {} says 2^{bits} fragments and {expected} entries expected", inode.ino);
            report.add_of(inode.ino, false, text, [Event::Inode(Box::new(inode.clone()))]);
        }
    }

    /// Adds up the counters of a fragmented directory: those of each rank are deltas; only their sum is true.
    fn add_parts(&mut self) {
        for part in std::mem::take(&mut self.dir_parts) {
            let (dir, rank) = (part.ino, part.part_of().unwrap_or_default());
            match self.fact(dir) {
                Some(fact) if fact.inode.is_spread() => {
                    fact.parts.get_or_insert_with(|| Box::new(part.new_part(rank))).add_part(&part);
                }
                _ => {
                    let text =
                        format!("rank {rank} has a part of {dir}, which is no directory with fragments elsewhere");
                    self.report.add(false, text, [Event::PartGone { dir, rank }]);
                }
            }
        }
        for fact in self.facts.iter_mut().filter(|fact| fact.inode.is_spread()) {
            if let Some(part) = &fact.parts {
                fact.inode.add_part(part);
            }
            if fact.inode.nlink > 0 {
                fact.inode.end_spread();
            }
            fact.parts.get_or_insert_with(|| Box::new(fact.inode.new_part(Rank::ZERO)));
        }
    }

    /// Second round: where lost inodes go.
    pub fn lost_found(&mut self, event: &Event) {
        if let Event::Entry { dir: Ino::ROOT, name, ino, kind: Kind::Dir, .. } = event
            && name.as_bytes() == LOST_FOUND
            && self.fact(*ino).is_some_and(|fact| fact.inode.kind == Kind::Dir)
        {
            self.lost_found = Some(*ino);
        }
    }

    /// Third round: entries, xattrs, inline data.
    pub fn parts(&mut self, event: &Event) {
        match event {
            Event::Entry { dir, name, ino, kind, remote } => self.entry(*dir, name, *ino, *kind, *remote),
            Event::Xattr { ino, name, value } => match self.fact(*ino) {
                // That of a newer program stays.
                Some(_) if **name == *HISTORY && History::read(value) == Err(Unreadable::Damaged) => {
                    let gone = Event::XattrGone { ino: *ino, name: name.clone() };
                    let text = format!("the history of the policy of directory {ino} cannot be read, and begins anew");
                    self.report.add(false, text, [gone]);
                }
                Some(fact) => fact.xattrs = true,
                None => {
                    let gone = Event::XattrGone { ino: *ino, name: name.clone() };
                    self.report.add(false, format!("an xattr of {ino}, which is no inode"), [gone]);
                }
            },
            Event::Inline { ino, data } => match self.fact(*ino) {
                Some(fact) => fact.inline = Some(data.len() as u64),
                None => {
                    self.report.add(false, format!("data of {ino}, which is no inode"), [Event::InlineGone(*ino)]);
                }
            },
            _ => {}
        }
    }

    fn entry(&mut self, dir: Ino, name: &Name, ino: Ino, kind: Kind, remote: bool) {
        self.report.entries += 1;
        let gone = || Event::EntryGone { dir, name: name.clone() };
        if self.fact(dir).is_none_or(|fact| fact.inode.kind != Kind::Dir) {
            return self.report.add(true, format!("entry {name} is in {dir}, which is no directory"), [gone()]);
        }
        let Some(target) = self.fact(ino) else {
            return self.report.add_of(
                dir,
                true,
                format!("entry {name} in {dir} points to {ino}, which is no inode"),
                [gone()],
            );
        };
        let right = target.inode.kind;
        if right == Kind::Dir && !self.place(dir, name, ino, remote) {
            return;
        }
        if right != Kind::Dir {
            self.embed(dir, name, ino, remote);
        }
        if right != kind {
            let entry = Event::Entry { dir, name: name.clone(), ino, kind: right, remote };
            self.report.add_of(dir, false, format!("entry {name} in {dir} has the wrong type"), [entry]);
        }
        if self.lost_found == Some(dir) {
            self.lost_names.insert(name.clone());
        }
        if let Some(fact) = self.fact(ino) {
            fact.links += 1;
        }
        if let Some(fact) = self.fact(dir) {
            fact.entries += 1;
            fact.subdirs += u32::from(right == Kind::Dir);
        }
    }

    /// A directory has one name. Of several the one in its parent stays. Says whether this one does.
    fn place(&mut self, dir: Ino, name: &Name, ino: Ino, remote: bool) -> bool {
        let Some(fact) = self.fact(ino) else { return false };
        let parent = fact.inode.parent;
        let here = Some((dir, name.clone()));
        let (drop_dir, drop_name) = match fact.place.clone() {
            None if ino == Ino::ROOT => (dir, name.clone()),
            None => {
                (fact.place, fact.remote) = (here, remote);
                return true;
            }
            Some((old, old_name)) if dir == parent && old != parent => {
                (fact.place, fact.remote) = (here, remote);
                fact.links -= 1;
                if let Some(old) = self.fact(old) {
                    old.entries -= 1;
                    old.subdirs -= 1;
                }
                (old, old_name)
            }
            Some(_) => (dir, name.clone()),
        };
        let stays = (drop_dir, &drop_name) != (dir, name);
        let text = format!("directory {ino} has one more name: {drop_name} in {drop_dir}");
        self.report.add_of(ino, false, text, [Event::EntryGone { dir: drop_dir, name: drop_name }]);
        stays
    }

    /// A file lives with one of its names, or with none.
    fn embed(&mut self, dir: Ino, name: &Name, ino: Ino, remote: bool) {
        let at = self.at(name);
        let Some(fact) = self.fact(ino) else { return };
        let here = fact.inode.parent == dir && fact.inode.place == at;
        if here && !remote && !fact.embedded {
            fact.embedded = true;
        } else if here || !remote {
            self.strays.push(Stray { dir, name: name.clone(), ino, remote });
        }
    }

    /// The fact of an inode.
    pub fn fact(&mut self, ino: Ino) -> Option<&mut Fact> {
        let at = self.facts.binary_search_by_key(&ino, |fact| fact.inode.ino).ok()?;
        Some(&mut self.facts[at])
    }
}
