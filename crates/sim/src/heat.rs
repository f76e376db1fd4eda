//! The check that heat is conserved: a move of fragments takes heat along and makes none. Not a check of what counts as heat; the unit
//! tests of `loligo_mds::heat` are that.

use loligo_mds::heat::LoadVec;

use crate::world::World;

/// Half-life of the counters of all ranks in the simulator, milliseconds.
const HALF_LIFE_MS: u64 = 5000;

/// Heat does not decay on its way from rank to rank. It is on the way for so short a time that this covers it.
const ON_THE_WAY: f64 = 1.01;

impl World {
    /// A life of a rank ends. Heat that it counted may be at other ranks by now.
    pub fn end_of_heat(&mut self, rank: usize) {
        let now = self.now_ms();
        if let Some(server) = &self.seats[rank].server {
            let counted = server.mds.heat_account(now).counted;
            self.ended_heat.add(&counted, now, HALF_LIFE_MS);
        }
    }

    /// All ranks together hold at most what all of them counted.
    pub fn look_at_heat(&mut self) {
        let now = self.now_ms();
        let mut counted = self.ended_heat.get(now, HALF_LIFE_MS);
        let mut held = LoadVec::default();
        for server in self.seats.iter().filter_map(|seat| seat.server.as_ref()) {
            let account = server.mds.heat_account(now);
            counted.add(&account.counted);
            held.add(&account.held);
        }
        let (most, is) = (counted.metaload(), held.metaload());
        if is > most * ON_THE_WAY {
            self.wrong(format!(
                "ranks hold more heat than they counted: {is:.3} of {most:.3}: {held:?}, counted {counted:?}"
            ));
        }
    }
}
