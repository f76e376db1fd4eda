//! Tar archives, uncompressed: ustar, GNU and pax forms. A member becomes a slice of the archive, a sparse one several. Hard links become files of
//! their own with the same bytes. Headers are read by the crate `tar`, pax sparse maps and GNU ones in `sparse.rs`. Extended attributes are left out.

mod extended;
mod sparse;

use std::collections::{BTreeMap, BTreeSet};

use loligo_schema::{Attributes, Body, Slice};
use loligo_types::Time;
use tar::{EntryType, Header};

use crate::fault::{About, Cause, Fault};
use crate::name::path_of;
use crate::{Input, Options, Sink};
use extended::Extended;

/// Bytes of a block.
pub(crate) const BLOCK: u64 = 512;
/// Longest name in a header of its own (GNU), bytes.
const LONG_NAME_MAX: u64 = 64 << 10;

/// A member with everything that its headers say.
struct Member {
    /// Its place among the members.
    order: u64,
    header: Header,
    path: Vec<u8>,
    link: Vec<u8>,
    /// First byte of its content.
    data: u64,
    /// Bytes of its content in the archive.
    size: u64,
    /// Bytes of the map before it.
    map: u64,
    extended: Extended,
}

/// Indexes an archive.
///
/// # Errors
///
/// The first member that is refused, with the cause.
pub fn index(input: &Input<'_>, options: &Options, sink: &mut dyn Sink) -> Result<(), Fault> {
    let mut links: Vec<(u64, Vec<u8>, Vec<u8>)> = Vec::new();
    walk(input, &mut |member| {
        if member.header.entry_type() == EntryType::Link {
            links.push((member.order, member.path.clone(), member.link.clone()));
            return Ok(());
        }
        let Some((attributes, body)) = content(input, options, &member).about(&member.path)? else { return Ok(()) };
        add(sink, &member.path, attributes, body)
    })?;
    if links.is_empty() {
        return Ok(());
    }
    // The files that links name, by name: every one of that name, with its place. A later member of a link's own name takes its place.
    let wanted: BTreeSet<&[u8]> = links.iter().map(|(_, _, target)| plain(target)).collect();
    let own: BTreeSet<&[u8]> = links.iter().map(|(_, path, _)| plain(path)).collect();
    let mut targets: BTreeMap<Vec<u8>, Vec<(u64, Attributes, Body)>> = BTreeMap::new();
    let mut last: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    walk(input, &mut |member| {
        let name = plain(&member.path);
        if member.header.entry_type() == EntryType::Link {
            return Ok(());
        }
        if own.contains(name) {
            last.insert(name.to_vec(), member.order);
        }
        if wanted.contains(name)
            && let Some((attributes, Some(body))) = content(input, options, &member).about(&member.path)?
        {
            targets.entry(name.to_vec()).or_default().push((member.order, attributes, body));
        }
        Ok(())
    })?;
    for (order, path, target) in &links {
        let shown = || String::from_utf8_lossy(target).into_owned();
        let known = targets.get(plain(target)).map_or(&[][..], Vec::as_slice);
        let before = known.iter().filter(|(of, ..)| of < order).max_by_key(|(of, ..)| *of);
        let Some((_, attributes, body)) = before.cloned() else {
            let cause = if known.is_empty() { Cause::DanglingLink(shown()) } else { Cause::ForwardLink(shown()) };
            return Err(Fault::new(path, cause));
        };
        if last.get(plain(path)).is_none_or(|last| last < order) {
            add(sink, path, attributes, Some(body.clone()))?;
        }
        // A link may be to a link before it.
        if wanted.contains(plain(path)) {
            targets.entry(plain(path).to_vec()).or_default().push((*order, attributes, body));
        }
    }
    Ok(())
}

/// A path without `./` in front: links name members with or without it.
fn plain(path: &[u8]) -> &[u8] {
    let mut path = path;
    while let Some(rest) = path.strip_prefix(b"./") {
        path = rest;
    }
    path
}

fn add(sink: &mut dyn Sink, path: &[u8], attributes: Attributes, body: Option<Body>) -> Result<(), Fault> {
    let Some((path_in, is_dir)) = path_of(path).about(path)? else { return Ok(()) };
    // Archives older than ustar mark a directory by the slash alone.
    let body = if is_dir { None } else { body };
    sink.add(path_in, attributes, body).about(path)
}

/// Attributes and content of a member that is no hard link. None: it is no entry.
fn content(input: &Input<'_>, options: &Options, member: &Member) -> Result<Option<(Attributes, Option<Body>)>, Cause> {
    let header = &member.header;
    let raw = header.as_old();
    // Writers leave out what they do not know.
    let number = |field: &[u8], number: std::io::Result<u64>, what| {
        let is_blank = field.iter().all(|byte| *byte == 0 || *byte == b' ');
        if is_blank { Ok(0) } else { number.map_err(|_| Cause::Number(what)) }
    };
    let mode = number(&raw.mode, header.mode().map(u64::from), "its mode")? as u32;
    let uid = member.extended.uid.map_or_else(|| number(&raw.uid, header.uid(), "its owner"), Ok)?;
    let gid = member.extended.gid.map_or_else(|| number(&raw.gid, header.gid(), "its group"), Ok)?;
    let seconds = || {
        let seconds = number(&raw.mtime, header.mtime(), "its time")?;
        let is_near = i64::try_from(seconds).ok().filter(|seconds| *seconds <= 9_200_000_000);
        is_near.map(|seconds| Time::new(seconds, 0)).ok_or(Cause::Number("its time"))
    };
    let mtime = member.extended.mtime.map_or_else(seconds, Ok)?;
    let attributes = || options.attributes(mode, uid, gid, Some(mtime));
    let whole = |size| {
        let slice = Slice { source: input.source(), offset: member.data, len: size };
        Body::Slices(if size == 0 { [].into() } else { [slice].into() })
    };
    Ok(Some(match header.entry_type() {
        EntryType::Regular | EntryType::Continuous => match &member.extended.sparse {
            Some(sparse) => (attributes()?, Some(sparse.body(input, member.data, member.size)?)),
            None => (attributes()?, Some(whole(member.size))),
        },
        EntryType::Directory => (attributes()?, None),
        // Its own mode means nothing.
        EntryType::Symlink => (
            Attributes { mode: 0o777, ..options.attributes(0, uid, gid, Some(mtime))? },
            Some(Body::Link(member.link.as_slice().into())),
        ),
        EntryType::GNUSparse => {
            (attributes()?, Some(sparse::gnu(input, header, member.data, member.map, member.size)?))
        }
        EntryType::Char | EntryType::Block => return Err(Cause::Special("device")),
        EntryType::Fifo => return Err(Cause::Special("named pipe")),
        other => match other.as_byte() {
            // A label of the archive.
            b'V' => return Ok(None),
            b'M' => return Err(Cause::Volumes),
            b'D' => return Err(Cause::Special("list of a directory of an incremental archive")),
            _ => return Err(Cause::Special("member of an unknown kind")),
        },
    }))
}

/// Shows every member in order.
fn walk(input: &Input<'_>, visit: &mut dyn FnMut(Member) -> Result<(), Fault>) -> Result<(), Fault> {
    let mut at = 0;
    let mut order = 0;
    let mut global = Extended::default();
    let mut next = Pending::default();
    while at < input.len() {
        input.at(at);
        let mut block = [0; BLOCK as usize];
        input.read("a header", at, &mut block).about(b"")?;
        if block == [0; BLOCK as usize] {
            // The end; what is behind it belongs to nothing.
            return next.must_be_empty();
        }
        let header = Header::from_byte_slice(&block).clone();
        if at == 0 && !looks_like_tar(&block) {
            return Err(Fault::new(b"", Cause::Format("tar archive")));
        }
        let own = header.path_bytes().into_owned();
        check_sum(&block).about(&own)?;
        let size = header.entry_size().map_err(|_| Cause::Number("its size")).about(&own)?;
        let mut data = at + BLOCK;
        let read = |what, max: u64| -> Result<Vec<u8>, Cause> {
            if size > max {
                return Err(Cause::TooLong { what, found: size, max });
            }
            let mut bytes = vec![0; size as usize];
            input.read(what, data, &mut bytes)?;
            Ok(bytes)
        };
        match header.entry_type() {
            EntryType::GNULongName => next.path = Some(text(read("a long name", LONG_NAME_MAX).about(&own)?)),
            EntryType::GNULongLink => next.link = Some(text(read("a long target", LONG_NAME_MAX).about(&own)?)),
            EntryType::XHeader => {
                let bytes = read("an extended header", extended::MAX).about(&own)?;
                next.extended = Some(Extended::read(&bytes).about(&own)?);
            }
            EntryType::XGlobalHeader => {
                let bytes = read("an extended header", extended::MAX).about(&own)?;
                global = global.over(Extended::read(&bytes).about(&own)?);
            }
            kind => {
                let pending = std::mem::take(&mut next);
                let extended = global.clone().over(pending.extended.unwrap_or_default());
                let path = extended.path.clone().or(pending.path).unwrap_or(own);
                let link = header.link_name_bytes().map(|link| link.into_owned()).unwrap_or_default();
                let link = extended.link.clone().or(pending.link).unwrap_or(link);
                // Links and directories have no content, whatever their headers say.
                let has_content = !matches!(kind, EntryType::Link | EntryType::Symlink | EntryType::Directory);
                let size = if has_content { extended.size.unwrap_or(size) } else { 0 };
                let map = match kind {
                    EntryType::GNUSparse => sparse::continuation(input, &header, data).about(&path)?,
                    _ => 0,
                };
                data += map;
                let end = data.checked_add(size).filter(|end| *end <= input.len());
                let end = end.ok_or(Cause::Truncated {
                    what: "its content",
                    end: data.saturating_add(size),
                    len: input.len(),
                });
                at = end.about(&path)?.next_multiple_of(BLOCK);
                visit(Member { order, header, path, link, data, size, map, extended })?;
                order += 1;
                continue;
            }
        }
        at = (data + size).next_multiple_of(BLOCK);
    }
    next.must_be_empty()
}

/// Headers that belong to the next member.
#[derive(Default)]
struct Pending {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    extended: Option<Extended>,
}

impl Pending {
    fn must_be_empty(&self) -> Result<(), Fault> {
        if self.path.is_none() && self.link.is_none() && self.extended.is_none() {
            return Ok(());
        }
        let cause = Cause::Contradiction { what: "members behind an extended header", expected: 1, found: 0 };
        Err(Fault::new(b"", cause))
    }
}

/// Bytes up to a NUL.
fn text(mut bytes: Vec<u8>) -> Vec<u8> {
    let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(len);
    bytes
}

fn looks_like_tar(block: &[u8; BLOCK as usize]) -> bool {
    // Older forms have no magic, but a checksum.
    block[257..262] == *b"ustar" || check_sum(block).is_ok()
}

/// The sum of all bytes, its own taken as blanks; some writers added them as signed numbers.
fn check_sum(block: &[u8; BLOCK as usize]) -> Result<(), Cause> {
    let of = |at: usize| if (148..156).contains(&at) { b' ' } else { block[at] };
    let plain: u32 = (0..block.len()).map(|at| u32::from(of(at))).sum();
    let signed: i32 = (0..block.len()).map(|at| i32::from(of(at) as i8)).sum();
    let said = Header::from_byte_slice(block).cksum().map_err(|_| Cause::Checksum)?;
    if said == plain || i32::try_from(said) == Ok(signed) { Ok(()) } else { Err(Cause::Checksum) }
}
