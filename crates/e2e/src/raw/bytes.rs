//! Bytes of frames and of protobuf messages, made and taken apart by hand from docs/formats/frame.md and the field numbers of
//! `loligo.proto`. No schema is known here: a field is a number and a value. Sockets are `raw.rs`'s.

/// Bytes of a frame's header.
pub const HEADER: usize = 16;
/// The direction of a frame to a server.
pub const TO_SERVER: u8 = 1;
/// The direction of a frame to a client.
pub const TO_CLIENT: u8 = 2;

/// A protobuf message that grows field by field. Nothing checks that a server knows its fields.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Message(pub Vec<u8>);

impl Message {
    /// One without fields.
    pub fn new() -> Message {
        Message::default()
    }

    /// A field with a varint: an integer, a bool or a code.
    #[must_use]
    pub fn int(mut self, field: u32, value: u64) -> Message {
        put_varint(&mut self.0, u64::from(field) << 3);
        put_varint(&mut self.0, value);
        self
    }

    /// A field with eight bytes: `fixed64`.
    #[must_use]
    pub fn fixed(mut self, field: u32, value: u64) -> Message {
        put_varint(&mut self.0, u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A field with a length and bytes: `bytes`, `string`, and packed numbers.
    #[must_use]
    pub fn bytes(mut self, field: u32, value: impl AsRef<[u8]>) -> Message {
        let value = value.as_ref();
        put_varint(&mut self.0, u64::from(field) << 3 | 2);
        put_varint(&mut self.0, value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// A field with a message in it.
    #[must_use]
    pub fn message(self, field: u32, value: &Message) -> Message {
        self.bytes(field, &value.0)
    }
}

/// Appends a varint, as protobuf and the bytes about decoupled subtrees have it.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a varint from the front.
pub fn take_varint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The value of a field that was received.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Value {
    Int(u64),
    Bytes(Vec<u8>),
}

/// The fields of a message that was received, in order.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Fields(Vec<(u32, Value)>);

impl Fields {
    /// Takes a message apart; `None` if it is no protobuf message.
    pub fn parse(mut from: &[u8]) -> Option<Fields> {
        let mut fields = Vec::new();
        while !from.is_empty() {
            let key = take_varint(&mut from)?;
            let value = match key & 7 {
                0 => Value::Int(take_varint(&mut from)?),
                1 => {
                    let (bytes, rest) = from.split_first_chunk::<8>()?;
                    from = rest;
                    Value::Int(u64::from_le_bytes(*bytes))
                }
                2 => {
                    let len = usize::try_from(take_varint(&mut from)?).ok()?;
                    let (bytes, rest) = from.split_at_checked(len)?;
                    from = rest;
                    Value::Bytes(bytes.to_vec())
                }
                _ => return None,
            };
            fields.push((u32::try_from(key >> 3).ok()?, value));
        }
        Some(Fields(fields))
    }

    /// The number of the first field: of a message that is one of several, which one.
    pub fn first(&self) -> u32 {
        self.0.first().map_or(0, |(field, _)| *field)
    }

    /// True if there is such a field.
    pub fn has(&self, field: u32) -> bool {
        self.0.iter().any(|(number, _)| *number == field)
    }

    /// A number; 0 if the field is absent, as in all of proto3.
    pub fn int(&self, field: u32) -> u64 {
        let found = self.0.iter().rev().find_map(|(number, value)| match value {
            Value::Int(value) if *number == field => Some(*value),
            _ => None,
        });
        found.unwrap_or_default()
    }

    /// Bytes; empty if the field is absent.
    pub fn bytes(&self, field: u32) -> &[u8] {
        self.all(field).next_back().unwrap_or_default()
    }

    /// The bytes of each field with this number.
    pub fn all(&self, field: u32) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.iter().filter_map(move |(number, value)| match value {
            Value::Bytes(bytes) if *number == field => Some(&bytes[..]),
            _ => None,
        })
    }

    /// A message in this one; one without fields if it is absent.
    pub fn message(&self, field: u32) -> Fields {
        Fields::parse(self.bytes(field)).expect("servers send good messages")
    }
}

/// CRC-32C of some bytes, bit by bit.
pub fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut crc = !0u32;
    for byte in parts.iter().flat_map(|part| part.iter()) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    !crc
}

/// The header of a frame with this message, which may say lengths that are not those of what follows.
pub fn header(direction: u8, lengths: (u32, u32), message: &[u8]) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..4].copy_from_slice(&[b'L', b'o', 1, direction]);
    bytes[4..8].copy_from_slice(&lengths.0.to_le_bytes());
    bytes[8..12].copy_from_slice(&lengths.1.to_le_bytes());
    let crc = crc32c(&[&bytes[..12], message]);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// A good frame to a server.
pub fn frame(message: &Message, payload: &[u8]) -> Vec<u8> {
    let lengths = (message.0.len() as u32, payload.len() as u32);
    [&header(TO_SERVER, lengths, &message.0)[..], &message.0, payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_has_the_bytes_that_are_written_down_as_unchangeable() {
        let ping = frame(&Message::new().message(7, &Message::new()), &[]);
        assert_eq!(ping, b"\x4c\x6f\x01\x01\x02\x00\x00\x00\x00\x00\x00\x00\x98\xd0\x59\x11\x3a\x00");
    }

    #[test]
    fn what_is_put_together_is_taken_apart_as_it_was() {
        let inner = Message::new().int(1, 300).bytes(2, "name");
        let message = Message::new().message(3, &inner).fixed(4, u64::MAX).int(5, 1 << 63);
        let fields = Fields::parse(&message.0).expect("it is whole");
        assert_eq!((fields.first(), fields.int(4), fields.int(5), fields.int(6)), (3, u64::MAX, 1 << 63, 0));
        assert_eq!((fields.message(3).int(1), fields.message(3).bytes(2)), (300, &b"name"[..]));
        assert_eq!(Fields::parse(&message.0[..message.0.len() - 1]), None);
    }
}
