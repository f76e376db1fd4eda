//! Paths of members as paths of a manifest: relative, without `..`, nothing else changed.

use loligo_schema::manifest::Path;

use crate::fault::Cause;

/// The path of a member, and true if it ends in a slash. None: the directory itself (`.` or `./`).
pub(crate) fn path_of(bytes: &[u8]) -> Result<Option<(Path, bool)>, Cause> {
    if bytes.is_empty() || bytes.contains(&0) {
        return Err(Cause::NoPath);
    }
    if bytes.starts_with(b"/") {
        return Err(Cause::Absolute);
    }
    let mut names = Vec::new();
    for name in bytes.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => return Err(Cause::Upwards),
            name => names.push(name),
        }
    }
    if names.is_empty() {
        return Ok(None);
    }
    Ok(Some((Path::new(names)?, bytes.ends_with(b"/"))))
}
