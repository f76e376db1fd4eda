//! What an identity may do, and below which paths. Data and their text form; who asks, and where an inode is, stands in `paths.rs`.

use std::fmt;
use std::str::FromStr;

use loligo_types::Name;

/// Most paths of one identity.
pub const GRANTS_MAX: usize = 16;
/// Longest path in the text form, bytes.
const PATH_MAX: usize = 4096;

/// What may be done at a path and below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Names from the root on; none: everything.
    pub path: Vec<Name>,
    /// Also changes.
    pub write: bool,
}

/// All that an identity may do. What no grant covers it may not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rights {
    grants: Vec<Grant>,
}

impl Rights {
    /// Of the whole file system.
    pub fn everywhere(write: bool) -> Rights {
        Rights { grants: vec![Grant { path: Vec::new(), write }] }
    }

    /// Of these; at least one and at most [`GRANTS_MAX`], none of them for a path that another is for.
    pub fn of(grants: Vec<Grant>) -> Result<Rights, String> {
        if grants.is_empty() || grants.len() > GRANTS_MAX {
            return Err(format!("{} paths, where 1 to {GRANTS_MAX} can be", grants.len()));
        }
        for (at, grant) in grants.iter().enumerate() {
            if grants[..at].iter().any(|other| other.path == grant.path) {
                return Err(format!("{} is named twice", PathText(&grant.path)));
            }
        }
        Ok(Rights { grants })
    }

    /// The grants, in the order in which they were given.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Whether nothing may be changed anywhere.
    pub fn is_read_only(&self) -> bool {
        !self.grants.iter().any(|grant| grant.write)
    }

    /// Whether it matters where something is.
    pub fn is_limited(&self) -> bool {
        // One for everything that lets nothing change is told by `is_read_only`, unless others let something.
        let everywhere = |grant: &Grant| grant.path.is_empty() && (grant.write || self.is_read_only());
        !self.grants.iter().any(everywhere)
    }
}

/// `/` and the names.
struct PathText<'a>(&'a [Name]);

impl fmt::Display for PathText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("/");
        }
        self.0.iter().try_for_each(|name| write!(f, "/{name}"))
    }
}

/// `r:/some/path` or `rw:/some/path`.
impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", if self.write { "rw" } else { "r" }, PathText(&self.path))
    }
}

impl FromStr for Grant {
    type Err = String;

    fn from_str(text: &str) -> Result<Grant, String> {
        let odd = || format!("{text:?} is no right: write r:/PATH, or rw:/PATH");
        let (rights, path) = text.split_once(':').ok_or_else(odd)?;
        let write = match rights {
            "rw" => true,
            "r" => false,
            _ => return Err(odd()),
        };
        let below = path.strip_prefix('/').ok_or_else(|| format!("the path in {text:?} does not begin with /"))?;
        if path.len() > PATH_MAX {
            return Err(format!("the path has {} bytes, where {PATH_MAX} can be", path.len()));
        }
        if path.chars().any(char::is_control) {
            return Err(format!("the path in {text:?} has a control character in it, which cannot be"));
        }
        let names = below.strip_suffix('/').unwrap_or(below);
        if names.is_empty() {
            return if below.is_empty() { Ok(Grant { path: Vec::new(), write }) } else { Err(odd()) };
        }
        let name = |part: &str| {
            Name::new(part.as_bytes())
                .map_err(|_| format!("{part:?} in {text:?} is not the name of a directory or file"))
        };
        let path = names.split('/').map(name).collect::<Result<Vec<_>, _>>()?;
        Ok(Grant { path, write })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(text: &str) -> Grant {
        text.parse().expect("a good one")
    }

    #[test]
    fn a_grant_is_read_as_it_is_written_and_nonsense_is_told() {
        for text in ["rw:/", "r:/", "r:/a", "rw:/a/b c/ü", "rw:/..."] {
            assert_eq!(grant(text).to_string(), text);
        }
        assert_eq!(grant("r:/a/").to_string(), "r:/a");
        let long = format!("r:/{}", "x".repeat(256));
        let deep = format!("r:{}", "/x".repeat(2049));
        for bad in [
            "",
            "/",
            "a",
            "w:/a",
            "rw",
            "rw:",
            "rw:a",
            "r://",
            "r:/a//b",
            "r:/a/../b",
            "r:/./a",
            "r:/a\nb",
            &long,
            &deep,
        ] {
            assert!(bad.parse::<Grant>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn rights_know_whether_they_let_change_anything_and_whether_places_matter() {
        let of = |texts: &[&str]| Rights::of(texts.iter().map(|text| grant(text)).collect());
        let told = |texts: &[&str]| of(texts).map(|rights| (rights.is_read_only(), rights.is_limited()));
        assert_eq!(told(&["rw:/"]), Ok((false, false)));
        assert_eq!(told(&["r:/"]), Ok((true, false)));
        assert_eq!(told(&["r:/a"]), Ok((true, true)));
        assert_eq!(told(&["r:/", "rw:/a"]), Ok((false, true)));
        assert_eq!(told(&["rw:/", "r:/a"]), Ok((false, false)), "what one gives another does not take");
        assert_eq!(of(&["rw:/"]), Ok(Rights::everywhere(true)));
        assert!(told(&["r:/a", "rw:/a/"]).is_err());
        assert!(told(&[]).is_err());
        assert!(Rights::of((0..17).map(|n| grant(&format!("r:/{n}"))).collect()).is_err());
    }
}
