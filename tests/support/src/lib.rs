//! Test helpers shared by several packages: skips, paths in the checkout and the target folder, compilers, damaged
//! input.
//!
//! This crate is only a development dependency and is never published.

pub mod compiler;
pub mod cost;
#[cfg(feature = "files")]
pub mod damage;
pub mod headers;
pub mod once;
pub mod verdicts;
#[cfg(feature = "files")]
pub mod wheel;
pub mod zig;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// trybuild's own flags for its cases.
///
/// trybuild builds the dependencies without the last flag, and again with it. If the flags are passed explicitly, both
/// builds are the same.
pub const TRYBUILD_FLAGS: [&str; 6] = [
    "--cfg",
    "trybuild",
    "--verbose",
    "-A",
    "dead_code",
    "--diagnostic-width=140",
];

/// Reports that a test, or a part of it, is skipped.
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

/// Returns the repository's folder.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("tests/support/ lies in the repository")
        .to_owned()
}

/// Returns cargo's target folder.
///
/// # Panics
/// Panics if the path of this program is unknown.
#[must_use]
pub fn target_folder() -> PathBuf {
    // Tests are in TARGET/PROFILE/deps, programs in TARGET/PROFILE.
    let this = std::env::current_exe().expect("a path of its own");
    let folder = this.parent().expect("the folder of this program");
    let levels = if folder.ends_with("deps") { 2 } else { 1 };
    let target = folder.ancestors().nth(levels);
    target.expect("the target folder").to_owned()
}

/// Returns the path in `XLA_FFI_PJRT_PLUGIN`. Reports a skip and returns `None` if the variable is not set.
pub fn plugin(test: &str) -> Option<PathBuf> {
    let found = std::env::var_os("XLA_FFI_PJRT_PLUGIN").map(PathBuf::from);
    if found.is_none() {
        skip(
            test,
            "XLA_FFI_PJRT_PLUGIN is not set (`cargo xtask test` sets it where the index has the plugin)",
        );
    }
    found
}

/// Returns the folder of the Rust examples and fixtures.
///
/// The cargo that runs the tests builds them in release mode, unless `XLA_FFI_RUST_EXAMPLES` specifies the folder.
///
/// # Panics
/// Panics if the build fails, and outside `cargo test`.
#[must_use]
pub fn rust_examples() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(folder) = std::env::var_os("XLA_FFI_RUST_EXAMPLES") {
            return folder.into();
        }
        let cargo = std::env::var_os("CARGO").expect("cargo runs the tests");
        let status = Command::new(cargo)
            .current_dir(root())
            .args([
                "build",
                "--quiet",
                "--release",
                "--package",
                "xla-ffi-examples",
                "--package",
                "xla-ffi-fixtures",
                "--examples",
            ])
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the examples do not build");
        target_folder().join("release/examples")
    })
}

/// A code block of a page.
pub struct Block {
    /// The text after the opening fence, up to a comma. May be empty.
    pub language: String,
    /// The lines of the block.
    pub text: String,
}

/// Returns the text of a page of `docs/`.
///
/// # Panics
/// Panics if the page does not exist.
#[must_use]
pub fn page(name: &str) -> String {
    let path = root().join("docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the code blocks of a page, in order.
#[must_use]
pub fn blocks(page: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some("") if inside => inside = false,
            Some(language) => {
                inside = true;
                let language = language.split(',').next().unwrap_or_default();
                found.push(Block {
                    language: language.to_owned(),
                    text: String::new(),
                });
            }
            None if inside => {
                if let Some(block) = found.last_mut() {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
            }
            None => {}
        }
    }
    found
}
