//! The bytes of a TLS connection on a socket that does not wait: made and unmade as far as they have come. Memory is
//! bounded: what a peer sends is taken when somebody wants to read, and what is to be sent when there is room.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustls::{ClientConnection, Connection, ServerConfig, ServerConnection};

use super::{Identity, fingerprint};
use crate::sock;

/// Bytes taken from the socket at a time.
const RAW: usize = 32 << 10;
/// Bytes that may wait for the socket.
const OUT_MAX: usize = 256 << 10;
/// Times that the socket is asked in one read: a peer that sends nothing but what needs no answer must not hold up others.
const ROUNDS: usize = 16;

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Tls {
    conn: Connection,
    /// Received bytes that were not decrypted yet: `raw[from..to]`.
    raw: Vec<u8>,
    from: usize,
    to: usize,
    /// Bytes that are decrypted and were not read.
    plain: usize,
}

/// Result of work on the socket.
#[derive(PartialEq, Eq)]
enum Took {
    Some,
    Nothing,
    End,
}

/// A socket as a writer.
struct Out<'a>(&'a OwnedFd);

impl Write for Out<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buf)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match sock::send(self.0, parts)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            n => Ok(n),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn wrong(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl Tls {
    fn new(mut conn: Connection) -> Tls {
        conn.set_buffer_limit(Some(OUT_MAX));
        Tls { conn, raw: vec![0; RAW], from: 0, to: 0, plain: 0 }
    }

    /// The server's end.
    pub(crate) fn server(config: &Arc<ServerConfig>) -> io::Result<Tls> {
        Ok(Tls::new(ServerConnection::new(config.clone()).map_err(wrong)?.into()))
    }

    /// The end of a client.
    pub(crate) fn client(identity: &Identity) -> io::Result<Tls> {
        let conn = ClientConnection::new(identity.config.clone(), identity.server_name.clone()).map_err(wrong)?;
        Ok(Tls::new(conn.into()))
    }

    /// Goes on with the handshake. Whether it is done.
    pub(crate) fn handshake(&mut self, fd: &OwnedFd) -> io::Result<bool> {
        self.flush(fd)?;
        for _ in 0..ROUNDS {
            if !self.conn.is_handshaking() {
                break;
            }
            match self.take(fd)? {
                Took::Some => {}
                Took::Nothing => return Ok(false),
                Took::End => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        Ok(!self.conn.is_handshaking())
    }

    /// The certificate of the other end, after the handshake.
    pub(crate) fn peer(&self) -> Option<[u8; 32]> {
        Some(fingerprint(self.conn.peer_certificates()?.first()?))
    }

    /// True if there is something to read of which the socket does not tell.
    pub(crate) fn holds(&self) -> bool {
        self.plain > 0 || self.from < self.to
    }

    /// True if bytes wait for room in the socket.
    pub(crate) fn is_writing(&self) -> bool {
        self.conn.wants_write()
    }

    /// As [`sock::Sock::read`].
    pub(crate) fn read(&mut self, fd: &OwnedFd, buf: &mut [u8]) -> io::Result<Option<usize>> {
        for _ in 0..ROUNDS {
            match self.conn.reader().read(buf) {
                Ok(n) => {
                    self.plain = self.plain.saturating_sub(n);
                    return Ok(Some(n));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Without a farewell. Messages say how long they are: none is taken for whole that is not.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Some(0)),
                Err(error) => return Err(error),
            }
            match self.take(fd)? {
                Took::Some => {}
                Took::Nothing => return Ok(None),
                Took::End => return Ok(Some(0)),
            }
        }
        Ok(None)
    }

    /// Takes some of what has come.
    fn take(&mut self, fd: &OwnedFd) -> io::Result<Took> {
        if self.from == self.to {
            match sock::recv(fd, &mut self.raw)? {
                None => return Ok(Took::Nothing),
                Some(0) => return Ok(Took::End),
                Some(n) => (self.from, self.to) = (0, n),
            }
        }
        self.from += self.conn.read_tls(&mut &self.raw[self.from..self.to])?;
        let state = self.conn.process_new_packets().map_err(|error| {
            // The other end is told why, if it listens.
            let _ = self.conn.write_tls(&mut Out(fd));
            wrong(error)
        })?;
        self.plain = state.plaintext_bytes_to_read();
        self.flush(fd)?;
        Ok(Took::Some)
    }

    /// As [`sock::Sock::write`]: how much was taken, which may wait for room here. Empty: what waits goes on.
    pub(crate) fn write(&mut self, fd: &OwnedFd, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush(fd)?;
        if parts.is_empty() {
            return Ok(0);
        }
        let taken = self.conn.writer().write_vectored(parts)?;
        self.flush(fd)?;
        Ok(taken)
    }

    fn flush(&mut self, fd: &OwnedFd) -> io::Result<()> {
        while self.conn.wants_write() {
            match self.conn.write_tls(&mut Out(fd)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
