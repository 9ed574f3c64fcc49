//! Compares two builds of a library: their requirements on the system, their exports, and whether they load.

use super::{Build, List, Step};
use crate::examination::Examination;
use crate::finding::{Finding, Problem, Subject};
use crate::library::Facts;
use crate::manifest::Manifest;
use std::collections::BTreeSet;

/// Name prefixes of libraries that every system with glibc has.
const SYSTEM: &str =
    "libc.so libm.so libdl.so librt.so libpthread.so libgcc_s.so ld-linux linux-vdso";

pub(super) fn compare(old: &Build<'_>, new: &Build<'_>, list: &mut List) {
    loading(old, new, list);
    symbols(old, new, list);
    let (was, now) = (&old.examination.facts, &new.examination.facts);
    let mut about = list.about(Subject::Library);
    for (name, prefix) in [("glibc", "GLIBC_"), ("libstdc++", "GLIBCXX_")] {
        let word = |floor: Option<Vec<u32>>| floor.map(|parts| crate::release::dotted(&parts));
        let (before, after) = (was.floor(prefix), now.floor(prefix));
        let what = format!("required {name}");
        let (step, why) = match before.cmp(&after) {
            std::cmp::Ordering::Equal => continue,
            std::cmp::Ordering::Less => (
                Step::Major,
                "systems with an older version no longer load the library",
            ),
            std::cmp::Ordering::Greater => (
                Step::Minor,
                "systems with an older version load the library",
            ),
        };
        let (before, after) = (word(before), word(after));
        about.add(step, &what, before.as_deref(), after.as_deref(), why);
    }
    let others = |needs: &[String]| -> Vec<String> {
        let is_system = |name: &&String| SYSTEM.split(' ').any(|known| name.starts_with(known));
        needs
            .iter()
            .filter(|name| !is_system(name))
            .cloned()
            .collect()
    };
    about.demands(
        "required libraries",
        &others(&was.needs),
        &others(&now.needs),
        (
            "systems without these load the library",
            "systems without these no longer load the library",
        ),
    );
    about.demands(
        "requirements of the loader",
        &of_loader(was),
        &of_loader(now),
        (
            "more systems load the library",
            "systems that refuse them no longer load the library",
        ),
    );
    let entries = [&was.search, &now.search];
    if entries[0] != entries[1] {
        // If a folder was removed from the search path, required libraries may be missing. If an absolute path was
        // added, the path may exist on one machine only.
        let is_lost = !others(&now.needs).is_empty()
            && entries[0].iter().any(|entry| !now.search.contains(entry));
        let mut new = entries[1]
            .iter()
            .filter(|entry| !was.search.contains(entry));
        let (step, why) = match is_lost || new.any(|entry| !entry.starts_with('$')) {
            true => (
                Step::Major,
                "required libraries may not be found, or different ones",
            ),
            false => (
                Step::Patch,
                "required libraries are searched in different folders",
            ),
        };
        let [before, after] =
            entries.map(|entries| Some(entries.join(":")).filter(|all| !all.is_empty()));
        about.add(step, "RUNPATH", before.as_deref(), after.as_deref(), why);
    }
    if was.soname != now.soname {
        let why = "programs linked to the library search for the old name; loaders use a path";
        let (was, now) = (was.soname.as_deref(), now.soname.as_deref());
        about.add(Step::Patch, "SONAME", was, now, why);
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
    about.compared(
        Step::Patch,
        "SDK version",
        was,
        now,
        "see the SDK's changelog",
    );
}

/// Returns the library's requirements on the loader and the processor as text.
fn of_loader(facts: &Facts) -> Vec<String> {
    let flags = [
        ("executable stack", facts.executable_stack),
        ("text relocations", facts.text_relocations),
        ("static TLS", facts.static_tls),
    ];
    let flags = flags
        .into_iter()
        .filter(|(_, is_set)| *is_set)
        .map(|(name, _)| name.to_owned());
    let levels = (2..=facts.level.unwrap_or(1)).map(|level| format!("x86-64-v{level}"));
    let private = facts
        .private_symbols()
        .map(|names| format!("GLIBC_PRIVATE {names}"));
    flags.chain(levels).chain(private).collect()
}

/// Compares exported C functions that the manifest does not name.
fn symbols(old: &Build<'_>, new: &Build<'_>, list: &mut List) {
    let listed: BTreeSet<&str> = [old, new]
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
                // If the manifest has targets, it contains all targets that the exported function lists.
                .chain((!manifest.legacy.is_empty()).then_some(Manifest::LEGACY_LIST))
        })
        .collect();
    let functions = |build: &Build<'_>| -> Vec<String> {
        let functions = build.examination.facts.functions.iter();
        let is_callers = |name: &&String| !name.starts_with('_') && !listed.contains(name.as_str());
        functions.filter(is_callers).cloned().collect()
    };
    list.about(Subject::Library).offers(
        "exported functions",
        &functions(old),
        &functions(new),
        (
            "registrations and calls fail",
            "they can be registered or called",
        ),
    );
}

impl Build<'_> {
    /// Returns the finding that the library does not load on this machine; `None` if the library loads, or if loading
    /// was not tried.
    #[must_use]
    pub fn does_not_load(&self) -> Option<&Finding> {
        let mut findings = self.examination.findings.iter();
        findings.find(|finding| finding.problem == Problem::DoesNotLoad)
    }
}

/// Compares the outcomes of loading both builds on this machine.
fn loading(old: &Build<'_>, new: &Build<'_>, list: &mut List) {
    let mut about = list.about(Subject::Library);
    let what = "loads on this machine";
    match (old.does_not_load(), new.does_not_load()) {
        // Loading was tried for both builds or for neither, so a build without this finding loads.
        (None, Some(finding)) => {
            let why = format!("its handlers cannot be called: {}", finding.why);
            about.changed(Step::Major, what, "yes", "no", &why);
        }
        (Some(_), None) => {
            let why = "its handlers can be called; their previous answers are unknown";
            about.changed(Step::Minor, what, "no", "yes", why);
        }
        _ => {}
    }
}
