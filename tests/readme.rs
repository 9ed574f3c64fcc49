//! The README shows code that is tested: its handler is the one in `examples/02_rms_norm.rs`,
//! in a library of its own.

use std::path::Path;

fn read(relative: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(relative);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The first code block of a language.
fn block<'a>(text: &'a str, language: &str) -> &'a str {
    let start = format!("```{language}\n");
    let after = text.split_once(&start).expect("a code block").1;
    after.split_once("```").expect("its end").0
}

#[test]
fn the_handler_is_the_example() {
    let example = read("examples/02_rms_norm.rs");
    let region = example
        .split("// [handler]\n")
        .nth(1)
        .expect("the marked region");
    // The first screen leaves the gradient's handler away.
    let library = "xla_ffi::library! { rms_norm, rms_norm_backward }\n";
    let comment = "// The handler behind its gradient stands in examples/02_rms_norm.rs.\n";
    assert_eq!(
        block(&read("README.md"), "rust"),
        format!("{region}\n{comment}{library}")
    );
    assert!(example.ends_with(library));
}

#[test]
fn the_two_commands_are_on_the_first_screen() {
    let readme = read("README.md");
    let first_screen: Vec<&str> = readme.lines().take(40).collect();
    let first_screen = first_screen.join("\n");
    for command in ["cargo xtask demo", "cargo xtask test"] {
        assert!(first_screen.contains(command), "{command}");
    }
}
