//! The example libraries that tests load.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of the Rust examples, built in release mode by the cargo that runs the tests.
pub(crate) fn rust_examples() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let status = Command::new(env!("CARGO"))
            .current_dir(root)
            .args([
                "build",
                "--quiet",
                "--release",
                "--package",
                "xla-ffi-examples",
                "--examples",
            ])
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the examples do not build");
        // The test lies in TARGET/PROFILE/deps.
        let this = std::env::current_exe().expect("a path of its own");
        let target = this.ancestors().nth(3).expect("the target folder");
        target.join("release/examples")
    })
}
