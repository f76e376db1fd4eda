//! A process that runs ranks on the store of another one: how it joins, and what it does instead of keeping the cluster map.
//! The owner's side is `store_owner.rs`; the rules stand in docs/cluster.md, "Several processes".
//!
//! If the owner, or the connection to it, is lost, all ranks of the process end at once. What they acknowledged is in their
//! journals at the owner, and the next start goes on from there.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use loligo_store::Backend;
use loligo_store_remote::RemoteStore;
use loligo_types::link::{Join, Joined, LINK_VERSION, LinkMsg};
use loligo_types::{Lsn, Rank};
use loligo_wire::LINK_MAX;

use super::error::{Result, ServerError, system};
use super::link::{self, Link};
use super::membership::{MembershipEvent, Seats};
use super::rank::{Command, Done, End};
use super::start::{self, Running};
use super::{Ended, store_owner};
use crate::Address;

/// Time limit for the owner's answer.
pub(super) const JOIN_TIME: Duration = Duration::from_secs(30);

/// A process that was let in by the owner of a data directory, and has its store.
pub struct Joint {
    stream: UnixStream,
    link: Arc<Link>,
    ranks: Vec<Rank>,
    joined: Joined,
    store: Arc<RemoteStore>,
    cause: Arc<Cause>,
}

/// Why the store was lost, if that was seen first.
#[derive(Default)]
struct Cause {
    text: std::sync::OnceLock<String>,
    /// The end of the connection is nothing to be told.
    is_expected: AtomicBool,
}

impl Joint {
    /// Joins the server that listens at `server` (the Unix socket of rank 0), to run these ranks.
    pub fn join(server: &Address, ranks: &[Rank]) -> Result<Joint> {
        let socket = store_owner::join_socket(std::slice::from_ref(server)).ok_or_else(|| {
            ServerError::Refused(format!(
                "{server} is no Unix socket: a process joins a server on the same machine only"
            ))
        })?;
        let mut ranks = ranks.to_vec();
        ranks.sort_unstable();
        ranks.dedup();
        let mut stream = UnixStream::connect(&socket).map_err(|error| no_server(&socket, &error))?;
        stream.set_read_timeout(Some(JOIN_TIME)).map_err(system("a connection to the server"))?;
        let link = Link::start(&stream).map_err(system("starting a thread"))?;
        let (versions, pid) = ((LINK_VERSION, LINK_VERSION), std::process::id());
        link.send(LinkMsg::Join(Join { versions, fs_id: None, ranks: ranks.clone(), pid }));
        let joined = match link::read(&mut stream, LINK_MAX, &mut Vec::new()) {
            Ok(Some(LinkMsg::Joined(joined))) => joined,
            Ok(Some(LinkMsg::Refused { text, .. })) => return Err(ServerError::Refused(text)),
            Ok(_) => return Err(no_server(&socket, &io::ErrorKind::UnexpectedEof.into())),
            Err(error) => return Err(no_server(&socket, &error)),
        };
        stream.set_read_timeout(None).map_err(system("a connection to the server"))?;
        let store = Arc::new(RemoteStore::connect(Path::new(&joined.store), joined.ticket)?);
        let cause = Arc::new(Cause::default());
        let (seen, cut) = (cause.clone(), link.clone());
        store.on_lost(move |text| {
            let _ = seen.text.set(text.to_owned());
            // Whoever reads the link ends everything.
            cut.cut();
        });
        Ok(Joint { stream, link, ranks, joined, store, cause })
    }

    /// The store of the owner.
    pub fn backend(&self) -> Arc<dyn Backend> {
        self.store.clone()
    }

    pub(super) fn ranks(&self) -> &[Rank] {
        &self.ranks
    }

    pub(super) fn told(&self) -> &Joined {
        &self.joined
    }

    pub(super) fn link(&self) -> &Arc<Link> {
        &self.link
    }
}

fn no_server(socket: &Path, error: &io::Error) -> ServerError {
    ServerError::Refused(format!(
        "no server lets others run ranks at {} ({error}): start it first, with --elsewhere and the ranks that others run",
        socket.display()
    ))
}

/// The thread that waits for the ranks of a process that joined, and speaks for them.
pub(super) struct JoinAgent {
    pub(super) joint: Joint,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) seats: Seats,
    pub(super) running: BTreeMap<Rank, Running>,
    /// Ranks that the owner has told to go.
    pub(super) leaving: BTreeSet<Rank>,
    pub(super) news: Receiver<MembershipEvent>,
    pub(super) to_self: Sender<MembershipEvent>,
    pub(super) ended: Arc<Ended>,
    /// Told when the owner has made the ranks known.
    pub(super) arrived: Sender<()>,
}

impl JoinAgent {
    /// Says where the ranks are, and waits until all have ended.
    pub(super) fn run(mut self, addresses: Vec<(Rank, String)>) -> Result<()> {
        let end = match self.listen_to_owner() {
            Err(error) => {
                self.tell_all(|| Done::OtherFailed(error.to_string()));
                self.wait()
            }
            Ok(()) => {
                self.joint.link.send(LinkMsg::Ready { addresses });
                self.wait()
            }
        };
        self.joint.cause.is_expected.store(true, Ordering::Release);
        let result = match &end {
            End::Fatal(text) => Err(ServerError::Fatal(text.clone())),
            End::Stopped => self.backend.close().map_err(ServerError::from),
        };
        self.joint.link.finish();
        *self.ended.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
        self.ended.told.notify_all();
        result
    }

    fn wait(&mut self) -> End {
        let mut end = End::Stopped;
        while !self.running.is_empty() {
            let Ok(news) = self.news.recv() else { break };
            let MembershipEvent::Ended(rank) = news else {
                self.hear(news);
                continue;
            };
            let Some(Running { thread, helpers }) = self.running.remove(&rank) else { continue };
            let ended = thread.join().unwrap_or(End::Fatal("the rank thread panicked; this is a bug".into()));
            let ended = match (ended, helpers.end()) {
                (End::Stopped, Some(from)) => self.has_ended(rank, from),
                (End::Stopped, None) => End::Fatal("a thread of the server panicked; this is a bug".into()),
                (fatal, _) => fatal,
            };
            if end == End::Stopped {
                end = ended;
            }
        }
        end
    }

    /// A rank has come to a clean stop; where its replay would start is put down.
    fn has_ended(&mut self, rank: Rank, replay_from: Option<Lsn>) -> End {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner).remove(&rank);
        match start::note_trimmed(&*self.backend.table(), rank, replay_from) {
            Ok(()) => {
                if self.leaving.contains(&rank) {
                    self.tell_all(|| Done::Away { rank });
                    self.joint.link.send(LinkMsg::Left { rank });
                }
                End::Stopped
            }
            Err(error) => End::Fatal(error.to_string()),
        }
    }

    fn hear(&mut self, news: MembershipEvent) {
        let refused = || {
            let text = "this process runs some ranks on the store of another one, which keeps the map: ask that one";
            ServerError::Refused(text.into())
        };
        match news {
            MembershipEvent::Add(_, to) => _ = to.send(Err(refused())),
            MembershipEvent::HandOver(_, _, to) => _ = to.send(Err(refused())),
            MembershipEvent::Drain(_, to) | MembershipEvent::Undrain(_, to) => _ = to.send(Err(refused())),
            MembershipEvent::SetPolicy(_, _, to) | MembershipEvent::AddPolicy(_, _, to) => _ = to.send(Err(refused())),
            MembershipEvent::UnsetPolicy(to) => _ = to.send(Err(refused())),
            MembershipEvent::UsePolicy(_, _, to) => _ = to.send(Err(refused())),
            MembershipEvent::RollBack(to) => _ = to.send(Err(refused())),
            MembershipEvent::Said(rank, member) => self.joint.link.send(LinkMsg::Member { rank, member }),
            MembershipEvent::Stop => self.tell_all(|| Done::Command(Command::Depart)),
            MembershipEvent::Abandon => self.tell_all(|| Done::Command(Command::Abandon)),
            MembershipEvent::Leaves(rank) => _ = self.leaving.insert(rank),
            MembershipEvent::Ended(_) | MembershipEvent::Arrived(_) | MembershipEvent::LeftElsewhere(_) => {}
        }
    }

    fn tell_all(&self, what: impl Fn() -> Done) {
        tell_all(&self.seats, what);
    }

    /// Starts the thread that hears the owner.
    fn listen_to_owner(&self) -> Result<()> {
        let mut stream = self.joint.stream.try_clone().map_err(system("a connection to the server"))?;
        let ear =
            JoinListener { seats: self.seats.clone(), link: self.joint.link.clone(), keeper: self.to_self.clone() };
        let (cause, arrived) = (self.joint.cause.clone(), self.arrived.clone());
        let hear = move || {
            let end = match ear.hear(&mut stream, &arrived) {
                Ok(()) => "it ended, or was stopped".to_owned(),
                Err(error) => error.to_string(),
            };
            if cause.is_expected.load(Ordering::Acquire) {
                return;
            }
            let end = cause.text.get().cloned().unwrap_or(end);
            let text = format!(
                "the server that owns the data directory is gone ({end}); nothing that was acknowledged is lost: start \
                 that one again, then this process"
            );
            tell_all(&ear.seats, || Done::OtherFailed(text.clone()));
        };
        thread::Builder::new().name("loligo-owner".into()).spawn(hear).map_err(system("starting a thread"))?;
        Ok(())
    }
}

fn tell_all(seats: &Seats, what: impl Fn() -> Done) {
    let seats = seats.lock().unwrap_or_else(PoisonError::into_inner);
    seats.values().for_each(|seat| seat.inbox.push(what()));
}

/// Hears the owner, and hands on what it says.
struct JoinListener {
    seats: Seats,
    link: Arc<Link>,
    keeper: Sender<MembershipEvent>,
}

impl JoinListener {
    fn hear(&self, stream: &mut UnixStream, arrived: &Sender<()>) -> io::Result<()> {
        let mut body = Vec::new();
        while let Some(msg) = link::read(stream, LINK_MAX, &mut body)? {
            match msg {
                LinkMsg::Peer { from, to, msg, .. } => self.push(to, Done::Peer { from, msg }),
                LinkMsg::Up { rank, process } => {
                    tell_all(&self.seats, || Done::LinkUp { rank, process, link: self.link.clone() });
                }
                LinkMsg::Down { rank } => tell_all(&self.seats, || Done::LinkDown { rank, process: None }),
                LinkMsg::Map(map) => {
                    tell_all(&self.seats, || Done::Map(map.clone()));
                    // The first one is the answer to `Ready`; nobody waits for later ones.
                    let _ = arrived.send(());
                }
                LinkMsg::Leave { rank } => {
                    // Before it can have ended.
                    let _ = self.keeper.send(MembershipEvent::Leaves(rank));
                    self.push(rank, Done::Command(Command::Leave));
                }
                LinkMsg::Stop => tell_all(&self.seats, || Done::Command(Command::Stop)),
                LinkMsg::AllStopped => tell_all(&self.seats, || Done::AllStopped),
                LinkMsg::Refused { text, .. } => return Err(io::Error::other(text)),
                _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "a message came out of turn")),
            }
        }
        Ok(())
    }

    fn push(&self, rank: Rank, done: Done) {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seat) = seats.get(&rank) {
            seat.inbox.push(done);
        }
    }
}
