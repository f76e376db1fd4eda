//! An arbitrary message between processes in a good frame: decoding never panics, and what it accepts is written as the same
//! bytes again, but for numbers that are no number.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loligo_wire::{FRAME_VERSION, HEADER_LEN, LINK_MAX, LinkHeader, MAGIC, encode_link};

fn header(body: &[u8]) -> [u8; HEADER_LEN] {
    let mut out = [0; HEADER_LEN];
    out[..2].copy_from_slice(&MAGIC);
    out[2..4].copy_from_slice(&[FRAME_VERSION, 3]);
    out[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&out[..12]), body);
    out[12..].copy_from_slice(&crc.to_le_bytes());
    out
}

fuzz_target!(|body: &[u8]| {
    let head = LinkHeader::decode(&header(body), LINK_MAX).expect("a good header");
    let Ok(msg) = head.message(body) else { return };
    let mut again = Vec::new();
    encode_link(&msg, &mut again);
    let (frame, body) = again.split_first_chunk::<HEADER_LEN>().expect("a header");
    let head = LinkHeader::decode(frame, LINK_MAX).expect("what was encoded");
    let read = head.message(body).expect("what was encoded");
    let mut third = Vec::new();
    encode_link(&read, &mut third);
    assert_eq!(third, again);
});
