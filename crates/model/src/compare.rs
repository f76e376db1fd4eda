//! Runs steps on the model and on a level, and compares every answer and, at the end, the whole tree.

use std::fmt;

use loligo_types::{Cred, FsResult, Kind};

use crate::{Action, PathFs, Reference, Step};

/// Where the two differ.
#[derive(Debug)]
pub struct Mismatch {
    /// After this many steps.
    pub at: usize,
    /// The step, or what was compared at the end.
    pub what: String,
    /// The model's answer.
    pub model: String,
    /// The level's.
    pub level: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: {}\n  model: {}\n  level: {}", self.at, self.what, self.model, self.level)
    }
}

/// Bytes that tell where they were written and by which step.
fn pattern(step: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (step.wrapping_mul(31).wrapping_add(i * 7) % 251) as u8 + 1).collect()
}

fn apply(fs: &mut dyn PathFs, n: usize, step: &Step) -> String {
    let who = &step.who.cred();
    fn show<T: fmt::Debug>(result: FsResult<T>) -> String {
        format!("{result:?}")
    }
    match &step.action {
        Action::Create { path, mode, exclusive } => show(fs.create(who, path, *mode, *exclusive)),
        Action::Write { path, offset, len, cut } => show(fs.write(who, path, *offset, &pattern(n, *len), *cut)),
        Action::Append { path, len } => show(fs.append(who, path, &pattern(n, *len))),
        Action::Read { path } => show(fs.read(who, path).map(|d| digest(&d))),
        Action::Truncate { path, size } => show(fs.truncate(who, path, *size)),
        Action::Mkdir { path, mode } => show(fs.mkdir(who, path, *mode)),
        Action::Rmdir { path } => show(fs.rmdir(who, path)),
        Action::Unlink { path } => show(fs.unlink(who, path)),
        Action::Link { old, new } => show(fs.link(who, old, new)),
        Action::Symlink { target, path } => show(fs.symlink(who, target, path)),
        Action::Readlink { path } => show(fs.readlink(who, path)),
        Action::Rename { old, new, mode } => show(fs.rename(who, old, new, *mode)),
        Action::Chmod { path, mode } => show(fs.chmod(who, path, *mode)),
        Action::Chown { path, uid, gid } => show(fs.chown(who, path, *uid, *gid)),
        Action::Stat { path } => show(fs.stat(who, path)),
        Action::List { path } => show(fs.list(who, path)),
        Action::SetXattr { path, name, len, mode } => show(fs.set_xattr(who, path, name, &pattern(n, *len), *mode)),
        Action::GetXattr { path, name } => show(fs.get_xattr(who, path, name)),
        Action::RemoveXattr { path, name } => show(fs.remove_xattr(who, path, name)),
    }
}

/// Length and a sum that depends on every byte's place, so that a difference prints short.
fn digest(data: &[u8]) -> (usize, u64) {
    let sum =
        data.iter().fold(14_695_981_039_346_656_037u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(1_099_511_628_211));
    (data.len(), sum)
}

/// Runs all steps on a new model and on the level, which must be empty and owned by root with mode 0777.
pub fn run(level: &mut dyn PathFs, steps: &[Step]) -> Result<(), Mismatch> {
    run_with(Reference::new(), level, steps)
}

/// The same with a model that is set up already.
pub fn run_with(mut model: Reference, level: &mut dyn PathFs, steps: &[Step]) -> Result<(), Mismatch> {
    for (at, step) in steps.iter().enumerate() {
        let expected = apply(&mut model, at, step);
        let found = apply(level, at, step);
        if expected != found {
            return Err(Mismatch { at, what: format!("{step:?}"), model: expected, level: found });
        }
    }
    let (expected, found) = (picture(&mut model), picture(level));
    for (a, b) in expected.iter().zip(&found) {
        if a != b {
            return Err(Mismatch { at: steps.len(), what: "the tree".into(), model: a.clone(), level: b.clone() });
        }
    }
    if expected.len() != found.len() {
        let (model, level) = (expected.len().to_string(), found.len().to_string());
        return Err(Mismatch { at: steps.len(), what: "number of files in the tree".into(), model, level });
    }
    Ok(())
}

/// Every file with attributes and content, as root sees it.
fn picture(fs: &mut dyn PathFs) -> Vec<String> {
    let root = Cred::root();
    let mut lines = Vec::new();
    let mut todo = vec![String::new()];
    while let Some(dir) = todo.pop() {
        let entries = fs.list(&root, &dir);
        let Ok(entries) = entries else {
            lines.push(format!("{dir}: {entries:?}"));
            continue;
        };
        for (name, kind) in entries {
            let name = String::from_utf8_lossy(&name).into_owned();
            let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
            let content = match kind {
                Kind::File => format!("{:?}", fs.read(&root, &path).map(|d| digest(&d))),
                Kind::Symlink => format!("{:?}", fs.readlink(&root, &path)),
                _ => String::new(),
            };
            let xattrs: Vec<_> =
                ["user.x", "user.y", "trusted.t"].iter().map(|n| fs.get_xattr(&root, &path, n).ok()).collect();
            lines.push(format!("{path} {kind:?} {:?} {content} {xattrs:?}", fs.stat(&root, &path)));
            if kind == Kind::Dir {
                todo.push(path);
            }
        }
    }
    lines
}
