//! Sockets, threads and disks around the machines: the server of a file system, and the client that a program uses.
//!
//! Everything that waits is here; everything that decides is in the machines (`mds`, `osd`, `client`). The server's one
//! rank thread is in [`server`]; [`Client`](client) is a program's way in.

pub mod address;
mod alive;
pub mod client;
pub mod offline;
pub mod server;
pub mod sock;
mod tls;

pub use address::{Address, AddressError};
pub use client::Client;
pub use loligo_mds::{Grant, Rights, Squash};
pub use loligo_rows::Error as RowsError;
pub use offline::Offline;
pub use server::{
    AdviceStatus, Advised, Auth, DataFault, DefaultPolicy, FormatOptions, InForce, Joint, Listed, LogLine, Named,
    RankStatus, Replier, Server, ServerConfig, ServerError, Status, Tick, Unanswered, Version, format, is_name,
    policy_before, socket_in,
};
pub use tls::{Identity, IdentityError};
