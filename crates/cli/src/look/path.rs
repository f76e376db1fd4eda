//! `loligo path`: from inode numbers, as they stand in logs, findings and tables, to paths. A server is asked if one runs; else the data directory is
//! read.

use std::path::{Path, PathBuf};

use loligo_types::Ino;
use serde_json::json;

use crate::args::Target;
use crate::care;
use crate::output::{Failure, Outcome, put};
use crate::ranks::place::Asker;
use crate::service::state::ServerState;
use crate::target;

/// Prints a line for each, in the order in which they were given.
pub fn run(words: &[String], data: Option<&Path>, server: Option<&str>, as_json: bool) -> Outcome {
    let (inos, at) = apart(words)?;
    if let Some(at) = at
        && data.is_some()
    {
        return Err(
            Failure::usage(format!("{} and an option name two servers", at.display())).remedy("leave one of them out")
        );
    }
    let paths = paths(&inos, data.or(at), server)?;
    let known: Vec<(u64, Option<String>)> = inos.iter().copied().zip(paths).collect();
    if as_json {
        let all: Vec<_> = known.iter().map(|(ino, path)| json!({ "inode": ino, "path": path })).collect();
        put(format_args!("{:#}", json!(all)))?;
    } else {
        for (_, path) in &known {
            put(path.as_deref().unwrap_or("-"))?;
        }
    }
    match known.iter().find(|(_, path)| path.is_none()) {
        None => Ok(()),
        Some((ino, _)) => Err(Failure::new(format!(
            "inode {ino} has no path, or none that this user is shown: there is no such inode, it has no name any more, or it is in a \
             directory that a client has for itself"
        ))
        .remedy("as root every file is named; others are shown directories that they may search")),
    }
}

/// The numbers, and the path that names the server, if there is one.
fn apart(words: &[String]) -> Result<(Vec<u64>, Option<&Path>), Failure> {
    let (mut inos, mut at) = (Vec::new(), None);
    for word in words {
        match word.parse() {
            Ok(ino) => inos.push(ino),
            Err(_) if at.is_none() && Path::new(word).is_dir() => at = Some(Path::new(word)),
            Err(_) => {
                return Err(Failure::usage(format!("{word} is neither a number of an inode nor a directory"))
                    .remedy("give numbers, and a path inside a mount or --data DIR"));
            }
        }
    }
    match inos.is_empty() {
        true => Err(Failure::usage("no inode is named").remedy("give numbers, as in: loligo path 300 MOUNT")),
        false => Ok((inos, at)),
    }
}

fn paths(inos: &[u64], data: Option<&Path>, server: Option<&str>) -> Result<Vec<Option<String>>, Failure> {
    let text = |path: PathBuf| path.display().to_string();
    let data = data.map(target::data_of).transpose()?;
    if let Some(data) = &data
        && ServerState::read(data)?.is_none()
    {
        let found = care::paths_of(data, inos)?;
        return Ok(found.into_iter().map(|path| path.map(text)).collect());
    }
    let target = Target { data, server: server.map(str::to_string), path: None };
    let asker = Asker::new(&target::find(&target)?)?;
    Ok(inos.iter().map(|ino| asker.path_of(Ino(*ino)).map(text)).collect())
}
