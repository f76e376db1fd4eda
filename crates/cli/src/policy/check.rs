//! `loligo policy check`: whether a file is a policy that makes sense. Not here: where it could be set.

use std::path::Path;

use serde_json::json;

use super::source;
use crate::output::{Outcome, note, put};

/// Says what it is; a failure with exit code 3 if it is none.
pub fn run(file: &Path, as_json: bool) -> Outcome {
    let policy = source::file(file)?.policy;
    if as_json {
        return put(json!({
            "file": file.display().to_string(),
            "cell": policy.cell().to_string(),
            "pipeline": policy.pipeline().to_string(),
            "interfere": policy.interfere().name(),
            "warnings": policy.pipeline().warnings().iter().map(ToString::to_string).collect::<Vec<_>>(),
        }));
    }
    for warning in policy.pipeline().warnings() {
        note(format_args!("warning: {warning}"));
    }
    put(format_args!("{} makes sense: {}, {}", file.display(), policy.cell(), policy.pipeline()))
}
