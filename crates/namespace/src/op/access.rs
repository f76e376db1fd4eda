//! Access: whether the caller may; for `access(2)` and the like.

use loligo_types::{Access, FsResult, Ino};

use super::DONE;
use crate::access::{R, W, X, check};
use crate::ctx::{Change, Ctx};
use crate::tree::Tree;
use crate::work::inode_of;

pub(crate) fn prepare(tree: &Tree, ctx: &Ctx<'_>, ino: Ino, want: Access) -> FsResult<Change> {
    let bit = |wanted: bool, bit: u8| if wanted { bit } else { 0 };
    let bits = bit(want.read, R) | bit(want.write, W) | bit(want.exec, X);
    check(inode_of(tree, ino)?, ctx.cred, bits)?;
    Ok(Change::only(DONE))
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn mode_bits_owner_group_and_others() {
        check(
            "
            0 create /f 754
            0 chown /f 1000 2000
            1000 access /f rwx
            2000 access /f rx
            2000 access /f w = Access
            1:1,2000 access /f rx
            3000 access /f r
            3000 access /f x = Access
            0 access /f rwx
            0 chmod /f 600
            0 access /f rw
            0 access /f x = Access
            0 mkdir /d 000
            0 access /d rwx
            1000 access /d r = Access
            ",
        );
    }

    #[test]
    fn the_owner_is_bound_by_the_owners_bits_only() {
        check(
            "
            0 create /f 077
            0 chown /f 1000 1000
            1000 access /f r = Access
            1:1000 access /f rwx
            ",
        );
    }

    #[test]
    fn acls_name_users_and_groups_and_the_mask_bounds_them() {
        check(
            "
            0 create /f 600
            0 chown /f 1000 2000
            0 setacl /f access u::rwx,u:5:rwx,u:6:---,g::r--,g:7:rw-,m::rw-,o::r-x
            0 stat /f = mode=765
            5 access /f rw
            5 access /f x = Access
            6 access /f r = Access
            2000 access /f r
            2000 access /f w = Access
            7 access /f rw
            9:2000,7 access /f rw
            8 access /f rx
            8 access /f w = Access
            9:2000 access /f x = Access # a group matched, so others' bits do not count
            1000 access /f rwx
            0 chmod /f 700
            5 access /f r = Access # chmod moved the mask
            ",
        );
    }
}
