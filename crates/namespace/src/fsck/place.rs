//! Files live with one of their names, or with none: finds those that say otherwise than their entries, and mends either.

use std::collections::BTreeSet;

use loligo_types::{Event, Ino, Kind, Place, Rank};

use super::scan::{Scan, Stray};

/// Mends the places of all that is no directory, and the entries that say something else.
pub fn mend_files(scan: &mut Scan, changed: &mut BTreeSet<Ino>) {
    // An entry at the very place counts before one elsewhere.
    let (there, elsewhere): (Vec<Stray>, Vec<Stray>) =
        std::mem::take(&mut scan.strays).into_iter().partition(|stray| stray.remote);
    there.into_iter().for_each(|stray| mend_remote(scan, stray));
    elsewhere.into_iter().for_each(|stray| mend_embedded(scan, stray, changed));
    mend_floating(scan, changed);
}

/// A remote entry just where its file says that it lives: if no other one has the file, this one does.
fn mend_remote(scan: &mut Scan, stray: Stray) {
    let Some(fact) = scan.fact(stray.ino) else { return };
    if !fact.embedded {
        fact.embedded = true;
        let text = format!("entry {} in {} does not say that inode {} lives with it", stray.name, stray.dir, stray.ino);
        let entry = entry_of(&stray, fact.inode.kind, false);
        scan.report.add_of(stray.dir, false, text, [entry]);
    }
}

/// An entry that says it has its file, which lives elsewhere: it is a further name, or else the file lives here.
fn mend_embedded(scan: &mut Scan, stray: Stray, changed: &mut BTreeSet<Ino>) {
    let at = scan.at(&stray.name);
    let Some(fact) = scan.fact(stray.ino) else { return };
    let Stray { name, dir, ino, .. } = &stray;
    if fact.embedded {
        let text = format!("entry {name} in {dir} says that inode {ino} lives with it, which has another primary name");
        let entry = entry_of(&stray, fact.inode.kind, true);
        return scan.report.add_of(*dir, false, text, [entry]);
    }
    fact.embedded = true;
    (fact.inode.parent, fact.inode.place) = (*dir, at);
    changed.insert(*ino);
    scan.report.add_of(*ino, false, format!("inode {ino} does not say that it lives with {name} in {dir}"), []);
}

/// Files that say they live with a name that does not have them live by themselves.
fn mend_floating(scan: &mut Scan, changed: &mut BTreeSet<Ino>) {
    let Scan { facts, report, .. } = scan;
    for fact in facts.iter_mut() {
        let inode = &mut fact.inode;
        if inode.kind == Kind::Dir || fact.embedded || inode.place.rank().is_some() {
            continue;
        }
        // The rank that is to have it takes over its end, too.
        let orphan = fact.orphan.then_some(Event::Orphan(inode.ino));
        report.add(false, format!("inode {} says that it lives with a name that it does not have", inode.ino), orphan);
        inode.place = Place::floating(Rank::ZERO);
        changed.insert(inode.ino);
    }
}

fn entry_of(stray: &Stray, kind: Kind, remote: bool) -> Event {
    Event::Entry { dir: stray.dir, name: stray.name.clone(), ino: stray.ino, kind, remote }
}
