//! What macOS asks of a library: who it is looked for with, how old a system may be, and a signature.

use crate::finding::{Finding, Level, Problem, Weight};
use crate::library::{Facts, Processor, Signature};
use crate::release::dotted;

/// The oldest macOS of jaxlib's wheels, by processor: `macosx_11_0_arm64`, and `macosx_10_14_x86_64` as long as there
/// were any (up to jaxlib 0.4.38).
fn oldest_of_jaxlib(processor: Processor) -> [u32; 2] {
    match processor {
        Processor::Aarch64 => [11, 0],
        Processor::X86_64 => [10, 14],
    }
}

pub(super) fn findings(facts: &Facts, findings: &mut Vec<Finding>) {
    needs(facts, findings);
    let Some(apple) = &facts.apple else { return };
    let processor = facts.machine.processor;
    let of_jaxlib = oldest_of_jaxlib(processor);
    match &apple.oldest {
        Some(oldest) if oldest.as_slice() > &of_jaxlib[..] => findings.push(
            Finding::risk(
                Problem::DeploymentTarget,
                format!(
                    "it asks for macOS {}, jaxlib's own wheels for {}",
                    dotted(oldest),
                    dotted(&of_jaxlib)
                ),
                "its deployment target; an older macOS may lack what it calls, and refuses it then",
            )
            .fix(format!(
                "build it with MACOSX_DEPLOYMENT_TARGET={} or -mmacosx-version-min={0}",
                dotted(&of_jaxlib)
            )),
        ),
        Some(_) => {}
        None => findings.push(Finding::new(
            Level::Unknown,
            Weight::Note,
            Problem::DeploymentTarget,
            "the oldest macOS that it runs on",
            "it states no deployment target (LC_BUILD_VERSION, LC_VERSION_MIN_MACOSX)",
        )),
    }
    let needs_one = processor == Processor::Aarch64;
    let finding = match &apple.signature {
        Signature::Missing if needs_one => Some((
            "its code is not signed, so no Mac with an Arm processor loads it",
            "there is no LC_CODE_SIGNATURE".to_owned(),
        )),
        Signature::Broken(why) => Some((
            "its code signature does not fit its code, so macOS ends the process that loads it",
            format!("{why}: strip, install_name_tool or an editor changed it after it was signed"),
        )),
        _ => None,
    };
    if let Some((what, why)) = finding {
        findings.push(
            Finding::failure(Problem::CodeSignature, what, why)
                .fix("sign it last of all: codesign --force --sign - FILE"),
        );
    }
}

/// Libraries that are looked for where other machines need not have them.
fn needs(facts: &Facts, findings: &mut Vec<Finding>) {
    for name in &facts.needs {
        let risk = |what: String, why: &str| Finding::risk(Problem::SearchPath, what, why);
        let finding = if name.starts_with("/usr/lib/") || name.starts_with("/System/") {
            continue; // the system's own
        } else if name.starts_with("@rpath/") && facts.search.is_empty() {
            risk(
                format!("it looks for {name} and has no rpath of its own"),
                "LC_LOAD_DYLIB and no LC_RPATH: the rpaths of the program and of who loads it count",
            )
            .fix("link with -Wl,-rpath,@loader_path and ship the library beside it")
        } else if name.starts_with("@executable_path/") {
            risk(
                format!(
                    "it looks for {name}, which lies beside the Python interpreter if anywhere"
                ),
                "LC_LOAD_DYLIB",
            )
            .fix("use @loader_path or @rpath: install_name_tool -change, then sign it again")
        } else if name.starts_with('/') {
            risk(
                format!("it looks for {name}, which other machines need not have"),
                "LC_LOAD_DYLIB with a folder that is not the system's",
            )
            .fix(
                "link it statically, or ship it beside the library and use @loader_path: \
                 install_name_tool -change, then sign it again",
            )
        } else {
            continue; // @loader_path, or @rpath with an entry for it
        };
        findings.push(finding);
    }
}
