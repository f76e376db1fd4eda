//! The pattern of one component of a path: literal bytes and values of arguments. Prints a name from the values that are set, and reads a
//! name back to them, from left to right without going back. Not here: if two patterns give one name (`collide.rs`).

use super::argument::Argument;

/// Value of an argument in an [`Env`] that is not set.
pub(crate) const UNSET: u64 = u64::MAX;

/// Indices of the values of all arguments, by argument.
pub(crate) type Env = Vec<u64>;

/// A part of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// These bytes.
    Literal(Vec<u8>),
    /// The value of an argument.
    Value(usize),
}

/// The parts of a component, in order. Neighbouring literals are one.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Pattern {
    pub tokens: Vec<Token>,
}

impl Pattern {
    /// Reads a component: `{name}` is a value, `{{` and `}}` are braces.
    ///
    /// # Errors
    ///
    /// The cause and the remedy.
    pub fn parse(text: &str, find: impl Fn(&str) -> Option<usize>) -> Result<Pattern, (String, &'static str)> {
        let mut tokens = Vec::new();
        let mut literal = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.extend_from_slice(&rest.as_bytes()[..at]);
            let doubled = rest[at..].starts_with("{{") || rest[at..].starts_with("}}");
            if doubled {
                literal.push(rest.as_bytes()[at]);
                rest = &rest[at + 2..];
                continue;
            }
            let inside = rest[at..].strip_prefix('{').and_then(|inner| inner.split_once('}'));
            let Some((name, after)) = inside else {
                return Err((
                    "a brace has no partner".into(),
                    "write `{name}` for an argument, `{{` or `}}` for a brace",
                ));
            };
            let Some(argument) = find(name) else {
                let why = format!("there is no argument `{}`", crate::fault::shown(name));
                return Err((why, "define it under [args], or write `{{` for a brace"));
            };
            if !literal.is_empty() {
                tokens.push(Token::Literal(std::mem::take(&mut literal)));
            }
            tokens.push(Token::Value(argument));
            rest = after;
        }
        literal.extend_from_slice(rest.as_bytes());
        if !literal.is_empty() {
            tokens.push(Token::Literal(literal));
        }
        Ok(Pattern { tokens })
    }

    /// Appends the name for these values.
    pub fn print(&self, args: &[Argument], env: &[u64], out: &mut Vec<u8>) {
        for token in &self.tokens {
            match token {
                Token::Literal(bytes) => out.extend_from_slice(bytes),
                Token::Value(argument) => args[*argument].print(env[*argument], out),
            }
        }
    }

    /// Bytes of the longest name.
    pub fn longest(&self, args: &[Argument]) -> usize {
        let len = |token: &Token| match token {
            Token::Literal(bytes) => bytes.len(),
            Token::Value(argument) => args[*argument].longest(),
        };
        self.tokens.iter().map(len).sum()
    }

    /// Reads a name: sets the arguments that are unset. False if it is no name of this pattern; then some may be set.
    pub fn read(&self, args: &[Argument], name: &[u8], env: &mut Env) -> bool {
        let mut rest = name;
        for (at, token) in self.tokens.iter().enumerate() {
            match token {
                Token::Literal(bytes) => match rest.strip_prefix(&bytes[..]) {
                    Some(after) => rest = after,
                    None => return false,
                },
                Token::Value(argument) if env[*argument] != UNSET => {
                    let len = args[*argument].len_of(env[*argument]);
                    let Some((value, after)) = rest.split_at_checked(len) else { return false };
                    if args[*argument].read(value) != Some(env[*argument]) {
                        return false;
                    }
                    rest = after;
                }
                Token::Value(argument) => {
                    let found = match self.len_after(args, at, *argument, env) {
                        Some(behind) => {
                            let Some(len) = rest.len().checked_sub(behind) else { return false };
                            args[*argument].read(&rest[..len]).map(|index| (index, len))
                        }
                        None => args[*argument].read_first(rest, self.literal_after(at)),
                    };
                    let Some((index, len)) = found else { return false };
                    env[*argument] = index;
                    rest = &rest[len..];
                }
            }
        }
        rest.is_empty()
    }

    /// Bytes behind a token, if they are known before its value is: it is the last unset one, and stands once.
    fn len_after(&self, args: &[Argument], at: usize, own: usize, env: &[u64]) -> Option<usize> {
        let mut len = 0;
        for token in &self.tokens[at + 1..] {
            len += match token {
                Token::Literal(bytes) => bytes.len(),
                Token::Value(argument) if *argument != own && env[*argument] != UNSET => {
                    args[*argument].len_of(env[*argument])
                }
                Token::Value(_) => return None,
            };
        }
        Some(len)
    }

    /// The literal directly behind a token.
    fn literal_after(&self, at: usize) -> &[u8] {
        match self.tokens.get(at + 1) {
            Some(Token::Literal(bytes)) => bytes,
            _ => &[],
        }
    }

    /// The first argument whose value's end cannot be seen by a reader, of those that are not `bound` before the component.
    pub fn ambiguous(&self, args: &[Argument], bound: impl Fn(usize) -> bool) -> Option<usize> {
        let mut known: Vec<usize> = Vec::new();
        for (at, token) in self.tokens.iter().enumerate() {
            let Token::Value(argument) = token else { continue };
            if bound(*argument) || known.contains(argument) {
                continue;
            }
            known.push(*argument);
            let is_last = self.tokens[at + 1..].iter().all(|token| match token {
                Token::Literal(_) => true,
                Token::Value(other) => other != argument && (bound(*other) || known.contains(other)),
            });
            if !is_last && !args[*argument].ends_at(self.literal_after(at)) {
                return Some(*argument);
            }
        }
        None
    }

    /// The arguments that it sets, in order, each once.
    pub fn sets(&self, bound: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut out = Vec::new();
        for token in &self.tokens {
            if let Token::Value(argument) = token
                && !bound(*argument)
                && !out.contains(argument)
            {
                out.push(*argument);
            }
        }
        out
    }
}
