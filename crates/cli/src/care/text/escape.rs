//! Bytes as one word of text, and back. Readable text stays readable; no word is empty or has a space in it.

use std::fmt::Write;

/// Text of an empty byte string.
const EMPTY: &str = "\\-";

/// Valid UTF-8 stays as it is, but for backslashes, spaces and control characters; those and all other bytes become
/// `\xNN`.
pub fn escape(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return EMPTY.to_string();
    }
    let mut out = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' || c.is_whitespace() || c.is_control() {
                let mut buffer = [0; 4];
                hex(&mut out, c.encode_utf8(&mut buffer).as_bytes());
            } else {
                out.push(c);
            }
        }
        hex(&mut out, chunk.invalid());
    }
    out
}

fn hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(out, "\\x{byte:02x}");
    }
}

/// The bytes of a word; `None` if it is none that [`escape`] writes.
pub fn unescape(word: &str) -> Option<Vec<u8>> {
    if word == EMPTY {
        return Some(Vec::new());
    }
    if word.is_empty() {
        return None;
    }
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        if *first != b'\\' {
            out.push(*first);
            rest = more;
            continue;
        }
        let digits = more.strip_prefix(b"x")?.get(..2)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        out.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = &more[3..];
    }
    Some(out)
}
