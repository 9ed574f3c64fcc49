//! Skips: told on standard output, and to `cargo xtask test`, which counts them.

/// Says that a test, or a part of it, is skipped.
pub fn skip(test: &str, reason: &str) {
    println!("skipped: {test}: {reason}");
    if let Some(path) = std::env::var_os("XLA_FFI_SKIPS") {
        use std::io::Write;
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .expect("XLA_FFI_SKIPS names a file");
        writeln!(file, "{test}: {reason}").expect("XLA_FFI_SKIPS can be written");
    }
}
