//! Hooks that are plain arithmetic of their arguments, worked out here for many rows at once: a tenth of what the same costs
//! in Luau, with the same result to the last bit (a test compares them). Whatever is not surely of that kind is not taken.

use super::program::{Code, HookSpec};

/// Operations of one expression, and how deep they may nest.
const OPS_MAX: usize = 128;
const DEPTH_MAX: usize = 16;
/// Rows that are worked out together.
const BLOCK: usize = 32;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Op {
    Number(f64),
    Param(usize),
    Add,
    Sub,
    Mul,
    Div,
    Neg,
    Max,
    Min,
}

/// An expression in postfix order.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Arith {
    ops: Vec<Op>,
    params: usize,
    /// It stands in the file, and not for a hook that the file leaves out.
    in_file: bool,
}

impl Arith {
    /// The hook's expression, if the hook is surely nothing else.
    pub(super) fn find(code: &Code, hook: &HookSpec) -> Option<Arith> {
        if let Some(file) = &code.file {
            let tokens = tokens(file)?;
            if tokens.contains(&hook.name) {
                return of_function(&tokens, hook.name).map(|arith| Arith { in_file: true, ..arith });
            }
        }
        let (_, text) = code.hooks.iter().find(|(name, _)| name == hook.name)?;
        Arith::parse(&tokens(text)?, hook.params, code.file.is_none())
    }

    /// `libraries`: whether `max` and `min` can only be the library's.
    fn parse(tokens: &[&str], params: &[&str], libraries: bool) -> Option<Arith> {
        let mut parser = Parser { tokens, at: 0, params, libraries, ops: Vec::new() };
        parser.sum(0)?;
        (parser.at == tokens.len() && parser.ops.len() <= OPS_MAX).then_some(Arith {
            ops: parser.ops,
            params: params.len(),
            in_file: false,
        })
    }

    /// Number of its arguments; a row may have more.
    pub(super) fn params(&self) -> usize {
        self.params
    }

    /// True if the file's own function is meant.
    pub(super) fn in_file(&self) -> bool {
        self.in_file
    }

    /// Its value for each row of `width` numbers.
    pub(super) fn rows(&self, rows: &[f64], width: usize) -> Vec<f64> {
        let count = rows.len() / width;
        let mut answers = Vec::with_capacity(count);
        let mut stack = [[0.0; BLOCK]; DEPTH_MAX * 4];
        for first in (0..count).step_by(BLOCK) {
            let here = BLOCK.min(count - first);
            let mut top = 0;
            for op in &self.ops {
                match op {
                    Op::Number(number) => stack[top] = [*number; BLOCK],
                    Op::Param(param) => {
                        for (lane, value) in stack[top][..here].iter_mut().enumerate() {
                            *value = rows[(first + lane) * width + param];
                        }
                    }
                    Op::Neg => stack[top - 1].iter_mut().for_each(|value| *value = -*value),
                    _ => {
                        let (below, above) = stack.split_at_mut(top - 1);
                        let pairs = below[top - 2].iter_mut().zip(&above[0]);
                        match op {
                            Op::Add => pairs.for_each(|(a, b)| *a += b),
                            Op::Sub => pairs.for_each(|(a, b)| *a -= b),
                            Op::Mul => pairs.for_each(|(a, b)| *a *= b),
                            Op::Div => pairs.for_each(|(a, b)| *a /= b),
                            // As the library compares: what is not a number never wins.
                            Op::Max => pairs.for_each(|(a, b)| *a = if *b > *a { *b } else { *a }),
                            _ => pairs.for_each(|(a, b)| *a = if *b < *a { *b } else { *a }),
                        }
                    }
                }
                match op {
                    Op::Number(_) | Op::Param(_) => top += 1,
                    Op::Neg => {}
                    _ => top -= 1,
                }
            }
            answers.extend_from_slice(&stack[0][..here]);
        }
        answers
    }
}

struct Parser<'a> {
    tokens: &'a [&'a str],
    at: usize,
    params: &'a [&'a str],
    libraries: bool,
    ops: Vec<Op>,
}

impl Parser<'_> {
    fn take(&mut self, token: &str) -> Option<()> {
        (self.tokens.get(self.at) == Some(&token)).then(|| self.at += 1)
    }

    fn sum(&mut self, depth: usize) -> Option<()> {
        (depth < DEPTH_MAX).then_some(())?;
        self.product(depth)?;
        loop {
            let op = match self.tokens.get(self.at) {
                Some(&"+") => Op::Add,
                Some(&"-") => Op::Sub,
                _ => return Some(()),
            };
            self.at += 1;
            self.product(depth)?;
            self.ops.push(op);
        }
    }

    fn product(&mut self, depth: usize) -> Option<()> {
        self.atom(depth)?;
        loop {
            let op = match self.tokens.get(self.at) {
                Some(&"*") => Op::Mul,
                Some(&"/") => Op::Div,
                _ => return Some(()),
            };
            self.at += 1;
            self.atom(depth)?;
            self.ops.push(op);
        }
    }

    fn atom(&mut self, depth: usize) -> Option<()> {
        (depth < DEPTH_MAX).then_some(())?;
        let token = *self.tokens.get(self.at)?;
        self.at += 1;
        if let Some(param) = self.params.iter().position(|param| *param == token) {
            self.ops.push(Op::Param(param));
            return Some(());
        }
        match token {
            "-" => {
                self.atom(depth + 1)?;
                self.ops.push(Op::Neg);
            }
            "(" => {
                self.sum(depth + 1)?;
                self.take(")")?;
            }
            "max" | "min" if self.libraries => {
                self.take("(")?;
                self.sum(depth + 1)?;
                self.take(",")?;
                self.sum(depth + 1)?;
                self.take(")")?;
                self.ops.push(if token == "max" { Op::Max } else { Op::Min });
            }
            _ => self.ops.push(Op::Number(number(token)?)),
        }
        Some(())
    }
}

/// Decimal ones only.
fn number(token: &str) -> Option<f64> {
    let plain =
        token.starts_with(|c: char| c.is_ascii_digit()) && token.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    plain.then(|| token.parse().ok()).flatten()
}

/// `function NAME(a, b) return EXPRESSION end`, where the file speaks of NAME only this once.
fn of_function(tokens: &[&str], name: &str) -> Option<Arith> {
    let mut found = tokens.iter().enumerate().filter(|(_, token)| **token == name);
    let (at, _) = found.next()?;
    if found.next().is_some() || at < 1 || tokens[at - 1] != "function" || at >= 2 && tokens[at - 2] == "local" {
        return None;
    }
    let rest = &tokens[at + 1..];
    let close = rest.iter().position(|token| *token == ")")?;
    let (head, body) = (rest.get(1..close)?, &rest[close + 1..]);
    let end = body.iter().position(|token| *token == "end")?;
    if rest[0] != "(" || body.first() != Some(&"return") || head.iter().skip(1).step_by(2).any(|token| *token != ",") {
        return None;
    }
    let params: Vec<&str> = head.iter().step_by(2).copied().collect();
    let distinct = params.iter().enumerate().all(|(at, param)| is_name(param) && !params[..at].contains(param));
    distinct.then(|| Arith::parse(&body[1..end], &params, false)).flatten()
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// The words and signs of a text without its comments; none if there is something in it that is not understood here.
fn tokens(text: &str) -> Option<Vec<&str>> {
    let bytes = text.as_bytes();
    let (mut tokens, mut at) = (Vec::new(), 0);
    let run = |from: usize, is: fn(u8) -> bool| from + bytes[from..].iter().take_while(|byte| is(**byte)).count();
    while at < bytes.len() {
        let from = at;
        match bytes[at] {
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'-' if bytes.get(at + 1) == Some(&b'-') => {
                // A long comment may end anywhere.
                (bytes.get(at + 2) != Some(&b'[')).then_some(())?;
                at = run(at, |byte| byte != b'\n');
                continue;
            }
            quote @ (b'"' | b'\'') => {
                at += 1;
                while *bytes.get(at)? != quote {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'`' => return None,
            b'[' if matches!(bytes.get(at + 1), Some(b'[' | b'=')) => return None,
            byte if byte.is_ascii_alphabetic() || byte == b'_' => {
                at = run(at, |b| b.is_ascii_alphanumeric() || b == b'_')
            }
            byte if byte.is_ascii_digit() => at = run(at, |b| b.is_ascii_alphanumeric() || b == b'.' || b == b'_'),
            byte if byte.is_ascii() => at += 1,
            _ => return None,
        }
        tokens.push(&text[from..at]);
    }
    Some(tokens)
}
