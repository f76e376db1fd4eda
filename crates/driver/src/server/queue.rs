//! Work for other threads and what comes back from them. Nothing is decided here.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::sock::Waker;

/// A queue with threads that wait for work.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<QueueState<T>>,
    ready: Condvar,
}

#[derive(Debug)]
struct QueueState<T> {
    items: VecDeque<T>,
    waiting: usize,
    closed: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Arc<Queue<T>> {
        let state = QueueState { items: VecDeque::new(), waiting: 0, closed: false };
        Arc::new(Queue { state: Mutex::new(state), ready: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, item: T) {
        self.push_all([item]);
    }

    pub(crate) fn push_all(&self, items: impl IntoIterator<Item = T>) {
        let mut state = self.lock();
        state.items.extend(items);
        let wake = state.waiting > 0;
        drop(state);
        if wake {
            self.ready.notify_one();
        }
    }

    /// Adds an item if nothing is there that was not taken yet; whether it did.
    pub(crate) fn push_if_empty(&self, item: T) -> bool {
        let mut state = self.lock();
        if !state.items.is_empty() {
            return false;
        }
        state.items.push_back(item);
        let wake = state.waiting > 0;
        drop(state);
        if wake {
            self.ready.notify_one();
        }
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().items.is_empty()
    }

    /// True if no more work will come.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// No more will come: waiting threads end when nothing is left.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_all();
    }

    /// Waits for work and takes at most `max` of it. `None`: the queue is closed and done.
    pub(crate) fn take(&self, max: usize) -> Option<Vec<T>> {
        let mut state = self.lock();
        while state.items.is_empty() && !state.closed {
            state.waiting += 1;
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        self.drain(state, max)
    }

    /// Takes what is there now.
    pub(crate) fn take_now(&self) -> Vec<T> {
        self.lock().items.drain(..).collect()
    }

    /// As [`Queue::take`], but waits no longer than this; then what it gives may be empty.
    pub(crate) fn take_within(&self, max: usize, time: Duration) -> Option<Vec<T>> {
        let mut state = self.lock();
        state.waiting += 1;
        let empty = |state: &mut QueueState<T>| state.items.is_empty() && !state.closed;
        let (mut state, _) = self.ready.wait_timeout_while(state, time, empty).unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        self.drain(state, max)
    }

    fn drain(&self, mut state: MutexGuard<'_, QueueState<T>>, max: usize) -> Option<Vec<T>> {
        if state.items.is_empty() && state.closed {
            return None;
        }
        let n = state.items.len().min(max);
        let taken = state.items.drain(..n).collect();
        let wake = !state.items.is_empty() && state.waiting > 0;
        drop(state);
        if wake {
            self.ready.notify_one();
        }
        Some(taken)
    }
}

/// Messages of other threads to the rank thread, which waits in epoll.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    items: Mutex<Items<T>>,
    /// The rank thread waits, or is about to.
    asleep: AtomicBool,
    waker: Waker,
}

#[derive(Debug)]
struct Items<T> {
    list: Vec<T>,
    closed: bool,
}

impl<T> Inbox<T> {
    pub(crate) fn new(waker: Waker) -> Arc<Inbox<T>> {
        let items = Items { list: Vec::new(), closed: false };
        Arc::new(Inbox { items: Mutex::new(items), asleep: AtomicBool::new(false), waker })
    }

    fn lock(&self) -> MutexGuard<'_, Items<T>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item; it is dropped if nobody will take it any more.
    pub(crate) fn push(&self, item: T) {
        drop(self.offer(item));
    }

    /// Adds an item; gives it back if nobody will take it any more.
    pub(crate) fn offer(&self, item: T) -> Result<(), T> {
        let mut items = self.lock();
        if items.closed {
            return Err(item);
        }
        items.list.push(item);
        drop(items);
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.waker.wake();
        }
        Ok(())
    }

    /// True if there is anything to take.
    pub(crate) fn has_some(&self) -> bool {
        !self.lock().list.is_empty()
    }

    /// Takes everything into `into`, which is empty.
    pub(crate) fn take(&self, into: &mut Vec<T>) {
        std::mem::swap(&mut self.lock().list, into);
    }

    /// Nobody will take anything any more. What was not taken is dropped.
    pub(crate) fn close(&self) {
        let left = {
            let mut items = self.lock();
            items.closed = true;
            std::mem::take(&mut items.list)
        };
        drop(left);
    }

    /// To be called before waiting; false: something is there, do not wait.
    pub(crate) fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        if self.lock().list.is_empty() {
            return true;
        }
        self.asleep.store(false, Ordering::SeqCst);
        false
    }

    /// To be called after waiting; `woken`: by the waker.
    pub(crate) fn awake(&self, woken: bool) {
        self.asleep.store(false, Ordering::SeqCst);
        if woken {
            self.waker.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_is_only_put_where_nothing_waits_at_most_one_waits_however_slow_the_other_side_is() {
        let queue = Queue::new();
        assert_eq!([1, 2, 3].map(|n| queue.push_if_empty(n)), [true, false, false]);
        assert_eq!(queue.take(1), Some(vec![1]));
        assert!(queue.push_if_empty(4), "the first one was taken");
        assert_eq!(queue.take_now(), [4]);
    }
}
