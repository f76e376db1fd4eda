//! Whatever is encoded comes back, however the bytes are cut.

use proptest::prelude::*;

use super::{any, at_client, at_server, client_bytes, server_bytes};
use crate::{HEADER_LEN, head_to_client, head_to_server};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn messages_to_servers_come_back(msgs in prop::collection::vec(any::to_server(), 1..6), cut in 1usize..5000) {
        let mut decoder = at_server();
        let bytes: Vec<u8> = msgs.iter().flat_map(server_bytes).collect();
        let mut got = Vec::new();
        for part in bytes.chunks(cut) {
            decoder.feed(part);
            while let Some(msg) = decoder.next_message().map_err(|e| TestCaseError::fail(e.to_string()))? {
                got.push(msg);
            }
        }
        prop_assert!(!decoder.is_inside_frame());
        prop_assert_eq!(got, msgs);
    }

    #[test]
    fn messages_to_clients_come_back(msgs in prop::collection::vec(any::to_client(), 1..6), cut in 1usize..5000) {
        let mut decoder = at_client();
        let bytes: Vec<u8> = msgs.iter().flat_map(client_bytes).collect();
        let mut got = Vec::new();
        for part in bytes.chunks(cut) {
            decoder.feed(part);
            while let Some(msg) = decoder.next_message().map_err(|e| TestCaseError::fail(e.to_string()))? {
                got.push(msg);
            }
        }
        prop_assert!(!decoder.is_inside_frame());
        prop_assert_eq!(got, msgs);
    }

    #[test]
    fn a_frame_and_its_payload_apart_are_the_same_bytes(to_server in any::to_server(), to_client in any::to_client()) {
        let mut out = Vec::new();
        let payload = head_to_server(&to_server, &mut out);
        out.extend_from_slice(payload.as_deref().unwrap_or_default());
        prop_assert_eq!(out, server_bytes(&to_server));
        let mut out = Vec::new();
        let payload = head_to_client(&to_client, &mut out);
        out.extend_from_slice(payload.as_deref().unwrap_or_default());
        prop_assert_eq!(out, client_bytes(&to_client));
    }

    #[test]
    fn a_flipped_bit_of_header_or_message_is_found(msg in any::to_server(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut bytes = server_bytes(&msg);
        let head = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
        bytes[at.index(HEADER_LEN + head)] ^= 1 << bit;
        // A length that grew waits for more; give it some.
        bytes.resize(bytes.len() + (1 << 16), 0);
        let mut decoder = at_server();
        decoder.feed(&bytes);
        prop_assert!(!matches!(decoder.next_message(), Ok(Some(_))));
    }
}
