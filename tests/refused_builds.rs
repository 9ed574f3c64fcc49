//! Libraries that do not build, though each of their lines is well: the words say what to do.

use std::process::{Command, Output};

/// Cargo in the folder that these tests are built in: what the libraries use is there already.
fn cargo(task: &str, rest: &[&str]) -> Output {
    Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args([task, "--offline"])
        .args(rest)
        .arg("--target-dir")
        .arg(xla_ffi_testing::target_folder())
        .output()
        .expect("cargo runs this test")
}

#[test]
fn panic_abort_is_refused_when_the_library_is_compiled() {
    let check = |panic: &str| {
        let panic = format!("profile.dev.panic = \"{panic}\"");
        let library = ["-p", "xla-ffi-examples", "--example", "tiled_add"];
        cargo("check", &[&library[..], &["--config", &panic]].concat())
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

/// The compiler knows ranks when it generates code, not before.
#[test]
fn a_shape_of_any_rank_is_refused_when_the_library_is_built() {
    let fixture = ["-p", "xla-ffi-fixtures", "--example", "any_rank"];
    // Optimised code has lost the line.
    let refused = cargo(
        "build",
        &[&fixture[..], &["--features", "refused"]].concat(),
    );
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success());
    for expected in [
        "`shape` needs a fixed rank: `Buffer<T, 2>`",
        "usize::MAX>::shape",
        "any_rank.rs:6:13",
    ] {
        assert!(told.contains(expected), "{expected} is not in\n{told}");
    }
}
