//! The hosts other than jaxlib. Each host runs the rows of `tests/hosts`.

use super::table::Column;
use super::{Subjects, cells};
use crate::cargo::cargo;
use crate::expected::Runtime;
use crate::python::{self, Python};
use crate::uv::{self, NoWheel};
use crate::venv;
use Kind::{Plugin, TensorFlow};
use Revision::{R2, R4, R5, R7, R8, R9};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use xla_ffi_sys::Revision;

/// The interface through which the matrix calls a host.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The host is TensorFlow, in a Python that has the package.
    TensorFlow,
    /// The host is a PJRT plugin, with the path of its library in the Linux package.
    Plugin(&'static str),
}

/// A host: package, version, interface, revision, and whether CI runs it. Hosts that CI does not run are third-party
/// builds, which may disappear.
type Host = (&'static str, &'static str, Kind, Revision, bool);

const XLA_PLUGIN: Kind = Plugin("xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so");
const ATOMS_PLUGIN: Kind = Plugin("fastatomstruct_xla_cpu/libpjrt_cpu.so");
const LAMMPS_PLUGIN: Kind = Plugin("lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so");

/// The hosts other than jaxlib. For each package, the newest version is first.
const HOSTS: [Host; 7] = [
    ("tensorflow-cpu", "2.21.0", TensorFlow, R7, true),
    ("tensorflow-cpu", "2.20.0", TensorFlow, R5, false),
    ("tensorflow-cpu", "2.19.1", TensorFlow, R4, false),
    ("tensorflow-cpu", "2.18.1", TensorFlow, R2, true),
    ("xla-cpu-pjrt", "0.0.1", XLA_PLUGIN, R7, true),
    (
        "fastatomstruct-xla-cpu",
        "2026.6.23",
        ATOMS_PLUGIN,
        R8,
        false,
    ),
    ("lammps-jax-pjrt-cpu", "0.11.2", LAMMPS_PLUGIN, R9, false),
];

/// Returns the hosts that run without `--host`.
pub(super) fn usual() -> Vec<Runtime> {
    let usual = HOSTS.iter().filter(|(.., in_ci)| *in_ci);
    usual
        .map(|(name, version, _, revision, _)| Runtime::of_host(name, version, *revision))
        .collect()
}

/// Returns the host that `--host NAME[=VERSION]` requests. An unlisted version gets the revision of the next older
/// listed version.
pub(super) fn asked(text: &str) -> Result<Runtime> {
    let (name, version) = match text.split_once('=') {
        Some((name, version)) => (name, Some(version)),
        None => (text, None),
    };
    let mut known = HOSTS.iter().filter(|host| host.0 == name).peekable();
    let newest = known.peek().with_context(|| {
        let names = HOSTS.map(|(name, ..)| name).join(", ");
        format!("there is no host {name:?}: they are {names}")
    })?;
    let version = version.unwrap_or(newest.1);
    let newest = newest.3;
    let revision = known
        .find(|host| host.1 <= version)
        .map_or(newest, |host| host.3);
    Ok(Runtime::of_host(name, version, revision))
}

/// Builds the program that runs the rows on PJRT plugins.
pub(super) fn build(root: &Path) -> Result<PathBuf> {
    let mut command = cargo(root);
    command.args(["build", "--quiet", "--package", "xla-ffi-tests"]);
    command.args(["--example", "pjrt_rows"]);
    python::output(&mut command, "cargo build of tests/hosts/pjrt_rows.rs")?;
    Ok(root.join("target/debug/examples/pjrt_rows"))
}

/// Runs the rows on a host, and returns the cells of the host's column.
pub(super) fn column(root: &Path, runtime: &Runtime, subjects: &Subjects) -> Column {
    match drive(root, runtime, subjects) {
        Ok(column) => column,
        Err(error) if error.is::<NoWheel>() => Column::NoWheel(error.to_string()),
        Err(error) => Column::Failed(format!("{error:#}")),
    }
}

fn drive(root: &Path, runtime: &Runtime, subjects: &Subjects) -> Result<Column> {
    let known = HOSTS.iter().find(|host| host.0 == runtime.host);
    let mut command = match known.map_or(TensorFlow, |host| host.2) {
        TensorFlow => {
            let venv = venv::with(&runtime.host, &runtime.version)?;
            tensorflow(root, &venv.python, "tf_matrix.py")
        }
        Plugin(path) => {
            let plugin = uv::file(&format!("{}=={}", runtime.host, runtime.version), path)?;
            let mut command = Command::new(&subjects.rows);
            command.arg(plugin).stdin(Stdio::null());
            command
        }
    };
    command.arg(root.join("tests/hosts/rows.json"));
    // Libraries built with upstream's headers run only on jaxlibs; on other hosts, only libraries built with this SDK
    // run.
    subjects.name_in(&mut command, false);
    let output = command
        .stderr(Stdio::piped())
        .output()
        .context("starting the driver")?;
    cells(&output)
}

/// Returns a driver of `tests/hosts` in an environment with TensorFlow.
pub(crate) fn tensorflow(root: &Path, python: &Path, driver: &str) -> Command {
    let mut command = Python::command(python);
    let folders = [root.join("python"), root.join("tests/jax")];
    command
        .arg(root.join("tests/hosts").join(driver))
        .current_dir(root)
        .env(
            "PYTHONPATH",
            std::env::join_paths(folders).unwrap_or_default(),
        )
        .env("TF_CPP_MIN_LOG_LEVEL", "3");
    python::keep_bytecode(&mut command);
    command
}
