//! From what was gathered to findings and repairs: first the shape of the tree, then the numbers that follow from it.

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::{Event, Ino, Kind, Name, Place, RStat, Rank};

use super::Report;
use super::scan::{Fact, LOST_FOUND, Scan};

pub fn mend(mut scan: Scan) -> Report {
    mend_counter(&mut scan);
    let mut changed = mend_shape(&mut scan);
    super::place::mend_files(&mut scan, &mut changed);
    mend_parents(&mut scan, &mut changed);
    let sums = sums(&scan.facts);
    for at in 0..scan.facts.len() {
        let forced = changed.contains(&scan.facts[at].inode.ino);
        mend_numbers(&mut scan, at, &sums, forced);
    }
    scan.report
}

/// A number must never be given out twice: of each rank's range, the last one says.
fn mend_counter(scan: &mut Scan) {
    let Scan { facts, next_inos, report, .. } = scan;
    next_inos.entry(Rank::ZERO).or_insert(Ino::FIRST);
    let mut lasts: BTreeMap<Rank, Ino> = BTreeMap::new();
    for fact in facts.iter() {
        // Numbers that name a rank count with the others.
        let plain = fact.inode.ino.plain();
        let last = lasts.entry(plain.birth_rank()).or_insert(plain);
        *last = plain.max(*last);
    }
    for (rank, last) in lasts {
        let next = next_inos.entry(rank).or_insert(Ino(0));
        if last >= *next {
            *next = Ino(last.0 + 1).max(Ino::first_of(rank));
            report.add(false, format!("inode {last} is beyond the counter"), [Event::NextIno(*next)]);
        }
    }
}

/// Removes what is unlinked, and names what nothing leads to. Says which inodes are new in their place.
fn mend_shape(scan: &mut Scan) -> BTreeSet<Ino> {
    let mut changed = BTreeSet::new();
    if scan.root_made {
        changed.insert(Ino::ROOT);
    }
    for ino in unreachable(scan) {
        let Some(fact) = scan.fact(ino) else { continue };
        if let Some((dir, name)) = fact.place.take() {
            // A ring of directories: it is opened here.
            fact.links = 0;
            if let Some(dir) = scan.fact(dir) {
                dir.entries -= 1;
                dir.subdirs -= 1;
            }
            scan.report.repairs.push(Event::EntryGone { dir, name });
        }
        adopt(scan, ino, &mut changed);
    }
    remove_unlinked(scan);
    changed
}

/// Inodes without a name that are no orphans, and one directory of each ring.
fn unreachable(scan: &Scan) -> Vec<Ino> {
    let nameless =
        |fact: &&Fact| fact.inode.ino != Ino::ROOT && fact.links == 0 && !fact.orphan && fact.inode.nlink > 0;
    let mut lost: Vec<Ino> = scan.facts.iter().filter(nameless).map(|fact| fact.inode.ino).collect();
    let places: BTreeMap<Ino, Ino> =
        scan.facts.iter().filter_map(|fact| Some((fact.inode.ino, fact.place.as_ref()?.0))).collect();
    let mut good = BTreeSet::new();
    for start in places.keys() {
        let mut path = BTreeSet::new();
        let mut at = *start;
        while !good.contains(&at) && path.insert(at) {
            match places.get(&at) {
                Some(above) => at = *above,
                None => break,
            }
        }
        // Back at a directory of this very walk: a ring. It is opened where it was met.
        if !good.contains(&at) && places.contains_key(&at) {
            lost.push(at);
        }
        good.extend(path);
    }
    lost
}

/// Names an inode in the directory for lost ones.
fn adopt(scan: &mut Scan, ino: Ino, changed: &mut BTreeSet<Ino>) {
    let home = lost_found(scan, changed);
    if ino == home {
        return;
    }
    let mut name = format!("#{ino}");
    while scan.lost_names.contains(&Name::new(name.as_bytes()).expect("digits are a name")) {
        name.push('_');
    }
    let name = Name::new(name.as_bytes()).expect("digits are a name");
    scan.lost_names.insert(name.clone());
    let at = scan.at(&name);
    let Some(fact) = scan.fact(ino) else { return };
    let kind = fact.inode.kind;
    fact.links = 1;
    (fact.inode.parent, fact.inode.place) = (home, at);
    (fact.embedded, fact.remote) = (true, false);
    fact.place = (kind == Kind::Dir).then(|| (home, name.clone()));
    if let Some(home) = scan.fact(home) {
        home.entries += 1;
        home.subdirs += u32::from(kind == Kind::Dir);
    }
    changed.insert(ino);
    let text = format!("nothing leads to inode {ino}; it is put in lost+found as {name}");
    scan.report.add(true, text, [Event::Entry { dir: home, name, ino, kind, remote: false }]);
}

fn lost_found(scan: &mut Scan, changed: &mut BTreeSet<Ino>) -> Ino {
    if let Some(ino) = scan.lost_found {
        return ino;
    }
    let next = scan.next_inos.entry(Rank::ZERO).or_insert(Ino::FIRST);
    let ino = *next;
    *next = Ino(ino.0 + 1);
    let next = *next;
    let name = Name::new(LOST_FOUND).expect("a good name");
    let mut fact = Fact::new_dir(ino);
    (fact.inode.mode, fact.inode.place) = (0o700, scan.at(&name));
    (fact.links, fact.place) = (1, Some((Ino::ROOT, name.clone())));
    // The highest number of its range so far: the order stays.
    let at = scan.facts.partition_point(|fact| fact.inode.ino < ino);
    scan.facts.insert(at, fact);
    if let Some(root) = scan.fact(Ino::ROOT) {
        root.entries += 1;
        root.subdirs += 1;
    }
    changed.insert(ino);
    scan.lost_found = Some(ino);
    let entry = Event::Entry { dir: Ino::ROOT, name, ino, kind: Kind::Dir, remote: false };
    scan.report.repairs.extend([Event::NextIno(next), entry]);
    ino
}

/// Inodes that were unlinked, but whose orphan record is missing, end; orphan records of linked ones go.
fn remove_unlinked(scan: &mut Scan) {
    let Scan { facts, report, .. } = scan;
    for fact in facts.iter_mut().filter(|fact| fact.orphan && fact.links > 0) {
        fact.orphan = false;
        let ino = fact.inode.ino;
        report.add_of(ino, false, format!("inode {ino} is an orphan, but has a name"), [Event::OrphanGone(ino)]);
    }
    facts.retain(|fact| {
        let unlinked = fact.inode.nlink == 0 && fact.links == 0 && !fact.orphan && fact.inode.ino != Ino::ROOT;
        if unlinked {
            let mut events = Vec::new();
            crate::reap::gone(&fact.inode, &mut events);
            report.add(false, format!("inode {} was unlinked, but is no orphan", fact.inode.ino), events);
        }
        !unlinked
    });
}

/// Where a directory is decides its parent; the sums follow from that.
fn mend_parents(scan: &mut Scan, changed: &mut BTreeSet<Ino>) {
    let Scan { facts, report, key, .. } = scan;
    for fact in facts.iter_mut().filter(|fact| fact.inode.kind == Kind::Dir) {
        if let (Some((dir, name)), false) = (&fact.place, fact.remote) {
            let at = Place::embedded(crate::hash63(*key, name.as_bytes()));
            if fact.inode.place != at {
                let text = format!("directory {} does not say that it lives with {name} in {dir}", fact.inode.ino);
                report.add_of(fact.inode.ino, false, text, []);
                fact.inode.place = at;
                changed.insert(fact.inode.ino);
            }
        }
        let (ino, said) = (fact.inode.ino, fact.inode.parent);
        let parent = if ino == Ino::ROOT { ino } else { fact.place.as_ref().map_or(Ino(0), |(dir, _)| *dir) };
        if said != parent {
            report.add_of(ino, false, format!("directory {ino} says its parent is {said}, is in {parent}"), []);
            fact.inode.parent = parent;
            changed.insert(ino);
        }
    }
}

/// The sums that each directory must have counted.
fn sums(facts: &[Fact]) -> BTreeMap<Ino, RStat> {
    let mut sums: BTreeMap<Ino, RStat> = BTreeMap::new();
    for inode in facts.iter().map(|fact| &fact.inode).filter(|inode| inode.ino != Ino::ROOT) {
        let sum = sums.entry(inode.parent).or_default();
        *sum = crate::rstat::plus(*sum, inode.accounted);
    }
    sums
}

fn mend_numbers(scan: &mut Scan, at: usize, sums: &BTreeMap<Ino, RStat>, forced: bool) {
    let fact = &scan.facts[at];
    let mut inode = fact.inode.clone();
    let ino = inode.ino;
    let mut wrong: Vec<(bool, String)> = Vec::new();
    let mut extra = Vec::new();
    let is_dir = inode.kind == Kind::Dir;
    let linked = ino == Ino::ROOT || fact.links > 0;
    let nlink = if is_dir && linked { 2 + fact.subdirs } else { fact.links };
    if inode.nlink != nlink {
        wrong.push((false, format!("inode {ino} says {} links, has {nlink}", inode.nlink)));
        inode.nlink = nlink;
    }
    if is_dir {
        if inode.size != fact.entries {
            wrong.push((false, format!("directory {ino} says {} entries, has {}", inode.size, fact.entries)));
            inode.size = fact.entries;
        }
        let sum = sums.get(&ino).copied().unwrap_or_default();
        if inode.rstat() != sum {
            wrong.push((false, format!("directory {ino} has sums {:?}, not {sum:?}", inode.rstat())));
            inode.extra_mut().rstat = sum;
        }
    }
    if inode.has_xattrs != fact.xattrs {
        wrong
            .push((inode.has_xattrs, format!("inode {ino} says has_xattrs {}, has {}", inode.has_xattrs, fact.xattrs)));
        inode.has_xattrs = fact.xattrs;
    }
    let wants_inline = inode.kind == Kind::File && inode.inline && inode.size > 0;
    match fact.inline {
        None if wants_inline => {
            wrong.push((true, format!("file {ino} lost its {} bytes of inline data; it is empty now", inode.size)));
            inode.size = 0;
        }
        Some(_) if !wants_inline => {
            wrong.push((false, format!("inode {ino} has inline data that is not its own")));
            extra.push(Event::InlineGone(ino));
        }
        Some(len) if len > inode.size => {
            wrong.push((false, format!("file {ino} says {} bytes, has {len} inline", inode.size)));
            inode.size = len;
        }
        _ => {}
    }
    if wrong.is_empty() && !forced {
        return;
    }
    for (loss, text) in wrong {
        scan.report.add_of(ino, loss, text, []);
    }
    scan.report.repairs.extend(extra);
    if let Some(parts) = &scan.facts[at].parts {
        inode.begin_spread();
        inode.take_part(parts);
    }
    scan.report.repairs.push(Event::Inode(Box::new(inode)));
}
