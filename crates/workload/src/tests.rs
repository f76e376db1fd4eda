//! Output of the generators, and its round trip through text.

use crate::{Call, Item, Spec, Workload, trace};

pub(crate) fn workload(spec: &str, seed: u64) -> Workload {
    let spec: Spec = spec.parse().expect("a workload");
    spec.workload(seed, &mut |path| Err(format!("{path} is not there"))).expect("it can be made")
}

pub(crate) fn calls(workload: Workload) -> Vec<Call> {
    let of = |item| match item {
        Item::Call(call) => Some(call),
        Item::Until(_) | Item::Mark(_) => None,
    };
    workload.clients.into_iter().flatten().flat_map(|lane| lane.filter_map(of).collect::<Vec<_>>()).collect()
}

const ALL: [&str; 8] = [
    "create-shared",
    "create-own:look=1",
    "compile:clients=2,one-tree=1",
    "untar:clients=2",
    "tree-balanced:fan=3,height=3,files=5,stats=100,lanes=2",
    "tree-zipf:fan=3,height=3,files=500,stats=100,choice=zipf",
    "tree-synthetic:dirs=300,files=5000,stats=100",
    "linkedin:dirs=300,files=2000,calls=3000,scale=2,mix=open:3/create:2/unlink:1",
];

#[test]
fn what_is_displayed_is_parsed_to_the_same() {
    for text in ALL.into_iter().chain(["replay:file=/a/b,timed=1", "untar:think=77", "linkedin"]) {
        let spec: Spec = text.parse().expect("a workload");
        assert_eq!(spec.to_string().parse::<Spec>(), Ok(spec));
    }
}

#[test]
fn what_is_wrong_with_a_workload_is_said() {
    let wrong = |text: &str| text.parse::<Spec>().expect_err("it is wrong");
    assert!(wrong("creat").contains("create-shared, create-own, compile"));
    assert!(wrong("untar:file=3").contains("no parameter `file`; it has clients, dirs, files"));
    assert!(wrong("untar:files").contains("`parameter=value`"));
    assert!(wrong("untar:files=x").contains("files=x: this must be a number from 0"));
    assert!(wrong("compile:clients=0").contains("from 1"));
    assert!(wrong("untar:files=1,files=2").contains("twice"));
    assert!(wrong("replay").contains("file=FILE"));
    assert!(
        wrong("tree-balanced:fan=10,height=8").contains("fan=10,height=8: these are more than 10000000 directories")
    );
    assert!(wrong("tree-zipf:choice=best").contains("choice=best: this must be uniform or zipf"));
    assert!(wrong("linkedin:mix=open:1/dance:2").contains("`dance` is not among open, readdir, stat"));
    assert!(wrong("linkedin:mix=open").contains("`open` is not `call:number`"));
    assert!(wrong("linkedin:mix=open:-1").contains("`open:-1` does not end with a number"));
    assert!(wrong("linkedin:mix=open:0").contains("there is no call in it"));
    assert!(wrong("linkedin:mix=open:1/create:1/unlink:2").contains("more of create"));
    assert!(wrong("linkedin:mix=open:1/rename:1").contains("more of create"));
}

#[test]
fn the_same_seed_makes_the_same_calls_and_another_one_others() {
    for spec in ALL {
        assert_eq!(calls(workload(spec, 1)), calls(workload(spec, 1)), "{spec}");
    }
    for spec in ["compile", ALL[4], ALL[5], ALL[6], ALL[7]] {
        assert_ne!(calls(workload(spec, 1)), calls(workload(spec, 2)), "{spec}");
    }
}

#[test]
fn each_file_is_made_once() {
    let mut made: Vec<_> =
        calls(workload("create-shared:clients=3,files=10,lanes=4", 1)).iter().map(|c| c.path().clone()).collect();
    made.sort();
    made.dedup();
    assert_eq!(made.len(), 30);
}

#[test]
fn a_compile_misses_headers_renames_objects_and_ends_with_everybody_reading_them() {
    let compile = workload("compile:clients=2,dirs=3,units=2,jobs=1", 5);
    let setup: Vec<_> = compile.setup.iter().map(|call| call.path().clone()).collect();
    let lane: Vec<Item> = compile.clients.into_iter().flatten().next().expect("a lane").collect();
    let mark = lane.iter().position(|item| matches!(item, Item::Mark(_))).expect("a mark");
    let is = |item: &Item, wanted: fn(&Call) -> bool| matches!(item, Item::Call(call) if wanted(call));
    assert!(lane[..mark].iter().any(|item| is(item, |call| matches!(call, Call::Rename(..)))));
    assert!(lane[..mark].iter().any(|item| matches!(item, Item::Call(Call::Stat(path)) if !setup.contains(path))));
    assert!(lane[mark..].iter().any(|item| is(item, |call| matches!(call, Call::Readdir(_)))));
    assert!(!lane[mark..].iter().any(|item| is(item, |call| matches!(call, Call::Write(..) | Call::Rename(..)))));
}

#[test]
fn directories_are_made_before_what_is_in_them() {
    for spec in ["compile", "untar", "create-own", ALL[4], ALL[6]] {
        let workload = workload(spec, 1);
        let mut there: Vec<String> = vec![String::new()];
        for call in &workload.setup {
            let path = call.path();
            let above = &path[..path.rfind('/').expect("a slash")];
            assert!(there.iter().any(|dir| dir == above), "{spec}: {path}");
            there.push(path.to_string());
        }
        assert!(workload.spread.iter().all(|dir| there.iter().any(|known| **known == **dir)));
    }
}

#[test]
fn a_recorded_workload_is_read_back() {
    for spec in ["untar:clients=2,dirs=2,files=3", "compile:dirs=2,units=1,jobs=1,clients=2", ALL[5]] {
        let text = trace::record(workload(spec, 3));
        let again = trace::parse(&text, false).expect("it is a trace");
        assert_eq!(again.setup, workload(spec, 3).setup);
        assert_eq!(calls(again), calls(workload(spec, 3)));
        assert_eq!(trace::record(trace::parse(&text, false).expect("it is a trace")), text);
    }
}

#[test]
fn any_path_survives_a_trace() {
    let path = "/a b%\n\u{e9}/c".into();
    let line = trace::line(5, Some(0), &Call::Rename("/x".into(), path));
    assert_eq!(line.lines().count(), 1);
    let again = trace::parse(&line, true).expect("it is a trace");
    let items: Vec<Item> = again.clients.into_iter().flatten().flatten().collect();
    assert_eq!(items[0], Item::Until(5));
    assert_eq!(items[1], Item::Call(Call::Rename("/x".into(), "/a b%\n\u{e9}/c".into())));
}

#[test]
fn a_wrong_line_of_a_trace_is_named() {
    let wrong = |text: &str| trace::parse(text, false).err().expect("it is wrong");
    assert!(wrong("# fine\n1 0 stat").starts_with("line 2: a line is"));
    assert!(wrong("x 0 stat /a").contains("`x` is no number of microseconds"));
    assert!(wrong("1 0 look /a").contains("there is no call `look`"));
    assert!(wrong("1 0 stat a").contains("begins with `/`"));
    for path in ["/..", "/a/../b", "/a//b", "/a/", "/a%00"] {
        assert!(wrong(&format!("1 0 stat {path}")).contains("no NUL"), "{path}");
        assert!(wrong(&format!("1 0 rename /a {path}")).contains("no NUL"), "{path}");
    }
    assert!(wrong("1 0 rename /a").contains("rename has 0 after its path, not 1"));
    assert!(wrong("1 0 stat /a /b").contains("stat has 1 after its path, not 0"));
    assert!(wrong("1 0 chmod /a 9").contains("octal"));
    assert!(wrong("1 0 stat /a%4").contains("hexadecimal"));
    assert!(wrong("1 0 stat /a%ff").contains("UTF-8"));
    assert!(wrong("1 0 stat /a\n1 - mkdir /b").contains("before all calls"));
    assert!(wrong("1 999999999 stat /a").contains("numbered from 0"));
}
