//! Callbacks of calls, and waiting for one. Knows no machine and no socket.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::CallResult;

/// Function that runs when a call is answered.
pub type Callback = Box<dyn FnOnce(CallResult) + Send>;

thread_local! {
    /// Callbacks that came while one was running on this thread; `None`: none is running.
    static QUEUED: RefCell<Option<VecDeque<(Callback, CallResult)>>> = const { RefCell::new(None) };
}

/// Runs callbacks, after those that this thread is running already: a callback that submits a call which is answered at
/// once does not nest, however long the chain.
pub fn run(mut ready: Vec<(Callback, CallResult)>) {
    if ready.is_empty() {
        return;
    }
    let nested = QUEUED.with_borrow_mut(|queued| match queued {
        Some(queue) => {
            queue.extend(ready.drain(..));
            true
        }
        None => {
            *queued = Some(VecDeque::new());
            false
        }
    });
    if nested {
        return;
    }
    for (done, result) in ready {
        run_one(done, result);
    }
    while let Some((done, result)) = QUEUED.with_borrow_mut(|queued| queued.as_mut().and_then(VecDeque::pop_front)) {
        run_one(done, result);
    }
    QUEUED.with_borrow_mut(|queued| *queued = None);
}

/// A callback that panics must not take others along whose results came with its own.
fn run_one(done: Callback, result: CallResult) {
    if std::panic::catch_unwind(AssertUnwindSafe(|| done(result))).is_err() {
        tracing::error!("a callback of a call panicked; the client goes on without it");
    }
}

/// The result of one call, for the thread that waits for it.
#[derive(Clone, Default)]
pub struct Slot {
    inner: Arc<(Mutex<Option<CallResult>>, Condvar)>,
}

impl Slot {
    /// The callback that fills this slot.
    pub fn callback(&self) -> Callback {
        let theirs = self.clone();
        Box::new(move |result| theirs.put(result))
    }

    /// Fills it.
    pub fn put(&self, result: CallResult) {
        *self.inner.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        self.inner.1.notify_one();
    }

    /// True if the result is there.
    pub fn is_done(&self) -> bool {
        self.inner.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Waits for the result.
    pub fn wait(&self) -> CallResult {
        let mut result = self.inner.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(result) = result.take() {
                return result;
            }
            result = self.inner.1.wait(result).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
