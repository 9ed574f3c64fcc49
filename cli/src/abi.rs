//! `xla-ffi abi`.

/// Command line of `abi`.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args) -> anyhow::Result<()> {
    anyhow::bail!("not there yet")
}
