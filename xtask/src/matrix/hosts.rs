//! The hosts beyond jaxlib, and how each runs the rows of `tests/hosts`.

use super::table::Column;
use super::{Subjects, cells};
use crate::cargo::cargo;
use crate::expected::Runtime;
use crate::python::{self, Python};
use crate::uv::{self, NoWheel};
use crate::venv;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use xla_ffi_sys::Revision;

/// How a host is reached.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Python with this package.
    TensorFlow,
    /// A PJRT plugin: the path of the library in the package, which is for Linux.
    Plugin(&'static str),
}

/// A host, as the package index has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    /// The package.
    pub(super) name: &'static str,
    /// The version that is taken when none is asked for.
    version: &'static str,
    kind: Kind,
    revision: Revision,
    /// Whether CI runs it. The others are other people's builds, which may vanish.
    in_ci: bool,
}

/// The hosts, beside the jaxlibs that `ffi-sys` lists.
pub(super) const HOSTS: [Host; 5] = [
    Host {
        name: "tensorflow-cpu",
        version: "2.21.0",
        kind: Kind::TensorFlow,
        revision: Revision::R7,
        in_ci: true,
    },
    Host {
        name: "tensorflow-cpu",
        version: "2.18.1",
        kind: Kind::TensorFlow,
        revision: Revision::R2,
        in_ci: true,
    },
    Host {
        name: "xla-cpu-pjrt",
        version: "0.0.1",
        kind: Kind::Plugin("xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"),
        revision: Revision::R7,
        in_ci: true,
    },
    Host {
        name: "fastatomstruct-xla-cpu",
        version: "2026.6.23",
        kind: Kind::Plugin("fastatomstruct_xla_cpu/libpjrt_cpu.so"),
        revision: Revision::R8,
        in_ci: false,
    },
    Host {
        name: "lammps-jax-pjrt-cpu",
        version: "0.11.2",
        kind: Kind::Plugin("lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"),
        revision: Revision::R9,
        in_ci: false,
    },
];

/// Those that run when nothing is asked for.
pub(super) fn usual() -> Vec<Runtime> {
    HOSTS
        .iter()
        .filter(|host| host.in_ci)
        .map(|host| Runtime::of_host(host.name, host.version, host.revision))
        .collect()
}

/// The host that `--host NAME[=VERSION]` asks for. The revision of another version is that of the nearest listed one
/// below it, of TensorFlow by what its releases speak.
pub(super) fn asked(text: &str) -> Result<Runtime> {
    let (name, version) = match text.split_once('=') {
        Some((name, version)) => (name, Some(version)),
        None => (text, None),
    };
    let listed = |host: &&Host| host.name == name && version.is_none_or(|v| v == host.version);
    if let Some(host) = HOSTS.iter().find(listed) {
        return Ok(Runtime::of_host(name, host.version, host.revision));
    }
    let Some(version) = version.filter(|_| HOSTS.iter().any(|host| host.name == name)) else {
        let mut names: Vec<_> = HOSTS.iter().map(|host| host.name).collect();
        names.dedup();
        bail!("there is no host {name:?}: they are {}", names.join(", "));
    };
    let revision = match name {
        // Read off the tables of 2.18.1, 2.19.1, 2.20.0 and 2.21.0.
        "tensorflow-cpu" if version < "2.19" => Revision::R2,
        "tensorflow-cpu" if version < "2.20" => Revision::R4,
        "tensorflow-cpu" if version < "2.21" => Revision::R5,
        _ => HOSTS
            .iter()
            .find(|host| host.name == name)
            .map_or(Revision::R7, |host| host.revision),
    };
    Ok(Runtime::of_host(name, version, revision))
}

/// The library of a plugin, which lies at `path` in its package.
fn plugin(runtime: &Runtime, path: &str) -> Result<PathBuf> {
    uv::file(&format!("{}=={}", runtime.host, runtime.version), path)
}

/// The program that runs rows on plugins.
pub(super) fn build(root: &Path) -> Result<PathBuf> {
    let mut command = cargo(root);
    command.args(["build", "--quiet", "--package", "xla-ffi-tests"]);
    command.args(["--example", "pjrt_rows"]);
    let status = command.status().context("starting cargo")?;
    if !status.success() {
        bail!("cargo build of tests/hosts/pjrt_rows.rs failed");
    }
    Ok(root.join("target/debug/examples/pjrt_rows"))
}

/// Runs the rows on a host.
pub(super) fn column(root: &Path, runtime: &Runtime, subjects: &Subjects) -> Column {
    match drive(root, runtime, subjects) {
        Ok(column) => column,
        Err(error) if error.is::<NoWheel>() => Column::NoWheel(error.to_string()),
        Err(error) => Column::Failed(format!("{error:#}")),
    }
}

fn kind(runtime: &Runtime) -> Kind {
    HOSTS
        .iter()
        .find(|host| host.name == runtime.host)
        .map_or(Kind::TensorFlow, |host| host.kind)
}

fn drive(root: &Path, runtime: &Runtime, subjects: &Subjects) -> Result<Column> {
    let mut command = match kind(runtime) {
        Kind::TensorFlow => {
            let venv = venv::with(&runtime.host, &runtime.version)?;
            tensorflow(root, &venv.python, "tf_matrix.py")
        }
        Kind::Plugin(path) => {
            let plugin = plugin(runtime, path)?;
            let mut command = Command::new(&subjects.rows);
            command.arg(plugin).stdin(Stdio::null());
            command
        }
    };
    command.arg(root.join("tests/hosts/rows.json"));
    // What upstream's headers made is compared on jaxlibs: hosts run this SDK's.
    subjects.name_in(&mut command, false);
    let output = command
        .stderr(Stdio::piped())
        .output()
        .context("starting the driver")?;
    cells(&output)
}

/// A driver of `tests/hosts` in an environment with TensorFlow.
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
