//! Output of every command: text or JSON on success; on failure the thing, the cause and the remedy, and an exit code.

use std::fmt;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
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

    /// Adds a remedy.
    #[must_use]
    pub fn remedy(mut self, text: impl Into<String>) -> Failure {
        self.remedy = Some(text.into());
        self
    }

    /// As another process of this program told it.
    pub fn told(text: impl Into<String>, code: u8) -> Failure {
        Failure { what: text.into(), remedy: None, code }
    }

    /// True if the cause contains these words.
    pub fn says(&self, words: &str) -> bool {
        self.what.contains(words)
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// The thing with the cause, and the remedy.
    pub fn parts(&self) -> (&str, Option<&str>) {
        (&self.what, self.remedy.as_deref())
    }

    /// Says it on stderr and gives the exit code.
    pub fn report(&self) -> ExitCode {
        note(format_args!("loligo: {self}"));
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

/// Prints a line for commands that serve: a reader that is gone, or a full disk, must not end them.
pub fn say(line: impl fmt::Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A line on stderr. Where that cannot be written there is nobody to tell (and `eprintln!` would panic).
pub fn note(line: impl fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints what a command was asked for. Not being able to is a failure: a full disk must not look like an answer.
pub fn put(text: impl fmt::Display) -> Outcome {
    let mut out = std::io::stdout();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|e| written("standard output", &e))
}

/// Output that could not be written.
pub fn written(place: &str, error: &std::io::Error) -> Failure {
    let remedy = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => "make room there, or write elsewhere",
        _ => "write to a place that takes it",
    };
    Failure::new(format!("cannot write to {place}: {error}")).remedy(remedy)
}

/// Makes a file that nobody but its owner can read, or empties one that is there: it holds names and contents that others may not see.
pub fn create_private(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// A path as a shell reads it, for commands that a user is to copy.
pub fn quoted(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._-+:@%,=".contains(b);
    match path.to_str() {
        Some(text) if !text.is_empty() && bytes.iter().all(plain) => text.to_string(),
        Some(text) if !text.chars().any(char::is_control) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => {
            let escaped: String = bytes.iter().map(|b| b.escape_ascii().to_string()).collect();
            format!("$'{escaped}'")
        }
    }
}

/// Last line of a dry run.
pub const UNCHANGED: &str = "nothing was changed: leave out --dry-run to do it";

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

/// `1 session`, `1,234 sessions`; `1 directory`, `2 directories`; `1 request waiting` of `request waiting`.
pub fn counted(n: u64, thing: &str) -> String {
    let (noun, rest) = thing.split_once(' ').map_or((thing, String::new()), |(noun, rest)| (noun, format!(" {rest}")));
    let noun = match noun.strip_suffix('y') {
        _ if n == 1 => noun.to_string(),
        Some(stem) => format!("{stem}ies"),
        None => format!("{noun}s"),
    };
    format!("{} {noun}{rest}", human_count(n))
}

/// `1 file`, `12 files`.
pub fn human_files(n: u64) -> String {
    counted(n, "file")
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
        assert_eq!((counted(1, "session"), counted(0, "session")), ("1 session".into(), "0 sessions".into()));
        assert_eq!(counted(1234, "request waiting"), "1,234 requests waiting");
        assert_eq!((counted(1, "directory"), counted(2, "directory")), ("1 directory".into(), "2 directories".into()));
        assert_eq!(human_time(3.25), "3.2 s");
        assert_eq!(human_time(7500.0), "2 h 5 min");
    }

    #[test]
    fn paths_in_commands_to_copy_are_quoted_where_a_shell_would_not_read_them() {
        assert_eq!(quoted(Path::new("/srv/data-1.x")), "/srv/data-1.x");
        assert_eq!(quoted(Path::new("/my data/it's")), r"'/my data/it'\''s'");
        assert_eq!(quoted(Path::new("/a\nb'c")), r"$'/a\nb\'c'");
        assert_eq!(quoted(Path::new(std::ffi::OsStr::from_bytes(b"/\xff"))), r"$'/\xff'");
    }

    #[test]
    fn a_failure_has_the_cause_and_then_the_remedy() {
        assert_eq!(Failure::new("a: broken").remedy("mend it").to_string(), "a: broken\n  try: mend it");
    }
}
