//! Makes metadata calls of handlers in child processes, so that a crash or hang in a library becomes a finding.

use crate::call::UserType;
use crate::child_process::{self, TimedOut};
use crate::output;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use xla_ffi_doctor::{Answer, Candidate, Finding, Outcome, Problem, Subject};
use xla_ffi_runtime::{Attributes, Handler, Hazard, Revision, Runtime, Stage};

/// The default time limit for loading a library, and for each metadata call.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// A library whose handlers are examined by metadata calls, with the settings for these calls.
pub(crate) struct Asking<'a> {
    /// The path of the library.
    pub(crate) path: &'a Path,
    /// The time limit for loading the library, and for each metadata call.
    pub(crate) limit: Duration,
    /// The revisions of the jaxlibs that the user chose. Only crashes on these revisions become findings.
    pub(crate) wanted: &'a [Revision],
    /// User types that are registered before the handlers are loaded.
    pub(crate) types: &'a [&'a UserType],
}

impl Asking<'_> {
    /// Loads the library in a child process. Returns a finding if loading fails.
    pub(crate) fn loading(&self) -> Option<Finding> {
        let Self { path, limit, .. } = *self;
        let why = match answer(limit, path, &Question::Load) {
            Ok(said) => said.as_str()?.to_owned(),
            Err(error) if error.is::<TimedOut>() => return Some(too_slow(&error)),
            Err(error) => crate::output::error_text(&error),
        };
        let finding = Finding::failure(
            Problem::DoesNotLoad,
            "the library does not load on this machine",
            why,
        );
        Some(finding.about(Subject::Machine))
    }

    /// Makes the metadata calls of every handler of the library. Failures to load the library and crashes of handlers
    /// become findings.
    pub(crate) fn all(&self, candidates: &mut [Candidate], findings: &mut Vec<Finding>) {
        if let Some(finding) = self.loading() {
            skip_all(candidates, &finding.what);
            findings.push(finding);
            return;
        }
        for candidate in candidates {
            self.one(candidate);
            let mut broke: Vec<(&str, Vec<&str>)> = Vec::new();
            for answer in &candidate.answers {
                let wanted = self
                    .wanted
                    .iter()
                    .any(|wanted| wanted.name() == answer.revision);
                if let Outcome::Broke { how, .. } = &answer.outcome {
                    if wanted {
                        // A handler usually fails in the same way on several revisions, with texts that differ only in
                        // the revision's name.
                        let same = |known: &str, on: &[&str]| {
                            known.replace(on[0], "rN") == how.replace(answer.revision, "rN")
                        };
                        match broke.iter_mut().find(|(known, on)| same(known, on)) {
                            Some((_, revisions)) => revisions.push(answer.revision),
                            None => broke.push((how, vec![answer.revision])),
                        }
                    }
                }
            }
            for (how, revisions) in broke {
                findings.push(
                    Finding::failure(
                        Problem::Breaks,
                        "crashes or hangs in the metadata call",
                        format!("metadata call of {}: {how}", revisions.join(", ")),
                    )
                    .about_handler(&candidate.name),
                );
            }
        }
    }

    /// Makes the metadata calls of a handler on each revision from r1 on. The first revision in `wanted` is called
    /// first. After a timeout, no further calls are made.
    pub(crate) fn one(&self, candidate: &mut Candidate) {
        let Self { limit, types, .. } = *self;
        let first = self.wanted.first().copied();
        let stages: Vec<(Stage, &str)> = candidate
            .stages
            .iter()
            .filter_map(|(stage, symbol)| Some((Stage::from_name(stage)?, symbol.as_str())))
            .collect();
        // Runtimes of r0 make no metadata call, so r0 is omitted.
        let mut revisions = Revision::ALL[1..].to_vec();
        revisions.sort_by_key(|revision| Some(*revision) != first);
        let mut answers = Vec::new();
        for (at, revision) in revisions.iter().enumerate() {
            let start = Instant::now();
            let outcome = match self.answer(*revision, candidate, &stages, false) {
                Ok(said) => {
                    let outcome = outcome(&said);
                    self.with_state(outcome, *revision, candidate, &stages)
                }
                Err(error) => Outcome::Broke {
                    overran: false,
                    how: crate::output::error_text(&error),
                },
            };
            let hung = matches!(outcome, Outcome::Broke { .. }) && start.elapsed() >= limit;
            answers.push(Answer {
                revision: revision.name(),
                outcome,
            });
            if hung {
                let why = format!("the metadata call of {revision} reached the time limit");
                answers.extend(skipped(&revisions[at + 1..], &why));
                break;
            }
        }
        candidate.has_types |= !types.is_empty();
        answers.sort_by_key(|answer| Revision::from_name(answer.revision));
        candidate.answers = answers;
    }

    fn answer(
        &self,
        revision: Revision,
        candidate: &Candidate,
        stages: &[(Stage, &str)],
        state: bool,
    ) -> anyhow::Result<Value> {
        let stages = stages.iter();
        let question = Question::Handler {
            revision: revision.name().to_owned(),
            name: candidate.name.clone(),
            stages: stages
                .map(|(stage, symbol)| (stage.name().to_owned(), (*symbol).to_owned()))
                .collect(),
            types: self.types.iter().map(|ty| (*ty).clone()).collect(),
            state,
        };
        answer(self.limit, self.path, &question)
    }

    /// Runs the instantiate stage of an accepted handler. Adds a description to the outcome if the runtime misreads the
    /// stage's state. The stage runs without attributes, so other errors are ignored.
    fn with_state(
        &self,
        outcome: Outcome,
        revision: Revision,
        candidate: &Candidate,
        stages: &[(Stage, &str)],
    ) -> Outcome {
        let Outcome::Accepted {
            version,
            traits,
            has_state_type,
            ..
        } = outcome
        else {
            return outcome;
        };
        let makes_state = stages.iter().any(|(stage, _)| *stage == Stage::Instantiate);
        let misread = (makes_state && candidate.floor.is_none())
            .then(|| {
                let said = self.answer(revision, candidate, stages, true).ok()?;
                said.as_str().map(str::to_owned)
            })
            .flatten();
        Outcome::Accepted {
            version,
            traits,
            has_state_type,
            misread,
        }
    }
}

/// A request to a child process, whose answer is JSON.
#[derive(Serialize, Deserialize)]
enum Question {
    /// A request to load the library. The answer is null, or the reason why loading failed.
    Load,
    /// A request to make a metadata call. If `state` is true, the request is to run the instantiate stage. The answer
    /// is then null, or a description of how the runtime misreads the stage's state.
    Handler {
        revision: String,
        name: String,
        stages: Vec<(String, String)>,
        types: Vec<UserType>,
        state: bool,
    },
}

/// Command line of the child process.
#[derive(clap::Args)]
pub(crate) struct Args {
    lib: PathBuf,
    question: String,
    #[arg(long)]
    supervised: i32,
}

/// Runs in the child process: reads the request, and sends the answer to the parent process.
pub(crate) fn child(args: &Args) -> ExitCode {
    child_process::child(args.supervised, || {
        output::calls(format_args!("the library"));
        let said = match serde_json::from_str(&args.question)? {
            Question::Load => {
                let error = Runtime::new(Revision::NEWEST).open(&args.lib).err();
                json!(error.map(|error| error.to_string()))
            }
            Question::Handler {
                revision,
                name,
                stages,
                types,
                state,
            } => {
                let revision = Revision::from_name(&revision).unwrap_or(Revision::NEWEST);
                let stages = stages.iter();
                let stages: Vec<_> = stages
                    .filter_map(|(stage, symbol)| Some((Stage::from_name(stage)?, symbol.as_str())))
                    .collect();
                match state {
                    true => misread(&args.lib, revision, &name, &stages, &types),
                    false => ask(&args.lib, revision, &name, &stages, &types),
                }
            }
        };
        crate::output::json(&said)
    })
}

/// Sends a request to a new child process, and returns its answer.
fn answer(limit: Duration, path: &Path, question: &Question) -> anyhow::Result<Value> {
    let question = serde_json::to_string(question)?;
    let arguments: [OsString; 3] = ["ask".into(), path.into(), question.into()];
    Ok(child_process::ask(limit, arguments.into())?.unwrap_or_default())
}

/// Returns a finding that the library was not run, so that neither loading nor the handlers' answers were checked.
pub(crate) fn not_run(why: String) -> Finding {
    let what = "loading and the handlers' answers were not examined";
    Finding::unknown(Problem::NotRun, what, why)
}

/// Returns a finding that loading the library reached the time limit. The timeout does not prove that the library fails
/// to load.
pub(crate) fn too_slow(error: &anyhow::Error) -> Finding {
    let what = "the library does not load on this machine within the time limit";
    let why = crate::output::error_text(error);
    let finding = Finding::risk(Problem::DoesNotLoad, what, why).about(Subject::Machine);
    finding.fix("raise --time-limit")
}

/// Returns true if no finding reports that the library was not run.
pub(crate) fn has_run(findings: &[Finding]) -> bool {
    findings
        .iter()
        .all(|finding| finding.problem != Problem::NotRun)
}

/// Returns the finding that prevents the library from loading; `None` if there is none.
pub(crate) fn broken(findings: &[Finding]) -> Option<&Finding> {
    let broken = findings
        .iter()
        .filter(|finding| finding.keeps_library_from_loading());
    broken.min_by_key(|finding| &finding.subject)
}

/// Records for every handler the reason why no metadata calls were made.
pub(crate) fn skip_all(candidates: &mut [Candidate], why: &str) {
    for candidate in candidates {
        candidate.answers = skipped(&Revision::ALL[1..], why);
    }
}

fn skipped(revisions: &[Revision], why: &str) -> Vec<Answer> {
    revisions
        .iter()
        .map(|revision| Answer {
            revision: revision.name(),
            outcome: Outcome::Skipped {
                why: why.to_owned(),
            },
        })
        .collect()
}

/// Runs in the child process: loads the library, registers the user types and loads the handler.
fn open(
    path: &Path,
    revision: Revision,
    name: &str,
    stages: &[(Stage, &str)],
    types: &[UserType],
) -> xla_ffi_runtime::Result<Handler> {
    let library = Runtime::new(revision).open(path)?;
    for user_type in types {
        // Types of r6 and older have only an id and no `TypeInfo`, because each state has its own deleter.
        let info = user_type
            .info
            .as_deref()
            .filter(|_| revision > Revision::R6);
        library.register_type(&user_type.name, &user_type.id, info)?;
    }
    library.handler(name, stages)
}

/// Runs in the child process: runs the instantiate stage. Returns a description if the runtime misreads the stage's
/// state; otherwise returns null.
fn misread(
    path: &Path,
    revision: Revision,
    name: &str,
    stages: &[(Stage, &str)],
    types: &[UserType],
) -> Value {
    let made = open(path, revision, name, stages, types)
        .and_then(|handler| handler.instantiate(&Attributes::default()));
    match made {
        Err(error) if error.has(Hazard::StateLayout) => json!(error.to_string()),
        _ => Value::Null,
    }
}

/// Runs in the child process: makes a metadata call, and returns the outcome as JSON.
fn ask(
    path: &Path,
    revision: Revision,
    name: &str,
    stages: &[(Stage, &str)],
    types: &[UserType],
) -> Value {
    match open(path, revision, name, stages, types) {
        Ok(handler) => match handler.metadata() {
            Some(metadata) => json!({
                "major": metadata.version.0,
                "minor": metadata.version.1,
                "traits": metadata.traits.bits(),
                "state": metadata.state_type_id != 0,
            }),
            None => json!({ "refused": "no metadata call was made" }),
        },
        Err(error) => {
            let broke = [
                Hazard::Unwound,
                Hazard::FrameOverrun,
                Hazard::MetadataOverrun,
            ]
            .into_iter()
            .any(|hazard| error.has(hazard));
            if broke {
                json!({
                    "broke": error.to_string(),
                    "overran": error.has(Hazard::MetadataOverrun),
                })
            } else {
                json!({ "refused": error.to_string() })
            }
        }
    }
}

/// Converts the JSON answer of a child process to the outcome of a metadata call.
pub(crate) fn outcome(value: &Value) -> Outcome {
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    let number = |key: &str| value[key].as_i64().unwrap_or(0) as i32;
    if let Some(why) = text("refused") {
        return Outcome::Refused { why };
    }
    if let Some(how) = text("broke") {
        let overran = value["overran"] == true;
        return Outcome::Broke { overran, how };
    }
    Outcome::Accepted {
        version: (number("major"), number("minor")),
        traits: value["traits"].as_u64().unwrap_or(0) as u32,
        has_state_type: value["state"] == true,
        misread: None,
    }
}
