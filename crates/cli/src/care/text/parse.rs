//! Lines to records. Strict: what `render` does not write is refused, with words that say why.

use std::collections::BTreeMap;

use loligo_types::{Event, Frag, Ino, Inode, Kind, Layout, LookupLease, Name, Placement, Time, limits};

use super::escape::unescape;
use super::{acl, kind_of};

/// The record of a line.
pub fn parse(line: &str) -> Result<Event, String> {
    let mut words = line.split(' ');
    let event = match words.next() {
        Some("inode") => parse_inode(&mut words)?,
        Some("entry") => parse_entry(&mut words)?,
        Some("xattr") => parse_xattr(&mut words)?,
        Some("data") => parse_data(&mut words)?,
        Some("next-ino") => Event::NextIno(ino(&mut words, "the number")?),
        Some(word) => return Err(format!("`{word}` is no line of a dump")),
        None => return Err("an empty line".to_string()),
    };
    match words.next() {
        None => Ok(event),
        Some(word) => Err(format!("`{word}` is too much")),
    }
}

type Words<'a> = std::str::Split<'a, char>;

fn next<'a>(words: &mut Words<'a>, what: &str) -> Result<&'a str, String> {
    words.next().ok_or_else(|| format!("{what} is missing"))
}

fn ino(words: &mut Words<'_>, what: &str) -> Result<Ino, String> {
    let word = next(words, what)?;
    match word.parse() {
        Ok(0) | Err(_) => Err(format!("{what} `{word}` is no inode number")),
        Ok(n) => Ok(Ino(n)),
    }
}

fn bytes(words: &mut Words<'_>, what: &str, max: usize) -> Result<Vec<u8>, String> {
    let word = next(words, what)?;
    let bytes = unescape(word).ok_or_else(|| format!("{what} `{word}` is not escaped as it must be"))?;
    if bytes.len() > max {
        return Err(format!("{what} has {} bytes, the most is {max}", bytes.len()));
    }
    Ok(bytes)
}

fn kind(words: &mut Words<'_>) -> Result<Kind, String> {
    let word = next(words, "the kind")?;
    kind_of(word).ok_or_else(|| format!("`{word}` is no kind of file"))
}

fn parse_entry(words: &mut Words<'_>) -> Result<Event, String> {
    let dir = ino(words, "the directory")?;
    let name = bytes(words, "the name", limits::NAME_MAX)?;
    let name = Name::new(&name).map_err(|e| format!("the name: {e}"))?;
    Ok(Event::Entry { dir, name, ino: ino(words, "the inode")?, kind: kind(words)?, remote: false })
}

fn parse_xattr(words: &mut Words<'_>) -> Result<Event, String> {
    let ino = ino(words, "the inode")?;
    let name = bytes(words, "the name", limits::XATTR_NAME_MAX)?;
    if name.is_empty() {
        return Err("the name is empty".to_string());
    }
    let value = bytes(words, "the value", limits::XATTR_VALUE_MAX)?;
    Ok(Event::Xattr { ino, name: name.into(), value: value.into() })
}

fn parse_data(words: &mut Words<'_>) -> Result<Event, String> {
    let ino = ino(words, "the inode")?;
    Ok(Event::Inline { ino, data: bytes(words, "the data", limits::INLINE_MAX)?.into() })
}

/// The `name=value` words of a line, each taken once.
struct Fields<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Fields<'a> {
    fn new(words: &mut Words<'a>) -> Result<Fields<'a>, String> {
        let mut fields = BTreeMap::new();
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("`{word}` is no name=value"))?;
            if fields.insert(name, value).is_some() {
                return Err(format!("{name} is there twice"));
            }
        }
        Ok(Fields(fields))
    }

    fn optional<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, String> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| format!("{name}=`{value}` cannot be understood")),
        }
    }

    fn must<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, String> {
        self.optional(name, read)?.ok_or_else(|| format!("{name} is missing"))
    }

    fn number<T: std::str::FromStr>(&mut self, name: &str) -> Result<T, String> {
        self.must(name, |value| value.parse().ok())
    }
}

fn parse_inode(words: &mut Words<'_>) -> Result<Event, String> {
    let ino = ino(words, "the inode")?;
    let kind = kind(words)?;
    let mut fields = Fields::new(words)?;
    let f = &mut fields;
    let mode = f.must("mode", |value| u16::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o7777))?;
    let (uid, gid) = (f.number("uid")?, f.number("gid")?);
    let parent = Ino(f.number("parent")?);
    let mut inode = Inode::new(ino, kind, mode, uid, gid, parent, Time(0));
    inode.nlink = f.number("nlink")?;
    inode.size = f.must("size", |value| value.parse().ok().filter(|size| *size <= limits::FILE_SIZE_MAX))?;
    for (name, at) in [
        ("atime", &mut inode.atime),
        ("mtime", &mut inode.mtime),
        ("ctime", &mut inode.ctime),
        ("btime", &mut inode.btime),
    ] {
        *at = f.must(name, time)?;
    }
    inode.change = f.number("change")?;
    if kind == Kind::File {
        inode.inline = f.must("data", |value| match value {
            "inline" => Some(true),
            "objects" => Some(false),
            _ => None,
        })?;
    }
    if let Some(rdev @ 1..) = f.optional("rdev", |value| value.parse().ok())? {
        inode.extra_mut().rdev = rdev;
    }
    inode.cuts = f.optional("cuts", |value| value.parse().ok())?.unwrap_or(0);
    inode.has_xattrs = f.optional("xattrs", |value| value.parse::<u32>().ok())?.is_some_and(|n| n > 0);
    rare(f, &mut inode)?;
    match fields.0.first_key_value() {
        None => Ok(Event::Inode(Box::new(inode))),
        Some((name, _)) => Err(format!("{name} is not known")),
    }
}

fn rare(f: &mut Fields<'_>, inode: &mut Inode) -> Result<(), String> {
    let target = f.optional("target", |value| unescape(value).filter(|bytes| bytes.len() <= limits::SYMLINK_MAX))?;
    match target {
        Some(target) if inode.kind == Kind::Symlink => inode.extra_mut().symlink = Some(target.into()),
        None if inode.kind == Kind::Symlink => return Err("target is missing".to_string()),
        None => {}
        Some(_) => return Err("target is for symlinks only".to_string()),
    }
    if let Some(list) = f.optional("acl", acl::parse)? {
        inode.extra_mut().acl = Some(list);
    }
    if let Some(list) = f.optional("default-acl", acl::parse)? {
        inode.extra_mut().default_acl = Some(list);
    }
    if let Some(object_size) = f.optional("object-size", object_size)? {
        inode.extra_mut().layout = Some(Layout { object_size });
    }
    let bits = f.optional("frag-bits", |value| value.parse().ok().filter(|bits| *bits <= Frag::BITS_MAX))?;
    let expected = f.optional("expected-entries", |value| {
        value.parse().ok().filter(|entries| (1..=limits::EXPECTED_ENTRIES_MAX).contains(entries))
    })?;
    let placement = f.optional("placement", |value| Placement::named(value.as_bytes()))?;
    let lease = f.optional("lookup-lease", |value| LookupLease::named(value.replace(',', " ").as_bytes()))?;
    let of_a_dir = bits.is_some() || expected.is_some() || placement.is_some() || lease.is_some();
    if inode.kind != Kind::Dir && of_a_dir {
        return Err("frag-bits, expected-entries, placement and lookup-lease are for directories only".to_string());
    }
    inode.frag_bits = bits.unwrap_or(0);
    if let Some(expected) = expected {
        inode.extra_mut().expected_entries = expected;
    }
    if let Some(placement) = placement {
        inode.extra_mut().placement = placement;
    }
    if let Some(lease) = lease {
        inode.extra_mut().lookup_lease = lease;
    }
    Ok(())
}

fn object_size(value: &str) -> Option<u32> {
    value.parse().ok().filter(|size: &u32| size.is_power_of_two() && (64 << 10..=1 << 30).contains(size))
}

fn time(text: &str) -> Option<Time> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (seconds, nanos) = text.split_once('.')?;
    if nanos.len() != 9 || !(seconds.bytes().chain(nanos.bytes()).all(|b| b.is_ascii_digit())) {
        return None;
    }
    let ns = seconds.parse::<i128>().ok()?.checked_mul(1_000_000_000)? + nanos.parse::<i128>().ok()?;
    i64::try_from(if negative { -ns } else { ns }).ok().map(Time)
}
