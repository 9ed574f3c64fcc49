//! What a handler's answers mean for all runtimes, and beside its manifest.

use xla_ffi_doctor::manifest::Manifest;
use xla_ffi_doctor::{Behaviour, Candidate, Finding, Level, Outcome, Problem, Weight};
use xla_ffi_runtime::Revision;

/// How a handler answers, and what that means for all runtimes.
pub(super) fn behaviour(subject: &mut Candidate, findings: &mut Vec<Finding>) {
    subject.learn_state();
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
    let asked = format!("asked as runtimes of r1 to {} ask", Revision::NEWEST);
    let mut finding = Finding::new(Level::Proved, weight, Problem::Answer, what, asked)
        .about_handler(&subject.name);
    finding.fix = fix;
    findings.push(finding);
}

/// A trait that the manifest and the newest runtime's answer do not agree on. Runtimes believe the answer, and whoever
/// reads the manifest that.
pub(super) fn traits(subject: &Candidate, manifests: &[Manifest]) -> Option<Finding> {
    const NAME: &str = "command_buffer_compatible";
    let mut handlers = manifests.iter().flat_map(|manifest| &manifest.handlers);
    let says = handlers.find(|handler| handler.name == subject.name && handler.described)?;
    let mut newest = subject.answers.iter().rev();
    let (revision, answers) = newest.find_map(|answer| match answer.outcome {
        Outcome::Accepted { traits, .. } => Some((answer.revision, traits & 1 != 0)),
        _ => None,
    })?;
    let declared = says.traits.iter().any(|name| name == NAME);
    let what = match (declared, answers) {
        (true, false) => format!("its manifest says {NAME}, and its answer does not"),
        (false, true) => format!("its answer says {NAME}, and its manifest does not"),
        _ => return None,
    };
    let why = format!("asked as {revision} asks; runtimes go by the answer");
    Some(
        Finding::new(Level::Proved, Weight::Risk, Problem::Description, what, why)
            .about_handler(&subject.name)
            .fix("say the same in the handler's definition and in its manifest"),
    )
}
