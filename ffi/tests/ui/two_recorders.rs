//! Commands are counted by the one who records them.
use xla_ffi::{Recorder, prelude::*};

struct Two;

#[xla_ffi::stateful]
impl Two {
    fn execute() {}

    fn record(a: Recorder, b: Option<Recorder>) -> Result<()> {
        a.join(&[])?;
        b.map_or(Ok(()), |b| b.join(&[]).map(drop))
    }
}

xla_ffi::library! { Two }

fn main() {}
