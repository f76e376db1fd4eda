//! Why an evaluation came to nothing. Whoever gets a fault holds still; who counts them is [`crate::Streak`].

/// Kind of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// The text cannot be a policy: it does not parse, names unknown things, or its first run failed.
    Load,
    /// The policy raised an error: something undefined, arithmetic on nil, `error()`.
    Runtime,
    /// It used more steps than it may.
    Steps,
    /// It used more memory than it may.
    Memory,
    /// It took longer than it may.
    Time,
    /// A hook answered something that is no answer: of the wrong type, not a number, too much.
    Answer,
    /// A target that cannot be: itself, a rank that is not there or takes no more, more than there is.
    Target,
    /// The host's input makes no sense; not the policy's fault.
    Host,
}

/// One evaluation, or loading, failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// In which hook; the policy's file as a whole: `file`.
    pub hook: String,
    /// Its kind.
    pub kind: FaultKind,
    /// The fault, its cause and its remedy, for people.
    pub text: String,
}

impl Fault {
    /// A fault.
    pub fn new(hook: impl Into<String>, kind: FaultKind, text: impl Into<String>) -> Fault {
        Fault { hook: hook.into(), kind, text: text.into() }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.hook, self.text)
    }
}

impl std::error::Error for Fault {}
