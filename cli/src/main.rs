//! `xla-ffi`: runs, inspects and checks XLA custom-call libraries.
//!
//! Exit status 0: success. 1: an error or a negative result, with the reason on standard error. 2: the command line
//! does not parse.
#![forbid(unsafe_code)]
// All output is printed by the module `output`, because `print!` panics if standard output is closed or full.
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
mod interpreter;
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
    /// Call a handler on the embedded runtime or on a real XLA.
    Run(run::Args),
    /// Show the handlers of a library and the jaxlibs that load them.
    Inspect(inspect::Args),
    /// Report what fails in libraries and wheels, and on which jaxlibs.
    Doctor(doctor::Args),
    /// Report the differences between two builds of a library that callers notice.
    Diff(diff::Args),
    /// Measure the time of a call to a handler.
    Bench(bench::Args),
    /// Check that handlers behave as hosts and callers expect.
    Check(check::Args),
    /// Show, compare and check layouts of the XLA FFI ABI.
    Abi(abi::Args),
    /// Write a Python stub file (.pyi) of a library, for type checkers and editors.
    Stubs(StubsArgs),
    /// Create a project with a handler, tests, a Python package and a CI workflow.
    New(new::Args),
    /// Ask a library a question in this child process.
    #[command(hide = true)]
    Ask(probe::Args),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
}

/// The text that `--version` prints: the version of the SDK, and the newest ABI revision that the SDK supports.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let newest = Revision::NEWEST;
    format!(
        "{} (supports XLA FFI revisions up to {}, first shipped with jaxlib {})",
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
            output::message(format_args!("error: {}", output::error_text(&error)));
            ExitCode::FAILURE
        }
    }
}

/// Command line of `stubs`.
#[derive(clap::Args)]
struct StubsArgs {
    /// Path of the library.
    lib: PathBuf,
    /// Write to this file [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Run this Python interpreter, which needs the package `xla_ffi`.
    #[arg(long, value_name = "EXE", default_value = "python3")]
    python: PathBuf,
}

/// Runs the Python package, which writes a stub file (`.pyi`) of a library. The package defines the types in the file.
fn stubs(args: &StubsArgs) -> Result<()> {
    let shown = args.python.display();
    let mut command = process::Command::new(&args.python);
    command.args(["-m", "xla_ffi", "stubs"]);
    if let Some(file) = &args.output {
        command.arg("-o").arg(file);
    }
    // The option `--` allows that the path of the library starts with a hyphen.
    command.arg("--").arg(&args.lib);
    let done = command.output();
    let done = done.with_context(|| {
        format!("cannot start {shown}: choose a Python interpreter with --python")
    })?;
    if done.status.success() {
        let written = match &args.output {
            Some(file) => file.exists(),
            None => !done.stdout.is_empty(),
        };
        if !written {
            bail!(
                "{shown} succeeded without writing a stub file: choose a Python interpreter with --python"
            );
        }
        return output::commands(&String::from_utf8_lossy(&done.stdout));
    }
    let errors = String::from_utf8_lossy(&done.stderr);
    if errors.contains("No module named xla_ffi") {
        bail!(
            "{shown} does not have the package xla_ffi, which writes stubs: install it (`pip install xla-ffi`), or \
             choose another interpreter with --python"
        );
    }
    let errors = match errors.trim() {
        "" => format!("{shown} ended with {} and no error message", done.status),
        errors => errors.to_owned(),
    };
    bail!("{}", errors.strip_prefix("error: ").unwrap_or(&errors))
}

/// Command line of `completions`.
#[derive(clap::Args)]
struct CompletionsArgs {
    /// Shell to write the script for.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completion script for a shell.
fn completions(args: &CompletionsArgs, mut command: clap::Command) -> Result<()> {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    output::commands(&String::from_utf8(script)?)
}

/// Prints an error about conflicting options, and ends the program with status 2.
fn refuse(text: String) -> ! {
    Cli::command()
        .error(ErrorKind::ArgumentConflict, text)
        .exit()
}
