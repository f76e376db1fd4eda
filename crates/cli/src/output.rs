//! What every command says at its end: text or JSON on success; on failure the thing, the cause and the remedy, and an
//! exit code.

use std::fmt;
use std::process::ExitCode;

/// Why a command failed, for a person.
#[derive(Debug)]
pub struct Failure {
    what: String,
    remedy: Option<String>,
    code: u8,
}

impl Failure {
    /// The thing and the cause.
    pub fn new(what: impl Into<String>) -> Failure {
        Failure { what: what.into(), remedy: None, code: 1 }
    }

    /// The command line or configuration is wrong (exit code 2).
    pub fn usage(what: impl Into<String>) -> Failure {
        Failure { what: what.into(), remedy: None, code: 2 }
    }

    /// A check found something (exit code 3, as distinct from not being able to check).
    pub fn found(what: impl Into<String>) -> Failure {
        Failure { what: what.into(), remedy: None, code: 3 }
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(mut self, text: impl Into<String>) -> Failure {
        self.remedy = Some(text.into());
        self
    }

    /// Says it on stderr and gives the exit code.
    pub fn report(&self) -> ExitCode {
        eprintln!("loligo: {self}");
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.remedy {
            Some(remedy) => write!(f, "\n  try: {remedy}"),
            None => Ok(()),
        }
    }
}

/// Adds what was being done to an error that only knows the cause.
pub trait Context<T> {
    /// `what` names the thing: "data directory /x".
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|e| Failure::new(format!("{}: {e}", what())))
    }
}

/// Prints a line for commands that serve: a reader that is gone must not end them.
pub fn say(line: impl fmt::Display) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Result of a command.
pub type Outcome = Result<(), Failure>;

/// `1.5 GiB`.
pub fn human_bytes(n: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{value:.1} {}", units[unit]) }
}

/// `12,345,678`.
pub fn human_count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// `1 file`, `12 files`.
pub fn human_files(n: u64) -> String {
    if n == 1 { "1 file".to_string() } else { format!("{} files", human_count(n)) }
}

/// `2 h 5 min`, `3.2 s`.
pub fn human_time(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(human_bytes(1023), "1023 B");
        assert_eq!(human_bytes(1536), "1.5 KiB");
        assert_eq!(human_count(1_234_567), "1,234,567");
        assert_eq!(human_count(12), "12");
        assert_eq!(human_time(3.25), "3.2 s");
        assert_eq!(human_time(7500.0), "2 h 5 min");
    }

    #[test]
    fn a_failure_has_the_cause_and_then_the_remedy() {
        assert_eq!(Failure::new("a: broken").remedy("mend it").to_string(), "a: broken\n  try: mend it");
    }
}
