//! Decoupled subtrees where there are several ranks: they come to one of them, stay there, and nobody comes in by another one.

use loligo_types::{Frag, Need, StoredJournal};

use super::*;
use crate::admin::{Ask, Told};
use crate::tests::cluster_harness::{Cluster, Outcome as Become, rank, rename, rmdir, two_ranks};

/// A client that has a subtree for itself, and goes to the rank that it is sent to.
struct Far {
    client: usize,
    subtree: Subtree,
}

fn ask(cluster: &mut Cluster, client: usize, dir: Ino, what: SubtreeOp) -> FsResult<Answer> {
    cluster.call(client, Op::Control(Control::Subtree { dir, what: Box::new(what) }))
}

impl Far {
    fn new(cluster: &mut Cluster, client: usize, dir: Ino) -> FsResult<Far> {
        Far::with(cluster, client, dir, decouple_op(77, 0, 100))
    }

    fn with(cluster: &mut Cluster, client: usize, dir: Ino, op: SubtreeOp) -> FsResult<Far> {
        let (record, root, settings) = told(ask(cluster, client, dir, op))?;
        Ok(Far { client, subtree: Subtree::new(settings, record, root) })
    }

    fn epoch(&self) -> u64 {
        self.subtree.record().epoch
    }

    fn run(&mut self, cluster: &mut Cluster, op: &Op) -> FsResult<Answer> {
        let (dir, epoch) = (self.subtree.root(), self.epoch());
        loop {
            match self.subtree.run(op, &Cred::root(), Time(1)) {
                Outcome::Done(result) => return result,
                Outcome::Fetch(needs) => {
                    let answer = ask(cluster, self.client, dir, SubtreeOp::Fetch { epoch, needs })?;
                    let Answer::Subtree(answer) = answer else { panic!("no such answer") };
                    let SubtreeAnswer::Records(items) = *answer else { panic!("no such answer") };
                    self.subtree.learn(items);
                }
                Outcome::Numbers => panic!("there are enough"),
            }
        }
    }

    fn made(&mut self, cluster: &mut Cluster, op: &Op) -> Ino {
        self.run(cluster, op).expect("it can be made").attr().expect("it has attributes").ino
    }

    fn found(&mut self, cluster: &mut Cluster, dir: Ino, text: &str) -> FsResult<Ino> {
        self.run(cluster, &Op::Lookup { dir, name: name(text) }).map(|answer| answer.attr().expect("an entry").ino)
    }

    fn send_parts(&mut self, cluster: &mut Cluster, group: &Group) -> FsResult<()> {
        let (dir, epoch, merge) = (self.subtree.root(), self.epoch(), self.subtree.record().merges + 1);
        for (part, body) in (0..).zip(&group.parts) {
            ask(cluster, self.client, dir, SubtreeOp::Part { epoch, merge, part, blind: false, body: body.clone() })?;
        }
        Ok(())
    }

    fn merge_op(&self, group: &Group) -> Op {
        let (merge, parts) = (self.subtree.record().merges + 1, group.parts.len() as u32);
        let what = SubtreeOp::Merge { epoch: self.epoch(), merge, parts, used: group.used, into: into_of(merge) };
        Op::Control(Control::Subtree { dir: self.subtree.root(), what: Box::new(what) })
    }

    fn merge(&mut self, cluster: &mut Cluster) -> FsResult<()> {
        for group in self.subtree.groups() {
            self.send_parts(cluster, &group)?;
            let Answer::Subtree(answer) = cluster.call(self.client, self.merge_op(&group))? else {
                panic!("no answer")
            };
            let SubtreeAnswer::Merged { merges, .. } = *answer else { panic!("no such answer") };
            self.subtree.merged(merges, group.used);
        }
        Ok(())
    }

    fn end(&mut self, cluster: &mut Cluster) -> FsResult<Answer> {
        ask(cluster, self.client, self.subtree.root(), SubtreeOp::End { epoch: self.epoch() })
    }
}

fn allow_op() -> SubtreeOp {
    SubtreeOp::Decouple {
        owner: 77,
        resume: 0,
        inos: 100,
        lease_ms: 5000,
        interfere: Interfere::Allow,
        promise: loligo_types::Promise::NONE,
    }
}

fn refusal(cluster: &mut Cluster, at: usize, ask: Ask) -> String {
    match cluster.admin(at, ask) {
        Told::Refused(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_is_decoupled_at_the_rank_that_has_it_and_nobody_comes_in_by_another_one() {
    let (mut cluster, b, here, there) = two_ranks();
    let a = cluster.client();
    let old = cluster.touch(b, there, "old");
    cluster.touch(b, here, "f");
    cluster.mkdir(b, here, "d");
    let two = cluster.touch(b, there, "two");
    cluster.call(b, Op::Link { ino: two, dir: here, name: name("again") }).expect("it has two names");
    let mut owner = Far::new(&mut cluster, a, there).expect("nobody has it");
    assert!(cluster.has(1, there), "it is where it was");
    let busy = [
        Op::Lookup { dir: there, name: name("old") },
        Op::GetAttr { ino: old },
        create(there, "x", WRITE, 21),
        rename(here, "f", there, "f"),
        rename(here, "d", there, "d"),
        rename(there, "old", here, "old"),
        Op::Link { ino: old, dir: here, name: name("l") },
        Op::Link { ino: two, dir: Ino::ROOT, name: name("l") },
        rmdir(Ino::ROOT, "there"),
        rename(here, "d", Ino::ROOT, "there"),
        rename(Ino::ROOT, "there", here, "moved"),
        rename(Ino::ROOT, "there", Ino::ROOT, "moved"),
    ];
    for op in busy {
        for first in [0, 1] {
            for client in [a, b] {
                assert_eq!(cluster.call_by(client, first, &op).0, Err(FsError::Busy), "{op:?} by rank {first}");
            }
        }
    }
    // A name that is elsewhere goes as at one rank.
    cluster.call(b, unlink(here, "again")).expect("that name is not in it");
    let sub = owner.made(&mut cluster, &mkdir(there, "sub"));
    owner.made(&mut cluster, &create(sub, "new", WRITE, 1));
    owner.run(&mut cluster, &rename(there, "old", sub, "old")).expect("it is his");
    owner.run(&mut cluster, &chmod(two, 0o604)).expect("it is his");
    owner.merge(&mut cluster).expect("it is his");
    assert_eq!(cluster.lookup(b, there, "sub"), Err(FsError::Busy), "it is decoupled still");
    owner.end(&mut cluster).expect("it is his");
    cluster.call(b, rename(Ino::ROOT, "there", here, "moved")).expect("it is a directory like others");
    let all = cluster.walk(b);
    let names: Vec<&str> = all.keys().map(String::as_str).collect();
    let expected = ["/here", "/here/d", "/here/f", "/here/moved", "/here/moved/sub", "/here/moved/sub/new"];
    assert_eq!(names[..6], expected);
    assert_eq!(names[6..], ["/here/moved/sub/old", "/here/moved/two"]);
    assert_eq!(all["/here/moved/two"], (two, Kind::File, 1, 0o604));
    cluster.finish();
}

#[test]
fn in_one_where_others_may_work_names_do_not_cross_its_root_to_other_ranks() {
    let (mut cluster, b, here, there) = two_ranks();
    let a = cluster.client();
    let old = cluster.touch(b, there, "old");
    cluster.touch(b, here, "f");
    let mut owner = Far::with(&mut cluster, a, there, allow_op()).expect("nobody has it");
    let cross = [
        rename(here, "f", there, "f"),
        rename(there, "old", here, "old"),
        Op::Link { ino: old, dir: here, name: name("l") },
    ];
    for op in cross {
        assert_eq!(cluster.call(b, op.clone()), Err(FsError::CrossDevice), "{op:?}");
    }
    assert_eq!(cluster.call(b, rmdir(Ino::ROOT, "there")), Err(FsError::Busy));
    owner.made(&mut cluster, &create(there, "mine", WRITE, 1));
    cluster.touch(b, there, "theirs");
    owner.merge(&mut cluster).expect("it is his");
    owner.end(&mut cluster).expect("it is his");
    let names = cluster.walk(b);
    assert!(["/there/mine", "/there/theirs", "/there/old"].iter().all(|path| names.contains_key(*path)), "{names:?}");
    cluster.finish();
}

/// `/job` is rank 0's, `/job/sub` rank 1's, `/job/sub/deep` rank 0's and `/job/sub/deep/far` rank 1's; half of `/job/wide` is rank 1's.
fn scattered() -> (Cluster, usize, Ino, [Ino; 4]) {
    let mut cluster = Cluster::new(2);
    let b = cluster.client();
    let job = cluster.mkdir(b, Ino::ROOT, "job");
    let sub = cluster.mkdir(b, job, "sub");
    let deep = cluster.mkdir(b, sub, "deep");
    let far = cluster.mkdir(b, deep, "far");
    let wide = cluster.mkdir(b, job, "wide");
    for dir in [job, sub, deep, far, wide] {
        cluster.touch_all(b, dir, 6);
    }
    cluster.migrate(sub, 0, 1);
    cluster.migrate(deep, 1, 0);
    cluster.migrate(far, 0, 1);
    cluster.migrate_frag(wide, Frag { bits: 1, value: 1 }, 0, 1);
    (cluster, b, job, [sub, deep, far, wide])
}

#[test]
fn one_that_is_spread_over_ranks_comes_together_is_decoupled_and_merged() {
    let (mut cluster, b, job, [sub, deep, far, wide]) = scattered();
    let a = cluster.client();
    let before = cluster.walk(b).len();
    let mut owner = Far::new(&mut cluster, a, job).expect("nobody has it");
    let elsewhere: Vec<_> = cluster.world(0).mds.cluster.atlas.routes.all();
    assert!(elsewhere.iter().all(|route| route.rank == rank(0)), "{elsewhere:?}");
    for ino in [sub, deep, far, wide] {
        assert_eq!(cluster.attr(b, ino).err(), Some(FsError::Busy), "{ino}");
    }
    // Directories that have lines of the subtree map are renamed and removed like others.
    owner.run(&mut cluster, &rename(deep, "far", job, "near")).expect("it is his");
    assert_eq!(owner.found(&mut cluster, job, "near"), Ok(far));
    for n in 0..6 {
        let file = owner.run(&mut cluster, &Op::Readdir { dir: deep, cookie: 0, limit: 1, plus: false, handle: None });
        let Ok(Answer::Entries { entries, .. }) = file else { panic!("{file:?}") };
        owner.run(&mut cluster, &Op::Unlink { dir: deep, name: entries[0].name.clone() }).expect("its own");
        assert_eq!(entries.len(), 1, "{n}");
    }
    owner.run(&mut cluster, &rmdir(sub, "deep")).expect("it is empty");
    owner.made(&mut cluster, &create(wide, "one-more", WRITE, 1));
    owner.merge(&mut cluster).expect("it is his");
    owner.end(&mut cluster).expect("it is his");
    let after = cluster.walk(b);
    assert_eq!(after.len(), before - 7 + 1);
    assert_eq!(after["/job/near"].0, far);
    for at in [0, 1] {
        let routes = &cluster.world(at).mds.cluster.atlas.routes;
        assert_eq!(routes.version(deep), None, "rank {at}: of what is gone there are no lines");
    }
    cluster.migrate(job, 0, 1);
    assert_eq!(cluster.walk(b), after);
    cluster.finish();
}

#[test]
fn what_is_pinned_or_decoupled_elsewhere_is_not_given_and_it_is_busy() {
    let (mut cluster, b, job, [sub, _, far, _]) = scattered();
    let a = cluster.client();
    let mut inner = Far::with(&mut cluster, b, far, decouple_op(78, 0, 10)).expect("nobody has it");
    assert_eq!(Far::new(&mut cluster, a, job).err(), Some(FsError::Busy), "what is in it is another's");
    inner.end(&mut cluster).expect("it is his");
    let value = b"1"[..].into();
    let pin = Op::SetXattr { ino: sub, name: loligo_namespace::PIN.into(), value, mode: loligo_types::XattrMode::Set };
    cluster.call(b, pin.clone()).expect("there is such a rank");
    if cluster.has(1, sub) {
        assert_eq!(Far::new(&mut cluster, a, job).err(), Some(FsError::Busy), "it must be where it is");
    }
    let Op::SetXattr { ino, name, .. } = pin else { unreachable!("it is one") };
    cluster.call(b, Op::RemoveXattr { ino, name }).expect("it has it");
    let mut owner = Far::new(&mut cluster, a, job).expect("nobody has it");
    owner.end(&mut cluster).expect("it is his");
    cluster.finish();
}

#[test]
fn as_long_as_it_is_decoupled_nothing_of_it_and_nothing_that_it_is_in_goes_to_another_rank() {
    let mut cluster = Cluster::new(2);
    let (a, b) = (cluster.client(), cluster.client());
    let top = cluster.mkdir(b, Ino::ROOT, "top");
    let (job, free) = (cluster.mkdir(b, top, "job"), cluster.mkdir(b, Ino::ROOT, "free"));
    let below = cluster.mkdir(b, job, "below");
    cluster.touch_all(b, below, 3);
    let mut owner = Far::new(&mut cluster, a, job).expect("nobody has it");
    let half = |value| Frag { bits: 1, value };
    for dir in [top, job, below] {
        let text = refusal(&mut cluster, 0, Ask::Migrate { dir, to: rank(1) });
        assert!(text.contains("decoupled") && text.contains("loligo recouple"), "{text}");
    }
    for dir in [job, below] {
        let text = refusal(&mut cluster, 0, Ask::MigrateFrag { dir, frag: half(1), to: rank(1) });
        assert!(text.contains("decoupled"), "{text}");
    }
    // Of what it is in only the fragment that has it stays.
    let hash = cluster.world(0).mds.tree_hash("job");
    let (with, without) = if half(1).contains(hash) { (half(1), half(0)) } else { (half(0), half(1)) };
    if with.value == 1 {
        refusal(&mut cluster, 0, Ask::MigrateFrag { dir: top, frag: with, to: rank(1) });
    } else {
        cluster.migrate_frag(top, without, 0, 1);
    }
    cluster.migrate(free, 0, 1);
    owner.made(&mut cluster, &mkdir(below, "new"));
    owner.merge(&mut cluster).expect("it is his");
    owner.end(&mut cluster).expect("it is his");
    cluster.migrate(job, 0, 1);
    let mut owner = Far::new(&mut cluster, a, job).expect("nobody has it");
    assert!(owner.found(&mut cluster, below, "new").is_ok());
    owner.end(&mut cluster).expect("it is his");
    cluster.finish();
}

#[test]
fn one_that_is_asked_for_while_it_moves_is_decoupled_where_it_comes_to() {
    let (mut cluster, b, here, _) = two_ranks();
    let a = cluster.client();
    let below = cluster.mkdir(b, here, "below");
    cluster.touch_all(b, below, 3);
    cluster.hold(0, 1);
    cluster.begin_move(below, 0, 1);
    let op = Op::Control(Control::Subtree { dir: here, what: Box::new(decouple_op(77, 0, 10)) });
    let seq = cluster.send(a, 0, op);
    cluster.wait(200);
    assert_eq!(cluster.outcome(a, 0, seq), None, "something of it is about to move");
    cluster.release();
    cluster.wait_for("the answer", |cluster| cluster.has(0, below) && !cluster.has(1, below));
    cluster.wait(2000);
    let Some(Become::Answered(Ok(answer))) = cluster.outcome(a, 0, seq) else { panic!("it came back") };
    let (record, root, settings) = told(Ok(answer)).expect("decoupled");
    assert_eq!(record.dir, here);
    let mut owner = Far { client: a, subtree: Subtree::new(settings, record, root) };
    assert_eq!(owner.found(&mut cluster, here, "below"), Ok(below));
    owner.end(&mut cluster).expect("it is his");
    cluster.finish();
}

#[test]
fn what_is_open_may_be_closed_once_all_is_there_however_long_that_took() {
    let (mut cluster, b, here, _) = two_ranks();
    let a = cluster.client();
    let below = cluster.mkdir(b, here, "below");
    cluster.call(b, create(below, "open", WRITE, 9)).expect("it is made");
    cluster.migrate(below, 0, 1);
    cluster.hold(0, 1);
    let seq = cluster.send(a, 0, Op::Control(Control::Subtree { dir: here, what: Box::new(decouple_op(77, 0, 10)) }));
    cluster.wait(4000);
    cluster.release();
    cluster.wait_for("what is the other rank's", |cluster| cluster.has(0, below) && !cluster.has(1, below));
    cluster.wait(200);
    assert_eq!(cluster.outcome(a, 0, seq), None, "a file in it is open, and may be closed soon");
    cluster.ask(b, 0, close(9));
    cluster.wait(200);
    let Some(Become::Answered(answer)) = cluster.outcome(a, 0, seq) else { panic!("nothing is in the way") };
    let (record, root, settings) = told(answer).expect("decoupled");
    let mut owner = Far { client: a, subtree: Subtree::new(settings, record, root) };
    owner.end(&mut cluster).expect("it is his");
    cluster.finish();
}

#[test]
fn a_rank_that_is_drained_waits_for_what_is_decoupled_at_it_and_says_so() {
    let (mut cluster, b, _, there) = two_ranks();
    let a = cluster.client();
    cluster.touch(b, there, "old");
    let other = cluster.mkdir(b, Ino::ROOT, "other");
    cluster.migrate(other, 0, 1);
    let mut owner = Far::new(&mut cluster, a, there).expect("nobody has it");
    cluster.set_state(1, loligo_types::RankState::Draining);
    cluster.wait(3000);
    assert!(!cluster.has(1, other), "what can go goes");
    let Told::Drain(Some(drain)) = cluster.admin(1, Ask::Drain) else { panic!("it is drained") };
    let stuck = drain.stuck.expect("it waits");
    assert!(stuck.contains("decoupled for a client") && stuck.contains(&there.to_string()), "{stuck}");
    owner.made(&mut cluster, &create(there, "new", WRITE, 1));
    owner.merge(&mut cluster).expect("it is his");
    owner.end(&mut cluster).expect("it is his");
    assert_eq!(Far::new(&mut cluster, a, there).err(), Some(FsError::Busy), "it is about to go");
    cluster.wait_for("the end", |cluster| cluster.world(1).mds.cluster.atlas.routes.home(there) == Some(rank(0)));
    assert!(cluster.lookup(b, there, "new").is_ok());
    let mut owner = Far::new(&mut cluster, a, there).expect("it is rank 0's now");
    owner.end(&mut cluster).expect("it is his");
}

#[test]
fn a_file_that_lives_by_itself_at_another_rank_is_others_and_its_name_stays() {
    let (mut cluster, b, here, there) = two_ranks();
    let a = cluster.client();
    let f = cluster.touch(b, here, "f");
    let opened = cluster.call(b, Op::Open { ino: f, flags: WRITE, handle: 5 });
    assert!(opened.is_ok());
    cluster.call(b, rename(here, "f", there, "f")).expect("it may");
    // Its rank is busy, so it does not go home at once.
    let mut owner = Far::new(&mut cluster, a, there).expect("what is open there lives at rank 0");
    if cluster.has(0, f) {
        assert_eq!(owner.found(&mut cluster, there, "f"), Err(FsError::Busy));
        assert_eq!(owner.run(&mut cluster, &unlink(there, "f")), Err(FsError::Busy));
    }
    cluster.wait(5000);
    // When it has come home, it is the owner's as soon as nobody has it open.
    assert_eq!(owner.found(&mut cluster, there, "f"), Err(FsError::Busy));
    let mut at = 0;
    for place in [0, 1] {
        if cluster.has(place, f) {
            at = place;
        }
    }
    cluster.ask(b, at, close(5));
    if at == 1 {
        assert_eq!(owner.found(&mut cluster, there, "f"), Ok(f));
        assert_eq!(cluster.attr(b, f).err(), Some(FsError::Busy));
        owner.run(&mut cluster, &unlink(there, "f")).expect("it is his");
        owner.merge(&mut cluster).expect("it is his");
    }
    owner.end(&mut cluster).expect("it is his");
    assert_eq!(cluster.lookup(b, there, "f").is_ok(), at == 0);
    cluster.finish();
}

#[test]
fn a_file_that_lives_by_itself_at_another_rank_comes_also_if_that_one_has_not_got_it_in_memory() {
    let (mut cluster, b, here, there) = two_ranks();
    let (a, other) = (cluster.client(), cluster.mkdir(b, Ino::ROOT, "other"));
    let f = cluster.touch(b, here, "f");
    cluster.call(b, rename(here, "f", there, "f")).expect("it may");
    let mut owner = Far::new(&mut cluster, a, there).expect("nobody has it");
    // Rank 0 has something to move that does not come to its end, so the file does not go home.
    cluster.hold(0, 1);
    cluster.begin_move(other, 0, 1);
    cluster.at(0, |world| world.mds.core.config.cache_bytes_max = 1);
    cluster.wait(10_000);
    assert!(!cluster.has(0, f) && !cluster.has(1, f), "it is in the table alone");
    cluster.at(0, |world| world.loads = false);
    cluster.release();
    let what = SubtreeOp::Fetch { epoch: owner.epoch(), needs: vec![Need::Inode(f)] };
    let seq = cluster.send(a, 1, Op::Control(Control::Subtree { dir: there, what: Box::new(what) }));
    // Between two reads everything leaves memory that may. It is not what looks now and then for files to go home that finds it.
    let mut found = None;
    for _ in 0..25 {
        found = cluster.outcome(a, 1, seq);
        if found.is_some() {
            break;
        }
        cluster.at(0, World::load_one);
        cluster.wait(50);
    }
    assert!(matches!(found, Some(Become::Answered(Ok(_)))), "{found:?}");
    cluster.at(0, |world| world.loads = true);
    owner.end(&mut cluster).expect("it is his");
    cluster.finish();
}

#[test]
fn of_a_directory_that_another_rank_has_made_an_owner_takes_all_names_that_it_took() {
    let (mut cluster, b, _, there) = two_ranks();
    let a = cluster.client();
    let made = cluster.mkdir(b, there, "made");
    assert_eq!(made.birth_rank(), rank(1));
    cluster.touch_all(b, made, 3);
    cluster.migrate(there, 1, 0);
    let mut owner = Far::with(&mut cluster, a, there, allow_op()).expect("nobody has it");
    (0..3).for_each(|n| _ = owner.run(&mut cluster, &unlink(made, &format!("f{n}"))).expect("it is his"));
    owner.merge(&mut cluster).expect("it is his");
    owner.end(&mut cluster).expect("it is his");
    assert_eq!(cluster.attr(b, made).map(|attr| attr.size), Ok(0));
    (0..3).for_each(|n| assert!(cluster.lookup(b, made, &format!("f{n}")).is_err(), "f{n}"));
    cluster.finish();
}

#[test]
fn what_was_asked_for_before_a_merge_made_it_is_there_after_that_also_when_it_has_left_memory() {
    for what in [decouple_op(77, 0, 100), allow_op()] {
        let (mut cluster, b, _, there) = two_ranks();
        let a = cluster.client();
        let mut owner = Far::with(&mut cluster, a, there, what).expect("nobody has it");
        let sub = owner.made(&mut cluster, &mkdir(there, "sub"));
        cluster.at(1, |world| (world.mds.core.config.cache_bytes_max, world.mds.core.config.dirty_ms_max) = (1, 50));
        assert_eq!(cluster.attr(b, sub).err(), Some(FsError::Stale), "it is its owner's alone");
        owner.merge(&mut cluster).expect("it is his");
        owner.end(&mut cluster).expect("it is his");
        // Sooner than what the table says is forgotten.
        for _ in 0..30 {
            if cluster.has(1, sub) {
                cluster.wait(50);
            }
        }
        assert!(!cluster.has(1, sub), "it is in the table alone");
        assert_eq!(cluster.attr(b, sub).map(|attr| attr.ino), Ok(sub));
        cluster.finish();
    }
}

#[test]
fn a_merge_is_there_whole_or_not_at_all_whenever_the_rank_dies_and_its_owner_goes_on() {
    for dies in 0..4 {
        let (mut cluster, b, _, there) = two_ranks();
        let a = cluster.client();
        cluster.touch(b, there, "old");
        let mut owner = Far::new(&mut cluster, a, there).expect("nobody has it");
        let sub = owner.made(&mut cluster, &mkdir(there, "sub"));
        for n in 0..5 {
            owner.made(&mut cluster, &create(sub, &format!("f{n}"), WRITE, 1));
        }
        owner.run(&mut cluster, &unlink(there, "old")).expect("it is his");
        if dies == 0 {
            cluster.crash(1);
        }
        for group in owner.subtree.groups() {
            owner.send_parts(&mut cluster, &group).expect("it is his");
            if dies == 1 {
                cluster.crash(1);
                let lost = cluster.call(a, owner.merge_op(&group));
                assert_eq!(lost, Err(FsError::WouldBlock), "of the parts that life knows nothing");
            }
            if dies == 2 {
                cluster.send(a, 1, owner.merge_op(&group));
                cluster.crash(1);
                // It may be done; if not, nothing of it is.
                if cluster.call(a, owner.merge_op(&group)).is_ok() {
                    owner.subtree.merged(1, group.used);
                }
            }
        }
        let merged = cluster.lookup(b, there, "sub");
        assert_eq!(merged, Err(FsError::Busy), "it is decoupled still");
        owner.merge(&mut cluster).unwrap_or_else(|error| panic!("dies {dies}: {error:?}"));
        if dies == 3 {
            cluster.crash(1);
        }
        owner.end(&mut cluster).expect("it is his");
        let all = cluster.walk(b);
        assert_eq!(all.len(), 2 + 6, "{all:?}");
        assert!(!all.contains_key("/there/old"));
        cluster.migrate(there, 1, 0);
        assert_eq!(cluster.walk(b), all);
        cluster.finish();
    }
}

#[test]
fn what_was_merged_and_has_moved_is_not_brought_back_by_a_restart_of_the_rank_that_had_it() {
    let (mut cluster, b, _, there) = two_ranks();
    let a = cluster.client();
    let mut owner = Far::new(&mut cluster, a, there).expect("nobody has it");
    let sub = owner.made(&mut cluster, &mkdir(there, "sub"));
    owner.made(&mut cluster, &create(sub, "f", WRITE, 1));
    owner.merge(&mut cluster).expect("it is his");
    owner.end(&mut cluster).expect("it is his");
    cluster.migrate(there, 1, 0);
    cluster.call(b, unlink(sub, "f")).expect("it is there");
    let mut owner = Far::with(&mut cluster, b, there, decouple_op(79, 0, 10)).expect("nobody has it");
    owner.made(&mut cluster, &create(sub, "g", WRITE, 1));
    // All is in the table, and the old rank replays what it did.
    cluster.wait(6000);
    cluster.crash(1);
    cluster.wait(6000);
    cluster.crash(0);
    assert_eq!(cluster.lookup(a, sub, "f"), Err(FsError::Busy), "it is decoupled, for all that rank 1 says");
    let again = decouple_op(79, owner.epoch(), 10);
    ask(&mut cluster, b, there, again).expect("it is his still");
    owner.merge(&mut cluster).expect("it is his");
    owner.end(&mut cluster).expect("it is his");
    assert_eq!(cluster.lookup(a, sub, "f"), Err(FsError::NotFound), "it was removed after it had moved");
    assert!(cluster.lookup(a, sub, "g").is_ok());
    cluster.finish();
}

#[test]
fn one_that_was_left_with_a_journal_in_the_store_is_taken_over_at_the_rank_that_has_it() {
    let (mut cluster, b, _, there) = two_ranks();
    let a = cluster.client();
    cluster.touch(b, there, "old");
    let owner = Far::new(&mut cluster, a, there).expect("nobody has it");
    let (dir, epoch) = (owner.subtree.root(), owner.epoch());
    let journal = StoredJournal { ino: owner.subtree.record().journal_inos()[0], bytes: 300 };
    ask(&mut cluster, a, dir, SubtreeOp::Data { epoch, inos: vec![journal.ino] }).expect("it is reserved for it");
    ask(&mut cluster, a, dir, SubtreeOp::Keep { epoch, journal }).expect("it is reserved for it");
    cluster.crash(1);
    let take = SubtreeOp::TakeOver { owner: 78, now: false };
    assert_eq!(ask(&mut cluster, b, dir, take.clone()).err(), Some(FsError::Busy), "its owner is here");
    cluster.at(1, |world| world.message(a, loligo_types::msg::ToServer::Goodbye { gone: false }));
    cluster.wait(6000);
    let text = refusal(&mut cluster, 1, Ask::Migrate { dir, to: rank(0) });
    assert!(text.contains("decoupled"), "{text}");
    let mut other = Far::with(&mut cluster, b, dir, take).expect("it waits");
    assert_eq!((other.epoch(), other.subtree.record().owner), (epoch, 78));
    other.made(&mut cluster, &mkdir(dir, "late"));
    other.merge(&mut cluster).expect("it is his");
    let journal = StoredJournal { bytes: 0, ..journal };
    ask(&mut cluster, b, dir, SubtreeOp::Keep { epoch, journal }).expect("it is merged");
    other.end(&mut cluster).expect("it is his");
    assert!(cluster.lookup(b, dir, "late").is_ok());
    cluster.finish();
}

/// Every other merge goes into the table.
fn into_of(merge: u64) -> MergeInto {
    if merge.is_multiple_of(2) { MergeInto::Memory } else { MergeInto::Table }
}

#[test]
fn a_scattered_directory_below_comes_to_its_owner_when_that_asks_for_it() {
    let mut cluster = Cluster::new(2);
    let (a, b) = (cluster.client(), cluster.client());
    let here = cluster.mkdir(b, Ino::ROOT, "here");
    let top = cluster.mkdir(b, here, "top");
    let name_of = loligo_namespace::PLACEMENT;
    let set =
        |ino| Op::SetXattr { ino, name: name_of.into(), value: (*b"giga").into(), mode: loligo_types::XattrMode::Set };
    assert!(cluster.call(b, set(top)).is_ok());
    let mut far = Vec::new();
    for n in 0..20 {
        let dir = cluster.mkdir(b, top, &format!("d{n}"));
        cluster.touch(b, dir, "f");
        far.push((dir, cluster.has(1, dir)));
    }
    assert!(far.iter().any(|(_, is_far)| *is_far) && far.iter().any(|(_, is_far)| !is_far));
    assert_eq!(Far::new(&mut cluster, a, top).err(), Some(FsError::NotSupported));
    let mut owner = Far::new(&mut cluster, a, here).expect("nobody has it");
    for (n, (dir, _)) in far.iter().enumerate() {
        let found = owner.found(&mut cluster, top, &format!("d{n}"));
        assert_eq!(
            found,
            Ok(*dir),
            "d{n}: {:?} {:?}",
            cluster.at(1, |world| world.mds.cluster.exports.migrations(&world.mds.core)),
            cluster.world(0).mds.under_way()
        );
        assert!(owner.found(&mut cluster, *dir, "f").is_ok());
        owner.run(&mut cluster, &create(*dir, "new", WRITE, 77)).expect("it is his");
        assert_eq!(cluster.lookup(b, *dir, "f"), Err(FsError::Busy));
    }
    owner.merge(&mut cluster).expect("it is his");
    owner.end(&mut cluster).expect("it is his");
    for (dir, _) in &far {
        assert!(cluster.lookup(b, *dir, "new").is_ok());
    }
    cluster.finish();
}
