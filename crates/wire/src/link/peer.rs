//! Messages between ranks, to bytes and back with every check. The records in it are `record.rs`'s.

use std::sync::Arc;

use loligo_journal::codec::parts::{Cursor, put_bytes, put_frag, put_inode, put_letter, put_list, put_rank, put_route};
use loligo_journal::codec::parts::{put_u64, take_frag, take_inode, take_letter, take_list, take_rank, take_route};
use loligo_types::peer::{PeerMsg, TxId};
use loligo_types::{Beat, FragHeat, FsError, Ino, Load, LoadField, LoadVec, PolicyId, Route, Weighed};

use super::record::{put_items, put_lent, put_want, take_items, take_lent, take_want};
use super::{Result, put_map, take_map};

/// The codes of messages. On the wire: keep stable, never reuse.
mod code {
    pub const HELLO: u8 = 1;
    pub const LETTER: u8 = 2;
    pub const RECEIVED: u8 = 3;
    pub const ACKED: u8 = 4;
    pub const ROUTES: u8 = 5;
    pub const GONE: u8 = 6;
    pub const BORROW: u8 = 7;
    pub const LENT: u8 = 8;
    pub const DENIED: u8 = 9;
    pub const READY: u8 = 10;
    pub const RETURN: u8 = 11;
    pub const OFFER: u8 = 12;
    pub const GIVE_BACK: u8 = 13;
    pub const ACCEPT: u8 = 14;
    pub const EMPTY: u8 = 15;
    pub const FAREWELL: u8 = 16;
    pub const BEAT: u8 = 17;
    pub const CACHED: u8 = 18;
    pub const HEAT: u8 = 19;
    pub const CLIENT_GONE: u8 = 20;
    pub const ASK_WAY: u8 = 21;
    pub const WAY: u8 = 22;
    pub const SUMMON: u8 = 23;
    pub const STAYS: u8 = 24;
    pub const ASK_BORN: u8 = 25;
    pub const BORN: u8 = 26;
    pub const ASK_NAME: u8 = 27;
    pub const NAME_IS: u8 = 28;
    pub const ASK_REPLICA: u8 = 29;
    pub const REPLICA: u8 = 30;
    pub const NO_REPLICA: u8 = 31;
    pub const DROP_REPLICA: u8 = 32;
    pub const REPLICA_DROPPED: u8 = 33;
    pub const KEEP_REPLICAS: u8 = 34;
    pub const REPLICAS_KEPT: u8 = 35;
}

/// The shortest route: directory, bits, value, rank, version.
const ROUTE_MIN: usize = 5;
/// The shortest beat: rank, number, age, and the load.
const BEAT_MIN: usize = 3 + LOAD_BYTES;
/// The shortest heat of a fragment: directory, fragment, five counts.
const HEAT_MIN: usize = 3 + 5 * 8;
/// The numbers of a load, two times five counts; a policy of one byte, two wide numbers.
const LOAD_BYTES: usize = Load::BYTES_MIN + 2 * 5 * 8 + 1 + 2 * 8;

/// Appends a code and a number.
fn put(out: &mut Vec<u8>, code: u8, number: u64) {
    out.push(code);
    put_u64(out, number);
}

pub(super) fn put_peer(out: &mut Vec<u8>, msg: &PeerMsg) {
    match msg {
        PeerMsg::Hello { life, received, sent, map, routes } => {
            put(out, code::HELLO, *life);
            put_u64(out, *received);
            put_u64(out, *sent);
            put_map(out, map);
            put_routes(out, routes);
        }
        PeerMsg::Letter { seq, letter } => {
            put(out, code::LETTER, *seq);
            put_letter(out, letter);
        }
        PeerMsg::Received { upto } => put(out, code::RECEIVED, *upto),
        PeerMsg::Acked { upto } => put(out, code::ACKED, *upto),
        PeerMsg::Routes(routes) => {
            out.push(code::ROUTES);
            put_routes(out, routes);
        }
        PeerMsg::Gone(dir) => put(out, code::GONE, dir.0),
        PeerMsg::Borrow { tx, round, client, wants } => {
            put_tx(out, code::BORROW, *tx);
            put_u64(out, u64::from(*round));
            put_u64(out, *client);
            put_list(out, wants, put_want);
        }
        PeerMsg::Lent { tx, round, lent } => {
            put_tx(out, code::LENT, *tx);
            put_u64(out, u64::from(*round));
            put_lent(out, lent);
        }
        PeerMsg::Denied { tx, round, error } => {
            put_tx(out, code::DENIED, *tx);
            put_u64(out, u64::from(*round));
            out.push(error.code());
        }
        PeerMsg::Ready { tx } => put_tx(out, code::READY, *tx),
        PeerMsg::Return { tx, again } => {
            put_tx(out, code::RETURN, *tx);
            out.push(u8::from(*again));
        }
        PeerMsg::Offer { moving, dir } => {
            put(out, code::OFFER, *moving);
            put_u64(out, dir.0);
        }
        PeerMsg::GiveBack { dir, to } => {
            put(out, code::GIVE_BACK, dir.0);
            put_rank(out, *to);
        }
        PeerMsg::Summon { dir } => put(out, code::SUMMON, dir.0),
        PeerMsg::Stays { dir } => put(out, code::STAYS, dir.0),
        PeerMsg::Accept { moving, refused } => {
            put(out, code::ACCEPT, *moving);
            out.push(refused.map_or(0, FsError::code));
        }
        PeerMsg::ClientGone { client } => put(out, code::CLIENT_GONE, *client),
        PeerMsg::Empty => out.push(code::EMPTY),
        PeerMsg::Farewell => out.push(code::FAREWELL),
        PeerMsg::Cached(items) => {
            out.push(code::CACHED);
            put_items(out, items);
        }
        PeerMsg::Heat(heat) => {
            out.push(code::HEAT);
            put_list(out, heat, put_heat);
        }
        PeerMsg::Beat(beats) => {
            out.push(code::BEAT);
            put_list(out, beats, put_beat);
        }
        PeerMsg::AskWay { number, ino } => {
            put(out, code::ASK_WAY, *number);
            put_u64(out, ino.0);
        }
        PeerMsg::AskBorn { ino } => put(out, code::ASK_BORN, ino.0),
        PeerMsg::Born { ino } => put(out, code::BORN, ino.0),
        PeerMsg::AskName { dir, name } => {
            put(out, code::ASK_NAME, dir.0);
            put_bytes(out, name.as_bytes());
        }
        PeerMsg::NameIs { dir, name, ino } => {
            put(out, code::NAME_IS, dir.0);
            put_bytes(out, name.as_bytes());
            put_u64(out, ino.map_or(0, |ino| ino.0));
        }
        PeerMsg::AskReplica { ino, sent_ms } => {
            put(out, code::ASK_REPLICA, ino.0);
            put_u64(out, *sent_ms);
        }
        PeerMsg::Replica { sent_ms, inode } => {
            put(out, code::REPLICA, *sent_ms);
            put_u64(out, inode.ino.0);
            put_inode(out, inode);
        }
        PeerMsg::NoReplica { ino } => put(out, code::NO_REPLICA, ino.0),
        PeerMsg::DropReplica { ino } => put(out, code::DROP_REPLICA, ino.0),
        PeerMsg::ReplicaDropped { ino, promised_ms } => {
            put(out, code::REPLICA_DROPPED, ino.0);
            put_u64(out, u64::from(*promised_ms));
        }
        PeerMsg::KeepReplicas { sent_ms } => put(out, code::KEEP_REPLICAS, *sent_ms),
        PeerMsg::ReplicasKept { sent_ms } => put(out, code::REPLICAS_KEPT, *sent_ms),
        PeerMsg::Way { number, ino, up, at, bounds } => {
            put(out, code::WAY, *number);
            put_u64(out, ino.0);
            put_list(out, up, |out, hash| put_u64(out, *hash));
            put_u64(out, at.0);
            put_list(out, bounds, |out, (dir, text)| {
                put_u64(out, dir.0);
                put_bytes(out, text);
            });
        }
    }
}

pub(super) fn take_peer(from: &mut Cursor<'_>) -> Result<PeerMsg> {
    Ok(match from.u8()? {
        code::HELLO => PeerMsg::Hello {
            life: from.u64()?,
            received: from.u64()?,
            sent: from.u64()?,
            map: take_map(from)?,
            routes: take_routes(from)?,
        },
        code::LETTER => PeerMsg::Letter { seq: from.u64()?, letter: Arc::new(take_letter(from)?) },
        code::RECEIVED => PeerMsg::Received { upto: from.u64()? },
        code::ACKED => PeerMsg::Acked { upto: from.u64()? },
        code::ROUTES => PeerMsg::Routes(take_routes(from)?),
        code::GONE => PeerMsg::Gone(Ino(from.u64()?)),
        code::BORROW => PeerMsg::Borrow {
            tx: take_tx(from)?,
            round: from.u32()?,
            client: from.u64()?,
            wants: take_list(from, 3, "number of wants", take_want)?,
        },
        code::LENT => PeerMsg::Lent { tx: take_tx(from)?, round: from.u32()?, lent: take_lent(from)? },
        code::DENIED => PeerMsg::Denied { tx: take_tx(from)?, round: from.u32()?, error: take_error(from)? },
        code::READY => PeerMsg::Ready { tx: take_tx(from)? },
        code::RETURN => PeerMsg::Return { tx: take_tx(from)?, again: take_bool(from)? },
        code::OFFER => PeerMsg::Offer { moving: from.u64()?, dir: Ino(from.u64()?) },
        code::GIVE_BACK => PeerMsg::GiveBack { dir: Ino(from.u64()?), to: take_rank(from)? },
        code::SUMMON => PeerMsg::Summon { dir: Ino(from.u64()?) },
        code::STAYS => PeerMsg::Stays { dir: Ino(from.u64()?) },
        code::ACCEPT => {
            let moving = from.u64()?;
            let refused = match from.u8()? {
                0 => None,
                code => Some(FsError::from_code(code).ok_or_else(|| from.invalid("error kind"))?),
            };
            PeerMsg::Accept { moving, refused }
        }
        code::CLIENT_GONE => PeerMsg::ClientGone { client: from.u64()? },
        code::EMPTY => PeerMsg::Empty,
        code::FAREWELL => PeerMsg::Farewell,
        code::BEAT => PeerMsg::Beat(take_list(from, BEAT_MIN, "number of beats", take_beat)?),
        code::CACHED => PeerMsg::Cached(take_items(from)?),
        code::HEAT => PeerMsg::Heat(take_list(from, HEAT_MIN, "number of fragments", take_heat)?),
        code::ASK_BORN => PeerMsg::AskBorn { ino: Ino(from.u64()?) },
        code::BORN => PeerMsg::Born { ino: Ino(from.u64()?) },
        code::ASK_NAME => PeerMsg::AskName { dir: Ino(from.u64()?), name: from.name()? },
        code::NAME_IS => PeerMsg::NameIs {
            dir: Ino(from.u64()?),
            name: from.name()?,
            ino: Some(Ino(from.u64()?)).filter(|ino| ino.0 != 0),
        },
        code::ASK_REPLICA => PeerMsg::AskReplica { ino: Ino(from.u64()?), sent_ms: from.u64()? },
        code::REPLICA => {
            let (sent_ms, ino) = (from.u64()?, Ino(from.u64()?));
            PeerMsg::Replica { sent_ms, inode: Box::new(take_inode(from, ino)?) }
        }
        code::NO_REPLICA => PeerMsg::NoReplica { ino: Ino(from.u64()?) },
        code::DROP_REPLICA => PeerMsg::DropReplica { ino: Ino(from.u64()?) },
        code::REPLICA_DROPPED => PeerMsg::ReplicaDropped { ino: Ino(from.u64()?), promised_ms: from.u32()? },
        code::KEEP_REPLICAS => PeerMsg::KeepReplicas { sent_ms: from.u64()? },
        code::REPLICAS_KEPT => PeerMsg::ReplicasKept { sent_ms: from.u64()? },
        code::ASK_WAY => PeerMsg::AskWay { number: from.u64()?, ino: Ino(from.u64()?) },
        code::WAY => PeerMsg::Way {
            number: from.u64()?,
            ino: Ino(from.u64()?),
            up: take_list(from, 1, "number of names", |from| from.u64())?,
            at: Ino(from.u64()?),
            bounds: take_list(from, 2, "number of policies", |from| Ok((Ino(from.u64()?), from.bytes()?.into())))?,
        },
        _ => return Err(from.invalid("kind of a message between ranks")),
    })
}

fn put_tx(out: &mut Vec<u8>, code: u8, tx: TxId) {
    put(out, code, tx.number);
    put_rank(out, tx.rank);
}

fn take_tx(from: &mut Cursor<'_>) -> Result<TxId> {
    Ok(TxId { number: from.u64()?, rank: take_rank(from)? })
}

fn put_routes(out: &mut Vec<u8>, routes: &[Route]) {
    put_list(out, routes, |out, route| {
        put_u64(out, route.dir.0);
        put_route(out, route);
    });
}

fn take_routes(from: &mut Cursor<'_>) -> Result<Vec<Route>> {
    take_list(from, ROUTE_MIN, "number of routes", |from| {
        let dir = Ino(from.u64()?);
        take_route(from, dir)
    })
}

fn take_error(from: &mut Cursor<'_>) -> Result<FsError> {
    let code = from.u8()?;
    FsError::from_code(code).ok_or_else(|| from.invalid("error kind"))
}

pub(super) fn take_bool(from: &mut Cursor<'_>) -> Result<bool> {
    match from.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(from.invalid("yes or no")),
    }
}

/// Encodes a load. Its receiver checks that it makes sense.
fn put_beat(out: &mut Vec<u8>, beat: &Beat) {
    put_rank(out, beat.rank);
    put_u64(out, beat.seq);
    put_u64(out, u64::from(beat.age_ms));
    let mut load = beat.load;
    for field in load.fields() {
        match field {
            LoadField::Wide(n) => put_wide(out, *n),
            LoadField::Narrow(n) => out.extend_from_slice(&n.to_bits().to_le_bytes()),
            LoadField::Count(n) => put_u64(out, u64::from(*n)),
        }
    }
    put_counts(out, &load.own);
    put_counts(out, &load.besides);
    put_u64(out, u64::from(beat.weighed.policy.0));
    [beat.weighed.auth, beat.weighed.all].into_iter().for_each(|n| put_wide(out, n));
}

fn put_wide(out: &mut Vec<u8>, n: f64) {
    out.extend_from_slice(&n.to_bits().to_le_bytes());
}

fn take_wide(from: &mut Cursor<'_>) -> Result<f64> {
    Ok(f64::from_bits(u64::from_le_bytes(from.array()?)))
}

/// Encodes counts. Their receiver checks that they make sense.
fn put_heat(out: &mut Vec<u8>, heat: &FragHeat) {
    put_u64(out, heat.dir.0);
    put_frag(out, heat.frag);
    put_counts(out, &heat.load);
}

fn put_counts(out: &mut Vec<u8>, counts: &LoadVec) {
    let LoadVec { ird, iwr, readdir, fetch, store } = *counts;
    [ird, iwr, readdir, fetch, store].into_iter().for_each(|n| put_wide(out, n));
}

fn take_counts(from: &mut Cursor<'_>) -> Result<LoadVec> {
    Ok(LoadVec {
        ird: take_wide(from)?,
        iwr: take_wide(from)?,
        readdir: take_wide(from)?,
        fetch: take_wide(from)?,
        store: take_wide(from)?,
    })
}

fn take_heat(from: &mut Cursor<'_>) -> Result<FragHeat> {
    let (dir, frag) = (Ino(from.u64()?), take_frag(from)?);
    Ok(FragHeat { dir, frag, load: take_counts(from)? })
}

fn take_beat(from: &mut Cursor<'_>) -> Result<Beat> {
    let (rank, seq, age_ms) = (take_rank(from)?, from.u64()?, from.u32()?);
    let mut load = Load::default();
    for field in load.fields() {
        match field {
            LoadField::Wide(n) => *n = take_wide(from)?,
            LoadField::Narrow(n) => *n = f32::from_bits(u32::from_le_bytes(from.array()?)),
            LoadField::Count(n) => *n = from.u32()?,
        }
    }
    (load.own, load.besides) = (take_counts(from)?, take_counts(from)?);
    let weighed = Weighed { policy: PolicyId(from.u32()?), auth: take_wide(from)?, all: take_wide(from)? };
    Ok(Beat { rank, seq, age_ms, load, weighed })
}
