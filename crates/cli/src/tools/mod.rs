//! Commands beside the file system itself.

pub mod bench;
pub mod completions;
mod server;
pub mod workload;
