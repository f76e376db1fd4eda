//! Schemas: small documents from which the entries of a directory, and all below it, are computed instead of stored (Sevilla, Tintenfisch:
//! thesis chapter 7).
//!
//! [`document`] reads the text; [`formula`] is a tree of paths with arguments, [`manifest`] a sorted list in a file, and [`code`] the interface
//! of programs; all three give an [`Entry`] for a number, for a name in a directory, and for a place in a listing. Not here: setting a
//! document, changes over the entries, running programs, indexing archives. No IO, no clock; untrusted bytes never make it panic.

pub mod code;
pub mod document;
mod entry;
mod fault;
pub mod formula;
pub mod limits;
pub mod manifest;
mod nearest;

pub use document::{Document, Generator, Overlay};
pub use entry::{Attributes, Body, Entry, Slice};
pub use fault::{Cause, Fault};
