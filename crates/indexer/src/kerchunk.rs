//! Reference files of kerchunk, versions 0 and 1: the keys of a Zarr store, each with its bytes or with a part of another file. A key becomes a
//! file. Texts are kept in the manifest, `base64:` ones decoded. Templates of version 1 are filled in; generators and calls are not, because they are programs.

use std::collections::BTreeMap;
use std::fmt;

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine, alphabet};
use loligo_schema::Body;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::fault::{About, Cause, Fault};
use crate::name::path_of;
use crate::{Input, Options, Sink, Sources, sources};

/// Longest chain of templates in a template.
const DEPTH_MAX: usize = 4;

/// Indexes a reference file. Relative paths of sources are passed on as they are.
///
/// # Errors
///
/// The first key that is refused, with the cause.
pub fn index(
    input: &Input<'_>,
    options: &Options,
    sources: &mut dyn Sources,
    sink: &mut dyn Sink,
) -> Result<(), Fault> {
    let mut head = Head::default();
    read(input, HeadSeed(&mut head))?;
    if head.has_generators {
        return Err(Fault::new(b"gen", Cause::Kerchunk("it is a program that makes references".into())));
    }
    match &head.version {
        None => {}
        Some(Value::Number(version)) if version.as_u64() == Some(1) => {}
        Some(other) => return Err(Fault::new(b"version", Cause::Kerchunk(format!("version {other} is not known")))),
    }
    let mut failed = None;
    let is_v1 = head.version.is_some();
    let mut each = |key: &str, value: Value| {
        let result = reference(key, &value, &head.templates, options, sources, sink).about(key.as_bytes());
        result.map_err(|fault| failed = Some(fault)).is_ok()
    };
    let result = read(input, RefsSeed { each: &mut each, is_v1 });
    match failed {
        Some(fault) => Err(fault),
        None => result,
    }
}

fn read<'i>(input: &'i Input<'_>, seed: impl DeserializeSeed<'i>) -> Result<(), Fault> {
    let mut json = serde_json::Deserializer::from_reader(std::io::BufReader::with_capacity(64 << 10, input.stream()));
    let result = seed.deserialize(&mut json).map(drop).and_then(|()| json.end());
    result.map_err(|error| Fault::new(b"", Cause::Json(error.to_string())))
}

/// Keys that have to be known before the references are read.
#[derive(Default)]
struct Head {
    version: Option<Value>,
    templates: BTreeMap<String, String>,
    has_generators: bool,
}

struct HeadSeed<'a>(&'a mut Head);

impl<'de> DeserializeSeed<'de> for HeadSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for HeadSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of references")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "version" => self.0.version = Some(map.next_value()?),
                "templates" => self.0.templates = map.next_value()?,
                "gen" => {
                    self.0.has_generators = map.next_value::<Value>()?.as_array().is_none_or(|all| !all.is_empty())
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Shows every reference; stops where one is refused.
struct RefsSeed<'a> {
    each: &'a mut dyn FnMut(&str, Value) -> bool,
    is_v1: bool,
}

impl<'de> DeserializeSeed<'de> for RefsSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RefsSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of references")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if self.is_v1 && key == "refs" {
                map.next_value_seed(RefsSeed { each: &mut *self.each, is_v1: false })?;
            } else if self.is_v1 {
                map.next_value::<IgnoredAny>()?;
            } else if !(self.each)(&key, map.next_value()?) {
                return Err(serde::de::Error::custom("refused"));
            }
        }
        Ok(())
    }
}

fn reference(
    key: &str,
    value: &Value,
    templates: &BTreeMap<String, String>,
    options: &Options,
    sources: &mut dyn Sources,
    sink: &mut dyn Sink,
) -> Result<(), Cause> {
    let Some((path, is_dir)) = path_of(key.as_bytes())? else { return Err(Cause::NoPath) };
    if is_dir {
        return Err(Cause::NoPath);
    }
    let body = match value {
        Value::String(text) => Body::Bytes(match text.strip_prefix("base64:") {
            Some(encoded) => base64(encoded).ok_or(Cause::Number("its base64 text"))?.into(),
            None => text.as_bytes().into(),
        }),
        // Documents that are inlined as they are.
        Value::Object(_) => Body::Bytes(value.to_string().into_bytes().into()),
        Value::Array(parts) => {
            let url = parts.first().and_then(Value::as_str).ok_or(Cause::Json("a reference without a file".into()))?;
            let url = filled(url, templates, 0)?;
            let number = |at: usize, what| parts[at].as_u64().ok_or(Cause::Number(what));
            let (offset, len) = match parts.len() {
                1 => (0, None),
                3 => (number(1, "its offset")?, Some(number(2, "its length")?)),
                _ => return Err(Cause::Json("a reference has one or three parts".into())),
            };
            let slice = sources::slice(sources, local(&url)?.as_bytes(), offset, len)?;
            Body::Slices(if slice.len == 0 { [].into() } else { [slice].into() })
        }
        _ => return Err(Cause::Json("a reference is a text or a list".into())),
    };
    Ok(sink.add(path, options.file, Some(body))?)
}

/// The path in a URL of a local file.
fn local(url: &str) -> Result<&str, Cause> {
    let path = url.strip_prefix("file://").or_else(|| url.strip_prefix("local://")).unwrap_or(url);
    if path.contains("://") || path.is_empty() {
        return Err(Cause::Remote(url.chars().take(120).collect()));
    }
    Ok(path)
}

/// A text with `{{name}}` replaced by its template.
fn filled(text: &str, templates: &BTreeMap<String, String>, depth: usize) -> Result<String, Cause> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{{") {
        let (name, after) = behind.split_once("}}").ok_or(Cause::Kerchunk("`{{` has no partner".into()))?;
        let name = name.trim();
        if !name.chars().all(|c| c.is_alphanumeric() || c == '_') || depth == DEPTH_MAX {
            let shown: String = name.chars().take(60).collect();
            return Err(Cause::Kerchunk(format!("`{{{{{shown}}}}}` is a program")));
        }
        let template = templates.get(name).ok_or_else(|| Cause::Kerchunk(format!("there is no template `{name}`")))?;
        out.push_str(before);
        out.push_str(&filled(template, templates, depth + 1)?);
        if out.len() > loligo_types::limits::SYMLINK_MAX {
            let max = loligo_types::limits::SYMLINK_MAX as u64;
            return Err(Cause::TooLong { what: "its URL", found: out.len() as u64, max });
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Bytes of a base64 text (RFC 4648) of either alphabet, with or without padding; blanks are skipped.
fn base64(text: &str) -> Option<Vec<u8>> {
    const ANY_PADDING: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let one_alphabet = |byte| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => byte,
    };
    let text: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).map(one_alphabet).collect();
    GeneralPurpose::new(&alphabet::STANDARD, ANY_PADDING).decode(text).ok()
}
