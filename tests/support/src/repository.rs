//! The checkout.

use std::path::{Path, PathBuf};

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
