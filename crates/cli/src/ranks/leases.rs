//! `loligo subtree lease` and `unlease`: for how long clients that ask by paths may go by where a directory is. Not where the policy is kept:
//! an xattr of the directory, which what is made in it gets, too.

use loligo_namespace::LOOKUP_LEASE;
use loligo_types::{FsError, LookupLease};

use super::attrs::Attrs;
use super::place;
use super::subtree::refused;
use crate::args::{Directory, Order};
use crate::output::{Failure, Outcome, say};

/// Allows them, and on the directories above as far as those say nothing: a path leads from the root on.
pub(super) fn lease(dir: &Directory, time: &str, order: Order) -> Outcome {
    let place = place::find(dir)?;
    let lease = LookupLease::named(time.as_bytes()).ok_or_else(|| {
        Failure::usage(format!("{time}: that is not how long a lookup lease can last"))
            .remedy("say 1ms to 1000ms (or 1s), depth, or rate; with \"alone\" behind it directories made in it do not have the same")
    })?;
    let attrs = Attrs::of(&place)?;
    let done = attrs.order(&place, LOOKUP_LEASE, Some(&lease.text()), order);
    done.map_err(|error| error.with(|error| refused(&place, error)))?;
    if order.dry_run {
        return Ok(());
    }
    let (mut closed, mut above) = (0, 0);
    for dir in attrs.above(&place)? {
        match dir.get(LOOKUP_LEASE) {
            Ok(text) if LookupLease::named(&text).is_some() => continue,
            Ok(_) | Err(FsError::NoData) => {}
            Err(error) => return Err(refused(&place, error)),
        }
        match dir.set(LOOKUP_LEASE, LookupLease { alone: true, ..lease }.text().as_bytes()) {
            Ok(()) => above += 1,
            Err(FsError::Perm | FsError::Access) => closed += 1,
            Err(error) => return Err(refused(&place, error)),
        }
    }
    if order.json {
        return Ok(());
    }
    say(format_args!(
        "where {} is, and what is made in it from now on, programs that ask by paths may know for {} without asking",
        place.name,
        length(lease)
    ));
    if above > 0 {
        say(format_args!("the same holds for {} above it, alone: a path leads from the root on", directories(above)));
    }
    if closed > 0 {
        say(format_args!(
            "not set for {} above it, of other owners: until they do the same, it is asked where paths lead",
            directories(closed)
        ));
    }
    Ok(())
}

/// Takes the policy away from one directory.
pub(super) fn unlease(dir: &Directory, order: Order) -> Outcome {
    let place = place::find(dir)?;
    let done = Attrs::of(&place)?.order(&place, LOOKUP_LEASE, None, order);
    done.map_err(|error| {
        error.with(|error| match error {
            FsError::NoData => Failure::new(format!("{} allows no lookup leases", place.name)),
            error => refused(&place, error),
        })
    })?;
    if !order.dry_run && !order.json {
        say(format_args!(
            "it is asked where {} is; directories in it and above it that say something else go on to",
            place.name
        ));
    }
    Ok(())
}

fn length(lease: LookupLease) -> String {
    match lease.time {
        loligo_types::LeaseTime::None => "no time".to_owned(),
        loligo_types::LeaseTime::Ms(ms) => format!("{ms} ms"),
        loligo_types::LeaseTime::Depth => "100 to 1000 ms, the longer the nearer the root,".to_owned(),
        loligo_types::LeaseTime::Rate => "up to 800 ms, the longer the less often it changes,".to_owned(),
    }
}

fn directories(count: u64) -> String {
    if count == 1 { "one directory".to_owned() } else { format!("{count} directories") }
}
