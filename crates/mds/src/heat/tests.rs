//! Counts of the machine for a script of operations.

use loligo_types::msg::ToClient;
use loligo_types::{Access, Answer, ClusterMap, Frag, Ino, Op, Rank, RankInfo, RankState, ThreadLoad};

use super::{Beat, HotDir, Load, LoadVec};
use crate::peer::PeerMsg;
use crate::tests::harness::*;
use crate::{Config, Input};

/// Counts each request; nothing decays in the time of a test.
fn exact() -> Config {
    Config { heat_sample: 1, heat_half_life_ms: 1 << 50, ..config() }
}

fn heat(world: &World, dir: Ino) -> LoadVec {
    let of_dir = |hot: &HotDir| hot.dir == dir;
    let mut sum = LoadVec::default();
    world.mds.status().hottest.iter().filter(|hot| of_dir(hot)).for_each(|hot| sum.add(&hot.load));
    LoadVec {
        ird: sum.ird.round(),
        iwr: sum.iwr.round(),
        readdir: sum.readdir.round(),
        fetch: sum.fetch.round(),
        store: sum.store.round(),
    }
}

fn load(ird: f64, iwr: f64, readdir: f64) -> LoadVec {
    LoadVec { ird, iwr, readdir, ..LoadVec::default() }
}

#[test]
fn each_operation_counts_for_the_directory_that_holds_the_name() {
    let mut world = World::with(exact());
    let at = world.client();
    let (a, b) = (world.mkdir(at, Ino::ROOT, "a").ino, world.mkdir(at, Ino::ROOT, "b").ino);
    assert_eq!(heat(&world, Ino::ROOT), load(0.0, 2.0, 0.0));
    let Ok(Answer::Opened { attr, .. }) = world.call(at, create(a, "f", WRITE, 1)) else { panic!("not created") };
    let file = attr.ino;
    let reads = [
        Op::Lookup { dir: a, name: name("f") },
        Op::Lookup { dir: a, name: name("nothing") },
        Op::GetAttr { ino: file },
        Op::Access { ino: file, want: Access { read: true, write: false, exec: false } },
        Op::ListXattr { ino: file },
        Op::LookupParent { dir: a },
    ];
    reads.into_iter().for_each(|op| drop(world.call(at, op)));
    assert_eq!(heat(&world, a), load(6.0, 1.0, 0.0));
    world.call(at, chmod(file, 0o600)).expect("it is the client's");
    world.call(at, chmod(a, 0o700)).expect("it is the client's");
    assert_eq!((heat(&world, a).iwr, heat(&world, Ino::ROOT).iwr), (2.0, 3.0), "a directory is its parent's");
    let readdir = Op::Readdir { dir: a, cookie: 0, limit: 10, plus: true, handle: None };
    world.call(at, readdir).expect("it can be read");
    let rename = |dir, new_dir| {
        let (name, new_name) = (name("f"), name("f"));
        Op::Rename { dir, name, new_dir, new_name, mode: loligo_types::RenameMode::Replace }
    };
    world.call(at, rename(a, b)).expect("there is nothing in the way");
    assert_eq!((heat(&world, a), heat(&world, b)), (load(6.0, 3.0, 1.0), load(0.0, 1.0, 0.0)));
    world.call(at, Op::GetAttr { ino: file }).expect("it is there");
    world.call(at, close(1)).expect("it was open");
    world.call(at, Op::StatFs).expect("always");
    world.call(at, unlink(b, "f")).expect("it is there");
    assert_eq!(heat(&world, b), load(1.0, 2.0, 0.0));
    let status = world.mds.status();
    assert_eq!(status.heat_totals, load(7.0, 8.0, 1.0), "each once");
    assert_eq!((status.load.auth, status.load.all), (24.0, 24.0));
    let paths: Vec<Option<&str>> = status.hottest.iter().map(|hot| hot.path.as_deref()).collect();
    assert_eq!(paths, [Some("/a"), Some("/"), Some("/b")]);
}

#[test]
fn what_changes_where_directories_are_and_who_may_pass_is_told_apart() {
    let mut world = World::with(exact());
    let at = world.client();
    let (a, b) = (world.mkdir(at, Ino::ROOT, "a").ino, world.mkdir(at, Ino::ROOT, "b").ino);
    let c = world.mkdir(at, a, "c").ino;
    let Ok(Answer::Opened { attr, .. }) = world.call(at, create(a, "f", WRITE, 1)) else { panic!("not created") };
    let rename = |from: &str, to: &str| {
        let (dir, new_dir, mode) = (a, b, loligo_types::RenameMode::Replace);
        Op::Rename { dir, name: name(from), new_dir, new_name: name(to), mode }
    };
    let ops = [
        chmod(attr.ino, 0o600),
        rename("f", "f"),
        unlink(b, "f"),
        chmod(c, 0o700),
        rename("c", "c"),
        Op::Rmdir { dir: b, name: name("c") },
    ];
    ops.into_iter().for_each(|op| drop(world.call(at, op).expect("nothing is in the way")));
    let dirs = |world: &World, dir| {
        let rates = world.mds.heat.spot_rates(&world.mds.core, 10);
        let spot = rates.iter().find(|spot| spot.dir == dir).expect("it was counted");
        let per_s = crate::heat::DecayCounter::per_s_of(exact().heat_half_life_ms);
        (spot.parent, (spot.dirs.made / per_s).round(), ((spot.dirs.others + spot.dirs.restricted) / per_s).round())
    };
    assert_eq!(dirs(&world, Ino::ROOT).1, 2.0);
    assert_eq!(dirs(&world, a), (Some(Ino::ROOT), 1.0, 2.0), "one made, made private, and renamed from here");
    assert_eq!(dirs(&world, b), (Some(Ino::ROOT), 0.0, 1.0), "one removed");
    assert_eq!(world.mds.heat.spot_rates(&world.mds.core, 1).len(), 1);
}

#[test]
fn the_table_is_read_and_written_once_for_each_directory() {
    let mut world = World::with(Config { dirty_ms_max: 100, ..exact() });
    let at = world.client();
    let a = world.mkdir(at, Ino::ROOT, "a").ino;
    (0..20).for_each(|n| drop(world.call(at, create(a, &format!("f{n}"), WRITE, n))));
    world.wait_alive(500);
    // Of /a all in one go; of the root the first time, and again when the sums of /a have moved up or the sessions changed.
    let stored = heat(&world, a).store;
    assert_eq!((stored, heat(&world, a).fetch), (1.0, 0.0));
    world.crash();
    let at = world.client();
    world.wait_alive(2500);
    world.call(at, Op::Lookup { dir: a, name: name("f3") }).expect("it is in the table");
    let fetched = heat(&world, a).fetch;
    assert!((1.0..=2.0).contains(&fetched), "the entry and the inode: {fetched}");
    assert!(heat(&world, Ino::ROOT).fetch >= 1.0, "the inode of the directory");
}

#[test]
fn heat_is_handed_up_to_all_that_is_above() {
    let mut world = World::with(exact());
    let at = world.client();
    let a = world.mkdir(at, Ino::ROOT, "a").ino;
    let b = world.mkdir(at, a, "b").ino;
    let c = world.mkdir(at, b, "c").ino;
    let other = world.mkdir(at, Ino::ROOT, "other").ino;
    for dir in [c, c, c, other] {
        world.call(at, Op::Lookup { dir, name: name("x") }).expect_err("there is no such name");
    }
    let sums = world.mds.subtree_loads();
    let of = |dir: Ino| (sums[&dir].ird.round(), sums[&dir].iwr.round());
    assert_eq!((of(c), of(b), of(a)), ((3.0, 0.0), (3.0, 1.0), (3.0, 2.0)));
    assert_eq!((of(other), of(Ino::ROOT)), ((1.0, 0.0), (4.0, 4.0)));
}

#[test]
fn what_cools_down_is_forgotten_by_the_rank_too() {
    let mut world = World::with(Config { heat_sample: 1, ..config() });
    let at = world.client();
    world.mkdir(at, Ino::ROOT, "a");
    let before = world.mds.load_now().auth;
    world.wait_alive(5000);
    let after = world.mds.load_now();
    assert!(before >= 2.0 && after.auth < before * 0.55 + 5.0, "{before} {after:?}");
    assert!(after.memory_percent > 0.0 && after.is_sound());
    world.input(Input::Thread(ThreadLoad { cpu_percent: 42.5, ..ThreadLoad::default() }));
    assert_eq!(world.mds.status().load.cpu_percent, 42.5);
}

#[test]
fn requests_show_as_a_rate_and_those_that_wait_as_a_queue() {
    let mut world = World::with(Config { heat_half_life_ms: 1000, ..config() });
    let at = world.client();
    for _ in 0..80 {
        (0..10).for_each(|_| drop(world.call(at, Op::GetAttr { ino: Ino::ROOT })));
        world.wait(100);
    }
    let rate = world.mds.status().load.requests_per_s;
    assert!((60.0..=140.0).contains(&rate), "100 a second: {rate}");
    world.syncs = false;
    (0..3).for_each(|n| _ = world.send(at, mkdir(Ino::ROOT, &format!("{n}"))));
    assert_eq!(world.mds.status().load.queue, 3);
}

#[test]
fn every_eighth_request_stands_for_eight() {
    let mut world = World::with(Config { heat_half_life_ms: 1 << 50, ..config() });
    let at = world.client();
    (0..8000).for_each(|_| drop(world.call(at, Op::GetAttr { ino: Ino::ROOT })));
    let ird = heat(&world, Ino::ROOT).ird;
    assert!((7200.0..=8800.0).contains(&ird), "{ird}");
}

/// Two ranks, of which the other one is played by hand.
fn pair() -> World {
    let info = |rank| RankInfo { rank: Rank(rank), address: String::new(), state: RankState::Up };
    let map = ClusterMap { epoch: 1, ranks: vec![info(0), info(1)], ..Default::default() };
    let mut world = World::with(Config { map: map.clone(), ..exact() });
    world.input(Input::PeerUp { rank: Rank(1) });
    let hello = PeerMsg::Hello { life: 1, received: 0, sent: 0, map, routes: Vec::new() };
    world.input(Input::Peer { from: Rank(1), msg: hello });
    world
}

#[test]
fn a_rank_tells_of_itself_once_a_second_and_remembers_what_others_told() {
    let mut world = pair();
    world.to_peers.clear();
    world.wait(5000);
    let beats = |(to, msg): &(Rank, PeerMsg)| match msg {
        PeerMsg::Beat(beats) if *to == Rank(1) => Some(beats.clone()),
        _ => None,
    };
    let told: Vec<Vec<Beat>> = world.to_peers.iter().filter_map(beats).collect();
    assert_eq!(told.len(), 6, "one at once and one each second");
    assert!(told.windows(2).all(|two| two[0][0].seq < two[1][0].seq && two[0].len() == 1), "{told:?}");
    let unknown = world.mds.status().others;
    assert_eq!((unknown.len(), unknown[0].rank, unknown[0].load), (1, Rank(1), None));
    let theirs = Load { auth: 77.0, ..Load::default() };
    let beat = Beat { rank: Rank(1), seq: 9, age_ms: 200, load: theirs, weighed: Default::default() };
    let nonsense = [
        Beat { seq: 10, load: Load { all: f64::NAN, ..theirs }, ..beat },
        Beat { seq: 11, load: Load { auth: -1.0, ..theirs }, ..beat },
        Beat { rank: Rank(7), ..beat },
    ];
    for beat in [beat].into_iter().chain(nonsense) {
        world.input(Input::Peer { from: Rank(1), msg: PeerMsg::Beat(vec![beat]) });
    }
    world.wait(1000);
    let others = world.mds.status().others;
    assert_eq!((others.len(), others[0].load), (1, Some((theirs, 1200))));
    world.input(Input::PeerDown { rank: Rank(1) });
    world.to_peers.clear();
    world.wait(60_000);
    assert!(world.to_peers.iter().all(|told| beats(told).is_none()), "there is nobody to tell");
    assert_eq!(world.mds.load_of(Rank(1)), Some((theirs, 61_200)), "it shows how old that is");
}

#[test]
fn a_redirected_request_is_load_but_not_of_what_the_rank_has() {
    let mut world = pair();
    let at = world.client();
    let before = world.mds.load_now();
    // A number that only rank 1 gives out.
    let theirs = Ino(Ino::first_of(Rank(1)).0 + 5);
    let seq = world.send(at, Op::Lookup { dir: theirs, name: name("x") });
    let sent_there = |msg: &&ToClient| matches!(msg, ToClient::Redirect { seq: s, rank: Rank(1), .. } if *s == seq);
    assert_eq!(world.clients[at].inbox.iter().filter(sent_there).count(), 1);
    let after = world.mds.load_now();
    assert_eq!((after.auth, after.all.round()), (before.auth, before.all + 1.0));
}

#[test]
fn a_directory_with_a_line_of_its_own_is_counted_for_itself() {
    let mut world = pair();
    let at = world.client();
    let a = world.mkdir(at, Ino::ROOT, "a").ino;
    world.call(at, Op::GetAttr { ino: a }).expect("it is there");
    assert_eq!((heat(&world, a), heat(&world, Ino::ROOT)), (load(0.0, 0.0, 0.0), load(1.0, 1.0, 0.0)));
    let route = loligo_types::Route { dir: a, frag: Frag::WHOLE, rank: Rank(0), version: 1 };
    world.mds.cluster.atlas.routes.learn(route);
    world.call(at, Op::GetAttr { ino: a }).expect("it is still this rank's");
    assert_eq!((heat(&world, a), heat(&world, Ino::ROOT)), (load(1.0, 0.0, 0.0), load(1.0, 1.0, 0.0)));
    // In two halves, entries count for the half that holds them.
    for frag in Frag::WHOLE.split(1) {
        world.mds.cluster.atlas.routes.learn(loligo_types::Route { frag, version: 2, ..route });
    }
    for n in 0..40 {
        world.call(at, Op::Lookup { dir: a, name: name(&n.to_string()) }).expect_err("there is no such name");
    }
    let hottest = world.mds.status().hottest;
    let halves: Vec<f64> =
        hottest.iter().filter(|hot| hot.dir == a && hot.frag.bits == 1).map(|hot| hot.load.ird.round()).collect();
    assert_eq!((halves.len(), halves.iter().sum::<f64>()), (2, 40.0), "{hottest:?}");
}

#[test]
fn what_a_rank_could_do_is_measured_while_it_is_busy_enough_to_tell() {
    let mut world = World::with(exact());
    let at = world.client();
    let second = |world: &mut World, requests: usize, busy_percent: f32| {
        (0..requests).for_each(|_| drop(world.call(at, Op::GetAttr { ino: Ino::ROOT })));
        world.wait_alive(1000);
        world.input(Input::Thread(ThreadLoad { busy_percent, ..ThreadLoad::default() }));
        world.mds.status().load.capacity_per_s
    };
    second(&mut world, 1, 90.0);
    let first = second(&mut world, 100, 50.0);
    assert!((180.0..220.0).contains(&first), "100 in half of a second: {first}");
    assert_eq!(second(&mut world, 5, 10.0), first, "one that hardly works does not show what it could do");
    let (mut last, mut seen) = (first, 0);
    while last < 350.0 {
        let next = second(&mut world, 100, 25.0);
        assert!(next > last, "it can do twice as much now");
        (last, seen) = (next, seen + 1);
    }
    assert!(seen > 5, "one second counts little");
    assert_eq!(world.mds.status().load.busy_percent, 25.0);
}
