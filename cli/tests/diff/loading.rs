//! Builds that do not load: what undefined symbols, constructors and hangs do to callers is no matter of taste.

use super::{library, told};
use crate::edits::manifest;
use serde_json::json;
use std::path::{Path, PathBuf};
use xla_ffi_testing::skip;

/// The handlers, and what keeps the library from loading.
fn broken(folder: &Path, name: &str, how: &str) -> Option<PathBuf> {
    let flags = ["-DMINOR=5", "-Wl,-z,now"];
    let source = format!("{}\n{how}\n", super::HANDLERS);
    super::with_manifest(folder, name, &source, Some(&manifest()), &flags)
}

#[test]
fn a_build_that_does_not_load_breaks_every_call() {
    let test = "a_build_that_does_not_load_breaks_every_call";
    let folder = tempfile::tempdir().unwrap();
    let Some(old) = library(folder.path(), "old", Some(&manifest()), &[]) else {
        return skip(test, "gcc is not there");
    };
    let ways = [
        (
            "undefined",
            "extern int nowhere(void); int (*held)(void) = nowhere;",
        ),
        (
            "hangs",
            "__attribute__((constructor)) static void hangs(void) { for (;;) __asm__(\"\"); }",
        ),
    ];
    for (name, how) in ways {
        let new = broken(folder.path(), name, how).unwrap();
        let arguments = ["--fail-on", "major", "--timeout", "1"];
        let gate = |old: &Path, new: &Path, arguments: &[&str]| {
            let told = told(old, new, arguments);
            (told["exit"]["kind"].clone(), told["step"].clone())
        };
        assert_eq!(
            gate(&old, &new, &arguments),
            (json!("findings"), json!("major")),
            "{name}"
        );
        // The other way around nothing that worked breaks.
        assert_eq!(
            gate(&new, &old, &arguments),
            (json!("ok"), json!("minor")),
            "{name}"
        );
        // Neither loads: a gate has nothing to judge by, and says so.
        assert_eq!(gate(&new, &new, &arguments).0, "not-judged", "{name}");
        assert_eq!(gate(&new, &new, &["--timeout", "1"]).0, "ok", "{name}");
    }
}
