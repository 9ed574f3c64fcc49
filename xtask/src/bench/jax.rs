//! `cargo xtask bench --jax`: what one call costs in a real XLA, beside what a user would pick instead. The work is done by
//! `benches/jax/bench.py`; this builds and fetches what it wants.

use super::compile;
use crate::cargo::cargo;
use crate::libraries::file_name;
use crate::{python, uv, venv};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Who calls functions of TVM's FFI from JAX, and compiles Python to C functions, with what they want.
const PACKAGES: [&str; 6] = [
    "apache-tvm-ffi==0.1.15.post2",
    "jax-tvm-ffi==0.1.3",
    "llvmlite==0.50.0",
    "numba==0.68.1",
    "typing-extensions==4.15.0",
    "--no-deps",
];

/// Builds, measures, and prints; `version` is the jaxlib.
pub(super) fn run(root: &Path, out: &Path, version: &str) -> Result<()> {
    let built = cargo(root)
        .args(["build", "--quiet", "--release", "-p", "xla-ffi-benches"])
        .args(["--example", "jax_calls", "--bin", "jax_embedded"])
        .status()?;
    ensure!(built.success(), "xla-ffi-benches does not build");
    let release = root.join("target/release");
    let environment = venv::exactly(version)?;
    let packages = uv::for_bench(&environment, &PACKAGES, "tvm_ffi/include")?;
    let tvm = packages.join("tvm_ffi/include");
    let sources = root.join("benches/jax");
    let build = |name: &str, compiler: &str, source: &str, include: &Path| {
        let library = compile(out, name, compiler, &sources.join(source), include, &[])?;
        library.with_context(|| format!("{compiler} is not installed"))
    };
    let include = root.join("include");
    let c = build("jax_c", "gcc", "calls.c", &include)?;
    let ours = build("jax_ours", "g++", "calls.cc", &include)?;
    let loops = build("jax_loops", "g++", "loops.cc", &include)?;
    let upstream = uv::headers(version)?;
    let upstream = build("jax_upstream", "g++", "calls.cc", &upstream)?;
    let tvm = build("jax_tvm", "gcc", "calls_tvm.c", &tvm)?;
    let report = out.join("jax.json");
    let status = python::keep_bytecode(&mut Command::new(&environment.python))
        .env("PYTHONPATH", packages)
        .env("JAX_PLATFORMS", "cpu")
        .arg(sources.join("bench.py"))
        .arg(&report)
        .arg(release.join("examples").join(file_name("jax_calls")))
        .args([c, ours, upstream, tvm, loops])
        .arg(release.join("jax_embedded"))
        .status()?;
    ensure!(status.success(), "benches/jax/bench.py failed");
    print(&serde_json::from_str(&fs::read_to_string(&report)?)?)?;
    crate::ui::note(format_args!("as numbers: {}", report.display()));
    Ok(())
}

fn print(report: &Value) -> Result<()> {
    for (key, title) in [
        ("loop_ns", "ns a call inside a compiled loop"),
        ("dispatch_ns", "ns a dispatch"),
    ] {
        println!("{title}");
        for row in report["calls"].as_array().context("no calls")? {
            let operands = &row["operands"];
            print!("{operands} + {operands}, {} elements:", row["elements"]);
            for (way, cost) in row[key].as_object().context("no costs")? {
                print!("  {way} {:.0}", cost.as_f64().unwrap_or(f64::NAN));
            }
            println!();
        }
    }
    println!("GB a second, read once and written once");
    for row in report["bandwidth"].as_array().context("no bandwidth")? {
        print!("{} of {}:", row["function"], row["shape"]);
        for (way, speed) in row["gb_per_s"].as_object().context("no speeds")? {
            print!("  {way} {:.2}", speed.as_f64().unwrap_or(f64::NAN));
        }
        println!();
    }
    println!("us a dispatch of a loop, by whose threads run it");
    for row in report["threads"].as_array().context("no threads")? {
        print!("{} of {} elements:", row["body"], row["elements"]);
        for (way, time) in row["us"].as_object().context("no times")? {
            print!("  {way} {:.1}", time.as_f64().unwrap_or(f64::NAN));
        }
        println!();
    }
    for (way, why) in report["absent"].as_object().context("no list")? {
        println!("absent: {way}: {why}");
    }
    Ok(())
}
