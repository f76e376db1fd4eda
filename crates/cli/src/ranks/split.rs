//! `loligo subtree split` and `merge`: into how many fragments a directory is cut, by its policy of expected entries.

use loligo_types::{Frag, FsError};

use super::attrs::{Attrs, Refused};
use super::place::{self, Place};
use super::subtree::refused;
use crate::args::Directory;
use crate::output::{Failure, Outcome, counted, human_count, put};

const EXPECTED: &[u8] = b"loligo.policy.expected_entries";
const FRAGS: &[u8] = b"loligo.dir.frags";
const FRAG_ENTRIES: &[u8] = b"loligo.dir.frag_entries";
/// As many bits more as a split without a number makes.
const MORE_BITS: u8 = 3;

/// Cuts a directory into 2^`bits` fragments, or finer than it is; it stays so until it is merged by hand.
pub fn split(dir: &Directory, bits: Option<u8>, dry_run: bool) -> Outcome {
    let place = place::find(dir)?;
    let attrs = Attrs::of(&place)?;
    let now = number(&attrs, &place, FRAGS)?.max(1).ilog2() as u8;
    let bits = bits.unwrap_or((now + MORE_BITS).min(Frag::BITS_MAX));
    // As many as just do not fit into fewer.
    let entries = match bits {
        0 => 1,
        bits => (number(&attrs, &place, FRAG_ENTRIES)? << (bits - 1)) + 1,
    };
    if dry_run {
        let count = number(&attrs, &place, FRAGS)?;
        let then = human_count(1 << bits);
        put(format_args!(
            "{}: {} -> {then}, or more if its entries need them",
            place.name,
            counted(count, "fragment")
        ))?;
        let ordered = attrs.order(&place, EXPECTED, Some(&entries.to_string()), true);
        return ordered.map_err(|error| error.with(|error| refused(&place, error)));
    }
    expect(&attrs, &place, entries)?;
    told(&attrs, &place)
}

/// Cuts a directory into as few fragments as its entries allow, and lets it be cut by their number from then on.
pub fn merge(dir: &Directory, dry_run: bool) -> Outcome {
    let place = place::find(dir)?;
    let attrs = Attrs::of(&place)?;
    if dry_run {
        let now = number(&attrs, &place, FRAGS)?;
        put(format_args!("{}: {} -> as few as its entries allow", place.name, counted(now, "fragment")))?;
        return match attrs.order(&place, EXPECTED, None, true) {
            Err(Refused::Fs(FsError::NoData)) => put("nothing was changed: without --dry-run it is"),
            ordered => ordered.map_err(|error| error.with(|error| refused(&place, error))),
        };
    }
    // Also where no policy is set, so that there is one to be removed.
    expect(&attrs, &place, 1)?;
    match attrs.remove(EXPECTED) {
        // Somebody else was faster.
        Ok(()) | Err(FsError::NoData) => told(&attrs, &place),
        Err(error) => Err(refused(&place, error)),
    }
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

fn told(attrs: &Attrs, place: &Place) -> Outcome {
    put(format_args!("{} has {}", place.name, counted(number(attrs, place, FRAGS)?, "fragment")))
}
