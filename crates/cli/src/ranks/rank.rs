//! `loligo rank list`, and the table of ranks that `status` and `top` show, too.

use crate::args::Target;
use crate::look::ask;
use crate::output::{Failure, Outcome, human_bytes, human_count, note, put};
use crate::service::admin::doc::{RankDoc, StatusDoc};
use crate::service::admin::others::UnreachedDoc;
use crate::target::{self, Found};

/// Prints the ranks.
pub fn list(target: &Target, json: bool) -> Outcome {
    let found = target::find(target)?;
    if json {
        let mut status: serde_json::Value = ask::json(&found, "/api/v1/status")?;
        let unreached: Vec<UnreachedDoc> = serde_json::from_value(status["unreached"].take()).unwrap_or_default();
        let mut ranks = status["ranks"].take();
        if let Some(ranks) = ranks.as_array_mut() {
            ranks.extend(unreached.iter().flat_map(unreached_lines));
            ranks.sort_by_key(|rank| rank["rank"].as_u64());
        }
        return put(format_args!("{ranks:#}"));
    }
    let status: StatusDoc = ask::json(&found, "/api/v1/status")?;
    put((table_with_addresses(&status.ranks) + &not_reached(&status.unreached)).trim_end())
}

/// For each rank of one that could not be asked, what stands in its place in a list of ranks.
fn unreached_lines(one: &UnreachedDoc) -> impl Iterator<Item = serde_json::Value> {
    let UnreachedDoc { name, why, .. } = one;
    let line =
        move |rank| serde_json::json!({ "rank": rank, "state": "unreached", "reason": format!("{name}: {why}") });
    one.ranks.iter().map(line)
}

/// A line for each one whose ranks are missing because it could not be asked.
pub fn not_reached(unreached: &[UnreachedDoc]) -> String {
    let line = |one: &UnreachedDoc| {
        let ranks: Vec<String> = one.ranks.iter().map(u16::to_string).collect();
        format!("not reached: rank {} of {}: {}\n", ranks.join(", "), one.name, one.why)
    };
    unreached.iter().map(line).collect()
}

/// One line a rank.
pub fn table(ranks: &[RankDoc], per_s: impl Fn(&RankDoc) -> u64) -> String {
    let mut out = format!("{HEAD}\n");
    ranks.iter().for_each(|rank| out.push_str(&format!("{}\n", line(rank, &per_s))));
    out + &reasons(ranks)
}

/// The same with where clients reach it.
fn table_with_addresses(ranks: &[RankDoc]) -> String {
    let mut out = format!("{HEAD}  address\n");
    for rank in ranks {
        let what = line(rank, &|rank| rank.requests_per_s);
        out.push_str(&format!("{what}  {}\n", rank.addresses.join(", ")));
    }
    out + &reasons(ranks)
}

/// A line for each rank that says why it is not serving, or does not get on with being drained.
fn reasons(ranks: &[RankDoc]) -> String {
    let said = ranks.iter().filter_map(|rank| Some((rank, rank.reason.as_ref()?)));
    said.map(|(rank, reason)| format!("rank {} ({}): {reason}\n", rank.rank, rank.state)).collect()
}

/// The columns of [`line`].
const HEAD: &str = "rank state    requests/s     load cpu % mem %     inodes    journal  queue";

fn line(rank: &RankDoc, per_s: &impl Fn(&RankDoc) -> u64) -> String {
    let (requests, inodes) = (human_count(per_s(rank)), human_count(rank.cache_inodes));
    let (journal, queue) = (human_bytes(rank.journal.outstanding_bytes), human_count(rank.waiting));
    format!(
        "{:>4} {:<8} {requests:>10} {:>8.0} {:>5.0} {:>5.0} {inodes:>10} {journal:>10} {queue:>6}",
        rank.rank, rank.state, rank.load.auth, rank.load.cpu_percent, rank.load.memory_percent
    )
}

/// Refuses a rank that is not there. Those that are, as far as this user is told.
pub fn check(found: &Found, rank: u16) -> Result<Vec<u32>, Failure> {
    if found.is_closed() || found.admin.is_none() {
        // The owner of a directory need not be let in there to say where it is to be.
        note(format_args!("whether there is a rank {rank} is not told to this user"));
        return Ok(Vec::new());
    }
    let status: StatusDoc = ask::json(found, "/api/v1/status")?;
    let elsewhere = status.servers.iter().flat_map(|server| server.ranks.iter().copied());
    let unreached = status.unreached.iter().flat_map(|one| one.ranks.iter().map(|rank| u32::from(*rank)));
    let told = status.ranks.iter().map(|there| u32::from(there.rank));
    let mut there: Vec<u32> = told.chain(elsewhere).chain(unreached).collect();
    there.sort_unstable();
    there.dedup();
    if there.contains(&u32::from(rank)) {
        return Ok(there);
    }
    let server = found.option();
    let words: Vec<String> = there.iter().map(u32::to_string).collect();
    let (has, or) = match &there[..] {
        [only] => (format!("there is only rank {only}"), ""),
        _ => (format!("the ranks are {}", words.join(", ")), "name one of those, or "),
    };
    let failure = Failure::new(format!("there is no rank {rank}: {has}"));
    // New ranks have the lowest free numbers from 1 on: so many are to be added until there is this one. Rank 0 does not come again.
    let add = (1..=u32::from(rank)).filter(|number| !there.contains(number)).count();
    let word = if add <= 1 { "one".to_string() } else { add.to_string() };
    let count = add.max(1);
    Err(failure.remedy(format!(
        "{or}add {word}: loligo rank add {count}{server}; or start the server with --ranks {}",
        there.len() + count
    )))
}
