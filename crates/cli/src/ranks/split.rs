//! `loligo subtree split` and `unsplit`: into how many fragments a directory is cut, by its policy of expected entries.

use loligo_types::{Frag, FsError};
use serde_json::json;

use super::attrs::Attrs;
use super::place::{self, Place};
use super::subtree::refused;
use crate::args::{Directory, Order};
use crate::output::{Failure, Outcome, UNCHANGED, counted, human_count, put};

const EXPECTED: &[u8] = b"loligo.policy.expected_entries";
const FRAGS: &[u8] = b"loligo.dir.frags";
const FRAG_ENTRIES: &[u8] = b"loligo.dir.frag_entries";
/// As many bits more as a split without a number makes.
const MORE_BITS: u8 = 3;

/// Cuts a directory into 2^`bits` fragments, or finer than it is; it stays so until it is taken back by hand (`unsplit`).
pub fn split(dir: &Directory, bits: Option<u8>, order: Order) -> Outcome {
    let place = place::find(dir)?;
    let attrs = Attrs::of(&place)?;
    let before = number(&attrs, &place, FRAGS)?;
    let bits = bits.unwrap_or((before.max(1).ilog2() as u8 + MORE_BITS).min(Frag::BITS_MAX));
    // As many as just do not fit into fewer.
    let entries = match bits {
        0 => 1,
        bits => (number(&attrs, &place, FRAG_ENTRIES)? << (bits - 1)) + 1,
    };
    if order.dry_run {
        return would(&place, before, &Then::AtLeast(1 << bits), order);
    }
    expect(&attrs, &place, entries)?;
    told(&attrs, &place, before, order)
}

/// Cuts a directory into as few fragments as its entries allow, and lets it be cut by their number from then on.
pub fn unsplit(dir: &Directory, order: Order) -> Outcome {
    let place = place::find(dir)?;
    let attrs = Attrs::of(&place)?;
    let before = number(&attrs, &place, FRAGS)?;
    if order.dry_run {
        return would(&place, before, &Then::Fewest, order);
    }
    // Also where no policy is set, so that there is one to be removed.
    expect(&attrs, &place, 1)?;
    match attrs.remove(EXPECTED) {
        // Somebody else was faster.
        Ok(()) | Err(FsError::NoData) => told(&attrs, &place, before, order),
        Err(error) => Err(refused(&place, error)),
    }
}

/// Fragments after an order.
enum Then {
    AtLeast(u64),
    Fewest,
}

/// Prints what would change.
fn would(place: &Place, before: u64, then: &Then, order: Order) -> Outcome {
    if order.json {
        let to = match then {
            Then::AtLeast(count) => Some(*count),
            Then::Fewest => None,
        };
        return put(json!({ "directory": place.name, "from": before, "to": to, "changed": false }));
    }
    let then = match then {
        Then::AtLeast(count) => format!("{}, or more if its entries need them", human_count(*count)),
        Then::Fewest => "as few as its entries allow".to_string(),
    };
    put(format_args!("{}: {} -> {then}\n{UNCHANGED}", place.name, counted(before, "fragment")))
}

fn expect(attrs: &Attrs, place: &Place, entries: u64) -> Result<(), Failure> {
    match attrs.set(EXPECTED, entries.to_string().as_bytes()) {
        Ok(()) => Ok(()),
        Err(FsError::Invalid) => Err(Failure::new(format!(
            "{}: so many fragments are for {} entries, more than a directory is ever expected to have",
            place.name,
            human_count(entries)
        ))
        .remedy("give a smaller number of bits")),
        Err(error) => Err(refused(place, error)),
    }
}

fn number(attrs: &Attrs, place: &Place, name: &[u8]) -> Result<u64, Failure> {
    let text = attrs.get(name).map_err(|error| refused(place, error))?;
    let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Failure::new(format!("{}: the server does not tell its fragments as a number", place.name)))
}

fn told(attrs: &Attrs, place: &Place, before: u64, order: Order) -> Outcome {
    let now = number(attrs, place, FRAGS)?;
    match order.json {
        true => put(json!({ "directory": place.name, "from": before, "to": now, "changed": now != before })),
        false => put(format_args!("{}: {} -> {}", place.name, counted(before, "fragment"), human_count(now))),
    }
}
