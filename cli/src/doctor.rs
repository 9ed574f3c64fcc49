//! `xla-ffi doctor`: what would go wrong with a library, and where.

use crate::target::HandlerName;
use crate::{ask, output};
use anyhow::bail;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;
use xla_ffi_abi::declared::parse_version;
use xla_ffi_abi::xla_ffi_sys::JAXLIBS;
use xla_ffi_doctor::{
    Behaviour, Candidate, Examination, Finding, Level, Loads, Outcome, Problem, Subject, Use,
    Verdict, Weight, jaxlib, verdict,
};
use xla_ffi_runtime::Stage;

/// Command line of `doctor`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The library.
    #[arg(value_name = "LIB")]
    library: PathBuf,
    /// Judge for this jaxlib alone.
    #[arg(long, value_name = "X.Y.Z", value_parser = version)]
    jaxlib: Option<String>,
    /// Ask this exported symbol, or execute=SYMBOL,instantiate=SYMBOL,…, for its metadata, too (a
    /// library without manifest tells no handlers).
    #[arg(long, value_name = "NAME")]
    handler: Vec<HandlerName>,
    /// Run nothing: read the file alone.
    #[arg(long)]
    no_run: bool,
    /// Seconds that loading, and each answer, may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

fn version(text: &str) -> Result<String, String> {
    match parse_version(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("expected a jaxlib version such as 0.12.0".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut versions: Vec<&str> = JAXLIBS.to_vec();
    if let Some(wanted) = &args.jaxlib {
        if jaxlib(wanted).is_none() {
            bail!(
                "jaxlib {wanted} has no FFI that is known: 0.4.31 is the first with these headers"
            );
        }
        versions = vec![wanted];
    }
    let mut examination = Examination::of(&args.library)?;
    let named = named(&args.handler, &mut examination);
    let mut candidates = examination.candidates(&named);
    if args.no_run {
        examination.findings.push(Finding::new(
            Level::Unknown,
            Weight::Note,
            Problem::NotRun,
            "whether it loads, and what its handlers answer",
            "--no-run: nothing was run",
        ));
    } else {
        let limit = Duration::from_secs(args.timeout);
        let first = args.jaxlib.as_deref().and_then(jaxlib).map(|(r, _)| r);
        ask::all(
            &args.library,
            limit,
            first,
            &mut candidates,
            &mut examination.findings,
        );
    }
    for subject in &mut candidates {
        behaviour(subject, &mut examination.findings);
    }
    let broken = examination
        .findings
        .iter()
        .filter(|finding| finding.keeps_library_from_loading())
        .min_by_key(|finding| &finding.subject)
        .cloned();
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
    if args.json {
        output::json(&json!({
            "library": args.library.display().to_string(),
            "soname": examination.facts.soname,
            "needs": examination.facts.needs,
            "glibc": examination.facts.floor("GLIBC_"),
            "libstdcxx": examination.facts.floor("GLIBCXX_"),
            "manifests": examination.manifests.iter().map(|manifest| {
                json!({ "library": manifest.library, "sdk": manifest.sdk })
            }).collect::<Vec<_>>(),
            "compiled_with": examination.compiled_with.iter().map(|r| r.name()).collect::<Vec<_>>(),
            "findings": examination.findings,
            "handlers": candidates.iter().map(|subject| json!({
                "name": subject.name,
                "stages": subject.stages.iter().cloned().collect::<BTreeMap<_, _>>(),
                "floor": subject.floor.map(|floor| floor.name()),
                "answers": subject.answers,
            })).collect::<Vec<_>>(),
            "jaxlibs": verdicts,
        }))?;
    } else {
        output::text(&report(args, &examination, &candidates, &verdicts))?;
    }
    conclude(args.jaxlib.is_some(), &examination.findings, &verdicts)
}

/// The handlers of the command line with the symbols of their stages; one that is not there is a
/// finding.
fn named(
    handlers: &[HandlerName],
    examination: &mut Examination,
) -> Vec<(String, Vec<(String, String)>)> {
    let mut named = vec![];
    for handler in handlers {
        let (name, stages) = match handler {
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
                let exports: Vec<_> = exports.iter().map(String::as_str).collect();
                examination.findings.push(
                    Finding::new(
                        Level::Proved,
                        Weight::Fails,
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

/// How a handler answers, and what that means for all runtimes.
fn behaviour(subject: &mut Candidate, findings: &mut Vec<Finding>) {
    let names_state = subject.answers.iter().any(|answer| {
        matches!(
            answer.outcome,
            Outcome::Accepted {
                has_state_type: true,
                ..
            }
        )
    });
    if names_state && !matches!(subject.state, Use::Yes(_)) {
        subject.state = Use::Yes("its metadata names the type of a state".to_owned());
    }
    let (weight, what, fix) = match subject.behaviour() {
        Behaviour::Negotiates => (
            Weight::Note,
            "it answers the version that the runtime speaks".to_owned(),
            None,
        ),
        Behaviour::Fixed(minor) => (
            Weight::Risk,
            format!("it answers 0.{minor} whatever the runtime speaks, as upstream's headers do"),
            Some("build it with this SDK's headers: they answer what is needed".to_owned()),
        ),
        Behaviour::Unknown => return,
    };
    let asked = "asked as runtimes of r1 to r10 ask";
    let mut finding = Finding::new(Level::Proved, weight, Problem::Answer, what, asked)
        .about_handler(&subject.name);
    finding.fix = fix;
    findings.push(finding);
}

fn report(
    args: &Args,
    examination: &Examination,
    candidates: &[Candidate],
    verdicts: &[Verdict],
) -> String {
    let mut text = format!("{}\n", args.library.display());
    for manifest in &examination.manifests {
        let _ = writeln!(
            text,
            "  library {} made with xla-ffi {}, {} handlers",
            manifest.library,
            manifest.sdk,
            manifest.handlers.len()
        );
    }
    text.push_str("\nfindings\n");
    let mut findings = examination.findings.clone();
    findings.sort_by_key(|finding| (finding.weight, finding.level));
    // What is the same for several handlers is said once.
    for same in grouped(&findings, are_alike) {
        let subjects: Vec<&Subject> = same.iter().map(|finding| &finding.subject).collect();
        write_finding(&mut text, same[0], &subjects);
    }
    if candidates.is_empty() {
        text.push_str("\nno handler to judge\n");
        return text;
    }
    text.push_str("\njaxlib     revision  handler: verdict\n");
    let lines = grouped(verdicts, |one, other| {
        one.jaxlib == other.jaxlib
            && one.loads == other.loads
            && one.level == other.level
            && same_words(&one.why, &one.handler, &other.why, &other.handler)
            && one.risks.is_empty() == other.risks.is_empty()
    });
    for line in &lines {
        let verdict = line[0];
        let loads = match verdict.loads {
            Loads::Yes if verdict.risks.is_empty() => "loads",
            Loads::Yes => "loads, at a risk",
            Loads::No => "does not work",
            Loads::Unknown => "not known",
        };
        let handlers: Vec<&str> = line.iter().map(|v| v.handler.as_str()).collect();
        let handlers = match handlers.as_slice() {
            all if all.len() == candidates.len() && all.len() > 2 => {
                format!("all {} handlers", all.len())
            }
            some => list(some),
        };
        let _ = writeln!(
            text,
            "{:<10} {:<9} {handlers}: {loads} ({}: {})",
            verdict.jaxlib,
            verdict.revision,
            verdict.level,
            nameless(&verdict.why, &verdict.handler)
        );
    }
    let told = verdicts.iter().flat_map(|verdict| {
        let risks = verdict.risks.iter();
        risks.map(|risk| (risk, verdict.jaxlib.as_str()))
    });
    let told: Vec<(&Finding, &str)> = told.collect();
    // Each risk with its jaxlibs; then what several handlers risk on the same ones.
    let risks: Vec<(&Finding, Vec<&str>)> = grouped(&told, |one, other| one.0 == other.0)
        .into_iter()
        .map(|same| (same[0].0, same.iter().map(|(_, jaxlib)| *jaxlib).collect()))
        .collect();
    if !risks.is_empty() {
        text.push_str("\nrisks\n");
    }
    for same in grouped(&risks, |one, other| {
        one.1 == other.1 && are_alike(one.0, other.0)
    }) {
        let subjects: Vec<&Subject> = same.iter().map(|(risk, _)| &risk.subject).collect();
        write_finding(&mut text, same[0].0, &subjects);
        let _ = writeln!(text, "      on jaxlib {}", same[0].1.join(", "));
    }
    text
}

/// Puts what is the same together, in the order in which each first came.
fn grouped<T>(all: &[T], same: impl Fn(&T, &T) -> bool) -> Vec<Vec<&T>> {
    let mut groups: Vec<Vec<&T>> = vec![];
    for one in all {
        match groups.iter_mut().find(|group| same(group[0], one)) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

/// Whether two findings differ in nothing but the handler that they are about.
fn are_alike(one: &Finding, other: &Finding) -> bool {
    let name = |finding: &Finding| match &finding.subject {
        Subject::Handler(name) => Some(name.clone()),
        _ => None,
    };
    let (Some(name), Some(others)) = (name(one), name(other)) else {
        return one == other;
    };
    (one.level, one.weight, one.problem, &one.fix)
        == (other.level, other.weight, other.problem, &other.fix)
        && same_words(&one.what, &name, &other.what, &others)
        && same_words(&one.why, &name, &other.why, &others)
}

/// Whether two texts say the same of two handlers, each of which they name.
fn same_words(one: &str, name: &str, other: &str, others: &str) -> bool {
    nameless(one, name) == nameless(other, others)
}

/// A text about a handler that does not name it.
fn nameless(text: &str, handler: &str) -> String {
    let quoted = format!("'{handler}'");
    text.replace(&format!("handler {quoted}"), "the handler")
        .replace(&quoted, "the handler")
}

/// The first few names, and how many there are.
fn list(names: &[&str]) -> String {
    if names.len() > 6 {
        format!("{}, … ({} in all)", names[..4].join(", "), names.len())
    } else {
        names.join(", ")
    }
}

fn write_finding(text: &mut String, finding: &Finding, subjects: &[&Subject]) {
    let about: Vec<String> = subjects.iter().map(ToString::to_string).collect();
    let about: Vec<&str> = about.iter().map(String::as_str).collect();
    let words = |words: &str| match &finding.subject {
        Subject::Handler(name) => nameless(words, name),
        _ => words.to_owned(),
    };
    let _ = writeln!(
        text,
        "  {} {}: {}: {}\n      why: {}",
        finding.level,
        finding.weight,
        list(&about),
        words(&finding.what),
        words(&finding.why)
    );
    if let Some(fix) = &finding.fix {
        let _ = writeln!(text, "      fix: {fix}");
    }
}

/// What would stop whoever ships the library: on the jaxlib that was asked about, or on any where the
/// library does not declare it.
fn conclude(one: bool, findings: &[Finding], verdicts: &[Verdict]) -> anyhow::Result<()> {
    let mut wrong: Vec<String> = findings
        .iter()
        .filter(|finding| finding.is_proved_failure() && finding.problem != Problem::Breaks)
        .map(|finding| format!("{}: {}", finding.subject, finding.what))
        .collect();
    // What is wrong with the library as a whole has been said once.
    let whole = wrong.is_empty();
    let mut reasons: Vec<(&Verdict, &str)> = vec![];
    for verdict in verdicts {
        if whole && verdict.loads == Loads::No && (one || !verdict.declared) {
            reasons.push((verdict, &verdict.why));
        }
        let risks = verdict.risks.iter().filter(|risk| risk.is_proved_failure());
        reasons.extend(risks.map(|risk| (verdict, risk.what.as_str())));
    }
    let count = wrong.len() + reasons.len();
    // Each reason with the handlers that it concerns on one jaxlib, then with the jaxlibs on which it
    // concerns the same ones.
    let by_text = grouped(&reasons, |one, other| {
        same_words(one.1, &one.0.handler, other.1, &other.0.handler)
    });
    for reason in by_text {
        let places: Vec<(&str, Vec<&str>)> =
            grouped(&reason, |one, other| one.0.jaxlib == other.0.jaxlib)
                .into_iter()
                .map(|place| {
                    let handlers = place.iter().map(|(verdict, _)| verdict.handler.as_str());
                    (place[0].0.jaxlib.as_str(), handlers.collect())
                })
                .collect();
        for same in grouped(&places, |one, other| one.1 == other.1) {
            let jaxlibs: Vec<&str> = same.iter().map(|(jaxlib, _)| *jaxlib).collect();
            let text = nameless(reason[0].1, &reason[0].0.handler);
            let handlers = list(&same[0].1);
            wrong.push(format!(
                "{handlers} on jaxlib {}: {text}",
                jaxlibs.join(", ")
            ));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("{count} proved to fail:\n  {}", wrong.join("\n  "))
}
