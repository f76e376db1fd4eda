//! Reads of records for whoever needs them: what is read now, what waits for a read under way, and what another rank is asked for. The
//! reads themselves are `load.rs`.

use loligo_namespace::Need;

use crate::cluster::Atlas;
use crate::core::Core;
use crate::io::Output;
use crate::load::Waiter;

impl Atlas {
    /// Reads these for somebody; how many reads that is to wait for.
    pub(crate) fn load(&mut self, core: &mut Core, mut needs: Vec<Need>, waiter: Waiter) -> usize {
        let later = self.read_later(&mut needs, waiter);
        later + self.read_now(core, needs, waiter)
    }

    /// The same, also of what was to be read later.
    pub(crate) fn read_now(&self, core: &mut Core, needs: Vec<Need>, waiter: Waiter) -> usize {
        let mut count = 0;
        let (joined, mut fresh) = core.loads.part(needs);
        for number in joined {
            if core.loads.join(number, waiter) {
                count += 1;
                self.read_behind(core, number);
            }
        }
        for need in fresh.extract_if(.., |need| self.births.is_asked(need)) {
            core.loads.await_birth(need, waiter);
            count += 1;
        }
        if !fresh.is_empty() {
            let ticket = core.loads.begin(&fresh, waiter);
            core.out.push_back(Output::Load { ticket, needs: fresh });
            count += 1;
        }
        count
    }
}
