//! `xla-ffi run`: one handler on the embedded runtime, or on a real XLA behind a PJRT plugin.

use crate::call::{CallArgs, Engine, Prepared, check, ret_names};
use crate::engine;
use crate::{child_process, output, replay};
use anyhow::Result;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use xla_ffi_runtime::{Unwritten, npy};

/// Command line of `run`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    call: CallArgs,
    /// Write the results into an .npz file.
    #[arg(long, short, value_name = "FILE.npz")]
    output: Option<PathBuf>,
    /// Run the handler in this process; a crash ends it then.
    #[arg(long = "in-this-process")]
    in_this_process: bool,
    /// Accept results that the handler leaves unwritten, in whole or in part: what lay in their memory
    /// is printed. (The embedded runtime looks for them; a real XLA does not.)
    #[arg(long)]
    allow_unwritten: bool,
    /// Make recorded calls again and compare what comes of them, bit for bit: a file of Python's
    /// xla_ffi.record, or a folder of them. Each is made as its host made it, on its revision.
    #[arg(long, value_name = "FILE|FOLDER", conflicts_with_all = [
        "args", "rets", "attrs", "custom_options", "run_id", "device_ordinal", "scratch", "stages", "output",
    ])]
    replay: Option<PathBuf>,
}

impl Args {
    fn unwritten(&self) -> Unwritten {
        if self.allow_unwritten {
            Unwritten::Allowed
        } else {
            Unwritten::Refused
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    engine::refuse_what_it_cannot_do(&args.call);
    if args.replay.is_some() {
        engine::only_embedded(&args.call, "run --replay");
    }
    if let Some(pipe) = args.call.supervised {
        return Ok(child_process::child(pipe, || here(args)));
    }
    if !args.in_this_process {
        return child_process::rerun(Duration::from_secs(args.call.time_limit));
    }
    here(args)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs it in this process.
fn here(args: &Args) -> Result<()> {
    if let Some(from) = &args.replay {
        return replay::run(&args.call, args.unwritten(), from);
    }
    let (names, rets) = match &args.call.engine {
        Engine::Embedded => {
            let device = args.call.device.open()?;
            let prepared = Prepared::new(&args.call)?;
            let names = prepared.ret_names.clone();
            let runtime = prepared.runtime.clone();
            let rets = prepared.run(&device, args.unwritten())?;
            check(&runtime)?;
            (names, rets)
        }
        Engine::Pjrt(plugin) => engine::run_on(plugin, &args.call)?,
    };
    output::enters(format_args!("the handler has returned; xla-ffi itself"));
    let mut text: String = names
        .iter()
        .zip(&rets)
        .map(|(name, ret)| format!("{name}: {ret}\n"))
        .collect();
    if rets.is_empty() {
        text = "done, no results\n".into();
    }
    let told = output::text(&text);
    // A member of an archive is a file's name to whoever unpacks it.
    let members = names.iter().map(|name| name.replace(['/', '\\'], "_"));
    let members = ret_names(names.len(), members);
    // What cannot be told is written all the same.
    if let Some(path) = &args.output {
        let named: Vec<_> = members.into_iter().zip(&rets).collect();
        npy::write_npz(path, &named)?;
    }
    told
}
