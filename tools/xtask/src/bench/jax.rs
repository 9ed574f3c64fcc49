//! `cargo xtask bench --jax`: what one call costs in a real XLA, beside what a user would pick instead. The work is done by
//! `tools/benches/jax/bench.py`; this builds and fetches what it wants.

use super::compile;
use crate::cargo::cargo;
use crate::libraries::file_name;
use crate::{python, uv, venv};
use anyhow::{Context, Result, ensure};
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
    let mut build = cargo(root);
    build
        .args(["build", "--release", "-p", "xla-ffi-benches"])
        .args(["--example", "jax_calls", "--bin", "jax_embedded"]);
    python::output(&mut build, "cargo build")?;
    let release = root.join("target/release");
    let environment = venv::exactly(version)?;
    let packages = uv::beside(&environment, &PACKAGES, "tvm_ffi/include")?;
    let tvm = packages.join("tvm_ffi/include");
    let sources = root.join("tools/benches/jax");
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
    ensure!(status.success(), "tools/benches/jax/bench.py failed");
    print!("{}", fs::read_to_string(&report)?);
    Ok(())
}
