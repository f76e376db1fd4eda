//! One evaluation of a program: values of the host in, hooks called, answers and state out. All of it shares one budget.

use super::arith::Arith;
use super::program::{FILE, Machine, Program};
use super::value::{Input, Output, Value};
use crate::{Fault, FaultKind, Limits};
use mlua::{Function, MultiValue, Table};

/// An evaluation that goes on. Dropping it forgets what it did, the state it wrote too.
pub struct Run<'p> {
    program: &'p mut Program,
    /// The policy's globals.
    own: Table,
    /// The host's values, behind them.
    host: Table,
    /// Bytes that the policy has allocated so far.
    own_bytes: usize,
    /// Hooks that the file left out.
    filled_in: Vec<String>,
}

/// Rest of an evaluation that has ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Evaluated {
    /// Value of `WRstate`, or the one of before.
    pub state: Value,
    /// Printed lines.
    pub log: Vec<String>,
    /// Lines that were printed and not kept.
    pub log_dropped: usize,
    /// Steps that were used.
    pub steps: u64,
}

impl<'p> Run<'p> {
    pub(super) fn new(program: &'p mut Program, state: Value) -> Result<Run<'p>, Fault> {
        let limits = &program.limits;
        let Some(machine) = program.machine.as_mut() else {
            return Err(Fault::new("file", FaultKind::Host, "the program has no machine"));
        };
        collect(machine, limits);
        let vm = &mut machine.vm;
        vm.budget.begin(limits.steps, limits.time);
        vm.budget.set_base(vm.lua.used_memory());
        *vm.log.borrow_mut() = Default::default();
        vm.names.borrow_mut().clear();
        vm.state.set(state);
        let tables = || -> mlua::Result<(Table, Table)> {
            let (own, host) = (vm.lua.create_table()?, vm.lua.create_table()?);
            for (table, behind) in [(&host, &vm.libs), (&own, &host)] {
                let meta = vm.lua.create_table()?;
                meta.raw_set("__index", behind)?;
                table.set_metatable(Some(meta))?;
            }
            Ok((own, host))
        };
        let (own, host) = tables().map_err(|error| Fault::new("file", FaultKind::Host, error.to_string()))?;
        let mut run = Run { program, own, host, own_bytes: 0, filled_in: Vec::new() };
        run.start()?;
        Ok(run)
    }

    /// Runs the main chunk, or makes the hooks that are written by themselves.
    fn start(&mut self) -> Result<(), Fault> {
        let chunks = self.machine()?.chunks.clone();
        for (name, chunk) in chunks {
            if name != FILE && !matches!(self.lookup(&name), Ok(mlua::Value::Nil)) {
                continue;
            }
            chunk.set_environment(self.own.clone()).map_err(|error| self.fault(&name, &error))?;
            let hook = self.invoke(&name, &chunk, MultiValue::new())?;
            if name == FILE {
                continue;
            }
            let set = match name.split_once('.') {
                None => self.own.raw_set(name.as_str(), hook),
                Some((table, key)) => self.group(table).and_then(|table| table.raw_set(key, hook)),
            };
            set.map_err(|error| self.fault(&name, &error))?;
            self.filled_in.push(name);
        }
        Ok(())
    }

    fn group(&self, name: &str) -> mlua::Result<Table> {
        match self.own.raw_get::<mlua::Value>(name)? {
            mlua::Value::Table(table) => Ok(table),
            _ => {
                let table = self.machine_lua()?.create_table()?;
                self.own.raw_set(name, &table)?;
                Ok(table)
            }
        }
    }

    fn machine_lua(&self) -> mlua::Result<&mlua::Lua> {
        self.program.machine.as_ref().map(|machine| &machine.vm.lua).ok_or_else(|| mlua::Error::runtime("no machine"))
    }

    fn machine(&self) -> Result<&Machine, Fault> {
        let gone = || Fault::new("file", FaultKind::Host, "the evaluation has ended with a fault; begin another one");
        self.program.machine.as_ref().ok_or_else(gone)
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.program.limits
    }

    /// Gives the policy a value under a name.
    pub fn set(&mut self, name: &str, input: Input) -> Result<(), Fault> {
        let put = || {
            let value = input.into_lua(self.machine_lua()?)?;
            self.host.raw_set(name, value)
        };
        put().map_err(|error| Fault::new(name, FaultKind::Host, error.to_string()))?;
        self.machine()?.vm.names.borrow_mut().push(name.to_string());
        Ok(())
    }

    /// Adds one more metric to each entry of a list of maps that was set before.
    pub fn set_column(&mut self, name: &str, metric: &str, column: &[f64]) -> Result<(), Fault> {
        let put = || {
            let list: Table = self.host.raw_get(name)?;
            for (at, number) in column.iter().enumerate() {
                let entry: Table = list.raw_get(at + 1)?;
                entry.set_readonly(false);
                entry.raw_set(metric, *number)?;
                entry.set_readonly(true);
            }
            Ok(())
        };
        put().map_err(|error: mlua::Error| Fault::new(name, FaultKind::Host, error.to_string()))?;
        Ok(())
    }

    /// True if the policy has this hook: a function of its own.
    pub fn has(&self, hook: &str) -> bool {
        matches!(self.lookup(hook), Ok(mlua::Value::Function(_)))
    }

    /// A global of the policy, or a table of the host's that it was to fill; nil if there is none.
    pub fn global(&mut self, name: &str) -> Result<Output, Fault> {
        let value = match self.lookup(name).map_err(|error| self.fault(name, &error))? {
            mlua::Value::Nil => self.host.raw_get(name).map_err(|error| self.fault(name, &error))?,
            value => value,
        };
        Output::read(&value, name, self.program.limits.entries)
    }

    /// Names of the globals that the policy's file has set, sorted; those that are functions are told apart.
    pub fn globals(&self) -> Vec<(String, bool)> {
        let own = self.own.pairs::<mlua::Value, mlua::Value>().filter_map(|pair| {
            let (key, value) = pair.ok()?;
            Some((key.as_string()?.to_string_lossy(), value.is_function()))
        });
        let mut names: Vec<(String, bool)> = own.take(1000).collect();
        names.retain(|(name, _)| !self.filled_in.contains(name));
        names.sort();
        names
    }

    /// A global of the policy's own, or with a dot an entry of a table of its own.
    fn lookup(&self, name: &str) -> mlua::Result<mlua::Value> {
        match name.split_once('.') {
            None => self.own.raw_get(name),
            Some((table, key)) => match self.own.raw_get::<mlua::Value>(table)? {
                mlua::Value::Table(table) => table.raw_get(key),
                _ => Ok(mlua::Value::Nil),
            },
        }
    }

    fn function(&self, hook: &str) -> Result<Function, Fault> {
        match self.lookup(hook).map_err(|error| self.fault(hook, &error))? {
            mlua::Value::Function(function) => Ok(function),
            other => {
                let text = format!("must be a function, it is {}", other.type_name());
                Err(Fault::new(hook, FaultKind::Answer, text))
            }
        }
    }

    /// Calls a hook; `table.name` calls an entry of a table of the policy's. A hook that answers with a function is taken for
    /// one that was written as `function (...) ... end` by itself: that is called in turn.
    pub fn call(&mut self, hook: &str, args: &[Input]) -> Result<Output, Fault> {
        let function = self.function(hook)?;
        let lua = self.machine_lua().map_err(|error| self.fault(hook, &error))?;
        let args: mlua::Result<MultiValue> = args.iter().map(|arg| arg.clone().into_lua(lua)).collect();
        let args = args.map_err(|error| Fault::new(hook, FaultKind::Host, error.to_string()))?;
        let mut answer = self.invoke(hook, &function, args.clone())?;
        if let (mlua::Value::Function(inner), None) = (&answer, &self.program.code.file) {
            answer = self.invoke(hook, &inner.clone(), args)?;
        }
        Output::read(&answer, hook, self.program.limits.entries)
    }

    /// The same for a hook whose answer must be a number, finite and not negative.
    pub fn call_number(&mut self, hook: &str, args: &[Input]) -> Result<f64, Fault> {
        match self.call(hook, args)? {
            Output::Number(number) if number.is_finite() && number >= 0.0 => Ok(number),
            Output::Number(number) => Err(not_a_load(hook, number)),
            other => {
                let text = format!("must answer a number, it answered {}", other.type_name());
                Err(Fault::new(hook, FaultKind::Answer, text))
            }
        }
    }

    /// Calls a hook once for each row of numbers: `rows` has them one after the other, `width` in each. Much cheaper than that
    /// many calls, and cheaper still where the hook is plain arithmetic of its arguments.
    pub fn call_rows(&mut self, hook: &'static str, rows: &[f64], width: usize) -> Result<Vec<f64>, Fault> {
        let width = width.max(1);
        self.function(hook)?;
        // The function that stands in the file may be one that it never made.
        let in_file = !self.filled_in.iter().any(|name| name == hook);
        let is_it =
            |(name, arith): &&(&str, Arith)| *name == hook && arith.params() <= width && arith.in_file() == in_file;
        let numbers = match self.program.arith.iter().find(is_it) {
            Some((_, arith)) => {
                let numbers = arith.rows(rows, width);
                let vm = &self.machine()?.vm;
                if !vm.budget.charge((rows.len() / width) as u64) {
                    return Err(self.fault(hook, &mlua::Error::runtime("budget")));
                }
                numbers
            }
            None => self.call_rows_in_lua(hook, rows, width)?,
        };
        match numbers.iter().find(|number| !number.is_finite() || **number < 0.0) {
            Some(number) => Err(not_a_load(hook, *number)),
            None => Ok(numbers),
        }
    }

    fn call_rows_in_lua(&mut self, hook: &str, rows: &[f64], width: usize) -> Result<Vec<f64>, Fault> {
        let function = self.function(hook)?;
        let count = rows.len() / width;
        let host = |error: mlua::Error| Fault::new(hook, FaultKind::Host, error.to_string());
        let driver = self.rows_driver(width).map_err(host)?;
        let mut bytes = Vec::with_capacity(count * width * 8);
        rows[..count * width].iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        let lua = self.machine_lua().map_err(host)?;
        let buffer = lua.create_buffer(&bytes).map_err(host)?;
        let args: MultiValue = [
            mlua::Value::Buffer(buffer.clone()),
            mlua::Value::Number(bytes.len() as f64),
            mlua::Value::Function(function),
        ]
        .into_iter()
        .collect();
        self.invoke(hook, &driver, args).map_err(|fault| match fault.text.contains("'writef64'") {
            true => Fault::new(hook, FaultKind::Answer, "must answer a number, for one of the rows it answered none"),
            false => fault,
        })?;
        // Each row's answer is where its first number was.
        let bytes = buffer.to_vec();
        let answer = |row: &[u8]| f64::from_le_bytes(row[..8].try_into().expect("a row has eight bytes at least"));
        Ok(bytes.chunks_exact(width * 8).map(answer).collect())
    }

    /// Our own loop, in an environment of its own that the policy cannot reach.
    fn rows_driver(&mut self, width: usize) -> mlua::Result<Function> {
        let machine = self.program.machine.as_mut().ok_or_else(|| mlua::Error::runtime("no machine"))?;
        if let Some((_, driver)) = machine.rows.iter().find(|(known, _)| *known == width) {
            return Ok(driver.clone());
        }
        let lua = &machine.vm.lua;
        let own = lua.create_table()?;
        own.raw_set("buffer", lua.globals().raw_get::<mlua::Value>("buffer")?)?;
        own.set_safeenv(true);
        let reads: Vec<String> = (0..width).map(|at| format!("read(rows, at + {})", at * 8)).collect();
        let text = format!(
            "local read, write = buffer.readf64, buffer.writef64
            return function(rows, bytes, hook)
                for at = 0, bytes - 1, {} do
                    write(rows, at, hook({}))
                end
            end",
            width * 8,
            reads.join(", ")
        );
        let driver: Function = lua.load(text).set_name("=rows").set_environment(own).call(())?;
        machine.rows.push((width, driver.clone()));
        Ok(driver)
    }

    /// Calls into the policy, with the brakes on.
    fn invoke(&mut self, hook: &str, function: &Function, args: MultiValue) -> Result<mlua::Value, Fault> {
        let machine = self.machine()?;
        let (vm, limits) = (&machine.vm, &self.program.limits);
        // What the host allocated since the last call is not the policy's.
        let base = vm.lua.used_memory().saturating_sub(self.own_bytes);
        vm.budget.set_base(base);
        let limited = vm.lua.set_memory_limit(base.saturating_add(limits.memory_bytes));
        let answer = match vm.budget.charge(1) {
            true => limited.and_then(|_| function.call::<mlua::Value>(args)),
            false => Err(mlua::Error::runtime("budget")),
        };
        let unlimited = vm.lua.set_memory_limit(0);
        let own_bytes = vm.lua.used_memory().saturating_sub(base);
        let in_time = vm.budget.is_in_time();
        let answer = match answer {
            Ok(value) if in_time && unlimited.is_ok() => Ok(value),
            Ok(_) => Err(self.fault(hook, &mlua::Error::runtime("budget"))),
            Err(error) => Err(self.fault(hook, &error)),
        };
        self.own_bytes = own_bytes;
        // What it was in the middle of is not known: the next evaluation gets a new machine.
        let spoils = answer.as_ref().is_err_and(|fault| fault.kind != FaultKind::Runtime);
        if let (true, Some(machine)) = (spoils, self.program.machine.as_mut()) {
            machine.is_spoiled = true;
        }
        answer
    }

    fn fault(&self, hook: &str, error: &mlua::Error) -> Fault {
        match &self.program.machine {
            Some(machine) => machine.vm.fault(hook, error, &self.program.limits),
            None => Fault::new(hook, FaultKind::Host, error.to_string()),
        }
    }

    /// Ends the evaluation and returns what lasts of it.
    pub fn finish(self) -> Evaluated {
        let Some(machine) = &self.program.machine else {
            return Evaluated { state: Value::Number(0.0), log: Vec::new(), log_dropped: 0, steps: 0 };
        };
        let vm = &machine.vm;
        let log = std::mem::take(&mut *vm.log.borrow_mut());
        Evaluated { state: vm.state.get(), log: log.lines, log_dropped: log.dropped, steps: vm.budget.used() }
    }
}

fn not_a_load(hook: &str, number: f64) -> Fault {
    let text = format!("must answer a finite number that is not negative, it answered {number}");
    Fault::new(hook, FaultKind::Answer, text)
}

/// Between evaluations, and only once there is something to win: collecting costs as much as a small evaluation.
fn collect(machine: &mut Machine, limits: &Limits) {
    let vm = &mut machine.vm;
    if vm.lua.used_memory() > vm.floor + limits.memory_bytes / 4 {
        // An error here can only come of a finaliser, and there are none.
        let _ = vm.lua.gc_collect();
        vm.floor = vm.lua.used_memory();
    }
}
