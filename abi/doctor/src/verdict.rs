//! What becomes of a handler on one jaxlib.

use crate::candidate::{Behaviour, Candidate, Outcome, Use, asks_for_type};
use crate::finding::{Confidence, Finding, Problem, Severity, Subject};
use crate::release::RELEASES;
use serde::Serialize;
use xla_ffi_abi::declared::parse_version;
use xla_ffi_sys::{Revision, Slot, StateReading};

/// The revision of a jaxlib, and how sure that is.
#[must_use]
pub fn jaxlib(version: &str) -> Option<(Revision, Confidence)> {
    let revision = Revision::of_jaxlib(version)?;
    // A release that is not published yet may bring what is not known; one that never was between two that
    // are known has the revision of one of them.
    let confidence = match RELEASES.contains(&version) {
        true => Confidence::Proved,
        false => Confidence::Possible,
    };
    Some((revision, confidence))
}

/// Whether a jaxlib takes a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Loads {
    /// It registers and can do its work.
    Yes,
    /// It does not load, is refused, or lacks what it needs.
    No,
    /// It was not found out.
    Unknown,
}

/// What becomes of a handler on one jaxlib.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The release.
    pub jaxlib: String,
    /// Its revision.
    pub revision: &'static str,
    /// The handler.
    pub handler: String,
    /// Whether it is taken.
    pub loads: Loads,
    /// How sure.
    pub confidence: Confidence,
    /// Whether a refusal is what the library declares, not a mistake.
    pub declared: bool,
    /// Why.
    pub why: String,
    /// What may still go wrong.
    pub risks: Vec<Finding>,
}

/// What becomes of `candidate` on jaxlib `version`; `broken` says why the library as a whole does
/// not load, `compiled_with` the revisions that its debug information shows.
#[must_use]
pub fn verdict(
    version: &str,
    (revision, sure): (Revision, Confidence),
    candidate: &Candidate,
    broken: Option<&Finding>,
    compiled_with: &[Revision],
) -> Verdict {
    let mut verdict = Verdict {
        jaxlib: version.to_owned(),
        revision: revision.name(),
        handler: candidate.name.clone(),
        loads: Loads::Unknown,
        confidence: sure,
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
                "it needs {floor} (jaxlib {}) for all of its work, and says so",
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
        verdict.why = skipped.unwrap_or("it was not asked").to_owned();
        return verdict;
    }
    if revision == Revision::R0 && candidate.is_refused_by_all() {
        verdict.loads = Loads::Unknown;
        verdict.confidence = Confidence::Possible;
        verdict.why = "runtimes of r0 ask nothing, and all that ask refuse it".to_owned();
        return verdict;
    }
    if revision == Revision::R0 {
        verdict.loads = Loads::Yes;
        verdict.why = "accepted: runtimes of r0 ask nothing".to_owned();
        if behaviour != Behaviour::Negotiates {
            verdict.risks.push(r0_risk(candidate));
        } else if let Use::Yes(why) | Use::Perhaps(why) = &candidate.state {
            verdict.risks.push(
                Finding::risk(
                    Problem::OldestRuntime,
                    "a handler that keeps state answers with an error on r0",
                    format!("{why}; runtimes of r0 run no instantiate stage"),
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
            verdict.why = format!("it answers version {major}.{minor}, which is accepted");
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
        // Whatever was registered, it was another type.
        Some(Outcome::Refused { why }) if asks_for_type(why) => {
            verdict.loads = Loads::Unknown;
            verdict.confidence = Confidence::Possible;
            let which = match candidate.has_types {
                true => ", and what was registered is another",
                false => "",
            };
            verdict.why = format!(
                "the type of its state has to be registered before it{which}; --type NAME=ID,INFO registers it here, as \
                 jax.ffi.register_ffi_type does there"
            );
        }
        Some(Outcome::Refused { why }) => {
            verdict.loads = Loads::No;
            verdict.why.clone_from(why);
        }
        // Its version is accepted, and jaxlib 0.4.34 and 0.5.1 were seen to survive the write: the
        // memory that it hits decides.
        Some(Outcome::Broke { overran: true, how }) if behaviour == Behaviour::Fixed(1) => {
            verdict.loads = Loads::Unknown;
            verdict.confidence = Confidence::Possible;
            verdict.why =
                "it overwrites 8 bytes of the runtime's stack: what lies there decides".to_owned();
            verdict.risks.push(
                // Proved is the write, not that it does harm.
                Finding::new(
                    Confidence::Proved,
                    Severity::Risk,
                    Problem::MetadataOverrun,
                    "it overwrites the runtime's memory when it is asked for its metadata",
                    how.clone(),
                )
                .about_handler(&candidate.name),
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
            verdict.why = "it was not asked".to_owned();
        }
    }
    verdict
}

fn r0_risk(candidate: &Candidate) -> Finding {
    Finding::risk(
        Problem::OldestRuntime,
        "it may use what r0 does not have",
        "nobody asks a handler on r0, so a newer one is accepted: a thread pool or a future is a \
         call through memory that is not the table's, and State_Get crashes",
    )
    .about_handler(&candidate.name)
}

/// What threatens a handler that was built with upstream's header of version 0.`minor`.
fn hazards(
    version: &str,
    revision: Revision,
    minor: i32,
    candidate: &Candidate,
    compiled_with: &[Revision],
    risks: &mut Vec<Finding>,
) {
    // Within r8 the newer releases tell the form of 0.2 by its size, as r9 does.
    let told_by_size = minor == 2 && parse_version(version) >= parse_version("0.10.0");
    let reading = match StateReading::of(revision, minor) {
        StateReading::Refused if told_by_size => StateReading::Right,
        reading => reading,
    };
    match reading {
        _ if candidate.state == Use::No => {}
        StateReading::Right => state_type(version, revision, minor, candidate, risks),
        StateReading::Refused | StateReading::Misread => {
            let what = match reading {
                StateReading::Refused => {
                    "the runtime finds its State_Set too small: an error or a crash"
                }
                _ => {
                    "the runtime misreads its State_Set and State_Get: an error at best, a crash at worst"
                }
            };
            let (confidence, severity, known) =
                weigh(&candidate.state, "nothing tells whether it keeps state");
            risks.push(
                Finding::new(
                    confidence,
                    severity,
                    Problem::StateLayout,
                    what,
                    format!(
                        "{known}; its state arguments are laid out for version 0.{minor}, and 0.1, 0.2 and \
                         0.3 each have their own layout"
                    ),
                )
                .about_handler(&candidate.name)
                .fix("build it with this SDK, which lays the arguments out as the runtime wants them"),
            );
        }
    }
    if minor == 1 {
        future_hazard(revision, candidate, compiled_with, risks);
    }
}

/// The first release on which Python can register a type; before it the library has to do so itself.
const FIRST_WITH_TYPES: &str = "0.4.38";

/// What the type of a state that the runtime reads rightly still needs.
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
    let (what, why, fix) = if parse_version(version) < parse_version(FIRST_WITH_TYPES) {
        (
            "nobody can register the type of its state from Python",
            format!("{known}; jaxlib {FIRST_WITH_TYPES} is the first that registers types"),
            "register the type from the library, with the table of the call frame",
        )
    } else if minor == 1 && revision >= Revision::R7 {
        // Headers of 0.1 hand the deleter over with each state, which these runtimes do not read.
        (
            "it works only if the type of its state is registered with its deleter",
            format!(
                "{known}; headers of version 0.1 have no TypeInfo, and this runtime takes the deleter from there"
            ),
            "register the type with a TypeInfo whose deleter frees the state, or build it with this SDK",
        )
    } else if !candidate.has_types {
        (
            "it works only if the type of its state is registered before it",
            format!("{known}; headers of upstream leave that to Python"),
            "call jax.ffi.register_ffi_type (register_ffi_type_id before jax 0.8.1) first, and give the doctor --type",
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

/// Among the revisions of version 0.1 the future slots moved and were not always there.
fn future_hazard(
    revision: Revision,
    candidate: &Candidate,
    compiled_with: &[Revision],
    risks: &mut Vec<Finding>,
) {
    let slot = |revision: Revision| Slot::FutureCreate.index(revision);
    // Headers of version 0.1 are those of r1 to r6; r0 and r1 know no futures.
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
    let (mut confidence, mut severity, known) =
        weigh(&candidate.future, "nothing tells whether it makes futures");
    if compiled_with.is_empty() || clash.len() < headers.len() {
        (confidence, severity) = (Confidence::Possible, Severity::Risk);
    }
    let what = match slot(revision) {
        None => "making a future calls through memory that is not the runtime's table",
        Some(_) => "making a future calls another function of the runtime",
    };
    risks.push(
        Finding::new(
            confidence,
            severity,
            Problem::FutureSlots, what,
            format!(
                "{known}; {} {}, where the future slots stand elsewhere: ThreadPool_NumThreads came \
                 before them in r3 without a new version",
                if compiled_with.is_empty() {
                    "it may be compiled with a header of"
                } else {
                    "it is compiled with a header of"
                },
                clash.join(" or ")
            ),
        )
        .about_handler(&candidate.name)
        .fix("build it with this SDK, which finds the slots by the table's length"),
    );
}

/// How sure a hazard is that comes with using something.
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

    /// A handler that always answers one version, as upstream's headers make them.
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
        verdict(version, jaxlib(version).unwrap(), candidate, None, &[])
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
        // Version 0.2: told by size from 0.10.0 on, not on 0.9.2.
        let second = candidate(true, |r| fixed(2, r));
        assert_eq!(state("0.9.1", &second).len(), 1);
        assert_eq!(state("0.10.0", &second), []);
        assert_eq!(state("0.12.0", &candidate(true, |r| fixed(3, r))), []);
    }

    #[test]
    fn futures_threaten_where_slots_moved() {
        let old = candidate(false, |r| fixed(1, r));
        let risks = |version: &str, compiled: &[Revision]| {
            verdict(version, jaxlib(version).unwrap(), &old, None, compiled)
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
        // A floor at the top leaves one version to answer, which is no header's habit.
        let mut newest = candidate(false, |r| fixed(5, r));
        assert_eq!(newest.behaviour(), Behaviour::Fixed(5));
        newest.floor = Some(Revision::R10);
        assert_eq!(newest.behaviour(), Behaviour::Negotiates);
    }
}
