//! Threads that tell the caches above what to drop. They own no state of the client.
//!
//! Three, because the kernel may make a data invalidation wait for a call on the same file, and that call may wait for
//! another lease that this client still has to give up: names and attributes are told by one thread, which never waits
//! for calls; data that a recall waits for by another; data that nobody waits for by a third.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use std::thread;

use loligo_client::{Input, Invalidation, Token};

use super::Invalidate;
use super::core::Shared;

/// What one thread is told.
type Job = (Token, Invalidation);

/// The ways to the threads. The threads end when it is dropped.
pub struct Invalidator {
    light: Sender<Job>,
    data: Sender<Job>,
    lazy: Sender<Job>,
}

impl Invalidator {
    /// Starts the threads, which report to the client.
    pub fn start(target: &Arc<dyn Invalidate>, shared: &Weak<Shared>) -> std::io::Result<Invalidator> {
        let spawn = |name: &str| {
            let (sender, jobs) = mpsc::channel();
            let (target, shared) = (Arc::clone(target), shared.clone());
            thread::Builder::new().name(name.into()).spawn(move || work(&jobs, &*target, &shared))?;
            Ok::<_, std::io::Error>(sender)
        };
        Ok(Invalidator { light: spawn("lol-inval")?, data: spawn("lol-inval-data")?, lazy: spawn("lol-inval-lazy")? })
    }

    /// Hands an invalidation to its thread.
    pub fn push(&self, token: Token, what: Invalidation) {
        let way = match (what, token) {
            (Invalidation::Data(_), Token::NONE) => &self.lazy,
            (Invalidation::Data(_), _) => &self.data,
            _ => &self.light,
        };
        // A thread that is gone has panicked in the target: nothing can be told any more, and the recall runs into the
        // server's time limit.
        let _ = way.send((token, what));
    }
}

fn work(jobs: &Receiver<Job>, target: &dyn Invalidate, shared: &Weak<Shared>) {
    while let Ok((token, what)) = jobs.recv() {
        match what {
            Invalidation::Names(dir) => target.names(dir),
            Invalidation::Attr(ino) => target.attr(ino),
            Invalidation::Data(ino) => target.data(ino),
        }
        if token != Token::NONE {
            let Some(shared) = shared.upgrade() else { return };
            shared.feed(Input::Invalidated { token });
        }
    }
}
