//! Extended attributes of a directory: over the mount that it was named in, as its owner may, without the server's sockets; else by the server. Not here: what
//! they mean.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use loligo_driver::client::Call;
use loligo_types::{Answer, FsError, Ino, Op, XattrMode};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use serde_json::json;

use super::place::{Asker, Place};
use super::subtree::refused;
use crate::args::Order;
use crate::mounts;
use crate::output::{Context, Failure, UNCHANGED, put};

/// Longest value that is read: those of directories are words and numbers.
const VALUE_MAX: usize = 4096;

/// First part of the names of all policies.
const PREFIX: &[u8] = b"loligo.policy.";

/// Why an order was not carried out, or not told.
pub enum Refused {
    /// The file system says no.
    Fs(FsError),
    /// It cannot be printed.
    Told(Failure),
}

impl Refused {
    /// As a failure; `why` makes one of the file system's answer.
    pub fn with(self, why: impl FnOnce(FsError) -> Failure) -> Failure {
        match self {
            Refused::Fs(error) => why(error),
            Refused::Told(failure) => failure,
        }
    }
}

/// Access to them.
pub enum Attrs {
    /// In a mount.
    Mounted(PathBuf),
    /// By a connection to the server.
    Served(Rc<Asker>, Ino),
}

impl Attrs {
    /// Of a directory. The server is asked where it lets this user in: it also knows what is above a mount.
    pub fn of(place: &Place) -> Result<Attrs, Failure> {
        match &place.mounted {
            Some(path) if place.found.is_closed() || place.found.admin.is_none() => Ok(Attrs::Mounted(path.clone())),
            _ => Ok(Attrs::Served(Rc::new(Asker::new(&place.found)?), place.ino)),
        }
    }

    /// Those of the directories above it, the nearest first, as far as they can be reached.
    pub fn above(&self, place: &Place) -> Result<Vec<Attrs>, Failure> {
        let mut all = Vec::new();
        match self {
            Attrs::Mounted(path) => {
                let path = path.canonicalize().context(|| place.name.clone())?;
                let top = mounts::over(&mounts::all()?, &path).map_or_else(|| "/".into(), |line| line.path);
                let above = path.ancestors().skip(1).take_while(|above| above.starts_with(&top));
                all.extend(above.map(|above| Attrs::Mounted(above.to_path_buf())));
            }
            Attrs::Served(asker, ino) => {
                let mut at = *ino;
                while at != Ino::ROOT {
                    let answer = asker.call(Call::Op(Op::LookupParent { dir: at }));
                    let answer = answer.map_err(|error| refused(place, error))?.answer;
                    let Some(attr) = answer.attr() else { break };
                    at = attr.ino;
                    all.push(Attrs::Served(asker.clone(), at));
                }
            }
        }
        Ok(all)
    }

    /// Sets a policy of the directory, or removes it, and prints what that changes; with `dry_run` it only prints. Where none is, none can be removed (`NoData`).
    pub fn order(&self, place: &Place, name: &[u8], to: Option<&str>, order: Order) -> Result<(), Refused> {
        let dry_run = order.dry_run;
        let from = match self.get(name) {
            Ok(text) => Some(String::from_utf8_lossy(&text).into_owned()),
            Err(FsError::NoData) if to.is_none() => return Err(Refused::Fs(FsError::NoData)),
            Err(FsError::NoData) => None,
            Err(error) => return Err(Refused::Fs(error)),
        };
        if !dry_run {
            match to {
                Some(to) => self.set(name, to.as_bytes()),
                None => self.remove(name),
            }
            .map_err(Refused::Fs)?;
        }
        let word = String::from_utf8_lossy(name.strip_prefix(PREFIX).unwrap_or(name));
        if order.json {
            let (directory, changed) = (&place.name, !dry_run);
            return put(json!({ "directory": directory, "policy": word, "from": from, "to": to, "changed": changed }))
                .map_err(Refused::Told);
        }
        let text = |value: Option<&str>| value.unwrap_or("none").to_string();
        put(format_args!("{}: {word}: {} -> {}", place.name, text(from.as_deref()), text(to)))
            .map_err(Refused::Told)?;
        if dry_run {
            put(UNCHANGED).map_err(Refused::Told)?;
        }
        Ok(())
    }

    /// Reads one.
    pub fn get(&self, name: &[u8]) -> Result<Vec<u8>, FsError> {
        match self {
            Attrs::Mounted(path) => {
                let mut value = vec![0; VALUE_MAX];
                let len = rustix::fs::getxattr(path, name, &mut value).map_err(error_of)?;
                value.truncate(len);
                Ok(value)
            }
            Attrs::Served(asker, ino) => {
                match asker.call(Call::Op(Op::GetXattr { ino: *ino, name: Arc::from(name) }))?.answer {
                    Answer::Bytes(value) => Ok(value.to_vec()),
                    _ => Err(FsError::Io),
                }
            }
        }
    }

    /// Sets one.
    pub fn set(&self, name: &[u8], value: &[u8]) -> Result<(), FsError> {
        match self {
            Attrs::Mounted(path) => rustix::fs::setxattr(path, name, value, XattrFlags::empty()).map_err(error_of),
            Attrs::Served(asker, ino) => {
                let (name, value) = (Arc::from(name), Arc::from(value));
                asker.call(Call::Op(Op::SetXattr { ino: *ino, name, value, mode: XattrMode::Set })).map(drop)
            }
        }
    }

    /// Removes one.
    pub fn remove(&self, name: &[u8]) -> Result<(), FsError> {
        match self {
            Attrs::Mounted(path) => rustix::fs::removexattr(path, name).map_err(error_of),
            Attrs::Served(asker, ino) => {
                asker.call(Call::Op(Op::RemoveXattr { ino: *ino, name: Arc::from(name) })).map(drop)
            }
        }
    }
}

/// The error of the server for one that the kernel gives of a mount.
fn error_of(error: Errno) -> FsError {
    match error {
        Errno::NODATA => FsError::NoData,
        Errno::ACCESS => FsError::Access,
        Errno::PERM => FsError::Perm,
        Errno::INVAL => FsError::Invalid,
        Errno::BUSY => FsError::Busy,
        Errno::NOENT => FsError::NotFound,
        Errno::ROFS => FsError::ReadOnly,
        Errno::NOSPC => FsError::NoSpace,
        Errno::OPNOTSUPP => FsError::NotSupported,
        _ => FsError::Io,
    }
}
