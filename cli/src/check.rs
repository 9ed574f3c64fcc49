//! `xla-ffi check`: whether handlers keep to what hosts and callers take for granted, on the embedded runtime.

mod checks;
mod subject;

use crate::call::CallArgs;
use crate::child_process;
use crate::device::Device;
use crate::engine;
use crate::output;
use crate::report_format::TextOrJson;
use crate::target::{HandlerName, Target};
use anyhow::{Context, Result, bail};
use checks::{CHECKS, Verdict};
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use subject::Subject;

/// The form of the answers for programs.
pub(crate) const SCHEMA: &str = "xla-ffi-check-1";

/// Command line of `check`.
#[derive(clap::Args)]
#[command(mut_arg("time_limit", |arg| arg
    .default_value("60")
    .help("How many seconds all checks of a handler may take together")))]
pub(crate) struct Args {
    #[command(flatten)]
    call: CallArgs,
    #[command(flatten)]
    pub(crate) output: TextOrJson,
    /// The check that this child process makes.
    #[arg(long, hide = true)]
    only: Option<String>,
}

/// What a check has found.
struct Line {
    name: &'static str,
    verdict: Verdict,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    engine::only_embedded(&args.call, "check");
    if args.output.is_json() {
        output::redirect_stdout()?;
    }
    let target = Target::read(&args.call.lib)?;
    if let (Some(pipe), Some(name)) = (args.call.supervised, &args.only) {
        return Ok(child_process::child(pipe, || {
            check_here(args, &target, name)
        }));
    }
    let names: Vec<HandlerName> = match &args.call.handler {
        Some(name) => vec![name.clone()],
        None => target
            .handlers()
            .filter(|handler| Device::Host.is_for(handler))
            .map(|handler| HandlerName::Name(handler.name.clone()))
            .collect(),
    };
    if names.is_empty() {
        bail!(
            "{} has no manifest with a handler for the CPU: name a handler's symbol with --handler, and give \
             its operands with --arg and --ret",
            args.call.lib.display()
        );
    }
    let has_operands = !args.call.args.is_empty() || !args.call.rets.is_empty();
    if names.len() > 1 && has_operands {
        bail!("operands are for one handler: say which with --handler");
    }
    let mut reports = vec![];
    for name in names {
        let lines = one(&args.call, &target, &name)?;
        let title = match &name {
            HandlerName::Name(name) => name.clone(),
            HandlerName::Stages(_) => "the handler".into(),
        };
        if !args.output.is_json() {
            output::text(&words(&title, &lines))?;
        }
        reports.push((title, lines));
    }
    let nothing = |lines: &[Line]| {
        matches!(
            lines,
            [Line {
                verdict: Verdict::Skipped(_),
                ..
            }]
        )
    };
    // An answer of nothing is no yes.
    let unchecked = reports.iter().all(|(_, lines)| nothing(lines));
    let failed = reports.iter().flat_map(|(_, lines)| lines);
    let failed = failed
        .filter(|line| matches!(line.verdict, Verdict::Fail(_)))
        .count();
    if args.output.is_json() {
        let handlers: Vec<_> = reports
            .iter()
            .map(|(name, lines)| report(name, lines))
            .collect();
        let library = args.call.lib.display().to_string();
        let (code, kind) = match (failed, unchecked) {
            (_, true) => (1, "not-judged"),
            (0, false) => (0, "ok"),
            (..) => (1, "findings"),
        };
        output::json(&json!({
            "schema": SCHEMA,
            "exit": { "code": code, "kind": kind },
            "library": library,
            "ok": code == 0,
            "handlers": handlers,
        }))?;
    }
    if unchecked {
        bail!("no handler could be checked");
    }
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// One check of the handler that the command line names.
fn check_here(args: &Args, target: &Target, name: &str) -> Result<()> {
    let handler = args.call.handler.as_ref().context("no handler is named")?;
    let subject = Subject::new(&args.call, target, handler)?.map_err(anyhow::Error::msg)?;
    let check = CHECKS.iter().find(|(known, _)| *known == name);
    let (_, check) = check.context("no check has this name")?;
    output::enters(format_args!("the handler"));
    output::json(&json!(check(&subject)))
}

/// All checks of one handler, each in a child process of its own.
fn one(args: &CallArgs, target: &Target, handler: &HandlerName) -> Result<Vec<Line>> {
    if let Err(why) = Subject::new(args, target, handler)? {
        let verdict = Verdict::Skipped(why);
        return Ok(vec![Line {
            name: "runs",
            verdict,
        }]);
    }
    let mut lines: Vec<Line> = vec![];
    let (begun, all) = (Instant::now(), Duration::from_secs(args.time_limit));
    for (name, _) in CHECKS {
        let limit = all.saturating_sub(begun.elapsed());
        if limit.is_zero() {
            let verdict = Verdict::Skipped(format!(
                "the time limit of {} s was over before",
                args.time_limit
            ));
            lines.push(Line { name, verdict });
            continue;
        }
        let mut options = vec![format!("--only={name}")];
        if let (None, HandlerName::Name(name)) = (&args.handler, handler) {
            options.push(format!("--handler={name}"));
        }
        let verdict = match child_process::rerun_for_answer(limit, &options) {
            Ok(answer) => serde_json::from_value(answer.unwrap_or_default())?,
            Err(crash) => Verdict::Fail(crate::output::error_text(&crash)),
        };
        let goes_on = *name != "runs" || !matches!(verdict, Verdict::Fail(_));
        lines.push(Line { name, verdict });
        if !goes_on {
            break;
        }
    }
    Ok(lines)
}

fn words(title: &str, lines: &[Line]) -> String {
    let mut text = format!("{title}\n");
    for line in lines {
        let (word, why) = line.verdict.parts();
        let why = why.replace('\n', "\n          ");
        text.push_str(&format!("  {word:<8}{}: {why}\n", line.name));
    }
    text
}

fn report(title: &str, lines: &[Line]) -> serde_json::Value {
    let line = |line: &Line| {
        let (word, why) = line.verdict.parts();
        json!({"name": line.name, "verdict": word, "text": why})
    };
    let lines: Vec<_> = lines.iter().map(line).collect();
    json!({"handler": title, "lines": lines})
}
