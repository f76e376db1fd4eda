//! A bug that must be found: if the fuzzer misses it, it steers blindly, and its silence about the others means nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // Byte by byte, so that only feedback from coverage leads there: by chance it takes 2^40 tries.
    let mut matched = 0;
    for (byte, expected) in bytes.iter().zip(b"squid") {
        if byte != expected {
            return;
        }
        matched += 1;
    }
    assert!(matched < 5, "the canary was found, as it must be");
});
