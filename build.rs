//! Builds the C and C++ examples in `OUT_DIR` and passes their paths to the tests.
//!
//! If a compiler is missing, the build still succeeds: tests that need an example get `None` and report a skip
//! with the reason.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs};

/// A programming language of the examples.
struct Language {
    /// File extension of the sources.
    extension: &'static str,
    /// Whether the sources are compiled as C++.
    cpp: bool,
    /// Flag of the language standard.
    standard: &'static str,
}

const LANGUAGES: [Language; 2] = [
    Language {
        extension: "c",
        cpp: false,
        standard: "-std=c99",
    },
    Language {
        extension: "cc",
        cpp: true,
        standard: "-std=c++17",
    },
];

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("c_examples");
    fs::create_dir_all(&out).expect("OUT_DIR is writable");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=c_examples");
    println!("cargo:rerun-if-changed=include");
    println!("cargo:rerun-if-changed=tests/fixtures");
    println!("cargo:rerun-if-env-changed=CC");
    println!("cargo:rerun-if-env-changed=CXX");
    println!("cargo:rustc-env=C_EXAMPLES_DIR={}", out.display());
    println!(
        "cargo:rustc-env=SDK_INCLUDE_DIR={}",
        root.join("include").display()
    );
    let triple = env::var("TARGET").expect("cargo sets it");
    println!("cargo:rustc-env=HOST_TRIPLE={triple}");
    for language in &LANGUAGES {
        let key = if language.cpp { "CPP" } else { "C" };
        let tool = cc::Build::new()
            .cpp(language.cpp)
            .cargo_metadata(false)
            .opt_level(2)
            .try_get_compiler();
        let works = tool.as_ref().is_ok_and(|tool| {
            Command::new(tool.path())
                .arg("--version")
                .output()
                .is_ok_and(|output| output.status.success())
        });
        match tool {
            Ok(tool) if works => {
                println!("cargo:rustc-env={key}_COMPILER={}", tool.path().display());
                let folders = ["c_examples", "tests/fixtures"];
                let sources: Vec<_> = folders
                    .iter()
                    .flat_map(|folder| sources(&root.join(folder), language.extension))
                    .collect();
                build_all(&tool, &root, &out, &sources, language);
            }
            _ => println!("cargo:warning=no {key} compiler: the {key} examples are not built"),
        }
    }
}

/// Returns the sources of a language, sorted by name.
fn sources(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|is| is == extension))
        .collect();
    found.sort();
    found
}

/// Builds every source, with one thread per core.
fn build_all(tool: &cc::Tool, root: &Path, out: &Path, sources: &[PathBuf], language: &Language) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(source) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
            let stem = source.file_stem().expect("a file").to_string_lossy();
            build(tool, root, out, source, &stem, language);
            // With `TWIN` defined, the handlers form a second library that tests can distinguish from the first.
            if stem == "conformance" {
                build(tool, root, out, source, "conformance_twin", language);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
}

/// Compiles and links one source into `lib<name>.so` (C) or `lib<name>_cpp.so`.
fn build(tool: &cc::Tool, root: &Path, out: &Path, source: &Path, name: &str, language: &Language) {
    let suffix = if language.cpp { "_cpp" } else { "" };
    let library = out.join(format!("lib{name}{suffix}.so"));
    let mut command = tool.to_command();
    command
        .args([language.standard, "-shared", "-fPIC", "-fvisibility=hidden"])
        .args(["-Wall", "-Wextra", "-pedantic"])
        .args(name.ends_with("_twin").then_some("-DTWIN"))
        .arg("-I")
        .arg(root.join("include"))
        .arg(source)
        .arg("-o")
        .arg(&library)
        .args(["-lm", "-pthread"]);
    let output = command.output().expect("the compiler was just found");
    let text = String::from_utf8_lossy(&output.stderr);
    for line in text.lines().filter(|line| line.contains("warning:")) {
        println!("cargo:warning={line}");
    }
    assert!(
        output.status.success(),
        "{} does not compile:\n{text}",
        source.display()
    );
}
