//! The bytes between clients and servers: protobuf messages in length-prefixed frames, and their checks.
//!
//! Pure: bytes in, messages out. No sockets and no timeouts (the driver's), no sessions and no meaning (`mds`).
//!
//! - [`encode_to_server`], [`encode_to_client`]: a message to the end of a buffer. [`head_to_server`] and
//!   [`head_to_client`] leave a long payload out of line, so that it is not copied.
//! - [`Decoder`]: bytes as they come, messages as they are whole. Everything that a type of `loligo_types` promises
//!   (names, limits, codes) is checked here, before anything is allocated for it.
//!
//! - [`encode_link`], [`LinkHeader`]: the same between processes of one file system, whose ranks talk to each other.
//!
//! The bytes are drawn in `docs/formats/frame.md` `docs/formats/wire.md` and `docs/formats/link.md`; `proto/loligo.proto` is the schema.

mod common;
mod decoder;
mod encode;
mod error;
mod frame;
mod from_client;
mod from_server;
mod link;
mod map;
mod op;
mod subtree;

#[cfg(test)]
mod tests;

/// The generated messages.
#[allow(clippy::all, missing_docs)]
mod proto {
    include!("../proto/loligo.v1.rs");
}

pub use decoder::{Decoder, FromClient, FromServer, Side};
pub use encode::{encode_to_client, encode_to_server, head_to_client, head_to_server};
pub use error::DecodeError;
pub use frame::{FRAME_VERSION, HANDSHAKE_MAX, HEAD_MAX, HEADER_LEN, MAGIC};
pub use link::{JOIN_MAX, LINK_MAX, LinkHeader, encode_link};
