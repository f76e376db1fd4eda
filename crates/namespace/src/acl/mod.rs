//! POSIX ACLs: their xattr bytes, and how they and the mode bits follow each other. Enforcement is in `access`.

pub mod mode;
pub mod xattr;

#[cfg(test)]
mod tests;
