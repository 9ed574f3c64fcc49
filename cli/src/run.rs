//! `xla-ffi run`: calls one handler on the embedded runtime or on the XLA of a PJRT plugin.

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
#[command(after_help = "\
Examples:
  xla-ffi run librms_norm.so --handler rms_norm --arg 'f32[2,3]=1,2,3,4,5,6' --attrs '{eps = 1.0e-5 : f32}'
  xla-ffi run libfoo.so --handler execute=Solve,instantiate=New --arg 'f64[8,8]=@a.npy' --ret 'f64[8]' -o x.npz
  xla-ffi run librms_norm.so --replay calls")]
pub(crate) struct Args {
    #[command(flatten)]
    call: CallArgs,
    /// Also write the results to this .npz file [default: print only].
    #[arg(long, short, value_name = "FILE.npz", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Call the handler in this process, for debuggers; a crash then ends xla-ffi itself.
    #[arg(long = "in-this-process", help_heading = "Limits")]
    in_this_process: bool,
    /// Accept results that the handler leaves unwritten; only the embedded runtime detects them.
    #[arg(long, help_heading = "Limits")]
    allow_unwritten: bool,
    /// Repeat calls recorded with Python's xla_ffi.record, from a file or a folder, and compare the results bit for bit
    /// [default: make the call of --arg].
    #[arg(long, value_name = "FILE|FOLDER", help_heading = "Call", conflicts_with_all = [
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

/// Calls the handler in this process, on the chosen engine and device.
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
    output::enters(format_args!("xla-ffi itself, after the handler returned,"));
    let mut text: String = names
        .iter()
        .zip(&rets)
        .map(|(name, ret)| format!("{name}: {ret}\n"))
        .collect();
    if rets.is_empty() {
        text = "the handler has no results\n".into();
    }
    let printed = output::text(&text);
    // The name of a result becomes a file name in the archive, so path separators are replaced.
    let members = names.iter().map(|name| name.replace(['/', '\\'], "_"));
    let members = ret_names(names.len(), members);
    // If printing the results failed, the file is still written.
    if let Some(path) = &args.output {
        let named: Vec<_> = members.into_iter().zip(&rets).collect();
        npy::write_npz(path, &named)?;
    }
    printed
}
