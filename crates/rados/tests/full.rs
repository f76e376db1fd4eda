//! A pool that is full, and what the monitors are asked for that; on a real cluster (see `cluster.rs`), which needs a manager: nobody else
//! counts what is in a pool.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loligo_rados::{Cluster, Error, Pool, WriteOp};

/// Time limit for the manager to count.
const PATIENCE: Duration = Duration::from_secs(120);

fn cluster() -> Option<Arc<Cluster>> {
    let Ok(conf) = std::env::var("LOLIGO_CEPH_CONF") else {
        eprintln!("not tested: LOLIGO_CEPH_CONF names no cluster");
        return None;
    };
    Some(Cluster::connect(&conf, "client.admin", &[]).unwrap_or_else(|error| panic!("{error}")))
}

/// A pool for as long as this lives.
struct Own(Arc<Cluster>, String);

impl Own {
    fn new(cluster: &Arc<Cluster>) -> Own {
        let name = format!("full.{}", std::process::id());
        ask(cluster, &format!(r#""prefix": "osd pool create", "pool": "{name}", "pg_num": 1"#));
        Own(cluster.clone(), name)
    }

    /// At most so many objects; 0: any number.
    fn limit(&self, objects: u32) {
        let quota = r#""prefix": "osd pool set-quota", "field": "max_objects""#;
        ask(&self.0, &format!(r#"{quota}, "pool": "{}", "val": "{objects}""#, self.1));
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let name = &self.1;
        let _ = self.0.ask(&format!(
            r#"{{"prefix": "osd pool delete", "pool": "{name}", "pool2": "{name}", "yes_i_really_really_mean_it": true}}"#
        ));
    }
}

fn ask(cluster: &Cluster, what: &str) -> String {
    let answer = cluster.ask(&format!("{{{what}}}")).expect("the monitors answer");
    String::from_utf8(answer).expect("they answer with text")
}

fn write(pool: &Pool, object: &str, fill: impl FnOnce(&mut WriteOp)) -> Result<u64, Error> {
    let mut op = WriteOp::new()?;
    fill(&mut op);
    op.run(pool, object)
}

/// Tries until it holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_full_pool_refuses_what_needs_room_and_does_the_rest() {
    let Some(cluster) = cluster() else { return };
    if cluster.space().expect("the cluster answers").total == 0 {
        eprintln!("not tested: the cluster has no manager");
        return;
    }
    let own = Own::new(&cluster);
    let pool = cluster.pool(&own.1, "").expect("it was just made").refusing_when_full();
    write(&pool, "there", |op| _ = op.write_full(b"before")).expect("there is room");
    own.limit(1);
    let mut more = 0;
    until("the pool is full", || {
        more += 1;
        match write(&pool, &format!("more.{more}"), |op| _ = op.write_full(b"x")) {
            Ok(_) => false,
            Err(Error::Full { .. }) => true,
            Err(error) => panic!("{error}"),
        }
    });
    assert!(matches!(write(&pool, "there", |op| _ = op.append(b" and after")), Err(Error::Full { .. })));
    write(&pool, "there", |op| _ = op.omap_set([(b"key".as_slice(), b"value".as_slice())])).expect("no room needed");
    write(&pool, "there", |op| _ = op.remove()).expect("it makes room");
    own.limit(0);
    until("there is room again", || write(&pool, "there", |op| _ = op.write_full(b"after")).is_ok());
}

#[test]
fn the_monitors_answer_questions_and_refuse_nonsense() {
    let Some(cluster) = cluster() else { return };
    let answer = ask(&cluster, r#""prefix": "osd pool get", "pool": "rados_test", "var": "size", "format": "json""#);
    assert!(answer.contains(r#""size":"#), "{answer}");
    let error = cluster.ask(r#"{"prefix": "no such command"}"#).expect_err("there is none").to_string();
    assert!(error.contains("no such command"), "{error}");
    assert!(cluster.ask("a NUL \0").is_err());
}
