//! fsx over two mounts: random reads, writes, maps, holes, truncations and copies of one file, each through either mount, every read
//! compared with a copy in memory. With several ranks the file's directory moves all the time.
//!
//! One operation at a time: what two mounts do at the same moment is the stress test's (`stress.rs`). `LOLIGO_FSX_OPS` and
//! `LOLIGO_FSX_SEED` make a longer run, or another one.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use loligo_e2e::{PATIENCE, Scratch, within};
use loligo_types::Random;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, seek};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

/// Largest size of the file, bytes.
const SIZE: u64 = 1 << 20;
/// Most bytes of one operation.
const SPAN: u64 = 80_000;
/// Offsets and lengths of direct IO are multiples of this.
const BLOCK: u64 = 4096;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("it is a number"))
}

/// The file through both mounts, and what it must contain.
struct Run {
    paths: [PathBuf; 2],
    files: [File; 2],
    model: Vec<u8>,
    dice: Random,
    done: Vec<String>,
}

impl Run {
    fn open(path: &PathBuf) -> File {
        OpenOptions::new().read(true).write(true).open(path).expect("the file opens")
    }

    fn wrong(&self, what: &str) -> ! {
        let last = self.done.iter().rev().take(20).rev().cloned().collect::<Vec<_>>().join("\n");
        panic!("{what}\nafter {} operations, the last ones:\n{last}", self.done.len());
    }

    fn range(&mut self) -> (u64, u64) {
        let at = self.dice.below(SIZE);
        (at, 1 + self.dice.below(SPAN.min(SIZE - at)))
    }

    /// A range that is within the file, if it has bytes.
    fn range_inside(&mut self) -> Option<(u64, u64)> {
        let size = self.model.len() as u64;
        if size == 0 {
            return None;
        }
        let at = self.dice.below(size);
        Some((at, 1 + self.dice.below(SPAN.min(size - at))))
    }

    fn grow(&mut self, end: u64) {
        if self.model.len() < end as usize {
            self.model.resize(end as usize, 0);
        }
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.grow(at + bytes.len() as u64);
        self.model[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }

    fn bytes(&mut self, len: u64) -> Vec<u8> {
        let first = 1 + self.dice.below(254) as u8;
        (0..len).map(|n| first.wrapping_add((n / 512) as u8).max(1)).collect()
    }

    fn compare(&self, what: &str, at: u64, got: &[u8]) {
        let from = (at as usize).min(self.model.len());
        let expected = &self.model[from..(from + got.len()).min(self.model.len())];
        if expected.len() != got.len() {
            self.wrong(&format!("{what} at {at} gave {} bytes, {} are there", got.len(), expected.len()));
        }
        if let Some(place) = got.iter().zip(expected).position(|(is, should)| is != should) {
            let (is, should) = (got[place], expected[place]);
            self.wrong(&format!("{what} at {at}: byte {} is {is}, not {should}", at as usize + place));
        }
    }

    fn step(&mut self) {
        let side = self.dice.below(2) as usize;
        let choice = self.dice.below(100);
        self.done.push(format!("mount {side}, choice {choice}, size {}", self.model.len()));
        match choice {
            0..20 => self.write(side),
            20..45 => self.read(side),
            45..52 => self.append(side),
            52..60 => self.truncate(side),
            60..66 => self.map_read(side),
            66..72 => self.map_write(side),
            72..79 => self.allocate(side, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE),
            79..83 => self.allocate(side, FallocateFlags::ZERO_RANGE),
            83..86 => self.allocate(side, FallocateFlags::empty()),
            86..91 => self.copy(side),
            91..94 => self.direct(side),
            94..96 => self.walk(side),
            96..98 => self.files[side].sync_all().expect("a sync works"),
            _ => self.files[side] = Run::open(&self.paths[side]),
        }
        let size = std::fs::metadata(&self.paths[1 - side]).expect("the other mount has it").len();
        if size != self.model.len() as u64 {
            self.wrong(&format!("the other mount says {size} bytes, not {}", self.model.len()));
        }
    }

    fn write(&mut self, side: usize) {
        let (at, len) = self.range();
        let bytes = self.bytes(len);
        self.files[side].write_all_at(&bytes, at).expect("a write works");
        self.put(at, &bytes);
    }

    fn read(&mut self, side: usize) {
        let (at, len) = self.range();
        let mut got = vec![0; len as usize];
        let mut count = 0;
        while count < got.len() {
            match self.files[side].read_at(&mut got[count..], at + count as u64).expect("a read works") {
                0 => break,
                more => count += more,
            }
        }
        self.compare("a read", at, &got[..count]);
        if (count as u64) < len && at + (count as u64) < self.model.len() as u64 {
            self.wrong(&format!("a read at {at} ended after {count} bytes"));
        }
    }

    fn append(&mut self, side: usize) {
        use std::io::Write;
        let (_, len) = self.range();
        if self.model.len() as u64 + len > SIZE {
            return;
        }
        let bytes = self.bytes(len);
        let mut file = OpenOptions::new().append(true).open(&self.paths[side]).expect("the file opens");
        file.write_all(&bytes).expect("an append works");
        let end = self.model.len() as u64;
        self.put(end, &bytes);
    }

    fn truncate(&mut self, side: usize) {
        let size = self.dice.below(SIZE);
        self.files[side].set_len(size).expect("a truncation works");
        self.model.resize(size as usize, 0);
    }

    fn map_read(&mut self, side: usize) {
        let Some((at, len)) = self.range_inside() else { return };
        let first = at / BLOCK * BLOCK;
        let span = (at + len - first) as usize;
        // SAFETY: the range is within the file, and nobody shortens it meanwhile.
        let got = unsafe {
            let map = mmap(std::ptr::null_mut(), span, ProtFlags::READ, MapFlags::SHARED, &self.files[side], first);
            let map = map.expect("a map works");
            let got = std::slice::from_raw_parts(map.cast::<u8>(), span)[(at - first) as usize..].to_vec();
            munmap(map, span).expect("it was mapped");
            got
        };
        self.compare("a mapped read", at, &got);
    }

    fn map_write(&mut self, side: usize) {
        let Some((at, len)) = self.range_inside() else { return };
        let bytes = self.bytes(len);
        let first = at / BLOCK * BLOCK;
        let span = (at + len - first) as usize;
        // SAFETY: as above. What is written is synced before anybody else looks.
        unsafe {
            let rights = ProtFlags::READ | ProtFlags::WRITE;
            let map = mmap(std::ptr::null_mut(), span, rights, MapFlags::SHARED, &self.files[side], first);
            let map = map.expect("a map works");
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), map.cast::<u8>().add((at - first) as usize), bytes.len());
            msync(map, span, MsyncFlags::SYNC).expect("a sync of a map works");
            munmap(map, span).expect("it was mapped");
        }
        self.put(at, &bytes);
    }

    fn allocate(&mut self, side: usize, how: FallocateFlags) {
        let (at, len) = self.range();
        fallocate(&self.files[side], how, at, len).expect("an allocation works");
        if how.is_empty() || how.contains(FallocateFlags::ZERO_RANGE) {
            self.grow(at + len);
        }
        if !how.is_empty() {
            let size = self.model.len();
            self.model[(at as usize).min(size)..((at + len) as usize).min(size)].fill(0);
        }
    }

    fn copy(&mut self, side: usize) {
        let Some((mut at, len)) = self.range_inside() else { return };
        let mut to = self.dice.below(SIZE - len);
        if at < to + len && to < at + len {
            return;
        }
        let bytes = self.model[at as usize..(at + len) as usize].to_vec();
        let start = to;
        let mut left = len as usize;
        while left > 0 {
            let file = &self.files[side];
            let done =
                rustix::fs::copy_file_range(file, Some(&mut at), file, Some(&mut to), left).expect("a copy works");
            assert!(done > 0, "a copy inside a file ends too early");
            left -= done;
        }
        self.put(start, &bytes);
    }

    fn direct(&mut self, side: usize) {
        let at = self.dice.below(SIZE / BLOCK) * BLOCK;
        let len = ((1 + self.dice.below(8)) * BLOCK).min(SIZE - at);
        let flags = OFlags::DIRECT.bits() as i32;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&self.paths[side]);
        let file = file.expect("the file opens for direct IO");
        // Memory that is aligned as direct IO wants it.
        let mut memory = vec![0u8; (len + BLOCK) as usize];
        let skip = memory.as_ptr().align_offset(BLOCK as usize);
        if self.dice.below(2) == 0 {
            let bytes = self.bytes(len);
            memory[skip..skip + len as usize].copy_from_slice(&bytes);
            file.write_all_at(&memory[skip..skip + len as usize], at).expect("a direct write works");
            self.put(at, &bytes);
        } else {
            let got = file.read_at(&mut memory[skip..skip + len as usize], at).expect("a direct read works");
            self.compare("a direct read", at, &memory[skip..skip + got]);
        }
    }

    /// Walks over the segments of data, as archivers do: all that is no zero must be in one.
    fn walk(&mut self, side: usize) {
        let file = &self.files[side];
        let size = self.model.len() as u64;
        let (mut at, mut steps) = (0, 0);
        while at < size {
            let (data, hole) = match seek(file, SeekFrom::Data(at)) {
                Ok(data) => (data, seek(file, SeekFrom::Hole(data)).expect("behind data is a hole")),
                Err(rustix::io::Errno::NXIO) => (size, size),
                Err(error) => self.wrong(&format!("SEEK_DATA from {at}: {error}")),
            };
            if self.model[at as usize..data as usize].iter().any(|byte| *byte != 0) {
                self.wrong(&format!("bytes between {at} and {data} count as a hole"));
            }
            steps += 1;
            if (hole <= data && data < size) || hole > size || steps > 2 * SIZE / 512 {
                self.wrong(&format!("data at {data}, hole at {hole} of {size} bytes"));
            }
            at = hole.max(data);
        }
    }
}

#[test]
fn each_read_of_a_file_through_two_mounts_gives_what_was_written_through_either() {
    let Some(scratch) = Scratch::new("fsx") else { return };
    let server = scratch.serve();
    let (a, b) = (scratch.mount("a"), scratch.mount("b"));
    let dir = a.path().join("dir");
    std::fs::create_dir(&dir).expect("a directory");
    File::create(dir.join("file")).expect("a file");
    let thrasher = (scratch.ranks() > 1).then(|| scratch.thrash(&["/dir"]));
    let paths = [dir.join("file"), b.path().join("dir/file")];
    let (ops, seed) = (number("LOLIGO_FSX_OPS", 3000), number("LOLIGO_FSX_SEED", 1));
    within(PATIENCE * 2 + PATIENCE * u32::try_from(ops / 2000).unwrap_or(u32::MAX), "fsx over two mounts", move || {
        let files = [Run::open(&paths[0]), Run::open(&paths[1])];
        let mut run = Run { paths, files, model: Vec::new(), dice: Random::new(seed), done: Vec::new() };
        (0..ops).for_each(|_| run.step());
    });
    drop(thrasher);
    a.stop();
    b.stop();
    server.stop();
}
