//! Arbitrary bytes as a request to a served store, and as its answer: decoding never panics, and what it accepts is written
//! as the same bytes again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loligo_store_remote::{Answer, Request};

fuzz_target!(|bytes: &[u8]| {
    let mut out = Vec::new();
    if let Ok(request) = Request::decode(bytes) {
        request.encode(&mut out);
        assert_eq!(out, bytes);
    }
    if let Ok(answer) = Answer::decode(bytes) {
        out.clear();
        answer.encode(&mut out);
        assert_eq!(out, bytes);
    }
});
