//! Reading a composition: by recursive descent, as deep as parentheses may be open. Not here: the tree.

use super::{Composition, LEN_MAX, NESTING_MAX, Step};
use crate::fault::{Cause, Flaw};
use crate::mechanism::Mechanism;

/// A word or sign of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A word that may name a mechanism: letters, digits, `_`, `-`, and blanks between.
    Name(&'a str),
    Plus,
    Bars,
    Open,
    Close,
    /// Nothing that can stand in a composition.
    Strange(char),
    End,
}

impl Token<'_> {
    fn shown(self) -> String {
        match self {
            Token::Name(name) => format!("`{}`", crate::fault::shown(name)),
            Token::Plus => "`+`".to_string(),
            Token::Bars => "`||`".to_string(),
            Token::Open => "`(`".to_string(),
            Token::Close => "`)`".to_string(),
            Token::Strange('|') => "a single `|` (at the same time is `||`)".to_string(),
            Token::Strange(c) if c.is_control() => format!("the character U+{:04X}", u32::from(c)),
            Token::Strange(c) => format!("`{c}`"),
            Token::End => "the end".to_string(),
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    /// Bytes that are read.
    at: usize,
    /// Where the parentheses that are open stand.
    open: Vec<usize>,
    places: Vec<usize>,
}

pub(super) fn read(text: &str) -> Result<Composition, Flaw> {
    if text.len() > LEN_MAX {
        return Err(Flaw::new(Cause::TooLong { what: "a composition", max: LEN_MAX }, LEN_MAX));
    }
    let mut reader = Reader { text, at: 0, open: Vec::new(), places: Vec::new() };
    let root = reader.serial()?;
    match reader.peek() {
        (Token::End, _) => Ok(Composition::new(root, reader.places)),
        (found, at) => Err(Flaw::new(Cause::NoOperator { found: found.shown(), open: false }, at)),
    }
}

impl<'a> Reader<'a> {
    /// The next token, and its offset.
    fn peek(&self) -> (Token<'a>, usize) {
        let rest = &self.text[self.at..];
        let blank = rest.len() - rest.trim_start().len();
        let (at, rest) = (self.at + blank, rest.trim_start());
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let token = match rest.chars().next() {
            None => Token::End,
            Some('+') => Token::Plus,
            Some('(') => Token::Open,
            Some(')') => Token::Close,
            Some('|') if rest.starts_with("||") => Token::Bars,
            Some(c) if is_name(c) => {
                let end = rest.find(|c: char| !is_name(c) && !c.is_whitespace()).unwrap_or(rest.len());
                Token::Name(rest[..end].trim_end())
            }
            Some(c) => Token::Strange(c),
        };
        (token, at)
    }

    /// Takes it.
    fn take(&mut self, token: Token<'a>, at: usize) {
        self.at = at
            + match token {
                Token::Name(name) => name.len(),
                Token::Bars => 2,
                Token::Plus | Token::Open | Token::Close => 1,
                Token::Strange(c) => c.len_utf8(),
                Token::End => 0,
            };
    }

    /// Takes it if it is this one.
    fn take_if(&mut self, wanted: Token<'a>) -> bool {
        let (token, at) = self.peek();
        if token == wanted {
            self.take(token, at);
        }
        token == wanted
    }

    fn serial(&mut self) -> Result<Step, Flaw> {
        let mut parts = vec![self.parallel()?];
        while self.take_if(Token::Plus) {
            parts.push(self.parallel()?);
        }
        Ok(Step::serial(parts))
    }

    fn parallel(&mut self) -> Result<Step, Flaw> {
        let mut parts = vec![self.unit()?];
        while self.take_if(Token::Bars) {
            parts.push(self.unit()?);
        }
        Ok(Step::parallel(parts))
    }

    fn unit(&mut self) -> Result<Step, Flaw> {
        let (token, at) = self.peek();
        match token {
            Token::Name(name) => {
                let unknown = || Cause::UnknownMechanism { name: name.to_string(), nearest: Mechanism::nearest(name) };
                let mechanism = Mechanism::of(name).ok_or_else(|| Flaw::new(unknown(), at))?;
                self.take(token, at);
                self.places.push(at);
                Ok(Step::Mechanism(mechanism))
            }
            Token::Open if self.open.len() == NESTING_MAX => Err(Flaw::new(Cause::TooDeep, at)),
            Token::Open => {
                self.take(token, at);
                self.open.push(at);
                let inner = self.serial()?;
                self.close(at)?;
                Ok(inner)
            }
            other => Err(Flaw::new(Cause::NoUnit(other.shown()), at)),
        }
    }

    fn close(&mut self, opened: usize) -> Result<(), Flaw> {
        let (token, at) = self.peek();
        match token {
            Token::Close => {
                self.take(token, at);
                self.open.pop();
                Ok(())
            }
            Token::End => Err(Flaw::new(Cause::NotClosed, opened)),
            found => Err(Flaw::new(Cause::NoOperator { found: found.shown(), open: true }, at)),
        }
    }
}
