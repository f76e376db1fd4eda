//! The policies that come with Loligo, as text. What each does is told in its own header.

/// Name and text of each.
pub fn embedded() -> &'static [(&'static str, &'static str)] {
    &[]
}
