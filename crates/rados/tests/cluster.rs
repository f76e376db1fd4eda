//! On a real cluster, whose configuration file `LOLIGO_CEPH_CONF` names (`scripts/ceph.sh up DIR` starts one). Without that variable
//! nothing is tested, and each test says so.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use loligo_rados::{Cluster, Error, Notified, Pool, ReadOp, Watch, WriteOp};

const POOL: &str = "rados_test";

fn cluster() -> Option<Arc<Cluster>> {
    let Ok(conf) = std::env::var("LOLIGO_CEPH_CONF") else {
        eprintln!("not tested: LOLIGO_CEPH_CONF names no cluster");
        return None;
    };
    Some(Cluster::connect(&conf, "client.admin", &[]).unwrap_or_else(|error| panic!("{error}")))
}

/// A namespace of the test's own.
fn pool(test: &str) -> Option<Pool> {
    static CLUSTER: OnceLock<Option<Arc<Cluster>>> = OnceLock::new();
    let cluster = CLUSTER.get_or_init(cluster).as_ref()?;
    Some(cluster.pool(POOL, &format!("{test}.{}", std::process::id())).expect("the pool is there"))
}

fn write(pool: &Pool, object: &str, data: &[u8]) -> u64 {
    let mut op = WriteOp::new().expect("librados is there");
    op.write_full(data);
    op.run(pool, object).expect("it is written")
}

fn read(pool: &Pool, object: &str) -> Result<Vec<u8>, Error> {
    let mut op = ReadOp::new()?;
    let step = op.read(0, 1 << 20);
    Ok(op.run(pool, object)?.data(step)?.to_vec())
}

#[test]
fn a_change_takes_effect_as_a_whole_or_not_at_all() {
    let Some(pool) = pool("whole") else { return };
    let mut op = WriteOp::new().expect("librados is there");
    op.create_exclusive().append(b"one").set_xattr("epoch", b"1").expect("a name");
    op.omap_set([(b"k\0a".as_slice(), b"v\0".as_slice()), (b"k\0b", b"")]);
    let first = op.run(&pool, "o").expect("it is new");

    let mut again = WriteOp::new().expect("librados is there");
    again.create_exclusive().append(b"two");
    assert!(matches!(again.run(&pool, "o"), Err(Error::Exists { .. })));

    let mut stale = WriteOp::new().expect("librados is there");
    stale.assert_xattr("epoch", b"0").expect("a name").append(b"two").omap_remove([b"k\0a".as_slice()]);
    assert!(matches!(stale.run(&pool, "o"), Err(Error::Changed { .. })));
    let mut other = WriteOp::new().expect("librados is there");
    other.assert_omap(b"k\0a", b"no").append(b"two");
    assert!(matches!(other.run(&pool, "o"), Err(Error::Changed { .. })));

    let mut look = ReadOp::new().expect("librados is there");
    let (stat, data, keys, xattrs) = (look.stat(), look.read(1, 9), look.omap_keys(&[b"k\0a", b"none"]), look.xattrs());
    let found = look.run(&pool, "o").expect("it is there");
    assert_eq!((found.version, found.stat(stat).expect("a stat").len), (first, 3), "nothing has changed it");
    assert_eq!(found.data(data), Ok(b"ne".as_slice()));
    assert_eq!(found.omap(keys).expect("an omap").pairs, [(b"k\0a".to_vec(), b"v\0".to_vec())]);
    assert_eq!(found.xattrs(xattrs).expect("xattrs"), [("epoch".to_owned(), b"1".to_vec())]);

    let mut right = WriteOp::new().expect("librados is there");
    right
        .assert_version(first)
        .assert_omap(b"k\0a", b"v\0")
        .truncate(1)
        .write(2, b"!")
        .omap_remove([b"k\0a".as_slice()]);
    let second = right.run(&pool, "o").expect("all is as it was");
    assert!(second > first);
    assert_eq!(read(&pool, "o"), Ok(b"o\0!".to_vec()));
    let mut late = WriteOp::new().expect("librados is there");
    late.assert_version(first).remove();
    assert!(matches!(late.run(&pool, "o"), Err(Error::Changed { .. })));
}

#[test]
fn an_absent_object_is_not_found() {
    let Some(pool) = pool("absent") else { return };
    assert!(matches!(read(&pool, "o"), Err(Error::NotFound { .. })));
    let mut op = WriteOp::new().expect("librados is there");
    op.assert_exists().append(b"x");
    assert!(matches!(op.run(&pool, "o"), Err(Error::NotFound { .. })));
    let missing = pool_of_no_name();
    assert!(matches!(missing, Err(Error::NotFound { .. })));
}

fn pool_of_no_name() -> Result<Pool, Error> {
    cluster().expect("it was there before").pool("no such pool", "")
}

#[test]
fn an_omap_is_read_in_pieces_to_its_end() {
    let Some(pool) = pool("omap") else { return };
    let keys: Vec<Vec<u8>> = (0..1000u32).map(|n| format!("{n:05}").into_bytes()).collect();
    let mut op = WriteOp::new().expect("librados is there");
    op.omap_set(keys.iter().map(|key| (key.as_slice(), b"value".as_slice())));
    op.run(&pool, "o").expect("it is written");
    let (mut after, mut found) = (Vec::new(), Vec::new());
    loop {
        let mut op = ReadOp::new().expect("librados is there");
        let step = op.omap_after(&after, 300).expect("no NUL");
        let omap = op.run(&pool, "o").and_then(|found| found.omap(step)).expect("it is there");
        found.extend(omap.pairs.into_iter().map(|(key, _)| key));
        if !omap.more {
            break;
        }
        after.clone_from(found.last().expect("there is more"));
    }
    assert_eq!(found, keys);
    assert!(ReadOp::new().expect("librados is there").omap_after(b"a\0", 1).is_err(), "it would be cut off");
}

#[test]
fn operations_that_are_begun_together_take_effect_in_their_order() {
    let Some(pool) = pool("order") else { return };
    let (tell, told) = channel();
    let mut pending = Vec::new();
    for n in 0..100u8 {
        let mut op = WriteOp::new().expect("librados is there");
        op.append(&[n]);
        if n % 2 == 0 {
            pending.push(op.begin(&pool, "o").expect("it is begun"));
        } else {
            let tell = tell.clone();
            op.begin_then(&pool, "o", move |end| tell.send(end).expect("it is waited for")).expect("it is begun");
        }
    }
    let versions: BTreeSet<u64> =
        pending.into_iter().map(|one| one.wait()).chain(told.iter().take(50)).map(|end| end.expect("done")).collect();
    assert_eq!(versions.len(), 100, "each has a version of its own");
    assert_eq!(read(&pool, "o"), Ok((0..100).collect()));
}

#[test]
fn a_lock_has_one_holder_at_a_time() {
    let Some(pool) = pool("lock") else { return };
    let lease = Duration::from_secs(60);
    assert_eq!(pool.holder("o", "l"), Ok(None));
    pool.lock("o", "l", "a", lease).expect("it is free");
    pool.lock("o", "l", "a", lease).expect("it is ours, and is renewed");
    assert!(matches!(pool.lock("o", "l", "b", lease), Err(Error::Busy { .. })));
    assert!(pool.renew("o", "l", "b", lease).is_err());
    let held = pool.holder("o", "l").expect("it can be asked").expect("somebody has it");
    assert_eq!(held.cookie, "a");
    pool.break_lock("o", "l", &held).expect("it is there");
    assert!(matches!(pool.renew("o", "l", "a", lease), Err(Error::NotFound { .. })), "it was taken away");
    pool.lock("o", "l", "b", lease).expect("it is free");
    pool.unlock("o", "l", "b").expect("it is ours");
    assert_eq!(pool.holder("o", "l"), Ok(None));
}

#[test]
fn who_watches_is_told_before_the_notifier_goes_on() {
    let Some(pool) = pool("watch") else { return };
    let pool = Arc::new(pool);
    write(&pool, "o", b"");
    let (tell, told) = channel();
    let watch = Watch::new(&pool, "o", Duration::from_secs(30), move |what| tell.send(what).expect("it is waited for"));
    let watch = watch.expect("it is there");
    pool.notify("o", b"hello\0", Duration::from_secs(5)).expect("it is heard");
    assert_eq!(told.recv(), Ok(Notified::Said(b"hello\0".to_vec())));
    assert!(watch.check().is_ok());
    drop(watch);
    assert!(told.recv().is_err(), "it is told nothing any more");
    pool.notify("o", b"nobody", Duration::from_secs(5)).expect("nobody need hear it");
}

#[test]
fn all_objects_of_a_namespace_are_listed_and_no_others() {
    let Some(pool) = pool("list") else { return };
    let names: BTreeSet<String> = (0..50).map(|n| format!("object {n}")).collect();
    for name in &names {
        write(&pool, name, b"x");
    }
    let mut found = BTreeSet::new();
    pool.list(&mut |name| {
        assert!(found.insert(name.to_owned()), "{name} is told once");
        ControlFlow::Continue(())
    })
    .expect("it can be listed");
    assert_eq!(found, names);
    let mut first = 0;
    pool.list(&mut |_| {
        first += 1;
        ControlFlow::Break(())
    })
    .expect("it can be listed");
    assert_eq!(first, 1);
}

#[test]
fn who_is_shut_out_changes_nothing_any_more() {
    let (Some(zombie), Some(pool)) = (cluster(), pool("fence")) else { return };
    let theirs = zombie.pool(POOL, &format!("fence.{}", std::process::id())).expect("the pool is there");
    write(&theirs, "o", b"before");
    let before = cluster().expect("it is there");
    before.shut_out(&zombie.addresses().expect("it is connected"), 60).expect("we may");
    // The OSD learns of it from the next operation of whoever did it.
    let ours = before.pool(POOL, &format!("fence.{}", std::process::id())).expect("the pool is there");
    write(&ours, "o", b"after");
    let mut op = WriteOp::new().expect("librados is there");
    op.write_full(b"late");
    assert!(matches!(op.run(&theirs, "o"), Err(Error::Fenced { .. })));
    assert_eq!(read(&pool, "o"), Ok(b"after".to_vec()));
}

#[test]
fn there_is_space_and_a_version() {
    let Some(cluster) = cluster() else { return };
    let space = cluster.space().expect("it says");
    assert!(space.free <= space.total, "{space:?}");
    assert!(loligo_rados::version().is_ok_and(|version| version.split('.').count() == 3));
    assert!(cluster.instance() > 0);
}

#[test]
fn a_cluster_that_is_not_configured_is_out_of_reach() {
    if cluster().is_none() {
        return;
    }
    let error = Cluster::connect("/no/such/ceph.conf", "client.admin", &[]).err().expect("there is no such file");
    assert!(matches!(&error, Error::Unreachable { conf, .. } if conf == "/no/such/ceph.conf"), "{error}");
}
