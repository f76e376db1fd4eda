//! The object server of a rank, and the threads that do its effects.

use loligo_mds::{Input, Now};
use loligo_osd::{Effect, EffectId};
use loligo_types::msg::ToClient;
use loligo_types::{DataAnswer, Ino};

use super::{Act, Asked, Server, Work};
use crate::options::Canary;

impl Server {
    pub(super) fn discard(&mut self, ino: Ino, from: u64, object_size: u32) {
        let tag = self.tag(Asked::Discard { from, object_size });
        self.osd_feed(loligo_osd::Input::Discard { tag, ino, object_size, from });
    }

    pub(super) fn tag(&mut self, asked: Asked) -> u64 {
        self.next_tag += 1;
        self.asked.insert(self.next_tag, asked);
        self.next_tag
    }

    pub(super) fn osd_feed(&mut self, input: loligo_osd::Input) {
        self.osd.handle(input);
    }

    /// Carries out what the object server puts out, and what follows from it.
    pub(super) fn osd_outputs(&mut self, now: Now) {
        while let Some(output) = self.osd.next_output() {
            match output {
                loligo_osd::Output::Run { id, effect } => {
                    self.effects.insert(id, effect);
                    self.out.push_back(Act::Begin(Work::Effect { id }));
                }
                loligo_osd::Output::Reply { tag, result, .. } => {
                    if let Some(Asked::Client { conn, id }) = self.asked.remove(&tag) {
                        self.out.push_back(Act::Send { conn, msg: ToClient::Data { id, result } });
                    }
                }
                loligo_osd::Output::Discarded { tag, ino, result } => match (self.asked.remove(&tag), result) {
                    (Some(Asked::Discard { from, object_size }), Err(_)) => self.retry.push((ino, from, object_size)),
                    _ => self.mds_input(now, Input::Discarded { ino }),
                },
                loligo_osd::Output::Spilled { tag, ino, result } => {
                    self.asked.remove(&tag);
                    self.mds_input(now, Input::Spilled { ino, ok: result.is_ok() });
                }
                loligo_osd::Output::Restored { tag, ino, result } => match (self.asked.remove(&tag), result) {
                    (Some(Asked::Restore { copy }), Err(_)) => {
                        let tag = self.tag(Asked::Restore { copy });
                        self.osd_feed(loligo_osd::Input::Restore { tag, ino, copy });
                    }
                    _ => self.mds_input(now, Input::Restored { ino }),
                },
                loligo_osd::Output::Kept { tag, to, result, .. } => {
                    self.asked.remove(&tag);
                    self.mds_input(now, Input::Kept { to, result });
                }
                loligo_osd::Output::Fork { tag, ino, result } => match (self.asked.remove(&tag), result) {
                    (Some(Asked::Look { copy }), Err(_)) => {
                        let tag = self.tag(Asked::Look { copy });
                        self.osd_feed(loligo_osd::Input::LookAtFork { tag, ino, copy });
                    }
                    (_, Ok(size)) => self.mds_input(now, Input::Fork { ino, size }),
                    (_, Err(_)) => {}
                },
                loligo_osd::Output::SyncedAll { tag, result } => {
                    if let Some(Asked::SyncAll { ticket }) = self.asked.remove(&tag) {
                        self.mds_input(now, Input::DataSynced { ticket, ok: result.is_ok() });
                    }
                }
                loligo_osd::Output::InPlace { ino, upto, no_room } => {
                    self.mds_input(now, Input::DataInPlace { ino, upto, no_room });
                }
                loligo_osd::Output::LoggedFailed => self.mds_input(now, Input::DataFailed),
                loligo_osd::Output::Quiesced { ticket, ok } => {
                    // A discard that is to be tried again must not come when another rank has the file.
                    let inos = self.quieting.remove(&ticket).unwrap_or_default();
                    let ok = ok && !self.retry.iter().any(|(ino, ..)| inos.contains(ino));
                    self.mds_input(now, Input::Quiesced { ticket, ok });
                }
                // Elsewhere nobody waits for it, and a machine that is told changes what seeds found before do.
                loligo_osd::Output::Fenced { session } if self.direct => self.mds_input(now, Input::Fenced { session }),
                loligo_osd::Output::Fenced { .. } => {}
            }
        }
    }

    fn mds_input(&mut self, now: Now, input: Input) {
        self.mds.handle(now, input);
        self.drain();
    }

    pub(super) fn effect(&mut self, id: EffectId) {
        let Some(effect) = self.effects.remove(&id) else { return };
        let is_sync = matches!(effect, Effect::Sync { .. } | Effect::SyncFiles { .. } | Effect::SyncAll);
        let result = if is_sync && self.canary == Some(Canary::DataSyncDoesNothing) {
            Ok(DataAnswer::Done)
        } else {
            loligo_osd::execute(&*self.blobs, &effect)
        };
        if result.is_err() {
            self.out.push_back(Act::DataFailed);
        }
        self.results.insert(id, result);
        self.out.push_back(Act::Begin(Work::EffectDone { id }));
    }
}
