//! The first messages between two servers: both show that they belong to the same file system, and are who they say.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use loligo_types::link::{Greet, LINK_VERSION, LinkMsg, NotJoined};
use loligo_wire::{JOIN_MAX, encode_link};

use super::Peers;
use super::proof::{Meeting, Side, is_proven, nonce, prove};
use crate::server::link;

/// Time limit of each message.
const MEET_TIME: Duration = Duration::from_secs(5);

fn bad(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

fn say(mut to: &TcpStream, msg: &LinkMsg) -> io::Result<()> {
    let mut bytes = Vec::new();
    encode_link(msg, &mut bytes);
    io::Write::write_all(&mut to, &bytes)
}

fn hear(mut from: &TcpStream) -> io::Result<LinkMsg> {
    let msg = link::read(&mut from, JOIN_MAX, &mut Vec::new())?;
    msg.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn be_quick(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(MEET_TIME))?;
    stream.set_write_timeout(Some(MEET_TIME))
}

impl Peers {
    /// As the one that connects.
    pub(super) fn greet(&self, stream: &TcpStream, server: u64) -> io::Result<()> {
        be_quick(stream)?;
        let ours = nonce()?;
        let versions = (LINK_VERSION, LINK_VERSION);
        say(stream, &LinkMsg::Greet(Greet { versions, fs_id: self.fs_id, from: self.me, to: server, nonce: ours }))?;
        let (theirs, proof) = match hear(stream)? {
            LinkMsg::Prove { version: LINK_VERSION, nonce, proof } => (nonce, proof),
            LinkMsg::Refused { text, .. } => return Err(io::Error::other(text)),
            _ => return Err(bad("its answer makes no sense")),
        };
        let meeting = Meeting { fs_id: self.fs_id, from: (self.me, ours), to: (server, theirs) };
        if !is_proven(&self.key, Side::Accepts, &meeting, &proof) {
            return Err(bad("it could not prove that it is one of the servers of this file system"));
        }
        say(stream, &LinkMsg::Proof { proof: prove(&self.key, Side::Connects, &meeting) })
    }

    /// As the other one; which server it is.
    pub(super) fn accept(&self, stream: &TcpStream) -> io::Result<u64> {
        be_quick(stream)?;
        let LinkMsg::Greet(greet) = hear(stream)? else { return Err(bad("it does not greet")) };
        let refuse = |why, text: String| {
            say(stream, &LinkMsg::Refused { why, text: text.clone() })?;
            Err(io::Error::other(text))
        };
        if greet.versions.0 > LINK_VERSION || greet.versions.1 < LINK_VERSION {
            let text = format!(
                "this server speaks version {LINK_VERSION} of the protocol between servers, the other one {} to {}: use programs \
                 of one release",
                greet.versions.0, greet.versions.1
            );
            return refuse(NotJoined::Version, text);
        }
        if greet.fs_id != self.fs_id || greet.to != self.me {
            return refuse(NotJoined::OtherFileSystem, "another server listens here".to_owned());
        }
        let ours = nonce()?;
        let meeting = Meeting { fs_id: self.fs_id, from: (greet.from, greet.nonce), to: (self.me, ours) };
        let proof = prove(&self.key, Side::Accepts, &meeting);
        say(stream, &LinkMsg::Prove { version: LINK_VERSION, nonce: ours, proof })?;
        match hear(stream)? {
            LinkMsg::Proof { proof } if is_proven(&self.key, Side::Connects, &meeting, &proof) => Ok(greet.from),
            _ => refuse(NotJoined::NotAuthorized, "it did not prove that it is one of the servers".to_owned()),
        }
    }
}
