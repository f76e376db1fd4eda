//! `loligo balancer log`: what balancers of all ranks decided, and which policy was put in force.

use std::collections::BTreeMap;

use loligo_types::Ino;

use super::text::ago;
use crate::args::Target;
use crate::look::ask;
use crate::output::{Failure, Outcome, put};
use crate::ranks::place::Asker;
use crate::service::admin::balancer::LineDoc;
use crate::target::{self, Found};

/// Directories that the server is asked for the path of: each takes listing those above it.
const PATHS_MAX: usize = 100;

/// Prints the last lines, the newest last; directories by their paths now, if they have one that this user may see.
pub fn run(lines: usize, target: &Target, json: bool) -> Outcome {
    let found = target::find(target)?;
    let page = format!("/api/v1/balancer/log/{lines}");
    let log: Vec<LineDoc> = ask::json(&found, &page)?;
    if json {
        return put(serde_json::to_string(&log).map_err(|e| Failure::new(format!("the log as JSON: {e}")))?);
    }
    if log.is_empty() {
        return put("nothing was decided yet");
    }
    let paths = paths(&found, &log);
    for LineDoc { at_ms, rank, text } in log {
        let text = named(&text, &paths);
        let who = rank.map_or("cluster".to_string(), |rank| format!("rank {rank}"));
        put(format_args!("{:>14}  {who:<8}  {text}", ago(at_ms)))?;
    }
    Ok(())
}

/// The number of the directory that a line is about, with what stands before and behind it.
fn directory(text: &str) -> Option<(&str, Ino, &str)> {
    let (before, rest) = text.split_once(": directory ")?;
    let (number, behind) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    Some((before, Ino(number.parse().ok()?), behind))
}

/// The line with the directory's path in place of its number, if that is known.
fn named(text: &str, paths: &BTreeMap<Ino, String>) -> String {
    match directory(text).and_then(|(before, dir, behind)| Some((before, paths.get(&dir)?, behind))) {
        Some((before, path, behind)) => format!("{before}: directory {path}{behind}"),
        None => text.to_string(),
    }
}

/// The paths of the directories in the log, as far as they can be told: the newest lines' first.
fn paths(found: &Found, log: &[LineDoc]) -> BTreeMap<Ino, String> {
    let mut dirs: Vec<Ino> = Vec::new();
    for (_, dir, _) in log.iter().rev().filter_map(|line| directory(&line.text)) {
        if dirs.len() < PATHS_MAX && !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    // Where clients connect may not be known, and the log is worth reading if nobody answers there.
    let asker = if dirs.is_empty() { None } else { Asker::new(found).ok() };
    let path = |dir: Ino| asker.as_ref().and_then(|asker| asker.path_of(dir));
    dirs.into_iter().filter_map(|dir| Some((dir, path(dir)?.display().to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_names_its_directory_by_a_path_if_there_is_one() {
        let paths = BTreeMap::from([(Ino(17), "/a b".to_string())]);
        let named = |text: &str| named(text, &paths);
        assert_eq!(
            named("policy 1: directory 17 fragment 1/2 to rank 1, load 3.0"),
            "policy 1: directory /a b fragment 1/2 to rank 1, load 3.0"
        );
        for other in
            ["policy 1: directory 18 to rank 1", "policy 2 is in force: x", "policy 1: directory", "a: directory x"]
        {
            assert_eq!(named(other), other);
        }
    }
}
