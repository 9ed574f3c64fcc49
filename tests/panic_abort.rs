//! A library whose panics would take the host down does not compile.

use std::process::Command;

#[test]
fn panic_abort_is_refused_when_the_library_is_compiled() {
    // What the macros are made of is checked there already, whatever a panic does.
    let target = xla_ffi_testing::target_folder();
    let check = |panic: &str| {
        Command::new(env!("CARGO"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args([
                "check",
                "--offline",
                "-p",
                "xla-ffi-examples",
                "--example",
                "tiled_add",
            ])
            .args(["--config", &format!("profile.dev.panic = \"{panic}\"")])
            .arg("--target-dir")
            .arg(&target)
            .output()
            .expect("cargo runs this test")
    };
    let refused = check("abort");
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success());
    let expected =
        "a panic in a handler must not take the host down: build with panic = \"unwind\"";
    assert!(told.contains(expected), "{told}");
    let accepted = check("unwind");
    let told = String::from_utf8_lossy(&accepted.stderr);
    assert!(accepted.status.success(), "{told}");
}
