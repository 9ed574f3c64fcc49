//! `xla-ffi doctor`: what would go wrong with libraries, and where; and whether that stops a release.

mod answers;
mod forms;
mod gate;
mod json;
mod range;
mod report;
mod wheel;

use crate::forms::{Form, Format, github, sarif};
use crate::known::Files;
use crate::run::{UserType, parse_type};
use crate::target::HandlerName;
use crate::{ask, output, progress};
use gate::{Decision, Item, Threshold};
use json::to_json;
use range::Range;
use report::{grouped, list, nameless, same_words};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;
use wheel::Opened;
use xla_ffi_abi::xla_ffi_sys::{JAXLIBS, Revision};
use xla_ffi_doctor::{
    Candidate, Examination, Finding, Level, Problem, RELEASES, Verdict, Weight, jaxlib, verdict,
};
use xla_ffi_runtime::Stage;

/// The form of `--json`: another number says that something in it changed its
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
    /// library without manifest tells no handlers). FILE: before it says which library has it.
    #[arg(long, value_name = "[FILE:]NAME")]
    handler: Vec<Of<HandlerName>>,
    /// Register a user type first, by the symbols of its id and its `TypeInfo`, as `run` does.
    #[arg(long = "type", value_name = "[FILE:]NAME=ID[,INFO]")]
    types: Vec<Of<UserType>>,
    /// Run nothing: read the file alone.
    #[arg(long)]
    no_run: bool,
    /// Seconds that loading, and each answer, may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// What was not judged, or not proved to load, fails.
    #[arg(long)]
    strict: bool,
    /// From which weight on a finding fails.
    #[arg(long, value_enum, value_name = "WEIGHT", default_value_t = Threshold::Fails)]
    fail_on: Threshold,
    #[command(flatten)]
    known: Files,
    #[command(flatten)]
    form: Form,
}

/// Something that one library has, or whichever it is found in.
#[derive(Clone)]
struct Of<T> {
    file: Option<String>,
    value: T,
}

impl<T: FromStr<Err = String>> FromStr for Of<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (file, rest) = match text.split_once(':') {
            Some((file, rest)) if !rest.starts_with(':') && !file.contains('=') => {
                (Some(file.to_owned()), rest)
            }
            _ => (None, text),
        };
        Ok(Self {
            file,
            value: rest.parse()?,
        })
    }
}

impl FromStr for UserType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_type(text)
    }
}

impl<T> Of<T> {
    fn is_for(&self, path: &Path) -> bool {
        self.file
            .as_ref()
            .is_none_or(|file| path.file_name().is_some_and(|name| name == file.as_str()))
    }
}

/// One library, judged.
struct Judged {
    path: PathBuf,
    /// The wheel that it lies in.
    wheel: Option<PathBuf>,
    examination: Examination,
    candidates: Vec<Candidate>,
    verdicts: Vec<Verdict>,
}

impl Judged {
    /// Its file name.
    fn name(&self) -> String {
        let name = self.path.file_name();
        name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.form.format() != Format::Text {
        output::keep_apart()?;
    }
    let judged = judge(args);
    if let Err(error) = &judged {
        match args.form.format() {
            Format::Text => {}
            Format::Json => output::bad_input(SCHEMA, error)?,
            Format::Sarif => {
                let told = [forms::unreadable(args, error)];
                output::json(&sarif("xla-ffi doctor", &forms::rules(), &told))?;
            }
            Format::Github => output::commands(&github(&[forms::unreadable(args, error)]))?,
        }
    }
    judged
}

fn judge(args: &Args) -> anyhow::Result<ExitCode> {
    let asked = range::releases(&args.jaxlib)?;
    let versions: Vec<&str> = match asked.as_slice() {
        [] => JAXLIBS.to_vec(),
        some => some.iter().map(String::as_str).collect(),
    };
    let wheels = args.wheel.iter().map(|path| {
        progress::at(format!("unpacking {}", path.display()));
        Opened::of(path)
    });
    let mut wheels: Vec<Opened> = wheels.collect::<Result<_, _>>()?;
    let mut places = args.libraries.clone();
    places.extend(wheels.iter().flat_map(Opened::libraries));
    let handlers = args.handler.iter().map(|of| ("--handler", &of.file));
    let types = args.types.iter().map(|of| ("--type", &of.file));
    for (option, given) in handlers.chain(types) {
        let Some(given) = given else { continue };
        let is_given = |path: &PathBuf| path.file_name().is_some_and(|name| name == given.as_str());
        if !places.iter().any(is_given) {
            anyhow::bail!("{option} {given}:…: no library of this name was given");
        }
    }
    let mut lists = args.known.read()?;
    let mut judged = Vec::new();
    let judging = Judging {
        args,
        versions: &versions,
        all: asked.is_empty(),
        several: places.len() > 1,
    };
    for path in &args.libraries {
        progress::at(path.display().to_string());
        judged.push(judging.one(path, false)?);
    }
    for wheel in &mut wheels {
        let places: Vec<PathBuf> = wheel.libraries().collect();
        for place in places {
            progress::at(wheel.member(&place));
            match judging.one(&place, true) {
                Ok(one) => judged.push(wheel.renamed(one)),
                Err(error) => wheel.is_broken(&place, &error),
            }
        }
    }
    nowhere(args, &mut judged);
    let items: Vec<Item> = judged
        .iter()
        .flat_map(|judged| gate::items(judged, !asked.is_empty()))
        .chain(wheels.iter().flat_map(Opened::items))
        .collect();
    let items = gate::without_followers(items, &mut lists, args.known.writes());
    let decision = Decision::of(&items, args.fail_on, args.strict, &mut lists);
    args.known.write(decision.keys())?;
    let fails =
        !decision.failing.is_empty() && (!args.known.writes() || decision.lacks_judgement());
    let code = u8::from(fails);
    match args.form.format() {
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
        Format::Sarif => {
            let told = forms::told(&items, &decision);
            output::json(&sarif("xla-ffi doctor", &forms::rules(), &told))?;
        }
        Format::Github => output::commands(&github(&forms::told(&items, &decision)))?,
    }
    for (item, reason) in &decision.known {
        note(&format!("known: {}: {reason}", item.key()));
    }
    for key in lists.unused() {
        note(&format!("nothing needs this line any more: {key}"));
    }
    if !decision.open.is_empty() {
        let keys: BTreeSet<String> = decision.open.iter().map(Item::key).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let (count, keys) = (keys.len(), list(&keys));
        note(&format!(
            "{count} not judged, which --strict does not let pass: {keys}"
        ));
    }
    if fails {
        crate::words::tell!("error: {}", crate::words::printable(&conclusion(&decision)));
    }
    Ok(ExitCode::from(code))
}

/// What is meant for whichever library has it, and no library has: told of the first.
fn nowhere(args: &Args, judged: &mut [Judged]) {
    if judged.len() < 2 {
        return;
    }
    let has_handler = |name: &str| {
        let mut all = judged.iter().flat_map(|judged| &judged.candidates);
        all.any(|candidate| candidate.name == name)
    };
    let has_symbol = |symbol: &str| {
        let mut all = judged
            .iter()
            .map(|judged| &judged.examination.facts.exports);
        all.any(|exports| exports.contains(symbol))
    };
    let handlers = args.handler.iter().filter(|handler| handler.file.is_none());
    let handlers = handlers.filter_map(|handler| match &handler.value {
        HandlerName::Name(name) => Some(name.clone()),
        HandlerName::Stages(stages) => {
            let execute = stages.iter().find(|(stage, _)| *stage == Stage::Execute);
            execute.map(|(_, symbol)| symbol.clone())
        }
    });
    // One that lacks a stage has been told already.
    let handlers = handlers.filter(|name| !has_handler(name) && !has_symbol(name));
    let types = args.types.iter().filter(|wanted| wanted.file.is_none());
    let types = types.map(|wanted| wanted.value.id.clone());
    let missing: BTreeSet<String> = handlers.chain(types.filter(|id| !has_symbol(id))).collect();
    let Some(first) = judged.first_mut() else {
        return;
    };
    first
        .examination
        .findings
        .extend(missing.iter().map(|symbol| {
            Finding::failure(
                Problem::NotExported,
                format!("none of the libraries exports the symbol '{symbol}'"),
                "the command line names it",
            )
            .about_handler(symbol)
        }));
}

/// A word beside what was asked for. Names in it come from libraries.
fn note(text: &str) {
    crate::words::tell!("note: {}", crate::words::printable(text));
}

/// What every library is asked.
struct Judging<'a> {
    args: &'a Args,
    versions: &'a [&'a str],
    /// Whether these are all that are listed.
    all: bool,
    /// Whether several libraries are asked.
    several: bool,
}

impl Judging<'_> {
    /// Examines one library, or one of a wheel, asks its handlers, and judges them.
    fn one(&self, path: &Path, of_wheel: bool) -> anyhow::Result<Judged> {
        let Judging {
            args,
            versions,
            all,
            several,
        } = *self;
        let mut examination = Examination::of(path)?;
        let releases = if all { &RELEASES } else { versions };
        examination.judge_glibc(releases);
        examination.judge_user_data(releases);
        let named = named(&args.handler, several, &mut examination);
        let mut candidates = examination.candidates(&named);
        let types: Vec<&UserType> = args
            .types
            .iter()
            .filter(|user_type| user_type.is_for(path))
            .filter(|user_type| {
                let here = examination.facts.exports.contains(&user_type.value.id);
                // Without a file it is meant for whichever library has it.
                if !here && (!several || user_type.file.is_some()) {
                    missing_type(&user_type.value, &mut examination.findings);
                }
                here
            })
            .map(|user_type| &user_type.value)
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
                    finding.weight = Weight::Note;
                    finding.fix = None;
                }
            }
        }
        if args.no_run {
            examination.findings.push(Finding::new(
                Level::Unknown,
                Weight::Note,
                Problem::NotRun,
                "whether it loads, and what its handlers answer",
                "--no-run: nothing was run",
            ));
        } else if !examination.facts.machine.is_this() {
            let why = format!("the library is built for {}", examination.facts.machine);
            ask::skip_all(&mut candidates, &why);
        } else {
            let limit = Duration::from_secs(args.timeout);
            let asking = ask::Asking {
                path,
                limit,
                wanted: &wanted,
                types: &types,
            };
            asking.all(&mut candidates, &mut examination.findings);
        }
        for subject in &mut candidates {
            answers::behaviour(subject, &mut examination.findings);
            let told = answers::traits(subject, &examination.manifests);
            examination.findings.extend(told);
        }
        let broken = ask::broken(&examination.findings).cloned();
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
        Ok(Judged {
            path: path.to_owned(),
            wheel: None,
            examination,
            candidates,
            verdicts,
        })
    }
}

fn missing_type(user_type: &UserType, findings: &mut Vec<Finding>) {
    findings.push(Finding::failure(
        Problem::NotExported,
        format!("the library exports no symbol '{}'", user_type.id),
        format!("--type {} names it", user_type.name),
    ));
}

/// The handlers of the command line with the symbols of their stages; one that is not there is a
/// finding.
fn named(
    handlers: &[Of<HandlerName>],
    several: bool,
    examination: &mut Examination,
) -> Vec<(String, Vec<(String, String)>)> {
    let mut named = vec![];
    for handler in handlers
        .iter()
        .filter(|handler| handler.is_for(&examination.path))
    {
        let (name, stages) = match &handler.value {
            HandlerName::Name(name) => (name, vec![("execute".to_owned(), name.clone())]),
            HandlerName::Stages(stages) => {
                let execute = stages.iter().find(|(stage, _)| *stage == Stage::Execute);
                let Some((_, name)) = execute else { continue };
                let stages = stages
                    .iter()
                    .map(|(stage, symbol)| (stage.name().to_owned(), symbol.clone()));
                (name, stages.collect())
            }
        };
        let mut declared = examination.manifests.iter().flat_map(|m| &m.handlers);
        let exports = &examination.facts.exports;
        let missing = stages.iter().find(|(_, symbol)| !exports.contains(symbol));
        match missing {
            Some((_, symbol)) if !declared.any(|handler| handler.name == *name) => {
                // Without a file it is meant for whichever library has it.
                if several && handler.file.is_none() && !exports.contains(name) {
                    continue;
                }
                let exports: Vec<_> = exports.iter().map(String::as_str).collect();
                examination.findings.push(
                    Finding::failure(
                        Problem::NotExported,
                        format!("the library exports no symbol '{symbol}'"),
                        format!("it exports {}", list(&exports)),
                    )
                    .about_handler(name),
                );
            }
            _ => named.push((name.clone(), stages)),
        }
    }
    named
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
            nameless(words, &finding.subject.to_string())
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
