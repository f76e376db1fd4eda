//! `loligo balancer log`: what balancers of all ranks decided, and which policy was put in force.

use super::text::ago;
use crate::args::Target;
use crate::look::ask;
use crate::output::{Failure, Outcome, put};
use crate::service::admin::balancer::LineDoc;
use crate::target;

/// Prints the last lines, the newest last.
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
    for LineDoc { at_ms, rank, text } in log {
        let who = rank.map_or("cluster".to_string(), |rank| format!("rank {rank}"));
        put(format_args!("{:>14}  {who:<8}  {text}", ago(at_ms)))?;
    }
    Ok(())
}
