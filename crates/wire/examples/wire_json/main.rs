//! Frames to JSON and JSON to frames, a line each: what an independent judge of the packet formats talks to.
//!
//! A line of hexadecimal digits on standard input is a frame; its layers come out as one JSON object. A line
//! that begins with `{` is the layers of a frame; the frame comes out in hexadecimal digits. A blank line is
//! a frame without octets. The fields that [`read`] writes are those that [`build`] takes, so one's output is
//! the other's input.
//!
//! ```text
//! $ cargo run -p sluice-wire --example wire_json --features builder,serde
//! {"layers": [{"layer": "ethernet", "source": "02:00:00:00:00:01", "destination": "ff:ff:ff:ff:ff:ff"},
//!             {"layer": "payload", "data": "00"}]}
//! {"frame":"ffffffffffff02000000000188b500"}
//! ```
//! (the request stands on one line)

mod build;
mod hex;
mod read;

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        writeln!(output, "{}", answer(line.trim()))?;
        output.flush()?;
    }
    Ok(())
}

fn answer(line: &str) -> Value {
    if line.starts_with('{') {
        return match build::frame(line) {
            Ok(frame) => json!({ "frame": hex::encode(&frame) }),
            Err(error) => json!({ "error": error.to_string() }),
        };
    }
    match hex::decode(line) {
        Some(frame) => read::layers(&frame),
        None => json!({ "error": "neither hexadecimal digits nor a JSON object" }),
    }
}
