//! Tests of the wire: every message comes back as it was, bytes are fixed, and no bytes do harm.

mod any;
mod any_link;
mod any_subtree;
mod golden;
mod hostile;
mod link;
mod roundtrip;
mod subtree;

use loligo_types::msg::{ToClient, ToServer};

use crate::{Decoder, FromClient, FromServer, encode_to_client, encode_to_server};

fn server_bytes(msg: &ToServer) -> Vec<u8> {
    let mut out = Vec::new();
    encode_to_server(msg, &mut out);
    out
}

fn client_bytes(msg: &ToClient) -> Vec<u8> {
    let mut out = Vec::new();
    encode_to_client(msg, &mut out);
    out
}

fn at_server() -> Decoder<FromClient> {
    let mut decoder = Decoder::new();
    decoder.handshake_done();
    decoder
}

fn at_client() -> Decoder<FromServer> {
    let mut decoder = Decoder::new();
    decoder.handshake_done();
    decoder
}
