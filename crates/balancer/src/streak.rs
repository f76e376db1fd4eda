//! When to give a policy up: after so many faults in a row. Counting only; returning to the last good version is the host's.

/// Counts faults in a row of one policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Streak {
    faults: u32,
    most: u32,
}

impl Streak {
    /// Gives up after this many in a row, at least 1.
    pub fn new(most: u32) -> Streak {
        Streak { faults: 0, most: most.max(1) }
    }

    /// One decision was made, with a fault or without. True: so many in a row that it is time to return to the last good
    /// version; said once, and again only after a decision without a fault.
    pub fn note(&mut self, fault: bool) -> bool {
        if !fault {
            self.faults = 0;
            return false;
        }
        self.faults = self.faults.saturating_add(1);
        self.faults == self.most
    }

    /// Number of faults in a row.
    pub fn faults(&self) -> u32 {
        self.faults
    }
}

impl Default for Streak {
    /// Five in a row.
    fn default() -> Streak {
        Streak::new(5)
    }
}

#[cfg(test)]
mod tests {
    use super::Streak;

    #[test]
    fn only_faults_in_a_row_count_and_it_is_said_once() {
        let mut streak = Streak::default();
        let said: Vec<bool> =
            [true, true, true, true, false, true, true, true, true, true, true].map(|f| streak.note(f)).to_vec();
        assert_eq!(said.iter().filter(|said| **said).count(), 1);
        assert!(said[9] && streak.faults() == 6);
        assert!(!streak.note(false) && streak.faults() == 0);
    }
}
