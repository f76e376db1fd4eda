//! The callbacks by subject. Each translates, submits, and answers from the completion; none waits.

pub(crate) mod dirs;
pub(crate) mod files;
mod found;
pub(crate) mod locks;
pub(crate) mod names;
pub(crate) mod size;
pub(crate) mod xattrs;
