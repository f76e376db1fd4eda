//! Arbitrary bytes as the policy of a subtree: reading them never panics; what is wrong is at a place in the text, and what is
//! right reads back from its canonical text as the same policy.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loligo_semantics::{Composition, SubtreePolicy};

fuzz_target!(|bytes: &[u8]| {
    let _ = Composition::parse(&String::from_utf8_lossy(bytes));
    match SubtreePolicy::parse_bytes(bytes) {
        Ok(policy) => {
            let text = policy.to_text();
            assert!(text.len() <= loligo_semantics::policy::LEN_MAX);
            assert_eq!(SubtreePolicy::parse(&text).expect("it is canonical"), policy);
        }
        Err(fault) => {
            assert!(fault.offset <= bytes.len());
            assert_eq!(fault.caret().lines().count(), 2);
        }
    }
});
