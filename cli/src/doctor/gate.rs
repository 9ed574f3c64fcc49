//! The gate: which findings stop a release. Known ones stay quiet: those on the list of what is allowed, each
//! with its reason, and those of the baseline.

use super::Judged;
use crate::known::{self, Lists};
use xla_ffi_doctor::{Finding, Level, Loads, Problem, Subject, Verdict, Weight};

/// From which weight on a finding fails the gate.
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
    /// The finding that it follows from. While that one fails it needs no word; where a list knows that one, this is
    /// what the list must not make green.
    pub(crate) behind: Option<Finding>,
}

impl Item {
    /// `XF204 libmine.so/my_op`, by which lists know it.
    pub(crate) fn key(&self) -> String {
        known::key(self.finding.problem.id(), &self.library, self.subject())
    }

    fn subject(&self) -> &str {
        subject(&self.finding)
    }

    /// What it is about, for people.
    pub(crate) fn shown(&self) -> String {
        match &self.finding.subject {
            Subject::Wheel => "wheel".to_owned(),
            Subject::Library => crate::words::one_line(&self.library),
            other => crate::words::one_line(&format!("{}, {other}", self.library)),
        }
    }

    /// Whether it fails at this threshold.
    fn fails(&self, threshold: Threshold, strict: bool) -> bool {
        if self.open {
            return strict;
        }
        match threshold {
            Threshold::Fails => self.finding.is_proved_failure(),
            Threshold::Risk => self.finding.weight <= Weight::Risk,
        }
    }
}

/// What a finding is about, as lists name it.
fn subject(finding: &Finding) -> &str {
    match &finding.subject {
        Subject::Library => "library",
        Subject::Machine => "machine",
        Subject::Wheel => "wheel",
        Subject::Handler(name) | Subject::Legacy(name) => name,
    }
}

/// The finding that a refusal follows from, which says once what every jaxlib would: the library does not load, or
/// a symbol of this handler is not there. What else is wrong, of this handler or of others, refuses nothing.
fn cause<'a>(verdict: &Verdict, findings: &'a [Finding]) -> Option<&'a Finding> {
    let own = |finding: &&Finding| {
        let this = matches!(&finding.subject, Subject::Handler(name) if *name == verdict.handler);
        this && finding.is_proved_failure() && finding.problem == Problem::NotExported
    };
    crate::ask::broken(findings).or_else(|| findings.iter().find(own))
}

/// Everything that the gate looks at in one library.
pub(crate) fn items(judged: &Judged, asked: bool) -> Vec<Item> {
    let item = |finding: &Finding, jaxlibs: Vec<String>, open: bool| Item {
        library: judged.name(),
        path: judged.path.display().to_string(),
        finding: finding.clone(),
        jaxlibs,
        open,
        behind: None,
    };
    let mut items: Vec<Item> = judged
        .examination
        .findings
        .iter()
        // A verdict says on which jaxlibs.
        .filter(|finding| finding.problem != Problem::Breaks)
        .map(|finding| {
            let nothing_judged =
                finding.problem == Problem::UnknownHandlers && judged.candidates.is_empty();
            item(
                finding,
                Vec::new(),
                finding.problem == Problem::NotRun || nothing_judged,
            )
        })
        .collect();
    let findings = &judged.examination.findings;
    let mut told: Vec<Item> = Vec::new();
    let mut tell = |finding: Finding, jaxlib: &str, open: bool, behind: Option<&Finding>| {
        let is_told = |known: &&mut Item| known.finding == finding;
        match told.iter_mut().find(is_told) {
            Some(known) => known.jaxlibs.push(jaxlib.to_owned()),
            None => told.push(Item {
                behind: behind.cloned(),
                ..item(&finding, vec![jaxlib.to_owned()], open)
            }),
        }
    };
    for verdict in &judged.verdicts {
        let about = |level, weight, problem, what: &str| {
            Finding::new(level, weight, problem, what, verdict.why.clone())
                .about_handler(&verdict.handler)
        };
        match verdict.loads {
            Loads::Yes if verdict.level == Level::Proved => {}
            Loads::No if verdict.declared && !asked => {}
            Loads::No => {
                let behind = cause(verdict, findings).filter(|_| !verdict.declared);
                if let Some(behind) = behind {
                    let mut finding = not_known(verdict);
                    finding.why = not_judged(behind);
                    tell(finding, &verdict.jaxlib, true, Some(behind));
                    continue;
                }
                let (level, weight) = match verdict.level {
                    Level::Proved => (Level::Proved, Weight::Fails),
                    level => (level, Weight::Risk),
                };
                tell(
                    about(level, weight, Problem::Refused, "it does not work"),
                    &verdict.jaxlib,
                    false,
                    None,
                );
            }
            Loads::Yes | Loads::Unknown => {
                tell(not_known(verdict), &verdict.jaxlib, true, None);
            }
        }
        for risk in &verdict.risks {
            tell(risk.clone(), &verdict.jaxlib, false, None);
        }
    }
    items.extend(told);
    // Nor has anybody looked at what a library without handlers of its own has.
    if let (true, Some(behind)) = (judged.verdicts.is_empty(), crate::ask::broken(findings)) {
        let why = not_judged(behind);
        let finding = Finding::new(
            Level::Unknown,
            Weight::Note,
            Problem::NotKnown,
            "it was not proved that it loads",
            why,
        );
        items.push(Item {
            behind: Some(behind.clone()),
            ..item(&finding, Vec::new(), true)
        });
    }
    items
}

/// Why nothing was judged behind a finding that a list knows.
fn not_judged(behind: &Finding) -> String {
    format!(
        "a list knows what keeps it from being judged: {}",
        behind.what
    )
}

/// That a handler was not proved to load.
fn not_known(verdict: &Verdict) -> Finding {
    Finding::new(
        Level::Unknown,
        Weight::Note,
        Problem::NotKnown,
        "it was not proved that it loads",
        verdict.why.clone(),
    )
    .about_handler(&verdict.handler)
}

/// Without what follows from a finding that fails by itself. What a list knows, or is to know (`writes`), says
/// nothing of what nobody could judge for it: that stays open.
pub(crate) fn without_followers(
    mut items: Vec<Item>,
    lists: &mut Lists,
    writes: bool,
) -> Vec<Item> {
    items.retain(|item| match &item.behind {
        None => true,
        Some(behind) => {
            let known = lists.reason(behind.problem.id(), &item.library, subject(behind));
            writes || known.is_some()
        }
    });
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
