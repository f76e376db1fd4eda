//! The documents of what lies below and beside the ranks, parts of `/api/v1/status`: the mount of the process, the disk, the table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A mount in the server's process.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct MountDoc {
    pub path: String,
    /// Inodes that the kernel knows.
    pub inodes: u64,
    /// Requests of the kernel.
    pub ops: BTreeMap<String, u64>,
    /// Errors answered.
    pub errors: BTreeMap<String, u64>,
    /// Bytes of file data: `read` and `written`.
    #[serde(default)]
    pub bytes: BTreeMap<String, u64>,
}

/// The disk below.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct SpaceDoc {
    pub total_bytes: u64,
    pub free_bytes: u64,
}

/// The table.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct TableDoc {
    /// Rows, as the store estimates them: those that were written again or removed may count until they are compacted.
    #[serde(alias = "keys")]
    pub estimated_keys: u64,
    pub bytes: u64,
}
