//! `xla-ffi doctor`: reports what fails in libraries and wheels. Findings can fail the run, to prevent a release.

mod formats;
mod gate;
mod report;
mod wheel;

use crate::baseline::Files;
use crate::call::{UserType, parse_type};
use crate::interpreter::Interpreters;
use crate::report_format::{Annotation, Form, Format, github, sarif};
use crate::target::HandlerName;
use crate::{child_process, output, probe};
use formats::to_json;
use gate::{Decision, Item, Threshold};
use report::{grouped, list, without_name};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use wheel::Opened;
use xla_ffi_abi::xla_ffi_sys::{JAXLIBS, Revision};
use xla_ffi_doctor::library::Provided;
use xla_ffi_doctor::manifest::Manifest;
use xla_ffi_doctor::{
    Behaviour, Candidate, Confidence, Examination, Finding, Outcome, Problem, RELEASES, Releases,
    Severity, Subject, Verdict, verdict,
};

/// The value of `schema` in the JSON output. The number changes if a key is removed or changes its meaning.
const SCHEMA: &str = "xla-ffi-doctor-1";

/// Command line of `doctor`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xla-ffi doctor libmine.so
  xla-ffi doctor libmine.so --jaxlib 0.5.0.. --fail-on risk --allow known-findings.txt
  xla-ffi doctor --wheel dist/mine-1.0-py3-none-manylinux_2_17_x86_64.whl --format github")]
pub(crate) struct Args {
    /// Paths of the libraries.
    #[arg(value_name = "LIB", required_unless_present = "wheel")]
    libraries: Vec<PathBuf>,
    /// Examine a wheel: its libraries, and whether its tags fit them; may be repeated [default: none].
    #[arg(long, value_name = "FILE.whl", help_heading = "Input")]
    wheel: Vec<PathBuf>,
    /// Judge for one jaxlib (0.9.1) or for a range of releases (0.5.0.., ..0.9.2, 0.5.0..0.9.2); may be repeated
    /// [default: at least one jaxlib of each ABI revision].
    #[arg(long, value_name = "RANGE", help_heading = "Input")]
    jaxlib: Vec<Releases>,
    /// Examine this exported symbol, or execute=SYMBOL,instantiate=SYMBOL,…, in addition to the manifest's handlers;
    /// may be repeated [default: none].
    #[arg(long, value_name = "NAME", help_heading = "Input")]
    handler: Vec<HandlerName>,
    /// Register a user type before the handlers are loaded, by the symbols of its id and its TypeInfo; may be repeated
    /// [default: none].
    #[arg(long = "type", help_heading = "Input", value_name = "NAME=ID[,INFO]", value_parser = parse_type)]
    types: Vec<UserType>,
    /// Import Python extension modules in this interpreter; may be repeated [default: the first on PATH that fits].
    #[arg(long, value_name = "EXE", help_heading = "Input")]
    python: Vec<PathBuf>,
    /// Find the Python packages and the libraries that a library needs below this folder; may be repeated
    /// [default: those of the interpreter and the system].
    #[arg(long, value_name = "DIR", help_heading = "Input")]
    site_packages: Vec<PathBuf>,
    /// Load this library first, as the user's process does; may be repeated [default: none].
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    preload: Vec<PathBuf>,
    /// Read the files without loading the libraries.
    #[arg(long, help_heading = "Limits")]
    no_run: bool,
    /// Limit loading a library, and each answer of a handler, in seconds (1 to 3600).
    #[arg(long, help_heading = "Limits", value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    time_limit: u64,
    /// Also fail if something was not judged or is not proved to load.
    #[arg(long, help_heading = "Exit status")]
    strict: bool,
    /// Fail if a finding has at least this severity.
    #[arg(long, help_heading = "Exit status", value_enum, value_name = "SEVERITY", default_value_t = Threshold::Fails)]
    fail_on: Threshold,
    #[command(flatten)]
    known: Files,
    #[command(flatten)]
    form: Form,
}

/// A library that was examined, with the verdicts on its handlers.
struct ExaminedLibrary {
    path: PathBuf,
    /// The path of the wheel that contains the library; `None` if no wheel does.
    wheel: Option<PathBuf>,
    examination: Examination,
    candidates: Vec<Candidate>,
    verdicts: Vec<Verdict>,
    /// The jaxlibs that refuse handlers of the library, if a finding about the wheel already reports these refusals.
    explained: BTreeSet<String>,
}

impl ExaminedLibrary {
    /// Returns the library's path in its wheel; without a wheel, returns its file name.
    fn name(&self) -> String {
        let wheel = self.wheel.as_ref();
        let member = wheel.and_then(|wheel| self.path.strip_prefix(wheel).ok());
        let name = member.or(self.path.file_name().map(Path::new));
        name.map_or_else(String::new, |name| name.display().to_string())
    }
}

impl Args {
    /// Returns the value of `schema` in the JSON output, if JSON is requested.
    pub(crate) fn schema(&self) -> Option<&'static str> {
        (self.form.format == Format::Json).then_some(SCHEMA)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.form.format != Format::Text {
        output::redirect_stdout()?;
    }
    let judged = judge(args);
    if let Err(error) = &judged {
        write_for_ci(args, &[formats::unreadable(args, error)])?;
    }
    judged
}

/// Writes the findings as SARIF or GitHub annotations if the command line requests such a format.
fn write_for_ci(args: &Args, annotations: &[Annotation]) -> anyhow::Result<()> {
    match args.form.format {
        Format::Text | Format::Json => Ok(()),
        Format::Sarif => output::json(&sarif("xla-ffi doctor", &formats::rules(), annotations)),
        Format::Github => output::commands(&github(annotations)),
    }
}

fn judge(args: &Args) -> anyhow::Result<ExitCode> {
    let is_asked = |release: &&str| args.jaxlib.iter().any(|asked| asked.0.contains(release));
    let asked: Vec<&str> = RELEASES.into_iter().filter(is_asked).collect();
    let versions = match asked.as_slice() {
        [] => JAXLIBS.to_vec(),
        some => some.to_vec(),
    };
    let wheels = args.wheel.iter().map(|path| Opened::of(path));
    let mut wheels: Vec<Opened> = wheels.collect::<Result<_, _>>()?;
    let mut lists = args.known.read()?;
    let mut judged = Vec::new();
    let provided = Provided::of(&args.site_packages, &args.preload);
    child_process::provide(&provided)?;
    let interpreters = Interpreters::new(
        &args.python,
        &args.site_packages,
        Duration::from_secs(args.time_limit),
    );
    let judging = Examiner {
        args,
        versions: &versions,
        all: asked.is_empty(),
        interpreters: &interpreters,
        provided: &provided,
    };
    for path in &args.libraries {
        judged.push(judging.one(path, None)?);
    }
    for wheel in &mut wheels {
        let claimed = match asked.as_slice() {
            [] => wheel.releases(),
            _ => None,
        };
        let judging = Examiner {
            versions: claimed.as_deref().unwrap_or(&versions),
            all: asked.is_empty() && claimed.is_none(),
            ..judging
        };
        let mut of_wheel = Vec::new();
        let places: Vec<PathBuf> = wheel.libraries().collect();
        for (at, place) in places.iter().enumerate() {
            if wheel.is_large() {
                let (member, count) = (wheel.member(place), places.len());
                output::message(format_args!("examining {member} ({} of {count})", at + 1));
            }
            match judging.one(place, Some(wheel)) {
                Ok(one) => of_wheel.push(wheel.renamed(one)),
                Err(error) => wheel.is_broken(place, &error),
            }
        }
        if asked.is_empty() {
            wheel.judge_requirements(&mut of_wheel, judging.versions);
        }
        // If one library of the wheel has handlers, libraries without handlers are not reported.
        if of_wheel.iter().any(|one| !one.candidates.is_empty()) {
            for one in &mut of_wheel {
                let findings = &mut one.examination.findings;
                findings.retain(|finding| finding.problem != Problem::UnknownHandlers);
            }
        }
        judged.extend(of_wheel);
    }
    add_unmatched(args, &mut judged);
    let mut items: Vec<Item> = judged
        .iter()
        .flat_map(|judged| gate::items(judged, !asked.is_empty()))
        .chain(wheels.iter().flat_map(Opened::items))
        .collect();
    items.sort_by_key(|item| (item.finding.severity, item.finding.confidence));
    let decision = Decision::of(&items, args.fail_on, args.strict, &mut lists);
    args.known.write(decision.keys())?;
    let fails =
        !decision.failing.is_empty() && (!args.known.writes() || decision.lacks_judgement());
    let code = u8::from(fails);
    match args.form.format {
        Format::Text => {
            let of_wheels = wheels.iter().map(|wheel| wheel.report(&items));
            let texts: Vec<String> = of_wheels.chain(judged.iter().map(report::report)).collect();
            output::text(&texts.join("\n"))?;
        }
        Format::Json => {
            let mut answer = to_json(&judged, &decision, code);
            answer["wheels"] = wheels.iter().map(|wheel| wheel.to_json(&items)).collect();
            output::json(&answer)?;
        }
        Format::Sarif | Format::Github => write_for_ci(args, &formats::for_ci(&items, &decision))?,
    }
    for (item, reason) in &decision.known {
        output::message(format_args!("note: allowed: {}: {reason}", item.key()));
    }
    for key in lists.unused() {
        output::message(format_args!(
            "note: --allow or --baseline lists {key}, which was not found: remove the line"
        ));
    }
    if !decision.open.is_empty() {
        let keys: BTreeSet<String> = decision.open.iter().map(Item::key).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let (count, keys) = (keys.len(), list(&keys));
        output::message(format_args!(
            "note: {count} not judged, which fails with --strict: {keys}"
        ));
    }
    if fails {
        output::message(format_args!("error: {}", conclusion(&decision)));
    }
    Ok(ExitCode::from(code))
}

/// Adds a finding for each symbol on the command line that no library exports. The findings are added to the first
/// library.
fn add_unmatched(args: &Args, judged: &mut [ExaminedLibrary]) {
    let exported = |symbol: &str| {
        let mut all = judged.iter();
        all.any(|judged| judged.examination.facts.exports.contains(symbol))
    };
    let mut missing = BTreeSet::new();
    for handler in &args.handler {
        let (name, stages) = handler.symbols();
        if !judged
            .iter()
            .any(|judged| handler.is_in(&judged.examination))
        {
            let symbols = stages.into_iter().map(|(_, symbol)| symbol);
            let symbols = symbols.filter(|symbol| !exported(symbol));
            missing.extend(symbols.map(|symbol| (name.clone(), symbol)));
        }
    }
    let types = args.types.iter().map(|wanted| wanted.id.clone());
    let types = types.filter(|id| !exported(id));
    missing.extend(types.map(|id| (id.clone(), id)));
    let whose = match judged.len() {
        1 => "the library does not export the",
        _ => "no library exports the",
    };
    let Some(first) = judged.first_mut() else {
        return;
    };
    let found = missing.iter().map(|(about, symbol)| {
        let what = format!("{whose} symbol '{symbol}'");
        let why = "--handler or --type names it";
        Finding::failure(Problem::NotExported, what, why).about_handler(about)
    });
    first.examination.findings.extend(found);
}

/// The settings with which libraries are examined.
#[derive(Clone, Copy)]
struct Examiner<'a> {
    args: &'a Args,
    versions: &'a [&'a str],
    /// Whether the user chose no jaxlibs, so that `versions` is the default list.
    all: bool,
    interpreters: &'a Interpreters,
    provided: &'a Provided,
}

impl Examiner<'_> {
    /// Examines one library, makes the metadata calls of its handlers, and returns the verdicts.
    fn one(&self, path: &Path, wheel: Option<&Opened>) -> anyhow::Result<ExaminedLibrary> {
        let Examiner {
            args,
            versions,
            all,
            interpreters,
            provided,
        } = *self;
        let mut examination =
            Examination::with(path, provided, |name, search| wheel?.provider(name, search))?;
        let are_expected = examination.lacks_only_provided();
        let releases = if all { &RELEASES } else { versions };
        examination.judge_glibc(releases);
        examination.judge_user_data(releases);
        // Handlers and types that the command line names apply to each library that contains them.
        let named: Vec<_> = args
            .handler
            .iter()
            .filter(|handler| handler.is_in(&examination))
            .map(HandlerName::symbols)
            .collect();
        let mut candidates = examination.candidates(&named);
        let types: Vec<&UserType> = args
            .types
            .iter()
            .filter(|user_type| examination.facts.exports.contains(&user_type.id))
            .collect();
        let wanted: Vec<Revision> = versions
            .iter()
            .filter_map(|version| Revision::of_jaxlib(version))
            .collect();
        if args.no_run || wheel.is_some() {
            // In a wheel or with `--no-run`, a library for another machine is expected and is not a failure.
            for finding in &mut examination.findings {
                if finding.problem == Problem::OtherMachine {
                    finding.severity = Severity::Note;
                    finding.fix = None;
                }
            }
        }
        let guesses = match wheel {
            Some(wheel) if candidates.is_empty() => wheel.possible_handlers(&examination),
            _ => Vec::new(),
        };
        if args.no_run {
            let why = "--no-run was given".to_owned();
            examination.findings.push(probe::not_run(why));
        } else if !examination.facts.machine.is_current() {
            let why = format!(
                "the library is built for {}, not for this machine",
                examination.facts.machine
            );
            probe::skip_all(&mut candidates, &why);
        } else if !examination.missing.is_empty() && !examination.facts.uses_python() {
            let why = "a required library is not on this machine".to_owned();
            probe::skip_all(&mut candidates, &why);
            examination
                .findings
                .extend(are_expected.then(|| probe::not_run(why)));
        } else if examination.facts.uses_python() || !guesses.is_empty() {
            let unpacked = wheel.map(Opened::unpacked);
            interpreters.ask(
                &mut examination,
                &mut candidates,
                &guesses,
                unpacked.as_ref(),
            );
        } else {
            let limit = Duration::from_secs(args.time_limit);
            let asking = probe::Asking {
                path,
                limit,
                wanted: &wanted,
                types: &types,
            };
            asking.all(&mut candidates, &mut examination.findings);
        }
        if !examination.missing.is_empty() && examination.facts.uses_python() && !args.no_run {
            // The dynamic linker does not find the required library, but the Python package of the module may load the
            // library first.
            let findings = &mut examination.findings;
            let count = findings.len();
            findings.retain(|finding| finding.problem != Problem::DoesNotLoad);
            if findings.len() < count {
                let why = "a required library is not on this machine".to_owned();
                findings.extend(are_expected.then(|| probe::not_run(why)));
            } else if probe::has_run(findings) {
                findings.retain(|finding| finding.problem != Problem::MissingLibrary);
            }
        }
        if !args.no_run && examination.facts.machine.is_current() {
            one_cause(&mut examination.findings);
        }
        for subject in &mut candidates {
            behaviour_finding(subject, &mut examination.findings);
            let traits = traits_finding(subject, &examination.manifests);
            examination.findings.extend(traits);
        }
        examination.findings.sort_by_key(|finding| {
            // The finding that a library is for another machine is first, because it explains the other findings.
            let first = finding.problem != Problem::OtherMachine;
            (
                first,
                finding.severity,
                finding.confidence,
                finding.problem.id(),
            )
        });
        let broken = probe::broken(&examination.findings).cloned();
        let verdicts: Vec<Verdict> = versions
            .iter()
            .flat_map(|version| {
                let (broken, compiled) = (broken.as_ref(), &examination.compiled_with);
                candidates
                    .iter()
                    .map(move |subject| verdict(version, subject, broken, compiled))
            })
            .collect();
        Ok(ExaminedLibrary {
            path: path.to_owned(),
            wheel: None,
            examination,
            candidates,
            verdicts,
            explained: BTreeSet::new(),
        })
    }
}

/// Removes findings that have the same cause as a different finding. If the library loads, findings about undefined
/// symbols are wrong and removed. If the library does not load because of undefined symbols, the finding with the
/// loader's message is removed.
fn one_cause(findings: &mut Vec<Finding>) {
    let is = |finding: &Finding, problem| {
        finding.problem == problem && finding.subject == Subject::Machine
    };
    let fails = findings
        .iter()
        .any(|finding| is(finding, Problem::DoesNotLoad));
    if fails
        && findings
            .iter()
            .any(|finding| is(finding, Problem::Undefined))
    {
        findings.retain(|finding| !is(finding, Problem::DoesNotLoad));
    } else if !fails && probe::has_run(findings) {
        findings.retain(|finding| !is(finding, Problem::Undefined));
    }
}

/// Returns a text with the findings that fail the run. Findings that differ only in their handlers are combined.
fn conclusion(decision: &Decision) -> String {
    let mut lines = Vec::new();
    for same in grouped(&decision.failing, Item::is_alike) {
        let first = same[0];
        let subjects: Vec<String> = same
            .iter()
            .map(|item| item.finding.subject.to_string())
            .collect();
        let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
        let place = match first.jaxlibs.as_slice() {
            [] => String::new(),
            jaxlibs => format!(" on jaxlib {}", jaxlibs.join(", ")),
        };
        let finding = &first.finding;
        let words = match finding.problem {
            Problem::Refused | Problem::NotKnown => &finding.why,
            _ => &finding.what,
        };
        lines.push(format!(
            "{} {}, {}{place}: {}",
            finding.problem.id(),
            first.library,
            list(&subjects),
            without_name(words, &finding.subject.to_string())
        ));
    }
    let proved = decision
        .failing
        .iter()
        .filter(|item| item.finding.is_proved_failure())
        .count();
    let head = match proved == decision.failing.len() {
        true => "proved failures",
        false => "failing findings",
    };
    format!("{head}:\n  {}", lines.join("\n  "))
}

/// Adds a finding about the API version that a handler answers with.
pub(super) fn behaviour_finding(subject: &mut Candidate, findings: &mut Vec<Finding>) {
    subject.learn_state();
    let (severity, what, fix) = match subject.behaviour() {
        Behaviour::Negotiates => (
            Severity::Note,
            "answers with the runtime's own API version".to_owned(),
            None,
        ),
        Behaviour::Fixed(minor) => (
            Severity::Risk,
            format!("answers with API version 0.{minor} on every runtime, as XLA's headers do"),
            Some(
                "build the library with this SDK, which answers with the runtime's version, or against the headers of the \
                 oldest jaxlib that you support, whose version newer ones accept"
                    .to_owned(),
            ),
        ),
        Behaviour::Unknown => return,
    };
    let asked = format!("metadata calls of r1 to {}", Revision::NEWEST);
    let mut finding = Finding::new(Confidence::Proved, severity, Problem::Answer, what, asked)
        .about_handler(&subject.name);
    finding.fix = fix;
    findings.push(finding);
}

/// Returns a finding if the manifest and the handler's answers disagree about a trait. Runtimes use the traits in the
/// answers.
pub(super) fn traits_finding(subject: &Candidate, manifests: &[Manifest]) -> Option<Finding> {
    const NAME: &str = "command_buffer_compatible";
    let mut handlers = manifests.iter().flat_map(|manifest| &manifest.handlers);
    let described = handlers.find(|handler| handler.name == subject.name && handler.described)?;
    let mut newest = subject.answers.iter().rev();
    let (revision, answers) = newest.find_map(|answer| match answer.outcome {
        Outcome::Accepted { traits, .. } => Some((answer.revision, traits & 1 != 0)),
        _ => None,
    })?;
    let declared = described.traits.iter().any(|name| name == NAME);
    let what = match (declared, answers) {
        (true, false) => format!("the manifest declares {NAME}, but the handler does not"),
        (false, true) => format!("the handler declares {NAME}, but the manifest does not"),
        _ => return None,
    };
    let why = format!("metadata call of {revision}; runtimes use the handler's answer");
    Some(
        Finding::proved_risk(Problem::Description, what, why)
            .about_handler(&subject.name)
            .fix(
                "declare the trait in the handler's definition and in its manifest, or in neither",
            ),
    )
}
