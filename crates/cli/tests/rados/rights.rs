//! The rights that a user of the cluster needs: those that docs/deploy.md names are enough for all that servers do, and what is missing is
//! told when a server starts. Only on a cluster that asks who somebody is (`scripts/ceph.sh up DIR --auth`); else nothing is tested, and each
//! test says so.

use std::sync::Arc;

use loligo_rados::Cluster;

use crate::history::{Programs, check};
use crate::servers::Place;

const DEPLOY: &str = include_str!("../../../../docs/deploy.md");

/// Rights that the document grants at these daemons.
fn granted(daemon: &str) -> String {
    let line = DEPLOY.lines().find(|line| line.contains("auth get-or-create client.loligo")).expect("it says how");
    let (_, rest) = line.split_once(&format!(" {daemon} '")).expect("it grants something");
    rest.split('\'').next().expect("it ends").replace("pool=loligo", "pool=rados_test")
}

/// Somebody with other rights than all, or nobody.
struct User {
    name: String,
    cluster: Arc<Cluster>,
    conf: String,
}

impl User {
    /// Makes the place that user's.
    fn new(place: &mut Place, mon: &str, osd: &str) -> Option<User> {
        if Cluster::connect(&place.conf, "client.nobody", &[]).is_ok() {
            eprintln!("not tested: the cluster asks nobody who they are");
            return None;
        }
        let cluster = Cluster::connect(&place.conf, "client.admin", &[]).expect("there is a cluster");
        let name = format!("client.{}", place.store.replace(['/', ':', '.'], "_"));
        let caps = serde_json::json!(["mon", mon, "osd", osd]);
        let ask = serde_json::json!({ "prefix": "auth get-or-create", "entity": name, "caps": caps }).to_string();
        let key = place.path().join("keyring");
        std::fs::write(&key, cluster.ask(&ask).expect("admin may")).expect("a directory");
        let settings = std::fs::read_to_string(&place.conf).expect("they can be read");
        let global = format!("[global]\nkeyring = {}\n", key.display());
        let ours = place.path().join("ceph.conf");
        let lines = settings.lines().filter(|line| !line.starts_with("keyring = ") && *line != "[global]");
        std::fs::write(&ours, global + &(lines.collect::<Vec<_>>().join("\n") + "\n")).expect("a directory");
        let conf = std::mem::replace(&mut place.conf, ours.display().to_string());
        Some(User { name, cluster, conf })
    }

    fn args<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        [more, &["--ceph-user", &self.name]].concat()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let ask = serde_json::json!({ "prefix": "auth del", "entity": self.name }).to_string();
        if let Err(error) = self.cluster.ask(&ask) {
            eprintln!("{} is left in the cluster of {}: {error}", self.name, self.conf);
        }
    }
}

#[test]
fn the_rights_that_the_document_names_are_enough_for_servers_that_replace_each_other() {
    let Some(mut place) = Place::new() else { return };
    let Some(user) = User::new(&mut place, &granted("mon"), &granted("osd")) else { return };
    place.run(&user.args(&["format"]), 0);
    let args = user.args(&["--set", "lease_ms=3000", "--ranks", "2"]);
    let mut first = place.serve(0, &args);
    first.until_serves();
    let mut second = place.serve(1, &args);
    let programs = Programs::start(&place.address(2), 2);
    programs.until_more(200);
    // It lives, so it has to be shut out.
    first.stop();
    second.until_serves();
    programs.until_more(200);
    first.wake();
    first.until_ended();
    check(&place.address(2), &programs.end());
    second.end();
}

#[test]
fn rights_that_are_missing_are_told_by_name_before_a_server_owns_anything() {
    let Some(mut place) = Place::formatted() else { return };
    let Some(user) = User::new(&mut place, "allow r", &granted("osd")) else { return };
    // The directory remembers who made it.
    std::fs::remove_file(place.data(0).join("loligo.store")).expect("format made it");
    let said = place.run(&user.args(&["serve"]), 1);
    assert!(said.contains("osd blocklist") && said.contains("docs/deploy.md"), "{said}");
    drop(user);
    let Some(mut place) = Place::new() else { return };
    let Some(user) = User::new(&mut place, &granted("mon"), "allow rw pool=rados_test") else { return };
    let said = place.run(&user.args(&["format"]), 1);
    assert!(said.contains("the cluster refuses this user") && said.contains("docs/deploy.md"), "{said}");
}
