//! The bytes of a session record without its id (which stands in the key or before it).

use loligo_types::{Ino, Seq, SessionId, SessionRecord};

use super::{Cursor, DecodeError, put_bytes, put_u64};

/// Flag of a session. Persisted: keep stable.
const LOCAL: u8 = 1;
/// The shortest executed request: number, inode and value of one byte each.
const DONE_MIN: usize = 3;

/// Appends a session without its id.
pub(crate) fn put_session(out: &mut Vec<u8>, session: &SessionRecord) {
    out.push(if session.local { LOCAL } else { 0 });
    put_bytes(out, &session.name);
    put_u64(out, u64::from(session.uid));
    put_u64(out, session.client);
    put_u64(out, session.answered.0);
    put_u64(out, session.done.len() as u64);
    for (seq, ino, value) in &session.done {
        put_u64(out, seq.0);
        put_u64(out, ino.0);
        put_u64(out, *value);
    }
}

/// Takes a session; its id comes from elsewhere.
pub(crate) fn take_session(from: &mut Cursor<'_>, id: SessionId) -> Result<SessionRecord, DecodeError> {
    let local = match from.u8()? {
        0 => false,
        LOCAL => true,
        _ => return Err(from.invalid("session flags")),
    };
    let name = from.bytes()?.into();
    let uid = from.u32()?;
    let client = from.u64()?;
    let answered = Seq(from.u64()?);
    let count = from.count(DONE_MIN, "number of executed requests")?;
    let mut done = Vec::with_capacity(count);
    for _ in 0..count {
        done.push((Seq(from.u64()?), Ino(from.u64()?), from.u64()?));
    }
    Ok(SessionRecord { id, name, client, local, uid, answered, done })
}
