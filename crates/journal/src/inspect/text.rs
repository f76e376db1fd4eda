//! Events and entries as a line of text or of JSON.

use std::fmt::Write;

use loligo_types::{Event, Origin};

use super::fields::{Value, fields};
use super::{Entry, Report};
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

/// An event as a JSON object: `event` is its name.
pub fn event_json(event: &Event) -> String {
    let mut out = format!("{{\"event\":{}", quoted(event_name(event)));
    for (name, value) in fields(event) {
        let _ = write!(out, ",{}:{}", quoted(name), json(&value));
    }
    out.push('}');
    out
}

fn json(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::List(items) => {
            let item = |item: &std::collections::BTreeMap<&str, u64>| {
                let pairs: Vec<String> = item.iter().map(|(k, v)| format!("{}:{v}", quoted(k))).collect();
                format!("{{{}}}", pairs.join(","))
            };
            format!("[{}]", items.iter().map(item).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn origin_json(origin: &Origin) -> String {
    let Origin { session, seq, answered, ino, value } = origin;
    format!("{{\"session\":{session},\"seq\":{seq},\"answered\":{answered},\"ino\":{ino},\"value\":{value}}}")
}

impl Entry {
    /// One JSON object without line breaks.
    pub fn to_json(&self) -> String {
        let Entry { segment, offset, lsn, size, origin, events } = self;
        let origin = origin.as_ref().map_or("null".to_string(), origin_json);
        let events: Vec<String> = events.iter().map(event_json).collect();
        format!(
            "{{\"segment\":{segment},\"offset\":{offset},\"lsn\":{lsn},\"size\":{size},\"origin\":{origin},\
             \"events\":[{}]}}",
            events.join(",")
        )
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

impl<E: std::fmt::Display> Report<E> {
    /// One JSON object without line breaks.
    pub fn to_json(&self) -> String {
        let lsn = |lsn: Option<loligo_types::Lsn>| lsn.map_or("null".to_string(), |lsn| lsn.to_string());
        let (torn, error) = match &self.end {
            Ok(tail) => (tail.torn, "null".to_string()),
            Err(error) => (None, quoted(&error.to_string())),
        };
        let torn = torn.map_or("null".to_string(), |t| {
            format!(
                "{{\"segment\":{},\"offset\":{},\"bytes\":{},\"records\":{}}}",
                t.segment, t.offset, t.bytes, t.records
            )
        });
        format!(
            "{{\"records\":{},\"events\":{},\"bytes\":{},\"first\":{},\"last\":{},\"torn\":{torn},\"error\":{error}}}",
            self.records,
            self.events,
            self.bytes,
            lsn(self.first),
            lsn(self.last)
        )
    }
}
