//! The cause why a directory of a mount cannot be decoupled, or given back: what is open there, another owner, another rank, as far as this machine and
//! the server tell this user. Not here: the decision, which is the rank's and the client's.

use std::path::{Path, PathBuf};

use loligo_types::Ino;

use super::has::plain;
use crate::look::{ask, decoupled};
use crate::mounts;
use crate::output::{Failure, human_files, quoted};
use crate::ranks::place::{self, Asker, Place};
use crate::service::admin::doc::{StatusDoc, SubtreeDoc};
use crate::target;

/// Files that are named.
const SHOWN: usize = 3;

/// The failure to decouple a directory that is in use.
pub fn not_decoupled(dir: &Path, inode: Ino) -> Failure {
    let (name, shown) = (dir.display(), quoted(dir));
    let at_server = target::served_by(dir).ok().flatten().and_then(|server| target::by_mount(&server).ok());
    let found = at_server.filter(|found| found.admin.is_some() && !found.is_closed());
    let server = found.and_then(|found| {
        let asker = Asker::new(&found).ok()?;
        let path = asker.path_of(inode)?;
        let place = Place { found, ino: inode, name: name.to_string(), mounted: Some(dir.to_path_buf()) };
        Some((place, asker, path))
    });
    let owner = server.as_ref().and_then(|(place, _, path)| owner_near(place, path));
    let open = || {
        let open = open_below(dir)?;
        Some(Failure::new(format!("{name} is in use: {open}")).remedy("close it, then again"))
    };
    let rank = || server.as_ref().and_then(|(place, asker, path)| rank_below(place, asker, path));
    owner.or_else(open).or_else(rank).unwrap_or_else(|| {
        Failure::new(format!(
            "{name} is in use: a file below it is open on another machine, or a directory below it is decoupled or another rank's"
        ))
        .remedy(format!("see who is there: loligo status {shown}; and which ranks: loligo subtree list {shown}"))
    })
}

/// Names of files below a directory that programs of this machine have open, with these programs, as far as this user may see that. A directory itself
/// may be open, too.
pub fn open_below(dir: &Path) -> Option<String> {
    let dirs = seen_at(dir);
    let own = std::process::id();
    let mut all = Vec::new();
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // This command holds the directory itself.
        let fds = std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten().filter(|_| pid != own);
        let targets = fds.filter_map(|fd| std::fs::read_link(fd.path()).ok());
        let mut open: Vec<PathBuf> = targets.filter(|path| dirs.iter().any(|dir| path.starts_with(dir))).collect();
        open.sort();
        open.dedup();
        let Some(first) = open.first() else { continue };
        let program = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        let more =
            if open.len() > 1 { format!(" and {} more", human_files(open.len() as u64 - 1)) } else { String::new() };
        all.push(format!(
            "{} (process {pid}) has {}{more} open",
            plain(program.trim()),
            plain(&first.display().to_string())
        ));
    }
    all.sort();
    let more = if all.len() > SHOWN { format!(", and {} more processes", all.len() - SHOWN) } else { String::new() };
    all.truncate(SHOWN);
    (!all.is_empty()).then(|| all.join(", ") + &more)
}

/// The directory as programs of this machine see it: by its own mount, and by others of the whole file system.
fn seen_at(dir: &Path) -> Vec<PathBuf> {
    let lines = mounts::all().unwrap_or_default();
    let Some(own) = mounts::over(&lines, dir) else { return vec![dir.to_path_buf()] };
    let below = dir.strip_prefix(&own.path).unwrap_or(Path::new(""));
    let same = lines.iter().filter(|line| line.server().is_some() && line.server() == own.server());
    same.map(|line| line.path.join(below)).collect()
}

/// The directory, or one above or below it, is decoupled.
fn owner_near(place: &Place, path: &Path) -> Option<Failure> {
    let status: StatusDoc = ask::json(&place.found, "/api/v1/status").ok()?;
    let mut all: Vec<_> = status.ranks.into_iter().flat_map(|rank| rank.decoupled).collect();
    decoupled::paths(&place.found, all.iter_mut().map(|one| (one.dir, &mut one.path)));
    let (one, root) = all.iter().find_map(|one| {
        let root = one.path.as_deref().map(Path::new)?;
        (root.starts_with(path) || path.starts_with(root)).then_some((one, root))
    })?;
    let owner = format!("is decoupled by {} (user {})", plain(&one.name), one.uid);
    let text = match root == path {
        true => format!("{} {owner}", place.name),
        false if root.starts_with(path) => {
            format!("{}, which is below {}, {owner}", plain(&root.display().to_string()), place.name)
        }
        false => format!("{}, which is above {}, {owner}", plain(&root.display().to_string()), place.name),
    };
    Some(Failure::new(text).remedy(
        "have it given back first: loligo recouple DIRECTORY in its owner's mount; as root: loligo abandon --force",
    ))
}

/// A directory below is another rank's.
fn rank_below(place: &Place, asker: &Asker, path: &Path) -> Option<Failure> {
    let home = place::authority(place).ok()?;
    let (lines, _): (Vec<SubtreeDoc>, _) = ask::json_of_all(&place.found, "/api/v1/subtrees").ok()?;
    let others = lines.iter().filter(|line| line.rank != home);
    let (line, below) = others
        .filter_map(|line| Some((line, asker.path_of(Ino(line.dir))?)))
        .find(|(_, below)| below.starts_with(path))?;
    Some(
        Failure::new(format!(
            "{}, which is in {}, is at rank {}, and does not come to rank {home}",
            plain(&below.display().to_string()),
            place.name,
            line.rank
        ))
        .remedy("see whether it is pinned: loligo subtree list; if so: loligo subtree unpin DIRECTORY; then again"),
    )
}
