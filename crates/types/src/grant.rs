//! Inode numbers that a session was given before it uses them: which of them are used, as data that can be kept.

use crate::Ino;

/// Numbers in a row that were given to a session.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct InoGrant {
    /// The first.
    pub first: Ino,
    /// Number of inode numbers in the grant.
    pub count: u32,
    /// Of those, the ones that have made an inode: from, and up to but without; ascending, none touching another.
    pub used: Vec<(u32, u32)>,
}

/// State of a number for a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Granted {
    /// It may make an inode.
    Free,
    /// It has made one.
    Used,
    /// It was not given to it (or all of those given with it are used).
    No,
}

/// The numbers of a session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Hash)]
pub struct InoGrants(pub Vec<InoGrant>);

impl InoGrants {
    /// True if there are no grants.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of unused numbers.
    pub fn left(&self) -> u64 {
        let used = |grant: &InoGrant| grant.used.iter().map(|(from, to)| u64::from(to - from)).sum::<u64>();
        self.0.iter().map(|grant| u64::from(grant.count) - used(grant)).sum()
    }

    /// Adds numbers that nobody has.
    pub fn add(&mut self, first: Ino, count: u32) {
        self.0.push(InoGrant { first, count, used: Vec::new() });
    }

    /// The state of a number.
    pub fn state(&self, ino: Ino) -> Granted {
        let Some((grant, at)) = self.0.iter().find_map(|grant| Some((grant, grant.offset(ino)?))) else {
            return Granted::No;
        };
        let next = grant.used.partition_point(|(from, _)| *from <= at);
        match next.checked_sub(1).map(|i| grant.used[i]) {
            Some((_, to)) if at < to => Granted::Used,
            _ => Granted::Free,
        }
    }

    /// A number has made an inode. Whether it was a free one; nothing happens if not.
    pub fn use_up(&mut self, ino: Ino) -> bool {
        if self.state(ino) != Granted::Free {
            return false;
        }
        let Some(place) = self.0.iter().position(|grant| grant.offset(ino).is_some()) else { return false };
        let grant = &mut self.0[place];
        let at = grant.offset(ino).unwrap_or_default();
        let next = grant.used.partition_point(|(from, _)| *from <= at);
        let joins_before = next > 0 && grant.used[next - 1].1 == at;
        let joins_after = grant.used.get(next).is_some_and(|(from, _)| *from == at + 1);
        match (joins_before, joins_after) {
            (true, true) => grant.used[next - 1].1 = grant.used.remove(next).1,
            (true, false) => grant.used[next - 1].1 = at + 1,
            (false, true) => grant.used[next].0 = at,
            (false, false) => grant.used.insert(next, (at, at + 1)),
        }
        if grant.used == [(0, grant.count)] {
            self.0.remove(place);
        }
        true
    }
}

impl InoGrant {
    /// True if the numbers make sense.
    pub fn is_valid(&self) -> bool {
        let mut free_from = 0;
        let in_order = self.used.iter().all(|(from, to)| {
            let fits = (*from > free_from || *from == 0 && free_from == 0) && from < to && *to <= self.count;
            free_from = *to;
            fits
        });
        in_order && self.count > 0 && self.first.0.checked_add(u64::from(self.count)).is_some()
    }

    fn offset(&self, ino: Ino) -> Option<u32> {
        let at = ino.0.checked_sub(self.first.0)?;
        u32::try_from(at).ok().filter(|at| *at < self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_used_once_in_whatever_order() {
        let mut grants = InoGrants::default();
        grants.add(Ino(1000), 100);
        grants.add(Ino(5000), 3);
        // 37 has no divisor in common with 100: all of them, in no order.
        for n in 0..100u64 {
            let ino = Ino(1000 + n * 37 % 100);
            assert_eq!(grants.state(ino), Granted::Free);
            assert!(grants.use_up(ino));
            let gone = if n == 99 { Granted::No } else { Granted::Used };
            assert_eq!((grants.state(ino), grants.use_up(ino)), (gone, false));
            assert!(grants.0.iter().all(InoGrant::is_valid), "{grants:?}");
            assert_eq!(grants.left(), 102 - n);
        }
        assert_eq!((grants.0.len(), grants.state(Ino(4999)), grants.state(Ino(5003))), (1, Granted::No, Granted::No));
    }

    #[test]
    fn used_numbers_that_cannot_be_are_recognised() {
        let grant = |used: &[(u32, u32)]| InoGrant { first: Ino(7), count: 10, used: used.to_vec() };
        assert!(grant(&[]).is_valid() && grant(&[(0, 1), (3, 10)]).is_valid());
        for bad in [&[(0, 0)][..], &[(0, 11)], &[(3, 5), (5, 6)], &[(3, 5), (1, 2)], &[(0, 1), (0, 2)]] {
            assert!(!grant(bad).is_valid(), "{bad:?}");
        }
        assert!(!InoGrant { first: Ino(u64::MAX), count: 1, used: Vec::new() }.is_valid());
    }
}
