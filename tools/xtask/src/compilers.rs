//! `cargo xtask compilers`: compiles handlers with each compiler of the table in docs/platforms.md, calls them, and fails
//! if the table differs from what it saw.

use crate::cargo::{cargo, metadata};
use crate::libraries::compile;
use crate::tally::{self, Outcome, Tally};
use crate::{folders, matrix, python, uv};
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Command line of `compilers`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Check only compilers whose name contains this text, for example `clang`; may be repeated [default: all].
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// The page with the table, and the heading above it.
const PAGE: &str = "docs/platforms.md";
const HEADING: &str = "\n## Compilers\n";

/// The versions of Rust: the oldest is `rust-version` of the published crates.
const RUSTS: [(&str, &str); 3] = [
    ("rustc 1.85", "1.85"),
    ("rustc 1.95", "1.95"),
    ("rustc 1.96", "1.96"),
];

/// Visual C++ is not available on Linux.
const MSVC: &str = "| Visual C++ | | not run; `.github/workflows/platforms.yml` |";

const STANDARDS: [(&str, &str); 5] = [
    ("C11", "-std=c11"),
    ("C17", "-std=c17"),
    ("C++17", "-std=c++17"),
    ("C++20", "-std=c++20"),
    ("C++23", "-std=c++2b"),
];

/// How a built source is tried.
enum Try {
    /// Calls handlers of the library: arguments of `xla-ffi run`, and a part of its output.
    Calls(&'static [(&'static [&'static str], &'static str)]),
    /// Runs the program, which embeds the runtime and checks its results itself.
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

/// A handler and a program that embeds the runtime, in C.
const C: [(&str, Try); 2] = [
    ("c_examples/rms_norm.c", RMS_NORM),
    ("c_examples/embed_project/embedding.c", Try::Program),
];

/// The same in C++, and handlers as written for XLA's own headers.
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

/// A compiler of C and C++.
struct Native {
    /// For C and for C++.
    programs: [PathBuf; 2],
    windows: bool,
    root: PathBuf,
}

/// A row of the table as this run saw it, or why the row was not checked.
type Row = (&'static str, Result<String, String>);

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = &folders::checkout();
    let steps = Tally::new();
    let tally = &steps;
    let rows: Mutex<Vec<Row>> = Mutex::default();
    let is_wanted = |row: &str| {
        args.names.is_empty() || args.names.iter().any(|name| row.contains(name.as_str()))
    };
    let is_wanted = &is_wanted;
    let keep = &|row: &'static str, seen: Result<String, String>| {
        if let Err(reason) = &seen
            && is_wanted(row)
        {
            tally.work(row, |_| Ok(vec![format!("{row}: {reason}")]));
        }
        let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.push((row, seen));
    };
    let mut built = false;
    tally.wide("command line and runtime", |log| {
        let mut build = cargo(root);
        build.args(["build", "-p", "xla-ffi-cli", "-p", "xla-ffi-runtime-c"]);
        let done = tally::run("cargo build", &mut build, log)?;
        built = true;
        Ok(done)
    });
    let wine = &Wine::find(root);
    let rusts = &rusts(root)?;
    std::thread::scope(|scope| {
        if !built {
            return;
        }
        for (row, compiler) in natives(root) {
            scope.spawn(move || {
                let seen = match is_wanted(row) {
                    true => compiler.and_then(|found| found.check(row, wine.as_ref(), tally)),
                    false => Err("not asked for".to_owned()),
                };
                keep(row, seen);
            });
        }
        for (row, version) in RUSTS {
            let found = rusts.iter().find(|rust| is_of(&rust.version, version));
            scope.spawn(move || {
                let seen = match found {
                    _ if !is_wanted(row) => Err("not asked for".to_owned()),
                    Some(rust) => Ok(rust.check(root, row, tally)),
                    None => Err("not found; run .ci/rust on Debian 12".to_owned()),
                };
                keep(row, seen);
            });
        }
    });
    let mut rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    rows.push(("Visual C++", Ok(MSVC.to_owned())));
    tally.work(PAGE, |log| {
        let page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
        let differences = differences(&page, &rows)?;
        differences
            .iter()
            .for_each(|line| *log += &format!("{line}\n"));
        ensure!(
            differences.is_empty() || !built,
            "the table of {PAGE} is not what was seen"
        );
        Ok(vec![])
    });
    steps.finish(matrix::in_ci() && args.names.is_empty())
}

/// Every compiler of C and C++ in the table, by the start of its row, or why it cannot be checked.
fn natives(root: &Path) -> Vec<(&'static str, Result<Native, String>)> {
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
        zig("zig 0.8", oldest, false),
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

    /// Asks the compiler for its version.
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

    /// Compiles and tries everything with every standard. Returns the row: the standards that passed.
    fn check(&self, row: &str, wine: Option<&Wine>, tally: &Tally) -> Result<String, String> {
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
                let is_cpp = flag.contains("c++");
                let outcomes = match wine.filter(|_| self.windows) {
                    Some(wine) => vec![self.on_windows(flag, &folder, wine)],
                    None if is_cpp => CPP
                        .iter()
                        .map(|own| self.on_linux(flag, own, &folder))
                        .collect(),
                    None => C
                        .iter()
                        .map(|own| self.on_linux(flag, own, &folder))
                        .collect::<Vec<_>>(),
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

    /// A command that compiles a source.
    fn command(&self, flag: &str, source: &str) -> Command {
        let is_cpp = source.ends_with(".cc");
        let mut command = Command::new(&self.programs[usize::from(is_cpp)]);
        if self.is_zig() {
            let cache = self.root.join("target/zig-cache");
            command.arg(if is_cpp { "c++" } else { "cc" });
            command.args(self.windows.then_some("--target=x86_64-windows-gnu"));
            command
                .env("ZIG_GLOBAL_CACHE_DIR", &cache)
                .env("ZIG_LOCAL_CACHE_DIR", cache);
        }
        // REVISION tells handlers for XLA's own headers how new those are.
        command.args([flag, "-O1", "-Wall", "-Wextra", "-Werror", "-DREVISION=9"]);
        command
            .arg("-I")
            .arg(self.root.join("include"))
            .arg(self.root.join(source));
        command
    }

    /// Compiles a source for this system, and calls its handlers or runs it.
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
            Try::Program => command.arg(target.join("libxla_ffi_runtime.so")),
        };
        compile(command.args(["-pthread", "-lm"]), source, "C or C++")?;
        let Try::Calls(calls) = how else {
            let mut program = Command::new(&out);
            return python::output(program.env("LD_LIBRARY_PATH", target), source).map(drop);
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

    /// Compiles the conformance handlers as a DLL and the host of the races for Windows, and runs the host.
    fn on_windows(&self, flag: &str, folder: &Path, wine: &Wine) -> Result<()> {
        let is_cpp = flag.contains("c++");
        let source = format!(
            "tests/fixtures/conformance.{}",
            if is_cpp { "cc" } else { "c" }
        );
        let mut library = self.command(flag, &source);
        library
            .args(["-shared", "-static", "-o"])
            .arg(folder.join("conformance.dll"));
        compile(&mut library, &source, "C or C++")?;
        let host = "tests/races/host.c";
        let mut command = self.command("-std=c11", host);
        command
            .args(["-static", "-pthread", "-o"])
            .arg(folder.join("host.exe"));
        compile(&mut command, host, "C")?;
        let mut run = wine.command(folder)?;
        run.args(["host.exe", "conformance.dll", "4", "3"])
            .current_dir(folder);
        let status = run.status().context("starting wine")?;
        let said = fs::read_to_string(folder.join("output"))?;
        ensure!(status.success(), "{source}: {status}: {said}");
        Ok(())
    }
}

/// A row of the table.
fn line(row: &str, version: &str, standards: &str, ran: &str) -> String {
    let name = row.rsplit_once(' ').map_or(row, |(name, _)| name);
    format!("| {name} {version} | {standards} | {ran} |")
}

/// Runs programs for Windows.
struct Wine {
    program: &'static str,
    version: String,
    /// Its settings and its disk.
    prefix: PathBuf,
}

impl Wine {
    /// Finds wine and has it make its folder, which two programs at once would both try.
    fn find(root: &Path) -> Option<Self> {
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

    /// wine, which prints to a file: what it leaves running would keep a pipe open.
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

/// A compiler of Rust.
struct Rust {
    /// `None` for the installed one.
    program: Option<PathBuf>,
    version: String,
}

/// The installed rustc, and those that are unpacked in `XLA_FFI_RUSTS` or `target/rust`.
fn rusts(root: &Path) -> Result<Vec<Rust>> {
    let version = |program: &Path| {
        let said = python::output(Command::new(program).arg("--version"), "rustc")?;
        let version = said.split_whitespace().nth(1);
        version
            .map(str::to_owned)
            .context("rustc prints no version")
    };
    let mut found = vec![Rust {
        program: None,
        version: version(Path::new("rustc"))?,
    }];
    let folder = std::env::var_os("XLA_FFI_RUSTS").filter(|folder| !folder.is_empty());
    let folder = folder.map_or_else(|| root.join("target/rust"), PathBuf::from);
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let program = entry?.path().join("rustc");
        if program.is_file() {
            found.push(Rust {
                version: version(&program)?,
                program: Some(program),
            });
        }
    }
    Ok(found)
}

impl Rust {
    fn cargo(&self, root: &Path, folder: &Path) -> Command {
        let mut command = cargo(root);
        if let Some(program) = &self.program {
            command
                .env("RUSTC", program)
                .env("CARGO_TARGET_DIR", folder.join("build"));
        }
        command
    }

    /// Checks the published crates, and tests a new project. Returns the row.
    fn check(&self, root: &Path, row: &str, tally: &Tally) -> String {
        let folder = &root.join("target/compilers").join(row.replace(' ', "_"));
        let passed = Mutex::new(vec![]);
        let note = |what| {
            passed
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(what)
        };
        tally.work(&format!("{row}, crates"), |log| {
            let mut command = self.cargo(root, folder);
            command.args(["check", "--quiet", "--all-features"]);
            for package in metadata(root)?.packages {
                if package.publish.is_none() {
                    command.args(["--package", &package.name]);
                }
            }
            let done = tally::run("cargo check", &mut command, log)?;
            note("crates checked");
            Ok(done)
        });
        tally.work(&format!("{row}, project"), |log| {
            self.test_project(root, folder, log)?;
            note("new project tested");
            Ok(vec![])
        });
        let passed = passed.into_inner().unwrap_or_else(PoisonError::into_inner);
        line(row, &self.version, "Rust 2024", &passed.join(", "))
    }

    /// Makes a project as users do, and runs its tests.
    fn test_project(&self, root: &Path, folder: &Path, log: &mut tally::Log) -> Outcome {
        let project = folder.join("compiled");
        if project.exists() {
            fs::remove_dir_all(&project)?;
        }
        fs::create_dir_all(folder)?;
        let mut new = Command::new(root.join("target/debug/xla-ffi"));
        new.arg("new").arg(&project).arg("--sdk").arg(root);
        python::output(&mut new, "xla-ffi new")?;
        let mut test = self.cargo(root, folder);
        // Documentation tests would need the version's own rustdoc.
        test.args(["test", "--quiet", "--tests"])
            .current_dir(&project);
        if self.program.is_none() {
            test.env("CARGO_TARGET_DIR", root.join("target"));
        }
        tally::run("cargo test", &mut test, log)
    }
}

/// Whether a version begins with the parts of another.
fn is_of(version: &str, part: &str) -> bool {
    version
        .strip_prefix(part)
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// What the table of the page claims and this run did not see, and the reverse. Rows that were not checked may say
/// anything, but have to be there.
fn differences(page: &str, rows: &[Row]) -> Result<Vec<String>> {
    let (_, section) = page
        .split_once(HEADING)
        .with_context(|| format!("{PAGE} has no table"))?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter(|line| line.starts_with("| "));
    let mut claimed: Vec<&str> = lines.skip(1).collect();
    let mut differences = vec![];
    for (row, seen) in rows {
        let is_own = |line: &&str| line.strip_prefix("| ").is_some_and(|line| is_of(line, row));
        let own = claimed.iter().position(is_own).map(|at| claimed.remove(at));
        match (own, seen) {
            (Some(own), Ok(seen)) if own != seen => {
                differences.push(format!("claimed: {own}\nseen:    {seen}"));
            }
            (None, Ok(seen)) => differences.push(format!("missing: {seen}")),
            (None, Err(_)) => differences.push(format!("missing: a row for {row}")),
            _ => {}
        }
    }
    differences.extend(
        claimed
            .iter()
            .map(|line| format!("no such compiler: {line}")),
    );
    Ok(differences)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_rust_is_the_one_that_crates_name() {
        let manifest = fs::read_to_string(folders::checkout().join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("\nrust-version = \"{}\"\n", RUSTS[0].1)));
    }

    #[test]
    fn a_table_that_differs_is_told_by_row() {
        let page = |rows: &str| {
            format!(
                "text\n{HEADING}\n| compiler | standards | result |\n|---|---|---|\n{rows}\n## Next\n| no | row |\n"
            )
        };
        let seen = || Ok(line("g++ 11", "11.3.0", "C11, C17", "called"));
        let rows: [Row; 2] = [
            ("g++ 11", seen()),
            ("zig 0.8", Err("no network".to_owned())),
        ];
        let of = |rows_of_page: &str| differences(&page(rows_of_page), &rows).unwrap();
        let zig = "| zig 0.8.1 | C11 | called |\n";
        assert_eq!(
            of(&format!("| g++ 11.3.0 | C11, C17 | called |\n{zig}")),
            [""; 0]
        );
        for (claimed, told) in [
            (
                "| g++ 11.4.0 | C11, C17 | called |\n",
                "claimed: | g++ 11.4.0",
            ),
            (
                "| g++ 11.3.0 | C11 | called |\n",
                "seen:    | g++ 11.3.0 | C11, C17",
            ),
            ("", "missing: | g++ 11.3.0"),
            (
                "| g++ 11.3.0 | C11, C17 | called |\n| icc 1 | C11 | called |\n",
                "no such compiler: | icc 1",
            ),
        ] {
            let found = of(&format!("{claimed}{zig}"));
            assert!(found.len() == 1 && found[0].contains(told), "{found:?}");
        }
        assert_eq!(
            of("| g++ 11.3.0 | C11, C17 | called |\n"),
            ["missing: a row for zig 0.8"]
        );
        assert!(differences("no heading", &rows).is_err());
    }

    #[test]
    fn versions_are_compared_by_their_parts() {
        assert!(is_of("1.85.0", "1.85") && is_of("g++ 11.3.0 | C", "g++ 11"));
        assert!(!is_of("1.850.0", "1.85") && !is_of("1.8", "1.85"));
    }
}
