//! C and C++ compilers: the sources to compile, and the command lines.

use super::line;
use crate::libraries::compile;
use crate::tally::Tally;
use crate::{python, uv};
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

const STANDARDS: [(&str, &str); 5] = [
    ("C11", "-std=c11"),
    ("C17", "-std=c17"),
    ("C++17", "-std=c++17"),
    ("C++20", "-std=c++20"),
    ("C++23", "-std=c++2b"),
];

/// The method of testing a compiled source.
enum Try {
    /// Calls handlers of the compiled library. Each call has arguments for `xla-ffi run`, and a part of the expected
    /// output.
    Calls(&'static [(&'static [&'static str], &'static str)]),
    /// Runs the compiled program, which embeds the runtime and checks its own results.
    Program,
}

const RMS_NORM: Try = Try::Calls(&[(
    &[
        "--handler=rms_norm",
        "--arg=f32[1,2]=1,7",
        "--attrs={eps = 0.0 : f32}",
    ],
    "[[0.2, 1.4]]",
)]);

/// The sources in C: a handler, and a program that embeds the runtime.
const C: [(&str, Try); 2] = [
    ("c_examples/rms_norm.c", RMS_NORM),
    ("c_examples/embed_project/embedding.c", Try::Program),
];

/// The sources in C++: a handler, a program that embeds the runtime, and handlers for XLA's headers.
const CPP: [(&str, Try); 3] = [
    ("c_examples/rms_norm.cc", RMS_NORM),
    (
        "tests/fixtures/upstream/verdicts.cc",
        Try::Calls(&[
            (
                &["--handler=stateless", "--arg=f32[2]=1,2", "--ret=f32[2]"],
                "[2, 4]",
            ),
            (
                &["--handler=async", "--arg=f32[2]=1,2", "--ret=f32[2]"],
                "[4, 8]",
            ),
            (
                &[
                    "--handler=execute=stateful,instantiate=stateful_instantiate",
                    "--arg=f32[2]=1,2",
                    "--ret=f32[2]",
                ],
                "[3, 6]",
            ),
        ]),
    ),
    ("c_examples/embed_project/embedding.cc", Try::Program),
];

/// A compiler for C and C++ in the table.
pub(super) struct Native {
    /// The programs that compile C and C++, in this order.
    programs: [PathBuf; 2],
    windows: bool,
    root: PathBuf,
}

/// Returns every C and C++ compiler of the table. The text is the start of its row. The error is the reason why the
/// compiler cannot be checked.
pub(super) fn natives(root: &Path) -> Vec<(&'static str, Result<Native, String>)> {
    let native = |c: &Path, cpp: &Path, windows| Native {
        programs: [c.to_owned(), cpp.to_owned()],
        windows,
        root: root.to_owned(),
    };
    let gnu = |row, c: &str, cpp: &str, windows| {
        let found = python::output(Command::new(cpp).arg("--version"), cpp);
        let found = found.map_err(|_| format!("no {cpp}"));
        (
            row,
            found.map(|_| native(Path::new(c), Path::new(cpp), windows)),
        )
    };
    let zig = |row, requirement, windows| {
        let found = uv::file(requirement, "ziglang/zig").map_err(|error| format!("{error:#}"));
        (row, found.map(|zig| native(&zig, &zig, windows)))
    };
    let [oldest, newest] = uv::ZIG_RANGE;
    let mingw = ["gcc", "g++"].map(|name| format!("x86_64-w64-mingw32-{name}-posix"));
    vec![
        zig("zig for Windows 0.17", newest, true),
        zig("zig 0.9", oldest, false),
        zig("zig 0.17", newest, false),
        gnu("MinGW g++ 12", &mingw[0], &mingw[1], true),
        gnu("g++ 11", "gcc-11", "g++-11", false),
        gnu("g++ 12", "gcc-12", "g++-12", false),
        gnu("clang++ 13", "clang-13", "clang++-13", false),
        gnu("clang++ 19", "clang-19", "clang++-19", false),
    ]
}

impl Native {
    fn is_zig(&self) -> bool {
        self.programs[1].ends_with("zig")
    }

    /// Returns the version that the compiler prints.
    fn version(&self) -> Result<String> {
        let name = self.programs[1].display().to_string();
        let question = match () {
            () if self.is_zig() => "version",
            () if name.starts_with("clang") => "-dumpversion",
            () => "-dumpfullversion",
        };
        let version = python::output(Command::new(&name).arg(question), &name)?;
        Ok(version.trim().trim_end_matches("-posix").to_owned())
    }

    /// Compiles and tests all sources with every standard. Returns the table's row with the standards that passed.
    pub(super) fn check(
        &self,
        row: &str,
        wine: Option<&Wine>,
        tally: &Tally,
    ) -> Result<String, String> {
        let version = self.version().map_err(|error| format!("{error:#}"))?;
        if self.windows && wine.is_none() {
            return Err("no wine to run it".to_owned());
        }
        let passed = Mutex::new(vec![]);
        for (standard, flag) in STANDARDS {
            tally.work(&format!("{row}, {standard}"), |log| {
                let folder = format!("target/compilers/{row}/{standard}").replace([' ', '+'], "_");
                let folder = self.root.join(folder);
                fs::create_dir_all(&folder)?;
                let sources = if flag.contains("c++") { &CPP[..] } else { &C };
                let outcomes: Vec<_> = match wine.filter(|_| self.windows) {
                    Some(wine) => vec![self.on_windows(flag, &folder, wine)],
                    None => sources
                        .iter()
                        .map(|own| self.on_linux(flag, own, &folder))
                        .collect(),
                };
                let errors = outcomes.into_iter().filter_map(Result::err);
                let errors: Vec<String> = errors.map(|error| format!("{error:#}")).collect();
                errors
                    .iter()
                    .for_each(|error| *log += &format!("{row}, {standard}: {error}\n"));
                ensure!(errors.is_empty(), "{} of its sources failed", errors.len());
                passed
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(standard);
                Ok(vec![])
            });
        }
        let passed = passed.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ran = match wine.filter(|_| self.windows) {
            Some(wine) => format!("called under {}", wine.version),
            None => "called".to_owned(),
        };
        Ok(line(row, &version, &passed.join(", "), &ran))
    }

    /// Returns a command that compiles a source with the standard that `flag` selects.
    fn command(&self, flag: &str, source: &str) -> Command {
        let is_cpp = source.ends_with(".cc");
        let mut command = Command::new(&self.programs[usize::from(is_cpp)]);
        if self.is_zig() {
            let cache = self.root.join("target/zig-cache");
            command.arg(if is_cpp { "c++" } else { "cc" });
            if self.windows {
                command.args(["-target", "x86_64-windows-gnu"]);
            }
            command
                .env("ZIG_GLOBAL_CACHE_DIR", &cache)
                .env("ZIG_LOCAL_CACHE_DIR", cache);
        }
        // REVISION is the revision of XLA's headers for which the handlers in `verdicts.cc` are written.
        command.args([flag, "-O1", "-Wall", "-Wextra", "-Werror", "-DREVISION=9"]);
        command
            .arg("-I")
            .arg(self.root.join("include"))
            .arg(self.root.join(source));
        command
    }

    /// Compiles a source for Linux. Then calls the handlers of the library, or runs the program.
    fn on_linux(&self, flag: &str, (source, how): &(&str, Try), folder: &Path) -> Result<()> {
        let target = self.root.join("target/debug");
        let name = Path::new(source)
            .file_stem()
            .context("a source has a name")?;
        let out = folder.join(name).with_extension("so");
        let mut command = self.command(flag, source);
        command.arg("-o").arg(&out);
        match how {
            Try::Calls(_) => command.args(["-shared", "-fPIC", "-fvisibility=hidden"]),
            Try::Program => command.arg(self.root.join("target/compilers/libxla_ffi_runtime.so.0")),
        };
        compile(command.args(["-pthread", "-lm"]), source, "C or C++")?;
        let Try::Calls(calls) = how else {
            let mut program = Command::new(&out);
            return python::output(
                program.env("LD_LIBRARY_PATH", self.root.join("target/compilers")),
                source,
            )
            .map(drop);
        };
        for (arguments, expected) in *calls {
            let mut call = Command::new(target.join("xla-ffi"));
            let said = python::output(call.arg("run").arg(&out).args(*arguments), source)?;
            ensure!(
                said.contains(expected),
                "{source}: expected {expected}, got {said}"
            );
        }
        Ok(())
    }

    /// Compiles the conformance handlers as a DLL, and the host of the test of races, for Windows. Then runs the host.
    fn on_windows(&self, flag: &str, folder: &Path, wine: &Wine) -> Result<()> {
        let is_cpp = flag.contains("c++");
        let source = format!(
            "tests/fixtures/conformance.{}",
            if is_cpp { "cc" } else { "c" }
        );
        // Without `-static`, MinGW's runtime would be in separate DLLs. zig always links its runtime statically.
        let is_static = (!self.is_zig()).then_some("-static");
        let mut library = self.command(flag, &source);
        library.arg("-shared").args(is_static).arg("-o");
        library.arg(folder.join("conformance.dll"));
        compile(&mut library, &source, "C or C++")?;
        let host = "tests/races/host.c";
        let mut command = self.command("-std=c11", host);
        command.arg("-pthread").args(is_static).arg("-o");
        compile(command.arg(folder.join("host.exe")), host, "C")?;
        let mut run = wine.command(folder)?;
        run.args(["host.exe", "conformance.dll", "4", "3"])
            .current_dir(folder);
        let status = run.status().context("starting wine")?;
        let said = fs::read_to_string(folder.join("output"))?;
        ensure!(status.success(), "{source}: {status}: {said}");
        Ok(())
    }
}

/// The program wine, which runs programs for Windows.
pub(super) struct Wine {
    program: &'static str,
    version: String,
    /// The folder with wine's settings and drive.
    prefix: PathBuf,
}

impl Wine {
    /// Finds wine and creates wine's folder. Two concurrent programs would otherwise both try to create the folder.
    pub(super) fn find(root: &Path) -> Option<Self> {
        let mut programs = ["wine64", "/usr/lib/wine/wine64", "wine"].into_iter();
        let (program, version) = programs.find_map(|program| {
            let said = python::output(Command::new(program).arg("--version"), program).ok()?;
            Some((program, said.split_whitespace().next()?.replace('-', " ")))
        })?;
        let prefix = root.join("target/compilers/wine");
        fs::create_dir_all(&prefix).ok()?;
        let wine = Self {
            program,
            version,
            prefix,
        };
        let made = wine
            .command(&wine.prefix)
            .ok()?
            .args(["cmd", "/c", "exit"])
            .status();
        made.is_ok_and(|status| status.success()).then_some(wine)
    }

    /// Returns a wine command that prints to a file. With a pipe, wine's background processes would keep the pipe open.
    fn command(&self, folder: &Path) -> Result<Command> {
        let output = File::create(folder.join("output"))?;
        let mut command = Command::new("timeout");
        command.args(["120", self.program]);
        command.stdout(output.try_clone()?).stderr(output);
        command
            .env("WINEPREFIX", &self.prefix)
            .env("WINEDEBUG", "-all");
        command.env("WINEDLLOVERRIDES", "mscoree,mshtml=");
        Ok(command)
    }
}
