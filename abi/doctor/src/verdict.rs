//! The verdict about one handler and one jaxlib: whether the jaxlib loads the handler.

use crate::candidate::{Behaviour, Candidate, Outcome, Use, asks_for_type};
use crate::finding::{Confidence, Finding, Problem, Severity, Subject};
use crate::release::number;
use serde::Serialize;
use xla_ffi_sys::{Revision, Slot, StateReading};

/// The answer to the question whether a jaxlib loads a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Loads {
    /// The jaxlib loads the handler, and calls can be made.
    Yes,
    /// The handler does not load, is refused, or needs a missing function.
    No,
    /// It is unknown whether the jaxlib loads the handler.
    Unknown,
}

/// The verdict on a handler for one jaxlib.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The version of the jaxlib release.
    pub jaxlib: String,
    /// The ABI revision of the release.
    pub revision: &'static str,
    /// The name of the handler.
    pub handler: String,
    /// Whether the jaxlib loads the handler.
    pub loads: Loads,
    /// The confidence of the verdict.
    pub confidence: Confidence,
    /// Whether the handler's declared floor is newer than this jaxlib.
    pub declared: bool,
    /// The reason for the verdict.
    pub why: String,
    /// Findings about the risks of calls on this jaxlib.
    pub risks: Vec<Finding>,
}

/// Returns the verdict on `candidate` for the published jaxlib `version`.
///
/// `broken` is the finding that prevents the library from loading; `compiled_with` are the revisions whose structs are
/// in its debug information.
#[must_use]
pub fn verdict(
    version: &str,
    candidate: &Candidate,
    broken: Option<&Finding>,
    compiled_with: &[Revision],
) -> Verdict {
    let revision = Revision::of_jaxlib(version).unwrap_or(Revision::NEWEST);
    let mut verdict = Verdict {
        jaxlib: version.to_owned(),
        revision: revision.name(),
        handler: candidate.name.clone(),
        loads: Loads::Unknown,
        confidence: Confidence::Proved,
        declared: false,
        why: String::new(),
        risks: Vec::new(),
    };
    if let Some(finding) = broken {
        verdict.loads = Loads::No;
        verdict.why = finding.what.clone();
        if finding.subject == Subject::Machine {
            verdict.confidence = Confidence::Possible;
        }
        return verdict;
    }
    let behaviour = candidate.behaviour();
    if let Some(floor) = candidate.floor {
        if revision < floor {
            verdict.loads = Loads::No;
            verdict.declared = true;
            verdict.why = format!(
                "the manifest declares that it needs {floor} (jaxlib {})",
                floor.first_jaxlib()
            );
            return verdict;
        }
    }
    if revision == Revision::R0 && !candidate.was_asked() {
        verdict.confidence = Confidence::Unknown;
        let skipped = candidate
            .answers
            .iter()
            .find_map(|answer| match &answer.outcome {
                Outcome::Skipped { why } => Some(why.as_str()),
                _ => None,
            });
        verdict.why = skipped.unwrap_or("no metadata call was made").to_owned();
        return verdict;
    }
    if revision == Revision::R0 && candidate.is_refused_by_all() {
        verdict.loads = Loads::Unknown;
        verdict.confidence = Confidence::Possible;
        verdict.why =
            "r0 makes no metadata call, and all other revisions refuse the handler".to_owned();
        return verdict;
    }
    if revision == Revision::R0 {
        verdict.loads = Loads::Yes;
        verdict.why = "r0 accepts every handler".to_owned();
        if behaviour != Behaviour::Negotiates {
            verdict.risks.push(r0_risk(candidate));
        } else if let Use::Yes(why) | Use::Perhaps(why) = &candidate.state {
            verdict.risks.push(
                Finding::risk(
                    Problem::OldestRuntime,
                    "returns an error on r0, because it has state",
                    format!("{why}; r0 does not run instantiate stages"),
                )
                .about_handler(&candidate.name),
            );
        }
        return verdict;
    }
    let answer = candidate
        .answers
        .iter()
        .find(|answer| answer.revision == revision.name());
    match answer.map(|answer| &answer.outcome) {
        Some(Outcome::Accepted {
            version: (major, minor),
            ..
        }) => {
            verdict.loads = Loads::Yes;
            verdict.why = format!("its API version {major}.{minor} is accepted");
            if let Behaviour::Fixed(minor) = behaviour {
                hazards(
                    version,
                    revision,
                    minor,
                    candidate,
                    compiled_with,
                    &mut verdict.risks,
                );
            }
        }
        // The runtime refuses the handler if no type, or a different type, was registered for the handler's state.
        Some(Outcome::Refused { why }) if asks_for_type(why) => {
            verdict.loads = Loads::Unknown;
            verdict.confidence = Confidence::Possible;
            let which = match candidate.has_types {
                true => "; a different type was registered",
                false => "",
            };
            verdict.why = format!(
                "the type of its state must be registered first{which}; pass it with --type NAME=ID,INFO"
            );
        }
        Some(Outcome::Refused { why }) => {
            verdict.loads = Loads::No;
            verdict.why.clone_from(why);
        }
        // The runtime accepts the handler, but the handler overwrites 8 bytes of the runtime's stack. jaxlib 0.4.34 and
        // 0.5.1 survive this; the effect on other releases is unknown.
        Some(Outcome::Broke { overran: true, how }) if behaviour == Behaviour::Fixed(1) => {
            verdict.loads = Loads::Unknown;
            verdict.confidence = Confidence::Possible;
            verdict.why =
                "it overwrites 8 bytes of the runtime's stack, with unknown effect".to_owned();
            verdict.risks.push(
                // The write past the metadata is proved, but its effect is not.
                Finding::proved_risk(
                    Problem::MetadataOverrun,
                    "overwrites the runtime's memory in the metadata call",
                    how.clone(),
                )
                .about_handler(&candidate.name)
                .fix("rebuild with this SDK, or require jaxlib 0.8.0 or later"),
            );
        }
        Some(Outcome::Broke { how, .. }) => {
            verdict.loads = Loads::No;
            verdict.why.clone_from(how);
        }
        Some(Outcome::Skipped { why }) => {
            verdict.confidence = Confidence::Unknown;
            verdict.why.clone_from(why);
        }
        None => {
            verdict.confidence = Confidence::Unknown;
            verdict.why = "no metadata call was made".to_owned();
        }
    }
    verdict
}

fn r0_risk(candidate: &Candidate) -> Finding {
    Finding::risk(
        Problem::OldestRuntime,
        "may use functions that r0 does not have",
        "r0 accepts every handler, but calls for thread pools and futures are past the end of its table, and State_Get \
         crashes",
    )
    .about_handler(&candidate.name)
    .fix("require jaxlib 0.4.33 or later, or rebuild with this SDK")
}

/// Adds the risks that a handler built with XLA's headers of API version 0.`minor` has on this jaxlib.
fn hazards(
    version: &str,
    revision: Revision,
    minor: i32,
    candidate: &Candidate,
    compiled_with: &[Revision],
    risks: &mut Vec<Finding>,
) {
    // Newer releases of r8 recognise the state arguments of version 0.2 by their size, as r9 does.
    let recognised_by_size = minor == 2 && number(version) >= number("0.10.0");
    let reading = match StateReading::of(revision, minor) {
        StateReading::Refused if recognised_by_size => StateReading::Right,
        reading => reading,
    };
    match reading {
        _ if candidate.state == Use::No => {}
        StateReading::Right => state_type(version, revision, minor, candidate, risks),
        StateReading::Refused | StateReading::Misread => {
            let what = match reading {
                StateReading::Refused => {
                    "the runtime refuses the size of its State_Set arguments, with an error or a crash"
                }
                _ => {
                    "the runtime misreads its State_Set and State_Get arguments, with an error or a crash"
                }
            };
            let (confidence, severity, known) = weigh(&candidate.state, "it may have state");
            risks.push(
                Finding::new(
                    confidence,
                    severity,
                    Problem::StateLayout,
                    what,
                    format!(
                        "{known}; its state arguments have the layout of version 0.{minor}, and 0.1, 0.2 and 0.3 have \
                         different layouts"
                    ),
                )
                .about_handler(&candidate.name)
                .fix("rebuild with this SDK, which uses the runtime's layout"),
            );
        }
    }
    if minor == 1 {
        future_hazard(revision, candidate, compiled_with, risks);
    }
}

/// The first release on which Python can register a state's type. On older releases, the library must register it.
const FIRST_WITH_TYPES: &str = "0.4.38";

/// Adds a risk if the type of the handler's state may not be registered as this runtime requires.
fn state_type(
    version: &str,
    revision: Revision,
    minor: i32,
    candidate: &Candidate,
    risks: &mut Vec<Finding>,
) {
    let (Use::Yes(known) | Use::Perhaps(known)) = &candidate.state else {
        return;
    };
    let (what, why, fix) = if number(version) < number(FIRST_WITH_TYPES) {
        (
            "cannot use its state, because Python cannot register the type",
            format!(
                "{known}; jaxlib {FIRST_WITH_TYPES} is the first that registers types from Python"
            ),
            "register the type in the library with the function table of the call frame",
        )
    } else if minor == 1 && revision >= Revision::R7 {
        // Handlers with headers of version 0.1 pass a deleter with each state, but these runtimes do not call the
        // deleter.
        (
            "works only if the type of its state is registered with a deleter",
            format!(
                "{known}; headers of version 0.1 have no TypeInfo, from which this runtime reads the deleter"
            ),
            "register the type with a TypeInfo whose deleter frees the state, or rebuild with this SDK",
        )
    } else if !candidate.has_types {
        (
            "works only if the type of its state is registered first",
            format!("{known}; XLA's headers do not register types"),
            "call jax.ffi.register_ffi_type (register_ffi_type_id before jax 0.8.1) first, and pass the type with --type",
        )
    } else {
        return;
    };
    risks.push(
        Finding::risk(Problem::StateType, what, why)
            .about_handler(&candidate.name)
            .fix(fix),
    );
}

/// Adds a risk if the handler may call a wrong function, because the slots of the future functions moved within API
/// version 0.1.
fn future_hazard(
    revision: Revision,
    candidate: &Candidate,
    compiled_with: &[Revision],
    risks: &mut Vec<Finding>,
) {
    let slot = |revision: Revision| Slot::FutureCreate.index(revision);
    // Without debug information, the header's revision is unknown, so r2 and r3 represent the two possible positions of
    // the slots. API version 0.1 is r1 to r6, and r1 has no futures.
    let headers: Vec<Revision> = compiled_with
        .iter()
        .copied()
        .filter(|header| header.minor_version() == 1)
        .collect();
    let headers = if headers.is_empty() {
        vec![Revision::R2, Revision::R3]
    } else {
        headers
    };
    let clash: Vec<String> = headers
        .iter()
        .filter(|header| slot(**header).is_some() && slot(**header) != slot(revision))
        .map(|header| header.name().to_owned())
        .collect();
    if clash.is_empty() {
        return;
    }
    if candidate.future == Use::No {
        return;
    }
    let (mut confidence, mut severity, known) = weigh(&candidate.future, "it may create futures");
    if compiled_with.is_empty() || clash.len() < headers.len() {
        (confidence, severity) = (Confidence::Possible, Severity::Risk);
    }
    let what = match slot(revision) {
        None => "creating a future calls a function past the end of the runtime's table",
        Some(_) => "creating a future calls a wrong function of the runtime",
    };
    risks.push(
        Finding::new(
            confidence,
            severity,
            Problem::FutureSlots,
            what,
            format!(
                "{known}; {} {}, where the future slots have other positions, because r3 inserted \
                 ThreadPool_NumThreads without a new version",
                if compiled_with.is_empty() {
                    "it may be compiled with a header of"
                } else {
                    "it is compiled with a header of"
                },
                clash.join(" or ")
            ),
        )
        .about_handler(&candidate.name)
        .fix("rebuild with this SDK, which finds the slots by the table's length"),
    );
}

/// Returns the confidence, severity and reason of a risk that exists only if the handler uses a feature.
fn weigh<'a>(used: &'a Use, unknown: &'a str) -> (Confidence, Severity, &'a str) {
    match used {
        Use::Yes(why) => (Confidence::Proved, Severity::Fails, why),
        Use::Perhaps(why) => (Confidence::Possible, Severity::Risk, why),
        Use::No | Use::Unknown => (Confidence::Possible, Severity::Risk, unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::Answer;

    fn candidate(state: bool, answer: impl Fn(Revision) -> Outcome) -> Candidate {
        Candidate {
            name: "h".to_owned(),
            stages: vec![("execute".to_owned(), "h".to_owned())],
            floor: None,
            state: if state {
                Use::Yes("a test says so".to_owned())
            } else {
                Use::Unknown
            },
            future: Use::Unknown,
            has_types: true,
            answers: Revision::ALL[1..]
                .iter()
                .map(|revision| Answer {
                    revision: revision.name(),
                    outcome: answer(*revision),
                })
                .collect(),
        }
    }

    /// Returns the outcome of a metadata call of a handler that answers with version 0.`minor` on every runtime, as
    /// handlers with XLA's headers do.
    fn fixed(minor: i32, revision: Revision) -> Outcome {
        let own = revision.minor_version();
        if minor <= own && (own > 1 || minor == 1) {
            Outcome::Accepted {
                version: (0, minor),
                traits: 0,
                has_state_type: false,
                misread: None,
            }
        } else {
            Outcome::Refused {
                why: "newer".to_owned(),
            }
        }
    }

    fn negotiating(revision: Revision) -> Outcome {
        Outcome::Accepted {
            version: (0, revision.minor_version()),
            traits: 0,
            has_state_type: false,
            misread: None,
        }
    }

    fn on(version: &str, candidate: &Candidate) -> Verdict {
        verdict(version, candidate, None, &[])
    }

    #[test]
    fn state_of_an_old_header_threatens_new_runtimes() {
        let state = |version: &str, candidate: &Candidate| -> Vec<(Confidence, Severity)> {
            let risks = on(version, candidate).risks;
            let about_state = risks
                .iter()
                .filter(|risk| risk.problem == Problem::StateLayout);
            about_state
                .map(|risk| (risk.confidence, risk.severity))
                .collect()
        };
        let old = candidate(true, |r| fixed(1, r));
        assert_eq!(
            state("0.12.0", &old),
            [(Confidence::Proved, Severity::Fails)]
        );
        assert_eq!(state("0.8.0", &old), []);
        let unsure = candidate(false, |r| fixed(1, r));
        assert_eq!(
            state("0.12.0", &unsure),
            [(Confidence::Possible, Severity::Risk)]
        );
        // From jaxlib 0.10.0 on, the runtime recognises the state arguments of API version 0.2 by their size.
        let second = candidate(true, |r| fixed(2, r));
        assert_eq!(state("0.9.1", &second).len(), 1);
        assert_eq!(state("0.10.0", &second), []);
        assert_eq!(state("0.12.0", &candidate(true, |r| fixed(3, r))), []);
    }

    #[test]
    fn futures_threaten_where_slots_moved() {
        let old = candidate(false, |r| fixed(1, r));
        let risks = |version: &str, compiled: &[Revision]| {
            verdict(version, &old, None, compiled)
                .risks
                .into_iter()
                .filter(|risk| risk.problem == Problem::FutureSlots)
                .count()
        };
        assert_eq!(risks("0.4.34", &[Revision::R2]), 0);
        assert_eq!(risks("0.4.38", &[Revision::R2]), 1);
        assert_eq!(risks("0.4.34", &[Revision::R5]), 1);
        assert_eq!(risks("0.12.0", &[Revision::R5]), 0);
        assert_eq!(risks("0.4.33", &[Revision::R5]), 1);
        assert_eq!(risks("0.12.0", &[Revision::R1]), 0);
        assert_eq!(risks("0.12.0", &[]), 1);
    }

    #[test]
    fn a_declared_floor_is_no_mistake() {
        let mut ours = candidate(false, negotiating);
        ours.floor = Some(Revision::R9);
        let verdict = on("0.10.2", &ours);
        assert!(verdict.loads == Loads::No && verdict.declared);
        assert_eq!(on("0.11.1", &ours).loads, Loads::Yes);
        // A handler whose floor is the newest revision answers with one version on all runtimes, as a handler with a
        // fixed version does.
        let mut newest = candidate(false, |r| fixed(5, r));
        assert_eq!(newest.behaviour(), Behaviour::Fixed(5));
        newest.floor = Some(Revision::R10);
        assert_eq!(newest.behaviour(), Behaviour::Negotiates);
        newest.floor = Some(Revision::R1);
        assert_eq!(newest.behaviour(), Behaviour::Fixed(5));
    }
}
