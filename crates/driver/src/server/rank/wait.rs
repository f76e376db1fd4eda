//! Waiting for what comes next: first by looking, then asleep.
//!
//! A thread that sleeps must be woken, and where cores are virtual, waking an idle one takes longer than the request that
//! it is woken for. So after a round with requests or answers the rank looks for the next one for a moment (`ServerConfig::look`)
//! and gives its core away at each look to whoever needs it. It does not look where others want the cores (`cores.rs`). It does not look
//! while somebody waits for a disk, unless all that is waited for is one small write that will be over soon.

use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use super::{EVENTS, End, Rank, TICK, TOKEN_WAKER};

type Events = [epoll::Event; EVENTS];

/// Between looks whether this rank may answer.
const PATIENCE: Duration = Duration::from_millis(5);

const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Visits to the guest in succession that bring requests, before sockets have their turn.
const VISITS: u32 = 8;
/// A guest that had nothing so often is asked only when epoll tells of it.
const IN_VAIN: u32 = 256;
/// Requests that it takes in one round, where it often has several.
const VISIT_MAX: u32 = 32;
/// Each so many rounds it is tried whether it has several.
const TRY_EVERY: u32 = 16;

/// Visits to the guest, and the requests that they brought. Asking it once more than it has requests costs as much as a request's answer;
/// so it is asked once in a round, unless it had several.
#[derive(Default)]
pub(super) struct Visits {
    round: u32,
    has_several: bool,
    were_any: bool,
    /// In succession.
    running: u32,
    in_vain: u32,
}

impl Visits {
    /// Number of requests that it may take now.
    pub(super) fn most(&mut self) -> u32 {
        self.round = self.round.wrapping_add(1);
        if self.has_several || self.round.is_multiple_of(TRY_EVERY) { VISIT_MAX } else { 1 }
    }

    /// Notes the number of requests that it had.
    pub(super) fn took(&mut self, taken: u32) {
        self.were_any |= taken > 0;
        (self.running, self.in_vain) =
            if taken > 0 { (self.running + 1, 0) } else { (0, self.in_vain.saturating_add(1)) };
        if self.has_several || self.round.is_multiple_of(TRY_EVERY) {
            self.has_several = taken > 1;
        }
    }

    /// True if the guest is to be asked before epoll is: that saves a system call, if it has a request.
    fn may_go_first(&self) -> bool {
        self.running < VISITS && self.in_vain < IN_VAIN
    }

    fn others_had_their_turn(&mut self) {
        self.running = 0;
    }

    /// True if it had any since the last call.
    pub(super) fn were_any(&mut self) -> bool {
        std::mem::take(&mut self.were_any)
    }
}

impl Rank {
    /// Waits for sockets, the guest, other threads or the next tick. When it began to.
    pub(super) fn wait(&mut self, events: &mut Vec<(u64, epoll::EventFlags)>) -> Instant {
        let mut buffer =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; EVENTS];
        let begun = Instant::now();
        let mut timeout = self.next_tick.saturating_duration_since(begun).min(TICK);
        if !self.holds {
            // What can be written must wait, and would end each wait at once.
            std::thread::sleep(PATIENCE);
        }
        if self.again {
            timeout = Duration::ZERO;
        }
        let mut came = None;
        if !timeout.is_zero() {
            came = self.look(&mut buffer);
        }
        let mut woken = false;
        let count = came.unwrap_or_else(|| {
            if !self.inbox.may_sleep() {
                timeout = Duration::ZERO;
            }
            let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.as_nanos() as i64 };
            self.poll(&mut buffer, &timeout)
        });
        for event in &buffer[..count] {
            match event.data.u64() {
                TOKEN_WAKER => woken = true,
                token => events.push((token, event.flags)),
            }
        }
        self.inbox.awake(woken);
        begun
    }

    /// Looks for what comes, until it is time to sleep. `None`: nothing came. Nobody wakes it meanwhile, so it looks into the inbox, too.
    fn look(&mut self, buffer: &mut Events) -> Option<usize> {
        let until = self.look_until()?;
        if self.core.rests(self.now) {
            return None;
        }
        while Instant::now() < until {
            if self.inbox.has_some() {
                // Messages that came over sockets before are handled before.
                return Some(self.poll(buffer, &NO_TIME));
            }
            if self.visits.may_go_first() && self.guest_turn() {
                return Some(0);
            }
            self.visits.others_had_their_turn();
            let count = self.poll(buffer, &NO_TIME);
            if count > 0 || self.end.is_some() {
                return Some(count);
            }
            std::thread::yield_now();
        }
        None
    }

    /// Until when to look: for requests, or for the end of what the journal writes.
    fn look_until(&self) -> Option<Instant> {
        if self.awaited.is_none() || !self.mds.waits_for_journal() {
            return Some(self.look_until);
        }
        if self.limits.look.is_zero() {
            return None;
        }
        self.journal.as_ref()?.lands_by()
    }

    fn poll(&mut self, buffer: &mut Events, timeout: &Timespec) -> usize {
        match epoll::wait(&self.epoll, &mut buffer[..], Some(timeout)) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => {
                self.end = Some(End::Fatal(format!("waiting for connections failed: {error}")));
                0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_asked_once_a_round_unless_it_had_several_requests() {
        let mut visits = Visits::default();
        let mut most = Vec::new();
        for round in 0..4 * TRY_EVERY {
            let may = visits.most();
            // From the second quarter on it has many.
            visits.took(if round < TRY_EVERY { 1 } else { may });
            most.push(may);
        }
        let first = &most[..TRY_EVERY as usize - 1];
        assert!(first.iter().all(|may| *may == 1), "{first:?}");
        assert!(most[2 * TRY_EVERY as usize..].iter().all(|may| *may == VISIT_MAX), "{most:?}");
    }

    #[test]
    fn sockets_have_their_turn_between_the_requests_of_a_guest() {
        let mut visits = Visits::default();
        for _ in 0..VISITS {
            assert!(visits.may_go_first());
            visits.most();
            visits.took(1);
        }
        assert!(!visits.may_go_first() && visits.were_any() && !visits.were_any());
        visits.others_had_their_turn();
        assert!(visits.may_go_first());
        for _ in 0..IN_VAIN {
            visits.took(0);
        }
        assert!(!visits.may_go_first(), "it has nothing");
        visits.took(1);
        assert!(visits.may_go_first());
    }
}
