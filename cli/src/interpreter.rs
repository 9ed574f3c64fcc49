//! Makes the metadata calls of libraries that use Python's C API, in a Python interpreter as a child process.
//!
//! An extension module publishes its handlers as capsules. Capsules are attributes of the module, or results of the
//! module's functions without parameters.

use crate::child_process::{self, TimedOut};
use crate::output::error_text;
use crate::probe;
use serde::Deserialize;
use serde_json::{Value, json};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use xla_ffi_doctor::wheel::Name;
use xla_ffi_doctor::{Answer, Candidate, Examination, Finding, Outcome, Problem, Subject};
use xla_ffi_runtime::{Revision, metadata};

/// The Python program that the child process runs.
const PROGRAM: &str = include_str!("interpreter.py");
/// A Python program that prints the interpreter's version, and the suffixes of modules that it can import.
const DESCRIBE: &str = "import importlib.machinery, json, sys
print(json.dumps({'version': sys.version_info[:2], 'suffixes': importlib.machinery.EXTENSION_SUFFIXES}))";
/// A Python program that prints the first project in a list of projects that is not installed.
const LACKS: &str = "import importlib.metadata, sys
sys.path[:0] = sys.argv[1].split('\\n')
for project in sys.argv[2:]:
    try: importlib.metadata.version(project)
    except importlib.metadata.PackageNotFoundError: sys.exit(print(project))";
/// The newest minor version of Python 3 whose interpreter is searched on PATH.
const NEWEST: u32 = 20;

/// A Python interpreter on this machine.
#[derive(Deserialize)]
struct Interpreter {
    #[serde(skip)]
    program: PathBuf,
    version: [u32; 2],
    suffixes: Vec<String>,
}

impl Interpreter {
    fn of(program: PathBuf) -> Option<Self> {
        let mut command = Command::new(&program);
        let output = command
            .args(["-c", DESCRIBE])
            .stderr(Stdio::null())
            .output();
        let found: Self = serde_json::from_slice(&output.ok()?.stdout).ok()?;
        Some(Self { program, ..found })
    }

    /// Returns the first project in `projects` that is not installed for the interpreter; `None` if all are installed.
    fn lacks(&self, site_packages: &[PathBuf], projects: &[&str]) -> Option<String> {
        let folders: Vec<String> = site_packages
            .iter()
            .map(|folder| folder.display().to_string())
            .collect();
        let mut command = Command::new(&self.program);
        command
            .args(["-c", LACKS])
            .arg(folders.join("\n"))
            .args(projects);
        let output = command.stderr(Stdio::null()).output().ok()?;
        let lacks = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        (!lacks.is_empty()).then_some(lacks)
    }
}

/// The unpacked files and the requirements of a wheel.
pub(crate) struct Unpacked<'a> {
    pub(crate) root: &'a Path,
    pub(crate) name: &'a Name,
    pub(crate) requires: Vec<&'a str>,
}

/// The Python interpreters that may be used, and the folders from which they import packages.
pub(crate) struct Interpreters {
    /// The interpreters on the command line or on PATH. Each interpreter is started when it is first needed.
    programs: Vec<(PathBuf, OnceCell<Option<Interpreter>>)>,
    site_packages: Vec<PathBuf>,
    limit: Duration,
}

impl Interpreters {
    pub(crate) fn new(given: &[PathBuf], site_packages: &[PathBuf], limit: Duration) -> Self {
        let named = (0..=NEWEST).rev().map(|minor| format!("python3.{minor}"));
        let named = ["python3".to_owned(), "python".to_owned()]
            .into_iter()
            .chain(named);
        let programs: Vec<PathBuf> = match given {
            [] => named.map(PathBuf::from).collect(),
            some => some.to_vec(),
        };
        Self {
            programs: programs
                .into_iter()
                .map(|program| (program, OnceCell::new()))
                .collect(),
            site_packages: site_packages.to_vec(),
            limit,
        }
    }

    /// Returns the first interpreter that can import modules with the file suffix `suffix`. If a wheel is given, the
    /// interpreter must be able to install the wheel.
    fn fitting(&self, suffix: &str, wheel: Option<&Name>) -> Option<&Interpreter> {
        let mut found = self.programs.iter().filter_map(|(program, found)| {
            found
                .get_or_init(|| Interpreter::of(program.clone()))
                .as_ref()
        });
        found.find(|one| {
            one.suffixes.iter().any(|known| known == suffix)
                && wheel.is_none_or(|wheel| wheel.admits(one.version))
        })
    }

    /// Loads a library in an interpreter and makes the metadata calls of its handlers. Handlers in capsules are added
    /// to `candidates`. A function in `guesses` counts as a handler if it answers.
    pub(crate) fn ask(
        &self,
        examination: &mut Examination,
        candidates: &mut Vec<Candidate>,
        guesses: &[String],
        wheel: Option<&Unpacked<'_>>,
    ) {
        let path = examination.path.clone();
        let found = self.asked(&path, examination, candidates, guesses, wheel);
        let loaded = match found {
            Ok(loaded) => loaded,
            Err(finding) => {
                probe::skip_all(candidates, &finding.what);
                examination.findings.push(*finding);
                return;
            }
        };
        let named = candidates.len();
        let first_named = loaded.handlers.len() - named;
        for (at, Asked(name, stages, answers)) in loaded.handlers.into_iter().enumerate() {
            let is_capsule = at < first_named;
            let answers = outcomes(&name, &answers, is_capsule);
            let is_skipped = |one: &Answer| matches!(one.outcome, Outcome::Skipped { .. });
            if guesses.contains(&name) && answers.iter().all(is_skipped) {
                continue;
            }
            if is_capsule {
                let stages: Vec<(String, String)> = stages.into_iter().collect();
                let mut candidate = examination.candidate(&name, &stages);
                candidate.has_types |= loaded.types > 0;
                candidate.answers = answers;
                candidates.push(candidate);
            } else {
                candidates[at - first_named].answers = answers;
            }
        }
        if !candidates.is_empty() {
            let findings = &mut examination.findings;
            findings.retain(|finding| finding.problem != Problem::UnknownHandlers);
        }
    }

    fn asked(
        &self,
        path: &Path,
        examination: &Examination,
        candidates: &[Candidate],
        guesses: &[String],
        wheel: Option<&Unpacked<'_>>,
    ) -> Result<Loaded, Box<Finding>> {
        let not_run = |why: String| Box::new(probe::not_run(why));
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let root = wheel.map(|wheel| wheel.root);
        let member = root
            .and_then(|root| path.strip_prefix(root).ok())
            .unwrap_or(path);
        let module = examination.facts.module(member);
        // Any interpreter can load a library whose file name does not end with a module's suffix.
        let suffix = match file.find('.') {
            Some(at) if module.is_some() => &file[at..],
            _ => ".so",
        };
        let interpreter = self.fitting(suffix, wheel.map(|wheel| wheel.name));
        let Some(interpreter) = interpreter else {
            let why = format!("no Python that imports {file} was found; pass one with --python");
            return Err(not_run(why));
        };
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let request = json!({
            "file": absolute,
            "module": module,
            "path": root.into_iter().chain(self.site_packages.iter().map(PathBuf::as_path)).collect::<Vec<_>>(),
            "limit": self.limit.as_secs(),
            "guesses": guesses.iter().map(|name| json!([name, [["execute", name]]])).collect::<Vec<_>>(),
            "symbols": candidates.iter().map(|one| json!([one.name, one.stages])).collect::<Vec<_>>(),
            "revisions": Revision::ALL[1..].iter().map(|revision| json!([
                revision.minor_version(),
                revision.api_struct_size(),
                revision.slot_count(),
                *revision >= Revision::R6,
                *revision >= Revision::R2,
            ])).collect::<Vec<_>>(),
        });
        let mut command = Command::new(&interpreter.program);
        command.args(["-c", PROGRAM]).stdout(Stdio::null());
        let needs = |package: &str| {
            let program = interpreter.program.display();
            not_run(format!(
                "it needs the Python package {package}, which {program} does not have; pass --site-packages"
            ))
        };
        let does_not_load = |why: String| {
            // If the interpreter lacks packages that the wheel requires, a failed import proves nothing.
            let requires = wheel.map_or(&[][..], |wheel| &wheel.requires);
            if let Some(package) = interpreter.lacks(&self.site_packages, requires) {
                return needs(&package);
            }
            let what = "the library does not load on this machine";
            Box::new(Finding::failure(Problem::DoesNotLoad, what, why).about(Subject::Machine))
        };
        let said = child_process::ask_program(self.limit, command, &request.to_string());
        let said = said.map_err(|error| match error.is::<TimedOut>() {
            true => Box::new(probe::too_slow(&error)),
            false => does_not_load(error_text(&error)),
        })?;
        match serde_json::from_value(said.unwrap_or_default()) {
            Ok(Said::Loaded(loaded)) => Ok(loaded),
            Ok(Said::Failed { error, needs: None }) => Err(does_not_load(error)),
            Ok(Said::Failed {
                needs: Some(package),
                ..
            }) => Err(needs(&package)),
            Err(error) => Err(not_run(format!("the interpreter's answer: {error}"))),
        }
    }
}

/// The JSON that the child process sends: an error, or the loaded library's handlers.
#[derive(Deserialize)]
#[serde(untagged)]
enum Said {
    Failed {
        error: String,
        needs: Option<String>,
    },
    Loaded(Loaded),
}

#[derive(Deserialize)]
struct Loaded {
    types: usize,
    /// The handlers of the library. Handlers in capsules are first.
    handlers: Vec<Asked>,
}

/// A handler that answered: its name, its stages with their symbols, and its answer on each revision.
#[derive(Deserialize)]
struct Asked(String, BTreeMap<String, String>, Vec<Value>);

/// Returns the outcome of the metadata calls on each revision from r1 on. A capsule that never answers may contain a
/// target of the original custom calls.
fn outcomes(name: &str, answers: &[Value], is_capsule: bool) -> Vec<Answer> {
    let is_silent = is_capsule && answers.iter().all(|one| one["silent"] == true);
    let skipped = match is_silent {
        true => {
            "it does not answer metadata calls: it may be a target of the original custom calls"
        }
        false => "an earlier metadata call reached the time limit",
    };
    let mut answers = answers.iter().filter(|_| !is_silent).map(probe::outcome);
    let of = |revision: &Revision| {
        let skipped = || Outcome::Skipped {
            why: skipped.to_owned(),
        };
        let mut outcome = answers.next().unwrap_or_else(skipped);
        match &mut outcome {
            Outcome::Accepted { version, .. } => {
                // The embedded runtime checks versions with the same function.
                if let Err(error) = metadata::accept_version(*revision, *version) {
                    outcome = Outcome::Refused {
                        why: format!("metadata of '{name}': {error}"),
                    };
                }
            }
            Outcome::Refused { why } | Outcome::Broke { how: why, .. } => {
                why.insert_str(0, &format!("metadata of '{name}': "));
            }
            Outcome::Skipped { .. } => {}
        }
        Answer {
            revision: revision.name(),
            outcome,
        }
    };
    Revision::ALL[1..].iter().map(of).collect()
}
