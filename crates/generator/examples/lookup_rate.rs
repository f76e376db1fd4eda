//! Lookups and listed names a second of a program, on one core. Run with `cargo run --release -p loligo-generator --example lookup_rate`.

use std::time::Instant;

use loligo_generator::Luau;
use loligo_schema::code::{Budget, Checked, Program};
use loligo_schema::{Document, Generator};

fn main() {
    let document = Document::parse(include_str!("grid.toml")).expect("it is sound");
    let Generator::Code(code) = &document.generator else { return };
    let load = || Luau::load(code, Budget::default()).expect("it loads");
    let mut program = load();
    let count = 20_000u64;
    let start = Instant::now();
    for n in 0..count {
        let name = format!("run.{}.0", loligo_types::hash::mix(n) % 100);
        assert!(program.lookup(1 + n % 10, name.as_bytes()).expect("sound").is_some());
    }
    println!("lookups: {:.0}/s", count as f64 / start.elapsed().as_secs_f64());
    let mut checked = Checked::new(load(), code.entries, document.defaults.of_file(), document.defaults.of_dir());
    let start = Instant::now();
    for n in 0..count {
        let name = format!("run.{}.0", loligo_types::hash::mix(n) % 100);
        assert!(checked.child(1 + n % 10, name.as_bytes()).expect("sound").is_some());
    }
    println!("lookups with attributes, checked: {:.0}/s", count as f64 / start.elapsed().as_secs_f64());
    let start = Instant::now();
    let mut names = 0;
    for round in 0..200 {
        let (dir, mut from) = (1 + round % 10, 0);
        while from < 130 {
            from += checked.list(dir, from, 4096).expect("sound").len() as u64;
        }
        names += from;
    }
    println!("listed: {:.0} names/s", names as f64 / start.elapsed().as_secs_f64());
}
