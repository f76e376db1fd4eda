//! Reading the ranges, lists and paths of a formula. Not here: if they make a tree (`crate::formula`).

use super::args::{check_name, too_many};
use super::read::{Said, attributes};
use super::value::{Table, Value};
use super::{Defaults, Paths, Template};
use crate::fault::{Cause, Flaw};
use crate::formula::{Argument, Base, Deal, Formula, List, PathText, Range, Split, Subject, Values, WIDTH_MAX};
use crate::limits::{ARGS_MAX, NUMBER_MAX, PATHS_MAX};

const RANGE_KEYS: [&str; 7] = ["first", "last", "step", "width", "base", "split", "deal"];
const EXPECTED: &str = "a list of texts, or a range like { first = 0, last = 9 }";

pub(super) fn read(document: &Table<'_>, args: Option<Table<'_>>, defaults: &Defaults) -> Result<Paths, Flaw> {
    let (args, places) = args.map_or(Ok((Vec::new(), Vec::new())), |table| arguments(&table))?;
    let value = document.needs("paths", "say paths = [\"...\"]")?;
    let list = value.array("a list of paths")?;
    if list.is_empty() {
        return Err(value.wrong("at least one path"));
    }
    if list.len() > PATHS_MAX {
        let (found, max) = (list.len() as u64, PATHS_MAX as u64);
        let remedy = "use arguments, or a manifest";
        return Err(Flaw::new(Cause::TooMany { what: "paths", found, max, remedy }, value.at()));
    }
    let paths = list.iter().map(|item| Value { key: "paths".into(), value: item });
    let templates = paths.clone().map(|path| template(&path, defaults)).collect::<Result<Vec<Template>, Flaw>>()?;
    let texts: Vec<PathText> =
        templates.iter().map(|template| PathText { text: template.path.clone(), size: template.size }).collect();
    let tree = Formula::new(args, &texts).map_err(|(subject, cause)| {
        let at = match subject {
            Subject::Argument(at) => places[at],
            Subject::Path(at) => paths.clone().nth(at).map_or(0, |path| path.at()),
        };
        Flaw::new(cause, at)
    })?;
    Ok(Paths { tree, templates })
}

fn template(value: &Value<'_>, defaults: &Defaults) -> Result<Template, Flaw> {
    let (path, said) = match value.get().as_str() {
        Some(path) => (path, Said::default()),
        None => {
            let table = value.table("of a path", "a path, or a table with `path` and its attributes")?;
            table.knows(&["path", "mode", "uid", "gid", "mtime", "size", "contents"])?;
            let path = table.needs("path", "say path = \"...\"")?;
            (path.string("a path in quotes")?, attributes(&table, &["mode"])?)
        }
    };
    let is_dir = path.ends_with('/');
    let mut attributes = if is_dir { defaults.of_dir() } else { defaults.of_file() };
    attributes.mode = said.modes[0].unwrap_or(attributes.mode);
    attributes.uid = said.uid.or(attributes.uid);
    attributes.gid = said.gid.or(attributes.gid);
    attributes.mtime = said.mtime.or(attributes.mtime);
    if let (true, Some(at)) = (is_dir, said.content_at) {
        let why = "it ends in `/`, and directories have no `size` and no `contents`".to_string();
        let cause = Cause::Path { path: path.into(), why, remedy: "remove the key, or the `/`" };
        return Err(Flaw::new(cause, at));
    }
    Ok(Template { path: path.into(), attributes, size: said.size, contents: said.contents })
}

/// The arguments and their places in the text.
fn arguments(table: &Table<'_>) -> Result<(Vec<Argument>, Vec<usize>), Flaw> {
    let all = table.in_order();
    if let Some((_, at, _)) = all.get(ARGS_MAX) {
        return Err(Flaw::new(too_many(all.len()), *at));
    }
    let names: Vec<&str> = all.iter().map(|(name, ..)| *name).collect();
    let (mut args, mut places) = (Vec::new(), Vec::new());
    for (name, at, value) in &all {
        check_name(name, *at)?;
        let value = value.clone().named(format!("args.{name}"));
        let (values, split) = match value.get() {
            toml::de::DeValue::Array(_) => (Values::List(list(name, &value)?), None),
            toml::de::DeValue::Table(_) => {
                let table = value.table("of a range", EXPECTED)?;
                table.knows(&RANGE_KEYS)?;
                (Values::Range(range(name, &table)?), split(name, &table, &names)?)
            }
            _ => return Err(value.wrong(EXPECTED)),
        };
        args.push(Argument { name: name.to_string(), values, split });
        places.push(value.at());
    }
    let counts: Vec<u64> = args.iter().map(Argument::count).collect();
    for split in args.iter_mut().filter_map(|argument| argument.split.as_mut()) {
        split.parts = counts[split.over];
    }
    Ok((args, places))
}

fn list(name: &str, value: &Value<'_>) -> Result<List, Flaw> {
    let mut words: Vec<Box<[u8]>> = Vec::new();
    for item in value.array(EXPECTED)? {
        let item = Value { key: value.key.clone(), value: item };
        let word = item.string("a text in quotes")?;
        let why = match word {
            "" => Some("is empty"),
            word if word.contains('/') => Some("contains `/`, which separates names"),
            word if word.contains('\0') => Some("contains a NUL, which no name can have"),
            word if word.len() > loligo_types::limits::NAME_MAX => Some("is longer than 255 bytes"),
            _ => None,
        };
        let (name, value) = (name.to_string(), word.to_string());
        if let Some(why) = why {
            return Err(Flaw::new(Cause::ValueInName { name, value, why }, item.at()));
        }
        if words.iter().any(|known| **known == *word.as_bytes()) {
            return Err(Flaw::new(Cause::ValueTwice { name, value }, item.at()));
        }
        words.push(word.as_bytes().into());
    }
    if words.is_empty() {
        let cause = Cause::NoValues { name: name.into(), why: "the list is empty" };
        return Err(Flaw::new(cause, value.at()));
    }
    Ok(List::new(words))
}

fn range(name: &str, table: &Table<'_>) -> Result<Range, Flaw> {
    let number = |key: &'static str, least, most, default| match table.value(key) {
        Some(value) => value.named(format!("args.{name}.{key}")).number(least, most),
        None => Ok(default),
    };
    let first = number("first", 0, NUMBER_MAX, 0)?;
    table.needs("last", "say which number is the last one")?;
    let last = number("last", 0, NUMBER_MAX, 0)?;
    let step = number("step", 1, NUMBER_MAX, 1)?;
    let width = number("width", 0, u64::from(WIDTH_MAX), 0)? as u8;
    let base = match table.value("base") {
        Some(value) if value.clone().named(format!("args.{name}.base")).number(10, 16)? == 16 => Base::Hexadecimal,
        Some(value) if value.number(10, 16)? != 10 => {
            return Err(value.named(format!("args.{name}.base")).wrong("10 or 16"));
        }
        _ => Base::Decimal,
    };
    let distance = last.checked_sub(first).ok_or_else(|| {
        let cause = Cause::NoValues { name: name.into(), why: "`last` is less than `first`" };
        Flaw::new(cause, table.at)
    })?;
    let count = (distance / step).checked_add(1);
    let count = count.ok_or_else(|| Flaw::new(Cause::RangeOverflow { name: name.into() }, table.at))?;
    Ok(Range { first, step, count, width, base })
}

fn split(name: &str, table: &Table<'_>, names: &[&str]) -> Result<Option<Split>, Flaw> {
    let deal = table.value("deal");
    let Some(value) = table.value("split") else {
        return match deal {
            None => Ok(None),
            Some(value) => {
                let (name, why) = (name.to_string(), "there is a `deal` and no `split`".to_string());
                let cause = Cause::Split { name, why, remedy: "say split = \"ARGUMENT\", or remove `deal`" };
                Err(Flaw::new(cause, value.at()))
            }
        };
    };
    let value = value.named(format!("args.{name}.split"));
    let over = value.string("the name of an argument in quotes")?;
    let over = names.iter().position(|name| *name == over).ok_or_else(|| value.wrong("the name of an argument"))?;
    let deals = [("block", Deal::Block), ("cyclic", Deal::Cyclic)];
    let deal = deal.map(|value| value.named(format!("args.{name}.deal")).word(&deals));
    // The number of parts is known when all arguments have been read.
    Ok(Some(Split { over, deal: deal.transpose()?.unwrap_or(Deal::Block), parts: 1 }))
}
