//! The bytes between processes of one file system: the handshake of a process that joins, and what ranks say to each
//! other. Not sockets, and not the order of messages. Drawn byte by byte in `docs/formats/link.md`.
//!
//! Records and letters have the journal's codec, so one format is one code. The frame is that of clients, with another
//! direction and another limit: a letter is as long as a record of the journal may be.

mod peer;
mod question;
pub(crate) mod record;

use loligo_journal::codec::DecodeError as Bad;
use loligo_journal::codec::parts::{Cursor, put_bytes, put_list, put_rank, put_u64, take_list, take_rank};
use loligo_types::limits::{ADDRESS_MAX, RANKS_MAX};
use loligo_types::link::{Greet, Join, Joined, LinkMsg, Member, NotJoined};
use loligo_types::{ClusterMap, PolicyId, Rank, RankInfo, RankState};

use crate::DecodeError;
use crate::frame::{BETWEEN_PROCESSES, HEADER_LEN, Header, seal};

/// Longest message between processes, bytes. A letter as long as a record of the journal fits, and a `Hello` with a
/// million routes.
pub const LINK_MAX: usize = 64 << 20;

/// Longest first message of a process that joins, bytes.
pub const JOIN_MAX: usize = 64 << 10;

type Result<T> = std::result::Result<T, Bad>;

/// The codes of messages. On the wire: keep stable, never reuse.
mod code {
    pub const JOIN: u8 = 1;
    pub const JOINED: u8 = 2;
    pub const REFUSED: u8 = 3;
    pub const READY: u8 = 4;
    pub const UP: u8 = 5;
    pub const DOWN: u8 = 6;
    pub const MAP: u8 = 7;
    pub const PEER: u8 = 8;
    pub const MEMBER: u8 = 9;
    pub const LEAVE: u8 = 10;
    pub const LEFT: u8 = 11;
    pub const STOP: u8 = 12;
    pub const STOPPED: u8 = 13;
    pub const ALL_STOPPED: u8 = 14;
    pub const GREET: u8 = 15;
    pub const PROVE: u8 = 16;
    pub const PROOF: u8 = 17;
    pub const HERE: u8 = 18;
    pub const BEAT: u8 = 19;
    pub const QUESTION: u8 = 20;
    pub const REPLY: u8 = 21;
}

/// Appends the whole frame of a message.
pub fn encode_link(msg: &LinkMsg, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + HEADER_LEN, 0);
    put_message(out, msg);
    seal(out, start, BETWEEN_PROCESSES, 0);
}

/// The header of a frame between processes, whose length is within its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkHeader(Header);

impl LinkHeader {
    /// Checks the first 16 bytes of a frame. `max`: most bytes behind them, [`JOIN_MAX`] or [`LINK_MAX`].
    pub fn decode(bytes: &[u8; HEADER_LEN], max: usize) -> std::result::Result<LinkHeader, DecodeError> {
        let header = Header::decode_limited(bytes, BETWEEN_PROCESSES, (max, max, 0))?;
        Ok(LinkHeader(header))
    }

    /// Bytes behind the header. May be much: make room as they come.
    pub fn body_len(&self) -> usize {
        self.0.head_len
    }

    /// The message, from all bytes behind the header.
    pub fn message(&self, body: &[u8]) -> std::result::Result<LinkMsg, DecodeError> {
        self.0.check(body)?;
        let mut from = Cursor::new(body);
        let msg = take_message(&mut from)?;
        from.finish()?;
        Ok(msg)
    }
}

fn put_message(out: &mut Vec<u8>, msg: &LinkMsg) {
    match msg {
        LinkMsg::Join(join) => {
            out.push(code::JOIN);
            put_join(out, join);
        }
        LinkMsg::Joined(joined) => {
            out.push(code::JOINED);
            put_joined(out, joined);
        }
        LinkMsg::Refused { why, text } => {
            out.extend_from_slice(&[code::REFUSED, *why as u8]);
            put_bytes(out, text.as_bytes());
        }
        LinkMsg::Ready { addresses } => {
            out.push(code::READY);
            put_list(out, addresses, |out, (rank, address)| {
                put_rank(out, *rank);
                put_bytes(out, address.as_bytes());
            });
        }
        LinkMsg::Up { rank, process } => {
            out.push(code::UP);
            put_rank(out, *rank);
            put_u64(out, *process);
        }
        LinkMsg::Down { rank } => put_rank_of(out, code::DOWN, *rank),
        LinkMsg::Map(map) => {
            out.push(code::MAP);
            put_map(out, map);
        }
        LinkMsg::Peer { from, to, process, msg } => {
            put_rank_of(out, code::PEER, *from);
            put_rank(out, *to);
            put_u64(out, *process);
            peer::put_peer(out, msg);
        }
        LinkMsg::Member { rank, member } => {
            put_rank_of(out, code::MEMBER, *rank);
            put_member(out, member);
        }
        LinkMsg::Leave { rank } => put_rank_of(out, code::LEAVE, *rank),
        LinkMsg::Left { rank } => put_rank_of(out, code::LEFT, *rank),
        LinkMsg::Stop => out.push(code::STOP),
        LinkMsg::Stopped => out.push(code::STOPPED),
        LinkMsg::AllStopped => out.push(code::ALL_STOPPED),
        LinkMsg::Greet(greet) => {
            out.push(code::GREET);
            put_greet(out, greet);
        }
        LinkMsg::Prove { version, nonce, proof } => {
            out.push(code::PROVE);
            put_u64(out, u64::from(*version));
            out.extend_from_slice(nonce);
            out.extend_from_slice(proof);
        }
        LinkMsg::Proof { proof } => {
            out.push(code::PROOF);
            out.extend_from_slice(proof);
        }
        LinkMsg::Here { ranks } => {
            out.push(code::HERE);
            put_list(out, ranks, |out, (rank, epoch)| {
                put_rank(out, *rank);
                put_u64(out, *epoch);
            });
        }
        LinkMsg::Beat => out.push(code::BEAT),
        LinkMsg::Question { number, question } => {
            out.push(code::QUESTION);
            put_u64(out, *number);
            question::put_question(out, question);
        }
        LinkMsg::Reply { number, reply } => {
            out.push(code::REPLY);
            put_u64(out, *number);
            question::put_reply(out, reply);
        }
    }
}

fn take_message(from: &mut Cursor<'_>) -> Result<LinkMsg> {
    Ok(match from.u8()? {
        code::JOIN => LinkMsg::Join(take_join(from)?),
        code::JOINED => LinkMsg::Joined(take_joined(from)?),
        code::REFUSED => LinkMsg::Refused { why: take_refusal(from)?, text: take_text(from)? },
        code::READY => LinkMsg::Ready {
            addresses: take_list(from, 2, "number of addresses", |from| Ok((take_rank(from)?, take_address(from)?)))?,
        },
        code::UP => LinkMsg::Up { rank: take_rank(from)?, process: from.u64()? },
        code::DOWN => LinkMsg::Down { rank: take_rank(from)? },
        code::MAP => LinkMsg::Map(take_map(from)?),
        code::PEER => LinkMsg::Peer {
            from: take_rank(from)?,
            to: take_rank(from)?,
            process: from.u64()?,
            msg: Box::new(peer::take_peer(from)?),
        },
        code::MEMBER => LinkMsg::Member { rank: take_rank(from)?, member: take_member(from)? },
        code::LEAVE => LinkMsg::Leave { rank: take_rank(from)? },
        code::LEFT => LinkMsg::Left { rank: take_rank(from)? },
        code::STOP => LinkMsg::Stop,
        code::STOPPED => LinkMsg::Stopped,
        code::ALL_STOPPED => LinkMsg::AllStopped,
        code::GREET => LinkMsg::Greet(take_greet(from)?),
        code::PROVE => LinkMsg::Prove { version: from.u32()?, nonce: from.array()?, proof: from.array()? },
        code::PROOF => LinkMsg::Proof { proof: from.array()? },
        code::HERE => LinkMsg::Here { ranks: take_here(from)? },
        code::BEAT => LinkMsg::Beat,
        code::QUESTION => LinkMsg::Question { number: from.u64()?, question: Box::new(question::take_question(from)?) },
        code::REPLY => LinkMsg::Reply { number: from.u64()?, reply: Box::new(question::take_reply(from)?) },
        _ => return Err(from.invalid("kind of a message")),
    })
}

fn put_rank_of(out: &mut Vec<u8>, code: u8, rank: Rank) {
    out.push(code);
    put_rank(out, rank);
}

fn put_join(out: &mut Vec<u8>, join: &Join) {
    put_u64(out, u64::from(join.versions.0));
    put_u64(out, u64::from(join.versions.1));
    put_bytes(out, join.fs_id.as_ref().map_or(&[][..], |id| id));
    put_list(out, &join.ranks, |out, rank| put_rank(out, *rank));
    put_u64(out, u64::from(join.pid));
}

fn take_join(from: &mut Cursor<'_>) -> Result<Join> {
    let versions = (from.u32()?, from.u32()?);
    let fs_id = match from.bytes()? {
        [] => None,
        id => Some(<[u8; 16]>::try_from(id).map_err(|_| from.invalid("file system id"))?),
    };
    let ranks = take_list(from, 1, "number of ranks", take_rank)?;
    if !ranks.is_sorted_by(|a, b| a < b) {
        return Err(from.invalid("order of ranks"));
    }
    Ok(Join { versions, fs_id, ranks, pid: from.u32()? })
}

fn put_greet(out: &mut Vec<u8>, greet: &Greet) {
    put_u64(out, u64::from(greet.versions.0));
    put_u64(out, u64::from(greet.versions.1));
    out.extend_from_slice(&greet.fs_id);
    put_u64(out, greet.from);
    put_u64(out, greet.to);
    out.extend_from_slice(&greet.nonce);
}

fn take_greet(from: &mut Cursor<'_>) -> Result<Greet> {
    Ok(Greet {
        versions: (from.u32()?, from.u32()?),
        fs_id: from.array()?,
        from: from.u64()?,
        to: from.u64()?,
        nonce: from.array()?,
    })
}

fn take_here(from: &mut Cursor<'_>) -> Result<Vec<(Rank, u64)>> {
    let ranks = take_list(from, 2, "number of ranks", |from| Ok((take_rank(from)?, from.u64()?)))?;
    if ranks.len() > RANKS_MAX || !ranks.is_sorted_by(|a, b| a.0 < b.0) {
        return Err(from.invalid("order or number of ranks"));
    }
    Ok(ranks)
}

fn put_joined(out: &mut Vec<u8>, joined: &Joined) {
    put_u64(out, u64::from(joined.version));
    out.extend_from_slice(&joined.fs_id);
    put_u64(out, joined.process);
    put_u64(out, joined.ticket);
    put_bytes(out, joined.store.as_bytes());
    put_u64(out, joined.data_epoch);
    put_map(out, &joined.map);
}

fn take_joined(from: &mut Cursor<'_>) -> Result<Joined> {
    Ok(Joined {
        version: from.u32()?,
        fs_id: from.array()?,
        process: from.u64()?,
        ticket: from.u64()?,
        store: take_text(from)?,
        data_epoch: from.u64()?,
        map: take_map(from)?,
    })
}

fn take_refusal(from: &mut Cursor<'_>) -> Result<NotJoined> {
    Ok(match from.u8()? {
        1 => NotJoined::Version,
        2 => NotJoined::OtherFileSystem,
        3 => NotJoined::NotAuthorized,
        4 => NotJoined::NoSuchRank,
        5 => NotJoined::InUse,
        6 => NotJoined::Malformed,
        7 => NotJoined::Stopping,
        _ => return Err(from.invalid("refusal")),
    })
}

fn put_member(out: &mut Vec<u8>, member: &Member) {
    match member {
        Member::Drains => out.push(1),
        Member::Refused(text) => {
            out.push(2);
            put_bytes(out, text.as_bytes());
        }
        Member::Drained => out.push(3),
        Member::Left => out.push(4),
        Member::BadPolicy { policy, why } => {
            out.push(5);
            put_u64(out, u64::from(policy.0));
            put_bytes(out, why.as_bytes());
        }
        Member::NoPolicy { name } => {
            out.push(6);
            put_bytes(out, name.as_bytes());
        }
    }
}

fn take_member(from: &mut Cursor<'_>) -> Result<Member> {
    Ok(match from.u8()? {
        1 => Member::Drains,
        2 => Member::Refused(take_text(from)?),
        3 => Member::Drained,
        4 => Member::Left,
        5 => Member::BadPolicy { policy: PolicyId(from.u32()?), why: take_text(from)? },
        6 => Member::NoPolicy { name: take_text(from)? },
        _ => return Err(from.invalid("what a rank says")),
    })
}

pub(super) fn put_map(out: &mut Vec<u8>, map: &ClusterMap) {
    put_u64(out, map.epoch);
    put_list(out, &map.ranks, |out, info| {
        put_rank(out, info.rank);
        out.push(info.state as u8);
        put_bytes(out, info.address.as_bytes());
    });
    put_u64(out, u64::from(map.policy.0));
}

pub(super) fn take_map(from: &mut Cursor<'_>) -> Result<ClusterMap> {
    let epoch = from.u64()?;
    let ranks = take_list(from, 3, "number of ranks", |from| {
        let (rank, state) = (take_rank(from)?, from.u8()?);
        let state = match state {
            1 => RankState::Up,
            2 => RankState::Draining,
            3 => RankState::Leaving,
            _ => return Err(from.invalid("state of a rank")),
        };
        Ok(RankInfo { rank, state, address: take_address(from)? })
    })?;
    if ranks.len() > RANKS_MAX || !ranks.is_sorted_by(|a, b| a.rank < b.rank) {
        return Err(from.invalid("order or number of ranks"));
    }
    Ok(ClusterMap { epoch, ranks, policy: PolicyId(from.u32()?) })
}

fn take_address(from: &mut Cursor<'_>) -> Result<String> {
    let address = take_text(from)?;
    if address.len() > ADDRESS_MAX { Err(from.invalid("address of a rank")) } else { Ok(address) }
}

fn take_text(from: &mut Cursor<'_>) -> Result<String> {
    let bytes = from.bytes()?;
    String::from_utf8(bytes.to_vec()).map_err(|_| from.invalid("text"))
}
