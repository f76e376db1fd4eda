//! The thread that has the store refuse clients whose sessions end ([`loligo_mds::Output::ShutOut`]). It tries until the store does: what such
//! a session held is nobody's before.

use std::sync::Arc;
use std::time::Duration;

use loligo_store::Clients;
use loligo_types::SessionId;

use super::queue::{Inbox, Queue};
use super::rank::Done;

/// A session that ends, and the addresses of its client.
pub(crate) type Job = (SessionId, Vec<Box<[u8]>>);

/// Pause before it tries again.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs until the queue is closed, also with what could not be done.
pub(crate) fn run(clients: Option<Arc<dyn Clients>>, queue: &Queue<Job>, inbox: &Inbox<Done>) {
    while let Some(jobs) = queue.take(usize::MAX) {
        // Several at once cost no more than one: clients of a host that is gone end together.
        let mut addresses: Vec<String> =
            jobs.iter().flat_map(|(_, all)| all.iter().map(|one| String::from_utf8_lossy(one).into_owned())).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let mut told = false;
        while let Err(text) = shut_out(clients.as_deref(), &addresses) {
            if !std::mem::replace(&mut told, true) {
                tracing::warn!(
                    "the store does not refuse {} yet, so what it held stays locked: {text}",
                    addresses.join(", ")
                );
            }
            if queue.is_closed() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        for (session, _) in jobs {
            tracing::info!(%session, "the store refuses its client from now on");
            inbox.push(Done::ShutOut(session));
        }
    }
}

fn shut_out(clients: Option<&dyn Clients>, addresses: &[String]) -> Result<(), String> {
    match clients {
        Some(clients) => clients.shut_out(addresses).map_err(|error| error.to_string()),
        None => Err("it can only be done by a server that has the store itself: move the rank to one".into()),
    }
}
