//! The resident client's connections to other ranks of the process, which may come while it lives: socket pairs, of which
//! each rank adopts one end as any connection, and this thread watches the other. What its own rank gets from it goes
//! without a socket (`resident.rs`).

use std::collections::{BTreeMap, BTreeSet};

use loligo_client::Input as ClientInput;
use loligo_types::Rank as RankId;
use loligo_types::msg::{ToClient, ToServer};
use loligo_wire::{Decoder, FromServer};
use rustix::event::epoll;

use super::{Command, Done, Rank, TOKEN_ABROAD};
use crate::client::outbox::Outbox;
use crate::sock::Sock;

/// Bytes read from one connection before others have their turn.
const READ_AT_ONCE: usize = 1 << 20;

/// The connections.
#[derive(Default)]
pub(crate) struct PeerSockets {
    links: BTreeMap<RankId, Link>,
    /// Are to be made (anew) with the next tick: what made one end may need a moment to pass.
    wanted: BTreeSet<RankId>,
    /// Have something to send.
    unsent: BTreeSet<RankId>,
}

struct Link {
    sock: Sock,
    outbox: Outbox,
    decoder: Decoder<FromServer>,
    /// epoll tells when there is room again.
    waits_for_room: bool,
}

impl PeerSockets {
    /// A connection is wanted; one that is there is to be dropped.
    pub(super) fn connect(&mut self, rank: RankId) {
        self.disconnect(rank);
        self.wanted.insert(rank);
    }

    /// None is wanted any more.
    pub(super) fn disconnect(&mut self, rank: RankId) {
        // Closing its end takes it out of epoll, too.
        self.links.remove(&rank);
        self.wanted.remove(&rank);
        self.unsent.remove(&rank);
    }

    /// Sends, as soon as there is room.
    pub(super) fn send(&mut self, rank: RankId, message: &ToServer) {
        if let Some(link) = self.links.get_mut(&rank) {
            link.outbox.push(message);
            self.unsent.insert(rank);
        }
    }
}

impl Rank {
    /// Makes the connections that the resident client wants.
    pub(super) fn abroad_connects(&mut self) {
        let Some(residence) = &mut self.resident else { return };
        for rank in std::mem::take(&mut residence.abroad.wanted) {
            let input = match self.abroad_link(rank) {
                Ok(link) => {
                    let Some(residence) = &mut self.resident else { return };
                    residence.abroad.links.insert(rank, link);
                    ClientInput::Connected { rank }
                }
                Err(error) => {
                    tracing::debug!(%rank, %error, "the resident client could not be connected");
                    ClientInput::Disconnected { rank }
                }
            };
            self.resident_feed(input);
        }
    }

    fn abroad_link(&self, rank: RankId) -> std::io::Result<Link> {
        let no_rank = || std::io::Error::other("there is no such rank (any more)");
        let inbox = self.others.inbox(rank).ok_or_else(no_rank)?;
        let (ours, theirs) = Sock::pair()?;
        let sock = Sock::new(ours)?;
        let token = epoll::EventData::new_u64(TOKEN_ABROAD + u64::from(rank.0));
        epoll::add(&self.epoll, &sock, token, epoll::EventFlags::IN)?;
        inbox.offer(Done::Command(Command::Adopt(theirs))).map_err(|_| no_rank())?;
        Ok(Link { sock, outbox: Outbox::default(), decoder: Decoder::new(), waits_for_room: false })
    }

    /// Another rank has sent something, or has room.
    pub(super) fn abroad_event(&mut self, rank: RankId, ready: epoll::EventFlags) {
        let Some(residence) = &mut self.resident else { return };
        if ready.contains(epoll::EventFlags::OUT) {
            residence.abroad.unsent.insert(rank);
        }
        let Some(link) = residence.abroad.links.get_mut(&rank) else { return };
        let mut messages = Vec::new();
        if !link.read(&mut messages) {
            residence.abroad.disconnect(rank);
            self.resident_messages(rank, messages);
            return self.resident_feed(ClientInput::Disconnected { rank });
        }
        self.resident_messages(rank, messages);
        self.resident_round();
    }

    /// Writes what the sockets take.
    pub(super) fn abroad_flush(&mut self) {
        let Some(residence) = &mut self.resident else { return };
        for rank in std::mem::take(&mut residence.abroad.unsent) {
            let Some(link) = residence.abroad.links.get_mut(&rank) else { continue };
            // What is wrong with it shows when it is read.
            let all = link.outbox.write(&link.sock).unwrap_or(true);
            if link.waits_for_room == all {
                link.waits_for_room = !all;
                let mut flags = epoll::EventFlags::IN;
                flags.set(epoll::EventFlags::OUT, !all);
                let token = epoll::EventData::new_u64(TOKEN_ABROAD + u64::from(rank.0));
                if let Err(error) = epoll::modify(&self.epoll, &link.sock, token, flags) {
                    tracing::warn!(%rank, %error, "the resident client's connection could not be watched");
                }
            }
        }
    }
}

impl Link {
    /// Takes the whole messages that are there, up to its share. Whether it lives and makes sense.
    fn read(&mut self, messages: &mut Vec<ToClient>) -> bool {
        let mut total = 0;
        while total < READ_AT_ONCE {
            let space = self.decoder.space();
            let room = space.len();
            match self.sock.read(space) {
                Ok(Some(0)) | Err(_) => return false,
                Ok(None) => break,
                Ok(Some(n)) => {
                    total += n;
                    self.decoder.filled(n);
                    if !self.decode(messages) {
                        return false;
                    }
                    if n < room {
                        break;
                    }
                }
            }
        }
        true
    }

    fn decode(&mut self, messages: &mut Vec<ToClient>) -> bool {
        loop {
            match self.decoder.next_message() {
                Ok(Some(message)) => {
                    if matches!(message, ToClient::Welcome(_)) {
                        self.decoder.handshake_done();
                    }
                    messages.push(message);
                }
                Ok(None) => return true,
                Err(error) => {
                    tracing::error!(%error, "a message between two ranks of this process makes no sense; this is a bug");
                    return false;
                }
            }
        }
    }
}
