//! Commands to a client about its decoupled directories, through the extended attribute by which programs on a mount give them. Not the
//! client library's calls (`Subtree`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loligo_client::{Call, SUBTREE_XATTR};
use loligo_driver::client::Fs;
use loligo_types::{Answer, FsError, FsResult, Ino, Op, XattrMode};

/// One operation, and its answer.
pub fn call(fs: &Fs, op: Op) -> FsResult<Answer> {
    fs.client().call(fs.cred(), Call::Op(op)).map(|done| done.answer).map_err(|failed| failed.error)
}

/// An extended attribute, if it is set.
pub fn xattr(fs: &Fs, ino: Ino, name: &[u8]) -> Option<Vec<u8>> {
    match call(fs, Op::GetXattr { ino, name: name.into() }) {
        Ok(Answer::Bytes(value)) => Some(value.to_vec()),
        Err(FsError::NoData) => None,
        other => panic!("{other:?}"),
    }
}

/// The client's state of a directory; empty if it is not decoupled for it.
pub fn status(fs: &Fs, root: Ino) -> String {
    String::from_utf8(xattr(fs, root, SUBTREE_XATTR).unwrap_or_default()).expect("text")
}

/// A number in that state.
pub fn fact(fs: &Fs, root: Ino, key: &str) -> Option<u64> {
    let status = status(fs, root);
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok())
}

/// Gives a command, and waits for its end.
pub fn order(fs: &Fs, root: Ino, words: &str) -> Result<String, String> {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let (verb, document) = words.split_once('\n').unwrap_or((words, ""));
    let value: Arc<[u8]> = format!("{verb} {number}\n{document}").into_bytes().into();
    let set = Op::SetXattr { ino: root, name: SUBTREE_XATTR.into(), value, mode: XattrMode::Set };
    call(fs, set).map_err(|error| format!("{error:?}"))?;
    let key = format!("command {number} ");
    loop {
        let status = status(fs, root);
        let said = status.lines().find_map(|line| line.strip_prefix(&key)).expect("it was begun");
        match said.split_once(' ') {
            Some(("done", rest)) => return Ok(rest.into()),
            Some(("failed", error)) => return Err(error.into()),
            _ => std::thread::yield_now(),
        }
    }
}

/// Decouples a directory that nobody uses.
pub fn decouple(fs: &Fs, root: Ino, policy: &str) {
    order(fs, root, &format!("decouple\n{policy}")).expect("nobody uses it");
}
