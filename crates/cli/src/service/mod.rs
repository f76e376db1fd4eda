//! Commands that start and stop things.

pub mod admin;
pub mod daemon;
pub mod descriptors;
pub mod down;
pub mod format;
pub mod helper;
pub mod mount;
pub mod preflight;
pub mod serve;
pub mod state;
pub mod umount;
pub mod up;

mod left;
mod node;
mod notify;
mod presence;
mod signals;
mod told;
mod unmerged;
pub mod waiting;

pub use node::data_dir;
