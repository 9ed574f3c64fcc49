//! Builds that do not load: what undefined symbols, constructors and hangs do to callers is no matter of taste.

use super::{diff, library, told};
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
            "aborts",
            "#include <stdlib.h>\n__attribute__((constructor)) static void ends(void) { abort(); }",
        ),
        (
            "hangs",
            "__attribute__((constructor)) static void hangs(void) { for (;;) __asm__(\"\"); }",
        ),
    ];
    for (name, how) in ways {
        let new = broken(folder.path(), name, how).unwrap();
        let arguments = ["--fail-on", "major", "--timeout", "1"];
        let output = diff(&old, &new, &arguments);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{name}: {text}");
        assert!(!text.contains("notice nothing"), "{name}: {text}");
        assert!(
            text.contains("major: loads on this machine: was yes, is no"),
            "{name}: {text}"
        );
        let json = told(&old, &new, &arguments);
        assert_eq!(
            json["exit"],
            json!({ "code": 1, "kind": "findings" }),
            "{name}"
        );
        assert_eq!(json["step"], "major", "{name}");
        // The other way around nothing that worked breaks.
        let back = told(&new, &old, &arguments);
        assert_eq!(
            (&back["step"], &back["exit"]["code"]),
            (&json!("minor"), &json!(0)),
            "{name}"
        );
        // Neither loads: a gate has nothing to judge by, and says so.
        let output = diff(&new, &new, &arguments);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{name}: {text}");
        assert!(text.contains("neither build loads here"), "{name}: {text}");
        let json = told(&new, &new, &arguments);
        assert_eq!(
            json["exit"],
            json!({ "code": 1, "kind": "not-judged" }),
            "{name}"
        );
        assert_eq!(
            told(&new, &new, &["--timeout", "1"])["exit"]["code"],
            0,
            "{name}"
        );
    }
}
