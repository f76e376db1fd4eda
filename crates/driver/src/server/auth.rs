//! Admission over TLS: the authority of the file system and the list of its identities, as rows of its table (drawn in
//! docs/formats/identity.md), and as ranks look at them. Not here: the rights of an identity once it is in, which the machines check.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use loligo_mds::{Grant, Identity, IdentityKey, Rights, Squash};
use loligo_store::{Backend, Durability};

use super::error::{Result, ServerError, system};
use super::format::now;
use super::is_name;
use super::membership::Seats;
use super::policy::Notes;
use super::rank::Done;
use crate::tls::{Authority, fingerprint, hex, unhex};

const AUTHORITY: &str = "auth/authority";
const IDENTITY: &str = "auth/identity/";
/// First lines of the notes.
const AUTHORITY_HEAD: &str = "loligo authority 1\n\n";
const IDENTITY_HEAD: &str = "loligo identity 2";
/// That of notes of before, which say nothing of users: such an identity acts for all.
const IDENTITY_HEAD_1: &str = "loligo identity 1";
/// Most identities of a file system.
const IDENTITIES_MAX: usize = 10_000;
/// Interval at which a process that runs ranks for another one looks whether the list has changed.
const LOOK: Duration = Duration::from_secs(1);

/// A line of the list of identities.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Number of its certificate, hexadecimal digits.
    pub serial: String,
    /// Its rights, and the paths that they count for.
    pub rights: Rights,
    /// When it was made, milliseconds since 1970.
    pub at_ms: u64,
    key: IdentityKey,
}

/// The list of identities, and TLS.
pub struct Auth {
    fs_id: [u8; 16],
    notes: Notes,
    /// As the table has it, by what they are known by.
    list: RwLock<BTreeMap<IdentityKey, Arc<Identity>>>,
    /// Held by whoever changes the list.
    changing: Mutex<()>,
    tls: OnceLock<Arc<rustls::ServerConfig>>,
}

/// Rights, for people.
fn said(rights: &Rights) -> String {
    match (rights.is_limited(), rights.is_read_only()) {
        (true, _) => rights.grants().iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        (false, true) => "read everything".into(),
        (false, false) => "read and write everything".into(),
    }
}

fn refused(text: String) -> ServerError {
    ServerError::Refused(text)
}

impl Auth {
    /// Reads the list.
    pub(crate) fn open(backend: &dyn Backend) -> Result<Arc<Auth>> {
        let auth = Auth {
            fs_id: backend.identity().fs_id,
            notes: Notes::new(backend.table()),
            list: RwLock::default(),
            changing: Mutex::default(),
            tls: OnceLock::new(),
        };
        auth.refresh()?;
        Ok(Arc::new(auth))
    }

    /// Makes what is needed to listen on TCP.
    pub(crate) fn prepare(&self) -> Result<()> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.tls.get().is_none() {
            let tls = self.authority()?.server().map_err(odd_authority)?;
            let _ = self.tls.set(tls);
        }
        Ok(())
    }

    /// The TLS configuration; none if TLS is off.
    pub(crate) fn tls(&self) -> Option<&Arc<rustls::ServerConfig>> {
        self.tls.get()
    }

    /// The authority, which is made if there is none.
    fn authority(&self) -> Result<Authority> {
        if let Some(note) = self.notes.get(AUTHORITY)? {
            let text =
                note.strip_prefix(AUTHORITY_HEAD).ok_or_else(|| odd_authority("its form is not known".into()))?;
            return Authority::read(self.fs_id, text).map_err(odd_authority);
        }
        let made = Authority::make(self.fs_id).map_err(odd_authority)?;
        self.notes.put(AUTHORITY.into(), AUTHORITY_HEAD.to_string() + &made.pem(), Durability::Sync)?;
        Ok(made)
    }

    /// The identity that is known by this.
    pub(crate) fn identity(&self, key: &IdentityKey) -> Option<Arc<Identity>> {
        self.list.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Fingerprints of all identities.
    pub(crate) fn keys(&self) -> BTreeSet<IdentityKey> {
        self.list.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// Reads the list again. Whether one is gone.
    fn refresh(&self) -> Result<bool> {
        let all: BTreeMap<_, _> = self.all()?.into_iter().map(|one| (one.key, Arc::new(one.identity()))).collect();
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let gone = list.keys().any(|key| !all.contains_key(key));
        *list = all;
        Ok(gone)
    }

    /// The list, by name.
    pub(crate) fn all(&self) -> Result<Vec<Listed>> {
        let parse = |(name, note): (String, String)| parse(&name, &note).ok_or_else(|| odd_identity(&name));
        self.notes.last(IDENTITY, usize::MAX)?.into_iter().map(parse).collect()
    }

    /// Makes an identity: its line, and the text of its file, which is kept nowhere.
    pub(crate) fn add(&self, name: &str, rights: Rights) -> Result<(Listed, String)> {
        if !is_name(name) {
            return Err(refused(format!(
                "an identity cannot be called {name:?}: use letters, digits, `_`, `-` and `.`, 64 at most"
            )));
        }
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let row = format!("{IDENTITY}{name}");
        if self.notes.get(&row)?.is_some() {
            let text =
                format!("there is an identity {name} already: take another name, or loligo auth revoke {name} first");
            return Err(refused(text));
        }
        if self.all()?.len() >= IDENTITIES_MAX {
            return Err(refused(format!("there are {IDENTITIES_MAX} identities, the most there can be: revoke some")));
        }
        let authority = self.authority()?;
        let issued = authority.issue_identity(name).map_err(odd_authority)?;
        let at_ms = u64::try_from(now().sec()).unwrap_or_default() * 1000;
        let key = fingerprint(&issued.certificate);
        let listed = Listed { name: name.into(), serial: issued.serial.clone(), rights, at_ms, key };
        self.notes.put(row, listed.note(), Durability::Sync)?;
        self.refresh()?;
        tracing::info!("identity {name} was made, which may {}", said(&listed.rights));
        Ok((listed, authority.file(name, &issued)))
    }

    /// Takes an identity off the list.
    pub(crate) fn revoke(&self, name: &str) -> Result<()> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let row = format!("{IDENTITY}{name}");
        if self.notes.get(&row)?.is_none() {
            return Err(refused(format!("there is no identity {name}: loligo auth list shows those that there are")));
        }
        self.notes.remove(&row)?;
        self.refresh()?;
        tracing::info!("identity {name} was revoked");
        Ok(())
    }

    /// Tells ranks that these identities are left.
    pub(super) fn tell(&self, seats: &Seats) {
        let left = Arc::new(self.keys());
        for seat in seats.lock().unwrap_or_else(PoisonError::into_inner).values() {
            seat.inbox.push(Done::Identities(left.clone()));
        }
    }

    /// Begins to look for changes of the list that other processes make.
    pub(super) fn begin_to_watch(self: &Arc<Auth>, seats: &Seats) -> Result<Watch> {
        let (stop, stopped) = channel();
        let (auth, seats) = (self.clone(), seats.clone());
        let watch = move || auth.watch(&seats, &stopped);
        let thread = thread::Builder::new().name("loligo-auth".into()).spawn(watch);
        Ok(Watch { stop: Some(stop), thread: Some(thread.map_err(system("starting a thread"))?) })
    }

    /// Until nobody has the other end of `stop`.
    fn watch(&self, seats: &Seats, stop: &Receiver<()>) {
        while stop.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            match self.refresh() {
                Ok(true) => self.tell(seats),
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "the list of identities could not be read"),
            }
        }
    }
}

/// The thread that looks for changes of the list; it ends with this, which waits for it: it may be in the store, and that is not to be
/// taken down under it.
pub(crate) struct Watch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that looks for identities panicked; this is a bug");
        }
    }
}

impl Listed {
    fn identity(&self) -> Identity {
        Identity { key: self.key, name: self.name.clone(), rights: self.rights.clone() }
    }

    fn note(&self) -> String {
        let Listed { serial, at_ms, key, .. } = self;
        let squash = self.rights.squash();
        let mut note =
            format!("{IDENTITY_HEAD}\ncertificate {}\nserial {serial}\nat {at_ms}\nsquash {squash}\n", hex(key));
        for grant in self.rights.grants() {
            // Of the whole file system as versions wrote it that knew no paths.
            let rights = if grant.write { "rw" } else { "r" };
            let alone = grant.path.is_empty() && self.rights.grants().len() == 1;
            note += &if alone { format!("rights {rights}\n") } else { format!("rights {grant}\n") };
        }
        note
    }
}

fn parse(name: &str, note: &str) -> Option<Listed> {
    let mut lines = note.lines();
    let is_old = match lines.next()? {
        IDENTITY_HEAD => false,
        IDENTITY_HEAD_1 => true,
        _ => return None,
    };
    let key = unhex(lines.next()?.strip_prefix("certificate ")?)?;
    let serial = lines.next()?.strip_prefix("serial ")?.into();
    let at_ms = lines.next()?.strip_prefix("at ")?.parse().ok()?;
    let squash = if is_old { Squash::None } else { lines.next()?.strip_prefix("squash ")?.parse().ok()? };
    // A limit that this version does not know must not count as none.
    let rights = lines.map(|line| line.strip_prefix("rights ")).collect::<Option<Vec<_>>>()?;
    let rights = match rights[..] {
        ["r"] => Rights::everywhere(false),
        ["rw"] => Rights::everywhere(true),
        _ => Rights::of(rights.iter().map(|text| text.parse::<Grant>()).collect::<std::result::Result<_, _>>().ok()?)
            .ok()?,
    };
    Some(Listed { name: name.into(), serial, rights: rights.squashing(squash), at_ms, key })
}

fn odd_identity(name: &str) -> ServerError {
    refused(format!("the row of the identity {name} makes no sense, or is of a newer version of loligo: use that one"))
}

fn odd_authority(cause: String) -> ServerError {
    refused(format!("the authority that signs certificates cannot be used: {cause}"))
}

#[cfg(test)]
mod tests {
    use loligo_store::mem::MemDisk;

    use super::*;

    fn open() -> (MemDisk, Arc<Auth>) {
        let disk = MemDisk::new(loligo_store::Identity::new([1; 16], [2; 16]));
        let auth = Auth::open(&*disk.open().expect("memory opens")).expect("an empty list");
        (disk, auth)
    }

    #[test]
    fn identities_are_listed_known_by_their_certificate_and_gone_when_revoked() {
        let (_disk, auth) = open();
        let (one, file) = auth.add("one", Rights::everywhere(true)).expect("there is room");
        let (two, other) = auth.add("two", Rights::everywhere(false)).expect("there is room");
        assert_eq!(auth.all().expect("a good list"), [one.clone(), two.clone()]);
        assert_ne!(file, other);
        let told = |key| auth.identity(key).map(|one| (one.name.clone(), one.rights.is_read_only()));
        assert_eq!(told(&one.key), Some(("one".into(), false)));
        assert_eq!(told(&two.key), Some(("two".into(), true)));
        assert!(auth.add("one", Rights::everywhere(false)).expect_err("it is there").to_string().contains("revoke"));
        assert!(auth.add("no/name", Rights::everywhere(false)).is_err());
        auth.revoke("one").expect("it is there");
        assert!(auth.identity(&one.key).is_none());
        assert!(auth.revoke("one").is_err());
        assert_eq!(auth.keys(), [two.key].into());
        let (again, _) = auth.add("one", Rights::everywhere(true)).expect("the name is free");
        assert_ne!(again.key, one.key, "who was revoked stays so");
    }

    #[test]
    fn a_file_is_an_identity_of_this_file_system_and_its_key_is_kept_nowhere() {
        let (_disk, auth) = open();
        let (_, file) = auth.add("one", Rights::everywhere(true)).expect("there is room");
        let identity = crate::Identity::parse(&file).expect("a good file");
        assert_eq!((identity.name(), identity.fs_id()), ("one", "01".repeat(16).as_str()));
        let key = file.split("PRIVATE KEY-----").nth(1).expect("a key");
        let row = auth.notes.get("auth/identity/one").expect("no error").expect("it is there");
        assert!(!row.contains(key) && !row.contains("PRIVATE"));
        for bad in ["", "x", "loligo identity 2\n", &file[..200], &file.replace("name one\n", "")] {
            assert!(crate::Identity::parse(bad).is_err(), "{bad}");
        }
        assert!(crate::Identity::parse("loligo identity 2\n").expect_err("newer").contains("newer"));
    }

    #[test]
    fn the_authority_is_made_once_and_another_process_sees_what_is_revoked() {
        let (_disk, auth) = open();
        auth.prepare().expect("an authority");
        let note = auth.notes.get(AUTHORITY).expect("no error").expect("it is kept");
        auth.add("one", Rights::everywhere(true)).expect("there is room");
        assert_eq!(auth.notes.get(AUTHORITY).expect("no error"), Some(note));
        let other = Auth {
            fs_id: auth.fs_id,
            notes: auth.notes.clone(),
            list: RwLock::default(),
            changing: Mutex::default(),
            tls: OnceLock::new(),
        };
        assert!(!other.refresh().expect("a good list"));
        assert_eq!(other.keys(), auth.keys());
        auth.revoke("one").expect("it is there");
        assert!(other.refresh().expect("a good list"));
        assert!(other.keys().is_empty());
    }

    #[test]
    fn the_row_of_an_identity_has_the_form_that_is_documented() {
        let of = |texts: &[&str]| Rights::of(texts.iter().map(|text| text.parse().expect("a right")).collect());
        let limited = of(&["rw:/build", "r:/"]).expect("good");
        for (rights, lines) in [
            (Rights::everywhere(true), "squash none\nrights rw\n"),
            (Rights::everywhere(false), "squash none\nrights r\n"),
            (Rights::everywhere(true).squashing(Squash::All), "squash all\nrights rw\n"),
            (limited.clone(), "squash root\nrights rw:/build\nrights r:/\n"),
            (limited.squashing(Squash::None), "squash none\nrights rw:/build\nrights r:/\n"),
        ] {
            let one = Listed { name: "one".into(), serial: "0a".into(), rights, at_ms: 7, key: [0xab; 32] };
            let head =
                |version| format!("loligo identity {version}\ncertificate {}\nserial 0a\nat 7\n", "ab".repeat(32));
            assert_eq!(one.note(), head(2) + lines);
            assert_eq!(parse("one", &one.note()), Some(one.clone()));
            // As the version before wrote it.
            let rights = &lines[lines.find("rights").expect("a right")..];
            let before = Listed { rights: one.rights.clone().squashing(Squash::None), ..one };
            assert_eq!(parse("one", &(head(1) + rights)), Some(before));
        }
    }

    #[test]
    fn rights_that_are_not_known_are_not_taken_for_others() {
        let (_disk, auth) = open();
        let (one, _) = auth.add("one", Rights::everywhere(false)).expect("there is room");
        let note = one.note();
        assert_eq!(parse("one", &note), Some(one));
        let bad = [
            note.clone() + "path /a\n",
            note.clone() + "rights rw\n",
            note.replace("rights r", "rights x"),
            note.replace("rights r", "rights r:a"),
            note.replace("rights r", "rights r:/a\nrights rw:/a"),
            note.replace("rights r\n", ""),
            note.replace("identity 2", "identity 3"),
            note.replace("identity 2", "identity 1"),
            note.replace("squash none\n", ""),
            note.replace("squash none", "squash other"),
        ];
        for bad in bad {
            assert_eq!(parse("one", &bad), None, "{bad}");
        }
    }
}
