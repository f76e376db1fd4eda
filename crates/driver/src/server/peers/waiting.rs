//! Connections of those who have still to prove that they are servers of the file system: anybody who reaches the address can make some. They
//! are bounded, and the oldest makes room.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use crate::server::rarely::Rarely;
use crate::server::slots::is_last;

/// So many at a time; each has a thread.
const WAITING_MAX: usize = 32;

/// All of them, by the order in which they came.
#[derive(Default)]
pub(super) struct Waiting {
    open: BTreeMap<u64, TcpStream>,
    last: u64,
    lines: Rarely,
}

impl Waiting {
    /// One more has come; its number. The error: there is no room for it.
    pub(super) fn begin(&mut self, stream: &TcpStream) -> io::Result<u64> {
        if is_last(stream) {
            return Err(io::Error::other("this server has as many files open as it may"));
        }
        let copy = stream.try_clone()?;
        while self.open.len() >= WAITING_MAX {
            // Its thread ends, as nothing comes any more.
            let Some((_, oldest)) = self.open.pop_first() else { break };
            let _ = oldest.shutdown(Shutdown::Both);
        }
        self.last += 1;
        self.open.insert(self.last, copy);
        Ok(self.last)
    }

    /// It has proved what it is, or not.
    pub(super) fn end(&mut self, number: u64) {
        self.open.remove(&number);
    }

    /// Says that one was no server, but not too often.
    pub(super) fn refused(&mut self, error: &io::Error) {
        if let Some(more) = self.lines.may_say(Instant::now()) {
            tracing::warn!("who connected is no server of this file system: {error}{more}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn those_that_prove_nothing_make_room_for_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let at = listener.local_addr().expect("it listens");
        let mut waiting = Waiting::default();
        let mut ends: Vec<_> = (0..100)
            .map(|_| {
                let theirs = TcpStream::connect(at).expect("it listens");
                let (ours, _) = listener.accept().expect("one has come");
                (theirs, waiting.begin(&ours).expect("there is room"), ours)
            })
            .collect();
        assert_eq!(waiting.open.len(), WAITING_MAX);
        assert_eq!(ends[0].0.read(&mut [0; 1]).expect("the end"), 0, "the oldest was closed");
        ends.iter().for_each(|(_, number, _)| waiting.end(*number));
        assert!(waiting.open.is_empty());
    }
}
