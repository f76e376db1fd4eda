//! The body of a journal record: a version byte, who asked, and the events of one change. Not the frame around it.
//!
//! Encoding cannot fail. Decoding never panics, never allocates more than a small multiple of its input, and takes
//! all of its input or none of it. The codes are persisted: keep stable, never reuse.

mod bytes;
mod error;
mod event;
mod inode;
mod letter;
mod session;
mod subtree;
#[cfg(test)]
mod tests;

pub use error::DecodeError;
pub use event::{EVENT_NAMES, event_name};
pub(crate) use inode::{put_object_size, take_object_size};
pub(crate) use letter::{put_peer, take_peer};
pub(crate) use session::{put_session, take_session};

use std::ops::ControlFlow;

use loligo_types::{Event, EventView, Ino, Origin, Seq, SessionId};

/// Parts of the format, for what else sends the same records: the messages between ranks.
pub mod parts {
    pub use super::bytes::{Cursor, put_bytes, put_u64, put_zigzag};
    pub use super::event::{entry_kind, take_entry_kind};
    pub use super::inode::{put_inode, take_inode};
    pub use super::letter::{put_frag, put_letter, put_list, put_rank, put_route};
    pub use super::letter::{take_frag, take_lease, take_letter, take_list, take_rank, take_route};
    pub use super::subtree::{put_decoupled, put_terms, take_decoupled, take_decoupled_v1, take_terms};
}

pub(crate) use parts::{Cursor, entry_kind, put_bytes, put_decoupled, put_inode, put_rank, put_u64, put_zigzag};
pub(crate) use parts::{take_decoupled, take_decoupled_v1, take_entry_kind, take_inode, take_rank};

/// Version of the event format, the first byte of every record body. Persisted.
pub const EVENT_VERSION: u8 = 2;
/// Flag of a record body: an origin follows. Persisted.
const FLAG_ORIGIN: u8 = 1;
/// The shortest event: a code and a number of one byte.
pub(crate) const EVENT_MIN: usize = 2;

/// A decoded record: one change, atomic.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// The request that made it; none for the server's own work.
    pub origin: Option<Origin>,
    /// Its events, in order.
    pub events: Vec<Event>,
}

/// Appends the body of a record to `out`.
pub fn encode_record(out: &mut Vec<u8>, origin: Option<&Origin>, events: &[Event]) {
    out.reserve(32 + 96 * events.len());
    out.push(EVENT_VERSION);
    match origin {
        None => out.push(0),
        Some(origin) => {
            out.push(FLAG_ORIGIN);
            put_origin(out, origin);
        }
    }
    put_u64(out, events.len() as u64);
    for one in events {
        event::put_event(out, one);
    }
}

/// Reads the body of a record; all of `bytes` must belong to it.
pub fn decode_record(bytes: &[u8]) -> Result<Record, DecodeError> {
    let mut from = Cursor::new(bytes);
    let origin = take_head(&mut from)?;
    let count = from.count(EVENT_MIN, "number of events")?;
    let mut events = Vec::with_capacity(count);
    for _ in 0..count {
        events.push(event::take_event(&mut from)?);
    }
    from.finish()?;
    Ok(Record { origin, events })
}

/// Shows the events of a record in their order, where they stand, until one ends it. What cannot be read is found when its turn
/// comes: those before it have been shown.
pub fn view_record(
    bytes: &[u8],
    mut visit: impl FnMut(EventView<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, DecodeError> {
    let mut from = Cursor::new(bytes);
    take_head(&mut from)?;
    for _ in 0..from.count(EVENT_MIN, "number of events")? {
        if event::view_event(&mut from, &mut visit)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    from.finish()?;
    Ok(ControlFlow::Continue(()))
}

/// Reads only who asked for a record, without its events.
pub fn decode_origin(bytes: &[u8]) -> Result<Option<Origin>, DecodeError> {
    take_head(&mut Cursor::new(bytes))
}

fn take_head(from: &mut Cursor<'_>) -> Result<Option<Origin>, DecodeError> {
    from.version(EVENT_VERSION, "record")?;
    match from.u8()? {
        0 => Ok(None),
        FLAG_ORIGIN => Ok(Some(take_origin(from)?)),
        _ => Err(from.invalid("record flags")),
    }
}

fn put_origin(out: &mut Vec<u8>, origin: &Origin) {
    put_u64(out, origin.session.0);
    put_u64(out, origin.seq.0);
    put_u64(out, origin.answered.0);
    put_u64(out, origin.ino.0);
    put_u64(out, origin.value);
}

fn take_origin(from: &mut Cursor<'_>) -> Result<Origin, DecodeError> {
    Ok(Origin {
        session: SessionId(from.u64()?),
        seq: Seq(from.u64()?),
        answered: Seq(from.u64()?),
        ino: Ino(from.u64()?),
        value: from.u64()?,
    })
}
