//! `loligo policy history`: the versions of a directory's policy, and which was in force when; and what `set --version` and `--rollback` find there.
//! The history is the rank's to write (extended attribute of the directory). Not here: setting a policy (`set.rs`).

use loligo_namespace::HISTORY;
use loligo_subtree_policy::SubtreePolicy;
use loligo_subtree_policy::policy::History;
use loligo_subtree_policy::policy::history::{Changed, Version};
use serde_json::json;

use super::chain::{self, Chain};
use super::source::{self, Given};
use crate::args::Directory;
use crate::balancer::ago;
use crate::output::{Failure, Outcome, put, quoted};

/// Prints it; of a version its document.
pub fn run(dir: &Directory, version: Option<u32>, as_json: bool) -> Outcome {
    let chain = chain::of_directory(dir)?;
    let history = of(&chain)?;
    match version {
        Some(number) => {
            let text = text_of(&chain, &history, number, dir)?;
            put(text.trim_end())
        }
        None if as_json => put(format_args!("{:#}", document(&history))),
        None if history.is_empty() => put(format_args!("{} never had a policy of its own", chain.name())),
        None => lines(&history).into_iter().try_for_each(put),
    }
}

/// The history of the directory.
fn of(chain: &Chain) -> Result<History, Failure> {
    let Some(bytes) = chain.attribute(HISTORY)? else { return Ok(History::default()) };
    History::read(&bytes).map_err(|error| {
        Failure::new(format!("the history of the policy of {}: {error}", chain.name()))
            .remedy("use the newest program of those that work with this file system; if it is damaged: loligo fsck")
    })
}

/// A document as text.
fn text_of(chain: &Chain, history: &History, number: u32, dir: &Directory) -> Result<String, Failure> {
    let see = || format!("see loligo policy history {}", quoted(&dir.path));
    let version = history.version(number).ok_or_else(|| {
        let kept = match history.versions() {
            [] => "none is kept".to_string(),
            all => format!("kept are {}", all.iter().map(|one| one.number.to_string()).collect::<Vec<_>>().join(", ")),
        };
        Failure::new(format!("there is no version {number} of the policy of {}: {kept}", chain.name())).remedy(see())
    })?;
    String::from_utf8(version.text.clone()).map_err(|_| {
        Failure::new(format!("version {number} of the policy of {} is no text", chain.name())).remedy(see())
    })
}

/// A version of the directory's policy, to be set again.
pub fn version(chain: &Chain, number: u32, dir: &Directory) -> Result<Given, Failure> {
    let text = text_of(chain, &of(chain)?, number, dir)?;
    let name = format!("version {number} of the policy of {}", chain.name());
    let policy = SubtreePolicy::parse(&text).map_err(|fault| source::wrong(&name, &fault))?;
    Ok(Given { text, policy })
}

/// The number of the version that was in force before; 0: none was.
pub fn before(chain: &Chain, dir: &Directory) -> Result<u32, Failure> {
    of(chain)?.before().ok_or_else(|| {
        Failure::new(format!("{}: there is nothing to go back to", chain.name()))
            .remedy(format!("see loligo policy history {}", quoted(&dir.path)))
    })
}

fn cell(text: &[u8]) -> Option<String> {
    SubtreePolicy::parse_bytes(text).ok().map(|policy| policy.cell().to_string())
}

fn lines(history: &History) -> Vec<String> {
    let last = history.changes().len().saturating_sub(1);
    let line = |(at, change): (usize, &Changed)| {
        let when = if change.at_ms == 0 { "before".to_string() } else { ago(change.at_ms) };
        let mark = if at == last { '*' } else { ' ' };
        let what = match (change.version, history.version(change.version)) {
            (0, _) => "none".to_string(),
            (number, Some(version)) => {
                format!("version {number:<4} {}", cell(&version.text).unwrap_or_else(|| "not understood here".into()))
            }
            (number, None) => format!("version {number:<4} (not kept any more)"),
        };
        let who = if change.at_ms == 0 { String::new() } else { format!(", by user {}", change.uid) };
        format!("{mark} {when:>14}  {what}{who}")
    };
    history.changes().iter().enumerate().map(line).collect()
}

fn document(history: &History) -> serde_json::Value {
    let version = |one: &Version| {
        json!({
            "version": one.number,
            "at_ms": one.at_ms,
            "uid": one.uid,
            "cell": cell(&one.text),
            "text": String::from_utf8_lossy(&one.text),
        })
    };
    let change = |one: &Changed| json!({ "at_ms": one.at_ms, "uid": one.uid, "version": one.version });
    json!({
        "now": history.now(),
        "before": history.before(),
        "versions": history.versions().iter().map(version).collect::<Vec<_>>(),
        "history": history.changes().iter().map(change).collect::<Vec<_>>(),
    })
}
