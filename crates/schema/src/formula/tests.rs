//! Formulas by hand: the layouts of the thesis, trees of 10^12 names, and every fault.

use loligo_types::Kind;

use super::*;
use crate::fault::Cause;

fn range(name: &str, first: u64, last: u64) -> Argument {
    let values = Values::Range(Range { first, step: 1, count: last - first + 1, width: 0, base: Base::Decimal });
    Argument { name: name.into(), values, split: None }
}

fn list(name: &str, words: &[&str]) -> Argument {
    let words = words.iter().map(|word| word.as_bytes().into()).collect();
    Argument { name: name.into(), values: Values::List(List::new(words)), split: None }
}

fn split(mut argument: Argument, over: usize, parts: u64) -> Argument {
    argument.split = Some(Split { over, deal: Deal::Block, parts });
    argument
}

fn formula(args: Vec<Argument>, paths: &[&str]) -> Result<Formula, Cause> {
    let paths: Vec<PathText> = paths.iter().map(|text| PathText { text: text.to_string(), size: 10 }).collect();
    Formula::new(args, &paths).map_err(|(_, cause)| cause)
}

/// Names of all entries with a slash behind directories, by walking; checks that number, name and place of a listing agree.
fn walk(formula: &Formula) -> Vec<String> {
    let mut all = Vec::new();
    walk_below(formula, &formula.root(), "", &mut all);
    assert_eq!(all.len() as u64, formula.totals().entries);
    for (index, path) in all.iter().enumerate() {
        let place = formula.locate(index as u64 + 1).expect("it is in the tree");
        let names = formula.names(&place);
        let parts: Vec<&[u8]> = path.trim_end_matches('/').split('/').map(str::as_bytes).collect();
        assert_eq!(names, parts, "{path}");
        assert_eq!(formula.resolve(parts), Some(place));
    }
    assert_eq!(formula.locate(all.len() as u64 + 1), None);
    all
}

fn walk_below(formula: &Formula, dir: &Place, prefix: &str, all: &mut Vec<String>) {
    let (mut dirs, first) = (0, all.len());
    for ordinal in 0..formula.len(dir) {
        let place = formula.nth(dir, ordinal).expect("it is in the directory");
        let name = String::from_utf8(formula.name(&place)).expect("text");
        assert_eq!(place.index, all.len() as u64 + 1, "preorder");
        assert_eq!(place.parent, dir.index);
        assert_eq!(formula.locate(place.index).as_ref(), Some(&place));
        assert_eq!(formula.child(dir, name.as_bytes()).as_ref(), Some(&place));
        assert_eq!(formula.ordinal(&place), Some(ordinal));
        let is_dir = formula.kind(&place) == Kind::Dir;
        dirs += u64::from(is_dir);
        all.push(format!("{prefix}{name}{}", if is_dir { "/" } else { "" }));
        walk_below(formula, &place, &format!("{prefix}{name}/"), all);
    }
    assert_eq!(formula.nth(dir, formula.len(dir)), None);
    assert_eq!((formula.dirs_in(dir), formula.below(dir).entries), (dirs, (all.len() - first) as u64));
}

/// A PLFS container: a directory for each host, which has a data and an index file for each of its processes.
fn plfs(hosts: u64, processes: u64) -> Formula {
    let args = vec![
        range("host", 0, hosts - 1),
        list("part", &["data", "index"]),
        split(range("rank", 0, processes - 1), 0, hosts),
    ];
    let paths = [".plfsaccess113918400", "meta/", "hostdir.{host}/dropping.{part}.{rank}"];
    formula(args, &paths).expect("it is sound")
}

#[test]
fn a_container_of_plfs_is_listed_host_by_host() {
    let all = walk(&plfs(2, 3));
    let expected = [
        ".plfsaccess113918400",
        "meta/",
        "hostdir.0/",
        "hostdir.0/dropping.data.0",
        "hostdir.0/dropping.index.0",
        "hostdir.1/",
        "hostdir.1/dropping.data.1",
        "hostdir.1/dropping.data.2",
        "hostdir.1/dropping.index.1",
        "hostdir.1/dropping.index.2",
    ];
    assert_eq!(all, expected);
    for (hosts, processes) in [(1, 1), (3, 10), (10, 3), (7, 49)] {
        walk(&plfs(hosts, processes));
    }
}

#[test]
fn a_checkpoint_of_a_million_processes_is_numbered_without_a_list() {
    let formula = plfs(1024, 1_000_000);
    assert_eq!(formula.totals(), Totals { entries: 2_001_026, files: 2_000_001, bytes: 20_000_010 });
    let host = formula.child(&formula.root(), b"hostdir.1023").expect("the last host");
    let last = formula.child(&host, b"dropping.index.999999").expect("the last process");
    assert_eq!((last.index, formula.locate(2_001_026)), (2_001_026, Some(last)));
    assert_eq!(formula.child(&host, b"dropping.index.0"), None, "another host has it");
    assert_eq!(formula.child(&host, b"dropping.index.0999999"), None);
}

/// Objects of a simulation: a run has variables, those have time steps, and those a cube of cells. One variable is kept in coarser cells.
fn sirius(run: u64, steps: u64, cells: u64) -> Formula {
    let coarse = Values::Range(Range { first: 0, step: 4, count: cells / 4, width: 0, base: Base::Decimal });
    let coarse = |name: &str| Argument { name: name.into(), values: coarse.clone(), split: None };
    let cell = |name: &str| range(name, 0, cells - 1);
    let args = vec![
        range("run", 1, run),
        list("var", &["temperature", "vx", "vy", "vz", "density", "energy", "ox", "oy", "oz", "mass"]),
        range("step", 0, steps - 1),
        cell("x"),
        cell("y"),
        cell("z"),
        coarse("cx"),
        coarse("cy"),
        coarse("cz"),
    ];
    let paths = ["run{run}/{var}/t{step}/{x}.{y}.{z}", "run{run}/pressure/t{step}/{cx}.{cy}.{cz}"];
    formula(args, &paths).expect("it is sound")
}

#[test]
fn a_tree_of_a_trillion_objects_answers_by_name_number_and_box() {
    let formula = sirius(1, 100, 1000);
    assert_eq!(formula.totals().files, 1_000_000_000_000 + 100 * 250 * 250 * 250);
    let names: [&[u8]; 4] = [b"run1", b"energy", b"t99", b"999.0.123"];
    let place = formula.resolve(names).expect("it is in the tree");
    assert_eq!(formula.locate(place.index).as_ref(), Some(&place));
    assert_eq!(formula.names(&place), names);
    let dir = formula.locate(place.parent).expect("its directory");
    assert_eq!(formula.len(&dir), 1_000_000_000);
    assert_eq!(formula.name(&formula.nth(&dir, 999_999_999).expect("the last")), b"999.999.999");
    let number = |first, last| Bound::Numbers { first, last };
    let bounds = [
        ("var", Bound::Words(vec![b"vz".to_vec(), b"vx".to_vec(), b"none".to_vec()])),
        ("step", number(7, 8)),
        ("x", number(500, 502)),
        ("y", number(0, 0)),
        ("z", number(998, 5000)),
    ];
    let found: Vec<Place> = formula.select(0, &bounds).expect("these are arguments").collect();
    assert_eq!(found.len(), 2 * 2 * 3 * 2);
    assert!(found.is_sorted_by_key(|place| place.index));
    for place in &found {
        assert_eq!(formula.locate(place.index).as_ref(), Some(place));
        let names = formula.names(place);
        assert_eq!(formula.resolve(names.iter().map(|name| &name[..])).as_ref(), Some(place));
    }
    assert_eq!(formula.names(&found[0])[1..], [&b"vx"[..], b"t7", b"500.0.998"]);
}

#[test]
fn a_box_of_coarse_cells_begins_at_the_next_one() {
    let formula = sirius(2, 3, 100);
    let number = |first, last| Bound::Numbers { first, last };
    let bounds = [
        ("run", number(2, 2)),
        ("step", number(1, 1)),
        ("cx", number(5, 12)),
        ("cy", number(96, 99)),
        ("cz", number(1, 3)),
    ];
    assert_eq!(formula.select(1, &bounds).expect("these are arguments").count(), 0, "no cell begins from 1 to 3");
    let bounds = &bounds[..4];
    let names: Vec<Vec<u8>> = formula.select(1, bounds).expect("arguments").map(|place| formula.name(&place)).collect();
    assert_eq!((names.len(), &names[0][..], &names[49][..]), (50, &b"8.96.0"[..], &b"12.96.96"[..]));
    assert!(formula.select(1, &[("x", number(0, 1))]).is_none(), "another path has it");
    assert!(formula.select(2, &[]).is_none());
    assert_eq!(sirius(1, 1, 4).select(1, &[]).expect("a path").count(), 1);
}

#[test]
fn a_bound_on_what_is_dealt_out_looks_into_the_shares_that_have_it() {
    for deal in [Deal::Block, Deal::Cyclic] {
        let mut rank = split(range("rank", 0, 999), 0, 64);
        rank.split = rank.split.map(|split| Split { deal, ..split });
        let formula = formula(vec![range("host", 0, 63), rank], &["h{host}/r{rank}"]).expect("it is sound");
        let bounds = [("rank", Bound::Numbers { first: 100, last: 120 })];
        let mut names: Vec<Vec<u8>> =
            formula.select(0, &bounds).expect("a path").map(|place| formula.name(&place)).collect();
        names.sort();
        let expected: Vec<Vec<u8>> = (100..=120).map(|rank| format!("r{rank}").into_bytes()).collect();
        assert_eq!(names, expected);
        walk(&formula);
    }
}

#[test]
fn arguments_of_one_component_and_repeated_ones_are_read_back() {
    let args = || vec![list("a", &["x", "yy"]), range("n", 8, 11), split(range("m", 0, 6), 1, 4)];
    let formula = formula(args(), &["{a}-{n}.{m}/{n}{a}.log", "{a}-{n}.{m}/{m}/{n}/", "top"]).expect("it is sound");
    let all = walk(&formula);
    assert_eq!(&all[..5], ["x-8.0/", "x-8.0/8x.log", "x-8.0/0/", "x-8.0/0/8/", "x-9.1/"]);
    assert_eq!((all.len(), all.last().map(String::as_str)), (2 * 7 * 4 + 1, Some("top")));
}

#[test]
fn empty_shares_give_empty_directories() {
    let args = vec![range("host", 0, 9), split(range("rank", 0, 2), 0, 10)];
    let formula = formula(args, &["{host}/{rank}"]).expect("it is sound");
    assert_eq!(walk(&formula).len(), 13);
    let first = formula.nth(&formula.root(), 0).expect("a host");
    assert!(formula.is_empty(&first) && !formula.is_empty(&formula.root()));
}

#[test]
fn every_fault_of_a_path_names_cause_and_remedy() {
    let args = || vec![range("n", 1, 100), list("w", &["a", "ab"]), range("m", 1, 100)];
    let big = || vec![range("n", 0, u64::MAX >> 2), range("m", 0, 1 << 40)];
    let long = "x".repeat(250);
    let deep = vec!["d"; 65].join("/");
    let cases: Vec<(Vec<Argument>, Vec<&str>, &str)> = vec![
        (args(), vec!["", "{n}{w}{m}"], "path ``: it is empty; remove it"),
        (args(), vec!["/x"], "it begins with `/`"),
        (args(), vec!["a//b"], "two `/` stand in a row"),
        (args(), vec!["a/../b"], "`.` and `..` are no names"),
        (args(), vec!["./b"], "`.` and `..` are no names"),
        (args(), vec!["a\0b"], "it contains a NUL"),
        (args(), vec![&deep], "it has 65 components, more than 64"),
        (args(), vec!["{x}"], "there is no argument `x`; define it under [args]"),
        (args(), vec!["{n"], "a brace has no partner"),
        (args(), vec!["n}"], "a brace has no partner"),
        (args(), vec!["{n}{m}"], "no reader can tell where the value of `{n}` ends"),
        (args(), vec!["{w}{n}"], "no reader can tell where the value of `{w}` ends"),
        (args(), vec![&long, "{n}"], "`{w}`; remove the argument"),
        (args(), vec!["{n}.{m}.{w}", "{n}.{m}.{w}"], "a second time"),
        (args(), vec!["{n}", "{m}"], "paths `{n}` and `{m}` both give the name `1`"),
        (args(), vec!["{n}/x", "7/y"], "paths `{n}/x` and `7/y` both give the name `7`"),
        (args(), vec!["{n}", "{n}/x"], "path `{n}` is a file, and `{n}/x` makes it a directory"),
        (args(), vec!["{n}/x", "{n}"], "path `{n}` is a file, and `{n}/x` makes it a directory"),
        (vec![list("w", &[".", "x"])], vec!["{w}{w}"], "`.` or `..` would appear"),
        (vec![list("w", &[".", "x"])], vec!["{w}"], "`.` or `..` would appear"),
        (big(), vec!["{n}"], "more than 1099511627776 entries"),
        (big(), vec!["{n}.{m}"], "more than 1099511627776 entries"),
        (vec![range("n", 1, 1 << 40)], vec!["{n}", "x"], "more than 1099511627776 entries"),
        (
            vec![split(range("a", 0, 9), 1, 10), split(range("b", 0, 9), 0, 10)],
            vec!["{a}/{b}"],
            "`a` is split over itself",
        ),
        (vec![split(range("a", 0, 9), 0, 10)], vec!["{a}"], "`a` is split over itself"),
        (vec![range("a", 0, 9), split(range("b", 0, 9), 0, 10)], vec!["{b}/{a}"], "`{a}` does not stand before `{b}`"),
        (vec![range("a", 0, 9), split(list("b", &["x"]), 0, 10)], vec!["{a}/{b}"], "a list cannot be split"),
        (
            vec![range("a", 0, 9), range("b", 0, 9), split(range("c", 0, 9), 0, 10), split(range("d", 0, 9), 1, 10)],
            vec!["{a}/{b}/{c}/{d}"],
            "args.c.split: in `{a}/{b}/{c}/{d}` another argument behind it is split, too",
        ),
    ];
    for (args, paths, expected) in cases {
        let cause = formula(args, &paths).expect_err(expected).to_string();
        assert!(cause.contains(expected), "{paths:?}: {cause}");
    }
    let wide = format!("{long}{{n}}{{w}}");
    let cause = formula(vec![range("n", 10, 99), list("w", &["abcd"])], &[&wide]).expect_err("256 bytes");
    assert!(cause.to_string().contains("names up to 256 bytes long"), "{cause}");
    let size = |size| Formula::new(vec![range("n", 1, 1 << 30)], &[PathText { text: "{n}".into(), size }]);
    assert!(size(1 << 32).is_ok());
    assert_eq!(size(1 << 33).expect_err("2^63").1, Cause::TooManyBytes);
    assert_eq!(size(u64::MAX).expect_err("overflow").1, Cause::TooManyBytes);
}
