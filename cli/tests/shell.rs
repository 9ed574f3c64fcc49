//! Tests completion scripts and the examples in the help texts, in a shell.

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
    // If bash cannot parse the completion script, this command fails.
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
fn the_examples_of_the_help_are_valid_command_lines() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for command in ["run", "doctor", "abi check", "new"] {
        let arguments: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = String::from_utf8(xla_ffi(&arguments).stdout).unwrap();
        let (_, examples) = help.split_once("Examples:\n").unwrap();
        for example in examples.lines() {
            let program = env!("CARGO_BIN_EXE_xla-ffi");
            let line = example.replace("  xla-ffi", program);
            let shell = Command::new("sh")
                .args(["-c", &line])
                .current_dir(&folder)
                .status();
            // Most examples name files that do not exist, so status 1 is expected.
            assert!(matches!(shell.unwrap().code(), Some(0 | 1)), "{example}");
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
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
fn options_that_would_do_nothing_are_refused() {
    let snapshots = [
        &["--write-baseline", "b"][..],
        &["--baseline", "b"],
        &["--allow", "b"],
        &["--fail-on", "any"],
        &["-D", "X"],
        &["-I", "."],
        &["--prefix", "X_"],
        &["--namespace", "x"],
        &["--variant", "x"],
    ];
    let wrong = |arguments: &[&str]| {
        let out = xla_ffi(arguments);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(out.stdout.is_empty(), "{arguments:?}");
    };
    for option in snapshots {
        wrong(&[&["abi", "check", "--snapshots"], option].concat());
    }
    for option in &snapshots[3..] {
        for mirror in ["--layout", "--dwarf"] {
            wrong(&[&["abi", "check", mirror, "x"], *option].concat());
        }
    }
    for option in &snapshots[4..8] {
        wrong(&[&["abi", "show", "r10"], *option].concat());
        wrong(&[&["abi", "diff", "r9", "r10"], *option].concat());
        wrong(&[&["abi", "show", "s.json"], *option].concat());
    }
    let twice = ["--variant", "a:X", "--variant", "a:Y"];
    wrong(&[&["abi", "check", "--header", "x.h"], &twice[..]].concat());
    for command in ["run", "bench", "check"] {
        wrong(&[command, "x.so", "--time-limit", "0"]);
    }
}
