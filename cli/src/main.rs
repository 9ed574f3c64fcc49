//! `xla-ffi`: run, inspect and check XLA custom-call libraries.
//!
//! Exit status 0: as asked. 1: it did not work or the answer is no, told on standard error.
//! 2: the command line does not parse.
#![forbid(unsafe_code)]
// They panic where standard output is closed or full; `output` does not.
#![deny(clippy::print_stdout)]

mod abi;
mod baseline;
mod bench;
mod call;
mod check;
mod child_process;
mod contract;
mod device;
mod diff;
mod doctor;
mod engine;
mod inspect;
mod new;
mod output;
mod probe;
mod replay;
mod report_format;
mod run;
mod target;

use anyhow::{Context, Result, bail};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::sync::LazyLock;
use xla_ffi_runtime::Revision;

#[derive(Parser)]
#[command(name = "xla-ffi", version = VERSION.as_str(), about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a handler, on the embedded runtime or on a real XLA.
    Run(run::Args),
    /// Show what a library says about itself.
    Inspect(inspect::Args),
    /// Tell what would go wrong where.
    Doctor(doctor::Args),
    /// Tell what callers notice between two builds of a library.
    Diff(diff::Args),
    /// Measure the cost of one call.
    Bench(bench::Args),
    /// Check whether handlers keep to what hosts and callers take for granted.
    Check(check::Args),
    /// Show, compare and check revisions of the ABI.
    Abi(abi::Args),
    /// Write a Python stub file of a library, for type checkers and editors.
    Stubs(StubsArgs),
    /// Start a project.
    New(new::Args),
    /// Ask a library something in this child process.
    #[command(hide = true)]
    Ask(probe::Args),
    /// Write what a shell needs to complete command lines of this program.
    Completions(CompletionsArgs),
}

/// The SDK's version, and the newest revision of the ABI that it knows.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let newest = Revision::NEWEST;
    format!(
        "{} (knows XLA FFI up to {}, which came with jaxlib {})",
        env!("CARGO_PKG_VERSION"),
        newest.name(),
        newest.first_jaxlib()
    )
});

fn main() -> ExitCode {
    let done = |outcome: Result<()>| outcome.map(|()| ExitCode::SUCCESS);
    let cli = Cli::parse();
    let form = match &cli.command {
        Command::Inspect(args) => args.output.is_json().then_some(inspect::SCHEMA),
        Command::Doctor(args) => args.schema(),
        Command::Diff(args) => args.output.is_json().then_some(diff::SCHEMA),
        Command::Bench(args) => args.output.is_json().then_some(bench::SCHEMA),
        Command::Check(args) => args.output.is_json().then_some(check::SCHEMA),
        Command::Abi(args) => args.schema(),
        _ => None,
    };
    let outcome = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Inspect(args) => done(inspect::run(&args)),
        Command::Doctor(args) => doctor::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Abi(args) => abi::run(&args),
        Command::Stubs(args) => done(stubs(&args)),
        Command::New(args) => done(new::run(&args)),
        Command::Ask(args) => Ok(probe::child(&args)),
        Command::Completions(args) => done(completions(&args, Cli::command())),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            output::no_answer(form, &error);
            eprintln!("error: {}", output::error_text(&error));
            ExitCode::FAILURE
        }
    }
}

/// Command line of `stubs`.
#[derive(clap::Args)]
struct StubsArgs {
    /// The library.
    lib: PathBuf,
    /// Where to; to standard output unless given.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A Python with the package `xla_ffi`.
    #[arg(long, value_name = "EXE", default_value = "python3")]
    python: PathBuf,
}

/// Writes a stub file (`.pyi`) of a library. The Python package writes it, which defines the types that the file refers to:
/// there is one writer, and whoever reads the file has the package.
fn stubs(args: &StubsArgs) -> Result<()> {
    let shown = args.python.display();
    let mut command = process::Command::new(&args.python);
    command.args(["-m", "xla_ffi", "stubs"]);
    if let Some(file) = &args.output {
        command.arg("-o").arg(file);
    }
    // A name like `-o` is a file all the same.
    command.arg("--").arg(&args.lib);
    let done = command.output();
    let done =
        done.with_context(|| format!("{shown} cannot be started: name a Python with --python"))?;
    if done.status.success() {
        let written = match &args.output {
            Some(file) => file.exists(),
            None => !done.stdout.is_empty(),
        };
        if !written {
            bail!("{shown} ended well and has written nothing: it is no Python that has xla_ffi");
        }
        return output::commands(&String::from_utf8_lossy(&done.stdout));
    }
    let said = String::from_utf8_lossy(&done.stderr);
    if said.contains("No module named xla_ffi") {
        bail!(
            "{shown} has no package xla_ffi, which writes stubs: install it there (`pip install` of \
             the SDK's folder `python`), or name the Python that has it with --python"
        );
    }
    let said = match said.trim() {
        "" => format!("{shown} says nothing, and ends with {}", done.status),
        said => said.to_owned(),
    };
    bail!("{}", said.strip_prefix("error: ").unwrap_or(&said))
}

/// Command line of `completions`.
#[derive(clap::Args)]
struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the shell's script for a command line.
fn completions(args: &CompletionsArgs, mut command: clap::Command) -> Result<()> {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    output::commands(&String::from_utf8(script)?)
}

/// Ends the program as for a command line that does not parse: its options do not go together.
fn refuse(text: String) -> ! {
    Cli::command()
        .error(ErrorKind::ArgumentConflict, text)
        .exit()
}
