//! A directory that a command is about: given by its path in a mount or in the file system, found as an inode of a
//! server; and back from inodes to paths.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use loligo_driver::Address;
use loligo_driver::client::{Call, Client, Done, Options};
use loligo_types::{Answer, Attr, Cred, DirEntry, Frag, FsError, Ino, Op, OpenFlags};

use crate::args::Directory;
use crate::look::ask;
use crate::output::{Context, Failure, quoted};
use crate::service::admin::doc::{StatusDoc, SubtreeDoc};
use crate::target::{self, Found};

/// The name of a session that only asks.
const NAME: &str = "loligo subtree";
/// Time limit for the end of a connection that asked for little.
const GOODBYE: Duration = Duration::from_secs(5);
/// The time that a server without ranks gets to learn where the ranks are.
const DOORS_WAIT: Duration = Duration::from_secs(10);
/// Interval at which the server is asked for them meanwhile.
const DOORS_LOOK: Duration = Duration::from_millis(50);
/// Entries asked for at a time.
const ENTRIES: u32 = 1000;
/// Deeper than any path that a system call takes.
const DEPTH_MAX: usize = 2048;

/// A directory at a server.
pub struct Place {
    /// The server.
    pub found: Found,
    /// The directory.
    pub ino: Ino,
    /// As the user named it.
    pub name: String,
    /// The path, if it is one in a mount.
    pub mounted: Option<PathBuf>,
}

/// A connection in the name of whoever runs the command.
pub struct Asker {
    client: Client,
    cred: Arc<Cred>,
}

impl Drop for Asker {
    fn drop(&mut self) {
        // Nothing was written; a server that does not answer has said so before.
        let _ = self.client.stop(GOODBYE);
    }
}

/// Finds the directory, and the server that it is at.
pub fn find(dir: &Directory) -> Result<Place, Failure> {
    let name = dir.path.display().to_string();
    let Some(found) = server(dir)? else { return in_mount(&dir.path, name) };
    let attr = Asker::new(&found)?.stat(&dir.path).context(|| name.clone())?;
    if attr.kind != loligo_types::Kind::Dir {
        return Err(no_directory(&name));
    }
    Ok(Place { found, ino: attr.ino, name, mounted: None })
}

/// The server that is named, if one is and the path is one in the file system: not if it is one in a mount of that server.
pub fn server(dir: &Directory) -> Result<Option<Found>, Failure> {
    target::agree(dir.data.as_deref(), dir.server.as_deref())?;
    let found = match (&dir.data, &dir.server) {
        (Some(data), _) => target::by_data(data)?,
        (None, Some(server)) => target::by_address(server)?,
        (None, None) => return Ok(None),
    };
    if let Some(mounted) = target::served_by(&dir.path)? {
        if target::is_same(&target::by_mount(&mounted)?, &found) {
            return Ok(None);
        }
        if !dir.path.is_absolute() {
            return Err(Failure::usage(format!("{} is in a mount of another server", dir.path.display()))
                .remedy("leave --data and --server out"));
        }
    }
    let name = dir.path.display();
    if !dir.path.is_absolute() {
        return Err(Failure::usage(format!("{name}: with --data or --server this is a path in the file system"))
            .remedy(format!("begin it with a slash: /{name}")));
    }
    Ok(Some(found))
}

/// The address of the server whose mount holds a path; a failure if none does.
pub fn in_a_mount(path: &Path) -> Result<String, Failure> {
    target::served_by(path)?.ok_or_else(|| {
        Failure::new(format!("{} is not inside a Loligo mount", path.display()))
            .remedy("give a directory inside one, or --data DIR and the path in the file system, such as /a")
    })
}

fn in_mount(path: &Path, name: String) -> Result<Place, Failure> {
    let server = in_a_mount(path)?;
    let meta = std::fs::metadata(path).context(|| name.clone())?;
    if !meta.is_dir() {
        return Err(no_directory(&name));
    }
    let mounted = Some(path.to_path_buf());
    Ok(Place { found: target::by_mount(&server)?, ino: Ino(meta.ino()), name, mounted })
}

/// The rank that is likely to have the directory: that of the nearest line of the subtree map above it.
pub fn authority(place: &Place) -> Result<u16, Failure> {
    let routes: Vec<SubtreeDoc> = ask::json(&place.found, "/api/v1/subtrees")?;
    if routes.is_empty() {
        return Ok(0);
    }
    let whole = Frag::WHOLE.to_string();
    let asker = Asker::new(&place.found)?;
    let mut at = place.ino;
    for _ in 0..DEPTH_MAX {
        if let Some(route) = routes.iter().find(|route| route.dir == at.0 && route.frag == whole) {
            return Ok(route.rank);
        }
        if let Some(rank) = at.zeroth_rank() {
            return Ok(rank.0);
        }
        if at == Ino::ROOT {
            break;
        }
        at = asker.parent(at).context(|| format!("what is above {}", place.name))?;
    }
    Ok(0)
}

/// The failure for a path that is no directory.
pub fn no_directory(name: &str) -> Failure {
    Failure::new(format!("{name} is no directory")).remedy("name a directory: what is below it goes with it")
}

/// Over the network with the identity that the environment names, as a mount has it. `name`: what the server calls the command.
pub fn connect(address: &Address, name: &str) -> Result<Client, Failure> {
    let identity = crate::auth::read(&std::env::var("LOLIGO_IDENTITY").unwrap_or_default())?;
    let options = Options { name: name.into(), identity, ..Options::default() };
    Client::connect(address, options).map_err(|error| Failure::new(error.to_string()))
}

/// Where ranks of other servers let clients in: one that runs none does not, and knows who does. Those of this machine, where we are known,
/// first.
fn doors(found: &Found) -> Result<Vec<Address>, Failure> {
    let status: StatusDoc = ask::json(found, "/api/v1/status")?;
    let addresses: Vec<Address> =
        status.ranks.iter().flat_map(|rank| &rank.addresses).filter_map(|address| address.parse().ok()).collect();
    let (here, far): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| matches!(address, Address::Unix(_)));
    Ok(here.into_iter().chain(far).collect())
}

/// A connection to a rank of another server.
fn elsewhere(found: &Found) -> Option<Client> {
    doors(found).ok()?.iter().find_map(|address| connect(address, NAME).ok())
}

/// A server of this machine as a client comes to it: where it runs no rank, at those that do. One that has just begun learns the
/// addresses from the table of the ranks, so it is asked for a while. A failure if it is gone, or still names none.
pub fn let_in(found: Found) -> Result<Found, Failure> {
    let (Some(data), Some(Address::Unix(socket)), Some(_)) = (&found.data, &found.address, &found.state) else {
        return Ok(found);
    };
    let closed = |error: &std::io::Error| {
        matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused)
    };
    let until = Instant::now() + DOORS_WAIT;
    let mut all = loop {
        if !UnixStream::connect(socket).is_err_and(|error| closed(&error)) {
            return Ok(found);
        }
        let all = doors(&found)?;
        if !all.is_empty() {
            break all;
        }
        if Instant::now() >= until {
            return Err(Failure::new(format!(
                "the server of {} runs no rank, and names no rank of another server for {} s",
                data.display(),
                DOORS_WAIT.as_secs()
            ))
            .remedy(format!("loligo status --data {} says what it waits for", quoted(data))));
        }
        std::thread::sleep(DOORS_LOOK);
    };
    // It may have the ranks some day.
    all.push(Address::Unix(socket.clone()));
    Ok(Found { address: Some(Address::Any(all.into())), ..found })
}

/// Credentials of the user who runs the command.
pub fn whoever_asks() -> Result<Cred, Failure> {
    let mut groups: Vec<u32> =
        rustix::process::getgroups().context(|| "this user's groups".into())?.iter().map(|g| g.as_raw()).collect();
    groups.sort_unstable();
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Ok(Cred { uid, gid, groups })
}

impl Asker {
    /// Connects.
    pub fn new(found: &Found) -> Result<Asker, Failure> {
        let client = match connect(found.address()?, NAME) {
            Ok(client) => client,
            Err(failure) => elsewhere(found).ok_or(failure)?,
        };
        Ok(Asker { client, cred: Arc::new(whoever_asks()?) })
    }

    /// Makes one call.
    pub fn call(&self, call: Call) -> Result<Done, FsError> {
        self.client.call(&self.cred, call).map_err(|failed| failed.error)
    }

    /// Attributes of a path in the file system, through symbolic links.
    pub fn stat(&self, path: &Path) -> Result<Attr, FsError> {
        self.client.fs(self.cred.clone()).stat(path)
    }

    /// The directory that holds a directory, or, for root alone, anything else.
    pub fn parent(&self, dir: Ino) -> Result<Ino, FsError> {
        match self.call(Call::Op(Op::LookupParent { dir }))?.answer {
            Answer::Entry(attr) => Ok(attr.ino),
            Answer::Remote { ino, .. } => Ok(ino),
            _ => Err(FsError::Io),
        }
    }

    /// The path of an inode in the file system, of a file with several names one of them; `None` if it has none, or none that this user may see.
    pub fn path_of(&self, dir: Ino) -> Option<PathBuf> {
        let mut names = Vec::new();
        let mut at = dir;
        while at != Ino::ROOT {
            let up = self.parent(at).ok()?;
            names.push(self.name_in(up, at).ok()??);
            at = up;
            if names.len() > DEPTH_MAX {
                return None;
            }
        }
        let mut path = PathBuf::from("/");
        path.extend(names.iter().rev().map(|name| Path::new(std::ffi::OsStr::from_bytes(name))));
        Some(path)
    }

    /// The name of an inode in its directory.
    fn name_in(&self, dir: Ino, ino: Ino) -> Result<Option<Vec<u8>>, FsError> {
        let mut name = None;
        self.list(dir, |entry| {
            name = (entry.ino == ino).then(|| entry.name.as_bytes().to_vec());
            name.is_none()
        })?;
        Ok(name)
    }

    /// Looks at the entries of a directory, as long as that wants more.
    pub fn list(&self, dir: Ino, mut more: impl FnMut(&DirEntry) -> bool) -> Result<(), FsError> {
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let fh = self.call(Call::Open { ino: dir, flags })?.fh.ok_or(FsError::Io)?;
        let mut cookie = 0;
        let listed = loop {
            match self.call(Call::Readdir { fh, cookie, limit: ENTRIES, plus: false }) {
                Ok(Done { answer: Answer::Entries { entries, next, end }, .. }) => {
                    if !entries.iter().all(&mut more) || end || next <= cookie {
                        break Ok(());
                    }
                    cookie = next;
                }
                Ok(_) => break Err(FsError::Io),
                Err(error) => break Err(error),
            }
        };
        self.call(Call::Release { fh, flock_owner: None })?;
        listed
    }
}
