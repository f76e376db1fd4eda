//! A text with named callbacks, checked and compiled once. Not its evaluation: see [`super::Run`].

use super::arith::Arith;
use super::run::Run;
use super::value::Value;
use super::vm::Vm;
use crate::{Fault, FaultKind, Limits};
use mlua::Function;

/// A callback that the host may call.
#[derive(Clone, Copy, Debug)]
pub struct HookSpec {
    /// Its name.
    pub name: &'static str,
    /// Names of its arguments; where a hook is written by itself they are there as locals.
    pub params: &'static [&'static str],
}

/// A policy's text: one file, callbacks written by themselves, or a file with callbacks for what it leaves out.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Code {
    /// Sets a global function for each hook.
    pub file: Option<String>,
    /// Name and text of hooks that the file does not set. A text is an expression, statements with `return`, or a condition as in
    /// `if ... then`, written up to its `then`. With a dot in the name it is an entry of a table.
    pub hooks: Vec<(String, String)>,
}

/// A loaded text. It has a machine of its own, which lives as long as it does.
pub struct Program {
    pub(super) name: String,
    pub(super) code: Code,
    pub(super) hooks: Vec<HookSpec>,
    pub(super) limits: Limits,
    pub(super) arith: Vec<(&'static str, Arith)>,
    pub(super) machine: Option<Machine>,
}

/// Name of the main chunk in faults.
pub(super) const FILE: &str = "file";

pub(super) struct Machine {
    pub(super) vm: Vm,
    /// The file's main chunk, and for each hook that is written by itself one that returns it as a function.
    pub(super) chunks: Vec<(String, Function)>,
    /// Calls a function for each row of a buffer.
    pub(super) rows: Vec<(usize, Function)>,
    /// It ran out of something in the middle of an evaluation, and is not used for another one.
    pub(super) is_spoiled: bool,
}

impl Program {
    /// Checks and compiles a text, and runs its main chunk once.
    pub fn load(name: &str, code: Code, hooks: &[HookSpec], limits: &Limits) -> Result<Program, Fault> {
        check_size(&code, limits)?;
        let arith = hooks.iter().filter_map(|hook| Some((hook.name, Arith::find(&code, hook)?))).collect();
        let name: String = name.chars().filter(|c| !c.is_control()).take(60).collect();
        let hooks = hooks.to_vec();
        let mut program = Program { name, code, hooks, limits: limits.clone(), arith, machine: None };
        match program.begin(Value::Number(0.0)) {
            Ok(_) => Ok(program),
            Err(fault) if fault.kind == FaultKind::Runtime => Err(Fault { kind: FaultKind::Load, ..fault }),
            Err(fault) => Err(fault),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Limits of its evaluations.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Begins an evaluation. `state` is what the last one left.
    pub fn begin(&mut self, state: Value) -> Result<Run<'_>, Fault> {
        if self.machine.as_ref().is_none_or(|machine| machine.is_spoiled) {
            self.machine = Some(self.build()?);
        }
        Run::new(self, state)
    }

    fn build(&self) -> Result<Machine, Fault> {
        let broken =
            |error: mlua::Error| Fault::new("file", FaultKind::Host, format!("no machine for policies: {error}"));
        let vm = Vm::new(&self.limits).map_err(broken)?;
        let mut chunks = Vec::new();
        if let Some(text) = &self.code.file {
            let chunk = vm.compile(&self.name, text).map_err(|error| load_fault(&vm, FILE, &error, &self.limits))?;
            chunks.push((FILE.to_string(), chunk));
        }
        for (name, text) in &self.code.hooks {
            chunks.push((name.clone(), self.compile_hook(&vm, name, text)?));
        }
        Ok(Machine { vm, chunks, rows: Vec::new(), is_spoiled: false })
    }

    /// A hook written by itself becomes a chunk that returns it as a function of its arguments. What is put between the
    /// function's head and its `end` was compiled alone before, so that it cannot reach beyond them.
    fn compile_hook(&self, vm: &Vm, name: &str, text: &str) -> Result<Function, Fault> {
        let key = name.split('.').next().unwrap_or(name);
        let params = self.hooks.iter().find(|hook| hook.name == key).map_or(&[][..], |hook| hook.params).join(", ");
        let trimmed = text.trim_end();
        let body = if vm.compile(name, &format!("return ({text}\n)")).is_ok() {
            format!("return ({text}\n)")
        } else if trimmed.ends_with("then") {
            format!("{trimmed} return true end return false")
        } else {
            text.to_string()
        };
        vm.compile(name, &body).map_err(|error| load_fault(vm, name, &error, &self.limits))?;
        vm.compile(name, &format!("return function({params}) {body}\nend"))
            .map_err(|error| load_fault(vm, name, &error, &self.limits))
    }
}

fn load_fault(vm: &Vm, hook: &str, error: &mlua::Error, limits: &Limits) -> Fault {
    Fault { kind: FaultKind::Load, ..vm.fault(hook, error, limits) }
}

fn check_size(code: &Code, limits: &Limits) -> Result<(), Fault> {
    let hooks: usize = code.hooks.iter().map(|(name, text)| name.len() + text.len()).sum();
    let bytes = hooks + code.file.as_ref().map_or(0, String::len);
    if bytes <= limits.text_bytes {
        return Ok(());
    }
    let text = format!("it has {bytes} bytes, at most {} are read: make it shorter", limits.text_bytes);
    Err(Fault::new("file", FaultKind::Load, text))
}
