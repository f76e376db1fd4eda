//! `loligo subtree split` and `merge`: into how many fragments a directory is cut, by its policy of expected entries.

use std::sync::Arc;

use loligo_driver::client::Call;
use loligo_types::{Answer, Frag, FsError, Op, XattrMode};

use super::place::{self, Asker, Place};
use super::subtree::refused;
use crate::args::Directory;
use crate::output::{Failure, Outcome, human_count, put};

const EXPECTED: &[u8] = b"loligo.policy.expected_entries";
const FRAGS: &[u8] = b"loligo.dir.frags";
const FRAG_ENTRIES: &[u8] = b"loligo.dir.frag_entries";
/// As many bits more as a split without a number makes.
const MORE_BITS: u8 = 3;

/// Cuts a directory into 2^`bits` fragments, or finer than it is; it stays so until it is merged by hand.
pub fn split(dir: &Directory, bits: Option<u8>) -> Outcome {
    let place = place::find(dir)?;
    let asker = Asker::new(&place.found)?;
    let now = number(&asker, &place, FRAGS)?.max(1).ilog2() as u8;
    let bits = bits.unwrap_or((now + MORE_BITS).min(Frag::BITS_MAX));
    // As many as just do not fit into fewer.
    let entries = match bits {
        0 => 1,
        bits => (number(&asker, &place, FRAG_ENTRIES)? << (bits - 1)) + 1,
    };
    expect(&asker, &place, entries)?;
    told(&asker, &place)
}

/// Cuts a directory into as few fragments as its entries allow, and lets it be cut by their number from then on.
pub fn merge(dir: &Directory) -> Outcome {
    let place = place::find(dir)?;
    let asker = Asker::new(&place.found)?;
    // Also where no policy is set, so that there is one to be removed.
    expect(&asker, &place, 1)?;
    let remove = Op::RemoveXattr { ino: place.ino, name: Arc::from(EXPECTED) };
    match asker.call(Call::Op(remove)) {
        // Somebody else was faster.
        Ok(_) | Err(FsError::NoData) => told(&asker, &place),
        Err(error) => Err(refused(&place, error)),
    }
}

fn expect(asker: &Asker, place: &Place, entries: u64) -> Result<(), Failure> {
    let value = Arc::from(entries.to_string().into_bytes());
    let set = Op::SetXattr { ino: place.ino, name: Arc::from(EXPECTED), value, mode: XattrMode::Set };
    match asker.call(Call::Op(set)) {
        Ok(_) => Ok(()),
        Err(FsError::Invalid) => Err(Failure::new(format!(
            "{}: so many fragments are for {} entries, more than a directory is ever expected to have",
            place.name,
            human_count(entries)
        ))
        .remedy("give a smaller number of bits")),
        Err(error) => Err(refused(place, error)),
    }
}

fn number(asker: &Asker, place: &Place, name: &[u8]) -> Result<u64, Failure> {
    let answer = asker.call(Call::Op(Op::GetXattr { ino: place.ino, name: Arc::from(name) }));
    match answer.map_err(|error| refused(place, error))?.answer {
        Answer::Bytes(text) => std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()),
        _ => None,
    }
    .ok_or_else(|| Failure::new(format!("{}: the server does not tell its fragments as a number", place.name)))
}

fn told(asker: &Asker, place: &Place) -> Outcome {
    put(format_args!("{} has {} fragments", place.name, human_count(number(asker, place, FRAGS)?)))
}
