//! `xla-ffi check`: runs the checks in [`checks`] on handlers, using the embedded runtime.

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
use checks::{CHECKS, Status};
use clap::builder::PossibleValuesParser;
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use subject::Subject;

/// The value of `schema` in the JSON output.
pub(crate) const SCHEMA: &str = "xla-ffi-check-1";

/// Command line of `check`.
#[derive(clap::Args)]
#[command(
    mut_arg("handler", |arg| arg.help("Check this handler: a name from the manifest, the symbol of an execute stage, or \
        execute=SYMBOL,instantiate=SYMBOL,… [default: all CPU handlers of the manifest]")),
    mut_arg("engine", |arg| arg.hide(true)),
    mut_arg("device", |arg| arg.hide(true)),
    mut_arg("time_limit", |arg| arg
        .default_value("60")
        .help("Limit the total time of all checks of a handler, in seconds")),
)]
pub(crate) struct Args {
    #[command(flatten)]
    call: CallArgs,
    /// Skip this check; may be repeated [default: none].
    #[arg(long, value_name = "CHECK", help_heading = "Checks", value_parser = PossibleValuesParser::new(CHECKS.iter().map(|(name, _)| *name)))]
    skip: Vec<String>,
    /// Use the given values of this operand in every call, because other values are invalid (indices, for example);
    /// may be repeated [default: none].
    #[arg(long, value_name = "OPERAND", help_heading = "Checks")]
    keep: Vec<String>,
    #[command(flatten)]
    pub(crate) output: TextOrJson,
    /// The check that this child process runs.
    #[arg(long, hide = true)]
    only: Option<String>,
}

/// The result of one check of a handler.
struct CheckResult {
    name: &'static str,
    status: Status,
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
            "{} has no manifest with a handler for the CPU: pass the handler's symbol with --handler, and its \
             operands with --arg and --ret",
            args.call.lib.display()
        );
    }
    let has_operands = !args.call.args.is_empty() || !args.call.rets.is_empty();
    if names.len() > 1 && has_operands {
        bail!("--arg and --ret describe one handler's operands: choose the handler with --handler");
    }
    let mut reports = vec![];
    for name in names {
        let results = check_handler(args, &target, &name)?;
        let title = match &name {
            HandlerName::Name(name) => name.clone(),
            HandlerName::Stages(_) => "the handler".into(),
        };
        if !args.output.is_json() {
            output::text(&report_text(&title, &results))?;
        }
        reports.push((title, results));
    }
    let has = |status: &str| {
        let mut results = reports.iter().flat_map(|(_, results)| results);
        results.any(|result| result.status.parts().0 == status)
    };
    let failed = has("failed");
    let unchecked = !failed && !has("passed") && !has("note");
    if args.output.is_json() {
        let handlers: Vec<_> = reports
            .iter()
            .map(|(name, results)| report_json(name, results))
            .collect();
        let library = args.call.lib.display().to_string();
        let (code, kind) = match (failed, unchecked) {
            (_, true) => (1, "not-judged"),
            (false, false) => (0, "ok"),
            (..) => (1, "findings"),
        };
        output::json(&json!({
            "schema": SCHEMA,
            "exit": { "code": code, "kind": kind },
            "library": library,
            "passed": code == 0,
            "handlers": handlers,
        }))?;
    }
    if unchecked {
        bail!("no handler could be checked");
    }
    Ok(ExitCode::from(u8::from(failed)))
}

/// Runs one check in this process, on the handler that the command line names.
fn check_here(args: &Args, target: &Target, name: &str) -> Result<()> {
    let handler = args.call.handler.as_ref().context("no handler is named")?;
    let subject = Subject::new(&args.call, &args.keep, target, handler)?;
    let subject = subject.map_err(anyhow::Error::msg)?;
    let check = CHECKS.iter().find(|(known, _)| *known == name);
    let (_, check) = check.context("no check has this name")?;
    output::enters(format_args!("the handler"));
    output::json(&json!(check(&subject)))
}

/// Runs all checks on one handler. Each check runs in its own child process.
fn check_handler(args: &Args, target: &Target, handler: &HandlerName) -> Result<Vec<CheckResult>> {
    if let Err(why) = Subject::new(&args.call, &args.keep, target, handler)? {
        let (name, status) = ("runs", Status::Skipped(why));
        return Ok(vec![CheckResult { name, status }]);
    }
    let mut results: Vec<CheckResult> = vec![];
    let (begun, all) = (Instant::now(), Duration::from_secs(args.call.time_limit));
    let mut call_fails = false;
    for (name, _) in CHECKS {
        let limit = all.saturating_sub(begun.elapsed());
        let skipped = if args.skip.iter().any(|skip| skip == name) {
            Some("by --skip".to_owned())
        } else if call_fails {
            Some("the call fails".to_owned())
        } else {
            let over = || format!("the time limit of {} s was reached", args.call.time_limit);
            limit.is_zero().then(over)
        };
        if let Some(why) = skipped {
            let status = Status::Skipped(why);
            results.push(CheckResult { name, status });
            continue;
        }
        let mut options = vec![format!("--only={name}")];
        if let (None, HandlerName::Name(name)) = (&args.call.handler, handler) {
            options.push(format!("--handler={name}"));
        }
        let status = match child_process::rerun_for_answer(limit, &options) {
            Ok(answer) => serde_json::from_value(answer.unwrap_or_default())?,
            Err(crash) => Status::Failed(output::error_text(&crash)),
        };
        call_fails |= *name == "runs" && matches!(status, Status::Failed(_));
        results.push(CheckResult { name, status });
    }
    Ok(results)
}

fn report_text(title: &str, results: &[CheckResult]) -> String {
    let counts = ["passed", "failed", "note", "skipped"].map(|status| {
        let equal = |result: &&CheckResult| result.status.parts().0 == status;
        (results.iter().filter(equal).count(), status)
    });
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<_> = counts.map(|(count, s)| format!("{count} {s}")).collect();
    let mut text = format!("{title} on the embedded runtime: {}\n", counts.join(", "));
    for result in results {
        let (status, why) = result.status.parts();
        let why = why.replace('\n', "\n          ");
        text.push_str(&format!("  {status:<8}{}: {why}\n", result.name));
    }
    text
}

fn report_json(title: &str, results: &[CheckResult]) -> serde_json::Value {
    let result = |result: &CheckResult| {
        let (status, text) = result.status.parts();
        json!({"name": result.name, "status": status, "text": text})
    };
    let checks: Vec<_> = results.iter().map(result).collect();
    json!({"handler": title, "checks": checks})
}
