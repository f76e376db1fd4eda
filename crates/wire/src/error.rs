//! Why bytes from a peer are refused. Not errors of operations: those travel inside messages.

/// Error of received bytes. After any of these the stream has no known frame boundary: close the connection.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// The first bytes are not those of a frame.
    #[error("these are not frames of Loligo (they begin with {found:02x?}); is the address that of another service?")]
    Magic {
        /// The bytes found.
        found: [u8; 2],
    },
    /// A frame of another layout.
    #[error("frame layout {found} is not known (this program knows {known}); use programs of the same release")]
    Version {
        /// Found.
        found: u8,
        /// Known.
        known: u8,
    },
    /// A message of the other direction: a client talks to a client, or a server to a server.
    #[error("a message of the wrong direction ({found})")]
    Direction {
        /// The direction byte.
        found: u8,
    },
    /// Longer than a frame may be (now).
    #[error("a frame of {len} bytes, {max} are allowed here")]
    TooLong {
        /// Bytes announced.
        len: u64,
        /// Most allowed.
        max: u64,
    },
    /// The checksum of header and message does not fit.
    #[error("the checksum of a frame does not fit (found {found:08x}, computed {computed:08x})")]
    Checksum {
        /// In the frame.
        found: u32,
        /// Over the bytes.
        computed: u32,
    },
    /// The message is no protobuf.
    #[error("a message cannot be read: {0}")]
    Protobuf(String),
    /// A field that must be there is absent.
    #[error("a message lacks {0}")]
    Missing(&'static str),
    /// A field holds what it must not.
    #[error("a message holds an invalid {0}")]
    Invalid(&'static str),
    /// Too many or too much of something.
    #[error("a message holds {found} of {what}, at most {max} are allowed")]
    Limit {
        /// Of what.
        what: &'static str,
        /// Number found.
        found: usize,
        /// Most allowed.
        max: usize,
    },
    /// Error of the journal's codec.
    #[error("records in a message cannot be read: {0}")]
    Link(#[from] loligo_journal::DecodeError),
    /// A payload behind a message that has none.
    #[error("{0} bytes of payload behind a message that takes none")]
    Payload(usize),
}

impl From<prost::DecodeError> for DecodeError {
    fn from(error: prost::DecodeError) -> DecodeError {
        DecodeError::Protobuf(error.to_string())
    }
}
