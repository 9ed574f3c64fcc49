//! Differences between two builds of a library that callers can notice: handlers, original custom calls, manifests,
//! shape contracts, answers and system requirements.

mod handler;
mod legacy;
mod operands;
mod system;

use crate::candidate::Candidate;
use crate::examination::Examination;
use crate::finding::Subject;
use crate::manifest::{self, Manifest};
use crate::verdict::{Loads, verdict};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use xla_ffi_sys::Revision;

/// The step to the next semantic version that a difference requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Existing calls behave as before.
    Patch,
    /// Existing calls behave as before, and more calls are possible.
    Minor,
    /// Existing calls fail or give different results.
    Major,
}

impl Step {
    /// Returns the version after `version`, or `None` if it is not `MAJOR.MINOR.PATCH`. Before 1.0.0, a major step
    /// raises the minor number.
    ///
    /// ```
    /// use xla_ffi_doctor::Step;
    ///
    /// assert_eq!(Step::Major.after("1.4.2").as_deref(), Some("2.0.0"));
    /// assert_eq!(Step::Major.after("0.4.2").as_deref(), Some("0.5.0"));
    /// assert_eq!(Step::Minor.after("0.4.2").as_deref(), Some("0.4.3"));
    /// assert_eq!(Step::Patch.after("new"), None);
    /// ```
    #[must_use]
    pub fn after(self, version: &str) -> Option<String> {
        let parts: Vec<u64> = version
            .split('.')
            .map(|part| part.parse().ok())
            .collect::<Option<_>>()?;
        let &[major, minor, patch] = parts.as_slice() else {
            return None;
        };
        let next = |number: u64| number.checked_add(1);
        let (major, minor, patch) = match (self, major) {
            (Self::Major, 0) => (0, next(minor)?, 0),
            (Self::Major, _) => (next(major)?, 0, 0),
            (Self::Minor, 1..) => (major, next(minor)?, 0),
            _ => (major, minor, next(patch)?),
        };
        Some(format!("{major}.{minor}.{patch}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Patch => "patch",
            Self::Minor => "minor",
            Self::Major => "major",
        })
    }
}

/// A difference between two builds of a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The part of the version number to increase because of the difference.
    pub step: Step,
    /// The library, handler or target that differs.
    pub about: Subject,
    /// The property that differs, such as `argument x: element types` or `platforms`.
    pub what: String,
    /// The property's old value, or `None` if the property was added.
    pub was: Option<String>,
    /// The property's new value, or `None` if the property was removed.
    pub now: Option<String>,
    /// The effect of the difference on callers.
    pub why: String,
}

/// A build of a library, to compare with a different build.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// The examination of the build's file.
    pub examination: &'a Examination,
    /// The build's handlers, without answers to metadata calls if the library was not run.
    pub candidates: &'a [Candidate],
}

/// Returns the differences between two builds, grouped by subject. In each group, the largest step is first.
#[must_use]
pub fn differences(old: &Build<'_>, new: &Build<'_>) -> Vec<Difference> {
    let mut list = List::default();
    let (was, now) = (&old.examination.manifests, &new.examination.manifests);
    for (was, now) in pairs(was, now, &mut list) {
        let mut about = list.about(Subject::Library);
        match (was, now) {
            (Some(was), None) => {
                let why = "loaders no longer know its handlers and their operands";
                about.removed(Step::Major, "manifest", &was.library, why);
            }
            (None, Some(now)) => {
                let why = "loaders know its handlers and their operands";
                about.added(Step::Minor, "manifest", &now.library, why);
            }
            _ => {}
        }
        handler::all(was, now, &mut list);
        legacy::all(was, now, &mut list);
    }
    system::compare(old, new, &mut list);
    answers(old, new, &mut list);
    let mut found = list.found;
    found.sort_by(|one, other| (&one.about, other.step).cmp(&(&other.about, one.step)));
    found
}

/// Pairs the old and new manifests of libraries with the same name. If each build has only one manifest, the names may
/// differ.
fn pairs<'a>(
    old: &'a [Manifest],
    new: &'a [Manifest],
    list: &mut List,
) -> Vec<(Option<&'a Manifest>, Option<&'a Manifest>)> {
    if let ([was], [now]) = (old, new) {
        if was.library != now.library {
            list.about(Subject::Library).changed(
                Step::Major,
                "name of the library",
                &was.library,
                &now.library,
                "the names of targets contain the library's name, so exported programs name targets that no longer exist",
            );
        }
        return vec![(Some(was), Some(now))];
    }
    let by_name = |all: &'a [Manifest], name: &str| all.iter().find(|one| one.library == name);
    let names: BTreeSet<&str> = old.iter().chain(new).map(|m| m.library.as_str()).collect();
    names
        .into_iter()
        .map(|name| (by_name(old, name), by_name(new, name)))
        .collect()
}

/// Adds differences in the jaxlibs that load the handlers. Verdicts that are unknown in either build are not compared.
fn answers(old: &Build<'_>, new: &Build<'_>, list: &mut List) {
    for was in old.candidates {
        let Some(now) = new.candidates.iter().find(|now| now.name == was.name) else {
            continue;
        };
        if was.answers.is_empty() || now.answers.is_empty() {
            continue;
        }
        let changed = |from: Loads, to: Loads| -> Vec<Revision> {
            let is = |revision: &Revision| {
                loads(was, old.examination, *revision) == from
                    && loads(now, new.examination, *revision) == to
            };
            Revision::ALL.into_iter().filter(is).collect()
        };
        let mut about = list.about(Subject::Handler(was.name.clone()));
        let what = "supported jaxlibs";
        let lost = changed(Loads::Yes, Loads::No);
        if !lost.is_empty() {
            let why = "calls on these jaxlibs fail";
            about.removed(Step::Major, what, &jaxlibs(&lost), why);
        }
        let won = changed(Loads::No, Loads::Yes);
        if !won.is_empty() {
            about.added(Step::Minor, what, &jaxlibs(&won), "it can be called there");
        }
    }
}

fn loads(candidate: &Candidate, examination: &Examination, on: Revision) -> Loads {
    let compiled = &examination.compiled_with;
    let jaxlib = on.first_jaxlib();
    verdict(jaxlib, candidate, None, compiled).loads
}

fn jaxlibs(revisions: &[Revision]) -> String {
    let ranges: Vec<String> = revisions
        .iter()
        .map(|revision| match revision.last_jaxlib() {
            Some(last) if last == revision.first_jaxlib() => last.to_owned(),
            Some(last) => format!("{} to {last}", revision.first_jaxlib()),
            None => format!("{} or later", revision.first_jaxlib()),
        })
        .collect();
    ranges.join(", ")
}

/// The differences that the comparison has found so far.
#[derive(Default)]
struct List {
    found: Vec<Difference>,
}

impl List {
    fn about(&mut self, subject: Subject) -> About<'_> {
        About {
            list: self,
            subject,
            before: String::new(),
        }
    }
}

/// Adds differences about one subject, such as a handler, or about a part of the subject, such as one operand.
struct About<'a> {
    list: &'a mut List,
    subject: Subject,
    before: String,
}

impl About<'_> {
    /// Returns a value that adds differences about a part of this subject. The part's name precedes the name of each
    /// property.
    fn part(&mut self, name: &str) -> About<'_> {
        About {
            list: self.list,
            subject: self.subject.clone(),
            before: format!("{}{name}: ", self.before),
        }
    }

    fn add(&mut self, step: Step, what: &str, was: Option<&str>, now: Option<&str>, why: &str) {
        let difference = Difference {
            step,
            about: self.subject.clone(),
            what: format!("{}{what}", self.before),
            was: was.map(str::to_owned),
            now: now.map(str::to_owned),
            why: why.to_owned(),
        };
        self.list.found.push(difference);
    }

    fn changed(
        &mut self,
        step: Step,
        what: &str,
        was: impl ToString,
        now: impl ToString,
        why: &str,
    ) {
        self.add(
            step,
            what,
            Some(&was.to_string()),
            Some(&now.to_string()),
            why,
        );
    }

    /// Adds a difference if the old and the new value are not equal as text.
    fn compared(
        &mut self,
        step: Step,
        what: &str,
        was: impl ToString,
        now: impl ToString,
        why: &str,
    ) {
        let (was, now) = (was.to_string(), now.to_string());
        if was != now {
            self.changed(step, what, was, now, why);
        }
    }

    fn added(&mut self, step: Step, what: &str, now: &str, why: &str) {
        self.add(step, what, None, Some(now), why);
    }

    fn removed(&mut self, step: Step, what: &str, was: &str, why: &str) {
        self.add(step, what, Some(was), None, why);
    }

    /// Adds a difference for a property whose value is yes or no. A change to no rejects calls that were accepted; a
    /// change to yes accepts more calls.
    fn toggled(&mut self, what: &str, (was, now): (bool, bool), (narrows, widens): (&str, &str)) {
        match (was, now) {
            (true, false) => self.changed(Step::Major, what, "yes", "no", narrows),
            (false, true) => self.changed(Step::Minor, what, "no", "yes", widens),
            _ => {}
        }
    }

    /// Compares the old and new sets of values that callers may use. A removed value breaks existing calls.
    fn offers(&mut self, what: &str, was: &[String], now: &[String], (gone, came): (&str, &str)) {
        self.sets(what, (was, now), (Step::Major, gone), (Step::Minor, came));
    }

    /// Compares the old and new sets of values that callers or systems must provide. An added value breaks existing
    /// calls.
    fn demands(&mut self, what: &str, was: &[String], now: &[String], (gone, came): (&str, &str)) {
        self.sets(what, (was, now), (Step::Minor, gone), (Step::Major, came));
    }

    fn sets(
        &mut self,
        what: &str,
        (was, now): (&[String], &[String]),
        gone: (Step, &str),
        came: (Step, &str),
    ) {
        let missing = |from: &[String], other: &[String]| {
            let list: Vec<&str> = from
                .iter()
                .filter(|one| !other.contains(one))
                .map(String::as_str)
                .collect();
            list.join(", ")
        };
        let (lost, won) = (missing(was, now), missing(now, was));
        if !lost.is_empty() {
            self.removed(gone.0, what, &lost, gone.1);
        }
        if !won.is_empty() {
            self.added(came.0, what, &won, came.1);
        }
    }
}

/// Returns the names of the handler's integer attributes, which a shape contract may use as sizes.
fn attribute_names(handler: &manifest::Handler) -> Vec<&str> {
    let integers = handler.attrs.iter();
    let integers = integers.filter(|attr| attr.from.is_none() && attr.ty.starts_with(['i', 'u']));
    integers.map(|attr| attr.name.as_str()).collect()
}
