//! Waiting for what comes next: first by looking, then asleep.
//!
//! A thread that sleeps must be woken, and where cores are virtual, waking an idle one takes longer than the request that
//! it is woken for. So after a round with requests or answers the rank looks for the next one for a moment (`ServerConfig::look`)
//! and gives its core away at each look to whoever needs it. It does not look while it waits for a disk, unless all that it waits for is
//! one small write that will be over soon.

use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use super::{EVENTS, End, Rank, TICK, TOKEN_WAKER};

type Events = [epoll::Event; EVENTS];

/// Between looks whether this rank may answer.
const PATIENCE: Duration = Duration::from_millis(5);

const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

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
        if self.again || !self.inbox.may_sleep() {
            timeout = Duration::ZERO;
        }
        let mut count = 0;
        if !timeout.is_zero() {
            count = self.look(&mut buffer);
        }
        if count == 0 {
            let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.as_nanos() as i64 };
            count = self.poll(&mut buffer, &timeout);
        }
        let mut woken = false;
        for event in &buffer[..count] {
            match event.data.u64() {
                TOKEN_WAKER => woken = true,
                token => events.push((token, event.flags)),
            }
        }
        self.inbox.awake(woken);
        begun
    }

    /// Looks for what comes, until it is time to sleep.
    fn look(&mut self, buffer: &mut Events) -> usize {
        let Some(until) = self.look_until() else { return 0 };
        while Instant::now() < until {
            let count = self.poll(buffer, &NO_TIME);
            if count > 0 || self.end.is_some() {
                return count;
            }
            std::thread::yield_now();
        }
        0
    }

    /// Until when to look: for requests, or for the end of what the journal writes.
    fn look_until(&self) -> Option<Instant> {
        if self.awaited.is_none() {
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
