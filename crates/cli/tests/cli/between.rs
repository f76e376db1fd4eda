//! Stands between a client and a server, and holds what they say to each other where a test wants it: so a test knows how far they are, and
//! kills whom it likes just there. Not a network that loses or delays anything by itself. No test is here.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use loligo_types::msg::{Request, ToServer};
use loligo_types::{Control, Op, SubtreeOp};
use loligo_wire::{Decoder, FromClient};

use super::run::PATIENCE;

/// Messages to hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// Of a merge this part, and what the client says after it.
    Part(u32),
    /// All that the server says once it was told to make a merge true.
    Answer,
}

#[derive(Default)]
struct State {
    hold: Option<Hold>,
    /// Something is.
    held: bool,
    /// So often was it let go.
    gone: u64,
}

struct Shared {
    server: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

/// The proxy between them, as long as the test's process lives.
pub struct Between {
    shared: Arc<Shared>,
    /// Where clients connect.
    pub socket: PathBuf,
}

impl Between {
    pub fn listen(socket: &Path, server: &Path) -> Between {
        let listener = UnixListener::bind(socket).expect("a socket");
        let shared = Arc::new(Shared { server: server.into(), state: Mutex::default(), changed: Condvar::new() });
        let all = Arc::clone(&shared);
        std::thread::spawn(move || listener.incoming().flatten().for_each(|client| all.join(client)));
        Between { shared, socket: socket.into() }
    }

    /// From now on this is held.
    pub fn hold(&self, what: Hold) {
        self.shared.state.lock().expect("no panic with it").hold = Some(what);
    }

    /// Waits until something is.
    #[track_caller]
    pub fn wait(&self) {
        let state = self.shared.state.lock().expect("no panic with it");
        let waited = self.shared.changed.wait_timeout_while(state, PATIENCE, |state| !state.held);
        assert!(waited.expect("no panic with it").0.held, "nothing is held within {PATIENCE:?}");
    }

    /// Drops the held messages with their connection; nothing is held any more.
    pub fn lose(&self) {
        let mut state = self.shared.state.lock().expect("no panic with it");
        (state.hold, state.held, state.gone) = (None, false, state.gone + 1);
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl Shared {
    /// A client has come: what either says is the other's. Where no server is, it is told so.
    fn join(self: &Arc<Shared>, client: UnixStream) {
        let Ok(server) = UnixStream::connect(&self.server) else { return };
        let clone = |stream: &UnixStream| stream.try_clone().expect("a descriptor");
        let ends = [(clone(&client), clone(&server), true), (server, client, false)];
        for (from, to, is_clients) in ends {
            let shared = Arc::clone(self);
            std::thread::spawn(move || {
                let mut decoder = is_clients.then(Decoder::new);
                decoder.iter_mut().for_each(Decoder::handshake_done);
                shared.pass_on(&from, &to, decoder);
                // Whoever is left there is told that the other has gone.
                [&from, &to].into_iter().for_each(|end| _ = end.shutdown(Shutdown::Both));
            });
        }
    }

    /// Until one of both goes, or what was held is lost.
    fn pass_on(&self, mut from: &UnixStream, mut to: &UnixStream, mut said: Option<Decoder<FromClient>>) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            let passes = match &mut said {
                Some(decoder) => {
                    decoder.feed(&buffer[..len]);
                    self.client_says(decoder)
                }
                None => self.server_says(),
            };
            if !passes || to.write_all(&buffer[..len]).is_err() {
                return;
            }
        }
    }

    /// True if the client's message goes to the server.
    fn client_says(&self, decoder: &mut Decoder<FromClient>) -> bool {
        let mut passes = true;
        while let Some(message) = decoder.next_message().expect("clients send good frames") {
            let ToServer::Request(Request { op: Op::Control(Control::Subtree { what, .. }), .. }) = message else {
                continue;
            };
            let mut state = self.state.lock().expect("no panic with it");
            match (&*what, state.hold) {
                (SubtreeOp::Part { part, .. }, Some(Hold::Part(first))) if *part >= first => {
                    state.held = true;
                    passes = false;
                }
                (SubtreeOp::Merge { .. }, Some(Hold::Answer)) => state.held = true,
                _ => {}
            }
            drop(state);
            self.changed.notify_all();
        }
        passes || self.until_lost()
    }

    fn server_says(&self) -> bool {
        let state = self.state.lock().expect("no panic with it");
        let holds = state.held && state.hold == Some(Hold::Answer);
        drop(state);
        !holds || self.until_lost()
    }

    /// Waits until what is held is lost: it passes never.
    fn until_lost(&self) -> bool {
        let state = self.state.lock().expect("no panic with it");
        let gone = state.gone;
        let waited = self.changed.wait_timeout_while(state, PATIENCE, |state| state.held && state.gone == gone);
        drop(waited.expect("no panic with it"));
        false
    }
}
