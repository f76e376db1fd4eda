//! A directory with those above it, and the policies that they have: the nearest one counts. Read through the mount that holds
//! it or, if a server is named, from that. Not here: what is done with it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loligo_driver::client::Call;
use loligo_namespace::{PLACEMENT, SUBTREE};
use loligo_subtree_policy::{SubtreePolicy, policy};
use loligo_types::limits::XATTR_VALUE_MAX;
use loligo_types::{Answer, FsError, Ino, Kind, Op, Placement, XattrMode};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::source;
use crate::args::Directory;
use crate::mounts;
use crate::output::{Context, Failure, Outcome};
use crate::ranks::place::{self, Asker};

/// Deeper than any path that a system call takes.
const DEPTH_MAX: usize = 2048;

/// A directory and the policy that it says itself.
pub struct Link {
    /// As the user would name it.
    pub name: String,
    /// The policy, as it is shown.
    pub text: Option<Vec<u8>>,
    /// Its number, which says how it was placed.
    pub ino: Ino,
    /// The directory's own placement of directories that are made in it.
    pub own: Placement,
}

/// A directory and all above it, itself first.
pub struct Chain {
    at: At,
    links: Vec<Link>,
    /// True if the last one is the root of the file system, and not just that of a mount.
    pub to_root: bool,
}

/// Access to the directory: in a mount, or through a server.
enum At {
    Mounted(PathBuf),
    Served(Asker, Ino),
}

/// The policy that counts at a directory.
pub struct InForce {
    /// The policy.
    pub policy: SubtreePolicy,
    /// Which directory has it; none for the default.
    pub from: Option<String>,
}

impl InForce {
    /// For people: of whom it is.
    pub fn whose(&self) -> String {
        self.from.as_ref().map_or("the default, posix".to_string(), |from| format!("the policy of {from}"))
    }
}

/// Finds a directory that a policy may be set on.
pub fn of_directory(dir: &Directory) -> Result<Chain, Failure> {
    find(dir, true)
}

/// Finds what is at any path: a file stands under the policy of its directory.
pub fn of_any(path: &Directory) -> Result<Chain, Failure> {
    find(path, false)
}

fn find(dir: &Directory, directory: bool) -> Result<Chain, Failure> {
    match place::server(dir)? {
        Some(found) => served(Asker::new(&found)?, &dir.path, directory),
        None => mounted(&dir.path, directory),
    }
}

fn mounted(path: &Path, directory: bool) -> Result<Chain, Failure> {
    let name = || path.display().to_string();
    place::in_a_mount(path)?;
    let mut dir = path.canonicalize().context(name)?;
    if !dir.is_dir() {
        if directory {
            return Err(place::no_directory(&name()));
        }
        dir.pop();
    }
    let top = mounts::over(&mounts::all()?, &dir).map_or_else(|| "/".into(), |line| line.path);
    let (mut links, mut hidden) = (Vec::new(), false);
    for above in dir.ancestors().take_while(|above| above.starts_with(&top)) {
        let ino = Ino(std::fs::metadata(above).context(|| above.display().to_string())?.ino());
        let (text, own) =
            match read_mounted(above, SUBTREE).and_then(|text| Ok((text, read_mounted(above, PLACEMENT)?))) {
                Ok((text, own)) => (text, placement_of(own)),
                // An identity that is limited to paths sees no policies above them.
                Err(Errno::ACCESS) if !links.is_empty() => {
                    hidden = true;
                    break;
                }
                Err(error) => return Err(unreadable(above, error)),
            };
        links.push(Link { name: above.display().to_string(), text, ino, own });
    }
    let to_root = std::fs::metadata(&top).context(|| top.display().to_string())?.ino() == Ino::ROOT.0;
    Ok(Chain { at: At::Mounted(dir), links, to_root: to_root && !hidden })
}

fn unreadable(dir: &Path, error: Errno) -> Failure {
    let failure = Failure::new(format!("the policy of {}: {error}", dir.display()));
    match error {
        Errno::ACCESS => failure.remedy(
            "an identity that is limited to paths (loligo auth list) works below them: name a directory there, or mount with an identity that may more",
        ),
        _ => failure,
    }
}

fn placement_of(value: Option<Vec<u8>>) -> Placement {
    value.and_then(|value| Placement::named(&value)).unwrap_or_default()
}

fn read_mounted(dir: &Path, name: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
    // No policy is longer.
    read_up_to(dir, name, policy::LEN_MAX)
}

fn read_up_to(dir: &Path, name: &[u8], most: usize) -> Result<Option<Vec<u8>>, Errno> {
    let mut value = vec![0; most];
    match rustix::fs::getxattr(dir, name, &mut value) {
        Ok(len) => {
            value.truncate(len);
            Ok(Some(value))
        }
        Err(Errno::NODATA) => Ok(None),
        Err(error) => Err(error),
    }
}

fn served(asker: Asker, path: &Path, directory: bool) -> Result<Chain, Failure> {
    let name = || path.display().to_string();
    let mut attr = asker.stat(path).context(name)?;
    if attr.kind != Kind::Dir {
        if directory {
            return Err(place::no_directory(&name()));
        }
        let above = path.parent().unwrap_or(Path::new("/"));
        attr = asker.stat(above).context(|| above.display().to_string())?;
    }
    let (mut links, mut at) = (Vec::new(), attr.ino);
    for _ in 0..DEPTH_MAX {
        let shown = asker.path_of(at).map_or_else(|| format!("inode {}", at.0), |path| path.display().to_string());
        let read = |name: &[u8]| match asker.call(Call::Op(Op::GetXattr { ino: at, name: Arc::from(name) })) {
            Ok(done) => match done.answer {
                Answer::Bytes(text) => Ok(Some(text.to_vec())),
                _ => Ok(None),
            },
            Err(FsError::NoData) => Ok(None),
            Err(error) => Err(Failure::new(format!("the policy of {shown}: {error}"))),
        };
        let (text, own) = (read(SUBTREE)?, placement_of(read(PLACEMENT)?));
        links.push(Link { name: shown, text, ino: at, own });
        if at == Ino::ROOT {
            break;
        }
        at = asker.parent(at).context(|| format!("what is above {}", name()))?;
    }
    Ok(Chain { at: At::Served(asker, attr.ino), links, to_root: at == Ino::ROOT })
}

impl Link {
    /// The policy that it says itself.
    fn policy(&self) -> Result<Option<SubtreePolicy>, Failure> {
        let Some(text) = &self.text else { return Ok(None) };
        let name = format!("the policy of {}", self.name);
        SubtreePolicy::parse_bytes(text).map(Some).map_err(|fault| source::wrong(&name, &fault))
    }
}

impl Chain {
    /// The directory, as the user would name it.
    pub fn name(&self) -> &str {
        self.links.first().map_or("/", |link| &link.name)
    }

    /// True if the directory has a policy of its own.
    pub fn has_own(&self) -> bool {
        self.links.first().is_some_and(|link| link.text.is_some())
    }

    /// The policy in force: that of the nearest directory that has one.
    pub fn in_force(&self) -> Result<InForce, Failure> {
        nearest(&self.links)
    }

    /// The policy that would be in force if the directory had none of its own.
    pub fn inherited(&self) -> Result<InForce, Failure> {
        nearest(self.links.get(1..).unwrap_or(&[]))
    }

    /// The directory, and those above it.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Refuses what is below the floor of a directory above.
    pub fn check_floors(&self, policy: &SubtreePolicy) -> Outcome {
        for above in self.links.iter().skip(1) {
            let Some(parent) = above.policy()? else { continue };
            if let Err(below) = loligo_subtree_policy::check_floor(&parent, policy) {
                return Err(Failure::found(format!("{}: {below} ({})", self.name(), above.name)).remedy(format!(
                    "set a policy that is at least {}, or lower the floor of {}",
                    parent.floor(),
                    above.name
                )));
            }
        }
        Ok(())
    }

    /// An extended attribute of the directory.
    pub fn attribute(&self, name: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        match &self.at {
            At::Mounted(dir) => read_up_to(dir, name, XATTR_VALUE_MAX).map_err(|error| unreadable(dir, error)),
            At::Served(asker, ino) => match asker.call(Call::Op(Op::GetXattr { ino: *ino, name: Arc::from(name) })) {
                Ok(done) => match done.answer {
                    Answer::Bytes(bytes) => Ok(Some(bytes.to_vec())),
                    _ => Ok(None),
                },
                Err(FsError::NoData) => Ok(None),
                Err(error) => Err(Failure::new(format!("the policy of {}: {error}", self.name()))),
            },
        }
    }

    /// A note that directories above the top of the chain are not visible, if the top is not the root of the file system.
    pub fn unseen(&self) -> Option<String> {
        let top = &self.links.last()?.name;
        (!self.to_root).then(|| {
            format!("{top} is not the root of the file system: what directories above it say is not seen from here")
        })
    }

    /// Sets its policy.
    pub fn set(&self, text: &str) -> Outcome {
        let done = match &self.at {
            At::Mounted(dir) => {
                rustix::fs::setxattr(dir, SUBTREE, text.as_bytes(), XattrFlags::empty()).map_err(refusal)
            }
            At::Served(asker, ino) => {
                let value = Arc::from(text.as_bytes());
                let set = Op::SetXattr { ino: *ino, name: Arc::from(SUBTREE), value, mode: XattrMode::Set };
                asker.call(Call::Op(set)).map(drop).map_err(answer)
            }
        };
        done.map_err(|(why, remedy)| self.refused(&why, remedy))
    }

    /// Takes its policy away.
    pub fn unset(&self) -> Outcome {
        let done = match &self.at {
            At::Mounted(dir) => rustix::fs::removexattr(dir, SUBTREE).map_err(refusal),
            At::Served(asker, ino) => {
                let remove = Op::RemoveXattr { ino: *ino, name: Arc::from(SUBTREE) };
                asker.call(Call::Op(remove)).map(drop).map_err(answer)
            }
        };
        done.map_err(|(why, remedy)| self.refused(&why, remedy))
    }

    fn refused(&self, why: &str, remedy: Option<&str>) -> Failure {
        let failure = Failure::new(format!("the policy of {}: {why}", self.name()));
        match remedy {
            Some(remedy) => failure.remedy(remedy),
            None => failure,
        }
    }
}

fn nearest(links: &[Link]) -> Result<InForce, Failure> {
    for link in links {
        if let Some(policy) = link.policy()? {
            return Ok(InForce { policy, from: Some(link.name.clone()) });
        }
    }
    Ok(InForce { policy: SubtreePolicy::default(), from: None })
}

/// Remedy for a missing right to set a policy.
const OWNERS: &str = "do it as root, or as the owner of the directory; a floor or a ceiling is root's alone to set, change and take away, and the policy must not be \
     below the floor of a directory above (loligo policy explain)";

/// Why it cannot be done now.
const DECOUPLED: &str =
    "it, or a directory above it, is decoupled by another mount or program, which has it for itself";
/// Why it does not fit there.
const UNEQUAL: &str = "it is in a decoupled directory, or the root of one, and the policy would promise more than holds there, or less than the \
     policy of a directory below it";
/// The remedy for both refusals.
const RECOUPLE: &str = "loligo status names who has it: set it through that mount, or give it back there first (loligo recouple DIRECTORY)";

/// Why a system call was refused, and what to do.
fn refusal(error: Errno) -> (String, Option<&'static str>) {
    match error {
        Errno::PERM | Errno::ACCESS => (error.to_string(), Some(OWNERS)),
        Errno::BUSY => (DECOUPLED.to_string(), Some(RECOUPLE)),
        Errno::OPNOTSUPP => (UNEQUAL.to_string(), Some(RECOUPLE)),
        error => (error.to_string(), None),
    }
}

/// The same of a server's answer.
fn answer(error: FsError) -> (String, Option<&'static str>) {
    match error {
        FsError::Perm | FsError::Access => (error.to_string(), Some(OWNERS)),
        FsError::Busy => (DECOUPLED.to_string(), Some(RECOUPLE)),
        FsError::NotSupported => (UNEQUAL.to_string(), Some(RECOUPLE)),
        error => (error.to_string(), None),
    }
}
