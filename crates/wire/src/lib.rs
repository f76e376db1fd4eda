//! Protocol messages, framing and versions.
