//! Check that the cluster lets this user do all that a server may have to: a missing right is told at the start, and not when another
//! server has died. Not here: rights on the pool, which the first operations on it tell.

use loligo_rados::{Cluster, Error};
use loligo_store::{Result, StoreError};

/// Takes an address off the blocklist that nobody has, so it is never there: that needs the right to put one on it.
const PROBE: &str = r#"{"prefix": "osd blocklist", "blocklistop": "rm", "addr": "0.0.0.0:0/1"}"#;

/// [`StoreError::Denied`] if it may not shut others out.
pub(crate) fn check(cluster: &Cluster) -> Result<()> {
    match cluster.ask(PROBE) {
        Err(Error::Denied { cause, .. }) => Err(StoreError::Denied {
            what: "shutting another server out (mon 'allow command \"osd blocklist\"')".into(),
            cause,
        }),
        // Whatever else monitors may say to that, they were ready to do it.
        _ => Ok(()),
    }
}
