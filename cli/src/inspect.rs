//! `xla-ffi inspect`: what a library says about itself, and what hosts make of it.

use crate::abi::output;
use crate::target::{Chosen, HandlerName, Target};
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::path::PathBuf;
use xla_ffi_abi::manifest;
use xla_ffi_runtime::{Revision, Runtime, metadata};

/// Command line of `inspect`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The library.
    lib: PathBuf,
    /// Only this handler; in a library without manifest, the symbol to ask.
    #[arg(long, value_name = "NAME")]
    handler: Option<HandlerName>,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

/// What hosts make of a handler.
struct Reception {
    /// The revisions that take it, r0 (which asks nothing) left out.
    accepted: Vec<Revision>,
    /// What it answers to the newest revision, or why it does not.
    answer: std::result::Result<metadata::Metadata, String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let target = Target::read(&args.lib)?;
    let chosen = chosen(&target, args.handler.as_ref())?;
    let receptions: Vec<_> = chosen.iter().map(|handler| ask(&target, handler)).collect();
    let shown = chosen.iter().zip(&receptions);
    if args.json {
        let handlers: Vec<_> = shown
            .map(|(handler, asked)| to_json(handler, asked))
            .collect();
        let libraries: Vec<_> = target
            .manifests
            .iter()
            .map(|m| json!({"library": m.library, "sdk": m.sdk}))
            .collect();
        let answer = json!({
            "file": args.lib.display().to_string(),
            "libraries": libraries,
            "handlers": handlers,
        });
        output::json(&answer)?;
        return conclude(&chosen, &receptions);
    }
    let mut text = String::new();
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
    output::text(&text)?;
    conclude(&chosen, &receptions)
}

/// The answer is no where no known jaxlib loads a handler.
fn conclude(handlers: &[Chosen<'_>], receptions: &[Reception]) -> Result<()> {
    let mut wrong = vec![];
    for (handler, asked) in handlers.iter().zip(receptions) {
        if first_jaxlib(handler, asked).is_some() {
            continue;
        }
        let why = match &asked.answer {
            Err(why) => why.clone(),
            Ok(answer) => format!("it answers {}.{}", answer.version.0, answer.version.1),
        };
        wrong.push(format!(
            "no known jaxlib loads handler '{}': {why}",
            handler.name
        ));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("{}", wrong.join("\n"))
}

fn chosen<'a>(target: &'a Target, wanted: Option<&HandlerName>) -> Result<Vec<Chosen<'a>>> {
    if wanted.is_some() {
        return Ok(vec![target.choose(wanted)?]);
    }
    if target.manifests.is_empty() {
        bail!(
            "{} has no manifest: name a handler's symbol with --handler SYMBOL to ask it",
            target.path.display()
        );
    }
    target
        .handlers()
        .map(|handler| target.choose(Some(&HandlerName::Name(handler.name.clone()))))
        .collect()
}

/// Asks a handler on every revision, in child processes.
fn ask(target: &Target, handler: &Chosen<'_>) -> Reception {
    let mut accepted = vec![];
    let mut answer = Err("it was not asked".to_owned());
    for revision in Revision::ALL.into_iter().skip(1) {
        let asked = Runtime::new(revision)
            .open(&target.path)
            .map_err(anyhow::Error::new)
            .and_then(|library| handler.load(&library));
        answer = match asked {
            Ok(handler) => {
                accepted.push(revision);
                handler
                    .metadata()
                    .copied()
                    .ok_or_else(|| "it was not asked".to_owned())
            }
            Err(error) => {
                let told = error.downcast_ref::<xla_ffi_runtime::Error>();
                let crashed = told.is_some_and(|error| error.has(xla_ffi_runtime::Hazard::Crash));
                answer = Err(format!("{error:#}"));
                // What crashes or hangs once does so on the other revisions, too.
                if crashed && accepted.is_empty() {
                    break;
                }
                continue;
            }
        };
    }
    Reception { accepted, answer }
}

/// The first jaxlib that loads a handler and has what it needs.
fn first_jaxlib(handler: &Chosen<'_>, asked: &Reception) -> Option<&'static str> {
    let floor = handler.manifest.and_then(manifest::Handler::floor_revision);
    if floor == Some(Revision::R0) {
        return Some(Revision::R0.first_jaxlib());
    }
    asked
        .accepted
        .iter()
        .find(|revision| floor.is_none_or(|floor| **revision >= floor))
        .map(|revision| revision.first_jaxlib())
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
        let operand = |operand: &manifest::Operand| {
            json!({
                "name": operand.name,
                "kind": match operand.kind { manifest::Kind::Token => "token", _ => "buffer" },
                "dtypes": operand.dtypes,
                "rank": operand.rank,
                "optional": operand.optional,
                "variadic": operand.variadic,
                "inout": operand.inout,
            })
        };
        let attribute = |attribute: &manifest::Attribute| {
            json!({
                "name": attribute.name,
                "type": attribute.ty,
                "optional": attribute.optional,
                "default": attribute.default,
                "narrow": attribute.narrow,
                "from": attribute.from,
            })
        };
        object.insert("platforms".into(), json!(says.platforms));
        object.insert("args".into(), says.args.iter().map(operand).collect());
        object.insert("rets".into(), says.rets.iter().map(operand).collect());
        object.insert("attrs".into(), says.attrs.iter().map(attribute).collect());
        object.insert("open_attrs".into(), says.open_attrs.into());
        object.insert("shape".into(), json!(says.shape));
        object.insert("context".into(), json!(says.context));
        object.insert("async".into(), says.is_async.into());
        object.insert(
            "state".into(),
            json!(says.state.as_ref().map(|state| &state.ty)),
        );
        object.insert("floor".into(), says.floor.clone().into());
    }
    let (version, bits, error) = match &asked.answer {
        Ok(answer) => (
            Some(format!("{}.{}", answer.version.0, answer.version.1)),
            traits(answer.traits),
            None,
        ),
        Err(error) => (None, vec![], Some(error.as_str())),
    };
    if let Some(object) = value.as_object_mut() {
        let declared = handler.manifest.map(|says| says.traits.clone());
        let accepted: Vec<_> = asked
            .accepted
            .iter()
            .map(|revision| revision.name())
            .collect();
        object.insert("traits".into(), json!(declared.unwrap_or(bits)));
        object.insert("answers".into(), json!(version));
        object.insert("error".into(), json!(error));
        object.insert("accepted_by".into(), json!(accepted));
        object.insert("first_jaxlib".into(), json!(first_jaxlib(handler, asked)));
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
            "args",
            says.args.iter().map(operand).collect::<Vec<_>>().join(", "),
        );
        line(
            "rets",
            says.rets.iter().map(operand).collect::<Vec<_>>().join(", "),
        );
        let mut attrs: Vec<_> = says.attrs.iter().map(attribute).collect();
        if says.open_attrs {
            attrs.push("others ignored".into());
        }
        line("attrs", attrs.join(", "));
        line("shape", says.shape.clone().unwrap_or_default());
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
    let bits = asked.answer.as_ref().map_or(0, |answer| answer.traits);
    let declared = handler.manifest.map(|says| says.traits.clone());
    line(
        "traits",
        declared.unwrap_or_else(|| traits(bits)).join(", "),
    );
    line(
        "floor",
        handler
            .manifest
            .map(|says| says.floor.clone())
            .unwrap_or_default(),
    );
    match &asked.answer {
        Ok(answer) => line(
            "answers",
            format!("{}.{} to r10", answer.version.0, answer.version.1),
        ),
        Err(error) => line("answers", format!("no: {error}")),
    }
    let accepted: Vec<_> = asked
        .accepted
        .iter()
        .map(|revision| revision.name())
        .collect();
    line(
        "taken by",
        if accepted.is_empty() {
            "none".into()
        } else {
            accepted.join(" ")
        },
    );
    line(
        "jaxlib",
        match first_jaxlib(handler, asked) {
            Some(first) => format!("{first} is the first that loads it"),
            None => "no known one loads it".into(),
        },
    );
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
    format!("{}: {dtypes}{rank}{notes}", operand.name)
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
