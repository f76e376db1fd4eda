//! Commands that show something and change nothing.

pub mod config;
pub mod status;
pub mod top;

mod ask;
