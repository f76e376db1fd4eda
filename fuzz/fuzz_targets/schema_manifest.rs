//! A manifest from arbitrary bytes: a named fault or entries, never a panic. The first byte says if the bytes are a manifest as they are, or if the
//! checksums of the trailer, the content and one block are made right first, so that what is behind them is reached.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loligo_schema::manifest::{Fault, Reader};

const TRAILER: usize = 88;

/// Makes the checksums right of the bytes from 16 to `end`, as one block, of all before the trailer, and of the trailer.
fn seal(bytes: &mut [u8], end: usize) {
    let Some(trailer) = bytes.len().checked_sub(TRAILER).filter(|trailer| *trailer >= 20) else { return };
    let end = 16 + end % (trailer - 19);
    let block = crc32c::crc32c(&bytes[16..end]).to_le_bytes();
    bytes[end..end + 4].copy_from_slice(&block);
    let content = crc32c::crc32c(&bytes[..trailer]).to_le_bytes();
    bytes[trailer + 76..trailer + 80].copy_from_slice(&content);
    let own = crc32c::crc32c(&bytes[trailer..trailer + 84]).to_le_bytes();
    bytes[trailer + 84..].copy_from_slice(&own);
}

fuzz_target!(|bytes: &[u8]| {
    let [how, bytes @ ..] = bytes else { return };
    let mut bytes = bytes.to_vec();
    if let Some(end) = usize::from(*how).checked_sub(1) {
        seal(&mut bytes, end);
    }
    let mut reader = match Reader::open(&bytes, bytes.len() as u64, 1 << 20) {
        Ok(reader) => reader,
        Err(fault) => return assert!(!fault.to_string().is_empty()),
    };
    let mut items = Vec::new();
    let result = reader.check(|item| items.push(item.clone()));
    let mut look = || -> Result<(), Fault> {
        for number in 0..32 {
            reader.entry(number)?;
            reader.list(number, 0, 64)?;
            reader.child(number, b"a.jpg")?;
        }
        Ok(())
    };
    let looked = look();
    if let Err(fault) = result {
        return assert!(!fault.to_string().is_empty());
    }
    looked.expect("what was checked can be read");
    for item in items {
        assert_eq!(reader.item(item.index).as_ref(), Ok(&Some(item.clone())));
        assert_eq!(reader.child(item.parent, &item.name), Ok(Some(item)));
    }
});
