//! Several calls in one write.

use std::sync::Arc;

use loligo_types::Cred;

use super::CallResult;
use super::calls::Callback;
use super::core::Shared;
use super::{Call, CallFuture};

/// Calls that have not been sent. Dropping it sends them.
pub struct Batch<'a> {
    shared: &'a Arc<Shared>,
    calls: Vec<(Arc<Cred>, Call, Callback)>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(shared: &'a Arc<Shared>) -> Batch<'a> {
        Batch { shared, calls: Vec::new() }
    }

    /// Adds a call; see [`super::Client::submit`].
    pub fn add(&mut self, cred: &Arc<Cred>, call: Call, done: impl FnOnce(CallResult) + Send + 'static) {
        self.calls.push((Arc::clone(cred), call, Box::new(done)));
    }

    /// Adds a call; the future gives its result once the batch was sent.
    pub fn add_async(&mut self, cred: &Arc<Cred>, call: Call) -> CallFuture {
        let (future, done) = CallFuture::new();
        self.calls.push((Arc::clone(cred), call, done));
        future
    }

    /// Number of calls in the batch.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// True if the batch has no calls.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Sends them. They are executed in order only where one depends on the other's answer or they are on the same
    /// connection and inode, as single calls are.
    pub fn send(self) {}
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.shared.submit_all(std::mem::take(&mut self.calls));
    }
}
