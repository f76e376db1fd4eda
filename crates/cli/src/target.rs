//! Finding a server: by its data directory, its address, a path inside a mount, or LOLIGO_SERVER.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use loligo_driver::Address;

use crate::args::Target;
use crate::at::Store;
use crate::mounts;
use crate::output::{Context, Failure, quoted};
use crate::service::format;
use crate::service::state::ServerState;

/// Where a server answers questions about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Admin {
    /// A socket in its data directory.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
}

/// A server that was found.
#[derive(Debug)]
pub struct Found {
    /// Data directory, if it is on this machine and known.
    pub data: Option<PathBuf>,
    /// Where clients connect, if that is known.
    pub address: Option<Address>,
    /// Where it tells about itself, if that is known.
    pub admin: Option<Admin>,
    /// State that it wrote when it started, if that is known.
    pub state: Option<ServerState>,
}

impl Found {
    /// The option that names this server in a command for the user, with a space before it; empty if there is none.
    pub fn option(&self) -> String {
        match (&self.data, &self.address) {
            (Some(data), _) => format!(" --data {}", quoted(data)),
            (None, Some(address)) => format!(" --server {address}"),
            (None, None) => String::new(),
        }
    }

    /// True if the server answers questions to others only, as its data directory is closed to this user.
    pub fn is_closed(&self) -> bool {
        let Some(Admin::Unix(socket)) = &self.admin else { return false };
        rustix::fs::access(socket, rustix::fs::Access::WRITE_OK) == Err(rustix::io::Errno::ACCESS)
    }

    /// Where clients connect.
    pub fn address(&self) -> Result<&Address, Failure> {
        self.address.as_ref().ok_or_else(|| {
            Failure::usage("this is an admin address, where no client can connect")
                .remedy("give --data DIR, or the HOST:PORT or socket that the server listens on")
        })
    }

    /// Where it tells about itself.
    pub fn admin(&self) -> Result<&Admin, Failure> {
        self.admin.as_ref().ok_or_else(|| {
            let at = self.address.as_ref().map(|address| format!(" {address}")).unwrap_or_default();
            Failure::new(format!("the address{at} is for clients, and does not name the admin plane of the server, which this needs"))
            .remedy(
                "on the server's machine give --data DIR. It tells other machines nothing; through a tunnel to the loopback address that its setting \
                 `admin` names (ssh -L) give --server http://127.0.0.1:PORT, and LOLIGO_ADMIN_TOKEN=FILE with a copy of its admin.token",
            )
        })
    }
}

/// The option that names the server of a mount in a command for the user, outside of the mount; `server`: as the device of the mount is named.
pub fn option_of(server: Option<&str>) -> String {
    let address = server.unwrap_or("ADDR");
    match Path::new(address.strip_prefix("unix:").unwrap_or(address)) {
        data if data.is_dir() => format!("--data {}", quoted(data)),
        socket if socket.ends_with(SOCKET) => format!("--data {}", quoted(socket.parent().unwrap_or(Path::new(".")))),
        _ => format!("--server {}", quoted(Path::new(address))),
    }
}

/// Finds the server meant by the arguments. Each may name one; several have to name the same.
pub fn find(target: &Target) -> Result<Found, Failure> {
    let told = named(target.server.as_deref());
    // A value of the environment counts only where the command line says nothing.
    let (server, ambient) = if told == of_environment().as_deref() { (None, told) } else { (told, None) };
    let of_data = target.data.as_deref().map(|data| (format!("--data {}", quoted(data)), by_data(data)));
    let of_path = target.path.as_deref().map(|path| (quoted(path), by_path(path)));
    let of_server = server.map(|server| (format!("--server {server}"), by_address(server)));
    let mut all = [of_data, of_path, of_server].into_iter().flatten();
    let Some((first, found)) = all.next() else {
        return ambient.map_or_else(|| Err(none_named()), by_address);
    };
    let found = found?;
    for (other, another) in all {
        // One that is not there is not the same.
        if !another.is_ok_and(|another| is_same(&found, &another)) {
            return Err(Failure::usage(format!("{first} and {other} name two servers")).remedy("leave one of them out"));
        }
    }
    Ok(found)
}

/// Refuses two names of a server that do not name the same one.
pub fn agree(data: Option<&Path>, server: Option<&str>) -> Result<(), Failure> {
    match (data, server) {
        (Some(data), Some(server)) => {
            let target = Target { data: Some(data.to_path_buf()), server: Some(server.to_string()), path: None };
            find(&target).map(drop)
        }
        _ => Ok(()),
    }
}

fn none_named() -> Failure {
    Failure::usage("no server is named")
        .remedy("give a path inside a mount, --data DIR or --server ADDR, or set LOLIGO_SERVER")
}

fn of_environment() -> Option<String> {
    std::env::var("LOLIGO_SERVER").ok().filter(|server| !server.is_empty())
}

/// True if both are the same server, as far as their names show.
pub fn is_same(one: &Found, other: &Found) -> bool {
    let real = |data: &PathBuf| data.canonicalize().unwrap_or_else(|_| data.clone());
    let address = |found: &Found| found.address.as_ref().map(Address::to_string);
    match (&one.data, &other.data) {
        (Some(one), Some(other)) => real(one) == real(other),
        _ if one.admin.is_some() && one.admin == other.admin => true,
        _ => address(one).is_some() && address(one) == address(other),
    }
}

/// Address from `--server` or LOLIGO_SERVER; `None` if it is empty.
pub fn named(server: Option<&str>) -> Option<&str> {
    server.filter(|server| !server.is_empty())
}

/// The server that owns a data directory, or whose mount holds this path. It may have been killed since.
pub fn by_data(data: &Path) -> Result<Found, Failure> {
    let Some(state) = ServerState::read(data)? else {
        if let Some(server) = served_by(data)? {
            return by_mount(&server);
        }
        // Says what is wrong with the directory, if something is.
        if let at @ Store::Local(_) = Store::of(data)? {
            format::require(&at)?;
        }
        return Err(not_running(data));
    };
    Ok(by_state(data, state))
}

fn by_state(data: &Path, state: ServerState) -> Found {
    Found {
        data: Some(data.to_path_buf()),
        address: Some(Address::Unix(state.socket.clone())),
        admin: Some(Admin::Unix(state.admin_socket.clone())),
        state: Some(state),
    }
}

/// The server of a mount, by the address that the mount has. Its data directory may be closed to this user: then it is found all the same, and tells nothing.
pub fn by_mount(server: &str) -> Result<Found, Failure> {
    let path = Path::new(server.strip_prefix("unix:").unwrap_or(server));
    // A directory, or a socket in it, which may not be looked at.
    let (data, socket) = match path.is_dir() {
        true => (path, path.join(SOCKET)),
        false => (path.parent().unwrap_or(path), path.to_path_buf()),
    };
    let closed = path.is_absolute()
        && std::fs::File::open(data.join("server.json")).is_err_and(|e| e.kind() == ErrorKind::PermissionDenied);
    if !closed {
        return by_address(server);
    }
    let (address, admin) = (Address::Unix(socket), Admin::Unix(data.join(ADMIN_SOCKET)));
    Ok(Found { data: Some(data.to_path_buf()), address: Some(address), admin: Some(admin), state: None })
}

/// The data directory that a path names: the path itself, or that of the server whose mount holds it.
pub fn data_of(path: &Path) -> Result<PathBuf, Failure> {
    // One inside a mount is possible, if not wise.
    let Some(server) = served_by(path)?.filter(|_| !is_data_dir(path)) else { return Ok(path.to_path_buf()) };
    refuse_missing(path)?;
    by_mount(&server)?.data.ok_or_else(|| {
        Failure::new(format!(
            "{} is in a mount of the server at {server}, whose data directory is not known here",
            path.display()
        ))
        .remedy("run this on the server's machine, with --data DIR")
    })
}

/// A name that is written wrong names no server, although a mount is above it.
fn refuse_missing(path: &Path) -> Result<(), Failure> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Failure::new(format!("{} does not exist", path.display()))
                .remedy("name the data directory, or a mount or a directory in it"))
        }
        _ => Ok(()),
    }
}

fn is_data_dir(path: &Path) -> bool {
    Store::of(path).is_ok_and(|store| matches!(store, Store::Rados { .. }) || store.identify().is_ok())
}

/// Refuses a path that is taken for a data directory, and is a mount, or a directory that is in use in one.
pub fn refuse_mount(path: &Path) -> Result<(), Failure> {
    let Some(server) = served_by(path)?.filter(|_| !is_data_dir(path)) else { return Ok(()) };
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let is_mount = mounts::at(&mounts::all()?, &absolute).is_some();
    if !is_mount && !std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
        return Ok(());
    }
    let (what, name) = (if is_mount { "is a mount" } else { "is in a mount" }, path.display());
    Err(match by_mount(&server) {
        Ok(Found { data: Some(data), .. }) => {
            Failure::new(format!("{name} {what} of the server of {}, and no data directory", data.display())).remedy(
                format!(
                    "name that one: --data {}; for a new file system one that is empty or not there yet",
                    quoted(&data)
                ),
            )
        }
        _ => Failure::new(format!("{name} {what} of the server at {server}, and no data directory"))
            .remedy("name a data directory of this machine"),
    })
}

/// Nobody serves this directory.
pub fn not_running(data: &Path) -> Failure {
    Failure::new(format!("no server runs on {}", data.display())).remedy(format!(
        "start one: loligo up --data {0} --mount DIR, or without a mount: loligo serve --data {0}",
        quoted(data)
    ))
}

/// Where clients connect to the server of a data directory.
const SOCKET: &str = "loligo.sock";
/// Where it answers questions.
const ADMIN_SOCKET: &str = "admin.sock";

/// An address as a user writes it: a Unix socket's path, HOST:PORT, a data directory, several of these with commas between, or
/// http://HOST:PORT for the admin plane.
pub fn by_address(text: &str) -> Result<Found, Failure> {
    let path = Path::new(text);
    if let Some(admin) = text.strip_prefix("http://") {
        let admin = Admin::Tcp(admin.trim_end_matches('/').to_string());
        return Ok(Found { data: None, address: None, admin: Some(admin), state: None });
    }
    // A name alone may be a directory, too: an address of that form has a port.
    if (text.contains('/') || !text.contains(':')) && path.is_dir() {
        return by_data(path);
    }
    let address: Address = text.parse().map_err(|e| Failure::usage(format!("{e}")))?;
    if let Address::Any(all) = &address {
        return by_addresses(all);
    }
    if let Address::Unix(socket) = &address
        && socket.file_name().is_some_and(|name| name.to_string_lossy().starts_with("admin"))
    {
        // Of a process that runs ranks for another server, say.
        let admin = Some(Admin::Unix(socket.clone()));
        return Ok(Found { data: None, address: None, admin, state: None });
    }
    let mut found = Found { data: None, address: None, admin: None, state: None };
    if let Address::Unix(socket) = &address
        && let Some(data) = socket.parent()
    {
        if let Some(state) = ServerState::read(data)? {
            found.data = Some(data.to_path_buf());
            found.admin = Some(Admin::Unix(state.admin_socket.clone()));
            found.state = Some(state);
        } else if !socket.exists() {
            // Whoever is asked there will be told of this path.
            found.admin = Some(Admin::Unix(socket.clone()));
        }
    }
    Ok(Found { address: Some(address), ..found })
}

/// Several servers of one file system. Whoever runs on this machine now tells about itself.
fn by_addresses(all: &[Address]) -> Result<Found, Failure> {
    let mut found = Found { data: None, address: None, admin: None, state: None };
    let mut addresses = Vec::new();
    for address in all {
        let Address::Unix(path) = address else {
            addresses.push(address.clone());
            continue;
        };
        let path = std::path::absolute(path).context(|| format!("server {}", path.display()))?;
        let (data, socket) = match path.is_dir() {
            true => (Some(path.as_path()), path.join(SOCKET)),
            false => (path.parent(), path.clone()),
        };
        if let Some(data) = data.filter(|_| found.state.is_none())
            && let Some(state) = ServerState::read(data)?
        {
            found.data = Some(data.to_path_buf());
            found.admin = Some(Admin::Unix(state.admin_socket.clone()));
            found.state = Some(state);
        }
        addresses.push(Address::Unix(socket));
    }
    Ok(Found { address: Some(Address::Any(addresses.into())), ..found })
}

/// The server of the mount that holds a path, or of a data directory.
fn by_path(path: &Path) -> Result<Found, Failure> {
    match served_by(path)? {
        Some(server) => refuse_missing(path).and_then(|()| by_mount(&server)),
        None if ServerState::read(path).is_ok_and(|state| state.is_some()) => by_data(path),
        None if Store::of(path)?.identify().is_ok() => Err(not_running(path)),
        None => Err(Failure::new(format!(
            "{} is neither inside a Loligo mount nor the data directory of a server",
            path.display()
        ))
        .remedy("give --data DIR or --server ADDR")),
    }
}

/// The address of the server whose mount holds a path, if it is in one of ours.
pub fn served_by(path: &Path) -> Result<Option<String>, Failure> {
    let lines = mounts::all()?;
    let ours = |path: &Path| mounts::over(&lines, path).and_then(|line| line.server().map(str::to_string));
    let plain = std::path::absolute(path).ok().and_then(|path| ours(&path));
    // A symlink may lead into one; only then is the path touched.
    Ok(plain.or_else(|| path.canonicalize().ok().and_then(|path| ours(&path))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        let found = by_address("127.0.0.1:70").expect("an address");
        assert!(matches!(found.address, Some(Address::Tcp(_))) && found.admin.is_none());
        let found = by_address("http://127.0.0.1:70/").expect("an address");
        assert_eq!(found.admin, Some(Admin::Tcp("127.0.0.1:70".into())));
        assert!(found.address().is_err());
        let found = by_address("/data/admin-2.sock").expect("an address");
        assert_eq!(found.admin, Some(Admin::Unix("/data/admin-2.sock".into())));
        let found = by_address("/no/such/socket").expect("an address");
        assert!(matches!(found.address, Some(Address::Unix(_))));
        assert!(by_address("nonsense").is_err());
    }

    #[test]
    fn of_several_servers_those_named_by_their_directories_are_asked_at_their_sockets() {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().display();
        let found = by_address(&format!("{data},/no/such/socket,127.0.0.1:70")).expect("addresses");
        let address = found.address().expect("where clients connect").to_string();
        assert_eq!(address, format!("unix:{data}/loligo.sock,unix:/no/such/socket,tcp:127.0.0.1:70"));
        assert!(found.admin.is_none(), "none of them runs");
    }
}
