//! `xla-ffi completions`: what a shell needs to complete command lines.

use clap_complete::Shell;

/// Command line of `completions`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the shell's script for a command line.
pub(crate) fn run(args: &Args, mut command: clap::Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    crate::output::commands(&String::from_utf8(script)?)
}
