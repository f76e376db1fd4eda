//! Where hardly anything stays in memory.

use loligo_types::{Ino, Op};

use super::*;

#[test]
fn a_file_below_many_directories_is_found_though_memory_holds_fewer() {
    let mut cluster = Cluster::new(2);
    let a = cluster.client();
    let mut dir = Ino::ROOT;
    for n in 0..12 {
        dir = cluster.mkdir(a, dir, &format!("d{n}"));
    }
    let file = cluster.touch(a, dir, "f");
    cluster.wait(5000);
    cluster.crash(0);
    cluster.wait(500);
    cluster.at(0, |world| {
        world.mds.core.config.cache_bytes_max = 1;
        world.loads = false;
    });
    cluster.wait(200);
    let seq = cluster.send(a, 0, Op::GetAttr { ino: file });
    // Between two reads everything leaves memory that may.
    let mut found = None;
    for _ in 0..1000 {
        found = cluster.outcome(a, 0, seq);
        if found.is_some() {
            break;
        }
        cluster.at(0, World::load_one);
        cluster.wait(50);
    }
    assert!(matches!(found, Some(Outcome::Answered(Ok(_)))), "{found:?}");
    cluster.at(0, |world| world.loads = true);
    cluster.wait(1000);
    assert!(!cluster.has(0, file), "memory is given back again");
    cluster.finish();
}
