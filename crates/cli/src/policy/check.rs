//! `loligo policy check`: whether a file is a policy that makes sense. Not here: where it could be set.

use std::path::Path;

use super::source;
use crate::output::{Outcome, note, put};

/// Says what it is; a failure with exit code 3 if it is none.
pub fn run(file: &Path) -> Outcome {
    let policy = source::file(file)?.policy;
    for warning in policy.pipeline().warnings() {
        note(format_args!("warning: {warning}"));
    }
    put(format_args!("{} makes sense: {}, {}", file.display(), policy.cell(), policy.pipeline()))
}
