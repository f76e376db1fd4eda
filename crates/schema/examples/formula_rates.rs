//! Rates of formulas on one core: lookups by name, by number, and names of listings, for a checkpoint of a million processes and for a tree
//! of 10^12 objects. Run with `cargo run --release -p loligo-schema --example formula_rates`.

use std::hint::black_box;
use std::time::Instant;

use loligo_schema::formula::{Bound, Formula, Place};
use loligo_schema::{Document, Generator};

const PLFS: &str = r#"
version = 1
kind = "formula"
paths = ["meta/", "hostdir.{host}/dropping.{part}.{rank}"]
[args]
host = { first = 0, last = 1023 }
part = ["data", "index"]
rank = { first = 0, last = 999_999, split = "host" }
"#;

const SIRIUS: &str = r#"
version = 1
kind = "formula"
paths = ["{run}/{var}/{step}/{x}.{y}.{z}"]
[args]
run = { first = 1, last = 1 }
var = ["temperature", "pressure", "vx", "vy", "vz", "density", "energy", "ox", "oy", "mass"]
step = { first = 0, last = 99 }
x = { first = 0, last = 999 }
y = { first = 0, last = 999 }
z = { first = 0, last = 999 }
"#;

fn formula(text: &str) -> Formula {
    match Document::parse(text).expect("it is sound").generator {
        Generator::Formula(paths) => paths.tree,
        other => panic!("another kind: {other:?}"),
    }
}

fn rate(what: &str, count: u64, run: impl FnOnce()) {
    let start = Instant::now();
    run();
    let seconds = start.elapsed().as_secs_f64();
    println!("{what}: {:.0}/s ({:.0} ns)", count as f64 / seconds, seconds * 1e9 / count as f64);
}

fn measure(name: &str, text: &str) {
    let formula = formula(text);
    let entries = formula.totals().entries;
    println!("{name}: {} bytes, {entries} entries", text.len());
    rate("  documents read", 1000, || (0..1000).for_each(|_| drop(black_box(Document::parse(text)))));
    let count = 500_000;
    let at = |n: u64| 1 + loligo_types::hash::mix(n) % entries;
    rate("  by number", count, || (0..count).for_each(|n| drop(black_box(formula.locate(at(n))))));
    let samples: Vec<(Place, Vec<u8>)> = (0..count)
        .map(|n| formula.locate(at(n)).expect("it is there"))
        .map(|place| (formula.locate(place.parent).expect("its directory"), formula.name(&place)))
        .collect();
    rate("  by name in an open directory", count, || {
        samples.iter().for_each(|(dir, name)| drop(black_box(formula.child(dir, name))));
    });
    let paths: Vec<Vec<Vec<u8>>> = (0..count).map(|n| formula.names(&formula.locate(at(n)).expect("there"))).collect();
    rate("  by path from the root", count, || {
        paths.iter().for_each(|path| drop(black_box(formula.resolve(path.iter().map(|name| &name[..])))));
    });
    let dir = &samples[0].0;
    let names = formula.len(dir).min(1_000_000);
    rate("  names of a listing", names * 10, || {
        for _ in 0..10 {
            (0..names).for_each(|at| drop(black_box(formula.nth(dir, at).map(|place| formula.name(&place)))));
        }
    });
}

fn main() {
    measure("checkpoint", PLFS);
    measure("simulation", SIRIUS);
    let formula = formula(SIRIUS);
    let number = |first, last| Bound::Numbers { first, last };
    let bounds = [("step", number(50, 50)), ("x", number(100, 199)), ("y", number(500, 599)), ("z", number(900, 909))];
    let start = Instant::now();
    let found = formula.select(0, &bounds).expect("these are arguments").count();
    println!("box of {found} objects: {:?}", start.elapsed());
}
