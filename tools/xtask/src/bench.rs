//! `cargo xtask bench` measures the cost of calls and of a library with one handler.
//!
//! The task compares the cost of decoding with that of hand-written C and of C++, and measures the growth of costs. The
//! task also measures calls on the embedded runtime, and the size and build time of the library.

mod budget;
mod embedded;
mod scale;

use crate::cargo::cargo;
use crate::libraries::file_name;
use crate::{folders, python, tally, uv, venv};
use anyhow::{Context, Result, bail, ensure};
use budget::{COLUMNS, Judged, Row, print};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use xla_ffi_testing::compiler::works;

/// Command line of `bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Fail if a cost exceeds its limit.
    #[arg(long)]
    check: bool,
    /// Run the checks of continuous integration: only decoding and the library's size; missing tools are errors.
    #[arg(long)]
    guard: bool,
    /// Measure only the cost of a call in a real XLA, compared with alternatives.
    #[arg(long, conflicts_with = "guard")]
    jax: bool,
    /// Measure only how costs grow with operands, attributes and the depth of dictionaries.
    #[arg(long, conflicts_with_all = ["guard", "jax"])]
    scale: bool,
}

/// The jaxlib that provides upstream's header for the C++ handlers.
const UPSTREAM: &str = "0.12.0";

/// The factor by which a cost may exceed its limit with `--guard`.
///
/// Ratios differ between processors, and only code changes should break a build.
const OTHER_MACHINES: f64 = 1.25;
/// The maximum number of measurements before a cost counts as over budget. In each measurement, operands have a
/// different order in memory.
const TRIES: u64 = 3;

/// The maximum size in bytes of a stripped library with one handler.
const LIBRARY_BYTES: u64 = 358_992;

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = folders::checkout();
    let out = root.join("target/bench");
    fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    if args.jax {
        return in_jax(&root, &out, UPSTREAM);
    }
    let check = args.check || args.guard;
    let mut misses = vec![];
    if args.scale {
        misses.extend(scale::run(&root, &out)?);
    } else {
        misses.extend(decode(&root, &out, check, args.guard)?);
        misses.extend(scale::run(&root, &out)?);
        misses.extend(library(&root, &out)?);
        if !args.guard {
            misses.extend(embedded::run(&root, &out)?);
        }
    }
    for miss in &misses {
        eprintln!("over budget: {miss}");
    }
    if check && !misses.is_empty() {
        bail!("{} costs are over budget", misses.len());
    }
    Ok(())
}

/// Builds and runs the comparison of decoding costs, and returns the costs that exceed their limits.
///
/// If `check` is set, the comparison runs up to [`TRIES`] times, and a cost counts only if it is too high in every run.
/// If `whole` is set, a missing column is an error.
fn decode(root: &Path, out: &Path, check: bool, whole: bool) -> Result<Vec<String>> {
    let release = handlers(root)?;
    let mut libraries = vec![format!(
        "rust={}",
        release.join(file_name("xla_ffi_bench_handlers")).display()
    )];
    for (name, library) in foreign(root, out)? {
        libraries.push(format!("{name}={}", library.display()));
    }
    ensure!(
        !whole || libraries.len() == COLUMNS.len(),
        "a compiler or upstream's header is missing: nothing may be here"
    );
    let mut misses: Option<Vec<Judged>> = None;
    for seed in 1..=if check { TRIES } else { 1 } {
        let mut decode = Command::new(release.join("decode"));
        let mut report = report(decode.arg(seed.to_string()).args(&libraries))?;
        let mut rows = Vec::new();
        for row in report["cases"].as_array_mut().context("no cases")? {
            for column in COLUMNS {
                if row.get(column).is_none() {
                    row[column] = Value::Null;
                }
            }
            rows.push(Row::read(row)?);
        }
        save(out, "decode.json", &report)?;
        print(&rows);
        let judged: Vec<Judged> = rows
            .iter()
            .filter(|row| row.is_judged)
            .flat_map(Row::judge)
            .collect();
        if let Some(closest) = judged.iter().min_by(|a, b| a.room().total_cmp(&b.room())) {
            tally::note(format_args!(
                "order {seed}, closest to its limit: {closest}"
            ));
        }
        for judged in judged.iter().filter(|judged| judged.is_behind()) {
            tally::note(format_args!("not at its goal yet: {judged}"));
        }
        let most = if whole { OTHER_MACHINES } else { 1.0 };
        let over = judged
            .into_iter()
            .filter(|judged| judged.cost > most * judged.limit);
        misses = Some(match misses {
            None => over.collect(),
            Some(before) => over
                .filter(|judged| before.iter().any(|one| one.is_of(judged)))
                .collect(),
        });
        if misses.as_ref().is_some_and(Vec::is_empty) {
            break;
        }
    }
    let misses = misses.unwrap_or_default();
    Ok(misses.iter().map(ToString::to_string).collect())
}

/// Runs a program that prints its measurements as JSON, and returns them.
fn report(command: &mut Command) -> Result<Value> {
    Ok(serde_json::from_str(&python::output(
        command,
        "the measurement",
    )?)?)
}

fn save(out: &Path, name: &str, report: &Value) -> Result<()> {
    let path = out.join(name);
    fs::write(&path, format!("{report:#}\n")).with_context(|| path.display().to_string())?;
    tally::note(format_args!("as numbers: {}", path.display()));
    Ok(())
}

/// Builds a package in release mode and returns the folder of its programs.
fn build(root: &Path, package: &str) -> Result<PathBuf> {
    let mut cargo = cargo(root);
    cargo.args(["build", "--release", "-p", package]);
    python::output(&mut cargo, "cargo build")?;
    Ok(root.join("target/release"))
}

/// Builds the Rust handlers and the programs that measure them, and returns the folder with the results.
fn handlers(root: &Path) -> Result<PathBuf> {
    build(root, "xla-ffi-benches")
}

/// Builds the C and C++ handlers with each available compiler. Returns the names and paths of the libraries.
fn foreign(root: &Path, out: &Path) -> Result<Vec<(String, PathBuf)>> {
    let ours = root.join("include");
    let upstream = uv::headers(UPSTREAM);
    if let Err(error) = &upstream {
        tally::note(format_args!("no headers of jaxlib {UPSTREAM}: {error:#}"));
    }
    let languages = [
        ("c", "decode.c", Some(&ours)),
        ("unchecked", "decode.c", Some(&ours)),
        ("header", "header.c", Some(&ours)),
        ("cpp", "decode.cc", Some(&ours)),
        ("upstream", "decode.cc", upstream.as_ref().ok()),
    ];
    let mut libraries = Vec::new();
    for (name, c, cxx) in [("gcc", "gcc", "g++"), ("clang", "clang", "clang++")] {
        for (language, source, include) in languages {
            let Some(include) = include else { continue };
            let compiler = if source.ends_with(".c") { c } else { cxx };
            let column = format!("{language}_{name}");
            let source = root.join("tools/benches/c").join(source);
            let flags: &[&str] = match language {
                "unchecked" => &["-DUNCHECKED"],
                _ => &[],
            };
            if let Some(library) = compile(out, &column, compiler, &source, include, flags)? {
                libraries.push((column, library));
            }
        }
    }
    Ok(libraries)
}

/// Builds a C or C++ library with the headers in one folder. Without the compiler, reports a skip and returns `None`.
fn compile(
    out: &Path,
    name: &str,
    compiler: &str,
    source: &Path,
    include: &Path,
    flags: &[&str],
) -> Result<Option<PathBuf>> {
    let library = out.join(file_name(name));
    let is_c = source.extension().is_some_and(|it| it == "c");
    if !works(compiler) {
        tally::note(format_args!("{name}: {compiler} is not installed"));
        return Ok(None);
    }
    let mut command = Command::new(compiler);
    command
        .args(flags)
        .args(["-O3", "-fPIC", "-shared"])
        .args([if is_c { "-std=c11" } else { "-std=c++17" }, "-isystem"])
        .arg(include)
        .arg(source)
        .arg("-o")
        .arg(&library);
    python::output(&mut command, compiler)?;
    Ok(Some(library))
}

/// The source of the library whose size and build time are measured.
const ONE_HANDLER: &str = "\
use xla_ffi::prelude::*;

/// y = x / sqrt(mean(x²) + eps), over the last dimension.
#[xla_ffi::handler(shape = \"... n -> ... n\")]
fn rms_norm(x: Buffer<f32>, mut y: Out<f32>, #[attr(default = 1e-5)] eps: f32) -> Result<()> {
    for (x, y) in x.rows().zip(y.rows_uninit()) {
        let mean_square = x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32;
        let scale = 1.0 / (mean_square + eps).sqrt();
        for (x, y) in x.iter().zip(y) {
            y.write(x * scale);
        }
    }
    Ok(())
}

xla_ffi::library! { rms_norm }
";

/// Builds a library with one handler from scratch, as a user does, and returns the limits that it exceeds.
fn library(root: &Path, out: &Path) -> Result<Vec<String>> {
    let place = &out.join("one_handler");
    let _ = fs::remove_dir_all(place);
    fs::create_dir_all(place)?;
    // The library has the same profile as projects from `xla-ffi new`.
    let template = fs::read_to_string(root.join("cli/templates/rust/Cargo.toml"))?;
    let profile = template.split("[profile.release]\n").nth(1);
    let profile = profile.and_then(|rest| rest.split('[').next());
    let manifest = format!(
        "[package]\nname = \"one-handler\"\nedition = \"2024\"\npublish = false\n\
         [lib]\nname = \"one_handler\"\npath = \"lib.rs\"\ncrate-type = [\"cdylib\"]\n\
         [dependencies]\nxla-ffi = {{ path = {ffi:?} }}\n\
         [profile.release]\n{profile}\
         [workspace]\n",
        ffi = root.join("ffi"),
        profile = profile.context("the template of a project has no profile")?,
    );
    fs::write(place.join("Cargo.toml"), manifest)?;
    fs::write(place.join("lib.rs"), ONE_HANDLER)?;
    // The library uses the dependency versions with which this project is tested.
    fs::copy(root.join("Cargo.lock"), place.join("Cargo.lock"))?;
    python::output(cargo(place).arg("fetch"), "cargo fetch")?;
    let start = Instant::now();
    let mut build = cargo(place);
    build.args([
        "build",
        "--quiet",
        "--release",
        "--jobs",
        "2",
        "--target-dir",
    ]);
    python::output(
        build.arg(place.join("target")),
        "the library of one handler",
    )?;
    let took = start.elapsed();
    let bytes = fs::metadata(place.join("target/release").join(file_name("one_handler")))?.len();
    println!(
        "a library of one handler: {bytes} bytes stripped, built from clean in {}",
        tally::seconds(took)
    );
    let report = serde_json::json!({ "bytes": bytes, "seconds": took.as_secs_f64() });
    save(out, "library.json", &report)?;
    let miss = format!("a library of one handler: {bytes} bytes, at most {LIBRARY_BYTES}");
    Ok((bytes > LIBRARY_BYTES)
        .then_some(miss)
        .into_iter()
        .collect())
}

/// The packages that call TVM FFI functions from JAX and compile Python to C functions, with the packages that they
/// require.
const PACKAGES: [&str; 6] = [
    "apache-tvm-ffi==0.1.15.post2",
    "jax-tvm-ffi==0.1.3",
    "llvmlite==0.50.0",
    "numba==0.68.1",
    "typing-extensions==4.15.0",
    "--no-deps",
];

/// Measures the cost of a call in a real XLA, compared with alternatives (`--jax`).
///
/// This function builds and downloads the required libraries and packages; `tools/benches/jax/bench.py` makes the
/// measurements. `version` is the jaxlib.
fn in_jax(root: &Path, out: &Path, version: &str) -> Result<()> {
    let mut build = cargo(root);
    build
        .args(["build", "--release", "-p", "xla-ffi-benches"])
        .args(["--example", "jax_calls"]);
    python::output(&mut build, "cargo build")?;
    let release = self::build(root, "xla-ffi-benches-embedded")?;
    let environment = venv::exactly(version)?;
    let packages = environment.packages(&PACKAGES, "tvm_ffi/include")?;
    let tvm = packages.join("tvm_ffi/include");
    let sources = root.join("tools/benches/jax");
    let build = |name: &str, compiler: &str, source: &str, include: &Path, flags: &[&str]| {
        let library = compile(out, name, compiler, &sources.join(source), include, flags)?;
        library.with_context(|| format!("{compiler} is not installed"))
    };
    let include = root.join("include");
    let c = build("jax_c", "gcc", "calls.c", &include, &[])?;
    let ours = build("jax_ours", "g++", "calls.cc", &include, &[])?;
    let upstream = uv::headers(version)?;
    let upstream = build("jax_upstream", "g++", "calls.cc", &upstream, &[])?;
    let tvm = build("jax_tvm", "gcc", "calls.c", &tvm, &["-DTVM"])?;
    let report = out.join("jax.json");
    let status = python::keep_bytecode(&mut Command::new(&environment.python))
        .env("PYTHONPATH", packages)
        .env("JAX_PLATFORMS", "cpu")
        .arg(sources.join("bench.py"))
        .arg(&report)
        .arg(release.join("examples").join(file_name("jax_calls")))
        .args([c, ours, upstream, tvm])
        .arg(release.join("embedded"))
        .status()?;
    ensure!(status.success(), "tools/benches/jax/bench.py failed");
    print!("{}", fs::read_to_string(&report)?);
    Ok(())
}
