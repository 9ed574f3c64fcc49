//! `xla-ffi run LIB --replay`: repeats recorded calls on the embedded runtime and compares the results.

mod compare;
mod plan;

use crate::call::{CallArgs, check};
use crate::output;
use crate::target::{Chosen, HandlerName, Target};
use anyhow::{Context, Result, anyhow, bail};
use compare::{Answer, compare};
use plan::{Plan, Symbols, chosen, symbols};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use xla_ffi_record::{Call, Data, Operand, Recorded, Value};
use xla_ffi_runtime::{
    Attribute, AttributeArray, Attributes, DType, Error, ErrorCode, Executable, Executor, Handler,
    Library, Revision, Runtime, Shape, Stage, Stages, Tensor, Unwritten,
};

/// Replays a recorded call, or all recorded calls of a folder in order. Prints whether the results are equal to the
/// recorded results.
pub(crate) fn run(args: &CallArgs, unwritten: Unwritten, from: &Path) -> Result<()> {
    let Plan {
        due,
        damaged,
        incomplete,
        staged,
    } = chosen(from, &args.lib)?;
    let target = Target::read(&args.lib)?;
    let mut replay = Replay {
        args,
        unwritten,
        target: &target,
        hosts: BTreeMap::new(),
        instances: BTreeMap::new(),
        incomplete,
        staged,
    };
    let (mut equal, mut differ, mut not_compared, mut failed) = (0, 0, 0, damaged.len());
    for error in damaged {
        crate::output::text(&format!("{}\n", crate::output::error_text(&error)))?;
    }
    for (entry, reported) in due {
        let recorded =
            Recorded::read(&entry.path).with_context(|| entry.path.display().to_string());
        let replayed = recorded.and_then(|recorded| {
            let answer = replay.one(&recorded);
            let answer = answer.with_context(|| entry.path.display().to_string())?;
            Ok((recorded, answer))
        });
        output::enters(format_args!("xla-ffi itself, between calls,"));
        // If one file fails, the other files are still replayed.
        let (recorded, answer) = match replayed {
            Ok(replayed) if reported => replayed,
            Ok(_) => continue,
            Err(error) => {
                failed += 1;
                replay.incomplete = true;
                crate::output::text(&format!("{}\n", crate::output::error_text(&error)))?;
                continue;
            }
        };
        let (count, word) = match &answer {
            Answer::Equal(_) => (&mut equal, "equal"),
            Answer::Differs(_) => (&mut differ, "differs"),
            Answer::NotCompared(_) => (&mut not_compared, "not compared"),
        };
        *count += 1;
        let title = recorded.call.title();
        crate::output::text(&format!("{title}: {word}, {}\n", answer.why()))?;
    }
    let of_files = match failed {
        0 => String::new(),
        failed => format!(", {failed} not replayed"),
    };
    crate::output::text(&format!(
        "{} calls: {equal} equal, {differ} differ, {not_compared} not compared{of_files}\n",
        equal + differ + not_compared + failed
    ))?;
    for (_, runtime, _) in replay.hosts.values() {
        check(runtime)?;
    }
    if differ > 0 {
        bail!("{differ} recorded calls gave different results");
    }
    if failed > 0 {
        bail!("{failed} recorded calls could not be replayed");
    }
    if equal == 0 {
        bail!("no recorded call could be compared");
    }
    Ok(())
}

/// The library, the runtime that loaded the library, and the loaded handlers.
type Host = (Library, Runtime, BTreeMap<Symbols, Handler>);

/// The state of a replay, shared by all of its calls.
struct Replay<'a> {
    args: &'a CallArgs,
    unwritten: Unwritten,
    target: &'a Target,
    /// For each revision, a runtime with the library and its handlers.
    hosts: BTreeMap<u8, Host>,
    /// Handlers that were instantiated, by the number of the recorded instantiate call.
    instances: BTreeMap<u64, Executable>,
    /// Whether the replay omitted a call that may have changed a state.
    incomplete: bool,
    /// The handlers whose prepare or initialize stage is in the recording.
    staged: BTreeSet<Symbols>,
}

impl<'a> Replay<'a> {
    fn one(&mut self, recorded: &Recorded) -> Result<Answer> {
        let call = &recorded.call;
        if let Some(why) = unknown(call) {
            self.incomplete = true;
            return Ok(Answer::NotCompared(why));
        }
        let stage = Stage::from_name(&call.stage)
            .ok_or_else(|| anyhow!("its stage '{}' is unknown", call.stage))?;
        if !matches!(stage, Stage::Instantiate | Stage::Execute) {
            return Ok(Answer::NotCompared(format!(
                "{stage} is repeated with the next execution"
            )));
        }
        let handler = self.handler(call)?;
        output::enters(format_args!("{}", call.title()));
        let attributes = recorded_attributes(&call.attributes)?;
        if handler.bundle().get(stage).is_none() {
            return Ok(Answer::Differs(format!(
                "handler '{}' has no stage {stage}",
                call.handler
            )));
        }
        let title = call.title();
        if stage == Stage::Instantiate {
            output::calls(format_args!("{title}"));
            // The recorded host accepted these attributes, so attributes that the manifest does not declare are also
            // allowed.
            return Ok(match handler.instantiate_any(&attributes) {
                Ok(executable) => {
                    self.instances.insert(call.number, executable);
                    compare(recorded, Ok(&[]))
                }
                Err(error) => compare(recorded, Err(&error)),
            });
        }
        let instance = recorded.state.and_then(|state| state.instance);
        let known = instance.and_then(|number| self.instances.get(&number).cloned());
        let executable = match known {
            Some(executable) => executable,
            None => handler.instantiate_any(&attributes)?,
        };
        let made = self.call(recorded, &executable)?;
        output::calls(format_args!("{title}"));
        let outcome = made.run();
        // The time limit applies to the call, but not to the comparison of its results.
        output::enters(format_args!("{title}"));
        let answer = match outcome {
            Err(error) if is_ours(&error) => return Err(error.into()),
            Ok(outcome) => compare(recorded, Ok(&outcome.rets)),
            Err(error) => compare(recorded, Err(&error)),
        };
        match (answer, recorded.state, instance) {
            (Answer::Differs(why), Some(_), None) => Ok(Answer::NotCompared(format!(
                "{why}; but its state was created before the recording and could not be restored"
            ))),
            (Answer::Differs(why), Some(_), Some(_)) if self.incomplete => {
                Ok(Answer::NotCompared(format!(
                    "{why}; but an earlier call that may have changed its state was not repeated"
                )))
            }
            (answer, ..) => Ok(answer),
        }
    }

    fn call(&self, recorded: &Recorded, executable: &Executable) -> Result<xla_ffi_runtime::Call> {
        let call = &recorded.call;
        let context = &call.context;
        let mut replayed = executable
            .call()
            .args(operand_tensors(&call.args, &recorded.args)?)
            .run_id(context.run_id.unwrap_or(0))
            .device_ordinal(context.device_ordinal.unwrap_or(0))
            // XLA does not run the prepare and initialize stages on CPU, so they run only if they were recorded.
            .stages(if self.staged.contains(&symbols(call)) {
                Stages::All
            } else {
                Stages::Cpu
            })
            .time_limit(Some(Duration::from_secs(self.args.time_limit)))
            .unwritten(self.unwritten);
        let recorded = context.threads.map(|threads| threads as usize);
        let threads = self.args.threads.map(usize::from).or(recorded);
        replayed = match threads {
            Some(0) => replayed.without_thread_pool(),
            Some(threads) => {
                let pool: Arc<dyn Executor> = Arc::new(Pool(threads));
                replayed.executor(pool)
            }
            // From r3 on, hosts report the size of their thread pool. A recording without a size is from a host without
            // a thread pool.
            None if call.revision >= Revision::R3 as u8 => replayed.without_thread_pool(),
            None => replayed,
        };
        if let Some(options) = &context.custom_options {
            replayed = replayed.custom_options(&recorded_attributes(options)?);
        }
        for ret in &call.rets {
            let shape = operand_shape(ret)?;
            replayed = match ret.alias {
                Some(arg) if operand_shape(&call.args[arg])? == shape => replayed.ret_alias(arg),
                _ => replayed.ret(shape),
            };
        }
        Ok(replayed)
    }

    /// Returns the handler of a recorded call, loaded in a runtime of the recorded revision.
    fn handler(&mut self, call: &Call) -> Result<Handler> {
        let recorded = Revision::ALL.get(usize::from(call.revision)).copied();
        let revision = self.args.revision.or(recorded);
        let revision =
            revision.ok_or_else(|| anyhow!("its revision r{} is unknown", call.revision))?;
        let key = revision as u8;
        if !self.hosts.contains_key(&key) {
            let runtime = Runtime::new(revision);
            output::enters(format_args!("the library, while it was loaded,"));
            let library = runtime.open(&self.args.lib)?;
            for user_type in &self.args.types {
                library.register_type(&user_type.name, &user_type.id, user_type.info.as_deref())?;
            }
            self.hosts.insert(key, (library, runtime, BTreeMap::new()));
        }
        let chosen = self.chosen(call)?;
        let (library, _, handlers) = self.hosts.get_mut(&key).context("the host made above")?;
        let symbols = symbols(call);
        if let Some(handler) = handlers.get(&symbols) {
            return Ok(handler.clone());
        }
        output::enters(format_args!("handler {}", call.handler));
        let handler = chosen.load(library)?;
        handlers.insert(symbols, handler.clone());
        Ok(handler)
    }

    /// Returns the handler that `--handler` names, or the handler with the recorded symbols.
    fn chosen(&self, call: &Call) -> Result<Chosen<'a>> {
        if let Some(name) = &self.args.handler {
            return self.target.choose(Some(name));
        }
        let stages = call.stages.iter().filter_map(|(stage, symbol)| {
            Stage::from_name(stage).map(|stage| (stage, symbol.clone()))
        });
        self.target
            .choose(Some(&HandlerName::Stages(stages.collect())))
    }
}

/// A thread pool that reports the size of the recorded host's thread pool to handlers.
struct Pool(usize);

impl Executor for Pool {
    fn execute(&self, task: Box<dyn FnOnce() + Send>) {
        std::thread::spawn(task);
    }

    fn num_threads(&self) -> usize {
        self.0
    }
}

/// Returns true if the runtime ran out of memory or time. Such an error is not an error of the handler.
fn is_ours(error: &Error) -> bool {
    let short = matches!(
        error.code(),
        ErrorCode::ResourceExhausted | ErrorCode::DeadlineExceeded
    );
    short && !error.is_from_handler()
}

/// Returns the reason why a recorded call cannot be repeated; `None` if the call can be repeated.
fn unknown(call: &Call) -> Option<String> {
    for (what, operands) in [("argument", &call.args), ("result", &call.rets)] {
        for (index, operand) in operands.iter().enumerate() {
            let why = match operand.data {
                Data::Kept(_) => continue,
                Data::Limit if what == "result" => continue,
                Data::Limit => "was not recorded, because the recording reached its size limit",
                Data::Untyped => "has no element type in the recording",
                Data::Absent => "had no address",
            };
            return Some(format!("{what} {index} {why}"));
        }
    }
    None
}

fn dtype(number: u32) -> Result<DType> {
    DType::all()
        .find(|dtype| dtype.raw().0 == number)
        .ok_or_else(|| anyhow!("unknown element type {number}"))
}

/// Returns the shape of a recorded operand.
pub(super) fn operand_shape(operand: &Operand) -> Result<Shape> {
    Ok(Shape::new(dtype(operand.dtype)?, operand.dims.clone())?)
}

/// Creates arrays with the recorded bytes of the arguments.
pub(super) fn operand_tensors(
    operands: &[Operand],
    bytes: &[Option<Vec<u8>>],
) -> Result<Vec<Tensor>> {
    let tensor = |(index, (operand, bytes)): (usize, (&Operand, &Option<Vec<u8>>))| {
        let bytes = bytes
            .as_ref()
            .context("the bytes are missing in the recording")?;
        let tensor = Tensor::from_bytes(operand_shape(operand)?, bytes);
        tensor.with_context(|| format!("argument {index}"))
    };
    operands.iter().zip(bytes).enumerate().map(tensor).collect()
}

/// Converts recorded attributes to attributes of the runtime.
pub(super) fn recorded_attributes(recorded: &xla_ffi_record::Attributes) -> Result<Attributes> {
    let mut attributes = Attributes::new();
    for (name, value) in recorded {
        let value = recorded_attribute(value).with_context(|| format!("attribute '{name}'"))?;
        attributes.insert(name.clone(), value)?;
    }
    Ok(attributes)
}

fn recorded_attribute(value: &Value) -> Result<Attribute> {
    Ok(match value {
        Value::Scalar { dtype: of, bytes } => {
            let of = dtype(*of)?;
            let mut bits = [0; 16];
            match bits.get_mut(..bytes.len()) {
                Some(place) if of.bytes_for(1) == Some(bytes.len()) => place.copy_from_slice(bytes),
                _ => bail!(
                    "a value of type {of} has {} bytes in the recording",
                    bytes.len()
                ),
            }
            Attribute::Scalar(of, u128::from_le_bytes(bits))
        }
        Value::Array {
            dtype: of,
            size,
            bytes,
        } => Attribute::Array(AttributeArray::new(dtype(*of)?, *size, bytes.clone())?),
        Value::Text(text) => Attribute::Str(text.clone().into_bytes()),
        Value::Bytes(bytes) => Attribute::Str(bytes.clone()),
        Value::Dictionary(inner) => Attribute::Dict(recorded_attributes(inner)?),
        Value::Unknown(kind) => bail!("attributes of kind {kind} cannot be recorded"),
    })
}
