//! Writes to standard output; a reader that has gone away is no error.

use std::io::{ErrorKind, Write};

pub(crate) fn text(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

pub(crate) fn json(value: &serde_json::Value) -> anyhow::Result<()> {
    text(&format!("{}\n", serde_json::to_string_pretty(value)?))
}
