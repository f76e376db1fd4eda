//! Project chores: `cargo xtask tidy` holds the rules that no compiler knows, `cargo xtask deny` those of the crates of
//! others, `cargo xtask pure-crates` names the crates that the stricter rules are for. Not here: building, testing, releasing (see the Makefile). Standard library
//! only, so that it is built in seconds.

mod deny;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy          check the rules of the project
       cargo xtask deny          check the licences and versions of the crates of others
       cargo xtask pure-crates   print the crates that do no IO, one a line";

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => run_tidy(),
        Some("deny") => run_deny(),
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

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace's root")
}

fn run_deny() -> ExitCode {
    let faults = deny::check(root()).unwrap_or_else(|error| vec![format!("error: {error}")]);
    faults.iter().for_each(|fault| eprintln!("{fault}"));
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_tidy() -> ExitCode {
    let root = root();
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
