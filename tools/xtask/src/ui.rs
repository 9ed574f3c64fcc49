//! What xtask says while it works: plain lines on standard error, so that logs stay readable.

use std::fmt::Display;
use std::time::Duration;

/// One line of progress.
pub(crate) fn note(text: impl Display) {
    eprintln!("   {text}");
}

/// Seconds, for a reader.
pub(crate) fn seconds(duration: Duration) -> String {
    let whole = duration.as_secs();
    if whole < 100 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} min {:02} s", whole / 60, whole % 60)
    }
}
