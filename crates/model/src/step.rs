//! Random steps over a small world of names, so that they meet each other often.

use loligo_types::{Cred, RenameMode, XattrMode};
use proptest::prelude::*;

/// User of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum User {
    /// uid 0.
    Root,
    /// uid 1001, groups 1001 and 2000.
    Ann,
    /// uid 1002, groups 1002 and 2000.
    Bob,
}

impl User {
    /// As the file system sees it.
    pub fn cred(self) -> Cred {
        match self {
            User::Root => Cred::root(),
            User::Ann => Cred { uid: 1001, gid: 1001, groups: vec![2000] },
            User::Bob => Cred { uid: 1002, gid: 1002, groups: vec![2000] },
        }
    }
}

/// One thing to do.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Action {
    Create { path: String, mode: u16, exclusive: bool },
    Write { path: String, offset: u64, len: usize, cut: bool },
    Append { path: String, len: usize },
    Read { path: String },
    Truncate { path: String, size: u64 },
    Mkdir { path: String, mode: u16 },
    Rmdir { path: String },
    Unlink { path: String },
    Link { old: String, new: String },
    Symlink { target: String, path: String },
    Readlink { path: String },
    Rename { old: String, new: String, mode: RenameMode },
    Chmod { path: String, mode: u16 },
    Chown { path: String, uid: Option<u32>, gid: Option<u32> },
    Stat { path: String },
    List { path: String },
    SetXattr { path: String, name: String, len: usize, mode: XattrMode },
    GetXattr { path: String, name: String },
    RemoveXattr { path: String, name: String },
}

/// Somebody does something.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Step {
    pub who: User,
    pub action: Action,
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "d"]), 1..=3).prop_map(|names| names.join("/"))
}

/// Sizes around what is held in the inode (4 KiB) and what is not.
fn size() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0u64..64, 2 => 4000u64..4200, 1 => 0u64..20_000]
}

/// No sticky bit: kernels add rules of their own there (`fs.protected_*`); its tests stand with the operations.
fn mode() -> impl Strategy<Value = u16> {
    prop_oneof![
        4 => prop::sample::select(vec![0o777u16, 0o755, 0o770, 0o700, 0o644, 0o666]),
        2 => 0u16..0o1000,
        1 => (0u16..0o10000).prop_map(|m| m & !0o1000),
    ]
}

fn xattr() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["user.x", "user.y", "trusted.t"]).prop_map(str::to_string)
}

fn action() -> impl Strategy<Value = Action> {
    use Action::*;
    let rename = prop::sample::select(vec![
        RenameMode::Replace,
        RenameMode::Replace,
        RenameMode::NoReplace,
        RenameMode::Exchange,
    ]);
    let xmode = prop::sample::select(vec![XattrMode::Set, XattrMode::Create, XattrMode::Replace]);
    let id = || prop::option::of(prop::sample::select(vec![0u32, 1001, 1002, 2000]));
    let target = prop_oneof![path(), path().prop_map(|p| format!("../{p}")), Just(".".to_string())];
    prop_oneof![
        5 => (path(), mode(), any::<bool>()).prop_map(|(path, mode, exclusive)| Create { path, mode, exclusive }),
        4 => (path(), size(), size(), any::<bool>())
            .prop_map(|(path, offset, len, cut)| Write { path, offset, len: len as usize, cut }),
        2 => (path(), size()).prop_map(|(path, len)| Append { path, len: len as usize }),
        3 => path().prop_map(|path| Read { path }),
        3 => (path(), size()).prop_map(|(path, size)| Truncate { path, size }),
        5 => (path(), mode()).prop_map(|(path, mode)| Mkdir { path, mode }),
        2 => path().prop_map(|path| Rmdir { path }),
        3 => path().prop_map(|path| Unlink { path }),
        3 => (path(), path()).prop_map(|(old, new)| Link { old, new }),
        2 => (target, path()).prop_map(|(target, path)| Symlink { target, path }),
        1 => path().prop_map(|path| Readlink { path }),
        6 => (path(), path(), rename).prop_map(|(old, new, mode)| Rename { old, new, mode }),
        3 => (path(), mode()).prop_map(|(path, mode)| Chmod { path, mode }),
        2 => (path(), id(), id())
            .prop_filter("one of the two is given", |(_, uid, gid)| uid.is_some() || gid.is_some())
            .prop_map(|(path, uid, gid)| Chown { path, uid, gid }),
        3 => path().prop_map(|path| Stat { path }),
        2 => path().prop_map(|path| List { path }),
        2 => (path(), xattr(), 0usize..40, xmode)
            .prop_map(|(path, name, len, mode)| SetXattr { path, name, len, mode }),
        1 => (path(), xattr()).prop_map(|(path, name)| GetXattr { path, name }),
        1 => (path(), xattr()).prop_map(|(path, name)| RemoveXattr { path, name }),
    ]
}

/// Sequences of steps; mostly root's, so that much succeeds.
pub fn steps(count: usize) -> impl Strategy<Value = Vec<Step>> {
    let who = prop_oneof![4 => Just(User::Root), 2 => Just(User::Ann), 1 => Just(User::Bob)];
    prop::collection::vec((who, action()).prop_map(|(who, action)| Step { who, action }), count / 2..=count)
}
