//! `xla-ffi inspect`: shows a library's manifest and the jaxlibs that load its handlers.

use crate::call::{UserType, parse_type};
use crate::report_format::TextOrJson;
use crate::target::{Chosen, FORGOTTEN, HandlerName, Target};
use crate::{output, probe};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::path::PathBuf;
use xla_ffi_doctor::{
    Behaviour, Candidate, Examination, Loads, Outcome, Problem, Subject, Verdict, library,
    manifest, verdict,
};
use xla_ffi_runtime::Revision;

/// The value of `schema` in the JSON output.
pub(crate) const SCHEMA: &str = "xla-ffi-inspect-1";

/// Command line of `inspect`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Path of the library.
    lib: PathBuf,
    /// Show only this handler, by its name in the manifest or by its symbol [default: the manifest's handlers].
    #[arg(long, value_name = "NAME")]
    handler: Option<HandlerName>,
    /// Register a user type before the handlers are loaded, by the symbols of its id and its TypeInfo; may be repeated
    /// [default: none].
    #[arg(long = "type", value_name = "NAME=ID[,INFO]", value_parser = parse_type)]
    types: Vec<UserType>,
    #[command(flatten)]
    pub(crate) output: TextOrJson,
}

/// The answers of a handler, and the verdicts for the first jaxlib of each revision.
struct Reception {
    /// Whether metadata calls were made. They are impossible if the library is for another machine.
    asked: bool,
    candidate: Candidate,
    verdicts: Vec<Verdict>,
}

impl Reception {
    /// Makes the metadata calls of all revisions in child processes, if the library loads on this machine.
    fn of(handler: &Chosen<'_>, examination: &Examination, types: &[&UserType]) -> Self {
        let stages = handler.stages.iter();
        let stages = stages.map(|(stage, symbol)| (stage.name().to_owned(), symbol.clone()));
        let named = (handler.name.clone(), stages.collect::<Vec<_>>());
        let mut candidate = examination.candidate(&named.0, &named.1);
        let elsewhere = wrong_machine(examination);
        let does_not_load = examination
            .findings
            .iter()
            .find(|finding| finding.problem == Problem::DoesNotLoad);
        let why = does_not_load.map(|finding| &finding.why);
        match elsewhere.as_ref().or(why) {
            Some(why) => probe::skip_all(std::slice::from_mut(&mut candidate), why),
            None => asking(examination, types).one(&mut candidate),
        }
        candidate.learn_state();
        // Runtimes of r0 make no metadata call, so the verdict for r0 depends only on whether the library loads.
        let broken = probe::broken(&examination.findings);
        let verdicts = Revision::ALL.into_iter().map(|revision| {
            let compiled_with = &examination.compiled_with;
            verdict(revision.first_jaxlib(), &candidate, broken, compiled_with)
        });
        Self {
            asked: elsewhere.is_none(),
            verdicts: verdicts.collect(),
            candidate,
        }
    }

    /// Returns the revisions whose jaxlibs load the handler, oldest first.
    fn accepted(&self) -> Vec<Revision> {
        let pairs = Revision::ALL.into_iter().zip(&self.verdicts);
        let pairs = pairs.filter(|(_, verdict)| verdict.loads == Loads::Yes);
        pairs.map(|(revision, _)| revision).collect()
    }

    /// Returns the reason why it is unknown whether any jaxlib loads the handler; `None` if this is known. Jaxlibs of
    /// r0 do not count, because they make no metadata call.
    fn not_known(&self) -> Option<&str> {
        let unknown = |verdict: &&Verdict| {
            verdict.loads == Loads::Unknown && verdict.revision != Revision::R0.name()
        };
        let found = self.verdicts.iter().rev().find(unknown);
        let found = found.filter(|_| self.accepted().is_empty());
        found.map(|verdict| verdict.why.as_str())
    }

    /// Returns the API version and the traits in the handler's answer to the newest runtime that accepts the handler.
    /// If no runtime accepts the handler, returns the reason.
    fn version_and_traits(&self) -> Result<((i32, i32), u32), &str> {
        let mut why = None;
        for answer in self.candidate.answers.iter().rev() {
            match &answer.outcome {
                Outcome::Accepted {
                    version, traits, ..
                } => return Ok((*version, *traits)),
                Outcome::Refused { why: reason }
                | Outcome::Skipped { why: reason }
                | Outcome::Broke { how: reason, .. } => {
                    why.get_or_insert(reason.as_str());
                }
            }
        }
        Err(why.unwrap_or("no metadata call was made"))
    }

    /// Returns the jaxlibs that load the handler as text, such as `0.4.34 to 0.7.2, 0.9.1 or later`.
    fn jaxlibs(&self) -> String {
        let accepted = self.accepted();
        let mut ranges: Vec<(Revision, Revision)> = vec![];
        for revision in accepted {
            match ranges.last_mut() {
                Some((_, last)) if *last as u8 + 1 == revision as u8 => *last = revision,
                _ => ranges.push((revision, revision)),
            }
        }
        let texts = ranges.iter().map(|(first, last)| {
            let first = first.first_jaxlib();
            match last.last_jaxlib() {
                None => format!("{first} or later"),
                Some(last) if last == first => first.to_owned(),
                Some(last) => format!("{first} to {last}"),
            }
        });
        let texts: Vec<_> = texts.collect();
        if let Some(why) = self.not_known() {
            return format!("unknown: {why}");
        }
        if texts.is_empty() {
            return "none".into();
        }
        texts.join(", ")
    }
}

/// Returns the settings for the metadata calls of a library's handlers.
fn asking<'a>(examination: &'a Examination, types: &'a [&'a UserType]) -> probe::Asking<'a> {
    probe::Asking {
        path: &examination.path,
        limit: probe::LIMIT,
        wanted: &Revision::ALL[1..],
        types,
    }
}

/// Returns an error text if the library is built for another machine.
fn wrong_machine(examination: &Examination) -> Option<String> {
    let facts = &examination.facts;
    let here = library::here();
    let machines: Vec<_> = std::iter::once(&facts.machine)
        .chain(&facts.others)
        .collect();
    let machines: Vec<_> = machines.iter().map(ToString::to_string).collect();
    let machines = machines.join(" and ");
    (!facts.machine.is_current())
        .then(|| format!("it is built for {machines}, but this machine is {here}"))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.output.is_json() {
        output::redirect_stdout()?;
    }
    let target = Target::read(&args.lib)?;
    let mut examination = Examination::of(&args.lib)?;
    let elsewhere = wrong_machine(&examination);
    let types: Vec<&UserType> = args.types.iter().collect();
    let chosen = chosen(&target, args.handler.as_ref());
    let chosen = match &elsewhere {
        // If the library is for another machine, the error starts with this fact, because it explains other errors.
        Some(why) => chosen.with_context(|| format!("{}: {why}", args.lib.display()))?,
        None => chosen?,
    };
    if elsewhere.is_none() {
        examination
            .findings
            .extend(asking(&examination, &types).loading());
    }
    let receptions: Vec<_> = chosen
        .iter()
        .map(|handler| Reception::of(handler, &examination, &types))
        .collect();
    let shown = chosen.iter().zip(&receptions);
    let problems = problems(&examination, &chosen, &receptions);
    if args.output.is_json() {
        let handlers: Vec<_> = shown
            .map(|(handler, asked)| to_json(handler, asked))
            .collect();
        let libraries: Vec<_> = target
            .manifests
            .iter()
            .map(|m| json!({"library": m.library, "sdk": m.sdk}))
            .collect();
        let exit = match problems.is_empty() {
            true => output::ok(),
            false => json!({ "code": 1, "kind": "findings" }),
        };
        let answer = json!({
            "schema": SCHEMA,
            "exit": exit,
            "problems": problems,
            "file": args.lib.display().to_string(),
            "machine": examination.facts.machine,
            "other_parts": examination.facts.others,
            "libraries": libraries,
            "handlers": handlers,
            "legacy": legacy(&target, args).map(legacy_json).collect::<Vec<_>>(),
        });
        output::json(&answer)?;
        return conclude(&problems);
    }
    let mut text = String::new();
    if let Some(why) = &elsewhere {
        text += &format!(
            "{}: {why}; the output below is from the file only\n",
            args.lib.display()
        );
    }
    for library in &target.manifests {
        text += &format!(
            "{}: library {}, xla-ffi {}\n",
            args.lib.display(),
            library.library,
            library.sdk
        );
    }
    if target.manifests.is_empty() {
        text += &format!("{}: no manifest\n", args.lib.display());
    }
    for (handler, asked) in shown {
        text += &describe(handler, asked);
    }
    for target in legacy(&target, args) {
        text += &describe_legacy(target);
    }
    output::text(&text)?;
    conclude(&problems)
}

/// Returns the targets of original custom calls that the command shows. With `--handler`, the command shows no targets.
fn legacy<'a>(target: &'a Target, args: &Args) -> impl Iterator<Item = &'a manifest::Target> {
    let shown = args.handler.is_none();
    let manifests = target.manifests.iter().filter(move |_| shown);
    manifests.flat_map(|manifest| &manifest.legacy)
}

fn legacy_json(target: &manifest::Target) -> Value {
    let shapes = |shapes: &Option<Vec<manifest::Shape>>| {
        let shapes = shapes.as_ref()?.iter();
        Some(shapes.map(|shape| shape.to_string()).collect::<Vec<_>>())
    };
    json!({
        "name": target.name,
        "platforms": target.platforms,
        "signature": target.signature,
        "api_version": target.api_version,
        "symbol": target.symbol,
        "args": shapes(&target.args),
        "rets": shapes(&target.rets),
        "tuples": target.tuples,
        "structure": target.structure,
    })
}

fn describe_legacy(target: &manifest::Target) -> String {
    let mut text = format!(
        "legacy target {} ({})\n  signature {} (API version {}), by {}\n",
        target.name,
        target.platforms.join(", "),
        target.signature,
        target.api_version,
        target.symbol
    );
    for (key, shapes) in [("args", &target.args), ("rets", &target.rets)] {
        if let Some(shapes) = shapes {
            let shapes: Vec<_> = shapes.iter().map(|shape| shape.to_string()).collect();
            text += &format!("  {key:<9} {}\n", shapes.join(", ").to_lowercase());
        }
    }
    if let (Some(form), Some(structure)) = (&target.tuples, &target.structure) {
        text += &format!("  {:<9} {structure}, by {form}\n", "tuples");
    }
    text
}

fn conclude(problems: &[String]) -> anyhow::Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    bail!("{}", problems.join("\n"))
}

/// Returns the reasons for exit status 1: invalid descriptions, and handlers that no known jaxlib loads.
fn problems(
    examination: &Examination,
    handlers: &[Chosen<'_>],
    receptions: &[Reception],
) -> Vec<String> {
    let mut wrong = vec![];
    for (handler, asked) in handlers.iter().zip(receptions) {
        let subject = Subject::Handler(handler.name.clone());
        for finding in &examination.findings {
            if finding.problem == Problem::Description && finding.subject == subject {
                let (id, what, why) = (finding.problem.id(), &finding.what, &finding.why);
                wrong.push(format!("{id}: handler '{}': {what}: {why}", handler.name));
            }
        }
        if !asked.asked || !asked.accepted().is_empty() || asked.not_known().is_some() {
            continue;
        }
        let why = match asked.version_and_traits() {
            Err(why) => why.to_owned(),
            Ok(((major, minor), _)) => match probe::broken(&examination.findings) {
                Some(finding) => format!("{}: {}", finding.what, finding.why),
                None => format!("it answers with API version {major}.{minor}"),
            },
        };
        wrong.push(format!(
            "no known jaxlib loads handler '{}'{}: {why}",
            handler.name,
            handler.others()
        ));
    }
    wrong
}

fn chosen<'a>(target: &'a Target, wanted: Option<&HandlerName>) -> anyhow::Result<Vec<Chosen<'a>>> {
    if wanted.is_some() {
        return Ok(vec![target.choose(wanted)?]);
    }
    if target.manifests.is_empty() {
        bail!(
            "{} has no manifest: {FORGOTTEN}, or pass a handler's symbol with --handler SYMBOL",
            target.path.display()
        );
    }
    target
        .handlers()
        .map(|handler| target.choose(Some(&HandlerName::Name(handler.name.clone()))))
        .collect()
}

/// Returns the handler's manifest entry; `None` if the manifest does not describe the handler's operands.
fn described<'a>(handler: &Chosen<'a>) -> Option<&'a manifest::Handler> {
    handler.manifest.filter(|says| says.described)
}

/// Returns the traits that the manifest declares; `None` if the manifest does not describe the handler.
fn declared_traits(handler: &Chosen<'_>) -> Option<Vec<String>> {
    described(handler).map(|says| says.traits.clone())
}

fn traits(bits: u32) -> Vec<String> {
    let mut names = vec![];
    if bits & 1 != 0 {
        names.push("command_buffer_compatible".to_owned());
    }
    if bits & !1 != 0 {
        names.push(format!("{:#x}", bits & !1));
    }
    names
}

fn to_json(handler: &Chosen<'_>, asked: &Reception) -> Value {
    let stages: serde_json::Map<String, Value> = handler
        .stages
        .iter()
        .map(|(stage, symbol)| (stage.name().to_owned(), symbol.clone().into()))
        .collect();
    let mut value = json!({"name": handler.name, "stages": stages});
    if let (Some(says), Some(object)) = (handler.manifest, value.as_object_mut()) {
        object.insert("doc".into(), says.doc.clone().into());
        object.insert("described".into(), says.described.into());
        object.insert("platforms".into(), json!(says.platforms));
        object.insert("args".into(), json!(says.args));
        object.insert("rets".into(), json!(says.rets));
        object.insert("attrs".into(), json!(says.attrs));
        object.insert("open_attrs".into(), says.open_attrs.into());
        object.insert("shape".into(), json!(says.shape));
        object.insert("gradient".into(), json!(says.gradient));
        object.insert("batch".into(), json!(says.batch));
        object.insert("context".into(), json!(says.context));
        object.insert("async".into(), says.is_async.into());
        object.insert(
            "state".into(),
            json!(says.state.as_ref().map(|state| &state.ty)),
        );
        object.insert("floor".into(), says.floor.clone().into());
    }
    let (version, bits, error) = match asked.version_and_traits() {
        Ok(((major, minor), bits)) => (Some(format!("{major}.{minor}")), traits(bits), None),
        Err(error) => (None, vec![], Some(error)),
    };
    if let Some(object) = value.as_object_mut() {
        let declared = declared_traits(handler);
        let accepted = asked.accepted();
        let first = accepted.first().map(|revision| revision.first_jaxlib());
        let accepted: Vec<_> = accepted.iter().map(|revision| revision.name()).collect();
        let known = asked.asked && asked.not_known().is_none();
        object.insert("traits".into(), json!(declared.unwrap_or(bits)));
        object.insert("answers".into(), json!(version));
        object.insert("error".into(), json!(error));
        object.insert("accepted_by".into(), json!(known.then_some(accepted)));
        object.insert("first_jaxlib".into(), json!(first));
    }
    value
}

fn describe(handler: &Chosen<'_>, asked: &Reception) -> String {
    let platforms = handler.manifest.map(|says| says.platforms.join(", "));
    let mut lines = match platforms {
        Some(platforms) => format!("handler {} ({platforms})\n", handler.name),
        None => format!("handler {}\n", handler.name),
    };
    let mut line = |key: &str, text: String| {
        if !text.is_empty() {
            lines += &format!("  {key:<9} {text}\n");
        }
    };
    if let Some(says) = handler.manifest {
        line(
            "doc",
            says.doc.lines().next().unwrap_or_default().to_owned(),
        );
        if !says.described {
            line(
                "operands",
                "not described: pass the signature in each call".to_owned(),
            );
        }
        line(
            "args",
            says.args.iter().map(operand).collect::<Vec<_>>().join(", "),
        );
        line(
            "rets",
            says.rets.iter().map(operand).collect::<Vec<_>>().join(", "),
        );
        let mut attrs: Vec<_> = says.attrs.iter().map(attribute).collect();
        if says.open_attrs {
            attrs.push("other attributes are ignored".into());
        }
        line("attrs", attrs.join(", "));
        line("shape", says.shape.clone().unwrap_or_default());
        line(
            "gradient",
            says.gradient.as_ref().map(gradient).unwrap_or_default(),
        );
        line("batch", batch(says.batch.as_ref()));
        line("context", says.context.join(", "));
        line(
            "state",
            says.state
                .as_ref()
                .map(|state| state.ty.clone())
                .unwrap_or_default(),
        );
        line(
            "async",
            if says.is_async {
                "yes".into()
            } else {
                String::new()
            },
        );
    }
    let stages: Vec<_> = handler
        .stages
        .iter()
        .map(|(stage, symbol)| format!("{stage} ({symbol})"))
        .collect();
    line("stages", stages.join(", "));
    let bits = asked.version_and_traits().map_or(0, |(_, traits)| traits);
    line(
        "traits",
        declared_traits(handler)
            .unwrap_or_else(|| traits(bits))
            .join(", "),
    );
    line(
        "floor",
        described(handler)
            .map(|says| says.floor.clone())
            .unwrap_or_default(),
    );
    if !asked.asked {
        return lines;
    }
    match (asked.version_and_traits(), asked.candidate.behaviour()) {
        (Err(error), _) => line("answers", format!("no: {error}")),
        (Ok(((major, minor), _)), Behaviour::Fixed(_)) => {
            line(
                "answers",
                format!("API version {major}.{minor} on every runtime"),
            );
        }
        (Ok(_), _) => line("answers", "the runtime's own API version".into()),
    }
    line("jaxlib", asked.jaxlibs());
    let risks = asked.verdicts.iter().flat_map(|verdict| &verdict.risks);
    if risks.count() > 0 {
        line("risks", "run `xla-ffi doctor` for details".into());
    }
    lines
}

fn operand(operand: &manifest::Operand) -> String {
    let dtypes = match &operand.dtypes {
        _ if operand.kind == manifest::Kind::Token => "token".into(),
        Some(dtypes) => dtypes.join("|").to_lowercase(),
        None => "any".into(),
    };
    let rank = operand
        .rank
        .map_or_else(String::new, |rank| format!(" rank {rank}"));
    let mut notes = String::new();
    for (is, note) in [
        (operand.optional, "?"),
        (operand.variadic, "*"),
        (operand.inout, " (in-out)"),
    ] {
        if is {
            notes.push_str(note);
        }
    }
    match &operand.layout {
        manifest::Layout::Word(word) if word != "row" => notes += &format!(" ({word} major)"),
        manifest::Layout::Order(axes) => notes += &format!(" (layout {axes:?})"),
        _ => {}
    }
    format!("{}: {dtypes}{rank}{notes}", operand.name)
}

fn gradient(gradient: &manifest::Gradient) -> String {
    let linear = gradient.linear.then(|| "linear".to_owned());
    let rules = gradient.handlers();
    let rules = rules.map(|(rule, name)| format!("{rule} by {name}"));
    let residuals = gradient.residuals.as_ref();
    let residuals = residuals.map(|names| format!("from {}", names.join(", ")));
    let parts: Vec<_> = linear.into_iter().chain(rules).chain(residuals).collect();
    parts.join(", ")
}

fn batch(batch: Option<&manifest::Batch>) -> String {
    match batch {
        None => String::new(),
        Some(manifest::Batch::Word(word)) => word.clone(),
        Some(manifest::Batch::Each(words)) => words.join(", "),
        Some(manifest::Batch::Handler { handler }) => format!("by {handler}"),
        Some(_) => "unknown".to_owned(),
    }
}

fn attribute(attribute: &manifest::Attribute) -> String {
    let from = attribute
        .from
        .as_ref()
        .map_or_else(String::new, |from| format!("{from}."));
    let default = match (&attribute.default, attribute.optional) {
        (Value::Null, true) => "?".into(),
        (Value::Null, false) => String::new(),
        (value, _) => format!(" = {value}"),
    };
    format!("{from}{}: {}{default}", attribute.name, attribute.ty)
}
