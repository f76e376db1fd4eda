//! A server that stands by and runs no rank: it is stopped as any other, who mounts by its directory comes in where the ranks are, and it gives a
//! rank that it had to take up to one that comes to share.

use crate::servers::{Place, connect};
use crate::several::until;

#[test]
fn one_that_stands_by_is_stopped_as_any_other_and_gives_its_rank_up_to_one_that_shares() {
    let Some(place) = Place::formatted() else { return };
    let dirs = [0, 1].map(|server| place.data(server).display().to_string());
    let mut first = place.share(0, &[]);
    first.until_serves();
    let mut second = place.serve(1, &[]);
    second.until_says("standing by for");
    if rustix::process::geteuid().is_root() && std::fs::File::open("/dev/fuse").is_ok() {
        let mount = place.path().join("mnt").display().to_string();
        place.say(&["mount", "--data", &dirs[1], &mount, "--daemon"], 0);
        std::fs::write(format!("{mount}/f"), "by the other one").expect("it is written");
        place.say(&["umount", &mount], 0);
    }
    let said = place.say(&["fsck", "--data", &dirs[0]], 1);
    assert!(said.contains("stop all servers that share it first"), "{said}");
    let said = place.say(&["down", "--data", &dirs[1]], 0);
    assert!(said.contains("stopped the server"), "{said}");
    second.until_ended();
    // One that stood by takes the rank when the other one dies, and gives it back.
    let mut second = place.serve(1, &[]);
    second.until_says("standing by for");
    first.kill();
    let mut servers = vec![second];
    until(&servers, |runs| *runs == [vec![0]]);
    servers.push(place.share(0, &[]));
    until(&servers, |runs| *runs == [vec![], vec![0]]);
    let fs = connect(&place.address(2));
    assert!(fs.stat("/").is_ok());
    drop(fs);
    for dir in dirs {
        place.say(&["down", "--data", &dir], 0);
    }
    servers.iter_mut().for_each(|server| _ = server.until_ended());
    let said = place.say(&["down", "--data", &place.data(1).display().to_string()], 1);
    assert!(said.contains("no server runs on"), "{said}");
    place.run(&["store", "check"], 0);
}
