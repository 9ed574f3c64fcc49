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
