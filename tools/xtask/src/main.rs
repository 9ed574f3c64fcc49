//! `cargo xtask TASK` runs the tasks of the project.
#![forbid(unsafe_code)]

mod abi;
mod adopters;
mod bench;
mod cargo;
mod compilers;
mod demo;
mod dist;
mod examples;
mod expected;
mod folders;
mod gpu;
mod headers;
mod install;
mod libraries;
mod material;
mod matrix;
mod python;
mod ship;
mod showcase;
mod soak;
mod tally;
mod test;
mod uv;
mod venv;
mod verdicts;
mod version;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Generate the C headers and other files from ffi-sys, or check that they are up to date.
    Headers(headers::Args),
    /// Build everything and run the examples on the embedded runtime and in JAX.
    Demo,
    /// Compare the headers of a jaxlib with the known revisions of the ABI.
    Abi(abi::Args),
    /// Run every check of the project.
    Test(test::Args),
    /// Check the table of compilers in docs/platforms.md: compile handlers with each, and call them.
    Compilers(compilers::Args),
    /// Run every feature on every jaxlib.
    Matrix(matrix::Args),
    /// Measure the cost of calls, compared with C and C++.
    Bench(bench::Args),
    /// Test the GPU examples in JAX on this machine's GPU, or build the files that a GPU machine needs.
    GpuTest(gpu::TestArgs),
    /// Measure the GPU examples on this machine's GPU.
    GpuBench(gpu::BenchArgs),
    /// Install the headers, a CMake config and a pkg-config file in a prefix.
    Install(install::Args),
    /// Build the packages that users install: crates, and the wheel with the program and the runtime.
    Dist(dist::Args),
    /// Test the packages as users do: install them, create projects, package and test those, without the
    /// checkout.
    Ship(ship::Args),
    /// Build, test and measure the libraries in examples/showcase/, with wheels in a fresh environment.
    Showcase(showcase::Args),
    /// Fuzz the parsers of external input for a given time, continuing the previous run.
    Soak(soak::Args),
    /// Measure how libraries built with upstream's headers behave on every jaxlib: tests/jax/verdicts.txt.
    Verdicts(verdicts::Args),
    /// Set the version of all packages, or check that it is the same everywhere.
    Version(version::Args),
    /// Build public projects with XLA's headers and with ours, and run their tests on several jaxlibs.
    Adopters(adopters::Args),
    /// Download headers, libclang, the PJRT plugin and virtual environments to the cache.
    Fetch(material::FetchArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Headers(args) => headers::run(&args),
        Task::Demo => demo::run(),
        Task::Abi(args) => abi::run(&args),
        Task::Test(args) => test::run(&args),
        Task::Compilers(args) => compilers::run(&args),
        Task::Matrix(args) => matrix::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::GpuTest(args) => gpu::test(&args),
        Task::GpuBench(args) => gpu::bench(&args),
        Task::Install(args) => install::run(&args),
        Task::Dist(args) => dist::run(&args),
        Task::Ship(args) => ship::run(&args),
        Task::Showcase(args) => showcase::run(&args),
        Task::Soak(args) => soak::run(&args),
        Task::Verdicts(args) => verdicts::run(&args),
        Task::Version(args) => version::run(&args),
        Task::Adopters(args) => adopters::run(&args),
        Task::Fetch(args) => material::fetch(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
