//! Zip archives whose members are stored without compression: a member becomes a slice of the archive. The directory is read by the crate
//! `zip`, which clears setuid, setgid and sticky bits. Compressed and encrypted members are refused by name.

use std::io::{Read, Seek};

use loligo_schema::{Body, Slice};
use loligo_types::Time;
use zip::{CompressionMethod, ZipArchive};

use crate::fault::{About, Cause, Fault};
use crate::name::path_of;
use crate::{Input, Options, Sink};

/// Longest target of a symbolic link, bytes.
const TARGET_MAX: u64 = loligo_types::limits::SYMLINK_MAX as u64;

/// Permission bits of members made without any.
const FILE_MODE: u32 = 0o644;
/// File types in the upper bits of a Unix mode.
const S_IFMT: u32 = 0o170_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;
const S_IFLNK: u32 = 0o120_000;

/// Indexes an archive.
///
/// # Errors
///
/// The first member that is refused, with the cause.
pub fn index(input: &Input<'_>, options: &Options, sink: &mut dyn Sink) -> Result<(), Fault> {
    let mut start = [0; 4];
    if input.len() < 22 || input.read("the head", 0, &mut start).is_err() || start[..2] != *b"PK" {
        return Err(Fault::new(b"", Cause::Format("zip archive")));
    }
    // The mark of the first volume of several.
    if start == *b"PK\x07\x08" {
        return Err(Fault::new(b"", Cause::Volumes));
    }
    let mut archive = ZipArchive::new(input.stream()).map_err(|error| fault(b"", &error))?;
    let mut ranges: Vec<(u64, u64, usize)> = Vec::with_capacity(archive.len());
    for at in 0..archive.len() {
        let range = member(&mut archive, at, input, options, sink)?;
        ranges.extend(range.map(|(start, end)| (start, end, at)));
    }
    // Members that share bytes: such an archive has more content than bytes.
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        let ((_, end, first), (start, _, second)) = (pair[0], pair[1]);
        if start < end {
            let name = |archive: &mut ZipArchive<_>, at| {
                let member = archive.by_index_raw(at);
                member.map_or_else(|_| Vec::new(), |member: zip::read::ZipFile<'_, _>| member.name_raw().to_vec())
            };
            let (first, second) = (name(&mut archive, first), name(&mut archive, second));
            let cause = Cause::Overlap(String::from_utf8_lossy(&first).into_owned());
            return Err(Fault::new(&second, cause));
        }
    }
    Ok(())
}

/// Adds a member; the bytes of the archive that are its header and content.
fn member<R: Read + Seek>(
    archive: &mut ZipArchive<R>,
    at: usize,
    input: &Input<'_>,
    options: &Options,
    sink: &mut dyn Sink,
) -> Result<Option<(u64, u64)>, Fault> {
    let mut member = archive.by_index_raw(at).map_err(|error| fault(format!("member {at}").as_bytes(), &error))?;
    let name = member.name_raw().to_vec();
    if std::str::from_utf8(&name).is_err() {
        return Err(Fault::new(&name, Cause::NotUtf8));
    }
    let Some((path, is_dir)) = path_of(&name).about(&name)? else { return Ok(None) };
    let kind = member.unix_mode().map_or(0, |mode| mode & S_IFMT);
    let mtime = member.last_modified().and_then(|date| time(&date));
    let permissions = member.unix_mode().map(|mode| mode & 0o7777);
    input.at(member.header_start());
    if is_dir || kind == S_IFDIR {
        let mode = permissions.unwrap_or(u32::from(options.dir.mode));
        let mut attributes = options.attributes(mode, 0, 0, mtime).about(&name)?;
        (attributes.uid, attributes.gid) = (None, None);
        sink.add(path, attributes, None).about(&name)?;
        return Ok(None);
    }
    if member.encrypted() {
        return Err(Fault::new(&name, Cause::Encrypted));
    }
    if member.compression() != CompressionMethod::Stored {
        return Err(Fault::new(&name, Cause::Compressed(member.compression().to_string())));
    }
    let (size, stored) = (member.size(), member.compressed_size());
    if size != stored {
        return Err(Fault::new(&name, Cause::Contradiction { what: "its size", expected: size, found: stored }));
    }
    let data = member.data_start().unwrap_or(0);
    let end = data.checked_add(size).filter(|end| *end <= input.len());
    let truncated = Cause::Truncated { what: "its content", end: data.saturating_add(size), len: input.len() };
    let end = end.ok_or(truncated).about(&name)?;
    check_header(input, &name, member.header_start(), data, size)?;
    let range = (member.header_start(), end);
    let mode = permissions.unwrap_or(FILE_MODE);
    let body = match kind {
        S_IFLNK if size > TARGET_MAX => {
            let cause = Cause::TooLong { what: "its target", found: size, max: TARGET_MAX };
            return Err(Fault::new(&name, cause));
        }
        S_IFLNK => {
            let mut target = Vec::new();
            let read = member.read_to_end(&mut target);
            read.map_err(|error| Cause::Io { offset: data, cause: error.to_string() }).about(&name)?;
            Body::Link(target.into())
        }
        0 | S_IFREG if size == 0 => Body::Slices([].into()),
        0 | S_IFREG => Body::Slices([Slice { source: input.source(), offset: data, len: size }].into()),
        _ => return Err(Fault::new(&name, Cause::Special("device, named pipe or socket"))),
    };
    let mode = if kind == S_IFLNK { 0o777 } else { mode };
    let mut attributes = options.attributes(mode, 0, 0, mtime).about(&name)?;
    // The format has no numbers of owners that all agree on.
    (attributes.uid, attributes.gid) = (None, None);
    sink.add(path, attributes, Some(body)).about(&name)?;
    Ok(Some(range))
}

/// Compares a member's own header with the directory: an archive may say one thing here and another there.
fn check_header(input: &Input<'_>, name: &[u8], start: u64, data: u64, size: u64) -> Result<(), Fault> {
    let mut head = [0; 30];
    input.read("its header", start, &mut head).about(name)?;
    let u16_at = |at: usize| u64::from(u16::from_le_bytes([head[at], head[at + 1]]));
    let u32_at = |at: usize| u16_at(at) | u16_at(at + 2) << 16;
    let differs = |what, expected, found| Err(Fault::new(name, Cause::Contradiction { what, expected, found }));
    if head[..4] != *b"PK\x03\x04" {
        return Err(Fault::new(name, Cause::Format("header of a member")));
    }
    if start + 30 + u16_at(26) + u16_at(28) != data {
        return differs("where its content begins", data, start + 30 + u16_at(26) + u16_at(28));
    }
    if u16_at(6) & 1 != 0 {
        return Err(Fault::new(name, Cause::Encrypted));
    }
    if u16_at(8) != 0 {
        return Err(Fault::new(name, Cause::Compressed(format!("method {}", u16_at(8)))));
    }
    // Sizes behind the content, or in the zip64 part: those of the directory count.
    let is_elsewhere = u16_at(6) & 8 != 0 || u32_at(18) == u64::from(u32::MAX) || u32_at(22) == u64::from(u32::MAX);
    if let Some(at) = [18, 22].into_iter().find(|at| !is_elsewhere && u32_at(*at) != size) {
        return differs("its size", size, u32_at(at));
    }
    let mut own = vec![0; u16_at(26) as usize];
    input.read("its name", start + 30, &mut own).about(name)?;
    if own != name {
        return differs("its name (bytes)", name.len() as u64, own.len() as u64);
    }
    Ok(())
}

fn fault(subject: &[u8], error: &zip::result::ZipError) -> Fault {
    let cause = match error {
        zip::result::ZipError::InvalidArchive(_) => Cause::Format("zip archive that is whole and sound"),
        other => Cause::Io { offset: 0, cause: other.to_string() },
    };
    Fault::new(subject, cause)
}

/// Dates of zip archives have no zone: they are taken for UTC.
fn time(date: &zip::DateTime) -> Option<Time> {
    let (year, month, day) = (i64::from(date.year()), i64::from(date.month()), i64::from(date.day()));
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let of_era = year.rem_euclid(400);
    let days =
        year.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day - 1;
    let seconds = i64::from(date.hour()) * 3600 + i64::from(date.minute()) * 60 + i64::from(date.second());
    Some(Time::new((days - 719_468) * 86_400 + seconds, 0))
}
