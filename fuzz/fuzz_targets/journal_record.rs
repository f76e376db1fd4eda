//! The body of a journal record from arbitrary bytes: an error or a record, never a panic; and what was decoded is
//! encoded to bytes that decode to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loligo_journal::{decode_record, encode_record};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(record) = decode_record(bytes) {
        let mut again = Vec::new();
        encode_record(&mut again, record.origin.as_ref(), &record.events);
        assert_eq!(decode_record(&again).expect("what was just encoded"), record);
    }
});
