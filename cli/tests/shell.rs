//! What shells and people at them ask of the program itself.

use std::process::{Command, Output};

fn xla_ffi(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn every_shell_completes_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let out = xla_ffi(&["completions", shell]);
        let script = String::from_utf8(out.stdout).unwrap();
        assert!(out.status.success());
        for command in ["run", "inspect", "doctor", "abi", "new", "completions"] {
            assert!(script.contains(command), "{shell}: no {command}");
        }
    }
    // bash takes its own.
    let script = xla_ffi(&["completions", "bash"]).stdout;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("completions");
    std::fs::write(&file, script).unwrap();
    let Ok(taken) = Command::new("bash").arg("-n").arg(&file).status() else {
        return xla_ffi_testing::skip("every_shell_completes_every_command", "no bash");
    };
    assert!(taken.success());
}

#[test]
fn the_version_names_the_newest_revision() {
    let text = String::from_utf8(xla_ffi(&["--version"]).stdout).unwrap();
    let newest = xla_ffi_sys::Revision::NEWEST;
    for part in [
        env!("CARGO_PKG_VERSION"),
        newest.name(),
        newest.first_jaxlib(),
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn mistyped_words_are_understood() {
    for (arguments, meant) in [
        (&["inspec", "x.so"][..], "'inspect'"),
        (&["run", "x.so", "--hander", "f"], "'--handler'"),
    ] {
        let out = xla_ffi(arguments);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2));
        assert!(told.contains(meant), "{told}");
    }
}
