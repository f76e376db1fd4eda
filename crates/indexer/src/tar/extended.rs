//! Extended (pax) headers: records of length, key and value that override a member's header. Not here: sparse maps.

use loligo_types::Time;

use super::sparse::Pax;
use crate::fault::Cause;

/// Longest extended header, bytes.
pub(super) const MAX: u64 = 1 << 20;

/// Overriding values.
#[derive(Clone, Debug, Default)]
pub(super) struct Extended {
    pub path: Option<Vec<u8>>,
    pub link: Option<Vec<u8>>,
    pub size: Option<u64>,
    pub uid: Option<u64>,
    pub gid: Option<u64>,
    pub mtime: Option<Time>,
    pub sparse: Option<Pax>,
}

impl Extended {
    /// Reads records `LENGTH KEY=VALUE\n`, each of which must end where its length says.
    pub fn read(bytes: &[u8]) -> Result<Extended, Cause> {
        let mut out = Extended::default();
        let mut sparse = Pax::default();
        let mut rest = bytes;
        while !rest.is_empty() && rest[0] != 0 {
            let wrong = || Cause::Number("the length of a record of its extended header");
            let blank = rest.iter().take(20).position(|byte| *byte == b' ').ok_or_else(wrong)?;
            let len = number(&rest[..blank]).and_then(|len| usize::try_from(len).ok()).ok_or_else(wrong)?;
            let record = rest.get(..len).filter(|record| record.len() > blank + 2).ok_or_else(wrong)?;
            let record = record[blank + 1..].strip_suffix(b"\n").ok_or_else(wrong)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(wrong)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            let decimal = |what| number(value).ok_or(Cause::Number(what));
            match key {
                b"path" => out.path = Some(value.to_vec()),
                b"linkpath" => out.link = Some(value.to_vec()),
                b"size" => out.size = Some(decimal("its size")?),
                b"uid" => out.uid = Some(decimal("its owner")?),
                b"gid" => out.gid = Some(decimal("its group")?),
                b"mtime" => out.mtime = Some(time(value).ok_or(Cause::Number("its time"))?),
                key if key.starts_with(b"GNU.sparse.") => sparse.set(&key[b"GNU.sparse.".len()..], value)?,
                _ => {}
            }
            rest = &rest[len..];
        }
        if let Some(name) = sparse.name.take() {
            out.path = Some(name);
        }
        out.sparse = sparse.is_sparse().then_some(sparse);
        Ok(out)
    }

    /// These values, overridden by others.
    pub fn over(self, other: Extended) -> Extended {
        Extended {
            path: other.path.or(self.path),
            link: other.link.or(self.link),
            size: other.size.or(self.size),
            uid: other.uid.or(self.uid),
            gid: other.gid.or(self.gid),
            mtime: other.mtime.or(self.mtime),
            sparse: other.sparse.or(self.sparse),
        }
    }
}

/// A decimal number of at most 63 bits.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let number: u64 = digits.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()?;
    (number <= i64::MAX as u64).then_some(number)
}

/// Seconds with a fraction, maybe negative.
fn time(text: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_negative = whole.starts_with('-');
    let seconds: i64 = whole.parse().ok()?;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) || seconds.abs() > 9_200_000_000 {
        return None;
    }
    let digits: String = fraction.chars().chain(std::iter::repeat('0')).take(9).collect();
    let nanos: i64 = digits.parse().ok()?;
    Some(Time(seconds * 1_000_000_000 + if is_negative { -nanos } else { nanos }))
}
