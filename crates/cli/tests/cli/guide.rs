//! The guide "Write your own balancer", step by step as it is printed: a block `sh` is run, a block with a file's name is
//! written there, and the lines of a block `text` must be in what the command before it said.

use std::path::Path;

use super::run::{LOLIGO, Place, can_mount, loligo, sh};

const GUIDE: &str = include_str!("../../../../docs/write-a-balancer.md");

/// A step of the guide.
#[derive(Debug)]
enum Step<'a> {
    Run(&'a str),
    Write(&'a str, &'a str),
    Says(&'a str),
}

fn steps() -> Vec<Step<'static>> {
    let blocks = GUIDE.split("\n```").skip(1).step_by(2);
    let step = |block: &'static str| {
        let (kind, text) = block.split_once('\n').expect("a block has a first line");
        match kind.split_once(' ') {
            None if kind == "sh" => Step::Run(text),
            None if kind == "text" => Step::Says(text),
            Some((_, file)) => Step::Write(file, text),
            _ => panic!("what is a block of {kind}?"),
        }
    };
    blocks.map(step).collect()
}

/// Whatever happens, the server it started is stopped.
struct Down<'a>(&'a Path);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        let _ = loligo("down --data {}", &[self.0]);
    }
}

#[test]
fn every_step_of_the_guide_works_as_it_is_printed() {
    if !can_mount() {
        return;
    }
    let steps = steps();
    assert!(steps.len() > 15, "the guide has hardly any steps: {steps:?}");
    let place = Place::new();
    let dir = place.dir.path();
    let bin = Path::new(LOLIGO).parent().expect("it lies somewhere").to_str().expect("UTF-8");
    let (data, mut said) = (place.data(), String::new());
    let _down = Down(&data);
    for step in steps {
        match step {
            Step::Run(text) => {
                let ran = sh(&format!("cd $D; export PATH={bin}:$PATH\n{text}"), dir);
                assert_eq!(ran.code, 0, "{text}\n{}\n{}", ran.out, ran.err);
                said = ran.out + &ran.err;
            }
            Step::Write(file, text) => std::fs::write(dir.join(file), text).expect("there is room"),
            Step::Says(text) => {
                for line in text.lines() {
                    assert!(said.contains(line), "no `{line}` in:\n{said}");
                }
            }
        }
    }
}
