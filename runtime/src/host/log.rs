//! What the runtime has to say when nobody is left to answer to: the `log` facade, target `xla_ffi`.

use std::fmt::Arguments;
use std::io::Write;

/// Says it to the program's logger. Where the program has none (the facade is off) it goes to standard error,
/// because the text has to be seen; `eprintln!` would panic where that is a pipe nobody reads any more.
#[cold]
pub(crate) fn tell(level: log::Level, text: Arguments<'_>) {
    if log::max_level() == log::LevelFilter::Off {
        let _ = writeln!(std::io::stderr(), "xla-ffi: {text}");
        return;
    }
    log::log!(target: "xla_ffi", level, "{text}");
}

/// A warning.
#[cold]
pub fn warn(text: Arguments<'_>) {
    tell(log::Level::Warn, text);
}
