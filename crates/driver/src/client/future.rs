//! A call as a future. Belongs to no runtime: the receiving thread wakes whoever polls it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use loligo_types::FsError;

use super::CallResult;
use super::calls::Callback;

#[derive(Default)]
struct State {
    result: Option<CallResult>,
    sent: bool,
    waker: Option<Waker>,
}

/// The result of a call that was submitted already. Dropping it does not take the call back.
pub struct CallFuture {
    state: Arc<Mutex<State>>,
}

impl CallFuture {
    pub(super) fn new() -> (CallFuture, Callback) {
        let state = Arc::new(Mutex::new(State::default()));
        let theirs = Sender { state: Arc::clone(&state) };
        (CallFuture { state }, Box::new(move |result| theirs.send(result)))
    }
}

impl Future for CallFuture {
    type Output = CallResult;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CallResult> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(result) = state.result.take() {
            return Poll::Ready(result);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Sends a result, or `Unavailable` if it is dropped without.
struct Sender {
    state: Arc<Mutex<State>>,
}

impl Sender {
    fn send(&self, result: CallResult) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.sent {
            return;
        }
        (state.sent, state.result) = (true, Some(result));
        if let Some(waker) = state.waker.take() {
            drop(state);
            waker.wake();
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.send(Err(FsError::Unavailable.into()));
    }
}
