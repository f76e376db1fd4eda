//! Queue of future events, in the order of their time; events of one time in the order in which they were put in.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The queue.
pub struct Queue<T> {
    /// Time, number, and the place of what happens.
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    bodies: Vec<Option<T>>,
    unused: Vec<usize>,
    next: u64,
}

impl<T> Queue<T> {
    /// An empty one.
    pub fn new() -> Queue<T> {
        Queue { heap: BinaryHeap::new(), bodies: Vec::new(), unused: Vec::new(), next: 0 }
    }

    /// Puts something in.
    pub fn put(&mut self, when: u64, what: T) {
        let place = self.unused.pop().unwrap_or(self.bodies.len());
        if place == self.bodies.len() {
            self.bodies.push(None);
        }
        self.bodies[place] = Some(what);
        self.next += 1;
        self.heap.push(Reverse((when, self.next, place)));
    }

    /// The first, with its time, if that is not after this.
    pub fn take(&mut self, until: u64) -> Option<(u64, T)> {
        let Reverse((when, _, _)) = self.heap.peek().copied()?;
        if when > until {
            return None;
        }
        let Reverse((_, _, place)) = self.heap.pop()?;
        self.unused.push(place);
        Some((when, self.bodies[place].take()?))
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue::new()
    }
}
