//! Arguments of a formula: lists of words and ranges of numbers, their values as text, and how a range is dealt out over another
//! argument. Everything here is arithmetic on indices; no value of a range is ever listed. Not here: names made of several values.

use crate::limits::NUMBER_MAX;

/// Digits that a range is written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// `0` to `9`.
    Decimal,
    /// `0` to `f`.
    Hexadecimal,
}

impl Base {
    pub(crate) fn radix(self) -> u64 {
        match self {
            Base::Decimal => 10,
            Base::Hexadecimal => 16,
        }
    }

    /// The number that a digit stands for.
    pub(crate) fn digit(self, byte: u8) -> Option<u64> {
        let value = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        (u64::from(value) < self.radix()).then_some(u64::from(value))
    }
}

/// Numbers `first`, `first + step`, ... : `count` of them, written with at least `width` digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Smallest number.
    pub first: u64,
    /// Distance of neighbours, at least 1.
    pub step: u64,
    /// Number of numbers, at least 1.
    pub count: u64,
    /// Fewest digits; shorter numbers get zeros in front.
    pub width: u8,
    /// Digits.
    pub base: Base,
}

impl Range {
    /// The largest number.
    pub fn last(&self) -> u64 {
        self.first + (self.count - 1) * self.step
    }

    fn digits(&self, number: u64) -> usize {
        let natural = number.checked_ilog(self.base.radix()).unwrap_or(0) as usize + 1;
        natural.max(usize::from(self.width))
    }

    /// The index of a number.
    pub fn index_of(&self, number: u64) -> Option<u64> {
        let distance = number.checked_sub(self.first)?;
        (distance % self.step == 0 && distance / self.step < self.count).then_some(distance / self.step)
    }

    fn print(&self, index: u64, out: &mut Vec<u8>) {
        let mut number = self.first + index * self.step;
        let radix = self.base.radix();
        let mut digits = [b'0'; 64];
        let mut at = digits.len();
        while number > 0 {
            at -= 1;
            digits[at] = b"0123456789abcdef"[(number % radix) as usize];
            number /= radix;
        }
        let least = usize::from(self.width).max(1);
        out.extend_from_slice(&digits[at.min(digits.len() - least)..]);
    }

    /// The index of a number as it is printed; no other form of it counts.
    fn read(&self, text: &[u8]) -> Option<u64> {
        let mut number = 0u64;
        for byte in text {
            number = number.checked_mul(self.base.radix())?.checked_add(self.base.digit(*byte)?)?;
        }
        (number <= NUMBER_MAX && text.len() == self.digits(number)).then(|| self.index_of(number)).flatten()
    }
}

/// Widest zero-padding of a number.
pub const WIDTH_MAX: u8 = 32;

/// Words, in the order in which they are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    words: Vec<Box<[u8]>>,
    /// Indices of the words, sorted by word.
    sorted: Vec<u32>,
    /// Lengths of words, ascending, each once.
    lengths: Vec<usize>,
}

impl List {
    /// Words that differ from each other.
    pub fn new(words: Vec<Box<[u8]>>) -> List {
        let mut sorted: Vec<u32> = (0..words.len() as u32).collect();
        sorted.sort_by(|a, b| words[*a as usize].cmp(&words[*b as usize]));
        let mut lengths: Vec<usize> = words.iter().map(|word| word.len()).collect();
        lengths.sort_unstable();
        lengths.dedup();
        List { words, sorted, lengths }
    }

    /// The words in the order of the document.
    pub fn words(&self) -> &[Box<[u8]>] {
        &self.words
    }

    /// The words in the order of their bytes.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = &[u8]> {
        self.sorted.iter().map(|index| &*self.words[*index as usize])
    }

    /// The index of a word.
    pub fn index_of(&self, word: &[u8]) -> Option<u64> {
        let found = self.sorted.binary_search_by(|index| (*self.words[*index as usize]).cmp(word));
        found.ok().map(|at| u64::from(self.sorted[at]))
    }
}

/// Values of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Words.
    List(List),
    /// Numbers.
    Range(Range),
}

/// Order in which a range is dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deal {
    /// Contiguous blocks whose sizes differ by at most one.
    Block,
    /// One after the other in turn.
    Cyclic,
}

/// A range dealt out over the values of another argument: each of those has a share of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The other argument.
    pub over: usize,
    /// Order.
    pub deal: Deal,
    /// Number of values of the other argument.
    pub parts: u64,
}

/// An argument: a name, its values, and how they are dealt out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name in paths.
    pub name: String,
    /// Its values.
    pub values: Values,
    /// The argument over which it is dealt out.
    pub split: Option<Split>,
}

impl Argument {
    /// Number of values of all shares together.
    pub fn count(&self) -> u64 {
        match &self.values {
            Values::List(list) => list.words.len() as u64,
            Values::Range(range) => range.count,
        }
    }

    /// Number of values that the first `parts` shares have together.
    pub(crate) fn before_part(&self, parts: u64) -> u64 {
        let Some(split) = self.split else { return 0 };
        let (count, all) = (self.count(), split.parts);
        match split.deal {
            Deal::Block => (u128::from(count) * u128::from(parts) / u128::from(all)) as u64,
            Deal::Cyclic => (count / all) * parts + parts.min(count % all),
        }
    }

    /// Number of values of one share.
    pub(crate) fn share(&self, part: u64) -> u64 {
        self.before_part(part + 1) - self.before_part(part)
    }

    /// The index of the value at a place of a share.
    pub(crate) fn of_share(&self, part: u64, local: u64) -> u64 {
        match self.split {
            Some(Split { deal: Deal::Cyclic, parts, .. }) => part + local * parts,
            _ => self.before_part(part) + local,
        }
    }

    /// The place of a value in a share, if it is in it.
    pub(crate) fn in_share(&self, part: u64, index: u64) -> Option<u64> {
        let local = match self.split {
            Some(Split { deal: Deal::Cyclic, parts, .. }) => {
                if index % parts != part {
                    return None;
                }
                index / parts
            }
            _ => index.checked_sub(self.before_part(part))?,
        };
        (local < self.share(part)).then_some(local)
    }

    /// The share that has a value.
    pub(crate) fn part_of(&self, index: u64) -> u64 {
        let Some(split) = self.split else { return 0 };
        match split.deal {
            Deal::Cyclic => index % split.parts,
            // The largest part whose block begins at or before the index: floor(p * n / m) <= i if and only if p * n < (i + 1) * m.
            Deal::Block => {
                let (count, parts) = (u128::from(self.count()), u128::from(split.parts));
                ((((u128::from(index) + 1) * parts - 1) / count).min(parts - 1)) as u64
            }
        }
    }

    /// Appends a value's text.
    pub(crate) fn print(&self, index: u64, out: &mut Vec<u8>) {
        match &self.values {
            Values::List(list) => out.extend_from_slice(&list.words[index as usize]),
            Values::Range(range) => range.print(index, out),
        }
    }

    /// Bytes of a value's text.
    pub(crate) fn len_of(&self, index: u64) -> usize {
        match &self.values {
            Values::List(list) => list.words[index as usize].len(),
            Values::Range(range) => range.digits(range.first + index * range.step),
        }
    }

    /// The index of the value with this text.
    pub(crate) fn read(&self, text: &[u8]) -> Option<u64> {
        match &self.values {
            Values::List(list) => list.index_of(text),
            Values::Range(range) => range.read(text),
        }
    }

    /// Bytes of the longest value.
    pub(crate) fn longest(&self) -> usize {
        match &self.values {
            Values::List(list) => list.lengths.last().copied().unwrap_or(0),
            Values::Range(range) => range.digits(range.last()),
        }
    }

    /// Bytes of every value, if they all have the same number.
    pub(crate) fn fixed_len(&self) -> Option<usize> {
        match &self.values {
            Values::List(list) => (list.lengths.len() == 1).then(|| list.lengths[0]),
            Values::Range(range) => {
                let (short, long) = (range.digits(range.first), range.digits(range.last()));
                (short == long).then_some(long)
            }
        }
    }

    /// True if no value followed by `literal` is the beginning of another value followed by it: a reader that goes from left to right
    /// knows where a value ends.
    pub(crate) fn ends_at(&self, literal: &[u8]) -> bool {
        if self.fixed_len().is_some() {
            return true;
        }
        match &self.values {
            Values::Range(range) => literal.first().is_some_and(|byte| range.base.digit(*byte).is_none()),
            Values::List(list) => {
                let mut all: Vec<Vec<u8>> = list.words.iter().map(|word| [&**word, literal].concat()).collect();
                all.sort();
                // A prefix is directly followed by one of the texts that begin with it.
                all.windows(2).all(|pair| !pair[1].starts_with(&pair[0]))
            }
        }
    }

    /// The value at the beginning of `text`, which `literal` follows: its index and its bytes. Of an argument for which
    /// [`Argument::ends_at`] holds there is at most one.
    pub(crate) fn read_first(&self, text: &[u8], literal: &[u8]) -> Option<(u64, usize)> {
        let try_len = |len: usize| {
            let (value, rest) = text.split_at_checked(len)?;
            rest.starts_with(literal).then(|| self.read(value)).flatten().map(|index| (index, len))
        };
        match (&self.values, self.fixed_len()) {
            (_, Some(len)) => try_len(len),
            (Values::Range(range), None) => {
                try_len(text.iter().take_while(|byte| range.base.digit(**byte).is_some()).count())
            }
            (Values::List(list), None) => list.lengths.iter().find_map(|len| try_len(*len)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u64, step: u64, count: u64, width: u8) -> Argument {
        let values = Values::Range(Range { first, step, count, width, base: Base::Decimal });
        Argument { name: "a".into(), values, split: None }
    }

    fn list(words: &[&str]) -> Argument {
        let words = words.iter().map(|word| word.as_bytes().into()).collect();
        Argument { name: "a".into(), values: Values::List(List::new(words)), split: None }
    }

    fn text(argument: &Argument, index: u64) -> String {
        let mut out = Vec::new();
        argument.print(index, &mut out);
        String::from_utf8(out).expect("digits")
    }

    #[test]
    fn a_printed_number_is_read_back_and_no_other_form_of_it_is() {
        let plain = range(0, 3, 40, 0);
        let wide = range(7, 1, 2000, 3);
        for argument in [&plain, &wide] {
            for index in 0..argument.count() {
                let shown = text(argument, index);
                assert_eq!(argument.read(shown.as_bytes()), Some(index));
                assert_eq!(shown.len(), argument.len_of(index));
                assert_eq!(argument.read(format!("0{shown}").as_bytes()), None);
            }
        }
        assert_eq!((text(&wide, 0), text(&wide, 993)), ("007".into(), "1000".into()));
        for wrong in ["", "1", "-3", "+3", "3 ", "120", "99999999999999999999999"] {
            assert_eq!(plain.read(wrong.as_bytes()), None, "{wrong}");
        }
        let hex = Range { first: 250, step: 1, count: 10, width: 0, base: Base::Hexadecimal };
        let hex = Argument { name: "h".into(), values: Values::Range(hex), split: None };
        assert_eq!((text(&hex, 6), hex.read(b"100"), hex.read(b"FF")), ("100".into(), Some(6), None));
    }

    #[test]
    fn shares_are_disjoint_and_cover_the_range_in_both_orders() {
        for (count, parts) in [(10, 3), (3, 10), (1000, 7), (7, 7), (1, 1), (5, 1)] {
            for deal in [Deal::Block, Deal::Cyclic] {
                let mut argument = range(0, 1, count, 0);
                argument.split = Some(Split { over: 0, deal, parts });
                let mut seen = vec![false; count as usize];
                for part in 0..parts {
                    for local in 0..argument.share(part) {
                        let index = argument.of_share(part, local);
                        assert!(!std::mem::replace(&mut seen[index as usize], true));
                        assert_eq!((argument.in_share(part, index), argument.part_of(index)), (Some(local), part));
                    }
                    let (small, large) = (count / parts, count.div_ceil(parts));
                    assert!((small..=large).contains(&argument.share(part)));
                }
                assert!(seen.iter().all(|seen| *seen) && argument.before_part(parts) == count);
            }
        }
    }

    #[test]
    fn the_end_of_a_value_is_known_from_its_length_the_digits_or_the_literal_behind_it() {
        assert!(range(10, 1, 90, 0).ends_at(b"5") && !range(10, 1, 91, 0).ends_at(b"5"));
        assert!(range(1, 1, 100, 0).ends_at(b".") && !range(1, 1, 100, 0).ends_at(b""));
        assert!(list(&["a", "b"]).ends_at(b"") && !list(&["a", "ab"]).ends_at(b""));
        assert!(list(&["a", "ab"]).ends_at(b".") && !list(&["a", "a.b"]).ends_at(b"."));
        assert_eq!(list(&["a", "ab"]).read_first(b"ab.x", b"."), Some((1, 2)));
        assert_eq!(range(1, 1, 100, 0).read_first(b"12.x", b"."), Some((11, 2)));
        assert_eq!(range(1, 1, 100, 0).read_first(b"12x", b"."), None);
    }
}
