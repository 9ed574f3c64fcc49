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
mod check;
mod child_process;
mod completions;
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
mod stubs;
mod target;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;
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
    Stubs(stubs::Args),
    /// Start a project.
    New(new::Args),
    /// Ask a library something in this child process.
    #[command(hide = true)]
    Ask(probe::Args),
    /// Write what a shell needs to complete command lines of this program.
    Completions(completions::Args),
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
    let done = |outcome: anyhow::Result<()>| outcome.map(|()| ExitCode::SUCCESS);
    let cli = Cli::parse();
    let form = match &cli.command {
        Command::Inspect(args) => args.json.then_some(inspect::SCHEMA),
        Command::Doctor(args) => args.schema(),
        Command::Diff(args) => args.json.then_some(diff::SCHEMA),
        Command::Bench(args) => args.json.then_some(bench::SCHEMA),
        Command::Check(args) => args.json.then_some(check::SCHEMA),
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
        Command::Stubs(args) => done(stubs::run(&args)),
        Command::New(args) => done(new::run(&args)),
        Command::Ask(args) => Ok(probe::child(&args)),
        Command::Completions(args) => done(completions::run(&args, Cli::command())),
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

/// Ends the program as for a command line that does not parse: its options do not go together.
fn refuse(text: String) -> ! {
    Cli::command()
        .error(ErrorKind::ArgumentConflict, text)
        .exit()
}
