//! A checked name of a directory entry. Not a path.

use crate::{FsError, limits};

/// 1 to 255 bytes without `/` and NUL, and neither `.` nor `..`. Any other byte is allowed, as POSIX has it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u8]>);

impl Name {
    /// Checks and takes a name. `NameTooLong` over 255 bytes, `Invalid` for anything else that is no name.
    pub fn new(bytes: &[u8]) -> Result<Name, FsError> {
        Name::check(bytes)?;
        Ok(Name(bytes.into()))
    }

    /// Checks that these bytes are a name; the errors of [`Name::new`].
    pub fn check(bytes: &[u8]) -> Result<(), FsError> {
        if bytes.len() > limits::NAME_MAX {
            return Err(FsError::NameTooLong);
        }
        if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.iter().any(|b| *b == b'/' || *b == 0) {
            return Err(FsError::Invalid);
        }
        Ok(())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}
