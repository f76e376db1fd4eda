//! What the adapter needs of a client, so that it can be tested against one that is not there.

use std::sync::Arc;

use loligo_client::{Call, CallResult};
use loligo_types::Cred;

/// Somebody who executes calls without blocking the caller.
pub trait Submit: Send + Sync + 'static {
    /// Starts a call. `done` is run exactly once, on any thread, perhaps before this returns; it may submit further
    /// calls but must not block.
    fn submit<F>(&self, cred: &Arc<Cred>, call: Call, done: F)
    where
        F: FnOnce(CallResult) + Send + 'static;
}

impl<S: Submit> Submit for Arc<S> {
    fn submit<F>(&self, cred: &Arc<Cred>, call: Call, done: F)
    where
        F: FnOnce(CallResult) + Send + 'static,
    {
        S::submit(self, cred, call, done);
    }
}
