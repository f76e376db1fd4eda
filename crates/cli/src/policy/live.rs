//! `loligo decouple`, `sync`, `recouple`, and `merge` and `abandon` of a directory on a mount: the mount's client has it for itself, and
//! programs below it go fast without knowing why. Told by an extended attribute of the directory; what it says stands in the client
//! machine (`own/command.rs`). Not here: journals of programs that died (`kept.rs`).

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use loligo_subtree_policy::{Cell, Interfere, SubtreePolicy};
use loligo_types::limits::SUBTREE_LEASE_MS_MAX;
use loligo_types::{Conflict, Ino};
use rustix::fs::{Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use serde_json::json;

use super::{below, busy, chain, conflicts, placing, source};
use crate::args::{Directory, Order};
use crate::mounts;
use crate::output::{Context, Failure, Outcome, UNCHANGED, counted, human_bytes, human_count, note, put, quoted};
use crate::progress::{Bar, Unit};
use crate::ranks::place;
use crate::target;

const NAME: &str = "loligo.subtree";
/// Interval at which progress is polled: at first, and at most.
const LOOK: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// A status is no longer than this, bytes.
const STATUS_MAX: usize = 16 << 10;

/// A directory on a mount that is, or is to be, the mount's alone.
pub struct Live {
    dir: PathBuf,
    /// Orders go to it, wherever it is by then: a directory above it may be renamed meanwhile. It is not open for that.
    at: PathBuf,
    _held: Option<OwnedFd>,
}

/// Result of a merge or another order.
pub struct Told {
    /// Records of the journal that were merged, and their bytes.
    pub records: u64,
    /// Likewise.
    pub bytes: u64,
    /// Conflicts with what others did meanwhile, and the first of them.
    pub conflicts: u64,
    pub told: Vec<Conflict>,
}

/// Access of others to a decoupled directory.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub enum Others {
    #[default]
    Refused,
    /// They read the state of the last merge.
    Read,
    /// They read and write.
    Work,
}

/// Outstanding changes of a decoupled directory.
#[derive(Clone, Default)]
pub struct Outstanding {
    /// Operations that changed something.
    pub changes: u64,
    /// Events that they were put down as.
    pub events: u64,
    /// Age of the oldest change, milliseconds.
    pub age_ms: u64,
    /// The file that those on the disk are in.
    pub kept: Option<String>,
    /// Bytes of the journal.
    pub bytes: u64,
    /// Number of changes on this machine's disk.
    pub persisted: u64,
    /// Number of changes in the store.
    pub stored: u64,
    /// The stage of the pipeline that failed last and has not succeeded since, and why.
    pub failed: Option<(String, String)>,
    /// The policy that it is decoupled with, as far as it says how changes become durable and visible.
    pub policy: SubtreePolicy,
    /// Access of others to it.
    pub others: Others,
    /// The inode of the decoupled directory, which this one may be below.
    pub root: u64,
}

impl Live {
    /// Finds it.
    pub fn of(path: &Path) -> Result<Live, Failure> {
        if target::served_by(path)?.is_none() {
            return Err(Failure::new(format!("{} is not inside a Loligo mount", path.display())).remedy(
                "give a directory inside a mount; is it mounted? (findmnt -t fuse.loligo shows what is) The journal of a program that is gone is merged by \
                 loligo merge FILE --data DATA",
            ));
        }
        let dir = path.canonicalize().map_err(|error| match error.kind() {
            std::io::ErrorKind::ResourceBusy => {
                Failure::new(format!("{} is in a directory that another client has decoupled", path.display()))
                    .remedy(format!("see who has it: loligo policy explain {}", quoted(path)))
            }
            _ => Failure::new(format!("{}: {error}", path.display())),
        })?;
        if !dir.is_dir() {
            return Err(place::no_directory(&path.display().to_string()));
        }
        let held = rustix::fs::open(&dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .context(|| dir.display().to_string())?;
        let at = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
        Ok(Live { dir, at, _held: Some(held) })
    }

    /// The object at a path, a directory or not.
    pub fn at(path: &Path) -> Live {
        Live { dir: path.to_path_buf(), at: path.to_path_buf(), _held: None }
    }

    fn status(&self) -> Result<String, Failure> {
        let mut value = vec![0; STATUS_MAX];
        match rustix::fs::getxattr(&self.at, NAME, &mut value) {
            Ok(len) => Ok(String::from_utf8_lossy(&value[..len]).into_owned()),
            Err(Errno::NODATA) => Ok(String::new()),
            Err(error) => Err(Failure::new(format!("{}: {error}", self.dir.display()))),
        }
    }

    /// The outstanding changes; none if this mount has not decoupled the directory.
    pub fn outstanding(&self) -> Result<Option<Outstanding>, Failure> {
        let status = self.status()?;
        let fact = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
            line.and_then(|value| value.trim().parse().ok())
        };
        Ok(fact("epoch").map(|_: u64| Outstanding {
            changes: fact("changes").unwrap_or(0),
            events: fact("events").unwrap_or(0),
            age_ms: fact("age_ms").unwrap_or(0),
            kept: status.lines().find_map(|line| line.strip_prefix("kept ")).map(String::from),
            bytes: fact("bytes").unwrap_or(0),
            persisted: fact("persisted").unwrap_or(0),
            stored: fact("stored").unwrap_or(0),
            failed: status
                .lines()
                .find_map(|line| line.strip_prefix("failed_stage ")?.split_once(' '))
                .map(|(stage, error)| (stage.to_string(), error.to_string())),
            policy: status.lines().find_map(|line| line.strip_prefix("pipeline ")).map(policy_of).unwrap_or_default(),
            others: match status.lines().find_map(|line| line.strip_prefix("others ")) {
                Some("read") => Others::Read,
                Some("allow") => Others::Work,
                _ => Others::Refused,
            },
            root: fact("root").unwrap_or(0),
        }))
    }

    /// The policy that this directory is decoupled with; nothing if this mount does not have it, or has it as a part of a larger one.
    pub fn in_force(&self) -> Result<Option<SubtreePolicy>, Failure> {
        let inode = std::fs::metadata(&self.at).context(|| self.dir.display().to_string())?.ino();
        Ok(self.outstanding()?.filter(|out| out.root == inode).map(|out| out.policy))
    }

    /// It is decoupled already, and another policy is named.
    pub fn has_a_policy(&self) -> Failure {
        let shown = quoted(&self.dir);
        Failure::new(format!("{} is decoupled by this mount already, with a policy", self.dir.display())).remedy(format!(
            "run the command with that one: without --policy; or give the directory back first: loligo merge {shown}, then loligo recouple {shown}"
        ))
    }

    /// Refuses the root of the file system, whatever the policy is.
    pub fn refuse_root(&self) -> Outcome {
        let meta = std::fs::metadata(&self.at).context(|| self.dir.display().to_string())?;
        if meta.ino() == Ino::ROOT.0 { Err(self.is_root()) } else { Ok(()) }
    }

    fn is_root(&self) -> Failure {
        Failure::new(format!("{} is the root of the file system, and stays at the servers", self.dir.display()))
            .remedy("name a directory below the root")
    }

    /// Prints what an order would do: `sync`, `merge`, `recouple` or `abandon`.
    fn foretell(&self, verb: &str, as_json: bool) -> Outcome {
        let out = self.outstanding()?.ok_or_else(|| self.refused(verb, Errno::NODATA))?;
        if as_json {
            return put(json!({
                "directory": self.dir.display().to_string(),
                "order": verb,
                "changed": false,
                "outstanding": out.changes,
                "bytes": out.bytes,
                "persisted": out.persisted,
                "stored": out.stored,
            }));
        }
        let changes = format!("{} ({})", counted(out.changes, "change"), human_bytes(out.bytes));
        let then = match verb {
            "abandon" => "dropped; the directory is given back",
            "recouple" => "completed as the policy says; the directory is given back",
            "sync" => "completed as the policy says",
            _ => "merged",
        };
        put(format_args!("{}: {changes} to be {then}\n{UNCHANGED}", self.dir.display()))
    }

    /// Prints the conflicts of a merge.
    pub fn tell_conflicts(&self, told: &Told) {
        let paths = below::look(&self.dir, &conflicts::inodes(&told.told), &conflicts::names(&told.told));
        conflicts::tell(told.conflicts, &told.told, &paths, &self.dir);
    }

    /// Has the directory decoupled. `lease`: seconds.
    pub fn decouple(&self, document: &str, lease: f64) -> Outcome {
        let lease_ms = (lease * 1000.0).clamp(1.0, f64::from(SUBTREE_LEASE_MS_MAX));
        self.order_with("decouple", &format!(" lease_ms={lease_ms:.0}"), document).map(drop)
    }

    /// Has something done, and waits until it is.
    pub fn order(&self, verb: &str, document: &str) -> Result<Told, Failure> {
        self.order_with(verb, "", document)
    }

    fn order_with(&self, verb: &str, more: &str, document: &str) -> Result<Told, Failure> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let number = since.as_nanos() as u64 ^ (u64::from(std::process::id()) << 40);
        let words = format!("{verb} {number}{more}\n{document}");
        rustix::fs::setxattr(&self.at, NAME, words.as_bytes(), XattrFlags::empty())
            .map_err(|error| self.refused(verb, error))?;
        let (mut pause, mut bar) = (LOOK.0, None);
        let key = format!("command {number} ");
        loop {
            let status = self.status()?;
            let said = status.lines().find_map(|line| line.strip_prefix(&key));
            match said.map(|said| said.split(' ').collect::<Vec<_>>()).as_deref() {
                Some(["done", records, bytes, rest @ ..]) => {
                    drop(bar);
                    return Ok(Told {
                        records: number_of(records),
                        bytes: number_of(bytes),
                        conflicts: rest.first().map_or(0, |count| number_of(count)),
                        told: conflicts::of(&status, number),
                    });
                }
                Some(["failed", "Refused", by, dir]) => return Err(self.in_the_way(by, number_of(dir))),
                Some(["failed", error, "at", stage]) => return Err(self.failed_at(verb, error, stage)),
                Some(["failed", error]) => return Err(self.failed(verb, error)),
                Some(["running", done, total]) => {
                    if number_of(total) > 0 {
                        let bar = bar.get_or_insert_with(|| Bar::start(verb, number_of(total), Unit::Bytes));
                        bar.set(number_of(done));
                    }
                }
                _ => {
                    return Err(Failure::new(format!(
                        "{}: the mount does not know of the order any more",
                        self.dir.display()
                    ))
                    .remedy("look what became of it: loligo status"));
                }
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LOOK.1);
        }
    }

    fn refused(&self, verb: &str, error: Errno) -> Failure {
        let name = self.dir.display();
        let shown = quoted(&self.dir);
        match error {
            Errno::NODATA => Failure::new(format!("{name} is not decoupled by this mount"))
                .remedy(format!("who has it: loligo status {shown}; to have it: loligo decouple {shown}")),
            Errno::OPNOTSUPP if verb == "decouple" => Failure::new(format!(
                "{name}: its policy does not permit that it is decoupled, or keeps journals on this machine where the mount has no place for them (keep_dir)"
            ))
            .remedy(format!("give one that does: loligo decouple {shown} --policy batchfs")),
            Errno::BUSY if verb == "decouple" => self.decoupled_already(),
            Errno::STALE => self.taken(),
            Errno::PERM | Errno::ACCESS => Failure::new(format!("{name}: {error}"))
                .remedy("do it as root, or as the owner of the directory, or who has decoupled it"),
            error => Failure::new(format!("{name}: {error}")),
        }
    }

    /// It, or a directory above it, is decoupled by this mount.
    fn decoupled_already(&self) -> Failure {
        let root = self.outstanding().ok().flatten().map_or(0, |out| out.root);
        // Nothing above the mount is touched.
        let is_root = |path: &&Path| path.metadata().is_ok_and(|meta| meta.ino() == root);
        let top = mounts::all().ok().and_then(|lines| mounts::over(&lines, &self.dir)).map(|line| line.path);
        let above = self.dir.ancestors().take_while(|path| top.as_ref().is_none_or(|top| path.starts_with(top)));
        let root = above.into_iter().find(is_root).unwrap_or(&self.dir);
        let (name, shown) = (self.dir.display(), quoted(root));
        let what = match root == self.dir {
            true => format!("{name} is decoupled by this mount already"),
            false => format!("{name} is below {}, which is decoupled by this mount already", root.display()),
        };
        Failure::new(what).remedy(format!(
            "merge it and give it back first: loligo merge {shown}, then loligo recouple {shown}; or drop its changes: loligo abandon {shown}"
        ))
    }

    /// The directory is not this mount's any more.
    fn taken(&self) -> Failure {
        Failure::new(format!(
            "{} was taken from this mount: its lease was over, or root has given it up (loligo abandon --force). What was not merged is not in it",
            self.dir.display()
        ))
        .remedy(
            "if its policy is local or global, what was not merged is in a file of keep_dir on this machine, which the mount's log names: \
             loligo journal inspect FILE",
        )
    }

    /// It is not decoupled, because of the policy of a directory below or above.
    fn in_the_way(&self, by: &str, dir: u64) -> Failure {
        let (name, shown) = (self.dir.display(), quoted(&self.dir));
        let place = Directory { data: None, server: None, path: self.dir.clone() };
        let above = chain::of_directory(&place).ok();
        let above = above.as_ref().and_then(|chain| chain.links().iter().find(|link| link.ino.0 == dir));
        let below = below::look(&self.dir, &[dir].into(), &BTreeSet::new()).by_number.remove(&dir);
        let below = below.map(|path| self.dir.join(path));
        let (other, quoted_other) = match (above, below) {
            (Some(link), _) => (link.name.clone(), quoted(Path::new(&link.name))),
            (None, Some(path)) => (path.display().to_string(), quoted(&path)),
            (None, None) => (format!("directory number {dir}"), format!("\"$(find {shown} -inum {dir})\"")),
        };
        match by {
            "below" => Failure::new(format!(
                "{name} is not decoupled: the policy of {other}, which is below it, promises more than the one that would be carried out, and all \
                 below a decoupled directory is treated alike"
            ))
            .remedy(format!(
                "see what it promises: loligo policy show {quoted_other}; decouple with a policy that promises as much, or move it elsewhere, or give \
                 it a weaker policy: loligo policy set {quoted_other} POLICY"
            )),
            "floor" => Failure::new(format!("{name} is not decoupled: the floor of {other} asks for more than the policy that would be carried out"))
                .remedy(format!("decouple with a policy that is at least so: loligo policy show {quoted_other} says what it asks for")),
            "limit" => Failure::new(format!(
                "{name} is not decoupled: the policy of {other} grants fewer inode numbers, or a shorter lease"
            ))
            .remedy(format!(
                "ask for less (allocated_inodes of the policy, --lease): loligo policy show {quoted_other} says how much there is"
            )),
            _ => Failure::new(format!("{name} is not decoupled: the policy of {other} forbids it for all below"))
                .remedy("work there without, or ask who administers the file system"),
        }
    }

    /// A stage of the pipeline has failed. What is special about its error is said as elsewhere.
    fn failed_at(&self, verb: &str, error: &str, stage: &str) -> Failure {
        let failure = self.failed(verb, error);
        let (cause, remedy) = failure.parts();
        let done = "the stages before it are done and count, those after it were not begun";
        let shown = quoted(&self.dir);
        let again = format!("then again: loligo {verb} {shown}; what is outstanding: loligo policy explain {shown}");
        Failure::new(format!("{cause}: the stage {stage} of the pipeline failed; {done}")).remedy(
            match (remedy, stage) {
                (Some(remedy), _) => remedy.to_string(),
                (None, "local_persist") => format!("look at keep_dir of this machine (room, permissions), {again}"),
                (None, _) => format!("see that the server is well (loligo status), {again}"),
            },
        )
    }

    fn failed(&self, verb: &str, error: &str) -> Failure {
        let (name, shown) = (self.dir.display(), quoted(&self.dir));
        match (verb, error) {
            ("decouple", "Busy") => {
                let inode = std::fs::metadata(&self.at).map_or(0, |meta| meta.ino());
                busy::not_decoupled(&self.dir, Ino(inode))
            }
            ("decouple", "Perm") => Failure::new(format!("{name} is another user's")).remedy(
                "do it as its owner, or as root; over an identity root counts as nobody unless that was made with --squash none (loligo auth list)",
            ),
            ("decouple", "Invalid") => self.is_root(),
            ("decouple", "NotSupported") => Failure::new(format!("{name} cannot be decoupled with this policy on this mount"))
                .remedy("choose one whose operations wait for a merge; one that keeps journals on this machine needs keep_dir"),
            ("recouple", "Busy") => {
                let is_merged = self.outstanding().is_ok_and(|out| out.is_some_and(|out| out.changes == 0));
                let done = if is_merged { "merged, but not given back" } else { "not given back" };
                let open = busy::open_below(&self.dir).map_or(String::new(), |open| format!(": {open}"));
                Failure::new(format!("{name}: {done}, as a file is open still{open}"))
                    .remedy(format!("close it, then: loligo recouple {shown}"))
            }
            (_, "Busy") => Failure::new(format!("something below {name} is open still"))
                .remedy(format!("close it, then again: loligo {verb} {shown}")),
            (_, "NotEmpty") => {
                Failure::new(format!("{name} has changes that nobody else knows, and its policy does not merge them"))
                    .remedy(format!("merge them: loligo merge {shown}; or drop them: loligo abandon {shown}"))
            }
            (_, "Stale") => self.taken(),
            (_, "CrossDevice") => Failure::new(format!(
                "{name}: a directory in it was moved below one with a floor that its policy does not keep: nothing is merged"
            ))
            .remedy(format!("move it back, then again; loligo policy explain {shown} names floors")),
            (_, "Perm") => Failure::new(format!(
                "{name}: a directory in it was renamed, moved or removed that has a floor or a ceiling: nothing is merged, as that is root's alone"
            ))
            .remedy("give it back its name and place, then again; or ask who administers the file system"),
            (_, "Invalid") => Failure::new(format!(
                "{name}: something was made in it that the user who decoupled it may not make: nothing is merged, and it stays as it is"
            ))
            .remedy(format!(
                "copy what you need of it to elsewhere, then drop what was not merged: loligo abandon {shown}; only root makes devices, capabilities and other users' files"
            )),
            (_, "Access") => Failure::new(format!(
                "{name}: the user who decoupled it may not change it, or something in it, any more: owner or mode are others by now; nothing was merged"
            ))
            .remedy(format!(
                "give it back to that user (chown, chmod), then again: loligo {verb} {shown}; or copy what you need of it to elsewhere, then drop what \
                 was not merged: loligo abandon {shown}"
            )),
            (_, error) => Failure::new(format!("{name}: {verb}: {error}")),
        }
    }
}

/// A policy that says this of how changes become durable and visible.
fn policy_of(pipeline: &str) -> SubtreePolicy {
    SubtreePolicy::parse(&format!("pipeline = \"{pipeline}\"\n")).unwrap_or_default()
}

fn number_of(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

/// The policy that is to be carried out: one that is given, or that which counts at the directory.
pub fn policy_for(path: &Path, given: Option<&Path>) -> Result<(SubtreePolicy, String), Failure> {
    let place = Directory { data: None, server: None, path: path.to_path_buf() };
    let chain = chain::of_directory(&place)?;
    if let Some(unseen) = chain.unseen() {
        note(format_args!("note: {unseen}, nor are their floors"));
    }
    let (policy, text) = match given {
        Some(given) => {
            let given = source::named(given)?;
            chain.check_floors(&given.policy)?;
            (given.policy, given.text)
        }
        None => {
            let now = chain.in_force()?;
            let text = now.policy.to_text();
            (now.policy, text)
        }
    };
    if !policy.pipeline().has_client_journal() {
        return Err(Failure::new(format!(
            "{} cannot be decoupled with {}, which is {}: by that each operation goes to the server at once, so that there is nothing for the mount \
             to do alone",
            path.display(),
            if given.is_some() { "the policy that was named" } else { "its policy" },
            policy.cell()
        ))
        .remedy(format!(
            "name a policy that has the mount work alone, for this time: --policy batchfs; or for good: loligo policy set {} batchfs (loligo policy presets \
             shows others)",
            quoted(path)
        )));
    }
    // The server refuses it, too, with a number for a reason.
    let placed = placing::of(chain.links());
    if policy.excludes(placed.placement) {
        return Err(placing::contradiction(chain.name(), placed.placement, &placed.why));
    }
    Ok((policy, text))
}

/// Options of `loligo decouple`.
pub struct How<'a> {
    /// A policy that is named; none: that which counts at the directory.
    pub policy: Option<&'a Path>,
    /// Seconds.
    pub lease: f64,
    /// As JSON.
    pub json: bool,
    /// Only say what would be.
    pub dry_run: bool,
}

/// `loligo decouple`.
pub fn decouple(path: &Path, how: &How<'_>) -> Outcome {
    let live = Live::of(path)?;
    live.refuse_root()?;
    let (policy, text) = policy_for(path, how.policy)?;
    if how.dry_run {
        // Refused as without it, if this mount knows why.
        if live.outstanding()?.is_some() {
            return Err(live.decoupled_already());
        }
        // The policy of a directory that is not decoupled holds if it is relaxed; one for decoupled work holds only while it is.
        let now = policy_for(path, None).map_or(Cell::POSIX, |(now, _)| match now.is_relaxed() {
            true => now.cell(),
            false => Cell::POSIX,
        });
        let (directory, then) = (live.dir.display(), policy.cell());
        if how.json {
            let directory = directory.to_string();
            return put(
                json!({ "directory": directory, "from": now.to_string(), "to": then.to_string(), "decoupled": false }),
            );
        }
        return put(format_args!(
            "{directory}: {now} -> decoupled for this mount, {then}{}\n{UNCHANGED}",
            others(&policy)
        ));
    }
    live.decouple(&text, how.lease)?;
    if how.json {
        return put(json!({
            "directory": live.dir.display().to_string(),
            "cell": policy.cell().to_string(),
            "interfere": policy.interfere().name(),
            "decoupled": true,
        }));
    }
    put(format_args!(
        "{} {}{}, {}: to give it back, loligo recouple {}",
        live.dir.display(),
        match policy.interfere() {
            Interfere::Block => "is this mount's alone",
            Interfere::Allow | Interfere::Read => "is decoupled for this mount",
        },
        others(&policy),
        policy.cell(),
        quoted(&live.dir)
    ))
}

/// The access of others to a directory that is decoupled with a policy, as the end of a sentence.
fn others(policy: &SubtreePolicy) -> &'static str {
    match policy.interfere() {
        Interfere::Allow => ", and others work there, too",
        Interfere::Read => "; others read the last merge",
        Interfere::Block => "",
    }
}

/// `loligo sync`, `merge` and `recouple` of a directory.
pub fn complete(path: &Path, verb: &str, order: Order) -> Outcome {
    let live = Live::of(path)?;
    if order.dry_run {
        return live.foretell(verb, order.json);
    }
    let begun = Instant::now();
    let before = live.outstanding()?.map_or(0, |out| out.changes);
    let told = live.order(verb, "")?;
    let left = live.outstanding()?;
    if order.json {
        return put(json!({
            "directory": live.dir.display().to_string(),
            "records": told.records,
            "bytes": told.bytes,
            "conflicts": told.conflicts,
            "told": conflicts::json_of(&told.told),
            "seconds": begun.elapsed().as_secs_f64(),
            "decoupled": left.is_some(),
            "outstanding": left.as_ref().map_or(0, |left| left.changes),
        }));
    }
    live.tell_conflicts(&told);
    let all = summary(&live, &told, (before, left.as_ref()), begun.elapsed());
    put(format_args!("{}: {all}", live.dir.display()))
}

/// Summary of a merge, for people. `before`: the changes that were outstanding then.
pub fn summary(live: &Live, told: &Told, (before, left): (u64, Option<&Outstanding>), took: Duration) -> String {
    let merged = match told.records {
        0 => "nothing was to be merged".to_string(),
        _ => {
            let count = before.saturating_sub(left.map_or(0, |left| left.changes));
            format!("{} ({}) in {:.2} s", merged(count), human_bytes(told.bytes), took.as_secs_f64())
        }
    };
    match left {
        None => format!("{merged}; {} is a directory like others again", live.dir.display()),
        Some(left) if left.changes == 0 => format!("{merged}; {} stays decoupled for this mount", live.dir.display()),
        Some(left) => format!(
            "{merged}; {} ({}) known to this mount alone, {} of them on this machine's disk, {} in the store",
            counted(left.changes, "change"),
            human_bytes(left.bytes),
            human_count(left.persisted),
            human_count(left.stored)
        ),
    }
}

/// `6 changes were merged`. 0: not known, as programs have made others meanwhile.
fn merged(count: u64) -> String {
    match count {
        0 => "changes were merged".to_string(),
        1 => "1 change was merged".to_string(),
        n => format!("{} were merged", counted(n, "change")),
    }
}

/// `loligo abandon` of a directory.
pub fn abandon(path: &Path, order: Order) -> Outcome {
    let live = Live::of(path)?;
    if order.dry_run {
        return live.foretell("abandon", order.json);
    }
    let lost = live.outstanding()?.unwrap_or_default();
    live.order("abandon", "")?;
    if order.json {
        return put(
            json!({ "directory": live.dir.display().to_string(), "dropped": lost.changes, "decoupled": false }),
        );
    }
    put(format_args!(
        "{} is a directory like others again; {} dropped",
        live.dir.display(),
        match lost.changes {
            1 => "1 change was".to_string(),
            n => format!("{} were", counted(n, "change")),
        }
    ))
}
