//! The values that a program is given. Not here: the ranges and lists of a formula (`formula.rs`).

use toml::de::DeValue;

use super::value::{Table, Value};
use crate::fault::{Cause, Flaw};
use crate::limits::ARGS_MAX;

/// Lists in lists in lists: deeper ones are refused.
const DEPTH_MAX: usize = 4;

/// A value that a program is given.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// A number; finite.
    Number(f64),
    /// A boolean.
    Bool(bool),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Given>),
}

impl Eq for Given {}

pub(super) fn read(table: &Table<'_>) -> Result<Vec<(String, Given)>, Flaw> {
    let all = table.in_order();
    if let Some((_, at, _)) = all.get(ARGS_MAX) {
        return Err(Flaw::new(too_many(all.len()), *at));
    }
    let mut args = Vec::new();
    for (name, at, value) in all {
        check_name(name, at)?;
        args.push((name.to_string(), given(&value.named(format!("args.{name}")), DEPTH_MAX)?));
    }
    Ok(args)
}

pub(super) fn too_many(found: usize) -> Cause {
    let (found, max) = (found as u64, ARGS_MAX as u64);
    Cause::TooMany { what: "args", found, max, remedy: "write the values into the paths or the program" }
}

/// Fails for names that a path or a program could not write.
pub(super) fn check_name(name: &str, at: usize) -> Result<(), Flaw> {
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_word && name.bytes().next().is_some_and(|first| !first.is_ascii_digit()) {
        return Ok(());
    }
    Err(Flaw::new(Cause::ArgumentName(name.to_string()), at))
}

fn given(value: &Value<'_>, depth: usize) -> Result<Given, Flaw> {
    let expected = "a finite number, true or false, a text, or a list of those";
    Ok(match value.get() {
        DeValue::Boolean(value) => Given::Bool(*value),
        DeValue::String(text) => Given::Text(text.to_string()),
        DeValue::Integer(number) => {
            let whole = i64::from_str_radix(number.as_str(), number.radix()).ok();
            // Beyond this, a program's numbers have gaps.
            let exact = whole.filter(|whole| whole.unsigned_abs() <= 1 << 53);
            Given::Number(exact.ok_or_else(|| value.wrong("a whole number of at most 53 bits"))? as f64)
        }
        DeValue::Float(number) => {
            let number = number.as_str().parse().ok().filter(|number: &f64| number.is_finite());
            Given::Number(number.ok_or_else(|| value.wrong(expected))?)
        }
        DeValue::Array(items) => {
            let Some(depth) = depth.checked_sub(1) else { return Err(value.wrong("a list that is less deep")) };
            let item = |item| given(&Value { key: value.key.clone(), value: item }, depth);
            Given::List(items.iter().map(item).collect::<Result<_, _>>()?)
        }
        DeValue::Datetime(_) | DeValue::Table(_) => return Err(value.wrong(expected)),
    })
}
