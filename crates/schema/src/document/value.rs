//! Values of a TOML document that know their key and their place. Not here: the keys that there are.

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::fault::{Cause, Flaw, shown};
use crate::nearest;

/// A table of the document.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    pub table: &'a DeTable<'a>,
    /// Bytes before it.
    pub at: usize,
    /// Its name for errors, with a preposition.
    pub place: &'static str,
}

impl<'a> Table<'a> {
    /// Fails at the first key of the text that is not one of these.
    pub fn knows(&self, keys: &[&str]) -> Result<(), Flaw> {
        let unknown = self.table.keys().filter(|key| !keys.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else { return Ok(()) };
        let nearest = nearest::of(key.get_ref(), keys.iter().copied()).map(str::to_string);
        let (name, place) = (key.get_ref().to_string(), self.place);
        Err(Flaw::new(Cause::UnknownKey { key: name, place, nearest }, key.span().start))
    }

    pub fn value(&self, key: &str) -> Option<Value<'a>> {
        let (name, value) = self.table.iter().find(|(name, _)| name.get_ref() == key)?;
        Some(Value { key: name.get_ref().to_string(), value })
    }

    pub fn needs(&self, key: &'static str, remedy: &'static str) -> Result<Value<'a>, Flaw> {
        let missing = || Flaw::new(Cause::Missing { key, place: self.place, remedy }, self.at);
        self.value(key).ok_or_else(missing)
    }

    /// Its keys with their values, in the order of the text.
    pub fn in_order(&self) -> Vec<(&'a str, usize, Value<'a>)> {
        let value = |(name, value): (&'a Spanned<_>, _)| {
            let name: &Spanned<std::borrow::Cow<'a, str>> = name;
            (name.get_ref().as_ref(), name.span().start, Value { key: name.get_ref().to_string(), value })
        };
        let mut all: Vec<_> = self.table.iter().map(value).collect();
        all.sort_by_key(|(_, at, _)| *at);
        all
    }
}

/// A value of the document.
#[derive(Clone)]
pub(super) struct Value<'a> {
    /// Its key, or the path to it.
    pub key: String,
    pub value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Value<'a> {
    pub fn get(&self) -> &'a DeValue<'a> {
        self.value.get_ref()
    }

    /// Bytes before it.
    pub fn at(&self) -> usize {
        self.value.span().start
    }

    /// The same value under another name.
    pub fn named(mut self, key: String) -> Value<'a> {
        self.key = key;
        self
    }

    pub fn found(&self) -> String {
        match self.get() {
            DeValue::String(text) => format!("`{}`", shown(text)),
            DeValue::Boolean(value) => value.to_string(),
            DeValue::Integer(number) => shown(&number.to_string()),
            DeValue::Float(number) => match number.as_str().trim_start_matches(['+', '-']) {
                "nan" => "nan, which is no number".to_string(),
                "inf" => "infinity".to_string(),
                _ => "a fraction".to_string(),
            },
            DeValue::Datetime(_) => "a date".to_string(),
            DeValue::Array(_) => "a list".to_string(),
            DeValue::Table(_) => "a table".to_string(),
        }
    }

    pub fn wrong(&self, expected: impl Into<String>) -> Flaw {
        let (key, expected, found) = (self.key.clone(), expected.into(), self.found());
        Flaw::new(Cause::BadValue { key, expected, found }, self.at())
    }

    pub fn string(&self, expected: &str) -> Result<&'a str, Flaw> {
        self.get().as_str().ok_or_else(|| self.wrong(expected))
    }

    pub fn array(&self, expected: &str) -> Result<&'a DeArray<'a>, Flaw> {
        match self.get() {
            DeValue::Array(array) => Ok(array),
            _ => Err(self.wrong(expected)),
        }
    }

    pub fn table(&self, place: &'static str, expected: &str) -> Result<Table<'a>, Flaw> {
        match self.get() {
            DeValue::Table(table) => Ok(Table { table, at: self.at(), place }),
            _ => Err(self.wrong(expected)),
        }
    }

    /// A whole number from `least` to `most`, in any of TOML's bases.
    pub fn number(&self, least: u64, most: u64) -> Result<u64, Flaw> {
        let expected = || format!("a whole number from {least} to {most}");
        let DeValue::Integer(number) = self.get() else { return Err(self.wrong(expected())) };
        let parsed = u64::from_str_radix(number.as_str(), number.radix()).ok();
        parsed.filter(|number| (least..=most).contains(number)).ok_or_else(|| self.wrong(expected()))
    }

    /// One of few words.
    pub fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, Flaw> {
        let names: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        let expected = format!("one of {}", names.join(", "));
        let text = self.string(&expected)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        found.ok_or_else(|| self.wrong(expected))
    }
}
