//! Sparse members: the map of their pieces in the old GNU form (in the header and blocks behind it) and in the pax forms 0.0, 0.1 and 1.0 (in
//! the extended header, or before the content). The pieces become slices, the gaps zeros.

use loligo_schema::manifest::SLICES_MAX;
use loligo_schema::{Body, Slice};
use tar::{GnuExtSparseHeader, Header};

use super::BLOCK;
use super::extended::number;
use crate::Input;
use crate::fault::Cause;

/// Blocks of map that are read behind a header: more than the slices that a file may have.
const MAP_BLOCKS_MAX: usize = SLICES_MAX / 10;

/// Values of extended headers about a sparse member.
#[derive(Clone, Debug, Default)]
pub(super) struct Pax {
    pub name: Option<Vec<u8>>,
    major: Option<u64>,
    minor: Option<u64>,
    real: Option<u64>,
    map: Vec<u64>,
    has_map: bool,
}

impl Pax {
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Cause> {
        let decimal = || number(value).ok_or(Cause::Number("its sparse map"));
        match key {
            b"name" => self.name = Some(value.to_vec()),
            b"major" => self.major = Some(decimal()?),
            b"minor" => self.minor = Some(decimal()?),
            b"realsize" | b"size" => self.real = Some(decimal()?),
            b"offset" | b"numbytes" => {
                self.has_map = true;
                self.push(decimal()?)?;
            }
            b"map" => {
                self.has_map = true;
                for part in value.split(|byte| *byte == b',').filter(|part| !part.is_empty()) {
                    self.push(number(part).ok_or(Cause::Number("its sparse map"))?)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn push(&mut self, number: u64) -> Result<(), Cause> {
        if self.map.len() == 2 * SLICES_MAX {
            let (found, max) = (self.map.len() as u64 / 2 + 1, SLICES_MAX as u64);
            return Err(Cause::TooLong { what: "its sparse map", found, max });
        }
        self.map.push(number);
        Ok(())
    }

    pub fn is_sparse(&self) -> bool {
        self.major.is_some() || self.real.is_some() || self.has_map
    }

    /// The content of a member with these headers.
    pub fn body(&self, input: &Input<'_>, data: u64, size: u64) -> Result<Body, Cause> {
        let real = self.real.ok_or(Cause::Number("the size of a sparse member"))?;
        match (self.major, self.minor) {
            (None | Some(0), _) => pieces(input, &pairs(&self.map)?, real, data, size),
            (Some(1), Some(0) | None) => {
                let (map, used) = map_before(input, data, size)?;
                pieces(input, &pairs(&map)?, real, data + used, size - used)
            }
            (Some(major), minor) => Err(Cause::Sparse(format!("pax {major}.{}", minor.unwrap_or(0)))),
        }
    }
}

/// The map of the form 1.0: decimal numbers in lines before the content, filled up to a whole block.
fn map_before(input: &Input<'_>, data: u64, size: u64) -> Result<(Vec<u64>, u64), Cause> {
    let (mut map, mut line) = (Vec::new(), Vec::new());
    let mut wanted: Option<u64> = None;
    let mut used = 0;
    loop {
        if used + BLOCK > size {
            return Err(Cause::Truncated { what: "its sparse map", end: used + BLOCK, len: size });
        }
        let mut block = [0; BLOCK as usize];
        input.read("its sparse map", data + used, &mut block)?;
        used += BLOCK;
        for byte in block {
            if byte != b'\n' {
                line.push(byte);
                if line.len() > 20 {
                    return Err(Cause::Number("its sparse map"));
                }
                continue;
            }
            let value = number(&line).ok_or(Cause::Number("its sparse map"))?;
            line.clear();
            match wanted {
                None if value > SLICES_MAX as u64 => {
                    return Err(Cause::TooLong { what: "its sparse map", found: value, max: SLICES_MAX as u64 });
                }
                None => wanted = Some(value),
                Some(_) => map.push(value),
            }
            if wanted.is_some_and(|wanted| map.len() as u64 == 2 * wanted) {
                return Ok((map, used));
            }
        }
    }
}

fn pairs(map: &[u64]) -> Result<Vec<(u64, u64)>, Cause> {
    if !map.len().is_multiple_of(2) {
        return Err(Cause::Number("its sparse map"));
    }
    Ok(map.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

/// Bytes of map between the header of an old GNU sparse member and its content.
pub(super) fn continuation(input: &Input<'_>, header: &Header, data: u64) -> Result<u64, Cause> {
    let mut more = header.as_gnu().is_some_and(|gnu| gnu.is_extended());
    let mut blocks = 0;
    while more {
        if blocks == MAP_BLOCKS_MAX {
            let (found, max) = (blocks as u64 * BLOCK, (MAP_BLOCKS_MAX as u64 - 1) * BLOCK);
            return Err(Cause::TooLong { what: "its sparse map", found, max });
        }
        more = block(input, data + blocks as u64 * BLOCK)?.is_extended();
        blocks += 1;
    }
    Ok(blocks as u64 * BLOCK)
}

fn block(input: &Input<'_>, at: u64) -> Result<GnuExtSparseHeader, Cause> {
    let mut block = GnuExtSparseHeader::new();
    input.read("its sparse map", at, block.as_mut_bytes())?;
    Ok(block)
}

/// The content of an old GNU sparse member, which is behind `map` bytes of its map.
pub(super) fn gnu(input: &Input<'_>, header: &Header, data: u64, map_len: u64, size: u64) -> Result<Body, Cause> {
    let gnu = header.as_gnu().ok_or(Cause::Sparse("without a map".into()))?;
    let wrong = |_| Cause::Number("its sparse map");
    let mut map = Vec::new();
    let mut add = |piece: &tar::GnuSparseHeader| -> Result<(), Cause> {
        if !piece.is_empty() {
            map.push((piece.offset().map_err(wrong)?, piece.length().map_err(wrong)?));
        }
        Ok(())
    };
    gnu.sparse.iter().try_for_each(&mut add)?;
    let mut at = data - map_len;
    while at < data {
        block(input, at)?.sparse().iter().try_for_each(&mut add)?;
        at += BLOCK;
    }
    pieces(input, &map, gnu.real_size().map_err(wrong)?, data, size)
}

/// Pieces that ascend and do not overlap, with zeros between them.
fn pieces(input: &Input<'_>, map: &[(u64, u64)], real: u64, data: u64, size: u64) -> Result<Body, Cause> {
    let mut slices = Vec::new();
    let (mut at, mut used) = (0u64, 0u64);
    let zeros = |slices: &mut Vec<Slice>, len| {
        if len > 0 {
            slices.push(Slice { source: 0, offset: 0, len });
        }
    };
    for (offset, len) in map {
        let gap = offset.checked_sub(at).ok_or(Cause::Number("its sparse map"))?;
        zeros(&mut slices, gap);
        if *len > 0 {
            slices.push(Slice { source: input.source(), offset: data + used, len: *len });
        }
        at = offset.checked_add(*len).filter(|end| *end <= real).ok_or(Cause::Number("its sparse map"))?;
        used = used.checked_add(*len).filter(|used| *used <= size).ok_or(Cause::Number("its sparse map"))?;
    }
    if used != size {
        return Err(Cause::Contradiction { what: "the bytes of its pieces", expected: size, found: used });
    }
    zeros(&mut slices, real - at);
    Ok(Body::Slices(slices.into()))
}
