//! Policies that balance metadata, after the paper's Mantle: `metaload`, `mdsload`, `when`, `where` and `howmuch` over a
//! snapshot of the ranks. A decision is data; nothing is moved here. The phases of one are in `decide.rs`; what stands in a
//! file is `file.rs`; what a policy can name is `environment.rs`; choosing what goes is `carve.rs` with `select.rs`.

mod carve;
mod decide;
mod environment;
mod explain;
mod file;
mod howmuch;
mod select;
mod targets;

pub use explain::{Explain, RankSeen, Round, Tried};
pub use file::Form;

use crate::engine::{HookSpec, Output, Program, Value};
use crate::{Fault, FaultKind, Limits};
use file::Settings;
use loligo_types::{Decision, LoadVec, Snapshot};

/// The version of the environment that this build has.
pub const API: u32 = 1;

/// Hooks that the engine calls.
const HOOKS: &[HookSpec] = &[
    HookSpec { name: "metaload", params: &["IRD", "IWR", "READDIR", "FETCH", "STORE"] },
    HookSpec { name: "mdsload", params: &["i"] },
    HookSpec { name: "when", params: &[] },
    HookSpec { name: "where", params: &[] },
    HookSpec { name: "howmuch", params: &[] },
    HookSpec { name: "selectors", params: &["loads", "target"] },
];

/// A loaded policy.
pub struct Policy {
    program: Program,
    form: Form,
    settings: Settings,
}

/// Result of one decision.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// The answer; no moves if there was a fault.
    pub decision: Decision,
    /// Its explanation.
    pub explain: Explain,
    /// Why there is none.
    pub fault: Option<Fault>,
}

impl Policy {
    /// Reads a policy of either form; which one it is shows in the text.
    pub fn load(name: &str, text: &str, limits: &Limits) -> Result<Policy, Fault> {
        if text.len() > limits.text_bytes {
            let text = format!("it has {} bytes, at most {} are read: make it shorter", text.len(), limits.text_bytes);
            return Err(Fault::new("file", FaultKind::Load, text));
        }
        let file = file::read(text)?;
        let mut program = Program::load(name, file.code, HOOKS, limits)?;
        let mut settings = file.settings;
        if file.form == Form::File {
            let mut run = program.begin(Value::Number(0.0))?;
            settings.read_globals(&mut run)?;
        }
        Ok(Policy { program, form: file.form, settings })
    }

    /// Decides. Never panics; if something is wrong there is a fault, no move, and the state stays as it was.
    pub fn decide(&mut self, snapshot: &Snapshot, state: &mut Option<Value>) -> Outcome {
        decide::decide(self, snapshot, state)
    }

    /// Results of `metaload` for each of these counts: to compare ranks by their counts, and not by their own weighing.
    pub fn weigh(&mut self, counts: &[LoadVec]) -> Result<Vec<f64>, Fault> {
        let before = self.settings.state.unwrap_or(Value::Number(0.0));
        let rows: Vec<f64> = counts.iter().flat_map(environment::counters).collect();
        let mut run = self.program.begin(before)?;
        let weights = run.call_rows("metaload", &rows, 5);
        run.finish();
        weights
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.program.name()
    }

    /// Its form.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Functions that it defines for all to see and that are neither hooks nor near to one, and those that are: mostly a hook
    /// with a slip in its name.
    pub(crate) fn odd_names(&mut self) -> Vec<(String, Option<&'static str>)> {
        let Ok(run) = self.program.begin(Value::Number(0.0)) else { return Vec::new() };
        let names = run.globals().into_iter().filter(|(name, _)| !file::KNOWN.contains(&name.as_str()));
        names.map(|(name, _)| (file::nearest(&name), name)).map(|(near, name)| (name, near)).collect()
    }
}

/// A number that a policy's file sets.
/// A part of something that a policy sets.
fn share(output: &Output, name: &str) -> Result<Option<f64>, Fault> {
    match setting(output, name)? {
        Some(share) if share > 1.0 => {
            Err(Fault::new("file", FaultKind::Load, format!("`{name}` must be from 0 to 1, it is {share}")))
        }
        share => Ok(share),
    }
}

fn setting(output: &Output, name: &str) -> Result<Option<f64>, Fault> {
    match output {
        Output::Nil => Ok(None),
        Output::Number(number) if number.is_finite() && *number >= 0.0 => Ok(Some(*number)),
        other => {
            let text = format!("`{name}` must be a finite number that is not negative, it is {}", other.type_name());
            Err(Fault::new("file", FaultKind::Load, text))
        }
    }
}
