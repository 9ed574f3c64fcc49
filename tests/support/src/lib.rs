//! What the tests of several packages share: skips, places in the checkout and the target folder, compilers, damaged input.
//! It is a development dependency alone and never published.

pub mod compiler;
pub mod cost;
pub mod damage;
pub mod headers;
pub mod once;
pub mod verdicts;
pub mod wheel;
pub mod zig;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// trybuild's own flags for the cases. It builds what they depend on without the last one, and again
/// with it; given here, they are the same for both.
pub const TRYBUILD_FLAGS: [&str; 6] = [
    "--cfg",
    "trybuild",
    "--verbose",
    "-A",
    "dead_code",
    "--diagnostic-width=140",
];

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

/// The repository's folder.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("tests/support/ lies in the repository")
        .to_owned()
}

/// The folder that cargo builds into.
///
/// # Panics
/// Where a program has no path.
#[must_use]
pub fn target_folder() -> PathBuf {
    // Tests lie in TARGET/PROFILE/deps, programs in TARGET/PROFILE.
    let this = std::env::current_exe().expect("a path of its own");
    let folder = this.parent().expect("the folder of this program");
    let levels = if folder.ends_with("deps") { 2 } else { 1 };
    let target = folder.ancestors().nth(levels);
    target.expect("the target folder").to_owned()
}

/// The file that `XLA_FFI_PJRT_PLUGIN` names, or `None`, told.
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

/// The folder of the Rust examples and fixtures, built in release mode by the cargo that runs the tests, unless
/// `XLA_FFI_RUST_EXAMPLES` names it.
///
/// # Panics
/// Where they do not build, and outside `cargo test`.
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
    /// What stands behind the opening fence, up to a comma; empty where nothing does.
    pub language: String,
    /// Its lines.
    pub text: String,
}

/// The text of a page of `docs/`.
///
/// # Panics
/// Where there is no such page.
#[must_use]
pub fn page(name: &str) -> String {
    let path = root().join("docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The code blocks of a page, in their order.
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
