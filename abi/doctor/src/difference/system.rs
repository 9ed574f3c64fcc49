//! What two builds ask of a system, whether they load on this one, and what they export.

use super::{Build, List, Step};
use crate::examination::Examination;
use crate::finding::{Finding, Problem, Subject};
use crate::manifest::Manifest;
use std::collections::BTreeSet;

/// What systems with a glibc always have.
const SYSTEM: [&str; 8] = [
    "libc.so",
    "libm.so",
    "libdl.so",
    "librt.so",
    "libpthread.so",
    "libgcc_s.so",
    "ld-linux",
    "linux-vdso",
];

pub(super) fn compare(old: &Build<'_>, new: &Build<'_>, list: &mut List) {
    loading(old, new, list);
    symbols(old, new, list);
    let (was, now) = (&old.examination.facts, &new.examination.facts);
    let mut about = list.about(Subject::Library);
    for (name, prefix) in [("glibc", "GLIBC_"), ("libstdc++", "GLIBCXX_")] {
        let word = |floor: Option<Vec<u32>>| floor.map(|parts| crate::release::dotted(&parts));
        let (before, after) = (was.floor(prefix), now.floor(prefix));
        let what = format!("oldest {name}");
        let (step, why) = match before.cmp(&after) {
            std::cmp::Ordering::Equal => continue,
            std::cmp::Ordering::Less => (
                Step::Major,
                "systems with an older one do not load it any more",
            ),
            std::cmp::Ordering::Greater => (Step::Minor, "systems with an older one load it"),
        };
        about.push(
            step,
            &what,
            word(before).as_deref(),
            word(after).as_deref(),
            why,
        );
    }
    let others = |needs: &[String]| -> Vec<String> {
        let is_system = |name: &&String| SYSTEM.iter().any(|known| name.starts_with(known));
        needs
            .iter()
            .filter(|name| !is_system(name))
            .cloned()
            .collect()
    };
    about.demands(
        "needed libraries",
        &others(&was.needs),
        &others(&now.needs),
        (
            "systems without it load the library",
            "systems without it do not load the library any more",
        ),
    );
    if was.soname != now.soname {
        let why = "programs that are linked to it look for the old name; loaders take a path";
        about.push(
            Step::Patch,
            "SONAME",
            was.soname.as_deref(),
            now.soname.as_deref(),
            why,
        );
    }
    let sdk = |examination: &Examination| {
        let all = examination
            .manifests
            .iter()
            .map(|manifest| manifest.sdk.as_str());
        all.collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (was, now) = (sdk(old.examination), sdk(new.examination));
    if was != now {
        about.changed(
            Step::Patch,
            "made with xla-ffi",
            &was,
            &now,
            "the SDK's own changes are in its changelog",
        );
    }
}

/// Exported functions that may be handlers: those with C names which no manifest speaks for.
fn symbols(old: &Build<'_>, new: &Build<'_>, list: &mut List) {
    let told: BTreeSet<&str> = [old, new]
        .into_iter()
        .flat_map(|build| &build.examination.manifests)
        .flat_map(|manifest| {
            let stages = manifest
                .handlers
                .iter()
                .flat_map(|handler| handler.stages.iter());
            let targets = manifest.legacy.iter().map(|target| target.symbol.as_str());
            stages
                .map(|(_, symbol)| symbol)
                .chain(manifest.register.as_deref())
                .chain(targets)
                // What it lists is in the manifest, too.
                .chain((!manifest.legacy.is_empty()).then_some(Manifest::LEGACY_LIST))
        })
        .collect();
    let functions = |build: &Build<'_>| -> Vec<String> {
        let functions = build.examination.facts.functions.iter();
        let is_callers = |name: &&String| !name.starts_with('_') && !told.contains(name.as_str());
        functions.filter(is_callers).cloned().collect()
    };
    list.about(Subject::Library).offers(
        "exported functions",
        &functions(old),
        &functions(new),
        (
            "who registers or calls them finds nothing",
            "they can be registered or called",
        ),
    );
}

impl Build<'_> {
    /// What kept it from loading on this machine; `None` too where that was not tried.
    #[must_use]
    pub fn does_not_load(&self) -> Option<&Finding> {
        let mut findings = self.examination.findings.iter();
        findings.find(|finding| finding.problem == Problem::DoesNotLoad)
    }
}

/// Whether the builds load on this machine, where that was tried.
fn loading(old: &Build<'_>, new: &Build<'_>, list: &mut List) {
    let mut about = list.about(Subject::Library);
    let what = "loads on this machine";
    match (old.does_not_load(), new.does_not_load()) {
        // Both were tried, or neither.
        (None, Some(finding)) => {
            let why = format!("callers find none of its handlers: {}", finding.why);
            about.changed(Step::Major, what, "yes", "no", &why);
        }
        (Some(_), None) => {
            let why = "callers find its handlers; what they answered before is not known";
            about.changed(Step::Minor, what, "no", "yes", why);
        }
        _ => {}
    }
}
