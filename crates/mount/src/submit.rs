//! The client as the adapter needs it, a trait, so that tests can play the client.

use std::sync::Arc;

use loligo_client::{Call, CallId, CallResult};
use loligo_driver::server::Guest;
use loligo_types::Cred;

/// Somebody who executes calls without blocking the caller.
pub trait Submit: Send + Sync + 'static {
    /// Starts a call. `done` is run exactly once, on any thread, perhaps before this returns; it may submit further
    /// calls but must not block.
    fn submit<F>(&self, cred: &Arc<Cred>, call: Call, done: F)
    where
        F: FnOnce(CallResult) + Send + 'static,
    {
        self.submit_as(self.number(), cred, call, done);
    }

    /// A number for [`Submit::submit_as`], of no other call.
    fn number(&self) -> CallId;

    /// The same as [`Submit::submit`], with a number by which [`Submit::interrupt`] knows the call.
    fn submit_as<F>(&self, number: CallId, cred: &Arc<Cred>, call: Call, done: F)
    where
        F: FnOnce(CallResult) + Send + 'static;

    /// Nobody waits any more for a call: it ends with `Interrupted` soon, if it has not ended. `unserved`: only if it waits for a server
    /// that cannot be reached. May be asked of a call that was not submitted yet, or has ended: then nothing is done.
    fn interrupt(&self, number: CallId, unserved: bool);

    /// Takes the mount in, so that it reads the kernel's requests on the thread that executes them. Gives it back if
    /// there is no such thread: then the mount has threads of its own.
    fn host(&self, mount: Box<dyn Guest>) -> Result<(), Box<dyn Guest>> {
        Err(mount)
    }
}
