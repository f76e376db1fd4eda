//! The answer of a change that was executed before, made again from the current state (a repeated request).

use loligo_types::{Again, Answer, Control, FsResult, Ino, Lease, Op, Origin};

use crate::need::Need;
use crate::tree::{Found, Tree};
use crate::work::inode_of;

/// Records that must be loaded for [`answer_again`].
pub fn need_again(tree: &Tree, origin: &Origin) -> Vec<Need> {
    if origin.ino == Ino(0) || !matches!(tree.find(origin.ino), Found::Unknown) {
        return Vec::new();
    }
    vec![Need::Inode(origin.ino)]
}

/// The answer of an operation that was executed as `origin` says. `Stale` if what it speaks of is gone since.
pub fn answer_again(tree: &Tree, op: &Op, origin: &Origin) -> FsResult<Answer> {
    let props = op.props();
    if let Op::Control(Control::GrantInos { count }) = op {
        return Ok(Answer::Inos { first: Ino(origin.value), count: *count });
    }
    if props.again == Again::Value {
        return Ok(Answer::Offset(origin.value));
    }
    if origin.ino == Ino(0) {
        return Ok(Answer::Done);
    }
    let inode = inode_of(tree, origin.ino)?;
    match props.opens {
        Some((_, flags)) => {
            let data = crate::op::open_data(tree, inode, flags);
            Ok(Answer::Opened { attr: inode.attr(), created: origin.value != 0, rights: Lease::NONE, data })
        }
        None => Ok(Answer::Entry(tree.attr_of(inode))),
    }
}

#[cfg(test)]
mod tests {
    use loligo_types::{FsError, Name, OpenFlags, Seq, SessionId};

    use super::*;
    use crate::testing::script;

    #[test]
    fn a_repeated_request_gets_the_answer_from_the_state_of_now() {
        let mut fs = script::check(
            "
            0 create /f 644
            0 write /f 0 abc
            ",
        );
        let origin = |ino, value| Origin { session: SessionId(1), seq: Seq(1), answered: Seq(1), ino: Ino(ino), value };
        let name = Name::new(b"f").expect("a good name");
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let create =
            Op::Create { dir: Ino::ROOT, name: name.clone(), mode: 0, umask: 0, flags, exclusive: true, handle: 1 };
        let answer = answer_again(&fs.tree, &create, &origin(256, 1));
        let Ok(Answer::Opened { attr, created: true, data: Some(data), .. }) = answer else { panic!("{answer:?}") };
        assert_eq!((attr.size, data.as_ref()), (3, &b"abc"[..]));
        let unlink = Op::Unlink { dir: Ino::ROOT, name };
        assert_eq!(answer_again(&fs.tree, &unlink, &origin(0, 0)), Ok(Answer::Done));
        let extend = Op::Extend { ino: Ino(256), handle: 1, len: 9 };
        assert_eq!(answer_again(&fs.tree, &extend, &origin(256, 77)), Ok(Answer::Offset(77)));
        fs.run(&loligo_types::Cred::root(), &unlink).expect("root may");
        assert_eq!(answer_again(&fs.tree, &create, &origin(256, 1)), Err(FsError::Stale));
        assert_eq!(need_again(&fs.tree, &origin(900, 0)), [Need::Inode(Ino(900))]);
    }
}
