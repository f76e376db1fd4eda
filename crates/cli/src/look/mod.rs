//! Commands that show something and change nothing.

pub mod config;
mod counted;
pub mod decoupled;
pub mod doctor;
mod hot;
pub mod path;
pub mod status;
pub mod top;

pub mod ask;
