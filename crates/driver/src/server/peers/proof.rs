//! Mutual proof of two servers that they serve one file system: both can read its key in the pool. The bytes stand in docs/formats/link.md.
//! Not here: the messages that carry it.

use ring::hmac;

/// Facts of a connection that both sides know.
#[derive(Clone, Copy)]
pub(super) struct Meeting {
    pub(super) fs_id: [u8; 16],
    /// Of the server that connects, and its number used once.
    pub(super) from: (u64, [u8; 32]),
    /// Of the other one.
    pub(super) to: (u64, [u8; 32]),
}

/// Which of the two proves something.
#[derive(Clone, Copy)]
pub(super) enum Side {
    /// That which was connected to.
    Accepts,
    /// That which connects.
    Connects,
}

fn message(side: Side, meeting: &Meeting) -> Vec<u8> {
    let mut bytes = match side {
        Side::Accepts => b"loligo prove".to_vec(),
        Side::Connects => b"loligo proof".to_vec(),
    };
    bytes.extend(meeting.fs_id);
    bytes.extend(meeting.from.0.to_le_bytes());
    bytes.extend(meeting.to.0.to_le_bytes());
    bytes.extend(meeting.from.1);
    bytes.extend(meeting.to.1);
    bytes
}

/// That this side knows the key.
pub(super) fn prove(key: &[u8; 32], side: Side, meeting: &Meeting) -> [u8; 32] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), &message(side, meeting));
    tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// True if that side knows the key. Takes as long for every answer.
pub(super) fn is_proven(key: &[u8; 32], side: Side, meeting: &Meeting, proof: &[u8; 32]) -> bool {
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, key), &message(side, meeting), proof).is_ok()
}

/// A number that was never used before.
pub(super) fn nonce() -> std::io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_side_its_meeting_and_its_key_only() {
        let meeting = Meeting { fs_id: [1; 16], from: (2, [3; 32]), to: (4, [5; 32]) };
        let proof = prove(&[9; 32], Side::Connects, &meeting);
        assert!(is_proven(&[9; 32], Side::Connects, &meeting, &proof));
        assert!(!is_proven(&[9; 32], Side::Accepts, &meeting, &proof));
        assert!(!is_proven(&[8; 32], Side::Connects, &meeting, &proof));
        let other = Meeting { to: (4, [6; 32]), ..meeting };
        assert!(!is_proven(&[9; 32], Side::Connects, &other, &proof));
    }
}
