//! Rights of an identity: the paths below which they hold, and the users that it acts for. Data and their text form; their checks, which
//! need the place of an inode, stand in `paths.rs`.

use std::fmt;
use std::str::FromStr;

use loligo_types::{Cred, Name};

/// Most paths of one identity.
pub const GRANTS_MAX: usize = 16;
/// User and group whose place those take that an identity does not act for: nobody's, as everywhere.
pub const NOBODY: u32 = 65_534;
/// Longest path in the text form, bytes.
const PATH_MAX: usize = 4096;

/// Right at a path and below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Names from the root on; none: everything.
    pub path: Vec<Name>,
    /// Also changes.
    pub write: bool,
}

/// Which users of its host an identity may not act for: those count as [`NOBODY`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Squash {
    /// It acts for all.
    #[default]
    None,
    /// It does not act for user and group 0.
    Root,
    /// It acts for none.
    All,
}

impl Squash {
    /// Maps a user of its host to the one that it counts as.
    pub fn apply(self, cred: &mut Cred) {
        match self {
            Squash::None => {}
            Squash::Root => {
                if cred.uid == 0 {
                    *cred = Cred::user(NOBODY, NOBODY);
                } else if cred.gid == 0 {
                    cred.gid = NOBODY;
                }
                cred.groups.retain(|gid| *gid != 0);
            }
            Squash::All => *cred = Cred::user(NOBODY, NOBODY),
        }
    }
}

impl fmt::Display for Squash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Squash::None => "none",
            Squash::Root => "root",
            Squash::All => "all",
        })
    }
}

impl FromStr for Squash {
    type Err = String;

    fn from_str(text: &str) -> Result<Squash, String> {
        let all = [Squash::None, Squash::Root, Squash::All];
        let found = all.into_iter().find(|squash| squash.to_string() == text);
        found.ok_or_else(|| format!("{text:?} is no set of users: write root, all or none"))
    }
}

/// All that an identity may do. What no grant covers it may not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rights {
    grants: Vec<Grant>,
    squash: Squash,
}

impl Rights {
    /// Of the whole file system.
    pub fn everywhere(write: bool) -> Rights {
        Rights { grants: vec![Grant { path: Vec::new(), write }], squash: Squash::None }
    }

    /// Of these; at least one and at most [`GRANTS_MAX`], none of them for a path that another is for. If they do not cover everything it does not act
    /// for root.
    pub fn of(grants: Vec<Grant>) -> Result<Rights, String> {
        if grants.is_empty() || grants.len() > GRANTS_MAX {
            return Err(format!("{} paths, where 1 to {GRANTS_MAX} can be", grants.len()));
        }
        for (at, grant) in grants.iter().enumerate() {
            if grants[..at].iter().any(|other| other.path == grant.path) {
                return Err(format!("{} is named twice", PathText(&grant.path)));
            }
        }
        let rights = Rights { grants, squash: Squash::None };
        let squash = if rights.is_limited() { Squash::Root } else { Squash::None };
        Ok(rights.squashing(squash))
    }

    /// The same, for other users.
    #[must_use]
    pub fn squashing(self, squash: Squash) -> Rights {
        Rights { squash, ..self }
    }

    /// The users that it does not act for.
    pub fn squash(&self) -> Squash {
        self.squash
    }

    /// The grants, in the order in which they were given.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// True if the rights let nothing be changed anywhere.
    pub fn is_read_only(&self) -> bool {
        !self.grants.iter().any(|grant| grant.write)
    }

    /// True if the rights depend on the place of an inode.
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
    fn users_that_an_identity_does_not_act_for_count_as_nobody() {
        let squashed = |squash: Squash, uid, gid, groups: &[u32]| {
            let mut cred = Cred { uid, gid, groups: groups.to_vec() };
            squash.apply(&mut cred);
            (cred.uid, cred.gid, cred.groups)
        };
        assert_eq!(squashed(Squash::None, 0, 0, &[0, 5]), (0, 0, vec![0, 5]));
        assert_eq!(squashed(Squash::Root, 0, 7, &[5]), (NOBODY, NOBODY, vec![]), "nor with root's other groups");
        assert_eq!(squashed(Squash::Root, 7, 0, &[0, 5]), (7, NOBODY, vec![5]));
        assert_eq!(squashed(Squash::All, 7, 8, &[5]), (NOBODY, NOBODY, vec![]));
        for squash in [Squash::None, Squash::Root, Squash::All] {
            assert_eq!(squash.to_string().parse(), Ok(squash));
        }
        assert!("Root".parse::<Squash>().is_err());
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
        let squash = |texts: &[&str]| of(texts).map(|rights| rights.squash());
        assert_eq!(squash(&["rw:/a"]), Ok(Squash::Root), "limited ones do not act for root unless that is said");
        assert_eq!(squash(&["rw:/"]), Ok(Squash::None));
        assert!(Rights::of((0..17).map(|n| grant(&format!("r:/{n}"))).collect()).is_err());
    }
}
