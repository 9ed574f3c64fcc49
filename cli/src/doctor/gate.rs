//! Decides which findings fail the run. Findings in an allow-list or a baseline do not fail the run.

use super::ExaminedLibrary;
use super::report::are_alike;
use crate::baseline::{self, Lists};
use xla_ffi_abi::xla_ffi_sys::Revision;
use xla_ffi_doctor::{Confidence, Finding, Loads, Problem, Severity, Subject};

/// The lowest severity that fails the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Threshold {
    /// Only failures that are proved.
    Fails,
    /// Failures and risks, proved or possible.
    Risk,
}

/// A finding, with the jaxlibs on which it applies.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// The library's path in its wheel, or its file name.
    pub(crate) library: String,
    /// The path of the library, as on the command line.
    pub(crate) path: String,
    pub(crate) finding: Finding,
    /// The jaxlibs on which the finding applies; empty for all jaxlibs.
    pub(crate) jaxlibs: Vec<String>,
    /// Whether the finding reports an incomplete check.
    pub(crate) open: bool,
}

impl Item {
    /// Returns the key of the finding in lists, such as `XF204 libmine.so/my_op`.
    pub(crate) fn key(&self) -> String {
        baseline::key(self.finding.problem.id(), &self.library, self.subject())
    }

    /// Returns the subject of the finding as written in lists.
    fn subject(&self) -> &str {
        match &self.finding.subject {
            Subject::Library => "library",
            Subject::Machine => "machine",
            Subject::Wheel => "wheel",
            Subject::Handler(name) | Subject::Legacy(name) => name,
        }
    }

    /// Returns the finding's subject as text.
    pub(crate) fn shown(&self) -> String {
        match &self.finding.subject {
            Subject::Wheel => "wheel".to_owned(),
            Subject::Library => self.library.clone(),
            other => format!("{}, {other}", self.library),
        }
    }

    /// Returns true if two findings about the same library differ only in the handler that they report.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        self.library == other.library
            && self.jaxlibs == other.jaxlibs
            && are_alike(&self.finding, &other.finding)
    }

    /// Returns true if the finding fails the run at this threshold, unless a list allows it.
    fn fails(&self, threshold: Threshold, strict: bool) -> bool {
        if self.open {
            return strict;
        }
        match threshold {
            Threshold::Fails => self.finding.is_proved_failure(),
            Threshold::Risk => self.finding.severity <= Severity::Risk,
        }
    }
}

/// Returns the findings about one library. If `asked` is true, the user chose the jaxlibs, so that refusals which the
/// manifest declares also count.
pub(crate) fn items(judged: &ExaminedLibrary, asked: bool) -> Vec<Item> {
    let item = |finding: &Finding, jaxlibs: Vec<String>, open: bool| Item {
        library: judged.name(),
        path: judged.path.display().to_string(),
        finding: finding.clone(),
        jaxlibs,
        open,
    };
    let findings = &judged.examination.findings;
    let mut items: Vec<Item> = findings
        .iter()
        // Crashes in metadata calls are added below, with the jaxlibs on which they occur.
        .filter(|finding| finding.problem != Problem::Breaks)
        .map(|finding| {
            let nothing_judged =
                finding.problem == Problem::UnknownHandlers && judged.candidates.is_empty();
            let open = finding.problem == Problem::NotRun || nothing_judged;
            item(finding, Vec::new(), open)
        })
        .collect();
    // If a finding already reports the cause of a refusal, the refusal is not reported.
    let is_reported = |handler: &str| {
        let own = Subject::Handler(handler.to_owned());
        crate::probe::broken(findings).is_some()
            || findings
                .iter()
                .any(|found| found.problem == Problem::NotExported && found.subject == own)
    };
    let mut found: Vec<Item> = Vec::new();
    let mut add = |finding: Finding, jaxlib: &str, open: bool| match found
        .iter_mut()
        .find(|known| known.finding == finding)
    {
        Some(known) => known.jaxlibs.push(jaxlib.to_owned()),
        None => found.push(item(&finding, vec![jaxlib.to_owned()], open)),
    };
    for verdict in &judged.verdicts {
        let about = |confidence, severity, problem, what: &str| {
            let finding = Finding::new(confidence, severity, problem, what, verdict.why.clone());
            let headers = Revision::from_name(verdict.revision).map_or("", Revision::first_jaxlib);
            let fix = format!(
                "require a jaxlib that loads it, or build against the headers of jaxlib {headers}"
            );
            let finding = finding.about_handler(&verdict.handler);
            match problem {
                Problem::Refused => finding.fix(fix),
                _ => finding,
            }
        };
        match verdict.loads {
            Loads::Yes if verdict.confidence == Confidence::Proved => {}
            Loads::No if verdict.declared && !asked => {}
            Loads::No if judged.explained.contains(&verdict.jaxlib) => continue,
            Loads::No if !verdict.declared && is_reported(&verdict.handler) => continue,
            Loads::No => {
                let (confidence, severity) = match verdict.confidence {
                    Confidence::Proved => (Confidence::Proved, Severity::Fails),
                    confidence => (confidence, Severity::Risk),
                };
                let refused = about(confidence, severity, Problem::Refused, "does not work");
                add(refused, &verdict.jaxlib, false);
            }
            Loads::Yes | Loads::Unknown => {
                let what = "could not be proved to load";
                let unknown = about(Confidence::Unknown, Severity::Note, Problem::NotKnown, what);
                add(unknown, &verdict.jaxlib, true);
            }
        }
        for risk in &verdict.risks {
            add(risk.clone(), &verdict.jaxlib, false);
        }
    }
    items.extend(found);
    items
}

/// The findings that fail the run, and the findings that reach the threshold but do not fail the run.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    /// The findings that fail the run.
    pub(crate) failing: Vec<Item>,
    /// The findings that a list allows, each with the reason in the list.
    pub(crate) known: Vec<(Item, String)>,
    /// The findings about incomplete checks that do not fail the run without `--strict`.
    pub(crate) open: Vec<Item>,
}

impl Decision {
    pub(crate) fn of(
        items: &[Item],
        threshold: Threshold,
        strict: bool,
        lists: &mut Lists,
    ) -> Self {
        let mut decision = Self::default();
        for item in items {
            if !item.fails(threshold, strict) {
                if item.open {
                    decision.open.push(item.clone());
                }
                continue;
            }
            let id = item.finding.problem.id();
            // Lists cannot allow a finding about an incomplete check.
            let known = match item.open {
                true => None,
                false => lists.reason(id, &item.library, item.subject()),
            };
            match known {
                Some(reason) => decision.known.push((item.clone(), reason)),
                None => decision.failing.push(item.clone()),
            }
        }
        decision
    }

    /// Returns the reason for the exit status in one word, for JSON output.
    pub(crate) fn kind(&self) -> &'static str {
        match self.failing.as_slice() {
            [] => "ok",
            items if items.iter().all(|item| item.open) => "not-judged",
            _ => "findings",
        }
    }

    /// Returns the lines of a baseline. These are the findings that fail the run or that a list allows. Findings about
    /// incomplete checks are omitted.
    pub(crate) fn keys(&self) -> impl Iterator<Item = String> {
        let known = self.known.iter().map(|(item, _)| item);
        let judged = self.failing.iter().filter(|item| !item.open);
        judged.chain(known).map(Item::key)
    }

    /// Returns true if the run fails because of an incomplete check.
    pub(crate) fn lacks_judgement(&self) -> bool {
        self.failing.iter().any(|item| item.open)
    }
}
