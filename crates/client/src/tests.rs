//! Scenarios with a small server in memory, and the data path against a plain vector of bytes.

mod append;
mod data;
mod extents;
mod faults;
mod interrupts;
mod model;
mod net;
mod ranks;
mod server;
mod sessions;
