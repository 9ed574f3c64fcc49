//! `cargo xtask soak coverage` measures how much of the sources the tests run.
//!
//! LLVM instruments Rust, and GCC the C and C++ headers. Tests that fail because of the instrumentation, such as those
//! that compare symbols, are ignored.

use crate::cargo::{self, cargo};
use crate::material::Material;
use crate::python::{self, Python};
use crate::tally::Log;
use crate::uv;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Version of cargo-llvm-cov.
const VERSION: &str = "0.9.1";
/// The packages whose tests run.
const PACKAGES: [&str; 5] = [
    "xla-ffi",
    "xla-ffi-runtime",
    "xla-ffi-programs",
    "xla-ffi-cuda-examples",
    "xla-ffi-tests",
];
/// Reads GCC's counters.
const GCOVR: &str = "gcovr==8.4";

pub(super) fn run(root: &Path) -> Result<()> {
    let folder = root.join("target/soak/coverage");
    fs::create_dir_all(&folder)?;
    let material = Material::fetch(true, &mut Log::new())?;
    rust(root, &material, &folder)?;
    headers(root, &material, &folder)
}

/// Prints the coverage of `ffi` and `runtime`, and the functions of `ffi` that no test calls.
///
/// `LLVM_COV` and `LLVM_PROFDATA` select tools that read what this Rust writes, if `rustup` has none.
fn rust(root: &Path, material: &Material, folder: &Path) -> Result<()> {
    let tool = cargo::tool(root, "cargo-llvm-cov", VERSION)?;
    let target = folder.join("rust");
    let llvm_cov = || {
        let mut command = Command::new(&tool);
        // Tests build libraries in the folder of `CARGO_TARGET_DIR`.
        command
            .current_dir(root)
            .arg("llvm-cov")
            .env("CARGO_TARGET_DIR", &target)
            .env("CARGO_LLVM_COV_TARGET_DIR", &target);
        command
    };
    let mut tests = llvm_cov();
    tests.args(["test", "--no-report", "--ignore-run-fail", "--tests"]);
    tests.args(PACKAGES.iter().flat_map(|name| ["--package", name]));
    material.name_in(&mut tests);
    ensure!(tests.status()?.success(), "cargo llvm-cov failed");
    // Without these flags, only test programs count.
    let mut libraries = String::new();
    for entry in fs::read_dir(target.join("release/examples"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "so") {
            libraries += &format!("-object {} ", path.display());
        }
    }
    let report = folder.join("rust.json");
    let mut command = llvm_cov();
    command
        .args(["report", "--json", "--output-path"])
        .arg(&report)
        .args(PACKAGES.iter().flat_map(|name| ["--package", name]))
        .env("LLVM_COV_FLAGS", libraries);
    ensure!(command.status()?.success(), "cargo llvm-cov report failed");
    let report: Value = serde_json::from_slice(&fs::read(&report)?)?;
    let data = &report["data"][0];
    let within = |path: &str, part: &str| Path::new(path).starts_with(root.join(part));
    for part in ["ffi/src", "runtime/src"] {
        let mut sums = [0, 0];
        for file in
            list(data, "files").filter(|file| within(file["filename"].as_str().unwrap_or(""), part))
        {
            let lines = &file["summary"]["lines"];
            for (sum, key) in sums.iter_mut().zip(["covered", "count"]) {
                *sum += lines[key].as_u64().unwrap_or(0);
            }
        }
        println!("{part}: {}", percent("lines", sums));
    }
    // A generic function has a record per instance.
    let mut calls: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    for function in list(data, "functions") {
        let file = function["filenames"][0].as_str().unwrap_or("");
        if within(file, "ffi/src") {
            let line = function["regions"][0][0].as_u64().unwrap_or(0);
            *calls.entry((file, line)).or_default() += function["count"].as_u64().unwrap_or(0);
        }
    }
    println!("ffi/src: {} functions", calls.len());
    let uncalled = calls.iter().filter(|(_, count)| **count == 0);
    let mut compiled = 0;
    for ((file, line), _) in uncalled {
        let text = fs::read_to_string(file)?;
        let text = text.lines().nth(*line as usize - 1).unwrap_or("").trim();
        // The compiler runs functions that are only used in constants.
        if text.contains("const fn ") || text.contains("const unsafe fn ") {
            compiled += 1;
        } else {
            let file = Path::new(file).strip_prefix(root)?;
            println!("  not called: {}:{line}: {text}", file.display());
        }
    }
    println!("  {compiled} functions are only used in constants");
    Ok(())
}

/// Prints the coverage of `include`.
fn headers(root: &Path, material: &Material, folder: &Path) -> Result<()> {
    let python = python::all()?.swap_remove(0);
    let packages = uv::folder(&python, &[GCOVR], "gcovr/__main__.py")?;
    // Tests find compilers by name.
    let programs = folder.join("bin");
    fs::create_dir_all(&programs)?;
    for name in ["gcc", "g++", "cc", "c++"] {
        let gcc = if name.contains('+') { "g++" } else { "gcc" };
        let real = python::output(Command::new("which").arg(gcc), gcc)?;
        let real = real.trim();
        // Without a program, the counters' description would end up in the checkout. Optimized code has other branches.
        let script = format!(
            "#!/bin/sh\ncase \" $* \" in *\" -fsyntax-only \"*) exec {real} \"$@\";; esac\n\
             exec {real} \"$@\" -O0 --coverage -fprofile-update=atomic\n"
        );
        let path = programs.join(name);
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    let old = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(programs).chain(std::env::split_paths(&old));
    let mut tests = cargo(root);
    material.name_in(&mut tests);
    tests
        .args(["test", "--no-fail-fast", "-p", "xla-ffi-tests"])
        .arg("--target-dir")
        .arg(folder.join("target"))
        .env("PATH", std::env::join_paths(path)?);
    tests.status().context("cargo test")?;
    let mut gcovr = Python::command(&python.exe);
    gcovr
        .args(["-m", "gcovr", "--root"])
        .arg(root)
        .args([
            "--filter",
            "include/xla",
            "--exclude-throw-branches",
            "--json",
            "--gcov-ignore-errors=all",
            "--gcov-ignore-parse-errors=all",
        ])
        .arg(folder.join("target"))
        .env("PYTHONPATH", packages);
    let report: Value = serde_json::from_str(&python::output(&mut gcovr, "gcovr")?)?;
    // Each instance of a template, and each inlined copy of a function, has its own records of a line.
    let (mut lines, mut decisions) = (BTreeMap::new(), BTreeMap::new());
    for file in list(&report, "files") {
        for line in list(file, "lines") {
            let at = (file["file"].as_str(), line["line_number"].as_u64());
            let runs = |record: &Value| record["count"].as_u64() > Some(0);
            *lines.entry(at).or_insert(false) |= runs(line);
            for (number, branch) in list(line, "branches").enumerate() {
                let taken: &mut BTreeSet<usize> = decisions.entry(at).or_default();
                taken.extend(runs(branch).then_some(number));
            }
        }
    }
    print("lines", lines.into_values());
    let both = decisions.into_values().map(|taken| taken.len() > 1);
    print("lines with branches, of which two run", both);
    Ok(())
}

fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value[key].as_array().into_iter().flatten()
}

fn print(what: &str, counted: impl Iterator<Item = bool>) {
    let mut counts = [0, 0];
    for is_covered in counted {
        counts[0] += u64::from(is_covered);
        counts[1] += 1;
    }
    println!("include: {}", percent(what, counts));
}

fn percent(what: &str, [covered, total]: [u64; 2]) -> String {
    let percent = 100.0 * covered as f64 / total.max(1) as f64;
    format!("{what}: {covered} of {total}, {percent:.1} %")
}
