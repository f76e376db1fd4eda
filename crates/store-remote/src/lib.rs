//! The engine of one process, served to others on the same machine over a Unix socket.
//!
//! One process owns a data directory; [`Service`] serves its store, and [`RemoteStore`] is that store behind the same
//! traits in another process. Every call is one request and one answer, which comes when the owner's engine has returned:
//! what is durable there is durable here. Requests of one connection are done in order; each thread that calls has a
//! connection of its own, so calls run side by side as they would in the owner.
//!
//! A connection that breaks makes the whole store [`loligo_store::StoreError::Lost`] for ever: nobody knows whether the
//! last request was done. Whoever uses it stops, and begins anew from what is durable.
//!
//! Not here: who may have which journal when (the owner gives tickets, see [`Service::admit`]), and TCP. Only processes of
//! the same user, or root's, are heard. The bytes are drawn in `docs/formats/store.md`.

mod answer;
mod bytes;
mod client;
mod execute;
mod request;
mod service;
#[cfg(test)]
mod tests;

pub use answer::Answer;
pub use bytes::Malformed;
pub use client::RemoteStore;
pub use request::{PROTOCOL_VERSION, REQUEST_MAX, Request};
pub use service::Service;
