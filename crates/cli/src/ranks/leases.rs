//! `loligo subtree lease` and `unlease`: for how long clients that ask by paths may go by where a directory is. Not where the policy is kept:
//! an xattr of the directory, which what is made in it gets, too.

use std::sync::Arc;

use loligo_driver::client::Call;
use loligo_namespace::LOOKUP_LEASE;
use loligo_types::{Answer, FsError, Ino, LookupLease, Op, XattrMode};

use super::place::{self, Asker};
use super::subtree::refused;
use crate::args::Directory;
use crate::output::{Failure, Outcome, say};

/// Allows them, and on the directories above as far as those say nothing: a path leads from the root on.
pub(super) fn lease(dir: &Directory, time: &str) -> Outcome {
    let place = place::find(dir)?;
    let lease = LookupLease::named(time.as_bytes()).ok_or_else(|| {
        Failure::usage(format!("{time}: that is not how long a lookup lease can last"))
            .remedy("say 1ms to 1000ms (or 1s), depth, or rate; with \"alone\" behind it directories made in it do not have the same")
    })?;
    let asker = Asker::new(&place.found)?;
    set(&asker, place.ino, lease).map_err(|error| refused(&place, error))?;
    let mut closed = 0;
    let mut above = Vec::new();
    let mut at = place.ino;
    while at != Ino::ROOT {
        let parent = Op::LookupParent { dir: at };
        let answer = asker.call(Call::Op(parent)).map_err(|error| refused(&place, error))?.answer;
        let Some(attr) = answer.attr() else { break };
        at = attr.ino;
        if of(&asker, at).map_err(|error| refused(&place, error))?.is_some() {
            continue;
        }
        match set(&asker, at, LookupLease { alone: true, ..lease }) {
            Ok(()) => above.push(at),
            Err(FsError::Perm | FsError::Access) => closed += 1,
            Err(error) => return Err(refused(&place, error)),
        }
    }
    say(format_args!(
        "where {} is, and what is made in it from now on, programs that ask by paths may know for {} without asking",
        place.name,
        length(lease)
    ));
    if !above.is_empty() {
        say(format_args!(
            "the same holds for {} above it, alone: a path leads from the root on",
            directories(above.len())
        ));
    }
    if closed > 0 {
        say(format_args!(
            "{} above it say nothing, and are not yours: until their owners do the same, it is asked where paths lead",
            directories(closed)
        ));
    }
    Ok(())
}

/// Takes the policy away from one directory.
pub(super) fn unlease(dir: &Directory) -> Outcome {
    let place = place::find(dir)?;
    let asker = Asker::new(&place.found)?;
    match asker.call(Call::Op(Op::RemoveXattr { ino: place.ino, name: Arc::from(LOOKUP_LEASE) })) {
        Ok(_) => say(format_args!(
            "it is asked where {} is; directories in it and above it that say something else go on to",
            place.name
        )),
        Err(FsError::NoData) => return Err(Failure::new(format!("{} allows no lookup leases", place.name))),
        Err(error) => return Err(refused(&place, error)),
    }
    Ok(())
}

fn set(asker: &Asker, ino: Ino, lease: LookupLease) -> Result<(), FsError> {
    let value: Arc<[u8]> = lease.text().into_bytes().into();
    asker.call(Call::Op(Op::SetXattr { ino, name: Arc::from(LOOKUP_LEASE), value, mode: XattrMode::Set })).map(drop)
}

fn of(asker: &Asker, ino: Ino) -> Result<Option<LookupLease>, FsError> {
    match asker.call(Call::Op(Op::GetXattr { ino, name: Arc::from(LOOKUP_LEASE) })) {
        Ok(done) => Ok(match &done.answer {
            Answer::Bytes(text) => LookupLease::named(text),
            _ => None,
        }),
        Err(FsError::NoData) => Ok(None),
        Err(error) => Err(error),
    }
}

fn length(lease: LookupLease) -> String {
    match lease.time {
        loligo_types::LeaseTime::None => "no time".to_owned(),
        loligo_types::LeaseTime::Ms(ms) => format!("{ms} ms"),
        loligo_types::LeaseTime::Depth => "100 to 1000 ms, the longer the nearer the root,".to_owned(),
        loligo_types::LeaseTime::Rate => "up to 800 ms, the longer the less often it changes,".to_owned(),
    }
}

fn directories(count: usize) -> String {
    if count == 1 { "one directory".to_owned() } else { format!("{count} directories") }
}
