//! The secret of a session, from the key of the file system. Other hashes are those of `loligo_types`.

use std::hash::Hasher;

/// The number that a client shows to go on with its session: SipHash-2-4 of the session's number and the client's own random
/// number, with the key of the file system. Clients know the key; the number of another one they do not. The input starts
/// with a byte that no file name has, so no readdir cookie can reveal it.
#[allow(deprecated)]
pub(crate) fn session_secret(key: (u64, u64), session: u64, client: u64) -> u64 {
    let mut hasher = std::hash::SipHasher::new_with_keys(key.0, key.1);
    hasher.write(b"/session/");
    hasher.write(&session.to_le_bytes());
    hasher.write(&client.to_le_bytes());
    hasher.finish()
}
