//! A connection between two processes of one file system: messages out by a thread of its own, messages in by whoever reads.
//! Their meaning is in `store_owner.rs` at the owner, and in `joined.rs` at the others.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use loligo_types::link::LinkMsg;
use loligo_wire::{HEADER_LEN, LinkHeader, encode_link};

use super::queue::Queue;

/// Time for which the other process may take nothing before the connection is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// Messages that are put into one write.
const MESSAGES_AT_ONCE: usize = 256;
/// Room of a buffer that is kept, bytes.
const KEEP_MAX: usize = 1 << 20;

/// Byte stream of a link.
pub(crate) trait Stream: Read + Write + Send + Sync + Sized + 'static {
    /// The same connection once more.
    fn twin(&self) -> io::Result<Self>;
    /// Ends it, for both sides.
    fn end(&self);
    /// Sets the time for which the other side may take nothing.
    fn be_patient(&self, time: Duration) -> io::Result<()>;
}

macro_rules! stream {
    ($kind:ty) => {
        impl Stream for $kind {
            fn twin(&self) -> io::Result<Self> {
                self.try_clone()
            }

            fn end(&self) {
                let _ = self.shutdown(Shutdown::Both);
            }

            fn be_patient(&self, time: Duration) -> io::Result<()> {
                self.set_write_timeout(Some(time))
            }
        }
    };
}

stream!(UnixStream);
stream!(TcpStream);

/// The side that sends. Messages go out in the order given; after the end they go nowhere.
pub(crate) struct Link {
    queue: Arc<Queue<LinkMsg>>,
    end: Box<dyn Fn() + Send + Sync>,
}

impl Link {
    /// Begins to send over a connection.
    pub(crate) fn start(stream: &impl Stream) -> io::Result<Arc<Link>> {
        Link::begin(stream, None)
    }

    /// The same; if there is nothing to send for a while, a beat goes out.
    pub(crate) fn start_beating(stream: &impl Stream, every: Duration) -> io::Result<Arc<Link>> {
        Link::begin(stream, Some(every))
    }

    fn begin(stream: &impl Stream, beat: Option<Duration>) -> io::Result<Arc<Link>> {
        let queue = Queue::new();
        let (from, mut to) = (queue.clone(), stream.twin()?);
        to.be_patient(PATIENCE)?;
        std::thread::Builder::new().name("loligo-link".into()).spawn(move || {
            if let Err(error) = write_all(&from, &mut to, beat) {
                tracing::debug!("a connection to another process has ended: {error}");
            }
            // Whoever reads it learns of it.
            to.end();
            from.close();
        })?;
        let twin = stream.twin()?;
        Ok(Arc::new(Link { queue, end: Box::new(move || twin.end()) }))
    }

    pub(crate) fn send(&self, msg: LinkMsg) {
        self.queue.push(msg);
    }

    /// Ends it when what was sent before is out.
    pub(crate) fn finish(&self) {
        self.queue.close();
    }

    /// Ends it at once.
    pub(crate) fn cut(&self) {
        (self.end)();
        self.queue.close();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn write_all(from: &Queue<LinkMsg>, to: &mut impl Write, beat: Option<Duration>) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let taken = match beat {
            Some(beat) => from.take_within(MESSAGES_AT_ONCE, beat),
            None => from.take(MESSAGES_AT_ONCE),
        };
        let Some(messages) = taken else { return Ok(()) };
        bytes.clear();
        messages.iter().for_each(|msg| encode_link(msg, &mut bytes));
        if messages.is_empty() {
            encode_link(&LinkMsg::Beat, &mut bytes);
        }
        to.write_all(&bytes)?;
        bytes.shrink_to(KEEP_MAX);
    }
}

/// The next message, of at most `max` bytes; `None`: the other side has ended it.
pub(crate) fn read(from: &mut impl Read, max: usize, body: &mut Vec<u8>) -> io::Result<Option<LinkMsg>> {
    let mut header = [0; HEADER_LEN];
    let mut got = 0;
    while got < HEADER_LEN {
        match from.read(&mut header[got..]) {
            Ok(0) if got == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => got += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let header = LinkHeader::decode(&header, max).map_err(malformed)?;
    body.clear();
    body.shrink_to(KEEP_MAX);
    if from.take(header.body_len() as u64).read_to_end(body)? < header.body_len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    header.message(body).map_err(malformed).map(Some)
}

#[cfg(test)]
mod tests {
    use loligo_types::Rank;
    use loligo_types::peer::PeerMsg;
    use loligo_wire::LINK_MAX;

    use super::*;

    #[test]
    fn messages_arrive_in_order_and_the_end_behind_them() {
        let (ours, mut theirs) = UnixStream::pair().expect("two sockets");
        let link = Link::start(&ours).expect("a thread");
        let msg =
            |upto| LinkMsg::Peer { from: Rank(0), to: Rank(1), process: 1, msg: Box::new(PeerMsg::Received { upto }) };
        (0..1000).for_each(|upto| link.send(msg(upto)));
        link.finish();
        let mut body = Vec::new();
        for upto in 0..1000 {
            assert_eq!(read(&mut theirs, LINK_MAX, &mut body).expect("a message"), Some(msg(upto)));
        }
        assert_eq!(read(&mut theirs, LINK_MAX, &mut body).expect("the end"), None);
        link.send(msg(0));
    }

    #[test]
    fn what_is_no_message_ends_the_connection() {
        let mut body = Vec::new();
        let error = read(&mut &b"GET / HTTP/1.1\r\n\r\n"[..], LINK_MAX, &mut body).expect_err("another service");
        assert!(error.to_string().contains("another service"), "{error}");
        let mut bytes = Vec::new();
        encode_link(&LinkMsg::Down { rank: Rank(1) }, &mut bytes);
        bytes.pop();
        assert!(read(&mut &bytes[..], LINK_MAX, &mut body).is_err());
        assert!(read(&mut &bytes[..5], LINK_MAX, &mut body).is_err());
    }
}
