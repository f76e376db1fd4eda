//! The one binary, `loligo`.
fn main() {}
