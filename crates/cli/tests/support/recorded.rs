//! The answers of a real node, as `crates/node/tests/node/recorded.rs` wrote them down and compares them with those of the node of today.

use serde_json::Value;
use sluice_control::{Answer, Reply, Request};

const ANSWERS: &str = include_str!("../fixtures/edge-1.json");

/// What the node answered to this request. To a document and to a capture it answered the same whatever the text or the file was.
pub(crate) fn reply(request: &Request) -> Reply {
    let asked = serde_json::to_value(request).unwrap();
    let entries: Vec<Value> = serde_json::from_str(ANSWERS).unwrap();
    let any_of_its_kind = matches!(request, Request::Apply { .. } | Request::StartCapture { .. });
    let is_meant = |entry: &&Value| match any_of_its_kind {
        true => entry["request"]["request"] == asked["request"],
        false => entry["request"] == asked,
    };
    let entry = entries.iter().find(is_meant);
    let entry = entry.unwrap_or_else(|| panic!("{request:?} was not recorded"));
    let mut reply = serde_json::from_value(entry["reply"].clone()).unwrap();
    if let (Request::StartCapture { file, .. }, Reply::Answer(Answer::Captured(captured))) =
        (request, &mut reply)
    {
        captured.file = file.display().to_string();
    }
    reply
}
