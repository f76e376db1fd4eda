//! Programs in Luau that compute the entries of a directory (`kind = "code"`), in the sandbox of the balancer's policies: no time, no randomness, no IO,
//! a budget of steps and memory for each call. A text sets three functions:
//!
//! - `list(dir, from)`: numbers of the entries of directory `dir` from place `from` on, as a table; as many as it likes
//! - `lookup(dir, name, parts)`: the number of the entry with a name, or nil. `parts`: the name cut into numbers and the texts between them
//!   (`"t12.7"`: `{"t", 12, ".", 7}`; digits with a leading zero, and more than 15, stay text), because the sandbox has no string library
//! - `entry(n)`: a table with `dir`, `name`, and for a directory `entries` and `dirs`, for a file `size` or `contents`, for a link `target`; also
//!   `mode`, `uid`, `gid`, `mtime`. `entry(0)` has the counts of the directory with the document
//!
//! The document's arguments are in `args`, its number of entries in `entries`, both readable in the functions. Each call begins with the text run anew,
//! so that nothing lasts from call to call. Programs run on threads of their own, never on a rank's. Not here: what is done with the answers, which
//! [`loligo_schema::code::Checked`] looks at.

mod answer;
mod parts;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use loligo_balancer::engine::{Code as Text, HookSpec, Input, Output, Program as Sandbox, Run};
use loligo_balancer::{Limits, Value};
use loligo_schema::code::{Answer, Budget, PAGE_MAX, Program};
use loligo_schema::document::{Code, Given};

/// The functions of a program.
const HOOKS: [HookSpec; 3] = [
    HookSpec { name: "list", params: &["dir", "from"] },
    HookSpec { name: "lookup", params: &["dir", "name", "parts"] },
    HookSpec { name: "entry", params: &["n"] },
];

/// A loaded program with its arguments.
pub struct Luau {
    sandbox: Sandbox,
    args: Vec<(Cow<'static, str>, Input)>,
    entries: u64,
}

impl Luau {
    /// Compiles a program and runs its text once.
    ///
    /// # Errors
    ///
    /// A text that is no program, runs out of its budget, or lacks a function: the line and the cause.
    pub fn load(code: &Code, budget: Budget) -> Result<Luau, String> {
        let limits = Limits {
            steps: budget.steps,
            memory_bytes: budget.memory_bytes,
            entries: 2 * PAGE_MAX,
            ..Limits::deterministic()
        };
        let text = Text { file: Some(code.text.clone()), hooks: Vec::new() };
        let sandbox = Sandbox::load("schema", text, &HOOKS, &limits).map_err(|fault| fault.to_string())?;
        let args = code.args.iter().map(|(name, value)| (Cow::Owned(name.clone()), input(value))).collect();
        let mut program = Luau { sandbox, args, entries: code.entries };
        let run = program.begin()?;
        if let Some(missing) = HOOKS.iter().find(|hook| !run.has(hook.name)) {
            let params = missing.params.join(", ");
            return Err(format!("the program has no function {}({params}); define it", missing.name));
        }
        Ok(program)
    }

    fn begin(&mut self) -> Result<Run<'_>, String> {
        let mut run = self.sandbox.begin(Value::Number(0.0)).map_err(|fault| fault.to_string())?;
        let set = |run: &mut Run<'_>, name: &str, input| run.set(name, input).map_err(|fault| fault.to_string());
        set(&mut run, "args", Input::Map(self.args.clone()))?;
        set(&mut run, "entries", Input::Number(self.entries as f64))?;
        Ok(run)
    }
}

fn input(value: &Given) -> Input {
    match value {
        Given::Number(number) => Input::Number(*number),
        Given::Bool(bool) => Input::Bool(*bool),
        Given::Text(text) => Input::Text(text.clone()),
        Given::List(items) => Input::List(items.iter().map(input).collect()),
    }
}

impl Program for Luau {
    fn list(&mut self, dir: u64, from: u64) -> Result<Vec<f64>, String> {
        let mut run = self.begin()?;
        let args = [Input::Number(dir as f64), Input::Number(from as f64)];
        answer::numbers(&run.call("list", &args).map_err(|fault| fault.to_string())?)
    }

    fn lookup(&mut self, dir: u64, name: &[u8]) -> Result<Option<f64>, String> {
        // A program cannot write other names.
        let Ok(name) = std::str::from_utf8(name) else { return Ok(None) };
        let mut run = self.begin()?;
        let args = [Input::Number(dir as f64), Input::Text(name.to_string()), parts::of(name)];
        match run.call("lookup", &args).map_err(|fault| fault.to_string())? {
            Output::Nil => Ok(None),
            Output::Number(number) => Ok(Some(number)),
            other => {
                Err(format!("lookup: must answer the number of an entry or nil, it answered {}", other.type_name()))
            }
        }
    }

    fn entries(&mut self, numbers: &[u64]) -> Result<Vec<Option<Answer>>, String> {
        let mut answers = Vec::with_capacity(numbers.len());
        // One budget is for so many entries.
        for numbers in numbers.chunks(ENTRIES_A_RUN) {
            let mut run = self.begin()?;
            for number in numbers {
                let answer = run.call("entry", &[Input::Number(*number as f64)]).map_err(|fault| fault.to_string())?;
                answers.push(answer::entry(*number, &answer)?);
            }
        }
        Ok(answers)
    }
}

/// Entries that are asked for with one budget.
const ENTRIES_A_RUN: usize = 64;
