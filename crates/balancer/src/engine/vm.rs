//! One Luau machine: what of the library a policy gets, the budget's hand on the brake, and how errors become faults. A
//! machine serves one program; after it ran out of memory or time it is thrown away and built anew.

use super::budget::{Budget, Trip};
use super::value::Value;
use crate::{Fault, FaultKind, Limits};
use mlua::chunk::{ChunkMode, Compiler};
use mlua::{Function, Lua, LuaOptions, StdLib, Table, VmState};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Functions of the library that are taken over as they are. Not `pcall` and the like, which could swallow the end of the
/// budget; no metatables and coroutines, which could hide who does what; nothing that loads code.
const BASIC: &[&str] =
    &["assert", "error", "ipairs", "next", "pairs", "rawequal", "rawget", "rawlen", "select", "tonumber", "type"];

/// Not `random`, `randomseed` and `noise`: the same snapshot must give the same answer.
const MATH: &[&str] = &[
    "abs", "acos", "asin", "atan", "atan2", "ceil", "clamp", "cos", "cosh", "deg", "exp", "floor", "fmod", "frexp",
    "huge", "ldexp", "log", "log10", "max", "min", "modf", "pi", "pow", "rad", "round", "sign", "sin", "sinh", "sqrt",
    "tan", "tanh",
];

/// Not `move`, which can be told to go through 2^53 empty places in one step, `create` and the old `foreach`; `sort` is ours.
const TABLE: &[&str] = &["clear", "clone", "concat", "find", "freeze", "insert", "maxn", "pack", "remove", "unpack"];

/// Whole: numbers in, numbers out.
const BIT32: &[&str] = &[
    "arshift", "band", "bnot", "bor", "btest", "bxor", "countlz", "countrz", "extract", "lrotate", "lshift", "replace",
    "rrotate", "rshift",
];

/// Functions that a policy from elsewhere may expect, to say that they are left out on purpose.
const LEFT_OUT: &[&str] = &[
    "pcall",
    "xpcall",
    "coroutine",
    "setmetatable",
    "getmetatable",
    "string",
    "os",
    "io",
    "debug",
    "require",
    "load",
    "loadstring",
    "getfenv",
    "setfenv",
    "rawset",
    "collectgarbage",
    "buffer",
    "utf8",
    "_G",
    "newproxy",
    "typeof",
];

/// A sort that is stable and made of steps.
const SORT: &str = include_str!("prelude.luau");

/// Lines that a policy printed in an evaluation.
#[derive(Default)]
pub(super) struct Log {
    pub lines: Vec<String>,
    pub dropped: usize,
}

pub(super) struct Vm {
    pub lua: Lua,
    pub budget: Rc<Budget>,
    pub log: Rc<RefCell<Log>>,
    pub state: Rc<Cell<Value>>,
    /// Library functions; looked through when neither policy nor host has a name.
    pub libs: Table,
    /// Names that the host has given, for advice on names that are nowhere.
    pub names: Rc<RefCell<Vec<String>>>,
    /// Bytes in use after garbage was last collected.
    pub floor: usize,
}

impl Vm {
    pub(super) fn new(limits: &Limits) -> mlua::Result<Vm> {
        // No string library: strings would get methods, and some of those go on for as long as they like.
        let wanted = StdLib::MATH | StdLib::TABLE | StdLib::BIT | StdLib::BUFFER;
        let lua = Lua::new_with(wanted, LuaOptions::new())?;
        // Collecting while an evaluation runs would hide how much it allocates in all, and with that what it does.
        lua.gc_stop();
        let budget = Rc::new(Budget::default());
        let log = Rc::new(RefCell::new(Log::default()));
        let state = Rc::new(Cell::new(Value::Number(0.0)));
        let names = Rc::new(RefCell::new(Vec::new()));
        let libs = libraries(&lua)?;
        add_log(&lua, &libs, &log, limits)?;
        add_state(&lua, &libs, &state)?;
        add_advice(&lua, &libs, &names)?;
        libs.set_readonly(true);
        let brake = budget.clone();
        lua.set_interrupt(move |lua| match brake.step(lua.used_memory()) {
            true => Ok(VmState::Continue),
            false => Err(mlua::Error::runtime("the budget is used up")),
        });
        let floor = lua.used_memory();
        Ok(Vm { lua, budget, log, state, libs, names, floor })
    }

    /// Compiles a chunk. Text only: what looks like compiled code would be believed.
    pub(super) fn compile(&self, name: &str, text: &str) -> mlua::Result<Function> {
        let compiler = Compiler::new().set_optimization_level(1).set_debug_level(1);
        self.lua
            .load(text)
            .set_name(format!("={name}"))
            .set_mode(ChunkMode::Text)
            .set_compiler(compiler)
            .set_environment(self.libs.clone())
            .into_function()
    }

    /// Makes an error a fault, with what the budget says about it.
    pub(super) fn fault(&self, hook: &str, error: &mlua::Error, limits: &Limits) -> Fault {
        match self.budget.tripped() {
            Some(Trip::Steps) => {
                let text = format!(
                    "used more than {} steps: a loop that does not end, or too much work for one decision; make it do less",
                    limits.steps
                );
                return Fault::new(hook, FaultKind::Steps, text);
            }
            Some(Trip::Time) => {
                let text = format!("took more than {:?}: make it do less", limits.time.unwrap_or_default());
                return Fault::new(hook, FaultKind::Time, text);
            }
            None => {}
        }
        let mut cause = error;
        while let mlua::Error::CallbackError { cause: inner, .. } = cause {
            cause = inner;
        }
        let text = match cause {
            mlua::Error::MemoryError(_) => None,
            mlua::Error::RuntimeError(text) if text.ends_with("not enough memory") => None,
            mlua::Error::RuntimeError(text) => Some(text.clone()),
            mlua::Error::SyntaxError { message, .. } => Some(message.clone()),
            other => Some(other.to_string()),
        };
        match text {
            None => {
                let text = format!("allocated more than {} bytes: keep less", limits.memory_bytes);
                Fault::new(hook, FaultKind::Memory, text)
            }
            Some(text) => Fault::new(hook, FaultKind::Runtime, tidy(&text)),
        }
    }
}

/// The first line, not too long, without an address of memory (those differ from run to run).
fn tidy(text: &str) -> String {
    let line = text.lines().next().unwrap_or("").trim();
    let line = line.split(": 0x").next().unwrap_or(line);
    let end = line.char_indices().nth(400).map_or(line.len(), |(at, _)| at);
    match line {
        "" | "nil" => "raised an error that is no text; give error() a text".to_string(),
        "table" | "function" | "userdata" => format!("raised an error that is a {line}; give error() a text"),
        _ => line[..end].to_string(),
    }
}

/// An error with the place of the policy's line that asked.
pub(super) fn plain_error(lua: &Lua, text: &str) -> mlua::Error {
    let place = (1..=2).find_map(|level| {
        lua.inspect_stack(level, |debug| {
            let line = debug.current_line()?;
            let source = debug.source();
            Some(format!("{}:{line}: ", source.short_src.as_deref().unwrap_or("?")))
        })
        .flatten()
    });
    mlua::Error::RuntimeError(format!("{}{text}", place.unwrap_or_default()))
}

fn picked(lua: &Lua, from: &Table, names: &[&str]) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for name in names {
        table.raw_set(*name, from.raw_get::<mlua::Value>(*name)?)?;
    }
    Ok(table)
}

fn libraries(lua: &Lua) -> mlua::Result<Table> {
    let all = lua.globals();
    let libs = picked(lua, &all, BASIC)?;
    let math = picked(lua, &all.raw_get("math")?, MATH)?;
    libs.raw_set("max", math.raw_get::<Function>("max")?)?;
    libs.raw_set("min", math.raw_get::<Function>("min")?)?;
    let table = picked(lua, &all.raw_get("table")?, TABLE)?;
    libs.raw_set("unpack", table.raw_get::<Function>("unpack")?)?;
    let sort: Function = lua.load(SORT).set_name("=sort").set_mode(ChunkMode::Text).call(())?;
    table.raw_set("sort", sort)?;
    for (name, library) in [("math", math), ("table", table), ("bit32", picked(lua, &all.raw_get("bit32")?, BIT32)?)] {
        library.set_readonly(true);
        libs.raw_set(name, library)?;
    }
    // The library's own tells the address of a table, which differs from run to run.
    let plain: Function = all.raw_get("tostring")?;
    let tostring = lua.create_function(move |_, value: mlua::Value| match value {
        mlua::Value::Nil | mlua::Value::Boolean(_) | mlua::Value::Integer(_) | mlua::Value::Number(_) => {
            plain.call::<mlua::Value>(value)
        }
        mlua::Value::String(_) => Ok(value),
        other => plain.call(other.type_name()),
    })?;
    libs.raw_set("tostring", tostring)?;
    Ok(libs)
}

fn add_log(lua: &Lua, libs: &Table, log: &Rc<RefCell<Log>>, limits: &Limits) -> mlua::Result<()> {
    let (lines_max, bytes_max) = (limits.log_lines, limits.log_line_bytes);
    let write = move |log: &RefCell<Log>, prefix: String, values: &[mlua::Value]| {
        let mut log = log.borrow_mut();
        if log.lines.len() >= lines_max {
            log.dropped += 1;
            return;
        }
        let mut line = prefix;
        for value in values {
            if line.len() >= bytes_max {
                break;
            }
            if !line.is_empty() {
                line.push(' ');
            }
            match value {
                mlua::Value::Nil => line.push_str("nil"),
                mlua::Value::Boolean(bool) => line.push_str(&bool.to_string()),
                mlua::Value::Integer(number) => line.push_str(&number.to_string()),
                mlua::Value::Number(number) => line.push_str(&number.to_string()),
                mlua::Value::String(text) => {
                    let bytes = text.as_bytes();
                    line.push_str(&String::from_utf8_lossy(&bytes[..bytes.len().min(bytes_max)]));
                }
                other => line.push_str(other.type_name()),
            }
        }
        let end = (0..=bytes_max.min(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
        line.truncate(end);
        log.lines.push(line);
    };
    let (sink, put) = (log.clone(), write);
    let print = lua.create_function(move |_, values: mlua::Variadic<mlua::Value>| {
        put(&sink, String::new(), &values);
        Ok(())
    })?;
    libs.raw_set("print", print)?;
    let sink = log.clone();
    let leveled = lua.create_function(move |_, (level, values): (mlua::Value, mlua::Variadic<mlua::Value>)| {
        let level = match level {
            mlua::Value::Integer(level) => level.to_string(),
            mlua::Value::Number(level) => level.to_string(),
            other => other.type_name().to_string(),
        };
        write(&sink, format!("[{level}]"), &values);
        Ok(())
    })?;
    libs.raw_set("BAL_LOG", leveled)
}

fn add_state(lua: &Lua, libs: &Table, state: &Rc<Cell<Value>>) -> mlua::Result<()> {
    let kept = state.clone();
    let write = lua.create_function(move |lua, value: mlua::Value| {
        let value = match value {
            mlua::Value::Boolean(bool) => Value::Bool(bool),
            mlua::Value::Integer(number) => Value::Number(number as f64),
            mlua::Value::Number(number) if number.is_finite() => Value::Number(number),
            other => {
                let text = format!("WRstate keeps one finite number or one boolean, not {}", named(&other));
                return Err(plain_error(lua, &text));
            }
        };
        kept.set(value);
        Ok(())
    })?;
    let kept = state.clone();
    let read = lua.create_function(move |_, ()| {
        Ok(match kept.get() {
            Value::Bool(bool) => mlua::Value::Boolean(bool),
            Value::Number(number) => mlua::Value::Number(number),
        })
    })?;
    libs.raw_set("WRstate", write)?;
    libs.raw_set("RDstate", read)
}

/// Name of the value given in place of a state.
fn named(value: &mlua::Value) -> String {
    match value {
        mlua::Value::Number(number) => number.to_string(),
        other => other.type_name().to_string(),
    }
}

/// A name that is nowhere is an error at once: silently it would be nil, and the mistake would show elsewhere or never.
fn add_advice(lua: &Lua, libs: &Table, names: &Rc<RefCell<Vec<String>>>) -> mlua::Result<()> {
    let mut known: Vec<String> = Vec::new();
    for pair in libs.pairs::<String, mlua::Value>() {
        known.push(pair?.0);
    }
    known.sort();
    let host = names.clone();
    let missing =
        lua.create_function(move |lua, (_, key): (mlua::Value, mlua::Value)| -> mlua::Result<mlua::Value> {
            let name = key.as_string().map(|name| name.to_string_lossy()).unwrap_or_default();
            let host = host.borrow();
            let near = host.iter().chain(&known).filter_map(|other| Some((distance(&name, other)?, other))).min();
            let advice = match near {
                _ if LEFT_OUT.contains(&&*name) => {
                    "it is left out: a policy that has it could not be held to its budget".to_string()
                }
                Some((_, near)) => format!("did you mean `{near}`?"),
                None => "a policy's own name must be set before it is read".to_string(),
            };
            Err(plain_error(lua, &format!("`{}` is not known here: {advice}", tidy(&name))))
        })?;
    let meta = lua.create_table()?;
    meta.raw_set("__index", missing)?;
    libs.set_metatable(Some(meta))
}

/// Edit distance of two names (two letters that changed places are one edit), if they are near enough to be meant for each other.
pub(crate) fn distance(a: &str, b: &str) -> Option<usize> {
    if a.len() > 40 || b.len() > 40 {
        return None;
    }
    if a.eq_ignore_ascii_case(b) {
        return Some(0);
    }
    let far = strsim::osa_distance(a, b);
    (far <= 2 && far * 2 < a.len().min(b.len()) + 1).then_some(far)
}
