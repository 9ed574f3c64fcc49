//! What a wheel says that it is: the versions of its own form, its name and version beside those of the file name, where
//! installers put what lies in `*.data`.

use super::proved;
use crate::finding::{Finding, Problem, Weight};
use crate::wheel::Wheel;
use crate::wheel::metadata::Headers;
use pep440_rs::Version;
use std::collections::BTreeSet;

/// The folders of `NAME-VERSION.data` that installers know a place for.
const SCHEMES: [&str; 5] = ["purelib", "platlib", "headers", "scripts", "data"];

pub(super) fn findings(wheel: &Wheel, folder: &str, found: &mut Vec<Finding>) {
    let mut broken = |what: String, why: &str| {
        found.push(
            proved(Weight::Fails, Problem::WheelMetadata, what, why)
                .fix("build it anew with a build backend"),
        );
    };
    if let Some(headers) = &wheel.metadata.wheel {
        if let Some(what) = form(headers) {
            let what = format!("{folder}/WHEEL {what}");
            broken(
                what,
                "installers refuse a wheel whose form they do not know",
            );
        }
    }
    if let Some(headers) = &wheel.metadata.metadata {
        for what in project(headers, wheel) {
            let why = "installers compare it with the file name, and refuse the wheel";
            broken(format!("{folder}/METADATA {what}"), why);
        }
    }
    let strange: BTreeSet<&str> = wheel
        .members
        .iter()
        .filter_map(|member| {
            let mut parts = member.name.splitn(3, '/');
            let data = parts.next().filter(|part| part.ends_with(".data"))?;
            let scheme = parts.next()?;
            let is_known = parts.next().is_some() && SCHEMES.contains(&scheme);
            (!is_known).then(|| &member.name[..data.len() + 1 + scheme.len()])
        })
        .collect();
    for name in strange {
        let why = format!(
            "installers know {} there, and refuse others",
            SCHEMES.join(", ")
        );
        broken(format!("{name} has no place to be installed to"), &why);
    }
}

/// What is wrong with the version of the wheel's form.
fn form(headers: &Headers) -> Option<String> {
    let Some(told) = headers.all("wheel-version").next() else {
        return Some("has no Wheel-Version".to_owned());
    };
    let numbers: Option<Vec<u64>> = told
        .split('.')
        .map(|part| part.trim().parse().ok())
        .collect();
    match numbers.as_deref() {
        None => Some(format!("has a Wheel-Version that is none: {told:?}")),
        Some([0..=1, ..]) => None,
        Some(_) => Some(format!(
            "has Wheel-Version {told}, and 1.0 is the newest that installers know"
        )),
    }
}

/// What is wrong with the project's name and version.
fn project(headers: &Headers, wheel: &Wheel) -> Vec<String> {
    let mut wrong = Vec::new();
    for (key, shown) in [
        ("metadata-version", "Metadata-Version"),
        ("name", "Name"),
        ("version", "Version"),
    ] {
        if !headers.has(key) {
            wrong.push(format!("has no {shown}"));
        } else if headers.all(key).nth(1).is_some() {
            wrong.push(format!("has more than one {shown}"));
        }
    }
    let first = |key| headers.all(key).next().filter(|told| !told.is_empty());
    let named = &wheel.name;
    if let Some(told) = first("name").filter(|told| one_name(told) != one_name(&named.project)) {
        wrong.push(format!(
            "is of {told:?}, the file name says {:?}",
            named.project
        ));
    }
    if let Some(told) = first("version") {
        match told.parse() {
            Err(_) => wrong.push(format!("has a Version that is none: {told:?}")),
            Ok(version) if !is_of(&version, &named.version) => wrong.push(format!(
                "is of version {told:?}, the file name says {:?}",
                named.version
            )),
            Ok(_) => {}
        }
    }
    wrong
}

/// The one spelling of a project's name (PEP 503).
pub(super) fn one_name(name: &str) -> String {
    let parts = name.split(['-', '_', '.']);
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    parts.join("-").to_lowercase()
}

/// Whether a version is that of a file name, where `1.0_local` was written for `1.0+local`.
fn is_of(version: &Version, named: &str) -> bool {
    let with_plus = named
        .match_indices('_')
        .map(|(at, _)| format!("{}+{}", &named[..at], &named[at + 1..]));
    std::iter::once(named.to_owned())
        .chain(with_plus)
        .any(|named| named.parse().is_ok_and(|named: Version| named == *version))
}

#[cfg(test)]
mod tests {
    use super::{is_of, one_name};

    #[test]
    fn spellings_of_one_name_are_one() {
        assert_eq!(one_name("My.Own__-op"), "my-own-op");
        assert_ne!(one_name("my_op"), one_name("myop"));
    }

    #[test]
    fn signs_of_file_names_are_taken() {
        for (version, named, is_same) in [
            ("1", "1.0", true),
            ("1+cuda.12", "1.0_cuda.12", true),
            ("1+Cuda_12", "v1.0_cuda.12", true),
            ("1+cuda.12", "1.0+cuda12", false),
            ("1.0-1", "1.post1", true),
            ("1.0-RC.1", "1rc1", true),
            ("1", "2.0", false),
            ("1", "1.0_local", false),
        ] {
            let is = is_of(&version.parse().unwrap(), named);
            assert_eq!(is, is_same, "{version} {named}");
        }
    }
}
