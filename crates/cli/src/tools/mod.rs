//! Commands beside the file system itself.

pub mod bench;
pub mod completions;
pub mod workload;
