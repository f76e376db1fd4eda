//! Events and entries as a line of text, and their form as JSON.

use std::fmt::Write;

use loligo_types::{Event, Origin};
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::Entry;
use super::fields::{Value, fields};
use crate::codec::event_name;

/// Bytes as text that can be turned back: valid UTF-8 stays, a backslash is doubled, control characters and bytes
/// that are no UTF-8 become `\xNN`.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c if c.is_control() => {
                    let mut buf = [0; 4];
                    c.encode_utf8(&mut buf).bytes().for_each(|byte| hex(&mut out, byte));
                }
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| hex(&mut out, *byte));
    }
    out
}

fn hex(out: &mut String, byte: u8) {
    // Writing to a string cannot fail.
    let _ = write!(out, "\\x{byte:02x}");
}

/// An event as `name field=value ...`.
pub fn event_text(event: &Event) -> String {
    let mut out = event_name(event).to_string();
    for (name, value) in fields(event) {
        let _ = write!(out, " {name}={value}");
    }
    out
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Number(n) => write!(f, "{n}"),
            // Quoted only when a reader could not tell where it ends.
            Value::Text(text) if text.is_empty() || text.contains([' ', '"', '=']) => {
                // Backslashes are doubled already.
                write!(f, "\"{}\"", text.replace('"', "\\\""))
            }
            Value::Text(text) => f.write_str(text),
            Value::Flag(flag) => write!(f, "{flag}"),
            Value::List(items) => {
                let items: Vec<String> =
                    items.iter().map(|item| item.values().map(u64::to_string).collect::<Vec<_>>().join(":")).collect();
                write!(f, "[{}]", items.join(","))
            }
        }
    }
}

/// As JSON: an object with the fields of an entry.
impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Entry { segment, offset, lsn, size, origin, events } = self;
        let mut object = serializer.serialize_struct("Entry", 6)?;
        object.serialize_field("segment", segment)?;
        object.serialize_field("offset", offset)?;
        object.serialize_field("lsn", &lsn.0)?;
        object.serialize_field("size", size)?;
        object.serialize_field("origin", &origin.as_ref().map(OriginJson))?;
        object.serialize_field("events", &events.iter().map(EventJson).collect::<Vec<_>>())?;
        object.end()
    }
}

/// An event as a JSON object: `event` is its name.
struct EventJson<'a>(&'a Event);

impl Serialize for EventJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = ("event", Value::Text(event_name(self.0).into()));
        serializer.collect_map(std::iter::once(name).chain(fields(self.0)))
    }
}

struct OriginJson<'a>(&'a Origin);

impl Serialize for OriginJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Origin { session, seq, answered, ino, value } = *self.0;
        let all = [("session", session.0), ("seq", seq.0), ("answered", answered.0), ("ino", ino.0), ("value", value)];
        serializer.collect_map(all)
    }
}

impl std::fmt::Display for Entry {
    /// A line for the record and an indented one for each event.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "lsn {} segment {} offset {} size {}", self.lsn, self.segment, self.offset, self.size)?;
        if let Some(Origin { session, seq, answered, ino, value }) = &self.origin {
            write!(f, " session {session} seq {seq} answered {answered} ino {ino} value {value}")?;
        }
        for event in &self.events {
            write!(f, "\n  {}", event_text(event))?;
        }
        Ok(())
    }
}
