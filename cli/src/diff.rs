//! `xla-ffi diff`: shows the differences between two builds of a library that callers can notice.

use crate::report_format::TextOrJson;
use crate::target::HandlerName;
use crate::{output, probe};
use anyhow::bail;
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use xla_ffi_doctor::manifest::Manifest;
use xla_ffi_doctor::{
    Build, Candidate, Difference, Examination, Problem, Step, Subject, differences,
};
use xla_ffi_runtime::Revision;

/// The value of `schema` in the JSON output. The number changes if a key is removed or changes its meaning.
pub(crate) const SCHEMA: &str = "xla-ffi-diff-1";

/// Command line of `diff`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Path of the older build.
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// Path of the newer build.
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Compare this exported symbol, or execute=SYMBOL,instantiate=SYMBOL,…, in addition to the manifest's handlers; may
    /// be repeated [default: none].
    #[arg(long, value_name = "NAME")]
    handler: Vec<HandlerName>,
    /// Read the files without loading the libraries.
    #[arg(long)]
    no_run: bool,
    /// Limit loading a library, and each answer of a handler, in seconds (1 to 3600).
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    time_limit: u64,
    /// Set the version of OLD, MAJOR.MINOR.PATCH, to get a suggested version for NEW [default: suggest a step].
    #[arg(long, value_name = "VERSION", value_parser = version)]
    old_version: Option<String>,
    /// Fail if a difference requires at least this step of the version number [default: never fail].
    #[arg(long, value_enum, value_name = "STEP")]
    fail_on: Option<Threshold>,
    #[command(flatten)]
    pub(crate) output: TextOrJson,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Threshold {
    /// Existing calls fail or give different results.
    Major,
    /// Also new handlers, operands or attributes.
    Minor,
    /// Any difference.
    Patch,
}

impl Threshold {
    fn step(self) -> Step {
        match self {
            Self::Major => Step::Major,
            Self::Minor => Step::Minor,
            Self::Patch => Step::Patch,
        }
    }
}

fn version(text: &str) -> Result<String, String> {
    match Step::Patch.after(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("expected MAJOR.MINOR.PATCH".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.output.is_json() {
        output::redirect_stdout()?;
    }
    let (old, was) = build(args, &args.old)?;
    let (new, now) = build(args, &args.new)?;
    let machines = [&old, &new].map(|examination| examination.facts.machine);
    if machines[0] != machines[1] {
        bail!(
            "{} is built for {}, but {} for {}: compare builds for the same machine",
            args.old.display(),
            machines[0],
            args.new.display(),
            machines[1]
        );
    }
    let nowhere = args
        .handler
        .iter()
        .find(|wanted| !wanted.is_in(&old) && !wanted.is_in(&new));
    if let Some(wanted) = nowhere {
        bail!(
            "--handler: neither library exports the symbol '{}'",
            wanted.symbols().0
        );
    }
    let builds = [(&old, &was), (&new, &now)].map(|(examination, candidates)| Build {
        examination,
        candidates,
    });
    let found = differences(&builds[0], &builds[1]);
    let step = found.iter().map(|difference| difference.step).max();
    let next = step.zip(args.old_version.as_ref());
    let next = next.and_then(|(step, version)| step.after(version));
    let fails = match (args.fail_on, step) {
        (Some(least), Some(step)) => step >= least.step(),
        _ => false,
    };
    // If neither build loads, the handlers of the builds were not compared, so `--fail-on` fails the run.
    let dead = builds.iter().all(|build| build.does_not_load().is_some());
    let (code, kind) = match (fails, dead && args.fail_on.is_some()) {
        (true, _) => (1, "findings"),
        (false, true) => (1, "not-judged"),
        (false, false) => (0, "ok"),
    };
    let notes = notes(args, &builds);
    if args.output.is_json() {
        output::json(&json!({
            "schema": SCHEMA,
            "exit": { "code": code, "kind": kind },
            "old": args.old.display().to_string(),
            "new": args.new.display().to_string(),
            "differences": found,
            "step": step,
            "version": next,
            "not_judged": notes,
        }))?;
    } else {
        output::text(&report(args, &found, (step, dead), next.as_deref()))?;
    }
    for note in notes {
        output::message(format_args!("note: {note}"));
    }
    if fails {
        let names = format!("{} and {}", args.old.display(), args.new.display());
        output::message(format_args!(
            "error: {names} have differences of the step of --fail-on or higher"
        ));
    } else if code != 0 {
        output::message(format_args!(
            "error: neither build loads on this machine, so --fail-on cannot be judged"
        ));
    }
    Ok(ExitCode::from(code))
}

/// Examines one build. Makes the metadata calls of the build's handlers unless `--no-run` is given.
fn build(args: &Args, path: &Path) -> anyhow::Result<(Examination, Vec<Candidate>)> {
    let mut examination = Examination::of(path)?;
    let unreadable = |problem| problem == Problem::Manifest;
    if let Some(finding) = examination
        .findings
        .iter()
        .find(|finding| unreadable(finding.problem))
    {
        bail!("{}: {}: {}", path.display(), finding.what, finding.why);
    }
    let named: Vec<_> = args
        .handler
        .iter()
        .filter(|wanted| wanted.is_in(&examination))
        .map(HandlerName::symbols)
        .collect();
    let mut candidates = examination.candidates(&named);
    if !args.no_run && examination.facts.machine.is_current() {
        let asking = probe::Asking {
            path,
            limit: Duration::from_secs(args.time_limit),
            wanted: &Revision::ALL[1..],
            types: &[],
        };
        asking.all(&mut candidates, &mut examination.findings);
        for candidate in &mut candidates {
            candidate.learn_state();
        }
    }
    Ok((examination, candidates))
}

/// Returns one text per part of the builds that was not compared. Each text contains the reason.
fn notes(args: &Args, builds: &[Build<'_>; 2]) -> Vec<String> {
    let mut notes = Vec::new();
    for (build, path) in builds.iter().zip([&args.old, &args.new]) {
        let shown = path.display();
        let Examination {
            facts, manifests, ..
        } = build.examination;
        let has_targets = manifests.iter().any(|manifest| !manifest.legacy.is_empty());
        if !has_targets && facts.exports.contains(Manifest::LEGACY_LIST) {
            notes.push(format!(
                "{shown} registers original custom calls at run time, which were not compared"
            ));
        }
        if build.candidates.is_empty() && !has_targets {
            notes.push(format!(
                "{shown} has no manifest with handlers: pass their symbols with --handler"
            ));
        }
        let broken = build.examination.findings.iter().filter(|finding| {
            matches!(
                finding.problem,
                Problem::DoesNotLoad | Problem::Breaks | Problem::OtherMachine
            )
        });
        notes.extend(broken.map(|finding| format!("{shown}: {}: {}", finding.what, finding.why)));
    }
    if args.no_run {
        notes.push("handlers' answers were not compared, because --no-run was given".to_owned());
    }
    notes
}

/// Returns the differences as text, with the required step of the version number.
fn report(
    args: &Args,
    found: &[Difference],
    (step, dead): (Option<Step>, bool),
    next: Option<&str>,
) -> String {
    let mut text = format!("{} and {}\n", args.old.display(), args.new.display());
    let mut about: Option<&Subject> = None;
    for difference in found {
        if about != Some(&difference.about) {
            let _ = match &difference.about {
                Subject::Handler(name) => writeln!(text, "\nhandler {name}"),
                other => writeln!(text, "\n{other}"),
            };
            about = Some(&difference.about);
        }
        let _ = write!(text, "  {}: {}", difference.step, difference.what);
        let _ = match (&difference.was, &difference.now) {
            (Some(was), Some(now)) => writeln!(text, ": {was} became {now}"),
            (Some(was), None) => writeln!(text, ": removed {was}"),
            (None, Some(now)) => writeln!(text, ": added {now}"),
            (None, None) => writeln!(text),
        };
        let _ = writeln!(text, "    {}", difference.why);
    }
    let suggestion = match (step, next, &args.old_version) {
        (None, ..) if dead => {
            "neither build loads on this machine, so handlers' answers were not compared".to_owned()
        }
        (None, ..) => {
            "no differences for callers: keep the version or raise the patch number".to_owned()
        }
        (Some(step), Some(next), Some(was)) => {
            format!("suggested version: {next} (a {step} step from {was})")
        }
        (Some(step), ..) => format!("suggested version step: {step}"),
    };
    let _ = writeln!(text, "\n{suggestion}");
    text
}
