//! The checkout.

use std::path::{Path, PathBuf};

/// The repository's folder.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("testing/ lies in the repository")
        .to_owned()
}

/// The folder that cargo builds into.
///
/// # Panics
/// Where a program has no path.
#[must_use]
pub fn target_folder() -> PathBuf {
    // The test lies in TARGET/PROFILE/deps.
    let this = std::env::current_exe().expect("a path of its own");
    let target = this.ancestors().nth(3).expect("the target folder");
    target.to_owned()
}
