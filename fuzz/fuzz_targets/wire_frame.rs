//! A stream of arbitrary bytes, cut anywhere: decoding never panics, ends, holds little, and gives the same whatever the
//! cuts. The first byte says how the stream is cut, the second who sends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loligo_wire::{Decoder, FromClient, FromServer, Side};

fn drain<S: Side>(bytes: &[u8], cut: usize, full: bool) -> (usize, Option<String>) {
    let mut decoder = Decoder::<S>::new();
    if full {
        decoder.handshake_done();
    }
    let mut messages = 0;
    for part in bytes.chunks(cut) {
        decoder.feed(part);
        loop {
            match decoder.next_message() {
                Ok(Some(_)) => messages += 1,
                Ok(None) => break,
                Err(error) => return (messages, Some(error.to_string())),
            }
        }
    }
    (messages, None)
}

fuzz_target!(|bytes: &[u8]| {
    let [cut, side, stream @ ..] = bytes else { return };
    let (cut, full) = (usize::from(*cut).max(1), side & 2 != 0);
    if side & 1 == 0 {
        assert_eq!(drain::<FromClient>(stream, cut, full), drain::<FromClient>(stream, usize::MAX, full));
    } else {
        assert_eq!(drain::<FromServer>(stream, cut, full), drain::<FromServer>(stream, usize::MAX, full));
    }
});
