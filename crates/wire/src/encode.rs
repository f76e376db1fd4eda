//! Messages to frames. Encoding cannot fail; what does not fit a frame is the caller's mistake and the peer refuses it.

use std::sync::Arc;

use loligo_types::msg::{ToClient, ToServer};
use loligo_types::{Answer, DataAnswer, DataOp};
use prost::Message;

use crate::frame::{HEADER_LEN, TO_CLIENT, TO_SERVER, seal};
use crate::{from_client, from_server, op};

/// Appends the whole frame of a message.
pub fn encode_to_server(msg: &ToServer, out: &mut Vec<u8>) {
    if let Some(payload) = head_to_server(msg, out) {
        out.extend_from_slice(&payload);
    }
}

/// Appends the whole frame of a message.
pub fn encode_to_client(msg: &ToClient, out: &mut Vec<u8>) {
    if let Some(payload) = head_to_client(msg, out) {
        out.extend_from_slice(&payload);
    }
}

/// Appends a frame without its payload, and gives the payload (never empty) that must follow.
#[must_use = "the payload must follow the frame"]
pub fn head_to_server(msg: &ToServer, out: &mut Vec<u8>) -> Option<Arc<[u8]>> {
    let payload = match msg {
        ToServer::Data(request) => match &request.op {
            DataOp::Write { data, .. } => Some(data),
            _ => None,
        },
        ToServer::Request(request) => op::payload(&request.op),
        _ => None,
    };
    write(&from_client::encode(msg), TO_SERVER, payload, out)
}

/// Appends a frame without its payload, and gives the payload (never empty) that must follow.
#[must_use = "the payload must follow the frame"]
pub fn head_to_client(msg: &ToClient, out: &mut Vec<u8>) -> Option<Arc<[u8]>> {
    let payload = match msg {
        ToClient::Data { result: Ok(DataAnswer::Bytes(bytes)), .. } => Some(bytes),
        ToClient::Reply { result: Ok(Answer::Bytes(bytes)), .. } => Some(bytes),
        ToClient::Reply { result: Ok(Answer::Opened { data, .. }), .. } => data.as_ref(),
        _ => None,
    };
    write(&from_server::encode(msg), TO_CLIENT, payload, out)
}

fn write(msg: &impl Message, direction: u8, payload: Option<&Arc<[u8]>>, out: &mut Vec<u8>) -> Option<Arc<[u8]>> {
    let start = out.len();
    out.resize(start + HEADER_LEN, 0);
    msg.encode_raw(out);
    let payload = payload.filter(|bytes| !bytes.is_empty());
    seal(out, start, direction, payload.map_or(0, |bytes| bytes.len()));
    payload.cloned()
}
