//! Options that describe one call (library, handler, host and operands), and the preparation of the call on the
//! embedded runtime.

use crate::device::{Device, Opened};
use crate::target::{HandlerName, Target};
use crate::{contract, output};
use anyhow::{Context, Result, anyhow, bail};
use clap::builder::{OsStringValueParser, TypedValueParser};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use xla_ffi_abi::declared::Edition;
use xla_ffi_doctor::manifest;
use xla_ffi_runtime::spec::{Spec, parse_result};
use xla_ffi_runtime::{
    Attributes, Executable, Hazard, HostAllocator, Library, Metadata, Revision, Runtime, Shape,
    Stages, Tensor, Unwritten,
};

/// The value of `--engine`: the XLA implementation that makes the call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Engine {
    /// The embedded runtime makes the call.
    Embedded,
    /// The XLA in a PJRT plugin makes the call. The path is that of the plugin.
    Pjrt(PathBuf),
}

/// Returns a parser for `--engine`. The path need not be valid UTF-8.
fn engine_parser() -> impl TypedValueParser<Value = Engine> {
    OsStringValueParser::new().try_map(|text| Engine::of(&text))
}

impl Engine {
    fn of(text: &OsStr) -> Result<Self, String> {
        match text.as_bytes().strip_prefix(b"pjrt:") {
            None if text == "embedded" => Ok(Self::Embedded),
            Some(path) if !path.is_empty() => Ok(Self::Pjrt(OsStr::from_bytes(path).into())),
            _ => Err("expected `embedded` or `pjrt:PLUGIN.so`".into()),
        }
    }
}

/// Options that describe one call.
#[derive(Clone, clap::Args)]
pub(crate) struct CallArgs {
    /// Path of the library.
    pub(crate) lib: PathBuf,
    /// Call this handler: a name from the manifest, the symbol of an execute stage, or
    /// execute=SYMBOL,instantiate=SYMBOL,… [default: the library's only handler].
    #[arg(long, value_name = "NAME", help_heading = "Call")]
    pub(crate) handler: Option<HandlerName>,
    /// Pass an argument, TYPE[DIMS]=VALUE or `token`; repeat in order. VALUE is a list of numbers, zeros, ones, iota,
    /// random or @FILE.npy, for example f32[2,3]=1,2,3,4,5,6 or f32[8]=iota.
    #[arg(long = "arg", value_name = "SPEC", help_heading = "Call", value_parser = parse_spec, allow_hyphen_values = true)]
    pub(crate) args: Vec<Spec>,
    /// Declare a result, TYPE[DIMS] or `token`; repeat in order [default: inferred from the manifest's shape contract].
    #[arg(long = "ret", value_name = "SPEC", help_heading = "Call", value_parser = parse_ret)]
    pub(crate) rets: Vec<Shape>,
    /// Pass attributes as an MLIR dictionary, for example '{eps = 1.0e-5 : f32}' [default: none].
    #[arg(long, value_name = "DICT", help_heading = "Call", value_parser = parse_attributes)]
    pub(crate) attrs: Option<Attributes>,
    /// Set the ABI revision of the embedded runtime, for example r4 [default: the newest].
    #[arg(long, value_name = "rN", help_heading = "Host", value_parser = parse_revision)]
    pub(crate) revision: Option<Revision>,
    /// Run the handler on the embedded runtime (`embedded`) or on the XLA of a PJRT plugin (`pjrt:PLUGIN.so`).
    #[arg(long, value_name = "ENGINE", help_heading = "Host", default_value = "embedded", value_parser = engine_parser())]
    pub(crate) engine: Engine,
    /// Run the handler on the CPU (`host`) or on a CUDA device (`cuda` or `cuda:N`), with operands copied to it.
    #[arg(long, value_name = "DEVICE", help_heading = "Host")]
    #[arg(default_value = "host")]
    pub(crate) device: Device,
    /// Register a user type before the handlers are loaded, by the symbols of its id and its TypeInfo; may be repeated
    /// [default: none].
    #[arg(long = "type", value_name = "NAME=ID[,INFO]", help_heading = "Call", value_parser = parse_type)]
    pub(crate) types: Vec<UserType>,
    /// Set the execution's custom options (revision r10 or later), as an MLIR dictionary [default: none].
    #[arg(long, value_name = "DICT", help_heading = "Host", value_parser = parse_attributes)]
    pub(crate) custom_options: Option<Attributes>,
    /// Set the run id that the handler reads (revision r4 or later) [default: 0].
    #[arg(long, value_name = "N", help_heading = "Host")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) run_id: Option<i64>,
    /// Set the device ordinal that the handler reads (revision r5 or later) [default: 0].
    #[arg(long, value_name = "N", help_heading = "Host")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) device_ordinal: Option<i32>,
    /// Set the size of the thread pool, 0 (no pool) to 1024 [default: the number of processors].
    #[arg(long, value_name = "N", help_heading = "Host", value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub(crate) threads: Option<u16>,
    /// Provide scratch memory on the CPU, as XLA does on devices only.
    #[arg(long, help_heading = "Host")]
    pub(crate) scratch: bool,
    /// Run these stages of the handler [default: all].
    #[arg(long, value_enum, help_heading = "Host")]
    pub(crate) stages: Option<StageSet>,
    /// Limit each call, in seconds; loading the library may take 5 s longer.
    #[arg(long, value_name = "SECONDS", help_heading = "Limits", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) time_limit: u64,
    /// File descriptor by which this child process reports to its parent.
    #[arg(long, hide = true)]
    pub(crate) supervised: Option<i32>,
}

/// The value of `--stages`.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum StageSet {
    /// All stages that the handler has.
    All,
    /// Only instantiate and execute, as XLA does on CPU.
    Cpu,
}

/// A user type to register, by the symbols of its id and its `TypeInfo`.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct UserType {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) info: Option<String>,
}

fn parse_spec(text: &str) -> Result<Spec, String> {
    Spec::parse(text).map_err(|error| error.to_string())
}

fn parse_ret(text: &str) -> Result<Shape, String> {
    parse_result(text).map_err(|error| error.to_string())
}

fn parse_attributes(text: &str) -> Result<Attributes, String> {
    Attributes::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn parse_revision(text: &str) -> Result<Revision, String> {
    Revision::from_name(text).ok_or_else(|| {
        let known = format!("expected r0 to {}", Revision::NEWEST);
        if Edition::find(text) == Some(Edition::BEFORE_R0) {
            return format!("the typed FFI from before r0 is not supported; {known}");
        }
        known
    })
}

pub(crate) fn parse_type(text: &str) -> Result<UserType, String> {
    let (name, symbols) = text
        .split_once('=')
        .ok_or("expected NAME=ID_SYMBOL[,INFO_SYMBOL]")?;
    let (id, info) = match symbols.split_once(',') {
        Some((id, info)) => (id, Some(info.to_owned())),
        None => (symbols, None),
    };
    if name.is_empty() || id.is_empty() {
        return Err("the name or the symbol is empty".into());
    }
    Ok(UserType {
        name: name.to_owned(),
        id: mangled(id),
        info: info.as_deref().map(mangled),
    })
}

/// Returns the mangled name of a C++ static member such as `State::id`, for Linux and macOS. Returns other symbols
/// unchanged.
fn mangled(symbol: &str) -> String {
    if !symbol.contains("::") {
        return symbol.to_owned();
    }
    let parts: String = symbol
        .split("::")
        .map(|part| format!("{}{part}", part.len()))
        .collect();
    format!("_ZN{parts}E")
}

impl CallArgs {
    /// Creates the arguments of the call from the command line.
    pub(crate) fn arguments(&self) -> Result<Vec<Tensor>> {
        self.args
            .iter()
            .enumerate()
            .map(|(index, spec)| spec.tensor().with_context(|| format!("--arg {index}")))
            .collect()
    }

    /// Returns the results of the call and their names. The shapes are those on the command line, or are inferred from
    /// the shape contract.
    pub(crate) fn results(
        &self,
        manifest: Option<&manifest::Handler>,
        arguments: &[Tensor],
    ) -> Result<(Vec<Ret>, Vec<String>)> {
        let shapes: Vec<_> = arguments
            .iter()
            .map(|tensor| tensor.shape().clone())
            .collect();
        let manifest = manifest.filter(|manifest| manifest.described);
        let (ret_shapes, aliases) = match manifest {
            Some(manifest) => {
                let shapes = if self.rets.is_empty() && !manifest.rets.is_empty() {
                    let attrs = self.attrs.clone().unwrap_or_default();
                    contract::infer(manifest, &shapes, &attrs).map_err(|why| anyhow!(why))?
                } else {
                    self.rets.clone()
                };
                let alias = |index| contract::changed_in_place(manifest, index, arguments.len());
                let aliases: Vec<_> = (0..shapes.len()).map(alias).collect();
                (shapes, aliases)
            }
            None => (self.rets.clone(), vec![None; self.rets.len()]),
        };
        let mut rets = vec![];
        for (index, shape) in ret_shapes.into_iter().enumerate() {
            rets.push(match aliases[index] {
                Some(arg) if shapes[arg] == shape => Ret::Alias(arg),
                Some(arg) => bail!(
                    "--ret {index}: expected {}, because the handler changes argument {arg} in place, got {shape}; declare \
                     all results in order, or none",
                    shapes[arg]
                ),
                None => Ret::New(shape),
            });
        }
        let named = manifest.map_or(&[][..], |manifest| &manifest.rets);
        let named = named.iter().map(|ret| ret.name.clone());
        let names = ret_names(rets.len(), named);
        Ok((rets, names))
    }
}

/// Returns a unique name for each result. Results without a name in the manifest are called `ret0`, `ret1`, and so on.
pub(crate) fn ret_names(count: usize, mut named: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(count);
    let mut known = BTreeSet::new();
    for index in 0..count {
        let mut name = named.next().unwrap_or_else(|| format!("ret{index}"));
        while !known.insert(name.clone()) {
            name.push('_');
        }
        names.push(name);
    }
    names
}

/// Returns an error if the runtime found mistakes of the handler outside of calls, for example in tasks or deleters.
pub(crate) fn check(runtime: &Runtime) -> Result<()> {
    let findings: Vec<_> = runtime
        .take_findings()
        .iter()
        .map(ToString::to_string)
        .collect();
    if findings.is_empty() {
        return Ok(());
    }
    bail!("{}", findings.join("\n"))
}

/// A call on the embedded runtime that is ready to run.
pub(crate) struct Prepared {
    /// The embedded runtime that makes the call.
    pub(crate) runtime: Runtime,
    executable: Executable,
    arguments: Vec<Tensor>,
    rets: Vec<Ret>,
    /// The names of the results, in order.
    pub(crate) ret_names: Vec<String>,
    context: Environment,
}

/// The memory of a result: a new array, or the array of an argument.
#[derive(Clone)]
pub(crate) enum Ret {
    New(Shape),
    Alias(usize),
}

/// The parts of the call's context that options set.
struct Environment {
    run_id: i64,
    device_ordinal: i32,
    pool: bool,
    scratch: bool,
    stages: Stages,
    limit: Duration,
    options: Option<Attributes>,
}

impl Prepared {
    pub(crate) fn new(args: &CallArgs) -> Result<Self> {
        let target = Target::read(&args.lib)?;
        let chosen = target.choose(args.handler.as_ref())?;
        args.device.check(&chosen)?;
        let arguments = args.arguments()?;
        let revision = args.revision.unwrap_or(Revision::NEWEST);
        let runtime = match args.threads {
            Some(threads @ 1..) => Runtime::with_threads(revision, threads.into()),
            _ => Runtime::new(revision),
        };
        output::enters(format_args!("the library, while it was loaded,"));
        let library: Library = runtime.open(&args.lib)?;
        for user_type in &args.types {
            library.register_type(&user_type.name, &user_type.id, user_type.info.as_deref())?;
        }
        let handler = chosen.load(&library)?;
        let (rets, ret_names) = args.results(chosen.manifest, &arguments)?;
        let attributes = args.attrs.clone().unwrap_or_default();
        let limit = Duration::from_secs(args.time_limit);
        output::calls(format_args!("the handler"));
        let executable = handler.instantiate(&attributes)?;
        Ok(Self {
            runtime,
            executable,
            arguments,
            rets,
            ret_names,
            context: Environment {
                run_id: args.run_id.unwrap_or(0),
                device_ordinal: args.device_ordinal.unwrap_or(0),
                pool: args.threads != Some(0),
                scratch: args.scratch,
                stages: match args.stages {
                    None | Some(StageSet::All) => Stages::All,
                    Some(StageSet::Cpu) => Stages::Cpu,
                },
                limit,
                options: args.custom_options.clone(),
            },
        })
    }

    /// Returns the arguments of the call.
    pub(crate) fn arguments(&self) -> &[Tensor] {
        &self.arguments
    }

    /// Returns the prepared call with different arguments, which must have the same shapes.
    pub(crate) fn with_arguments(self, arguments: Vec<Tensor>) -> Self {
        Self { arguments, ..self }
    }

    /// Returns true if a result shares memory with the argument at this index.
    pub(crate) fn is_alias(&self, argument: usize) -> bool {
        self.rets
            .iter()
            .any(|ret| matches!(ret, Ret::Alias(index) if *index == argument))
    }

    pub(crate) fn call(&self) -> xla_ffi_runtime::Call {
        let context = &self.context;
        let mut call = self
            .executable
            .call()
            .args(self.arguments.iter().cloned())
            .run_id(context.run_id)
            .device_ordinal(context.device_ordinal)
            .stages(context.stages)
            .time_limit(Some(context.limit));
        for ret in &self.rets {
            call = match ret {
                Ret::New(shape) => call.ret(shape.clone()),
                Ret::Alias(index) => call.ret_alias(*index),
            };
        }
        if !context.pool {
            call = call.without_thread_pool();
        }
        if context.scratch {
            call = call.allocator(Arc::new(HostAllocator::default()));
        }
        if let Some(options) = &context.options {
            call = call.custom_options(options);
        }
        call
    }

    pub(crate) fn run(self, device: &Opened, unwritten: Unwritten) -> Result<Vec<Tensor>> {
        let call = self.call().unwritten(unwritten);
        output::calls(format_args!("the handler"));
        match device.run(call) {
            Ok(outcome) => {
                let metadata = self.executable.handler().metadata();
                if metadata.is_some_and(Metadata::is_command_buffer_compatible) {
                    output::calls(format_args!("the handler"));
                    device.check_capture(self.call())?;
                }
                Ok(outcome.rets)
            }
            Err(error) if error.has(Hazard::UnwrittenResult) => {
                bail!("{error}; pass --allow-unwritten to accept the result")
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_result_has_a_name_of_its_own() {
        let names = ret_names(4, ["y", "y", "ret3"].map(str::to_owned).into_iter());
        assert_eq!(names, ["y", "y_", "ret3", "ret3_"]);
        assert_eq!(ret_names(2, [].into_iter()), ["ret0", "ret1"]);
    }

    #[test]
    fn cxx_names() {
        assert_eq!(mangled("State::id"), "_ZN5State2idE");
        assert_eq!(mangled("a::State::id"), "_ZN1a5State2idE");
        assert_eq!(mangled("state_id"), "state_id");
    }

    #[test]
    fn user_types() {
        let parsed = parse_type("S=State::id,info").unwrap();
        assert_eq!(
            (parsed.name.as_str(), parsed.id.as_str()),
            ("S", "_ZN5State2idE")
        );
        assert_eq!(parsed.info.as_deref(), Some("info"));
        for text in ["S", "=id", "S="] {
            assert!(parse_type(text).is_err());
        }
    }

    #[test]
    fn engines() {
        let of = |text: &[u8]| Engine::of(OsStr::from_bytes(text));
        assert_eq!(of(b"embedded"), Ok(Engine::Embedded));
        assert_eq!(of(b"pjrt:a:b.so"), Ok(Engine::Pjrt("a:b.so".into())));
        let odd = OsStr::from_bytes(b"a\xff.so");
        assert_eq!(of(b"pjrt:a\xff.so"), Ok(Engine::Pjrt(odd.into())));
        for text in ["", "pjrt", "pjrt:", "embedded:x", "jax"] {
            assert!(of(text.as_bytes()).is_err(), "{text}");
        }
    }
}
