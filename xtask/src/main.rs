//! Project chores: `cargo xtask tidy` holds the rules that no compiler knows, `cargo xtask pure-crates` names the
//! crates that the stricter ones are for. Not here: building, testing, releasing (see the Makefile). Standard library
//! only, so that it is built in seconds.

mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy          check the rules of the project
       cargo xtask pure-crates   print the crates that do no IO, one a line";

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => run_tidy(),
        Some("pure-crates") => {
            tidy::PURE_CRATES.iter().for_each(|name| println!("{name}"));
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run_tidy() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace's root");
    let tree = match tidy::Tree::read(root) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("error: cannot read {}: {error}", root.display());
            return ExitCode::FAILURE;
        }
    };
    let findings = tidy::check(&tree);
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        eprintln!("tidy: {} files, nothing to say", tree.len());
        return ExitCode::SUCCESS;
    }
    eprintln!("tidy: {} findings", findings.len());
    ExitCode::FAILURE
}
