//! Programs about the bytes of files: holes, allocation, copies, mappings.

use crate::calls::*;

/// Name, whether it runs as an ordinary user, body.
pub const PROGRAMS: &[Entry] = &[
    ("holes", true, holes),
    ("allocate", true, allocate),
    ("copy-range", true, copy_range),
    ("send", true, send),
    ("mapped", true, mapped),
    ("truncate", true, truncation),
    ("direct", true, direct),
];

const BLOCK: i64 = 4096;

/// The segments that a program finds that walks over a file; ends after so many steps in any case.
fn segments(fd: i64) -> String {
    let size = fstat(fd).st_size;
    let (mut at, mut text) = (0, String::new());
    for _ in 0..64 {
        let data = lseek(fd, at, libc::SEEK_DATA);
        if data < 0 {
            return text + &format!("end by {}", errno());
        }
        let hole = lseek(fd, data, libc::SEEK_HOLE);
        text += &format!("{data}..{hole} ");
        if hole <= data || hole > size {
            return text + "which is impossible";
        }
        at = hole;
    }
    text + "without an end"
}

fn holes(log: &mut Log) {
    for (label, size, writes) in [
        ("an empty file", 0, &[][..]),
        ("a hole alone", 10 * BLOCK, &[]),
        ("data in the first block", 10 * BLOCK, &[(0, BLOCK)]),
        ("data in the last block", 10 * BLOCK, &[(9 * BLOCK, BLOCK)]),
        ("data that end in a block", 3 * BLOCK + 100, &[(3 * BLOCK, 100)]),
        ("data to the end of a short file", 1000, &[(0, 1000)]),
        ("two pieces", 100 * BLOCK, &[(10 * BLOCK, BLOCK), (50 * BLOCK, 2 * BLOCK)]),
        ("a megabyte and more", 2_000_000, &[(0, 1_500_000)]),
        ("dense", 64 * BLOCK, &[(0, 64 * BLOCK)]),
    ] {
        let fd = open("f", libc::O_CREAT | libc::O_TRUNC | libc::O_RDWR, 0o644);
        ftruncate(fd, size);
        for (at, len) in writes {
            pwrite(fd, &vec![b'x'; *len as usize], *at);
        }
        // SAFETY: a number.
        unsafe { libc::fsync(fd as i32) };
        log.say(label, segments(fd));
        close(fd);
    }
    let fd = open("f", libc::O_CREAT | libc::O_TRUNC | libc::O_RDWR, 0o644);
    pwrite(fd, &[b'x'; 5000], 0);
    for whence in [("data", libc::SEEK_DATA), ("hole", libc::SEEK_HOLE)] {
        for at in [-1, 0, 4999, 5000, 5001, i64::MAX] {
            log.call(&format!("{} from {at} of 5000", whence.0), lseek(fd, at, whence.1));
        }
    }
}

fn allocate(log: &mut Log) {
    let keep = libc::FALLOC_FL_KEEP_SIZE;
    let punch = libc::FALLOC_FL_PUNCH_HOLE;
    let zero = libc::FALLOC_FL_ZERO_RANGE;
    for (label, mode, at, len) in [
        ("plain inside", 0, 100, 100),
        ("plain beyond the end", 0, 9000, 1000),
        ("beyond the end without growing", keep, 9000, 1000),
        ("a hole", punch | keep, 1000, 5000),
        ("a hole in whole blocks", punch | keep, BLOCK, BLOCK),
        ("a hole beyond the end", punch | keep, 9000, 1000),
        ("a hole that would grow", punch, 0, 10),
        ("zeros inside", zero, 1000, 100),
        ("zeros beyond the end", zero, 7000, 3000),
        ("zeros beyond the end without growing", zero | keep, 7000, 3000),
        ("nothing", 0, 0, 0),
        ("a negative length", 0, 0, -5),
        ("a negative offset", 0, -5, 10),
        ("too far", 0, i64::MAX - 10, 100),
        ("two modes", punch | zero | keep, 0, 10),
        ("an unknown mode", 1 << 20, 0, 10),
        ("taking a range out, unaligned", libc::FALLOC_FL_COLLAPSE_RANGE, 1, 10),
        ("putting a range in, unaligned", libc::FALLOC_FL_INSERT_RANGE, 1, 10),
    ] {
        file("f", &[b'x'; 8000]);
        let fd = open("f", libc::O_RDWR, 0);
        log.call(label, fallocate(fd, mode, at, len));
        log.say(&format!("{label}: content"), content("f"));
        close(fd);
    }
    mkdir("d", 0o755);
    let fd = open("d", libc::O_RDONLY, 0);
    log.call("of a directory", fallocate(fd, 0, 0, 10));
}

fn copy(from: i64, at: i64, to: i64, to_at: i64, len: usize, flags: u32) -> i64 {
    let (mut at, mut to_at) = (at, to_at);
    // SAFETY: two numbers that the call may change.
    (unsafe { libc::copy_file_range(from as i32, &mut at, to as i32, &mut to_at, len, flags) }) as i64
}

fn copy_range(log: &mut Log) {
    let text: Vec<u8> = (0..10_000u32).map(|n| b'a' + (n / 1000) as u8).collect();
    file("from", &text);
    file("to", b"");
    let (from, to) = (open("from", libc::O_RDONLY, 0), open("to", libc::O_RDWR, 0));
    log.call("a part", copy(from, 500, to, 0, 2000, 0));
    log.say("as it is then", content("to"));
    log.call("over the end", copy(from, 9000, to, 5000, 2000, 0));
    log.say("with a hole", content("to"));
    log.call("from beyond the end", copy(from, 20_000, to, 0, 10, 0));
    log.call("nothing", copy(from, 0, to, 0, 0, 0));
    log.call("with a flag", copy(from, 0, to, 0, 10, 1));
    log.call("to a reader", copy(to, 0, from, 0, 10, 0));
    log.call("in one file", copy(to, 0, to, 8000, 1000, 0));
    log.say("as it is after that", content("to"));
    log.call("over itself", copy(to, 0, to, 500, 1000, 0));
    log.call("at a negative offset", copy(from, -1, to, 0, 10, 0));
    let appender = open("to", libc::O_WRONLY | libc::O_APPEND, 0);
    log.call("to an appender", copy(from, 0, appender, 0, 10, 0));
    let dir = open(".", libc::O_RDONLY, 0);
    log.call("from a directory", copy(dir, 0, to, 0, 10, 0));
    // SAFETY: numbers only: FICLONE of a descriptor.
    log.works("a clone", i64::from(unsafe { libc::ioctl(to as i32, 0x4004_9409, from as i32) }));
}

fn send(log: &mut Log) {
    file("from", &[b'y'; 100_000]);
    file("to", b"");
    let (from, to) = (open("from", libc::O_RDONLY, 0), open("to", libc::O_RDWR, 0));
    // SAFETY: numbers; the position is the file's own.
    let sent = unsafe { libc::sendfile(to as i32, from as i32, std::ptr::null_mut(), 70_000) };
    log.call("sendfile", sent as i64);
    log.say("content", content("to"));
    let mut pipe = [0i32; 2];
    // SAFETY: an array of two.
    unsafe { libc::pipe(pipe.as_mut_ptr()) };
    write(i64::from(pipe[1]), b"through a pipe");
    let mut at: i64 = 10;
    // SAFETY: a number that the call may change.
    let spliced =
        unsafe { libc::splice(pipe[0], std::ptr::null_mut(), to as i32, &mut at, 14, libc::SPLICE_F_NONBLOCK) };
    log.call("splice into a file", spliced as i64);
    log.say("content after it", pread(to, 30, 0));
    let mut at: i64 = 5;
    // SAFETY: as above.
    let spliced =
        unsafe { libc::splice(to as i32, &mut at, pipe[1], std::ptr::null_mut(), 30, libc::SPLICE_F_NONBLOCK) };
    log.call("splice out of a file", spliced as i64);
    let appender = open("to", libc::O_WRONLY | libc::O_APPEND, 0);
    // SAFETY: numbers; the position is the file's own.
    log.call("splice to an appender", unsafe {
        libc::splice(pipe[0], std::ptr::null_mut(), appender as i32, std::ptr::null_mut(), 5, libc::SPLICE_F_NONBLOCK)
    } as i64);
    log.call("sendfile to an appender", {
        // SAFETY: numbers.
        (unsafe { libc::sendfile(appender as i32, from as i32, std::ptr::null_mut(), 10) }) as i64
    });
}

fn mapped(log: &mut Log) {
    file("f", &[b'a'; 6000]);
    let fd = open("f", libc::O_RDWR, 0);
    // SAFETY: two pages of a file that has them, used below within its size and the rest of its last page.
    unsafe {
        let page = |prot, flags, fd: i64| libc::mmap(std::ptr::null_mut(), 8192, prot, flags, fd as i32, 0);
        let map = page(libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, fd).cast::<u8>();
        log.say("it is mapped", map.cast() != libc::MAP_FAILED);
        log.say("beyond the end in the last page", map.add(6000).read_volatile());
        map.write_volatile(b'b');
        log.say("a read sees a mapped write", pread(fd, 3, 0));
        pwrite(fd, b"c", 1);
        log.say("the map sees a write", char::from(map.add(1).read_volatile()));
        map.add(7000).write_volatile(b'z');
        log.call("msync", i64::from(libc::msync(map.cast(), 8192, libc::MS_SYNC)));
        log.say("a write beyond the end is not kept", content("f"));
        ftruncate(fd, 8000);
        log.say("and not seen when the file grows", pread(fd, 2, 7000));
        ftruncate(fd, 100);
        ftruncate(fd, 8192);
        log.say(
            "zeros after shrink and growth",
            format!("{} {}", map.add(50).read_volatile(), map.add(200).read_volatile()),
        );
        map.add(5000).write_volatile(b'q');
        log.say("the map works behind that", pread(fd, 1, 5000));
        let private = page(libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE, fd).cast::<u8>();
        private.write_volatile(b'p');
        log.say("a private write is private", pread(fd, 1, 0));
        let reader = open("f", libc::O_RDONLY, 0);
        let refused = page(libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, reader);
        log.say(
            "a reader's shared map for writing",
            if refused == libc::MAP_FAILED { errno() } else { "mapped".into() },
        );
        let writer = open("f", libc::O_WRONLY, 0);
        let refused = page(libc::PROT_READ, libc::MAP_SHARED, writer);
        log.say("a map of a writer", if refused == libc::MAP_FAILED { errno() } else { "mapped".into() });
        close(fd);
        unlink("f");
        map.write_volatile(b'!');
        log.say("a map outlives file and descriptor", char::from(map.read_volatile()));
    }
}

fn truncation(log: &mut Log) {
    for (label, first, then) in [
        ("shorter and longer", 100, 5000),
        ("into the middle of a block", 4097, 9000),
        ("to nothing and back", 0, 3000),
        ("large and small", 10_000_000, 10),
    ] {
        file("f", &[b'x'; 8192]);
        truncate("f", first);
        truncate("f", then);
        log.say(label, content("f"));
        log.say(&format!("{label}: size"), lstat("f").st_size);
    }
    log.call("the largest file that is asked for", truncate("f", i64::MAX));
    log.say("and its size", lstat("f").st_size);
    truncate("f", 0);
    log.call("a file of a terabyte", truncate("f", 1 << 40));
    let fd = open("f", libc::O_RDWR, 0);
    log.call("a byte at its end", pwrite(fd, b"e", (1 << 40) - 1));
    log.say("read from there", pread(fd, 10, (1 << 40) - 2));
}

fn direct(log: &mut Log) {
    file("f", &[b'x'; 16_384]);
    let fd = open("f", libc::O_RDWR | libc::O_DIRECT, 0);
    let layout = std::alloc::Layout::from_size_align(16_384, 4096).expect("a power of two");
    // SAFETY: memory of this size and alignment, given back at the end.
    unsafe {
        let memory = std::alloc::alloc_zeroed(layout);
        let read = |at: usize, len: usize, from: i64| libc::pread(fd as i32, memory.add(at).cast(), len, from) as i64;
        log.call("an aligned read", read(0, 4096, 0));
        log.call("over the end", read(0, 8192, 12_288));
        log.call("beyond the end", read(0, 4096, 1 << 20));
        let outcome = read(1, 4096, 0);
        log.call("into unaligned memory", outcome);
        log.call("an unaligned length", read(0, 1000, 0));
        log.call("an unaligned offset", read(0, 4096, 100));
        memory.write_bytes(b'd', 4096);
        log.call("an aligned write", libc::pwrite(fd as i32, memory.cast(), 4096, 4096) as i64);
        std::alloc::dealloc(memory, layout);
    }
    log.say("as others read it", content("f"));
}
