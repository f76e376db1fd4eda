//! A row of the metadata table from arbitrary bytes: an error or a row, never a panic; and what was decoded is encoded
//! to a row that decodes to the same. The first byte says how many of the others are the key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loligo_journal::table;

fuzz_target!(|bytes: &[u8]| {
    let Some((length, rest)) = bytes.split_first() else { return };
    let (key, value) = rest.split_at(usize::from(*length).min(rest.len()));
    if let Ok(row) = table::decode_row(key, value) {
        let (again, value) = row.encode();
        assert_eq!(again, key, "a key has one form");
        assert_eq!(table::decode_row(&again, &value).expect("what was just encoded"), row);
    }
});
