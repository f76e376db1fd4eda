//! What a merge makes of an inode that was there before: what its owner has changed of it since it was fetched, on top of what it is
//! now. Only sums and times can have changed meanwhile: nobody else may change what is decoupled, and a rank counts lazily.

use loligo_types::{Inode, Kind, RStat};

/// `base`: as the owner fetched it; `made`: as the owner has it; `now`: as the rank has it.
pub fn merged(now: &Inode, base: &Inode, made: &Inode) -> Inode {
    let mut merged = made.clone();
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
    use loligo_types::{Ino, Time};

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
