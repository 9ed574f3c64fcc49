//! The engine that makes the call: the embedded runtime, or the XLA in a PJRT plugin.

use crate::call::{CallArgs, Engine, Ret};
use crate::device::Device;
use crate::target::Target;
use crate::{output, refuse};
use anyhow::Result;
use std::path::Path;
use std::time::Duration;
use xla_ffi_abi::xla_ffi_sys::Slot;
use xla_ffi_programs::pjrt::Plugin;
use xla_ffi_runtime::{Revision, Runtime, Tensor};

/// Ends the program with status 2 if an option does not apply to the chosen engine and device.
pub(crate) fn refuse_what_it_cannot_do(args: &CallArgs) {
    let of_the_host = [
        ("--threads", args.threads.is_some()),
        ("--scratch", args.scratch),
    ];
    for (option, given) in of_the_host {
        if given && args.device != Device::Host {
            refuse(format!(
                "{option} requires --device host: CUDA devices have no thread pool and always have scratch memory"
            ));
        }
    }
    if args.engine == Engine::Embedded {
        refuse_what_it_does_not_have(args);
        return;
    }
    let given = [
        ("--revision", args.revision.is_some()),
        ("--custom-options", args.custom_options.is_some()),
        ("--device", args.device != Device::Host),
        ("--device-ordinal", args.device_ordinal.is_some()),
        ("--threads", args.threads.is_some()),
        ("--scratch", args.scratch),
        ("--stages", args.stages.is_some()),
    ];
    let given: Vec<_> = given
        .into_iter()
        .filter_map(|(option, given)| given.then_some(option))
        .collect();
    if !given.is_empty() {
        refuse(format!(
            "these options require --engine embedded: {}",
            given.join(", ")
        ));
    }
    if args.run_id.is_some_and(|id| i32::try_from(id).is_err()) {
        refuse("--run-id must fit into 32 bits for PJRT plugins".into());
    }
}

/// Ends the program with status 2 if an option requires a function that the chosen revision does not have.
fn refuse_what_it_does_not_have(args: &CallArgs) {
    let revision = args.revision.unwrap_or(Revision::NEWEST);
    for (option, given, slot) in [
        (
            "--custom-options",
            args.custom_options.is_some(),
            Slot::CustomOptionsGet,
        ),
        ("--run-id", args.run_id.is_some(), Slot::RunIdGet),
        (
            "--device-ordinal",
            args.device_ordinal.is_some(),
            Slot::DeviceOrdinalGet,
        ),
    ] {
        if given && slot.index(revision).is_none() {
            let since = slot.since();
            refuse(format!(
                "{option} requires --revision {since} or later, got {revision}"
            ));
        }
    }
}

/// Ends the program with status 2 if the engine is not the embedded runtime, or the device is not the host.
pub(crate) fn only_embedded(args: &CallArgs, command: &str) {
    if args.engine != Engine::Embedded {
        refuse(format!("{command} supports --engine embedded only"));
    }
    if args.device != Device::Host {
        refuse(format!("{command} supports --device host only"));
    }
    refuse_what_it_does_not_have(args);
}

/// Calls the handler on the XLA in a PJRT plugin, in a program that consists of one custom call. Returns the names of
/// the results, and the results.
pub(crate) fn run_on(plugin: &Path, args: &CallArgs) -> Result<(Vec<String>, Vec<Tensor>)> {
    let target = Target::read(&args.lib)?;
    let chosen = target.choose(args.handler.as_ref())?;
    let arguments = args.arguments()?;
    let (rets, names) = args.results(chosen.manifest, &arguments)?;
    output::enters(format_args!("the library, while it was loaded,"));
    let library = Runtime::default().open(&args.lib)?;
    let bundle = chosen.bundle(&library)?;
    output::enters(format_args!(
        "the plugin {}, while it was loaded,",
        plugin.display()
    ));
    let client = Plugin::load(plugin)?.client()?;
    output::enters(format_args!("the handler"));
    for user_type in &args.types {
        client.register_type_of(
            &library,
            &user_type.name,
            &user_type.id,
            user_type.info.as_deref(),
        )?;
    }
    client.register(&chosen.name, &bundle)?;

    let mut call = client
        .call(&chosen.name)
        .attributes(&args.attrs.clone().unwrap_or_default())
        .args(arguments)
        .launch_id(
            args.run_id
                .and_then(|id| i32::try_from(id).ok())
                .unwrap_or(0),
        )
        .time_limit(Some(Duration::from_secs(args.time_limit)));
    for ret in rets {
        call = match ret {
            Ret::New(shape) => call.ret(shape),
            Ret::Alias(argument) => call.ret_alias(argument),
        };
    }
    Ok((names, call.run()?))
}
