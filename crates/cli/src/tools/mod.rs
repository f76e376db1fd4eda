//! Commands beside the file system itself.

pub mod bench;
pub mod completions;
pub mod man;
mod server;
pub mod version;
pub mod workload;
