//! The general engine: a loaded text with named callbacks ([`Program`]), evaluated again and again ([`Run`]) on whatever
//! environment the host supplies. No metric and no hook is known here; see [`crate::balance`] for a host.
//!
//! Each evaluation begins as if the text had just been read: globals and the file's own locals are new, because the text's
//! main chunk, compiled once, runs again in a fresh table of globals. The one thing that lasts is the state behind `WRstate`
//! and `RDstate`. Behind a policy's globals lie, read-only, the host's values and a few library functions; reading a name
//! that is nowhere is an error that names the nearest one.

mod arith;
mod budget;
mod program;
mod run;
mod value;
mod vm;

pub use program::{Code, HookSpec, Program};
pub use run::{Evaluated, Run};
pub use value::{Input, Output, Series, Value};
pub(crate) use vm::distance as near;

#[cfg(test)]
mod tests;
