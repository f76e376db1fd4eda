//! Names that two patterns have in common, found without listing names: each pattern is an automaton over bytes, and a search through
//! the pairs of their states finds a shortest common name. The work is bounded. Not here: which patterns are siblings.

use std::collections::{BTreeSet, VecDeque};

use super::argument::{Argument, Range, Values};
use super::pattern::{Env, Pattern, Token, UNSET};

/// Pairs of states that are looked at for one document.
pub(crate) const PAIRS_MAX: usize = 1 << 17;

/// Largest step of which the remainder is part of a state. Beyond it a range counts as having all numbers between its ends; a name that
/// is found then is tried on the patterns themselves.
const STEP_MAX: u64 = 64;

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Common {
    /// There is no such name.
    None,
    /// This one.
    Name(Vec<u8>),
    /// The search was given up, or found only a name that one pattern does not give for any values.
    Unknown,
}

/// A place in a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Inner {
    /// Before the token.
    Start,
    /// Behind so many bytes of a literal.
    Literal(usize),
    /// In the words `from..to` of a list, which agree in their first `depth` bytes.
    Words { from: usize, to: usize, depth: usize },
    /// Behind `at` of `len` digits; `low`, `high`: they are those of the smallest, largest number of that length.
    Digits { len: u32, at: u32, low: bool, high: bool, rest: u64 },
}

type State = (usize, Inner);

struct Automaton<'a> {
    pattern: &'a Pattern,
    args: &'a [Argument],
    /// Sorted words of the lists among the tokens.
    words: Vec<Vec<&'a [u8]>>,
}

impl<'a> Automaton<'a> {
    fn new(pattern: &'a Pattern, args: &'a [Argument]) -> Automaton<'a> {
        let words = |token: &Token| match token {
            Token::Value(argument) => match &args[*argument].values {
                Values::List(list) => list.sorted().collect(),
                Values::Range(_) => Vec::new(),
            },
            Token::Literal(_) => Vec::new(),
        };
        Automaton { pattern, args, words: pattern.tokens.iter().map(words).collect() }
    }

    /// All places reached from one without reading a byte, but for those at which nothing can be read; true if the end is among them.
    fn settle(&self, state: State, out: &mut Vec<State>) -> bool {
        let (at, inner) = state;
        let Some(token) = self.pattern.tokens.get(at) else { return true };
        let next = (at + 1, Inner::Start);
        match (token, inner) {
            (Token::Literal(bytes), Inner::Literal(done)) if done == bytes.len() => self.settle(next, out),
            (Token::Literal(_), Inner::Start) => self.settle((at, Inner::Literal(0)), out),
            (Token::Literal(_), _) => {
                out.push(state);
                false
            }
            (Token::Value(argument), Inner::Start) => match &self.args[*argument].values {
                Values::List(_) => self.settle((at, Inner::Words { from: 0, to: self.words[at].len(), depth: 0 }), out),
                Values::Range(range) => {
                    for len in shortest(range)..=longest(range) {
                        out.push((at, Inner::Digits { len, at: 0, low: true, high: true, rest: 0 }));
                    }
                    false
                }
            },
            (Token::Value(_), Inner::Words { from, to, depth }) => {
                let words = &self.words[at];
                let ends = words[from].len() == depth;
                let from = from + usize::from(ends);
                if from < to {
                    out.push((at, Inner::Words { from, to, depth }));
                }
                ends && self.settle(next, out)
            }
            (Token::Value(argument), Inner::Digits { len, at: done, rest, .. }) => {
                if done < len {
                    out.push(state);
                    return false;
                }
                let Values::Range(range) = &self.args[*argument].values else { return false };
                rest == range.first % modulus(range) && self.settle(next, out)
            }
            (Token::Value(_), Inner::Literal(_)) => false,
        }
    }

    /// Bytes that can be read at a settled place, ascending.
    fn bytes(&self, (at, inner): State) -> Vec<u8> {
        match (&self.pattern.tokens[at], inner) {
            (Token::Literal(bytes), Inner::Literal(done)) => vec![bytes[done]],
            (Token::Value(_), Inner::Words { from, to, depth }) => {
                let mut bytes: Vec<u8> = self.words[at][from..to].iter().map(|word| word[depth]).collect();
                bytes.dedup();
                bytes
            }
            (Token::Value(argument), Inner::Digits { .. }) => {
                let radix = match &self.args[*argument].values {
                    Values::Range(range) => range.base.radix() as usize,
                    Values::List(_) => 0,
                };
                b"0123456789abcdef"[..radix].to_vec()
            }
            _ => Vec::new(),
        }
    }

    fn step(&self, (at, inner): State, byte: u8) -> Option<State> {
        let inner = match (&self.pattern.tokens[at], inner) {
            (Token::Literal(bytes), Inner::Literal(done)) => {
                (bytes[done] == byte).then_some(Inner::Literal(done + 1))?
            }
            (Token::Value(_), Inner::Words { from, to, depth }) => {
                let words = &self.words[at][from..to];
                let first = words.partition_point(|word| word[depth] < byte);
                let last = words.partition_point(|word| word[depth] <= byte);
                (first < last).then_some(Inner::Words { from: from + first, to: from + last, depth: depth + 1 })?
            }
            (Token::Value(argument), Inner::Digits { len, at: done, low, high, rest }) => {
                let Values::Range(range) = &self.args[*argument].values else { return None };
                let digit = range.base.digit(byte)?;
                let (first, last) = ends(range, len);
                let place = u128::from(range.base.radix()).checked_pow(len - 1 - done)?;
                let digit_of = |number: u128| (number / place % u128::from(range.base.radix())) as u64;
                let (least, most) = (digit_of(first), digit_of(last));
                if low && digit < least || high && digit > most {
                    return None;
                }
                let rest = (rest * range.base.radix() + digit) % modulus(range);
                Inner::Digits { len, at: done + 1, low: low && digit == least, high: high && digit == most, rest }
            }
            _ => return None,
        };
        Some((at, inner))
    }

    /// The values for which the pattern itself gives the name, with those of `env` given.
    fn reads(&self, name: &[u8], mut env: Env) -> Option<Env> {
        self.pattern.read(self.args, name, &mut env).then_some(env)
    }
}

fn modulus(range: &Range) -> u64 {
    if range.step <= STEP_MAX { range.step } else { 1 }
}

fn natural(range: &Range, number: u64) -> u32 {
    number.checked_ilog(range.base.radix()).unwrap_or(0) + 1
}

fn shortest(range: &Range) -> u32 {
    natural(range, range.first).max(u32::from(range.width))
}

fn longest(range: &Range) -> u32 {
    natural(range, range.last()).max(u32::from(range.width))
}

/// The smallest and the largest number of a range that are written with `len` digits.
fn ends(range: &Range, len: u32) -> (u128, u128) {
    let radix = u128::from(range.base.radix());
    let power = |exponent| radix.checked_pow(exponent).unwrap_or(u128::MAX);
    let least = if len > u32::from(range.width).max(1) { power(len - 1) } else { 0 };
    (u128::from(range.first).max(least), u128::from(range.last()).min(power(len) - 1))
}

/// A name that both patterns give in one directory. `bound`: the arguments that the directory's own name has set. `budget`: pairs of states
/// that may still be looked at.
pub(crate) fn common(args: &[Argument], bound: &[bool], one: &Pattern, two: &Pattern, budget: &mut usize) -> Common {
    let (one, two) = (Automaton::new(one, args), Automaton::new(two, args));
    let mut seen: BTreeSet<(State, State)> = BTreeSet::new();
    // Each pair with the one that it was reached from, and by which byte.
    let mut trail: Vec<(usize, u8)> = Vec::new();
    let mut queue: VecDeque<(State, State, usize)> = VecDeque::new();
    let start = (0, Inner::Start);
    queue.push_back((start, start, usize::MAX));
    while let Some((left, right, from)) = queue.pop_front() {
        let (mut lefts, mut rights) = (Vec::new(), Vec::new());
        let ends = (one.settle(left, &mut lefts), two.settle(right, &mut rights));
        if ends == (true, true) {
            let name = name_of(&trail, from);
            // The search takes the directory's values for free ones, and some steps for 1.
            let unset = vec![UNSET; args.len()];
            let both = one.reads(&name, unset).and_then(|mut env| {
                env.iter_mut().zip(bound).filter(|(_, bound)| !**bound).for_each(|(value, _)| *value = UNSET);
                two.reads(&name, env)
            });
            return if both.is_some() { Common::Name(name) } else { Common::Unknown };
        }
        for left in &lefts {
            for byte in one.bytes(*left) {
                let Some(after) = one.step(*left, byte) else { continue };
                for right in rights.iter().filter_map(|right| two.step(*right, byte)) {
                    if !seen.insert((after, right)) {
                        continue;
                    }
                    let Some(left) = budget.checked_sub(1) else { return Common::Unknown };
                    *budget = left;
                    trail.push((from, byte));
                    queue.push_back((after, right, trail.len() - 1));
                }
            }
        }
    }
    Common::None
}

fn name_of(trail: &[(usize, u8)], mut at: usize) -> Vec<u8> {
    let mut name = Vec::new();
    while let Some((from, byte)) = trail.get(at) {
        name.push(*byte);
        at = *from;
    }
    name.reverse();
    name
}

#[cfg(test)]
mod tests {
    use super::super::argument::{Base, List};
    use super::*;

    fn args() -> Vec<Argument> {
        let list = |name: &str, words: &[&str]| Argument {
            name: name.into(),
            values: Values::List(List::new(words.iter().map(|word| word.as_bytes().into()).collect())),
            split: None,
        };
        let range = |name: &str, first, step, count, width| Argument {
            name: name.into(),
            values: Values::Range(Range { first, step, count, width, base: Base::Decimal }),
            split: None,
        };
        vec![
            list("part", &["data", "index"]),
            list("dots", &[".", ".."]),
            range("even", 0, 2, 1 << 39, 0),
            range("odd", 1, 2, 1 << 39, 0),
            range("wide", 0, 1, 1000, 6),
            range("big", 1_000_000, 1, 1 << 38, 0),
            range("far", 3, 1000, 1 << 20, 0),
            range("near", 4, 1000, 1 << 20, 0),
            list("words", &["a", "ab", "b"]),
        ]
    }

    fn found(one: &str, two: &str) -> Common {
        let args = args();
        let parse = |text: &str| {
            let find = |name: &str| args.iter().position(|argument| argument.name == name);
            Pattern::parse(text, find).expect("a good pattern")
        };
        common(&args, &[false; 9], &parse(one), &parse(two), &mut PAIRS_MAX.clone())
    }

    #[test]
    fn patterns_collide_exactly_if_a_name_is_common() {
        let name = |text: &str| Common::Name(text.into());
        assert_eq!(found("{part}", "index"), name("index"));
        assert_eq!(found("{part}.{even}", "{part}.{odd}"), Common::None);
        assert_eq!(found("{part}.{even}", "data.{wide}"), Common::None, "six digits begin with 0");
        assert_eq!(found("{even}", "{wide}"), Common::None);
        assert_eq!(found("{even}", "{big}"), name("1000000"));
        assert_eq!(found("{odd}", "{big}"), name("1000001"));
        assert_eq!(found("{even}.x", "{big}.y"), Common::None);
        assert_eq!(found("x{wide}", "x00{words}"), Common::None);
        assert_eq!(found("{words}c", "ab{words}"), Common::None);
        assert_eq!(found("{words}b", "ab{words}"), name("abb"));
        assert_eq!(found("{part}-{even}", "data-7"), Common::None);
        assert_eq!(found("{part}-{even}", "data-8"), name("data-8"));
    }

    #[test]
    fn forbidden_names_are_found_as_common_ones() {
        assert_eq!(found("{dots}", "."), Common::Name(".".into()));
        assert_eq!(found("{dots}", ".."), Common::Name("..".into()));
        assert_eq!(found("{part}", ".."), Common::None);
    }

    #[test]
    fn what_cannot_be_decided_is_said_to_be_unknown() {
        assert_eq!(found("{far}", "{near}"), Common::Unknown, "large steps are not compared");
        let mut budget = 3;
        let args = args();
        let parse = |text: &str| Pattern::parse(text, |_| Some(2)).expect("a good pattern");
        assert_eq!(common(&args, &[false; 9], &parse("{even}x"), &parse("1{even}y"), &mut budget), Common::Unknown);
    }
}
