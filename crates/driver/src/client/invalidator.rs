//! Threads that tell the caches above what to drop. They own no state of the client.
//!
//! Four, because the kernel may make a data invalidation wait for a call on the same file, and that call may wait for
//! another lease that this client still has to give up: attributes are told by one thread, which never waits for calls; names by
//! another, which may wait for some, but not for long; data that a recall waits for by a third; data that nobody waits for by a fourth.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use loligo_client::{Invalidation, Token};

use super::Invalidate;

/// Most directories whose names are dropped by one call.
const NAMES_AT_ONCE: usize = 256;

/// An invalidation for the invalidator's thread.
type Job = (Token, Invalidation);

/// The ways to the threads. The threads end when it is dropped.
pub struct Invalidator {
    attrs: Sender<Job>,
    names: Sender<Job>,
    data: Sender<Job>,
    lazy: Sender<Job>,
}

impl Invalidator {
    /// Starts the threads. `told` is called when caches have been told; `false`: nobody waits any more.
    pub fn start<F>(target: &Arc<dyn Invalidate>, told: F) -> std::io::Result<Invalidator>
    where
        F: Fn(Token) -> bool + Clone + Send + 'static,
    {
        let spawn = |name: &str| {
            let (sender, jobs) = mpsc::channel();
            let (target, told) = (Arc::clone(target), told.clone());
            thread::Builder::new().name(name.into()).spawn(move || work(&jobs, &*target, &told))?;
            Ok::<_, std::io::Error>(sender)
        };
        Ok(Invalidator {
            attrs: spawn("lol-inval-attr")?,
            names: spawn("lol-inval-name")?,
            data: spawn("lol-inval-data")?,
            lazy: spawn("lol-inval-lazy")?,
        })
    }

    /// Hands an invalidation to its thread.
    pub fn push(&self, token: Token, what: Invalidation) {
        let way = match (what, token) {
            (Invalidation::Data(_), Token::NONE) => &self.lazy,
            (Invalidation::Data(_), _) => &self.data,
            (Invalidation::Names(_), _) => &self.names,
            (Invalidation::Attr(_), _) => &self.attrs,
        };
        // A thread that is gone has panicked in the target: nothing can be told any more, and the recall runs into the
        // server's time limit.
        let _ = way.send((token, what));
    }
}

fn work(jobs: &Receiver<Job>, target: &dyn Invalidate, told: &dyn Fn(Token) -> bool) {
    while let Ok(job) = jobs.recv() {
        match job.1 {
            Invalidation::Names(dir) => {
                // The cache may have to wait for a time limit: all directories that are asked back now wait for theirs at the same time.
                let (mut tokens, mut dirs) = (vec![job.0], vec![dir]);
                while let Some((token, Invalidation::Names(dir))) =
                    (dirs.len() < NAMES_AT_ONCE).then(|| jobs.try_recv().ok()).flatten()
                {
                    tokens.push(token);
                    dirs.push(dir);
                }
                target.names(&dirs);
                if !tokens.into_iter().all(|token| token == Token::NONE || told(token)) {
                    return;
                }
                continue;
            }
            Invalidation::Attr(ino) => target.attr(ino),
            Invalidation::Data(ino) => target.data(ino),
        }
        if job.0 != Token::NONE && !told(job.0) {
            return;
        }
    }
}
