//! `xla-ffi doctor`: what would go wrong with a library, and where.

mod ask;

use crate::abi::output;
use crate::target::HandlerName;
use anyhow::bail;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;
use xla_ffi_abi::declared::parse_version;
use xla_ffi_abi::doctor::{
    Behaviour, Examination, Finding, HERE, JAXLIBS, Level, Loads, Subject, Use, Verdict, Weight,
    jaxlib, verdict,
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
    let mut subjects = examination.subjects(&named);
    if args.no_run {
        examination.findings.push(note(
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
            &mut subjects,
            &mut examination.findings,
        );
    }
    for subject in &mut subjects {
        behaviour(subject, &mut examination.findings);
    }
    let fatal = |about: &str| {
        examination.findings.iter().find(|finding| {
            fails(finding) && finding.about == about && !finding.what.starts_with("its manifest")
        })
    };
    let broken = fatal("library").or_else(|| fatal(HERE)).cloned();
    let verdicts: Vec<Verdict> = versions
        .iter()
        .filter_map(|version| Some((*version, jaxlib(version)?)))
        .flat_map(|(version, revision)| {
            let (broken, compiled) = (broken.as_ref(), &examination.compiled_with);
            subjects
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
            "handlers": subjects.iter().map(|subject| json!({
                "name": subject.name,
                "stages": subject.stages.iter().cloned().collect::<BTreeMap<_, _>>(),
                "floor": subject.floor.map(|floor| floor.name()),
                "answers": subject.answers,
            })).collect::<Vec<_>>(),
            "jaxlibs": verdicts,
        }))?;
    } else {
        output::text(&report(args, &examination, &subjects, &verdicts))?;
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
                examination.findings.push(Finding {
                    level: Level::Proved,
                    weight: Weight::Fails,
                    about: name.clone(),
                    what: format!("the library exports no symbol '{symbol}'"),
                    why: format!("it exports {}", list(&exports)),
                    fix: None,
                });
            }
            _ => named.push((name.clone(), stages)),
        }
    }
    named
}

fn note(what: &str, why: &str) -> Finding {
    Finding {
        level: Level::Unknown,
        weight: Weight::Note,
        about: "library".to_owned(),
        what: what.to_owned(),
        why: why.to_owned(),
        fix: None,
    }
}

/// How a handler answers, and what that means for all runtimes.
fn behaviour(subject: &mut Subject, findings: &mut Vec<Finding>) {
    use xla_ffi_abi::doctor::Outcome;
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
    findings.push(Finding {
        level: Level::Proved,
        weight,
        about: subject.name.clone(),
        what,
        why: "asked as runtimes of r1 to r10 ask".to_owned(),
        fix,
    });
}

fn report(
    args: &Args,
    examination: &Examination,
    subjects: &[Subject],
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
    let mut grouped: Vec<Finding> = Vec::new();
    for finding in findings.into_iter().map(nameless) {
        let same = grouped.iter_mut().find(|known| {
            let mut one = finding.clone();
            one.about.clone_from(&known.about);
            one == **known && known.about != "library" && finding.about != "library"
        });
        match same {
            Some(known) => known.about = format!("{}, {}", known.about, finding.about),
            None => grouped.push(finding),
        }
    }
    for finding in &mut grouped {
        let about: Vec<&str> = finding.about.split(", ").collect();
        finding.about = list(&about);
        tell(&mut text, "  ", finding);
    }
    if subjects.is_empty() {
        text.push_str("\nno handler to judge\n");
        return text;
    }
    text.push_str("\njaxlib     revision  handler: verdict\n");
    let mut risks: Vec<(&Finding, Vec<&str>)> = Vec::new();
    let mut lines: Vec<(&Verdict, Vec<&str>)> = Vec::new();
    for verdict in verdicts {
        let same = lines.iter_mut().find(|(known, _)| {
            known.jaxlib == verdict.jaxlib
                && known.loads == verdict.loads
                && known.level == verdict.level
                && nameless_text(&known.why, &known.handler)
                    == nameless_text(&verdict.why, &verdict.handler)
                && known.risks.is_empty() == verdict.risks.is_empty()
        });
        match same {
            Some((_, handlers)) => handlers.push(&verdict.handler),
            None => lines.push((verdict, vec![&verdict.handler])),
        }
        for risk in &verdict.risks {
            match risks.iter_mut().find(|(known, _)| *known == risk) {
                Some((_, versions)) => versions.push(&verdict.jaxlib),
                None => risks.push((risk, vec![&verdict.jaxlib])),
            }
        }
    }
    for (verdict, handlers) in lines {
        let loads = match verdict.loads {
            Loads::Yes if verdict.risks.is_empty() => "loads",
            Loads::Yes => "loads, at a risk",
            Loads::No => "does not work",
            Loads::Unknown => "not known",
        };
        let handlers = match handlers.as_slice() {
            all if all.len() == subjects.len() && all.len() > 2 => {
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
            nameless_text(&verdict.why, &verdict.handler)
        );
    }
    if !risks.is_empty() {
        text.push_str("\nrisks\n");
    }
    // What is the same for several handlers on the same jaxlibs is said once.
    let mut same: Vec<(Finding, Vec<String>, Vec<&str>)> = Vec::new();
    for (risk, versions) in risks {
        let risk = nameless(risk.clone());
        let known = same.iter_mut().find(|(known, _, on)| {
            let mut one = risk.clone();
            one.about.clone_from(&known.about);
            one == *known && *on == versions
        });
        match known {
            Some((_, about, _)) => about.push(risk.about),
            None => same.push((risk.clone(), vec![risk.about], versions)),
        }
    }
    for (mut risk, about, versions) in same {
        let about: Vec<&str> = about.iter().map(String::as_str).collect();
        risk.about = list(&about);
        tell(&mut text, "  ", &risk);
        let _ = writeln!(text, "      on jaxlib {}", versions.join(", "));
    }
    text
}

/// The finding with its handler named by `about` alone, so that equal ones are seen to be equal.
fn nameless(mut finding: Finding) -> Finding {
    finding.what = nameless_text(&finding.what, &finding.about);
    finding.why = nameless_text(&finding.why, &finding.about);
    finding
}

fn nameless_text(text: &str, handler: &str) -> String {
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

fn tell(text: &mut String, indent: &str, finding: &Finding) {
    let _ = writeln!(
        text,
        "{indent}{} {}: {}: {}\n{indent}    why: {}",
        finding.level, finding.weight, finding.about, finding.what, finding.why
    );
    if let Some(fix) = &finding.fix {
        let _ = writeln!(text, "{indent}    fix: {fix}");
    }
}

fn fails(finding: &Finding) -> bool {
    finding.level == Level::Proved && finding.weight == Weight::Fails
}

/// The answer is no where something is proved to fail: on the jaxlib that was asked about, or on
/// any where the library does not declare it.
fn conclude(one: bool, findings: &[Finding], verdicts: &[Verdict]) -> anyhow::Result<()> {
    let mut wrong: Vec<String> = findings
        .iter()
        .filter(|finding| fails(finding) && finding.what != ask::BREAKS)
        .map(|finding| format!("{}: {}", finding.about, finding.what))
        .collect();
    let library = wrong.len();
    // Each reason with the handlers that it concerns, by jaxlib.
    let mut reasons: Vec<(String, BTreeMap<usize, Vec<&str>>)> = vec![];
    let mut count = library;
    for (index, verdict) in verdicts.iter().enumerate() {
        // What is wrong with the library as a whole has been said once.
        let whole = verdict.loads == Loads::No && (one || !verdict.declared) && library == 0;
        let risks = verdict.risks.iter().filter(|risk| fails(risk));
        let texts = whole.then_some(&verdict.why).into_iter();
        for text in texts.chain(risks.map(|risk| &risk.what)) {
            count += 1;
            let text = nameless_text(text, &verdict.handler);
            // The verdicts of a jaxlib lie together: its first one stands for it.
            let first = verdicts[..index]
                .iter()
                .position(|known| known.jaxlib == verdict.jaxlib)
                .unwrap_or(index);
            let at = reasons.iter().position(|(known, _)| *known == text);
            let at = at.unwrap_or_else(|| {
                reasons.push((text, BTreeMap::new()));
                reasons.len() - 1
            });
            let handlers = reasons[at].1.entry(first).or_default();
            handlers.push(&verdict.handler);
        }
    }
    for (text, places) in reasons {
        let mut same: Vec<(Vec<&str>, Vec<&str>)> = vec![];
        for (first, handlers) in places {
            let jaxlib = verdicts[first].jaxlib.as_str();
            match same.iter_mut().find(|(known, _)| *known == handlers) {
                Some((_, jaxlibs)) => jaxlibs.push(jaxlib),
                None => same.push((handlers, vec![jaxlib])),
            }
        }
        for (handlers, jaxlibs) in same {
            let (handlers, jaxlibs) = (list(&handlers), jaxlibs.join(", "));
            wrong.push(format!("{handlers} on jaxlib {jaxlibs}: {text}"));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("{count} proved to fail:\n  {}", wrong.join("\n  "))
}
