//! An arbitrary message in a good frame: decoding never panics, and what it accepts comes back the same when it is encoded
//! and decoded again. The first byte says who sends, the second how long the payload is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loligo_wire::{Decoder, FRAME_VERSION, FromClient, FromServer, HEADER_LEN, MAGIC, encode_to_client, encode_to_server};

fn frame(direction: u8, head: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_LEN + head.len() + payload.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[FRAME_VERSION, direction]);
    out.extend_from_slice(&(head.len() as u32).to_le_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&out), head);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(head);
    out.extend_from_slice(payload);
    out
}

fuzz_target!(|bytes: &[u8]| {
    let [side, payload, rest @ ..] = bytes else { return };
    let (payload, head) = rest.split_at(usize::from(*payload).min(rest.len()));
    if side & 1 == 0 {
        let mut decoder = Decoder::<FromClient>::new();
        decoder.feed(&frame(1, head, payload));
        let Ok(Some(msg)) = decoder.next_message() else { return };
        let mut again = Vec::new();
        encode_to_server(&msg, &mut again);
        decoder.feed(&again);
        assert_eq!(decoder.next_message(), Ok(Some(msg)));
    } else {
        let mut decoder = Decoder::<FromServer>::new();
        decoder.feed(&frame(2, head, payload));
        let Ok(Some(msg)) = decoder.next_message() else { return };
        let mut again = Vec::new();
        encode_to_client(&msg, &mut again);
        decoder.feed(&again);
        assert_eq!(decoder.next_message(), Ok(Some(msg)));
    }
});
