//! Scenarios of policies against the public face of the crate: the paper's and our own, hostile ones, and other hosts than a
//! metadata server. Units are tested beside their code.

mod contract;
mod fuzz;
mod lint;
mod loligo;
mod paper;
mod support;
