//! The one field of a request that the FUSE library reads but does not pass on: whether a lock is a `flock`.
//!
//! The library hands out the header of a request as a reference into the buffer that the kernel filled; the body lies
//! behind it. Nothing else is read this way.

use fuser::Request;

/// `struct fuse_in_header`.
const HEADER: usize = 40;
/// `struct fuse_lk_in`: fh, owner, start, end (8 bytes each), type, pid, flags, padding (4 bytes each).
const LK_IN: usize = 48;
const LK_FLAGS_AT: usize = 40;
const FUSE_LK_FLOCK: u32 = 1;

/// Whether a lock request is for `flock(2)`. `owner`, `start` and `end` are what the library parsed from the same body;
/// should they not be where they belong, the library has changed and the answer is "no" (a record lock).
pub fn is_flock(req: &Request, owner: u64, start: u64, end: u64) -> bool {
    let base = std::ptr::from_ref(req).cast::<u8>();
    // SAFETY: `Request` is a transparent view of `fuse_in_header` at the start of the buffer that one request was read
    // into; its first field is the length of the whole request, which the library checked against what was read. The
    // body is copied out only if that length says that it is there. The buffer outlives the callback.
    let body: [u8; LK_IN] = unsafe {
        if u32::from_ne_bytes(base.cast::<[u8; 4]>().read_unaligned()) as usize != HEADER + LK_IN {
            return false;
        }
        base.add(HEADER).cast::<[u8; LK_IN]>().read_unaligned()
    };
    parse(&body, owner, start, end)
}

fn parse(body: &[u8; LK_IN], owner: u64, start: u64, end: u64) -> bool {
    let u64_at = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&body[at..at + 8]);
        u64::from_ne_bytes(bytes)
    };
    let mut flags = [0; 4];
    flags.copy_from_slice(&body[LK_FLAGS_AT..LK_FLAGS_AT + 4]);
    (u64_at(8), u64_at(16), u64_at(24)) == (owner, start, end) && u32::from_ne_bytes(flags) & FUSE_LK_FLOCK != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(owner: u64, start: u64, end: u64, flags: u32) -> [u8; LK_IN] {
        let mut body = [0; LK_IN];
        body[8..16].copy_from_slice(&owner.to_ne_bytes());
        body[16..24].copy_from_slice(&start.to_ne_bytes());
        body[24..32].copy_from_slice(&end.to_ne_bytes());
        body[40..44].copy_from_slice(&flags.to_ne_bytes());
        body
    }

    #[test]
    fn a_flock_is_told_from_a_record_lock() {
        assert!(parse(&body(7, 0, 9, FUSE_LK_FLOCK), 7, 0, 9));
        assert!(!parse(&body(7, 0, 9, 0), 7, 0, 9));
    }

    #[test]
    fn a_body_that_does_not_fit_is_taken_for_a_record_lock() {
        assert!(!parse(&body(8, 0, 9, FUSE_LK_FLOCK), 7, 0, 9));
    }
}
