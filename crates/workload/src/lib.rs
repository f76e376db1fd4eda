//! Workloads of programs on a file system, as data: for each client a sequence of [`Call`]s on paths, from a [`Spec`] and a
//! seed, or from a recorded trace ([`trace`]). The same spec and seed give the same calls. Each call is one thing that a program
//! does with one or a few POSIX calls in a row (see [`Call`]), so it can be carried out on a mount as well as in a simulation.
//!
//! Not here: who carries the calls out, when, and how long that takes. No clock, no files, no threads.
//!
//! | file | what |
//! |---|---|
//! | `call.rs` | calls, and what a workload consists of |
//! | `spec.rs` | workloads as text: `create-shared:clients=4,files=100000` |
//! | `create.rs` | files made in one directory, or in one for each client |
//! | `compile.rs` | a kernel-like tree is compiled and linked |
//! | `untar.rs` | a tree is unpacked |
//! | `tree.rs` | a tree of directories with files, made by many in phases |
//! | `tree_balanced.rs`, `tree_zipf.rs`, `tree_synthetic.rs` | shapes of such trees |
//! | `stats.rs` | a tree is made, and its files are looked at |
//! | `linkedin.rs` | a tree is made, and a mix of calls made on it as in a large HDFS installation |
//! | `choice.rs`, `zipf.rs` | which file is meant, and Zipf's law |
//! | `trace.rs` | recorded calls: the text format, its reader and its writer |

mod call;
mod choice;
mod compile;
mod create;
mod linkedin;
mod rng;
mod spec;
mod stats;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_linkedin;
#[cfg(test)]
mod tests_trees;
pub mod trace;
mod tree;
mod tree_balanced;
mod tree_synthetic;
mod tree_zipf;
mod untar;
mod zipf;

pub use call::{Call, Item, Lane, Path, Workload};
pub use rng::Rng;
pub use spec::Spec;
