//! The gate: which findings stop a release. Known ones stay quiet: those on the list of what is allowed, each
//! with its reason, and those of the baseline.

use super::ExaminedLibrary;
use crate::baseline::{self, Lists};
use xla_ffi_doctor::{Confidence, Finding, Loads, Problem, Severity, Subject};

/// From which severity on a finding fails the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Threshold {
    /// What is proved to fail.
    Fails,
    /// Every risk too.
    Risk,
}

/// One thing that the gate looks at: a finding, on all jaxlibs that were asked about or on some.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// The library's file name.
    pub(crate) library: String,
    /// The library as it was given.
    pub(crate) path: String,
    pub(crate) finding: Finding,
    /// The jaxlibs on which it holds; empty for all.
    pub(crate) jaxlibs: Vec<String>,
    /// Whether it says that something was not judged.
    pub(crate) open: bool,
}

impl Item {
    /// `XF204 libmine.so/my_op`, by which lists know it.
    pub(crate) fn key(&self) -> String {
        baseline::key(self.finding.problem.id(), &self.library, self.subject())
    }

    /// What it is about, as lists name it.
    fn subject(&self) -> &str {
        match &self.finding.subject {
            Subject::Library => "library",
            Subject::Machine => "machine",
            Subject::Wheel => "wheel",
            Subject::Handler(name) | Subject::Legacy(name) => name,
        }
    }

    /// What it is about, for people.
    pub(crate) fn shown(&self) -> String {
        match &self.finding.subject {
            Subject::Wheel => "wheel".to_owned(),
            Subject::Library => self.library.clone(),
            other => format!("{}, {other}", self.library),
        }
    }

    /// Whether it fails at this threshold.
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

/// Everything that the gate looks at in one library.
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
        // A verdict says on which jaxlibs.
        .filter(|finding| finding.problem != Problem::Breaks)
        .map(|finding| {
            let nothing_judged =
                finding.problem == Problem::UnknownHandlers && judged.candidates.is_empty();
            let open = finding.problem == Problem::NotRun || nothing_judged;
            item(finding, Vec::new(), open)
        })
        .collect();
    // What a refusal follows from is said once.
    let is_told = |handler: &str| {
        let own = Subject::Handler(handler.to_owned());
        crate::probe::broken(findings).is_some()
            || findings
                .iter()
                .any(|found| found.problem == Problem::NotExported && found.subject == own)
    };
    let mut told: Vec<Item> = Vec::new();
    let mut tell = |finding: Finding, jaxlib: &str, open: bool| match told
        .iter_mut()
        .find(|known| known.finding == finding)
    {
        Some(known) => known.jaxlibs.push(jaxlib.to_owned()),
        None => told.push(item(&finding, vec![jaxlib.to_owned()], open)),
    };
    for verdict in &judged.verdicts {
        let about = |confidence, severity, problem, what: &str| {
            Finding::new(confidence, severity, problem, what, verdict.why.clone())
                .about_handler(&verdict.handler)
        };
        match verdict.loads {
            Loads::Yes if verdict.confidence == Confidence::Proved => {}
            Loads::No if verdict.declared && !asked => {}
            Loads::No if !verdict.declared && is_told(&verdict.handler) => continue,
            Loads::No => {
                let (confidence, severity) = match verdict.confidence {
                    Confidence::Proved => (Confidence::Proved, Severity::Fails),
                    confidence => (confidence, Severity::Risk),
                };
                let refused = about(confidence, severity, Problem::Refused, "it does not work");
                tell(refused, &verdict.jaxlib, false);
            }
            Loads::Yes | Loads::Unknown => {
                let what = "it was not proved that it loads";
                let unknown = about(Confidence::Unknown, Severity::Note, Problem::NotKnown, what);
                tell(unknown, &verdict.jaxlib, true);
            }
        }
        for risk in &verdict.risks {
            tell(risk.clone(), &verdict.jaxlib, false);
        }
    }
    items.extend(told);
    items
}

/// What the gate says.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    /// What fails.
    pub(crate) failing: Vec<Item>,
    /// What would fail and is known: with the reason that the list gives.
    pub(crate) known: Vec<(Item, String)>,
    /// What was not judged and does not fail, since nobody said `--strict`.
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
            // What was not judged cannot be known either.
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

    /// Why the exit status is what it is: one word for programs.
    pub(crate) fn kind(&self) -> &'static str {
        match self.failing.as_slice() {
            [] => "ok",
            items if items.iter().all(|item| item.open) => "not-judged",
            _ => "findings",
        }
    }

    /// Everything that was judged and fails now: the lines of a baseline.
    pub(crate) fn keys(&self) -> impl Iterator<Item = String> {
        let known = self.known.iter().map(|(item, _)| item);
        let judged = self.failing.iter().filter(|item| !item.open);
        judged.chain(known).map(Item::key)
    }

    /// Whether something fails that no baseline takes either.
    pub(crate) fn lacks_judgement(&self) -> bool {
        self.failing.iter().any(|item| item.open)
    }
}
