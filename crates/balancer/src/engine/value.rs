//! Values of an environment, of a hook's answer, and of the state that lasts; conversion from and to Luau's values.

use super::vm::plain_error;
use crate::{Fault, FaultKind};
use mlua::{Lua, Table};
use std::borrow::Cow;
use std::rc::Rc;

/// State that lasts from one evaluation to the next.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// A number.
    Number(f64),
    /// A boolean.
    Bool(bool),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number}"),
            Value::Bool(bool) => write!(f, "{bool}"),
        }
    }
}

/// A series of (time, value), oldest first; shared, not copied.
pub type Series = Rc<[(f64, f64)]>;

/// A value of the environment.
#[derive(Clone, Debug)]
pub enum Input {
    /// A number.
    Number(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    Text(String),
    /// A table with the keys 1, 2, ...; read-only.
    List(Vec<Input>),
    /// A table with names as keys, like the metrics of one server; read-only.
    Map(Vec<(Cow<'static, str>, Input)>),
    /// An empty table for the policy to fill.
    Out,
    /// A function without arguments that returns the series: an object with `:size()` and `:get(i)`, which returns the time and
    /// the value of the i-th entry, from 1.
    Series(Series),
}

impl From<f64> for Input {
    fn from(number: f64) -> Input {
        Input::Number(number)
    }
}

impl From<bool> for Input {
    fn from(bool: bool) -> Input {
        Input::Bool(bool)
    }
}

impl Input {
    /// A list of numbers.
    pub fn numbers(numbers: &[f64]) -> Input {
        Input::List(numbers.iter().map(|number| Input::Number(*number)).collect())
    }

    pub(super) fn into_lua(self, lua: &Lua) -> mlua::Result<mlua::Value> {
        Ok(match self {
            Input::Number(number) => mlua::Value::Number(number),
            Input::Bool(bool) => mlua::Value::Boolean(bool),
            Input::Text(text) => mlua::Value::String(lua.create_string(&text)?),
            Input::List(items) => {
                let table = lua.create_table_with_capacity(items.len(), 0)?;
                for (at, item) in items.into_iter().enumerate() {
                    table.raw_set(at + 1, item.into_lua(lua)?)?;
                }
                frozen(table)
            }
            Input::Map(items) => {
                let table = lua.create_table_with_capacity(0, items.len())?;
                for (key, item) in items {
                    table.raw_set(&*key, item.into_lua(lua)?)?;
                }
                frozen(table)
            }
            Input::Out => mlua::Value::Table(lua.create_table()?),
            Input::Series(series) => {
                let object = lua.create_userdata(SeriesObject(series))?;
                mlua::Value::Function(lua.create_function(move |_, ()| Ok(object.clone()))?)
            }
        })
    }
}

fn frozen(table: Table) -> mlua::Value {
    table.set_readonly(true);
    mlua::Value::Table(table)
}

struct SeriesObject(Series);

impl mlua::UserData for SeriesObject {
    fn add_methods<M: mlua::UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("size", |_, this, ()| Ok(this.0.len()));
        methods.add_method("get", |lua, this, at: mlua::Value| {
            let number = match at {
                mlua::Value::Integer(at) => at as f64,
                mlua::Value::Number(at) => at,
                other => {
                    return Err(plain_error(
                        lua,
                        &format!("get() needs the number of an entry, not {}", other.type_name()),
                    ));
                }
            };
            // A float that is no whole number in range finds nothing.
            let found = (number >= 1.0 && number.fract() == 0.0).then(|| this.0.get(number as usize - 1)).flatten();
            found.copied().ok_or_else(|| {
                plain_error(
                    lua,
                    &format!("the series has entries 1 to {}, there is none with number {number}", this.0.len()),
                )
            })
        });
    }
}

/// Answer of a hook, or a global of the policy.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// Nothing.
    Nil,
    /// A boolean.
    Bool(bool),
    /// A number, maybe not a finite one.
    Number(f64),
    /// A string; bytes that are no UTF-8 are replaced.
    Text(String),
    /// A table, in no particular but always the same order.
    Table(Vec<(Output, Output)>),
    /// A function.
    Function,
    /// Something else; its type.
    Other(&'static str),
}

/// Tables in tables in tables: deeper ones are refused.
const DEPTH_MAX: usize = 4;

impl Output {
    /// Its type, as Luau calls it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Output::Nil => "nil",
            Output::Bool(_) => "a boolean",
            Output::Number(_) => "a number",
            Output::Text(_) => "a string",
            Output::Table(_) => "a table",
            Output::Function => "a function",
            Output::Other(name) => name,
        }
    }

    /// Reads a value of at most so many entries.
    pub(super) fn read(value: &mlua::Value, hook: &str, entries: usize) -> Result<Output, Fault> {
        let mut left = entries;
        Output::read_part(value, DEPTH_MAX, &mut left).ok_or_else(|| {
            let text = format!(
                "answered a table of more than {entries} entries, or one that is nested too deeply: answer less"
            );
            Fault::new(hook, FaultKind::Answer, text)
        })
    }

    fn read_part(value: &mlua::Value, depth: usize, left: &mut usize) -> Option<Output> {
        Some(match value {
            mlua::Value::Nil => Output::Nil,
            mlua::Value::Boolean(bool) => Output::Bool(*bool),
            mlua::Value::Integer(number) => Output::Number(*number as f64),
            mlua::Value::Number(number) => Output::Number(*number),
            mlua::Value::String(text) => {
                // A long one is of no use to anyone: names are short.
                let bytes = text.as_bytes();
                Output::Text(String::from_utf8_lossy(&bytes[..bytes.len().min(256)]).into_owned())
            }
            mlua::Value::Table(table) => {
                depth.checked_sub(1)?;
                let mut entries = Vec::new();
                for pair in table.pairs::<mlua::Value, mlua::Value>() {
                    let (key, item) = pair.ok()?;
                    *left = left.checked_sub(1)?;
                    entries
                        .push((Output::read_part(&key, depth - 1, left)?, Output::read_part(&item, depth - 1, left)?));
                }
                Output::Table(entries)
            }
            mlua::Value::Function(_) => Output::Function,
            other => Output::Other(other.type_name()),
        })
    }
}
