//! `xla-ffi doctor`.

/// Command line of `doctor`.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args) -> anyhow::Result<()> {
    anyhow::bail!("not there yet")
}
