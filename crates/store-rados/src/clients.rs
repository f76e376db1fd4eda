//! Clients that read and write file data in the pool by themselves: how a server shuts one out, and a client's connection.
//!
//! The blocklist is a part of the map of the OSDs. When the monitors have agreed on it, an OSD that has not heard of it yet still does
//! what a client asks whose own map is old, too. So after that a look goes to each placement group, with the new map: whoever serves the
//! group takes that map first, and from then on refuses what the client sends, whatever map it or the next writer knows.

use std::collections::VecDeque;
use std::sync::Arc;

use loligo_rados::{Cluster, Error, Pool, ReadOp};
use loligo_store::{Blobs, Clients, PathCache, Result, StoreError, Way};

use crate::blobs::RadosBlobs;
use crate::error::{corrupt, store};
use crate::placement;

/// Time for which the cluster refuses a client, or a server that was deposed, seconds. A machine may sleep for months and then send the
/// requests that it had on their way, and requests on a file's data name no epoch.
pub(crate) const SHUT_OUT_S: u32 = 3 * 365 * 86_400;
/// Looks under way at a time.
const AT_ONCE: usize = 64;

pub(crate) struct RadosClients {
    files: Arc<Pool>,
    namespace: String,
}

impl RadosClients {
    /// `files`: the name space with file data.
    pub(crate) fn new(place: &crate::Place, files: Arc<Pool>) -> RadosClients {
        RadosClients { files, namespace: format!("{}.data", place.namespace) }
    }

    /// Number of placement groups of the pool.
    fn groups(&self) -> Result<u32> {
        let pool = self.files.name();
        let ask = format!(r#"{{"prefix": "osd pool get", "pool": "{pool}", "var": "pg_num", "format": "json"}}"#);
        let answer = self.files.cluster().ask(&ask).map_err(store)?;
        let text = String::from_utf8_lossy(&answer);
        let number = text.split_once("\"pg_num\":").map(|(_, rest)| rest.trim_start());
        let digits = number.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
        let groups = digits.and_then(|digits| digits.parse().ok()).filter(|groups| *groups > 0);
        groups.ok_or_else(|| corrupt(format!("what the monitors say of pool {pool}"), format!("no pg_num in {text}")))
    }

    /// Each placement group's server takes this connection's map of the OSDs.
    fn spread_map(&self) -> Result<()> {
        let mut under_way = VecDeque::new();
        let done = |pending: loligo_rados::Reading| match pending.wait() {
            // There is no such object, and need not be.
            Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(store(error)),
        };
        for name in placement::one_in_each(&self.namespace, self.groups()?) {
            let mut op = ReadOp::new().map_err(store)?;
            op.stat();
            under_way.push_back(op.begin(&self.files, &name).map_err(store)?);
            if under_way.len() >= AT_ONCE {
                under_way.pop_front().map_or(Ok(()), done)?;
            }
        }
        under_way.into_iter().try_for_each(done)
    }
}

impl Clients for RadosClients {
    fn place(&self) -> String {
        format!("rados:{}/{}", self.files.name(), self.namespace)
    }

    fn shut_out(&self, addresses: &[String]) -> Result<()> {
        for address in addresses.iter().flat_map(|several| several.split(',')).filter(|address| !address.is_empty()) {
            self.files.cluster().shut_out(address, SHUT_OUT_S).map_err(store)?;
        }
        self.spread_map()
    }
}

/// A client's way to pools of the cluster that `conf` names, as `user`.
pub struct RadosWays {
    conf: String,
    user: String,
}

impl RadosWays {
    /// Nothing is asked of the cluster yet.
    pub fn new(conf: &str, user: &str) -> RadosWays {
        RadosWays { conf: conf.into(), user: user.into() }
    }
}

impl PathCache for RadosWays {
    fn open(&self, place: &str) -> Result<Arc<dyn Way>> {
        let parts = place.strip_prefix("rados:").and_then(|rest| rest.split_once('/'));
        let (pool, namespace) = parts.ok_or_else(|| StoreError::Foreign {
            dir: place.into(),
            found: "it is not of the form rados:POOL/NAMESPACE".into(),
        })?;
        let cluster = Cluster::connect(&self.conf, &self.user, &[]).map_err(store)?;
        let files = Arc::new(cluster.pool(pool, namespace).map_err(store)?.refusing_when_full());
        let address = cluster.addresses().map_err(store)?;
        Ok(Arc::new(Connection { address, blobs: RadosBlobs::new(files, None) }))
    }
}

struct Connection {
    address: String,
    blobs: RadosBlobs,
}

impl Way for Connection {
    fn address(&self) -> &str {
        &self.address
    }

    fn blobs(&self) -> &dyn Blobs {
        &self.blobs
    }
}
