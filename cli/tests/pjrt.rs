//! Tests that `xla-ffi run --engine pjrt:PLUGIN` has the same output and exit status as the embedded runtime.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use xla_ffi_testing::compiler::shared_library;
use xla_ffi_testing::{plugin, skip};

/// Builds a C example or test fixture as a library. Without a C compiler, reports a skip and returns `None`.
fn example(test: &str, name: &str) -> Option<PathBuf> {
    // Each library is built once, because a second compilation could overwrite a library that another test is running.
    static BUILT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("lib{name}.so"));
    if built.contains(name) {
        return Some(out);
    }
    let places = ["c_examples", "tests/fixtures"].map(|folder| root.join(folder));
    let mut sources = places.iter().map(|folder| folder.join(format!("{name}.c")));
    let source = sources.find(|source| source.is_file()).expect(name);
    let done = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-std=c99", "-O1", "-shared", "-fPIC", "-w", "-I"])
        .arg(root.join("include"))
        .arg(source)
        .arg("-o")
        .arg(&out)
        .args(["-pthread", "-lm"])
        .output();
    match done {
        Ok(done) => {
            let errors = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{errors}");
            built.insert(name.to_owned());
            Some(out)
        }
        Err(error) => {
            skip(test, &format!("no C compiler: {error}"));
            None
        }
    }
}

fn run(lib: &Path, rest: &[&str], engine: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .arg("run")
        .arg(lib)
        .args(rest)
        .args(["--engine", engine])
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the exit status, standard output and standard error of a process.
fn told(out: &Output) -> (Option<i32>, String, String) {
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

#[test]
fn both_engines_say_the_same() {
    let test = "pjrt.both_engines_say_the_same";
    let Some(plugin) = plugin(test) else { return };
    let Some(rms_norm) = example(test, "rms_norm") else {
        return;
    };
    let Some(conformance) = example(test, "conformance") else {
        return;
    };
    let engine = format!("pjrt:{}", plugin.display());
    let eps = "{eps = 1.0e-5 : f32}";
    let handler = |name: &'static str, rest: &[&'static str]| {
        let mut all = vec!["--handler", name];
        all.extend(rest);
        (&conformance, all)
    };
    let calls = [
        (
            &rms_norm,
            vec![
                "--handler",
                "rms_norm",
                "--arg",
                "f32[2,3]=1,2,3,4,5,6",
                "--attrs",
                eps,
            ],
        ),
        (
            &rms_norm,
            vec![
                "--handler",
                "rms_norm",
                "--arg",
                "f64[2]=1,2",
                "--ret",
                "f64[2]",
                "--attrs",
                eps,
            ],
        ),
        (
            &rms_norm,
            vec!["--handler", "rms_norm", "--arg", "f32[2]=1,2"],
        ),
        handler(
            "scale",
            &[
                "--arg",
                "f32[2]=1,2",
                "--ret",
                "f32[2]",
                "--attrs",
                "{factor = 2.0 : f32}",
            ],
        ),
        handler(
            "add_tokens",
            &[
                "--arg", "token", "--arg", "f32[]=1", "--ret", "token", "--ret", "f32[]",
            ],
        ),
        handler("increment", &["--arg", "f32[3]=1,2,3"]),
        handler(
            "execute=counter,instantiate=counter_instantiate",
            &[
                "--arg",
                "f32[]=1",
                "--ret",
                "s64[]",
                "--attrs",
                "{start = 5}",
            ],
        ),
        handler(
            "execute=counter,instantiate=counter_instantiate",
            &[
                "--arg",
                "f32[]=1",
                "--ret",
                "s64[]",
                "--attrs",
                "{start = -5}",
            ],
        ),
        handler(
            "run_id",
            &["--arg", "f32[]=1", "--ret", "s64[]", "--run-id", "7"],
        ),
        handler("unpack", &["--arg", "s4[3]=-8,7,1", "--ret", "s8[3]"]),
        handler(
            "async_scale",
            &[
                "--arg",
                "f32[1]=2",
                "--ret",
                "f32[1]",
                "--attrs",
                "{factor = 2.0 : f32, delay_ms = 9}",
            ],
        ),
        handler(
            "fail",
            &[
                "--arg",
                "f32[]=1",
                "--ret",
                "f32[]",
                "--attrs",
                "{code = 9 : i32, message = \"a\\nb\"}",
            ],
        ),
        (
            &conformance,
            vec!["--handler", "nobody", "--arg", "f32[]=1"],
        ),
        (&conformance, vec!["--arg", "f32[]=1"]),
    ];
    let (mut good, mut bad) = (0, 0);
    for (lib, rest) in calls {
        let embedded = run(lib, &rest, "embedded");
        let real = run(lib, &rest, &engine);
        assert_eq!(told(&real), told(&embedded), "{rest:?}");
        match embedded.status.code() {
            Some(0) => good += 1,
            Some(1) => bad += 1,
            other => panic!("{rest:?} ended with {other:?}"),
        }
    }
    assert!(good >= 7 && bad >= 5, "{good} {bad}");
}

/// Tests that if the plugin's XLA lacks a function, the error names the function and the ABI version of that XLA.
#[test]
fn what_the_plugin_is_too_old_for() {
    let test = "pjrt.what_the_plugin_is_too_old_for";
    let Some(plugin) = plugin(test) else { return };
    let Some(lib) = example(test, "conformance") else {
        return;
    };
    let rest = [
        "--handler",
        "custom_options",
        "--arg",
        "f32[]=1",
        "--ret",
        "s64[]",
    ];
    let done = run(&lib, &rest, &format!("pjrt:{}", plugin.display()));
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(
        said.contains("UNIMPLEMENTED: custom options") && said.contains("XLA FFI 0.2"),
        "{said}"
    );
}

/// Tests that if a plugin crashes or hangs in its own code, the error names the plugin instead of the handler.
#[test]
fn plugins_that_misbehave_are_named() {
    let test = "pjrt.plugins_that_misbehave_are_named";
    let Some(lib) = example(test, "rms_norm") else {
        return;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (name, body, wanted) in [
        (
            "crashing",
            "*(volatile int*)8 = 1;",
            "while it was loaded, crashed its process with signal 11",
        ),
        (
            "leaving",
            "_exit(0);",
            "while it was loaded, ended its process with exit status: 0",
        ),
        (
            "hanging",
            "for (;;) sleep(1);",
            "while it was loaded, did not return within the time limit of 6s and was stopped",
        ),
    ] {
        let source = folder.join(format!("{name}.c"));
        let code = format!(
            "#include <unistd.h>\n\
             void* GetPjrtApi(void) {{ {body} return 0; }}\n"
        );
        std::fs::write(&source, code).unwrap();
        let Some(plugin) = shared_library(folder, test, &source, name, &[]) else {
            return;
        };
        let rest = [
            "--handler",
            "rms_norm",
            "--arg",
            "f32[2]=3,4",
            "--time-limit",
            "1",
        ];
        let done = run(&lib, &rest, &format!("pjrt:{}", plugin.display()));
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{said}");
        let named = format!("error: the plugin {}, {wanted}", plugin.display());
        assert!(said.contains(&named), "{said}");
    }
}

#[test]
fn options_of_the_embedded_runtime_do_not_parse() {
    let lib = Path::new("libnone.so");
    let refused = |rest: &[&str], engine: &str, wanted: &str| {
        let done = run(lib, rest, engine);
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{rest:?}: {said}");
        assert!(said.contains(wanted), "{rest:?}: {said}");
    };
    for (option, value) in [
        ("--revision", "r3"),
        ("--custom-options", "{a = 1}"),
        ("--device-ordinal", "1"),
        ("--threads", "2"),
        ("--stages", "cpu"),
    ] {
        refused(&[option, value], "pjrt:plugin.so", option);
    }
    refused(&["--scratch"], "pjrt:plugin.so", "--scratch");
    refused(&["--run-id", "4294967296"], "pjrt:plugin.so", "32 bits");
    refused(&[], "pjrt", "pjrt:PLUGIN.so");
    refused(&[], "pjrt:", "pjrt:PLUGIN.so");
    refused(&[], "jax", "pjrt:PLUGIN.so");
    let bench = Command::new(env!("CARGO_BIN_EXE_xla-ffi"))
        .args(["bench", "libnone.so", "--engine", "pjrt:plugin.so"])
        .output()
        .unwrap();
    assert_eq!(bench.status.code(), Some(2), "{}", text(&bench.stderr));
}
