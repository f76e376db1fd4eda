//! The two forms of a policy's file: TOML with a hook in each key, and one Lua file that defines them as functions. Reading
//! only; what hooks mean is `decide.rs`.

use super::{API, setting, share};
use crate::engine::{Code, Output, Run, Value, near};
use crate::{Fault, FaultKind};

/// Form of a policy file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// TOML, a text of Lua for each hook.
    Hooks,
    /// One file of Lua.
    File,
}

/// Names that mean something.
pub(super) const KNOWN: &[&str] =
    &["api", "state", "minimum_offload", "need_min", "metaload", "mdsload", "when", "where", "howmuch", "selectors"];

/// Settings of a policy besides its hooks.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Settings {
    /// Value that `RDstate` reads before anything was written.
    pub state: Option<Value>,
    /// Smaller targets are left alone; in units of `load`.
    pub minimum_offload: Option<f64>,
    /// The share of what a target asks for that is enough: then nothing smaller is looked for.
    pub need_min: Option<f64>,
    /// Names of selectors, if they are not worked out by a hook.
    pub howmuch: Option<Vec<String>>,
}

pub(super) struct File {
    pub form: Form,
    pub code: Code,
    pub settings: Settings,
}

/// Hooks of a policy that leaves them out: those of the CephFS balancer (Table 4.1).
const DEFAULTS: &str = include_str!("../../../../policies/cephfs.toml");

fn refused(text: impl Into<String>) -> Fault {
    Fault::new("file", FaultKind::Load, text)
}

/// Reads either form.
pub(super) fn read(text: &str) -> Result<File, Fault> {
    // Luau takes a zero byte for the end of the text, and would be silent about what follows.
    if let Some(at) = text.bytes().position(|byte| byte == 0) {
        return Err(refused(format!("byte {} is zero: this is no text", at + 1)));
    }
    let mut file = match toml::from_str::<toml::Table>(text) {
        Ok(table) => of_table(&table)?,
        Err(error) if looks_like_toml(text) => {
            let place = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            return Err(refused(format!("line {place}: {}", error.message())));
        }
        Err(_) => {
            let code = Code { file: Some(text.to_string()), hooks: Vec::new() };
            File { form: Form::File, code, settings: Settings::default() }
        }
    };
    let defaults: toml::Table = toml::from_str(DEFAULTS).expect("the shipped policy is TOML");
    for (name, text) in of_table(&defaults)?.code.hooks {
        let has = file.code.hooks.iter().any(|(known, _)| *known == name);
        // A file's own functions go first anyway.
        if !has {
            file.code.hooks.push((name, text));
        }
    }
    Ok(file)
}

/// No line of the kind that only Lua has.
fn looks_like_toml(text: &str) -> bool {
    let is_lua = |line: &str| {
        let line = line.trim_start();
        line.starts_with("--")
            || line.split(|c: char| !c.is_alphanumeric()).next().is_some_and(|word| LUA.contains(&word))
    };
    const LUA: &[&str] = &["function", "local", "return", "if", "for", "while", "repeat", "do", "end"];
    text.lines().any(|line| line.contains('=')) && !text.lines().any(is_lua)
}

fn of_table(table: &toml::Table) -> Result<File, Fault> {
    let mut file = File { form: Form::Hooks, code: Code::default(), settings: Settings::default() };
    for (key, value) in table {
        match (key.as_str(), value) {
            ("api", toml::Value::Integer(api)) => check_api(*api as f64)?,
            ("state", value) => file.settings.state = Some(state(&output(value))?),
            ("minimum_offload", value) => file.settings.minimum_offload = setting(&output(value), "minimum_offload")?,
            ("need_min", value) => file.settings.need_min = share(&output(value), "need_min")?,
            ("howmuch", toml::Value::Array(names)) => {
                let name = |name: &toml::Value| name.as_str().map(str::to_string);
                let names: Option<Vec<String>> = names.iter().map(name).collect();
                let names = names.ok_or_else(|| refused("`howmuch` must be a list of names of selectors"))?;
                file.settings.howmuch = Some(names);
            }
            ("metaload" | "mdsload" | "when" | "where" | "howmuch", toml::Value::String(text)) => {
                file.code.hooks.push((key.clone(), text.clone()));
            }
            ("selectors", toml::Value::Table(selectors)) => {
                for (name, text) in selectors {
                    let text =
                        text.as_str().ok_or_else(|| refused(format!("the selector `{name}` must be a text of Lua")))?;
                    file.code.hooks.push((format!("selectors.{name}"), text.to_string()));
                }
            }
            (key, _) if KNOWN.contains(&key) => return Err(refused(format!("`{key}` is of the wrong type"))),
            (key, _) => {
                let advice =
                    nearest(key).map_or("see docs/policies.md".to_string(), |near| format!("did you mean `{near}`?"));
                return Err(refused(format!("there is nothing called `{key}` in a policy: {advice}")));
            }
        }
    }
    let has = |hook: &str| file.code.hooks.iter().any(|(name, _)| name == hook);
    if !has("when") && !has("where") {
        return Err(refused("it has neither `when` nor `where`, so it decides nothing: write at least one of them"));
    }
    Ok(file)
}

/// The name that is probably meant.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    KNOWN.iter().filter_map(|known| Some((near(name, known)?, *known))).min().map(|(_, known)| known)
}

fn output(value: &toml::Value) -> Output {
    match value {
        toml::Value::Integer(number) => Output::Number(*number as f64),
        toml::Value::Float(number) => Output::Number(*number),
        toml::Value::Boolean(bool) => Output::Bool(*bool),
        toml::Value::String(text) => Output::Text(text.clone()),
        other => Output::Other(other.type_str()),
    }
}

fn state(output: &Output) -> Result<Value, Fault> {
    match output {
        Output::Bool(bool) => Ok(Value::Bool(*bool)),
        Output::Number(number) if number.is_finite() => Ok(Value::Number(*number)),
        other => {
            Err(refused(format!("`state` must be a number or a boolean to begin with, it is {}", other.type_name())))
        }
    }
}

fn check_api(api: f64) -> Result<(), Fault> {
    if (1.0..=f64::from(API)).contains(&api) && api.fract() == 0.0 {
        return Ok(());
    }
    Err(refused(format!(
        "it needs api {api}, this build has api {API}: upgrade the servers, or write it for api {API}"
    )))
}

impl Settings {
    /// Of a file of Lua they are globals.
    pub(super) fn read_globals(&mut self, run: &mut Run<'_>) -> Result<(), Fault> {
        match run.global("api")? {
            Output::Nil => {}
            Output::Number(api) => check_api(api)?,
            other => return Err(refused(format!("`api` must be a number, it is {}", other.type_name()))),
        }
        match run.global("state")? {
            Output::Nil => {}
            other => self.state = Some(state(&other)?),
        }
        self.minimum_offload = setting(&run.global("minimum_offload")?, "minimum_offload")?;
        self.need_min = share(&run.global("need_min")?, "need_min")?;
        let own = run.globals();
        if !own.iter().any(|(name, is_function)| *is_function && (name == "when" || name == "where")) {
            return Err(refused(
                "it defines neither `when` nor `where`, so it decides nothing: define `function when() ... end` at least",
            ));
        }
        Ok(())
    }
}
