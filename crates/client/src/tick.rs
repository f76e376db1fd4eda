//! What happens because time went on, and stopping.

use loligo_types::Op;
use loligo_types::msg::ToServer;

use crate::Output;
use crate::machine::Client;

impl Client {
    pub(crate) fn on_tick(&mut self) {
        self.keep_alive();
        if self.is_up() {
            self.close_idle();
            self.send_closes();
            self.release_forgotten();
            self.flush_old();
            self.repeat_busy();
        }
    }

    fn keep_alive(&mut self) {
        let (now, session) = (self.now.ms, &self.session);
        let silence = now.saturating_sub(session.last_heard);
        if self.is_up() {
            if silence > session.session_ms {
                // It answers nothing, not even a ping.
                self.disconnected();
            } else if now.saturating_sub(session.last_sent.min(session.last_heard)) >= session.session_ms / 3
                && now.saturating_sub(session.last_sent) >= session.session_ms / 12
            {
                self.send(ToServer::Ping);
            }
        }
        let session = &self.session;
        // A little before the server may think so.
        if !session.suspended && session.id.is_some() && silence > session.session_ms * 3 / 4 && !self.is_up() {
            self.suspend();
        }
        let down = self.session.down_since.map_or(0, |since| now.saturating_sub(since));
        if down >= self.config.give_up_ms && !self.session.gave_up {
            self.give_up_calls();
        }
    }

    /// Stops: no new calls, everything back to the server.
    pub(crate) fn stop(&mut self) {
        if self.stopping {
            return;
        }
        self.stopping = true;
        for ino in self.dirty.clone() {
            self.start_run(ino);
        }
    }

    pub(crate) fn check_stopped(&mut self) {
        if self.stopped {
            return;
        }
        // Without a session there is nothing to give back and nobody to give it to.
        let nobody = self.session.id.is_none() || self.session.refused || self.session.gave_up;
        if !self.dirty.is_empty() && !nobody {
            return;
        }
        if self.is_up() {
            // Waits for locks may never end; everything else is answered soon.
            let waits = |op: &Op| matches!(op, Op::SetLock { wait: true, .. });
            if !self.session.data.is_empty() || !self.session.pending.values().all(|p| waits(&p.request.op)) {
                return;
            }
            self.send(ToServer::Goodbye);
        } else if !nobody && self.session.down_since.is_none() {
            return;
        }
        self.stopped = true;
        self.give_up_calls();
        self.out.push_back(Output::Stopped);
    }
}
