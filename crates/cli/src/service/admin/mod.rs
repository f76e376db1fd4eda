//! The admin plane: HTTP on a socket in the data directory and, if wanted, on a loopback address. Runs on a thread of its
//! own with a small runtime, so that it can never hold up the server.
//!
//! `/metrics` for Prometheus ([`metrics`]), `/healthz` for supervisors, `/api/v1/..` for programs ([`doc`]). At the
//! address anybody sees numbers, and who has the token the pages ([`port`]); orders are taken over the socket, which is its owner's alone, and
//! from other servers that share the store, on behalf of their owners. The connections of both are bounded ([`door`]).

mod all;
#[cfg(test)]
mod api;
pub mod auth;
pub mod balancer;
pub mod decoupled;
pub mod doc;
mod door;
mod handing;
pub mod heat;
pub mod machine;
mod metrics;
mod ops;
pub mod others;
mod pages;
mod port;
pub mod snapshot;
mod source;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod token;

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, watch};

use crate::output::{Context, Failure};

pub use all::UNREACHED;
pub use source::Source;

/// Questions of other servers that may wait to be taken; more are refused.
const QUESTIONS: usize = 64;
/// Threads that wait for the server: an order may take a minute, and others look meanwhile.
const WAITING_MAX: usize = 16;

/// The running plane.
pub struct Admin {
    address: Option<SocketAddr>,
    socket: PathBuf,
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Admin {
    /// Listens on the socket and, unless `setting` is `off`, on that address.
    /// At both there are so many connections together, at most.
    pub fn start(setting: &str, socket: &Path, source: Arc<Source>, connections: usize) -> Result<Admin, Failure> {
        let tcp = match setting {
            "off" => None,
            setting => Some(listen(setting)?),
        };
        let address = tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
        let token = tcp.as_ref().and_then(|_| {
            let made = token::Token::of(&source.data);
            let without = |error| {
                let path = token::path_in(&source.data);
                tracing::warn!("{}: {error}; at http://{setting} nobody is shown more than numbers", path.display());
            };
            made.map_err(without).ok()
        });
        let port = port::Port::new(&source, setting, token);
        // What a killed server left; the lock of the store says that it is gone.
        let _ = std::fs::remove_file(socket);
        let place = || format!("admin socket {}", socket.display());
        let unix = UnixListener::bind(socket).context(place)?;
        std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600)).context(place)?;
        unix.set_nonblocking(true).context(place)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .thread_name("loligo-admin")
            .max_blocking_threads(WAITING_MAX)
            .build()
            .context(|| "the admin plane's runtime".into())?;
        let (stop, stopped) = watch::channel(false);
        let (to, asked) = mpsc::channel(QUESTIONS);
        // One that is not taken is dropped, which tells who asks.
        source.server.on_question(move |question, replier| _ = to.try_send((question, replier)));
        let body = move || {
            if let Err(error) =
                runtime.block_on(pages::serve(tcp.map(|tcp| (tcp, port)), unix, asked, source, stopped, connections))
            {
                tracing::error!(%error, "the admin plane ended");
            }
            // Requests that wait for the server are not waited for.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("loligo-admin".into()).spawn(body).context(place)?;
        Ok(Admin { address, socket: socket.to_path_buf(), stop, thread })
    }

    /// Where it listens beside the socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Ends it.
    pub fn stop(self) {
        // The receiver is gone if it has ended already.
        let _ = self.stop.send(true);
        if self.thread.join().is_err() {
            tracing::error!("the admin plane panicked; this is a bug");
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// Refuses a setting that names no loopback address, unless it is `off`.
pub fn check(setting: &str) -> Result<(), Failure> {
    if setting == "off" { Ok(()) } else { resolve(setting).map(drop) }
}

/// Fails if nobody could listen there now.
pub fn check_free(setting: &str) -> Result<(), Failure> {
    if setting == "off" { Ok(()) } else { listen(setting).map(drop) }
}

/// Opens a loopback address; others are refused.
fn listen(setting: &str) -> Result<TcpListener, Failure> {
    let place = || format!("admin address {setting}");
    let listener = TcpListener::bind(resolve(setting)?).map_err(|e| {
        Failure::new(format!("{}: {e}", place())).remedy("choose another port; port 0 picks a free one, off none")
    })?;
    listener.set_nonblocking(true).context(place)?;
    Ok(listener)
}

fn resolve(setting: &str) -> Result<SocketAddr, Failure> {
    let place = || format!("admin address {setting}");
    let usage =
        |e: std::io::Error| Failure::usage(format!("{}: {e}", place())).remedy("give HOST:PORT on loopback, or off");
    let addresses: Vec<SocketAddr> = setting.to_socket_addrs().map_err(usage)?.collect();
    let Some(address) = addresses.first() else {
        return Err(Failure::usage(format!("{} names no address", place())));
    };
    if let Some(open) = addresses.iter().find(|address| !address.ip().is_loopback()) {
        return Err(Failure::usage(format!(
            "{}: {} can be reached from other machines, and the admin plane has no encryption",
            place(),
            open.ip()
        ))
        .remedy("use 127.0.0.1 or ::1, and an SSH tunnel or a proxy with TLS from elsewhere"));
    }
    Ok(*address)
}
