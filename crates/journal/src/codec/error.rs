//! Errors of encoded bytes.

use thiserror::Error;

/// Why bytes could not be decoded. Offsets count from the start of the decoded value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum DecodeError {
    /// The bytes end in the middle of a value.
    #[error("the bytes end at offset {at} in the middle of a value: they were cut or are not of this format")]
    Truncated {
        /// Where.
        at: usize,
    },
    /// More bytes than the value has.
    #[error("{left} bytes are left over after the value at offset {at}: they are not of this format")]
    Trailing {
        /// Where the value ends.
        at: usize,
        /// Number of bytes that follow.
        left: usize,
    },
    /// Written by a version that this program does not know.
    #[error("the {what} has format version {found}, this program knows {known}: use the version that wrote it")]
    UnknownVersion {
        /// Which thing.
        what: &'static str,
        /// Its version.
        found: u8,
        /// The version known here.
        known: u8,
    },
    /// An event code that this program does not know.
    #[error("unknown event code {code} at offset {at}: written by a newer program, or broken")]
    UnknownEvent {
        /// The code.
        code: u8,
        /// Where.
        at: usize,
    },
    /// A field holds what it never can.
    #[error("the {what} before offset {at} is not valid: the bytes are broken")]
    Invalid {
        /// Which field.
        what: &'static str,
        /// Just after it.
        at: usize,
    },
}
