//! `xla-ffi run LIB --replay`: recorded calls again, on the embedded runtime, and whether they give the same.

mod answer;
mod library;
mod plan;
mod pool;
mod value;

use crate::run::Args;
use crate::supervise;
use crate::target::{Chosen, HandlerName, Target};
use answer::{Answer, compare};
use anyhow::{Context, Result, anyhow, bail};
use plan::{Plan, Symbols, chosen, symbols};
use pool::{Pool, Threads};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use xla_ffi_record::{Call, Data, Outcome, Recorded};
use xla_ffi_runtime::{
    Code, Error, Executable, Executor, Handler, Library, Revision, Runtime, Stage, Stages,
};

/// Replays a file, or a folder of them in order, and tells of each whether it went as recorded.
pub(crate) fn run(args: &Args, from: &Path) -> Result<()> {
    let Plan {
        due,
        damaged,
        present,
        staged,
    } = chosen(from, &args.call.lib)?;
    let target = Target::read(&args.call.lib)?;
    let mut replay = Replay {
        args,
        // A runtime of another revision loads it anew, by then perhaps from another folder, into which a handler went.
        library: std::path::absolute(&args.call.lib)
            .with_context(|| crate::words::shown(&args.call.lib))?,
        target: &target,
        hosts: BTreeMap::new(),
        pools: BTreeMap::new(),
        instances: BTreeMap::new(),
        present,
        unmade: BTreeMap::new(),
        staged,
    };
    let (mut equal, mut differ, mut untold, mut failed) = (0, 0, 0, damaged.len());
    for error in damaged {
        crate::output::text(&format!("{}\n", crate::words::error_text(&error)))?;
    }
    for (entry, told) in due {
        crate::progress::at(format!("replaying {}", entry.path.display()));
        let recorded =
            Recorded::read(&entry.file).with_context(|| crate::words::shown(&entry.path));
        let replayed = recorded.and_then(|recorded| {
            let answer = replay.one(&recorded);
            let answer = answer.with_context(|| crate::words::shown(&entry.path))?;
            Ok((recorded, answer))
        });
        supervise::enters(format_args!("xla-ffi itself, between calls,"));
        // One file does not keep the others from being replayed.
        let (recorded, answer) = match replayed {
            Ok(replayed) if told => replayed,
            Ok(_) => continue,
            Err(error) => {
                failed += 1;
                replay.present.remove(&entry.call.number);
                crate::output::text(&format!("{}\n", crate::words::error_text(&error)))?;
                continue;
            }
        };
        let (count, word) = match &answer {
            Answer::Equal(_) => (&mut equal, "equal"),
            Answer::Differs(_) => (&mut differ, "DIFFERS"),
            Answer::Untold(_) => (&mut untold, "not compared"),
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
        "{} calls: {equal} equal, {differ} differ, {untold} not compared{of_files}\n",
        equal + differ + untold + failed
    ))?;
    for (_, runtime, _) in replay.hosts.values() {
        crate::run::check(runtime)?;
    }
    if differ > 0 {
        bail!("{differ} of the recorded calls came out differently");
    }
    if failed > 0 {
        bail!("{failed} of the recorded calls could not be replayed");
    }
    if equal == 0 {
        bail!("no call could be compared");
    }
    Ok(())
}

/// A runtime, the library in it, and its handlers as far as they are known.
type Host = (Library, Runtime, BTreeMap<Symbols, Handler>);

/// What recorded calls are replayed with.
struct Replay<'a> {
    args: &'a Args,
    /// Its file, from every folder.
    library: PathBuf,
    target: &'a Target,
    /// A runtime for each revision, the library in it, and its handlers.
    hosts: BTreeMap<u8, Host>,
    /// The thread pools of executions, by their size. An instantiation has none, and does not say how large that of the
    /// executions is which use what it leaves.
    pools: BTreeMap<usize, Arc<Pool>>,
    /// What instantiations have left, by the number of the call.
    instances: BTreeMap<u64, Executable>,
    /// The numbers of the calls whose files are there and can be read.
    present: BTreeSet<u64>,
    /// The calls that are not made again, since what they had was not kept, and whose state they used.
    unmade: BTreeMap<u64, Option<u64>>,
    /// The handlers whose host ran the stages before execute.
    staged: BTreeSet<Symbols>,
}

impl<'a> Replay<'a> {
    fn one(&mut self, recorded: &Recorded) -> Result<Answer> {
        let call = &recorded.call;
        if let Some(why) = unknown(call) {
            let used = recorded.state.and_then(|state| state.instance);
            self.unmade.insert(call.number, used);
            return Ok(Answer::Untold(why));
        }
        let stage = Stage::from_name(&call.stage)
            .ok_or_else(|| anyhow!("it is of the stage '{}', which there is not", call.stage))?;
        if !matches!(stage, Stage::Instantiate | Stage::Execute) {
            return Ok(Answer::Untold(format!(
                "{stage} runs with the execution that follows"
            )));
        }
        let handler = self.handler(call)?;
        supervise::enters(format_args!("{}", call.title()));
        let attributes = value::attributes(&call.attributes)?;
        if handler.bundle().get(stage).is_none() {
            return Ok(Answer::Differs(format!(
                "handler '{}' has no stage {stage}",
                call.handler
            )));
        }
        let title = call.title();
        if stage == Stage::Instantiate {
            supervise::calls(format_args!("{title}"));
            // Whatever the host was: it passed them.
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
        supervise::calls(format_args!("{title}"));
        let came = made.run();
        // Large results are not compared in the call's own time.
        supervise::enters(format_args!("{title}"));
        let answer = match came {
            Err(error) if is_ours(&error) => return Err(error.into()),
            Ok(outcome) => compare(recorded, Ok(&outcome.rets)),
            Err(error) => compare(recorded, Err(&error)),
        };
        match (answer, recorded.state, instance) {
            (Answer::Differs(why), Some(_), None) => Ok(Answer::Untold(format!(
                "{why}; but its state is from before the recording, and was made anew"
            ))),
            (Answer::Differs(why), Some(_), Some(instance)) => {
                let of_it = |(_, used): &(&u64, &Option<u64>)| **used == Some(instance);
                if let Some((number, _)) = self.unmade.iter().find(of_it) {
                    return Ok(Answer::Untold(format!(
                        "{why}; but call {number}, which may have changed its state, was not made again: what it had was \
                         not kept"
                    )));
                }
                // Any of the calls since then may be one of this state.
                let lost = (instance..call.number).find(|number| !self.present.contains(number));
                Ok(match lost {
                    None => Answer::Differs(why),
                    Some(number) => Answer::Untold(format!(
                        "{why}; but the file of call {number}, which may have left or changed its state, is not there, or damaged"
                    )),
                })
            }
            (answer, ..) => Ok(answer),
        }
    }

    fn call(
        &mut self,
        recorded: &Recorded,
        executable: &Executable,
    ) -> Result<xla_ffi_runtime::Call> {
        let call = &recorded.call;
        let context = &call.context;
        let mut replayed = executable
            .call()
            .args(value::tensors(&call.args, &recorded.args)?)
            .run_id(context.run_id.unwrap_or(0))
            .device_ordinal(context.device_ordinal.unwrap_or(0))
            // XLA runs the others on devices that are no CPU: a handler may have them and the recorded host not call them.
            .stages(if self.staged.contains(&symbols(call)) {
                Stages::All
            } else {
                Stages::Cpu
            })
            .time_limit(Some(Duration::from_secs(self.args.call.time_limit)))
            .unwritten(self.args.unwritten());
        replayed = match self.threads(call) {
            Threads::None => replayed.without_thread_pool(),
            Threads::Untold => replayed,
            Threads::Some(threads) => {
                let pool = self.pools.entry(threads);
                let pool: Arc<dyn Executor> =
                    pool.or_insert_with(|| Arc::new(Pool::new(threads))).clone();
                replayed.executor(pool)
            }
        };
        if let Some(options) = &context.custom_options {
            replayed = replayed.custom_options(&value::attributes(options)?);
        }
        for ret in &call.rets {
            let shape = value::shape(ret)?;
            replayed = match ret.alias {
                Some(arg) if value::shape(&call.args[arg])? == shape => replayed.ret_alias(arg),
                _ => replayed.ret(shape),
            };
        }
        Ok(replayed)
    }

    /// The threads that a call has.
    fn threads(&self, call: &Call) -> Threads {
        match (self.args.call.threads, call.context.threads) {
            (Some(0), _) => Threads::None,
            (Some(threads), _) => Threads::Some(threads.into()),
            (None, Some(threads)) => Threads::Some(usize::try_from(threads).unwrap_or(0)),
            // A host that can say how many there are, and did not, has none.
            (None, None) if call.revision >= Revision::R3 as u8 => Threads::None,
            (None, None) => Threads::Untold,
        }
    }

    /// The handler of a call, in a runtime like the recorded host.
    fn handler(&mut self, call: &Call) -> Result<Handler> {
        let recorded = Revision::ALL.get(usize::from(call.revision)).copied();
        let revision = self.args.call.revision.or(recorded);
        let revision =
            revision.ok_or_else(|| anyhow!("it is of r{}, which is not known", call.revision))?;
        let key = revision as u8;
        if !self.hosts.contains_key(&key) {
            let runtime = Runtime::new(revision);
            supervise::enters(format_args!("the library, while it was loaded,"));
            let library = runtime.open(&self.library)?;
            for user_type in &self.args.call.types {
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
        supervise::enters(format_args!("handler {}", call.handler));
        let handler = chosen.load(library)?;
        handlers.insert(symbols, handler.clone());
        Ok(handler)
    }

    /// By its recorded symbols, unless the command line names another.
    fn chosen(&self, call: &Call) -> Result<Chosen<'a>> {
        if let Some(name) = &self.args.call.handler {
            return self.target.choose(Some(name));
        }
        let stages = call.stages.iter().filter_map(|(stage, symbol)| {
            Stage::from_name(stage).map(|stage| (stage, symbol.clone()))
        });
        self.target
            .choose(Some(&HandlerName::Stages(stages.collect())))
    }
}

/// Whether the runtime itself had not enough of something for a call, which says nothing of the handler. What else it refuses
/// the handler has done.
fn is_ours(error: &Error) -> bool {
    let short = matches!(
        error.code(),
        Code::ResourceExhausted | Code::DeadlineExceeded
    );
    short && !error.is_from_handler()
}

/// Why a call cannot be made again.
fn unknown(call: &Call) -> Option<String> {
    for (what, operands) in [("argument", &call.args), ("result", &call.rets)] {
        for (index, operand) in operands.iter().enumerate() {
            let why = match operand.data {
                Data::Kept(_) => continue,
                Data::Limit if what == "result" => continue,
                Data::Limit => "was left out, since the recording had reached its limit",
                Data::Untyped => "has no element type: its host did not name it",
                Data::Absent => "had no address",
            };
            return Some(format!("{what} {index} {why}"));
        }
    }
    None
}

/// How the recorded call ended, where there is nothing to compare with.
fn nothing_recorded(recorded: &Recorded) -> Option<&'static str> {
    match recorded.end.as_ref().map(|end| &end.outcome) {
        None => Some(
            "the recorded call never ended: its process did, or it was under way when the recording ended, or the disk \
             was full",
        ),
        Some(Outcome::Unwound) => Some("an exception or a panic left the recorded call"),
        Some(Outcome::Unwatched) => Some("how the recorded call ended could not be watched"),
        Some(_) => None,
    }
}
