//! For how long clients may go by what paths need to know of a directory, as its policy says. Not the lease itself: who gave one, and until when, the
//! metadata server knows.

/// The longest that may be given, milliseconds. What replicas of directories at other ranks count for ([`crate::limits::REPLICA_MS`]) is longer.
pub const LOOKUP_LEASE_MS_MAX: u16 = 1000;

/// Time that a lookup lease of a directory lasts. The times of the last two are those of `IndexFS` (digest §3.9, of its published
/// code).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum LeaseTime {
    /// None is given.
    #[default]
    None,
    /// So many milliseconds, 1 to [`LOOKUP_LEASE_MS_MAX`].
    Ms(u16),
    /// The longer the nearer the directory is to the root.
    Depth,
    /// The longer the less often it changes, compared with how often it is asked for.
    Rate,
}

/// Lookup leases in the policy of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct LookupLease {
    /// Time that they last.
    pub time: LeaseTime,
    /// Directories that are made in it have no such policy. Else they have the same.
    pub alone: bool,
}

/// Names in codes and texts of times that are no number.
const DEPTH: u16 = LOOKUP_LEASE_MS_MAX + 1;
const RATE: u16 = LOOKUP_LEASE_MS_MAX + 2;
/// Mark in a code: it is not passed on.
const ALONE: u16 = 1 << 15;

/// Word after the time in a policy that is not passed on.
const ALONE_WORD: &str = "alone";

impl LookupLease {
    /// The policy that says nothing.
    pub const NONE: LookupLease = LookupLease { time: LeaseTime::None, alone: false };

    /// True if none is given.
    pub fn is_none(self) -> bool {
        self.time == LeaseTime::None
    }

    /// The policy of directories that are made in one with this policy.
    #[must_use]
    pub fn passed_on(self) -> LookupLease {
        if self.alone { LookupLease::NONE } else { self }
    }

    /// As the journal and the table have it; 0: there is none.
    pub fn code(self) -> u16 {
        let time = match self.time {
            LeaseTime::None => return 0,
            LeaseTime::Ms(ms) => ms,
            LeaseTime::Depth => DEPTH,
            LeaseTime::Rate => RATE,
        };
        time | if self.alone { ALONE } else { 0 }
    }

    /// By its code; `None`: there is no such one, or it is 0.
    pub fn from_code(code: u16) -> Option<LookupLease> {
        let time = match code & !ALONE {
            ms @ 1..=LOOKUP_LEASE_MS_MAX => LeaseTime::Ms(ms),
            DEPTH => LeaseTime::Depth,
            RATE => LeaseTime::Rate,
            _ => return None,
        };
        Some(LookupLease { time, alone: code & ALONE != 0 })
    }

    /// As a policy says it: `250ms`, `1s`, `depth` or `rate`, and `alone` behind it. `None`: it makes no sense, or is longer than may be given.
    pub fn named(text: &[u8]) -> Option<LookupLease> {
        let mut words = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
        let time = match words.next()? {
            "depth" => LeaseTime::Depth,
            "rate" => LeaseTime::Rate,
            time => {
                let (number, unit) = match time.strip_suffix("ms") {
                    Some(number) => (number, 1),
                    None => (time.strip_suffix('s')?, 1000),
                };
                let ms = number.parse::<u16>().ok()?.checked_mul(unit)?;
                LeaseTime::Ms(Some(ms).filter(|ms| (1..=LOOKUP_LEASE_MS_MAX).contains(ms))?)
            }
        };
        let alone = match words.next() {
            None => false,
            Some(ALONE_WORD) => true,
            Some(_) => return None,
        };
        words.next().is_none().then_some(LookupLease { time, alone })
    }

    /// The same text again; of none, `off`.
    pub fn text(self) -> String {
        let time = match self.time {
            LeaseTime::None => return "off".to_owned(),
            LeaseTime::Ms(ms) => format!("{ms}ms"),
            LeaseTime::Depth => "depth".to_owned(),
            LeaseTime::Rate => "rate".to_owned(),
        };
        if self.alone { format!("{time} {ALONE_WORD}") } else { time }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_texts_lead_back_to_what_they_are_of() {
        for time in [LeaseTime::Ms(1), LeaseTime::Ms(250), LeaseTime::Ms(1000), LeaseTime::Depth, LeaseTime::Rate] {
            for alone in [false, true] {
                let lease = LookupLease { time, alone };
                assert_eq!(LookupLease::from_code(lease.code()), Some(lease));
                assert_eq!(LookupLease::named(lease.text().as_bytes()), Some(lease));
            }
        }
        assert_eq!(LookupLease::named(b" 1s  alone\n").map(LookupLease::code), Some(1000 | ALONE));
        assert_eq!(LookupLease::NONE.code(), 0);
    }

    #[test]
    fn what_makes_no_sense_is_none() {
        for text in ["", "0ms", "1001ms", "2s", "66s", "-1ms", "1", "ms", "depth 5", "rate alone alone", "off", "1 s"] {
            assert_eq!(LookupLease::named(text.as_bytes()), None, "{text:?}");
        }
        for code in [0, ALONE, RATE + 1, u16::MAX] {
            assert_eq!(LookupLease::from_code(code), None, "{code}");
        }
    }
}
