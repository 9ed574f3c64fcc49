//! Programs on XLA: a PJRT plugin compiles them, and calls the handlers that are registered in a runtime.

use super::custom_call::Config;
use super::instruction::live;
use super::instruction::{Instruction, Kind};
use super::pjrt::legacy::{Bridged, Ticket, target};
use super::pjrt::{Client, Loaded};
use super::{ApiVersion, CustomCall, Options, Program};
use xla_ffi_runtime::{
    Error, ErrorCode, Result, Runtime, Tensor, Tree, Unwritten, canonical_platform,
};

/// A program that a PJRT plugin has compiled.
pub(super) struct OnPlugin {
    loaded: Loaded,
    /// The tickets of the program's calls of legacy targets. The calls are valid while their tickets exist.
    _tickets: Vec<Ticket>,
}

impl OnPlugin {
    /// Registers the program's targets with the plugin if the runtime has them, and compiles the program.
    pub(super) fn compile(
        program: &Program,
        runtime: &Runtime,
        options: &Options,
        client: &Client,
    ) -> Result<Self> {
        check(options, client)?;
        let mut tickets = vec![];
        let live = live(program);
        let mut instructions = program.inner.instructions.clone();
        for (instruction, live) in instructions.iter_mut().zip(live) {
            let Instruction { name, kind, .. } = instruction;
            let Kind::CustomCall(call) = kind else {
                continue;
            };
            if live {
                register_target(program, runtime, options, client, call, &mut tickets)
                    .map_err(|error| error.within(format_args!("instruction '{name}'")))?;
            }
        }
        let lent = Program::new(program.inner.name.clone(), instructions, program.inner.root);
        Ok(Self {
            loaded: client.compile(lent.to_stablehlo()?)?,
            _tickets: tickets,
        })
    }

    /// Runs the program and returns its result.
    pub(super) fn run(
        &self,
        program: &Program,
        arguments: impl IntoIterator<Item = Tree<Tensor>>,
    ) -> Result<Tree<Tensor>> {
        let leaves: Vec<Tensor> = (arguments.into_iter())
            .flat_map(|argument| argument.into_leaves())
            .collect();
        let results = self.loaded.run(&leaves)?;
        let count = results.len();
        let shape = program.result();
        shape.filled(results).ok_or_else(|| {
            let wanted = shape.leaves().count();
            let why = format!("the plugin gave {count} arrays for a result of {wanted}");
            Error::new(ErrorCode::Internal, why)
        })
    }
}

/// Returns an error for options that only the embedded runtime supports.
fn check(options: &Options, client: &Client) -> Result<()> {
    let platform = options.platform.as_ref();
    if let Some(platform) =
        platform.filter(|platform| canonical_platform(platform) != client.platform())
    {
        return Err(Error::invalid_argument(format!(
            "the program is to run on platform '{platform}', the plugin is one of '{}'",
            client.platform()
        )));
    }
    let own = options.device.is_some() || options.limit.is_some();
    if own || options.unwritten == Unwritten::Refused {
        return Err(Error::invalid_argument(
            "a plugin has its own devices; set a time limit with pjrt::Launch; only the embedded runtime detects unwritten results",
        ));
    }
    Ok(())
}

/// Registers the target of a call with the plugin. If the runtime does not have the target, the plugin may have it.
fn register_target(
    program: &Program,
    runtime: &Runtime,
    options: &Options,
    client: &Client,
    call: &mut CustomCall<usize>,
    tickets: &mut Vec<Ticket>,
) -> Result<()> {
    let unknown = |error: &Error| error.code() == ErrorCode::NotFound;
    let Config::Opaque(opaque) = &call.config else {
        return match runtime.find(&call.target, client.platform()) {
            Ok(handler) => client.register(&call.target, handler.bundle()),
            Err(error) if unknown(&error) => Ok(()),
            Err(error) => Err(error),
        };
    };
    let found = match runtime.find_legacy(&call.target, client.platform(), call.api_version) {
        Ok(found) => found,
        Err(error) if unknown(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.signature().is_cpu() {
        return Err(Error::new(
            ErrorCode::Unimplemented,
            format!(
                "legacy target '{}' is called as {}: on a plugin those in host memory can be called",
                found.name(),
                found.signature()
            ),
        ));
    }
    let operands = call.operands.iter().enumerate();
    let operands = operands
        .map(|(place, &operand)| {
            let shape = &program.instruction(operand).shape;
            call.laid_out(place, shape).clone()
        })
        .collect();
    let ticket = Ticket::new(Bridged {
        target: found,
        operands,
        result: call.shape.clone(),
        opaque: opaque.clone(),
        form: options.tuples,
    });
    call.target = target(client)?;
    call.api_version = ApiVersion::TypedFfi;
    call.config = Config::Attributes(ticket.attributes());
    tickets.push(ticket);
    Ok(())
}
