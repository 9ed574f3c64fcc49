//! Wheels for the doctor. Their libraries are unpacked, judged like any library, and reported by their names in the wheel.

use super::ExaminedLibrary;
use super::gate::Item;
use super::report::{are_alike, grouped, write_finding};
use anyhow::Context;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use xla_ffi_doctor::wheel::{Inside, Name, Wheel};
use xla_ffi_doctor::{Confidence, Finding, Outcome, Problem, Severity, Subject};

/// A wheel whose libraries have been unpacked.
pub(super) struct Opened {
    pub(super) path: PathBuf,
    wheel: Wheel,
    /// Findings about the wheel itself.
    findings: Vec<Finding>,
    inside: Vec<Inside>,
    folder: tempfile::TempDir,
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
        })
    }

    /// Returns the paths of the unpacked libraries that may have handlers.
    pub(super) fn libraries(&self) -> impl Iterator<Item = PathBuf> {
        let own = self.inside.iter();
        let own = own.filter(|inside| !inside.is_bundled());
        own.map(|inside| inside.place.clone())
    }

    /// Returns the folder with the wheel's files, and the parts of its name.
    pub(super) fn unpacked(&self) -> (&Path, &Name) {
        (self.folder.path(), &self.wheel.name)
    }

    /// Returns the name in the wheel of an unpacked file.
    pub(super) fn member(&self, place: &Path) -> String {
        let member = place.strip_prefix(self.folder.path());
        member.unwrap_or(place).display().to_string()
    }

    /// Adds a finding about a file that is not a library.
    pub(super) fn is_broken(&mut self, place: &Path, why: &anyhow::Error) {
        // The wheel's own findings cover files for other machines.
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

    /// Replaces unpacked paths in a text by paths in the wheel.
    fn named(&self, text: &str) -> String {
        let unpacked = self.folder.path().display().to_string();
        text.replace(&unpacked, &self.path.display().to_string())
    }

    /// Replaces unpacked paths in a judged library by paths in the wheel.
    pub(super) fn renamed(&self, mut judged: ExaminedLibrary) -> ExaminedLibrary {
        // The wheel's own findings cover the machine.
        let findings = &mut judged.examination.findings;
        findings.retain(|finding| finding.problem != Problem::OtherMachine);
        let rename = |finding: &mut Finding| {
            finding.what = self.named(&finding.what);
            finding.why = self.named(&finding.why);
        };
        judged.path = PathBuf::from(self.named(&judged.path.display().to_string()));
        judged.wheel = Some(self.path.clone());
        judged.examination.findings.iter_mut().for_each(rename);
        let answers = judged
            .candidates
            .iter_mut()
            .flat_map(|one| &mut one.answers);
        for answer in answers {
            match &mut answer.outcome {
                Outcome::Refused { why } | Outcome::Skipped { why } => *why = self.named(why),
                Outcome::Broke { how, .. } => *how = self.named(how),
                Outcome::Accepted { .. } => {}
            }
        }
        for verdict in &mut judged.verdicts {
            verdict.why = self.named(&verdict.why);
            verdict.risks.iter_mut().for_each(rename);
        }
        judged
    }

    /// Returns the wheel's own findings for the gate. Lists name a wheel by its project.
    pub(super) fn items(&self) -> impl Iterator<Item = Item> {
        self.findings.iter().map(|finding| Item {
            library: format!("{}.whl", self.wheel.name.project),
            path: self.path.display().to_string(),
            finding: finding.clone(),
            jaxlibs: Vec::new(),
            open: finding.problem == Problem::Foreign && finding.confidence == Confidence::Unknown,
        })
    }

    /// Returns the failures and risks of the wheel and its libraries, the most severe first.
    fn to_fix<'a>(&self, items: &'a [Item]) -> Vec<Vec<&'a Item>> {
        let start = self.path.display().to_string();
        let mine: Vec<&Item> = items
            .iter()
            .filter(|item| item.path.starts_with(&start) && item.finding.severity < Severity::Note)
            .collect();
        let mut groups: Vec<Vec<&Item>> = grouped(&mine, |one, other| {
            one.library == other.library
                && one.jaxlibs == other.jaxlibs
                && are_alike(&one.finding, &other.finding)
        })
        .into_iter()
        .map(|group| group.into_iter().copied().collect())
        .collect();
        groups.sort_by_key(|group| {
            let finding = &group[0].finding;
            (finding.severity, finding.confidence, finding.problem.id())
        });
        groups
    }

    /// Returns the report of the wheel.
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
