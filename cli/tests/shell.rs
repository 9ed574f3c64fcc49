//! What shells and people at them ask of the program itself.

use std::process::{Command, Output};
use xla_ffi_testing::compiler::library_of_text;

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

/// A library that takes its time to load; `script` gives the program a terminal.
#[test]
fn who_waits_at_a_terminal_is_told() {
    let test = "who_waits_at_a_terminal_is_told";
    // The doctor loads it once for each question: the first time is enough.
    let text = r#"
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) void slow(void) {
  if (open(MARK, O_CREAT | O_EXCL, 0600) >= 0) sleep(4);
}
int f(void) { return 0; }
"#;
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("slept");
    let define = format!("-DMARK=\"{}\"", mark.display());
    let Some(library) = library_of_text(folder.path(), "slow", "gcc", text, &[&define]) else {
        return xla_ffi_testing::skip(test, "gcc is not there");
    };
    let command = format!(
        "{} doctor {} --handler f --jaxlib 0.12.0",
        env!("CARGO_BIN_EXE_xla-ffi"),
        library.display()
    );
    let ask = |program: &mut Command| program.stdin(std::process::Stdio::null()).output();
    let Ok(seen) = ask(Command::new("script").args(["-qec", &command, "/dev/null"])) else {
        return xla_ffi_testing::skip(test, "no script, which gives a terminal");
    };
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(seen.contains("libslow.so, 2 s\u{1b}[K"), "{seen:?}");
    // The line is gone before the answer comes.
    let answer = seen.rfind("findings").unwrap();
    let gone = seen.rfind("\r\u{1b}[K").unwrap();
    assert!(
        gone < answer && !seen[gone + 1..].contains(" s\u{1b}[K"),
        "{seen:?}"
    );
    // A file gets none of it.
    std::fs::remove_file(&mark).unwrap();
    let out = ask(Command::new("sh").args(["-c", &command])).unwrap();
    let both = [out.stdout, out.stderr].concat();
    assert!(!both.contains(&0x1b), "{}", String::from_utf8_lossy(&both));
}

#[test]
fn colour_is_for_terminals() {
    let out = xla_ffi(&["inspec"]);
    assert!(!out.stderr.contains(&0x1b));
    let command = format!("{} inspec", env!("CARGO_BIN_EXE_xla-ffi"));
    let seen = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(std::process::Stdio::null())
        .output();
    let Ok(seen) = seen else {
        return xla_ffi_testing::skip(
            "colour_is_for_terminals",
            "no script, which gives a terminal",
        );
    };
    assert!(
        seen.stdout.contains(&0x1b),
        "{}",
        String::from_utf8_lossy(&seen.stdout)
    );
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
