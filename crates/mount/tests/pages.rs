//! Pages of the kernel, writes around them, and dirty ones: what reads and searches for data show. Over a fake file system, as
//! `mechanics.rs`.

mod fake;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;

use fake::{Fake, eventually, within};

/// A write without the page cache that is submitted and not waited for (`io_submit(2)`).
struct Async {
    context: libc::c_ulong,
    _request: Box<libc::iocb>,
}

impl Async {
    /// `block` has to stay where it is until it is done.
    fn write(file: &File, block: &Block, offset: i64) -> Async {
        use std::os::fd::AsRawFd;
        const IOCB_CMD_PWRITE: u16 = 1;
        let mut context: libc::c_ulong = 0;
        // SAFETY: all bits zero is an empty request.
        let mut request: Box<libc::iocb> = Box::new(unsafe { std::mem::zeroed() });
        request.aio_lio_opcode = IOCB_CMD_PWRITE;
        request.aio_fildes = file.as_raw_fd().cast_unsigned();
        request.aio_buf = block.0.as_ptr() as u64;
        request.aio_nbytes = block.0.len() as u64;
        request.aio_offset = offset;
        let mut list = [&raw mut *request];
        // SAFETY: the context is written by the first call; the request and its bytes live until `wait` has its event.
        let submitted = unsafe {
            assert_eq!(libc::syscall(libc::SYS_io_setup, 1, &raw mut context), 0);
            libc::syscall(libc::SYS_io_submit, context, 1, list.as_mut_ptr())
        };
        assert_eq!(submitted, 1, "{}", std::io::Error::last_os_error());
        Async { context, _request: request }
    }

    /// The bytes written.
    fn wait(self) -> i64 {
        // `struct io_event`: two numbers that name the request, the result, and a second one.
        let mut event = [0i64; 4];
        // SAFETY: room for one event is given, and no time limit.
        let got = unsafe {
            let none = std::ptr::null_mut::<libc::timespec>();
            let got = libc::syscall(libc::SYS_io_getevents, self.context, 1, 1, event.as_mut_ptr(), none);
            libc::syscall(libc::SYS_io_destroy, self.context);
            got
        };
        assert_eq!(got, 1);
        event[2]
    }
}

#[repr(align(4096))]
struct Block([u8; 4096]);

fn first_byte(file: &File) -> u8 {
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).expect("read");
    byte[0]
}

#[test]
fn pages_read_while_an_asynchronous_direct_write_is_under_way_are_gone_when_it_is_answered() {
    use std::os::unix::fs::OpenOptionsExt;
    let Some(mut fake) = Fake::start("aio") else { return };
    fs::write(fake.path("f"), [b'o'; 8192]).expect("written");
    let reader = File::open(fake.path("f")).expect("open");
    let direct = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(fake.path("f"));
    let direct = direct.expect("open");
    let block = Block([b'n'; 4096]);
    fake.tell("holdwrites");
    let write = Async::write(&direct, &block, 0);
    eventually("the write is under way", || fake.tell("held") == "1");
    assert_eq!(first_byte(&reader), b'o');
    fake.tell("go");
    assert_eq!(within(Duration::from_secs(20), "the write", move || write.wait()), 4096);
    assert_eq!(first_byte(&reader), b'n', "a page from before the write stays");
    drop((reader, direct, block));
    fake.quit();
}

#[test]
fn so_it_is_of_a_write_through_a_handle_in_direct_mode_and_of_an_append() {
    for append in [false, true] {
        let Some(mut fake) = Fake::start("directly") else { return };
        fs::write(fake.path("f"), [b'o'; 100]).expect("written");
        let ino = fs::metadata(fake.path("f")).expect("there").ino();
        let reader = File::open(fake.path("f")).expect("open");
        if !append {
            fake.tell(&format!("direct {ino}"));
        }
        let writer = OpenOptions::new().append(append).write(true).open(fake.path("f")).expect("open");
        fake.tell("holdwrites");
        let writing = std::thread::spawn(move || (&writer).write_all(b"new").expect("written"));
        eventually("the write is under way", || fake.tell("held") == "1");
        assert_eq!(first_byte(&reader), b'o');
        fake.tell("go");
        within(Duration::from_secs(20), "the write", move || writing.join().expect("no panic"));
        let mut text = vec![0; 200];
        let read = reader.read_at(&mut text, 0).expect("read");
        let expected = if append { [&[b'o'; 100][..], b"new"].concat() } else { [b"new", &[b'o'; 97][..]].concat() };
        assert_eq!(text[..read], expected, "append: {append}");
        drop(reader);
        fake.quit();
    }
}

#[test]
fn a_page_that_was_written_through_a_mapping_is_data_to_who_looks_for_holes() {
    use rustix::fs::{SeekFrom, seek};
    let Some(fake) = Fake::start("dirtymap") else { return };
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(fake.path("f"));
    let file = file.expect("open");
    file.set_len(1 << 20).expect("grown");
    let other = File::open(fake.path("f")).expect("open");
    assert_eq!(seek(&other, SeekFrom::Data(0)), Err(rustix::io::Errno::NXIO));
    // SAFETY: a fresh mapping of an open file, within which one byte is written.
    unsafe {
        use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
        let at = mmap(std::ptr::null_mut(), 1 << 20, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)
            .expect("mapped");
        at.cast::<u8>().add(500_000).write(b'D');
        let page = 500_000 / 4096 * 4096;
        assert_eq!(seek(&other, SeekFrom::Data(0)), Ok(page));
        assert_eq!(seek(&other, SeekFrom::Hole(page)), Ok(page + 4096));
        at.cast::<u8>().add(600_000).write(b'D');
        assert_eq!(seek(&file, SeekFrom::Data(page + 4096)), Ok(600_000 / 4096 * 4096), "also the second time");
        munmap(at, 1 << 20).expect("unmapped");
    }
    drop((file, other));
    fake.quit();
}

#[test]
fn nothing_is_at_a_negative_offset() {
    let Some(fake) = Fake::start("negative") else { return };
    fs::write(fake.path("f"), "x").expect("written");
    let file = File::open(fake.path("f")).expect("open");
    for offset in [-1, i64::MIN] {
        for whence in [libc::SEEK_DATA, libc::SEEK_HOLE] {
            use std::os::fd::AsRawFd;
            // SAFETY: the descriptor is open, and no memory is given.
            assert_eq!(unsafe { libc::lseek(file.as_raw_fd(), offset, whence) }, -1);
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENXIO));
        }
    }
    drop(file);
    fake.quit();
}
