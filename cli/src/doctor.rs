//! `xla-ffi doctor`: what would go wrong with libraries, and where; and whether that stops a release.

mod formats;
mod gate;
mod range;
mod report;
mod wheel;

use crate::baseline::Files;
use crate::call::{UserType, parse_type};
use crate::report_format::{Annotation, Form, Format, github, sarif};
use crate::target::HandlerName;
use crate::{output, probe};
use formats::to_json;
use gate::{Decision, Item, Threshold};
use range::Range;
use report::{grouped, list, same_words, without_name};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use wheel::Opened;
use xla_ffi_abi::xla_ffi_sys::{JAXLIBS, Revision};
use xla_ffi_doctor::manifest::Manifest;
use xla_ffi_doctor::{
    Behaviour, Candidate, Confidence, Examination, Finding, Outcome, Problem, RELEASES, Severity,
    Verdict, jaxlib, verdict,
};

/// The form of `--format json`: another number says that something in it changed its
/// meaning or went.
const SCHEMA: &str = "xla-ffi-doctor-1";

/// Command line of `doctor`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The libraries.
    #[arg(value_name = "LIB", required_unless_present = "wheel")]
    libraries: Vec<PathBuf>,
    /// A wheel: its libraries, and what its tags promise. `twine check` and `check-wheel-contents` do the rest.
    #[arg(long, value_name = "F.whl")]
    wheel: Vec<PathBuf>,
    /// Judge for this jaxlib, or for the published ones of a range: 0.5.0.., ..0.9.2, 0.5.0..0.9.2. May be
    /// given several times.
    #[arg(long, value_name = "RANGE")]
    jaxlib: Vec<Range>,
    /// Ask this exported symbol, or execute=SYMBOL,instantiate=SYMBOL,…, for its metadata, too (a
    /// XX
    #[arg(long, value_name = "NAME")]
    handler: Vec<HandlerName>,
    /// Register a user type first, by the symbols of its id and its `TypeInfo`, as `run` does.
    #[arg(long = "type", value_name = "NAME=ID[,INFO]", value_parser = parse_type)]
    types: Vec<UserType>,
    /// Run nothing: read the file alone.
    #[arg(long)]
    no_run: bool,
    /// Seconds that loading, and each answer, may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    time_limit: u64,
    /// What was not judged, or not proved to load, fails.
    #[arg(long)]
    strict: bool,
    /// From which severity on a finding fails.
    #[arg(long, value_enum, value_name = "WEIGHT", default_value_t = Threshold::Fails)]
    fail_on: Threshold,
    #[command(flatten)]
    known: Files,
    #[command(flatten)]
    form: Form,
}

/// One library, judged.
struct ExaminedLibrary {
    path: PathBuf,
    /// The wheel that it lies in.
    wheel: Option<PathBuf>,
    examination: Examination,
    candidates: Vec<Candidate>,
    verdicts: Vec<Verdict>,
}

impl ExaminedLibrary {
    /// Its file name.
    fn name(&self) -> String {
        let name = self.path.file_name();
        name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }
}

impl Args {
    /// The form of the JSON that is wanted, if any.
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
        write_annotations(args, &[formats::unreadable(args, error)])?;
    }
    judged
}

/// Writes findings in a form for CI, where one is wanted.
fn write_annotations(args: &Args, told: &[Annotation]) -> anyhow::Result<()> {
    match args.form.format {
        Format::Text | Format::Json => Ok(()),
        Format::Sarif => output::json(&sarif("xla-ffi doctor", &formats::rules(), told)),
        Format::Github => output::commands(&github(told)),
    }
}

fn judge(args: &Args) -> anyhow::Result<ExitCode> {
    let asked = range::releases(&args.jaxlib)?;
    let versions: Vec<&str> = match asked.as_slice() {
        [] => JAXLIBS.to_vec(),
        some => some.iter().map(String::as_str).collect(),
    };
    let wheels = args.wheel.iter().map(|path| Opened::of(path));
    let mut wheels: Vec<Opened> = wheels.collect::<Result<_, _>>()?;
    let mut lists = args.known.read()?;
    let mut judged = Vec::new();
    let judging = Examiner {
        args,
        versions: &versions,
        all: asked.is_empty(),
    };
    for path in &args.libraries {
        judged.push(judging.one(path, false)?);
    }
    for wheel in &mut wheels {
        let places: Vec<PathBuf> = wheel.libraries().collect();
        for place in places {
            match judging.one(&place, true) {
                Ok(one) => judged.push(wheel.renamed(one)),
                Err(error) => wheel.is_broken(&place, &error),
            }
        }
    }
    add_unmatched(args, &mut judged);
    let items: Vec<Item> = judged
        .iter()
        .flat_map(|judged| gate::items(judged, !asked.is_empty()))
        .chain(wheels.iter().flat_map(Opened::items))
        .collect();
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
        Format::Sarif | Format::Github => {
            write_annotations(args, &formats::annotations(&items, &decision))?
        }
    }
    for (item, reason) in &decision.known {
        output::tell(format_args!("note: known: {}: {reason}", item.key()));
    }
    for key in lists.unused() {
        output::tell(format_args!(
            "note: nothing needs this line any more: {key}"
        ));
    }
    if !decision.open.is_empty() {
        let keys: BTreeSet<String> = decision.open.iter().map(Item::key).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let (count, keys) = (keys.len(), list(&keys));
        output::tell(format_args!(
            "note: {count} not judged, which --strict does not let pass: {keys}"
        ));
    }
    if fails {
        output::tell(format_args!("error: {}", conclusion(&decision)));
    }
    Ok(ExitCode::from(code))
}

/// What the command line names and no library has: told of the first.
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
        1 => "the library exports no",
        _ => "none of the libraries exports the",
    };
    let Some(first) = judged.first_mut() else {
        return;
    };
    let found = missing.iter().map(|(about, symbol)| {
        let what = format!("{whose} symbol '{symbol}'");
        let why = "the command line names it";
        Finding::failure(Problem::NotExported, what, why).about_handler(about)
    });
    first.examination.findings.extend(found);
}

/// What every library is asked.
struct Examiner<'a> {
    args: &'a Args,
    versions: &'a [&'a str],
    /// Whether these are all that are listed.
    all: bool,
}

impl Examiner<'_> {
    /// Examines one library, or one of a wheel, asks its handlers, and judges them.
    fn one(&self, path: &Path, of_wheel: bool) -> anyhow::Result<ExaminedLibrary> {
        let Examiner {
            args,
            versions,
            all,
        } = *self;
        let mut examination = Examination::of(path)?;
        let releases = if all { &RELEASES } else { versions };
        examination.judge_glibc(releases);
        examination.judge_user_data(releases);
        // Each is meant for whichever library has it.
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
            .filter_map(|version| Some(jaxlib(version)?.0))
            .collect();
        if args.no_run || of_wheel {
            // Where nothing is to run, another machine's library is as good as any; nor is a wheel for this machine
            // alone.
            for finding in &mut examination.findings {
                if finding.problem == Problem::OtherMachine {
                    finding.severity = Severity::Note;
                    finding.fix = None;
                }
            }
        }
        if args.no_run {
            examination.findings.push(Finding::new(
                Confidence::Unknown,
                Severity::Note,
                Problem::NotRun,
                "whether it loads, and what its handlers answer",
                "--no-run: nothing was run",
            ));
        } else if !examination.facts.machine.is_current() {
            let why = format!("the library is built for {}", examination.facts.machine);
            probe::skip_all(&mut candidates, &why);
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
        for subject in &mut candidates {
            behaviour_finding(subject, &mut examination.findings);
            let told = traits_finding(subject, &examination.manifests);
            examination.findings.extend(told);
        }
        let broken = probe::broken(&examination.findings).cloned();
        let verdicts: Vec<Verdict> = versions
            .iter()
            .filter_map(|version| Some((*version, jaxlib(version)?)))
            .flat_map(|(version, revision)| {
                let (broken, compiled) = (broken.as_ref(), &examination.compiled_with);
                candidates
                    .iter()
                    .map(move |subject| verdict(version, revision, subject, broken, compiled))
            })
            .collect();
        Ok(ExaminedLibrary {
            path: path.to_owned(),
            wheel: None,
            examination,
            candidates,
            verdicts,
        })
    }
}

/// What fails, the same reason once.
fn conclusion(decision: &Decision) -> String {
    let mut lines = Vec::new();
    for same in grouped(&decision.failing, |one, other| {
        one.library == other.library
            && one.jaxlibs == other.jaxlibs
            && one.finding.problem == other.finding.problem
            && same_words(
                &one.finding.why,
                &one.finding.subject.to_string(),
                &other.finding.why,
                &other.finding.subject.to_string(),
            )
            && same_words(
                &one.finding.what,
                &one.finding.subject.to_string(),
                &other.finding.what,
                &other.finding.subject.to_string(),
            )
    }) {
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
    let head = if proved == decision.failing.len() {
        format!("{proved} proved to fail")
    } else {
        format!("{} findings do not pass", decision.failing.len())
    };
    format!("{head}:\n  {}", lines.join("\n  "))
}

/// How a handler answers, and what that means for all runtimes.
pub(super) fn behaviour_finding(subject: &mut Candidate, findings: &mut Vec<Finding>) {
    subject.learn_state();
    let (severity, what, fix) = match subject.behaviour() {
        Behaviour::Negotiates => (
            Severity::Note,
            "it answers the version that the runtime speaks".to_owned(),
            None,
        ),
        Behaviour::Fixed(minor) => (
            Severity::Risk,
            format!("it answers 0.{minor} whatever the runtime speaks, as upstream's headers do"),
            Some("build it with this SDK's headers: they answer what is needed".to_owned()),
        ),
        Behaviour::Unknown => return,
    };
    let asked = format!("asked as runtimes of r1 to {} ask", Revision::NEWEST);
    let mut finding = Finding::new(Confidence::Proved, severity, Problem::Answer, what, asked)
        .about_handler(&subject.name);
    finding.fix = fix;
    findings.push(finding);
}

/// A trait that the manifest and the newest runtime's answer do not agree on. Runtimes believe the answer, and whoever
/// reads the manifest that.
pub(super) fn traits_finding(subject: &Candidate, manifests: &[Manifest]) -> Option<Finding> {
    const NAME: &str = "command_buffer_compatible";
    let mut handlers = manifests.iter().flat_map(|manifest| &manifest.handlers);
    let says = handlers.find(|handler| handler.name == subject.name && handler.described)?;
    let mut newest = subject.answers.iter().rev();
    let (revision, answers) = newest.find_map(|answer| match answer.outcome {
        Outcome::Accepted { traits, .. } => Some((answer.revision, traits & 1 != 0)),
        _ => None,
    })?;
    let declared = says.traits.iter().any(|name| name == NAME);
    let what = match (declared, answers) {
        (true, false) => format!("its manifest says {NAME}, and its answer does not"),
        (false, true) => format!("its answer says {NAME}, and its manifest does not"),
        _ => return None,
    };
    let why = format!("asked as {revision} asks; runtimes go by the answer");
    Some(
        Finding::new(
            Confidence::Proved,
            Severity::Risk,
            Problem::Description,
            what,
            why,
        )
        .about_handler(&subject.name)
        .fix("say the same in the handler's definition and in its manifest"),
    )
}
