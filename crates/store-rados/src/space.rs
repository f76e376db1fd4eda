//! Space of the pool, for `statfs`: the bytes that it holds and those that it still takes, as the cluster's manager counts them, each byte
//! once however many copies are kept of it, and within the pool's quota. Not here: whether the pool is full (`room.rs`), which the manager
//! tells too late.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use loligo_rados::Cluster;
use loligo_store::{Result, StatFs};
use serde_json::Value;

use crate::error::store;

/// So long an answer counts: the manager does not tell the monitors more often.
const COUNTS: Duration = Duration::from_secs(5);

/// The space of one pool.
pub(crate) struct Space {
    cluster: Arc<Cluster>,
    pool: String,
    last: Mutex<Option<(Instant, StatFs)>>,
}

impl Space {
    pub(crate) fn new(cluster: Arc<Cluster>, pool: &str) -> Space {
        Space { cluster, pool: pool.into(), last: Mutex::default() }
    }

    /// The pool's space; the cluster's, copies counted, where the monitors do not tell that of pools. All is 0 as long as the cluster has no
    /// manager.
    pub(crate) fn statfs(&self) -> Result<StatFs> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, space)) = &*last
            && at.elapsed() < COUNTS
        {
            return Ok(*space);
        }
        let space = match self.of_pool() {
            Some(space) => space,
            None => {
                let all = self.cluster.space().map_err(store)?;
                StatFs { total_bytes: all.total, free_bytes: all.free, total_inodes: 0, free_inodes: 0 }
            }
        };
        *last = Some((Instant::now(), space));
        Ok(space)
    }

    fn of_pool(&self) -> Option<StatFs> {
        let ask = |what: &str| serde_json::from_slice::<Value>(&self.cluster.ask(what).ok()?).ok();
        let df = ask(r#"{"prefix": "df", "format": "json"}"#)?;
        let name = Value::from(self.pool.as_str());
        let quota = ask(&format!(r#"{{"prefix": "osd pool get-quota", "pool": {name}, "format": "json"}}"#));
        read(&df, quota.as_ref(), &self.pool)
    }
}

/// Space of a pool by the answers to `df` and `osd pool get-quota`. `None`: they do not tell.
fn read(df: &Value, quota: Option<&Value>, pool: &str) -> Option<StatFs> {
    let pools = df.get("pools")?.as_array()?;
    let stats = pools.iter().find(|of| of.get("name").and_then(Value::as_str) == Some(pool))?.get("stats")?;
    let number = |name: &str| stats.get(name).and_then(Value::as_u64);
    let (stored, more) = (number("stored")?, number("max_avail")?);
    let limit = quota.and_then(|quota| quota.get("quota_max_bytes")?.as_u64()).filter(|limit| *limit > 0);
    let total = stored.saturating_add(more).min(limit.unwrap_or(u64::MAX));
    let free = more.min(total.saturating_sub(stored));
    Some(StatFs { total_bytes: total, free_bytes: free, total_inodes: 0, free_inodes: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_space_of_a_pool_is_what_it_holds_and_takes_within_its_quota() {
        let df = serde_json::json!({
            "stats": { "total_bytes": 9000, "total_avail_bytes": 6000 },
            "pools": [
                { "name": "other", "stats": { "stored": 7, "max_avail": 8 } },
                { "name": "one", "stats": { "stored": 500, "max_avail": 1900, "bytes_used": 1500 } },
                { "name": "silent", "stats": {} },
            ],
        });
        let space = |limit: u64, pool: &str| {
            let quota = serde_json::json!({ "pool_name": pool, "quota_max_bytes": limit });
            read(&df, Some(&quota), pool).map(|space| (space.total_bytes, space.free_bytes))
        };
        assert_eq!(space(0, "one"), Some((2400, 1900)), "no quota");
        assert_eq!(space(800, "one"), Some((800, 300)));
        assert_eq!(space(10_000, "one"), Some((2400, 1900)), "the disks are smaller than the quota");
        assert_eq!(space(400, "one"), Some((400, 0)), "more is there than the quota allows");
        assert_eq!((space(0, "silent"), space(0, "none")), (None, None));
        assert_eq!(read(&df, None, "one").map(|space| space.total_bytes), Some(2400));
    }
}
