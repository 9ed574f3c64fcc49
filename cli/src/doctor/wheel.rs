//! Wheels that the doctor examines. Their libraries are unpacked, examined, and reported under their paths in the
//! wheel.

use super::ExaminedLibrary;
use super::gate::Item;
use super::report::{grouped, list, write_finding};
use crate::interpreter::Unpacked;
use crate::probe;
use anyhow::Context;
use serde_json::{Value, json};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use xla_ffi_abi::xla_ffi_sys::Revision;
use xla_ffi_doctor::wheel::{Inside, Wheel, releases};
use xla_ffi_doctor::{
    Confidence, Examination, Finding, Loads, Outcome, Problem, RELEASES, Severity, Subject,
};

/// A wheel whose libraries are unpacked in a temporary folder.
pub(super) struct Opened {
    pub(super) path: PathBuf,
    wheel: Wheel,
    /// The findings about the wheel, without the findings about its libraries.
    findings: Vec<Finding>,
    inside: Vec<Inside>,
    folder: tempfile::TempDir,
    /// The identifiers in the wheel's Python sources, which are read for the first library that needs them.
    identifiers: OnceCell<BTreeSet<String>>,
}

/// The size in bytes from which the progress of examining a wheel is reported.
const LARGE: u64 = 20 << 20;

/// Adds the identifiers in all Python sources of a folder to `found`.
fn add_identifiers(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            add_identifiers(&path, found);
        } else if path.extension().is_some_and(|end| end == "py") {
            let text = std::fs::read(path).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            found.extend(words.map(str::to_owned));
        }
    }
}

impl Opened {
    pub(super) fn of(path: &Path) -> anyhow::Result<Self> {
        let mut wheel = Wheel::open(path)?;
        let folder = tempfile::Builder::new().prefix("xla-ffi-wheel-").tempdir();
        let folder = folder.context("cannot create a folder for the libraries of a wheel")?;
        let inside = wheel.unpack(folder.path())?;
        let findings = wheel.findings(&inside);
        Ok(Self {
            path: path.to_owned(),
            wheel,
            findings,
            inside,
            folder,
            identifiers: OnceCell::new(),
        })
    }

    /// Returns the paths of unpacked libraries that may have handlers. Bundled dependencies are omitted.
    pub(super) fn libraries(&self) -> impl Iterator<Item = PathBuf> {
        let own = self.inside.iter();
        let own = own.filter(|inside| !inside.is_bundled());
        own.map(|inside| inside.place.clone())
    }

    /// Returns the package that provides a library, according to the wheel's requirements.
    pub(super) fn provider(&self, name: &str, search: &[String]) -> Option<String> {
        self.wheel.provider(name, search)
    }

    /// Returns the parts of the wheel that are needed to import the wheel's modules.
    pub(super) fn unpacked(&self) -> Unpacked<'_> {
        Unpacked {
            root: self.folder.path(),
            name: &self.wheel.name,
            requires: self
                .wheel
                .requires
                .iter()
                .map(|one| one.project.as_str())
                .collect(),
        }
    }

    /// Returns the exported functions of a library that may be handlers. The library must be built with XLA's headers,
    /// and the wheel's Python sources must contain the functions' names or the start of them.
    pub(super) fn possible_handlers(&self, examination: &Examination) -> Vec<String> {
        if !examination.uses_headers {
            return Vec::new();
        }
        let known = self.identifiers.get_or_init(|| {
            let mut found = BTreeSet::new();
            add_identifiers(self.folder.path(), &mut found);
            found
        });
        let is_named = |name: &&String| {
            let mut starts = name.match_indices('_').map(|(at, _)| &name[..=at]);
            known.contains(*name) || starts.any(|start| start.len() > 6 && known.contains(start))
        };
        let functions = examination.facts.functions.iter();
        functions.filter(is_named).cloned().collect()
    }

    /// Returns the jaxlib releases that the wheel's requirements allow. Returns `None` if the wheel does not require
    /// jax, or if no allowed release is published.
    pub(super) fn releases(&self) -> Option<Vec<&'static str>> {
        let name = &self.wheel.name;
        if name.project == "jaxlib" {
            let mut published = RELEASES.into_iter();
            let own = published.find(|version| *version == name.version);
            let own = own.or_else(|| self.header().map(Revision::first_jaxlib));
            return own.map(|version| vec![version]);
        }
        releases(&self.wheel.requires).filter(|found| !found.is_empty())
    }

    /// Returns the ABI revision of the header in a jaxlib wheel. The revision of a nightly build may be newer than that
    /// of the release with the same version.
    fn header(&self) -> Option<Revision> {
        let file = self
            .folder
            .path()
            .join("jaxlib/include/xla/ffi/api/c_api.h");
        let text = std::fs::read_to_string(file).ok()?;
        let minor = text
            .lines()
            .find_map(|line| line.strip_prefix("#define XLA_FFI_API_MINOR "))?;
        let has = (
            minor.trim().parse().ok()?,
            text.matches("_API_STRUCT_FIELD(XLA_FFI_").count(),
        );
        let known = |one: &Revision| (one.minor_version(), one.slot_count()) <= has;
        Revision::ALL.into_iter().rfind(known)
    }

    /// Adds a finding if the wheel's requirements allow jaxlibs that refuse a handler. Refusals that this finding
    /// reports are not reported again. A refusal is ignored if a different copy of the library supports the jaxlib.
    pub(super) fn judge_requirements(&mut self, judged: &mut [ExaminedLibrary], versions: &[&str]) {
        let refuses = |one: &ExaminedLibrary, handler: &str, version: &str| {
            let mut verdicts = one.verdicts.iter();
            verdicts
                .find(|verdict| verdict.handler == handler && verdict.jaxlib == version)
                .map(|verdict| verdict.loads == Loads::No)
        };
        // A wheel may contain copies of a library for different jaxlibs, in different folders.
        let mut refused: BTreeMap<&str, Vec<(String, String)>> = BTreeMap::new();
        for version in versions {
            for one in judged.iter() {
                let of_version = one
                    .verdicts
                    .iter()
                    .filter(|verdict| verdict.jaxlib == *version);
                for verdict in of_version.filter(|verdict| verdict.loads == Loads::No) {
                    let twins = judged
                        .iter()
                        .filter(|twin| twin.path.file_name() == one.path.file_name());
                    let mut answers =
                        twins.filter_map(|twin| refuses(twin, &verdict.handler, version));
                    if answers.all(|refuses| refuses)
                        && probe::broken(&one.examination.findings).is_none()
                    {
                        let found = (verdict.handler.clone(), verdict.why.clone());
                        refused.entry(version).or_default().push(found);
                    }
                }
            }
        }
        let last = versions
            .iter()
            .rposition(|version| refused.contains_key(version));
        let bound = last.and_then(|last| versions.get(last + 1));
        if let (Some(last), Some(bound)) = (last, bound) {
            self.findings
                .push(self.requirement(versions, bound, &refused[versions[last]]));
        }
        for one in judged {
            let is_explained = |version: &&&str| {
                let below =
                    bound.is_some() && versions.iter().position(|one| one == *version) <= last;
                below || !refused.contains_key(**version)
            };
            one.explained = versions
                .iter()
                .filter(is_explained)
                .map(|version| (*version).to_owned())
                .collect();
        }
    }

    fn requirement(&self, versions: &[&str], bound: &str, refused: &[(String, String)]) -> Finding {
        let names: BTreeSet<&str> = refused.iter().map(|(name, _)| name.as_str()).collect();
        let names = list(&names.into_iter().collect::<Vec<_>>());
        let mut projects = self.wheel.requires.iter().map(|one| one.project.as_str());
        let oldest = versions.first().copied().unwrap_or_default();
        let (severity, what, project) =
            match projects.find(|project| ["jax", "jaxlib"].contains(project)) {
                Some(project) => (
                    Severity::Fails,
                    format!("allows {project} {oldest}, but needs {bound}: {names}"),
                    project,
                ),
                None => (
                    Severity::Risk,
                    format!("does not require jax, but needs jax {bound}: {names}"),
                    "jax",
                ),
            };
        let why = refused.first().map_or("", |(_, why)| why.as_str());
        let fix =
            format!("require {project}>={bound}, or build against the headers of jaxlib {oldest}");
        Finding::new(
            Confidence::Proved,
            severity,
            Problem::WheelRequirement,
            what,
            why,
        )
        .about(Subject::Wheel)
        .fix(fix)
    }

    /// Returns true if the wheel is so large that the progress of examining it is reported.
    pub(super) fn is_large(&self) -> bool {
        self.wheel.bytes > LARGE
    }

    /// Returns the path in the wheel of a file that was unpacked at `place`.
    pub(super) fn member(&self, place: &Path) -> String {
        let member = place.strip_prefix(self.folder.path());
        member.unwrap_or(place).display().to_string()
    }

    /// Adds a finding about a file in the wheel that is not a library.
    pub(super) fn is_broken(&mut self, place: &Path, why: &anyhow::Error) {
        // If the file is for another machine, the wheel already has a finding about the file.
        let mut inside = self.inside.iter();
        if inside.any(|inside| inside.place == place && inside.foreign.is_some()) {
            return;
        }
        let why = self.named(&crate::output::error_text(why));
        let member = self.member(place);
        self.findings.push(
            Finding::failure(
                Problem::Foreign,
                format!("{member} is not a loadable library"),
                why,
            )
            .about(Subject::Wheel),
        );
    }

    /// Replaces the path of the folder with unpacked files by the path of the wheel in a text.
    fn named(&self, text: &str) -> String {
        let unpacked = self.folder.path().display().to_string();
        text.replace(&unpacked, &self.path.display().to_string())
    }

    /// Replaces paths of unpacked files in the results about a library by paths in the wheel. Removes findings that the
    /// findings about the wheel repeat.
    pub(super) fn renamed(&mut self, mut judged: ExaminedLibrary) -> ExaminedLibrary {
        // The findings about the wheel report wrong machines, and systems that do not fit the wheel's tag.
        let name = &self.wheel.name;
        let is_tagged = name.glibc().is_some() || name.platform("macosx").is_some();
        let is_member = |name: &String| {
            let mut files = self
                .inside
                .iter()
                .filter_map(|inside| Path::new(&inside.member).file_name());
            files.any(|file| file == name.as_str())
        };
        let for_every_python = self.wheel.name.is_for_every_python();
        let findings = &mut judged.examination.findings;
        findings.retain(|finding| match finding.problem {
            Problem::OtherMachine => false,
            // The required library is in the same wheel, or is the Python library that the wheel's tag requires.
            Problem::LinkedTo => match &finding.library {
                Some(needed) => !is_member(needed),
                None => for_every_python,
            },
            Problem::Glibc | Problem::Libstdcxx | Problem::DeploymentTarget => !is_tagged,
            Problem::PrivateSymbol => name.glibc().is_none(),
            Problem::Processor => false,
            _ => true,
        });
        // A missing library has one finding. If no package provides the missing library, the finding is about the
        // library that requires it; otherwise, about the wheel.
        for name in &judged.examination.missing {
            let is_about = |finding: &Finding| {
                finding.problem == Problem::MissingLibrary && finding.library.as_ref() == Some(name)
            };
            let fails = |finding: &Finding| is_about(finding) && finding.is_proved_failure();
            if findings.iter().any(fails) {
                self.findings.retain(|finding| !is_about(finding));
            } else if self.findings.iter().any(is_about) {
                findings.retain(|finding| !is_about(finding));
            }
        }
        let this: &Self = self;
        let rename = |finding: &mut Finding| {
            finding.what = this.named(&finding.what);
            finding.why = this.named(&finding.why);
        };
        judged.path = PathBuf::from(this.named(&judged.path.display().to_string()));
        judged.wheel = Some(this.path.clone());
        judged.examination.findings.iter_mut().for_each(rename);
        let answers = judged
            .candidates
            .iter_mut()
            .flat_map(|one| &mut one.answers);
        for answer in answers {
            match &mut answer.outcome {
                Outcome::Refused { why } | Outcome::Skipped { why } => *why = this.named(why),
                Outcome::Broke { how, .. } => *how = this.named(how),
                Outcome::Accepted { .. } => {}
            }
        }
        for verdict in &mut judged.verdicts {
            verdict.why = this.named(&verdict.why);
            verdict.risks.iter_mut().for_each(rename);
        }
        judged
    }

    /// Returns the findings about the wheel. Lists name the wheel by the name of its project.
    pub(super) fn items(&self) -> impl Iterator<Item = Item> {
        self.findings.iter().map(|finding| Item {
            library: format!("{}.whl", self.wheel.name.project),
            path: self.path.display().to_string(),
            finding: finding.clone(),
            jaxlibs: Vec::new(),
            open: finding.problem == Problem::Foreign && finding.confidence == Confidence::Unknown,
        })
    }

    /// Returns the failures and risks of the wheel and its libraries. Equal findings are combined, and the most severe
    /// finding is first.
    fn to_fix<'a>(&self, items: &'a [Item]) -> Vec<Vec<&'a Item>> {
        let start = self.path.display().to_string();
        let mine: Vec<&Item> = items
            .iter()
            .filter(|item| item.path.starts_with(&start) && item.finding.severity < Severity::Note)
            .collect();
        let groups = grouped(&mine, |one, other| one.is_alike(other)).into_iter();
        let mut groups: Vec<Vec<&Item>> = groups
            .map(|group| group.into_iter().copied().collect())
            .collect();
        groups.sort_by_key(|group| {
            let finding = &group[0].finding;
            (finding.severity, finding.confidence, finding.problem.id())
        });
        groups
    }

    /// Returns the report about the wheel as text.
    pub(super) fn report(&self, items: &[Item]) -> String {
        let name = &self.wheel.name;
        let platforms: Vec<String> = name.platforms.iter().map(ToString::to_string).collect();
        let mut text = format!(
            "{}\n  {} {} for {} on {}\n",
            self.path.display(),
            name.project,
            name.version,
            name.python(),
            platforms.join(" or ")
        );
        for inside in &self.inside {
            let how = match &inside.foreign {
                _ if inside.is_bundled() => " (a dependency; not examined for handlers)",
                Some(_) => " (not for this machine)",
                None => "",
            };
            let _ = writeln!(text, "  library {}{how}", inside.member);
        }
        let to_fix = self.to_fix(items);
        match to_fix.len() {
            0 => text.push_str("\nnothing to fix\n"),
            _ => text.push_str("\nto fix, the most severe first\n"),
        }
        for (at, group) in to_fix.iter().enumerate() {
            let subjects: Vec<String> = group.iter().map(|item| item.shown()).collect();
            let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
            write_finding(
                &mut text,
                &format!("{}. ", at + 1),
                &group[0].finding,
                &subjects,
            );
            if !group[0].jaxlibs.is_empty() {
                let _ = writeln!(text, "      on jaxlib {}", group[0].jaxlibs.join(", "));
            }
        }
        let notes = self
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Note);
        let notes: Vec<&Finding> = notes.collect();
        if !notes.is_empty() {
            text.push_str("\nnotes\n");
        }
        for note in notes {
            write_finding(&mut text, "", note, &["wheel"]);
        }
        text
    }

    pub(super) fn to_json(&self, items: &[Item]) -> Value {
        let name = &self.wheel.name;
        let to_fix = self.to_fix(items).into_iter().flatten().map(Item::key);
        json!({
            "wheel": self.path.display().to_string(),
            "project": name.project,
            "version": name.version,
            "python": name.python(),
            "platforms": name.platforms.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "bytes": self.wheel.bytes,
            "libraries": self.inside.iter().map(|inside| json!({
                "member": inside.member,
                "bundled": inside.is_bundled(),
                "foreign": inside.foreign,
            })).collect::<Vec<_>>(),
            "findings": self.findings,
            "to_fix": to_fix.collect::<Vec<_>>(),
        })
    }
}
