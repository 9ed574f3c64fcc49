//! The files of a new project: the files of every project, the files for its language, and the files for GPUs.

use super::{Language, Project};

/// Returns the path and text of each file in the project.
pub(super) fn files(project: &Project) -> Vec<(String, String)> {
    let mut files = common(project);
    files.extend(match project.language {
        Language::Rust => rust(project),
        Language::C | Language::Cpp => native(project),
    });
    let filled = files.into_iter().map(|(path, text)| {
        let fill = |text: &str| {
            text.replace("@NAME@", &project.name)
                .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
                .replace("@LICENSE@", project.license.expression())
        };
        (fill(path), fill(&text))
    });
    filled.collect()
}

type Files = Vec<(&'static str, String)>;

fn common(project: &Project) -> Files {
    let (work, older, wheel) = match project.language {
        Language::Rust => (
            include_str!("../../templates/rust/work.md"),
            include_str!("../../templates/rust/older.md"),
            include_str!("../../templates/rust/ci-wheel.yml"),
        ),
        Language::C | Language::Cpp => (
            include_str!("../../templates/native/work.md"),
            include_str!("../../templates/native/older.md"),
            include_str!("../../templates/native/ci-wheel.yml"),
        ),
    };
    // Projects in C and C++ compile the ABI's header, so their CI checks that header. In Rust projects, the ABI is part
    // of a crate, so CI checks the crate's definitions.
    let abi = match project.language {
        Language::Rust => "xla-ffi abi check --snapshots",
        Language::C | Language::Cpp => {
            r#"xla-ffi abi check --header "$(python -m xla_ffi --include-dir)/xla/ffi/api/c_api.h""#
        }
    };
    // The machines that run CI have no GPU, so they cannot run handlers for GPUs.
    let check = match project.cuda {
        true => "",
        false => include_str!("../../templates/common/ci-check.yml"),
    };
    // JAX supports NVIDIA GPUs only on Linux, so CI uses only Linux.
    let systems = match project.cuda {
        true => "ubuntu-latest, ubuntu-24.04-arm",
        false => "ubuntu-latest, ubuntu-24.04-arm, macos-latest, macos-15-intel, windows-latest",
    };
    let workflow = include_str!("../../templates/common/ci.yml")
        .replace("@ABI@", abi)
        .replace("@CHECK@", check)
        .replace("@SYSTEMS@", systems)
        .replace("@WHEEL@", wheel.trim_end());
    let (repair, older, nvcc) = match (project.cuda, project.language) {
        (true, Language::C | Language::Cpp) => (
            "auditwheel repair --exclude 'libcu*' --exclude 'libnv*' dist/*.whl",
            "`pip install cibuildwheel` and `cibuildwheel`, which builds in a container of an older system.",
            "\n`cmake` needs nvcc, on `PATH` or named by `CUDACXX`; pip and uv install nvcc for the build.",
        ),
        (true, Language::Rust) => (
            "auditwheel repair dist/*.whl",
            older,
            "\n`cargo` uses nvcc on `PATH` or the one that `NVCC` names; pip and uv install nvcc for the build.",
        ),
        _ => ("auditwheel repair dist/*.whl", older, ""),
    };
    let readme = include_str!("../../templates/common/README.md")
        .replace("@REPAIR@", repair)
        .replace("@WORK@", work.trim_end())
        .replace("@NVCC@", nvcc)
        .replace("@OLDER@", older.trim_end());
    let test = match project.cuda {
        true => include_str!("../../templates/common/test-cuda.py"),
        false => include_str!("../../templates/common/test.py"),
    };
    let mut files: Files = vec![
        ("README.md", readme),
        (
            "CHANGELOG.md",
            include_str!("../../templates/common/CHANGELOG.md").to_owned(),
        ),
        (".github/workflows/ci.yml", workflow),
        (
            "python/@NAME@/__init__.py",
            include_str!("../../templates/common/package.py").to_owned(),
        ),
        (
            "python/@NAME@/__init__.pyi",
            include_str!("../../templates/common/package.pyi").to_owned(),
        ),
        ("python/@NAME@/py.typed", String::new()),
        ("tests/test_@NAME@.py", test.to_owned()),
    ];
    if project.license.has_mit() {
        let text = include_str!("../../templates/common/LICENSE-MIT");
        files.push(("LICENSE-MIT", text.to_owned()));
    }
    if project.license.has_apache() {
        let text = include_str!("../../LICENSE-APACHE");
        files.push(("LICENSE-APACHE", text.to_owned()));
    }
    files
}

fn rust(project: &Project) -> Files {
    let (dependency, library, test) = match project.cuda {
        false => (
            "xla-ffi = \"@VERSION@\"",
            include_str!("../../templates/rust/lib.rs"),
            include_str!("../../templates/rust/embedded.rs"),
        ),
        true => (
            "# The driver is loaded when the first call needs it: this builds on any machine.\n\
             xla-ffi = { version = \"@VERSION@\", features = [\"cuda\"] }",
            include_str!("../../templates/rust-cuda/lib.rs"),
            include_str!("../../templates/rust-cuda/embedded.rs"),
        ),
    };
    let manifest =
        include_str!("../../templates/rust/Cargo.toml").replace("@DEPENDENCY@", dependency);
    let pyproject =
        include_str!("../../templates/rust/pyproject.toml").replace("@NVCC@", nvcc(project));
    let mut files = vec![
        ("Cargo.toml", manifest),
        ("src/lib.rs", library.to_owned()),
        ("tests/embedded.rs", test.to_owned()),
        ("pyproject.toml", pyproject),
        (
            "hatch_build.py",
            include_str!("../../templates/rust/hatch_build.py").to_owned(),
        ),
        (
            ".gitignore",
            include_str!("../../templates/rust/gitignore").to_owned(),
        ),
    ];
    if project.cuda {
        let build = include_str!("../../templates/rust-cuda/build.rs");
        files.push(("build.rs", build.to_owned()));
        files.push(kernels());
    }
    files
}

/// Returns the path and text of the CUDA kernels in a project for GPUs.
fn kernels() -> (&'static str, String) {
    let text = include_str!("../../templates/cpp-cuda/kernels.cu");
    ("src/kernels.cu", text.to_owned())
}

/// Returns the additional Python packages that a build for GPUs requires: nvcc and nvcc's headers, all of one release.
fn nvcc(project: &Project) -> &'static str {
    match project.cuda {
        true => {
            r#",
  "nvidia-cuda-nvcc==13.0.*", "nvidia-nvvm==13.0.*", "nvidia-cuda-crt==13.0.*", "nvidia-cuda-cccl==13.0.*",
  "nvidia-cuda-runtime==13.0.*""#
        }
        false => "",
    }
}

fn native(project: &Project) -> Files {
    let (languages, extension, path, source) = match (project.language, project.cuda) {
        (_, true) => (
            "CXX CUDA",
            "cu",
            "src/@NAME@.cu",
            include_str!("../../templates/cpp-cuda/source.cu"),
        ),
        (Language::C, false) => (
            "C CXX",
            "c",
            "src/@NAME@.c",
            include_str!("../../templates/c/source.c"),
        ),
        (_, false) => (
            "CXX",
            "cc",
            "src/@NAME@.cc",
            include_str!("../../templates/cpp/source.cc"),
        ),
    };
    let (version, compiler, library, tests) = match project.cuda {
        // The CUDA architecture `all-major` requires CMake 3.23.
        true => (
            "3.23",
            include_str!("../../templates/cpp-cuda/nvcc.cmake"),
            include_str!("../../templates/cpp-cuda/library.cmake"),
            include_str!("../../templates/cpp-cuda/tests.cmake"),
        ),
        false => (
            "3.18",
            "",
            "",
            include_str!("../../templates/native/tests.cmake"),
        ),
    };
    let repair = match project.cuda {
        true => include_str!("../../templates/cpp-cuda/repair.toml"),
        false => "",
    };
    let pyproject = include_str!("../../templates/native/pyproject.toml")
        .replace("@NVCC@", nvcc(project))
        .replace("@REPAIR@\n", repair);
    let cmake = include_str!("../../templates/native/CMakeLists.txt")
        .replace("@CMAKE@", version)
        .replace("@COMPILER@", compiler)
        .replace("@LANGUAGES@", languages)
        .replace("@EXT@", extension)
        .replace("@CUDA@", library)
        .replace("@TESTS@", tests);
    let mut files = vec![
        ("CMakeLists.txt", cmake),
        (path, source.to_owned()),
        ("pyproject.toml", pyproject),
        (
            ".gitignore",
            include_str!("../../templates/native/gitignore").to_owned(),
        ),
    ];
    if project.cuda {
        files.push(kernels());
    }
    files
}
