//! The project's only task runner: `cargo xtask TASK`.
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
    /// Generate the C headers and what else is written from ffi-sys, or check that it is fresh.
    Headers(headers::Args),
    /// Build everything and show the examples, on the embedded runtime and in JAX.
    Demo,
    /// Compare the headers of a jaxlib with the known revisions of the ABI.
    Abi(abi::Args),
    /// Run every check of the project.
    Test(test::Args),
    /// Check the table of compilers in docs/platforms.md: compile handlers with each, and call them.
    Compilers(compilers::Args),
    /// Run every feature on every jaxlib.
    Matrix(matrix::Args),
    /// Measure what a call costs, beside C and C++.
    Bench(bench::Args),
    /// Test the GPU examples in JAX on this machine's GPU, or build what another machine needs for it.
    GpuTest(gpu::TestArgs),
    /// Measure the GPU examples on this machine's GPU.
    GpuBench(gpu::BenchArgs),
    /// Put the headers, a CMake config and a pkg-config file under a prefix.
    Install(install::Args),
    /// Make the packages that users install: crates, and the wheel with the program and the runtime.
    Dist(dist::Args),
    /// Do what users do with the packages: install, begin projects, pack and test them, without the checkout.
    Ship(ship::Args),
    /// Build, test and measure the libraries under examples/showcase/, with wheels in a fresh environment.
    Showcase(showcase::Args),
    /// Attack the handlers for as long as there is time, from where the last run ended.
    Soak(soak::Args),
    /// Measure what libraries built with upstream's headers do on every jaxlib: tests/jax/verdicts.txt.
    Verdicts(verdicts::Args),
    /// Set the version of all packages, or check that every place has it.
    Version(version::Args),
    /// Build public projects with XLA's headers and with ours, and run their tests on several jaxlibs.
    Adopters(adopters::Args),
    /// Fill the cache: headers, libclang, the PJRT plugin, virtual environments.
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
