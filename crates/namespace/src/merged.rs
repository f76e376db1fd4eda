//! Merge of an inode that was there before: the changes of its owner since it was fetched, on top of its present state. Only sums
//! and times can have changed meanwhile: nobody else may change what is decoupled, and a rank counts lazily.

use loligo_types::{Extra, Inode, Kind, RStat};

/// `base`: as the owner fetched it; `made`: as the owner has it; `now`: as the rank has it.
pub fn merged(now: &Inode, base: &Inode, made: &Inode) -> Inode {
    let mut merged = made.clone();
    keep_rare(&mut merged, now);
    let stays = made.parent == base.parent;
    if stays {
        (merged.parent, merged.accounted) = (now.parent, sum(now.accounted, less(made.accounted, base.accounted)));
        if made.place == base.place {
            merged.place = now.place;
        }
    }
    merged.change = now.change.wrapping_add(made.change.wrapping_sub(base.change));
    (merged.atime, merged.mtime) = (made.atime.max(now.atime), made.mtime.max(now.mtime));
    merged.ctime = made.ctime.max(now.ctime);
    // Of the root others may have changed these meanwhile: it is an entry of a directory that is not decoupled.
    if made.mode == base.mode {
        merged.mode = now.mode;
    }
    if (made.uid, made.gid) == (base.uid, base.gid) {
        (merged.uid, merged.gid) = (now.uid, now.gid);
    }
    // A policy may have been set at the rank meanwhile, as an xattr.
    if made.has_xattrs == base.has_xattrs {
        merged.has_xattrs = now.has_xattrs;
    }
    if made.kind == Kind::Dir {
        merged.size = now.size.wrapping_add(made.size.wrapping_sub(base.size));
        merged.nlink = now.nlink.wrapping_add(made.nlink.wrapping_sub(base.nlink));
        if made.frag_bits == base.frag_bits {
            merged.frag_bits = now.frag_bits;
        }
        if made.acl() == base.acl() && made.default_acl() == base.default_acl() {
            merged.extra.clone_from(&now.extra);
        }
        let below = sum(now.rstat(), less(made.rstat(), base.rstat()));
        if below != merged.rstat() {
            merged.extra_mut().rstat = below;
        }
    }
    merged
}

/// Keeps the fields that nobody changes in a merge as they are now: those that say what the inode is, and those that come with policies
/// and with what only a rank does.
fn keep_rare(merged: &mut Inode, now: &Inode) {
    (merged.kind, merged.btime) = (now.kind, now.btime);
    let none = Extra::default();
    let now = now.extra.as_deref().unwrap_or(&none);
    let mut kept = merged.extra.as_deref().unwrap_or(&none).clone();
    kept.symlink.clone_from(&now.symlink);
    (kept.rdev, kept.expected_entries, kept.spread) = (now.rdev, now.expected_entries, now.spread);
    (kept.placement, kept.moved, kept.lookup_lease) = (now.placement, now.moved, now.lookup_lease);
    if kept != *merged.extra.as_deref().unwrap_or(&none) {
        *merged.extra_mut() = kept;
    }
}

/// Takes from the sums of the directory that counted an inode what it has counted of it since its owner fetched it, if the owner has
/// taken it away from there.
pub fn uncount(counter: &mut Inode, now: &Inode, base: &Inode) {
    let late = less(now.accounted, base.accounted);
    if late != RStat::default() {
        counter.extra_mut().rstat = less(counter.rstat(), late);
    }
}

fn sum(a: RStat, b: RStat) -> RStat {
    RStat { entries: a.entries.wrapping_add(b.entries), bytes: a.bytes.wrapping_add(b.bytes) }
}

fn less(a: RStat, b: RStat) -> RStat {
    RStat { entries: a.entries.wrapping_sub(b.entries), bytes: a.bytes.wrapping_sub(b.bytes) }
}

#[cfg(test)]
mod tests {
    use loligo_types::{Acl, Ino, Placement, Spread, Time};

    use super::*;

    #[test]
    fn what_was_counted_and_changed_meanwhile_stays_and_what_the_owner_did_is_added() {
        let base = Inode::new(Ino(300), Kind::Dir, 0o755, 1, 1, Ino(1), Time(5));
        let mut made = base.clone();
        (made.size, made.nlink, made.change, made.mtime) = (7, 4, 9, Time(50));
        made.extra_mut().rstat = RStat { entries: 7, bytes: 70 };
        let mut now = base.clone();
        (now.mode, now.change, now.ctime, now.accounted) = (0o700, 2, Time(60), RStat { entries: 1, bytes: 0 });
        let all = merged(&now, &base, &made);
        assert_eq!((all.mode, all.size, all.nlink, all.change), (0o700, 7, 4, 10));
        assert_eq!((all.mtime, all.ctime, all.accounted), (Time(50), Time(60), now.accounted));
        assert_eq!(all.rstat(), RStat { entries: 7, bytes: 70 });
        made.mode = 0o711;
        assert_eq!(merged(&now, &base, &made).mode, 0o711);
    }

    #[test]
    fn what_an_inode_is_and_what_comes_with_policies_is_not_taken_from_a_merge() {
        let base = Inode::new(Ino(300), Kind::Dir, 0o755, 1, 1, Ino(1), Time(5));
        let mut now = base.clone();
        now.extra_mut().placement = Placement::Giga;
        let mut made = base.clone();
        (made.kind, made.btime) = (Kind::File, Time(7));
        let extra = made.extra_mut();
        (extra.default_acl, extra.placement, extra.moved) = (Some(Acl(Vec::new())), Placement::Table, true);
        (extra.spread, extra.expected_entries, extra.rdev) = (Spread::Home, 9, 7);
        let all = merged(&now, &base, &made);
        assert_eq!((all.kind, all.btime, all.default_acl()), (Kind::Dir, Time(5), Some(&Acl(Vec::new()))));
        assert_eq!((all.placement(), all.has_moved(), all.is_spread()), (Placement::Giga, false, false));
        assert_eq!((all.expected_entries(), all.extra.map(|extra| extra.rdev)), (0, Some(0)));
    }

    #[test]
    fn a_file_that_was_counted_after_it_was_fetched_is_taken_out_of_the_sums_whole() {
        let base = Inode::new(Ino(300), Kind::File, 0o644, 1, 1, Ino(9), Time(5));
        let mut now = base.clone();
        now.accounted = RStat { entries: 1, bytes: 100 };
        let mut dir = Inode::new(Ino(9), Kind::Dir, 0o755, 1, 1, Ino(1), Time(5));
        // The owner took out what it knew of: nothing.
        dir.extra_mut().rstat = RStat { entries: 1, bytes: 100 };
        uncount(&mut dir, &now, &base);
        assert_eq!(dir.rstat(), RStat::default());
    }
}
