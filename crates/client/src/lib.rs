//! The client machine: sessions, retries, leases, open files, cached reads and written data.
pub mod call;
pub use call::{Call, CallResult, Done, Failed, Fallocate, Fh, Invalidation};
