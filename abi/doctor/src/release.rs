//! The published releases of jaxlib with this ABI, and the systems that their wheels require.

use crate::finding::{Finding, Problem};
use pep440_rs::Version;
use std::str::FromStr;

/// Every published jaxlib release with this ABI, oldest first, including a withdrawn release. A test compares this list
/// with the table of `cargo xtask verdicts`.
pub const RELEASES: [&str; 32] = [
    "0.4.31", "0.4.32", "0.4.33", "0.4.34", "0.4.35", "0.4.36", "0.4.38", "0.5.0", "0.5.1",
    "0.5.3", "0.6.0", "0.6.1", "0.6.2", "0.7.0", "0.7.1", "0.7.2", "0.8.0", "0.8.1", "0.8.2",
    "0.8.3", "0.9.0", "0.9.0.1", "0.9.1", "0.9.2", "0.10.0", "0.10.1", "0.10.2", "0.11.0",
    "0.11.1", "0.11.2", "0.12.0", "0.12.0.1",
];

/// The glibc versions that the tags of jaxlib's Linux wheels require, each with the first release that requires it. The
/// tag manylinux2014 means glibc 2.17.
const GLIBC: [(&str, [u32; 2]); 2] = [("0.4.31", [2, 17]), ("0.7.1", [2, 27])];

/// For each version of glibc, the first Linux distributions that have it.
const SYSTEMS: &[([u32; 2], &str)] = &[
    ([2, 28], "Debian 10, RHEL 8"),
    ([2, 31], "Ubuntu 20.04, Debian 11"),
    ([2, 34], "RHEL 9"),
    ([2, 35], "Ubuntu 22.04"),
    ([2, 36], "Debian 12"),
    ([2, 39], "Ubuntu 24.04, RHEL 10"),
];

/// Parses a release's version for comparisons.
pub(crate) fn number(release: &str) -> Version {
    release.parse().unwrap_or_else(|_| Version::new([0]))
}

/// The releases selected by one `--jaxlib`: `0.9.1`, `0.5.0..`, `..0.9.2`, `0.5.0..0.9.2` (including both ends).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Releases(pub Vec<&'static str>);

impl FromStr for Releases {
    type Err = String;

    /// Parses the value of the option `--jaxlib`. Returns an error if the value selects no published release.
    fn from_str(text: &str) -> Result<Self, String> {
        let end = |text: &str, default: &str| {
            match text {
            "" => Ok(number(default)),
            _ => Version::from_str(text).map_err(|_| {
                format!("expected a jaxlib version (0.12.0) or a range (0.5.0.., ..0.9.2, 0.5.0..0.9.2), got {text:?}")
            }),
        }
        };
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let (first, last) = (
            end(first, RELEASES[0])?,
            end(last, RELEASES[RELEASES.len() - 1])?,
        );
        let is_selected = |release: &&str| (&first..=&last).contains(&&number(release));
        let selected: Vec<&str> = RELEASES.into_iter().filter(is_selected).collect();
        if selected.is_empty() {
            let before = RELEASES
                .into_iter()
                .rfind(|release| number(release) < first);
            let after = RELEASES.into_iter().find(|release| number(release) > last);
            let nearest: Vec<&str> = before.into_iter().chain(after).collect();
            return Err(format!(
                "no such jaxlib with XLA FFI is published; the nearest: {}",
                nearest.join(", ")
            ));
        }
        Ok(Self(selected))
    }
}

/// Returns the oldest glibc with which the wheel of the jaxlib release `version` can be installed.
#[must_use]
pub fn glibc(version: &str) -> [u32; 2] {
    let is_from = |(first, _): &&(&str, _)| number(first) <= number(version);
    GLIBC.iter().rev().find(is_from).unwrap_or(&GLIBC[0]).1
}

pub(crate) fn dotted(version: &[u32]) -> String {
    let numbers: Vec<String> = version.iter().map(u32::to_string).collect();
    numbers.join(".")
}

/// Returns a text for consecutive releases, such as `jaxlib 0.5.0` or `jaxlib 0.4.31 to 0.5.0`.
fn span(versions: &[&str]) -> Option<String> {
    match versions {
        [] => None,
        [only] => Some(format!("jaxlib {only}")),
        [first, .., last] => Some(format!("jaxlib {first} to {last}")),
    }
}

/// Returns the remedy for a library that requires a glibc version that is too new.
pub(crate) fn avoid(version: &str) -> &'static str {
    match version {
        "GLIBC_ABI_DT_RELR" => "link with -Wl,-z,nopack-relative-relocs",
        _ => {
            "build for an older system with cargo-zigbuild, zig or a manylinux image (docs/shipping.md)"
        }
    }
}

/// Returns a finding that compares the glibc that a library requires with the glibc of jaxlib's wheels. `name` is the
/// required version's name.
pub(crate) fn about_glibc((floor, name): (Vec<u32>, &str), versions: &[&str]) -> Option<Finding> {
    let shown = dotted(&floor);
    let runs = |version: &&str| floor.as_slice() <= glibc(version).as_slice();
    let (with, without): (Vec<&str>, Vec<&str>) =
        versions.iter().partition(|version| runs(version));
    let Some(which) = span(&without) else {
        let what = format!("requires glibc {shown}, no more than {}", span(&with)?);
        return Some(Finding::note(
            Problem::Glibc,
            what,
            format!("it requires {name}"),
        ));
    };
    let first = SYSTEMS
        .iter()
        .find(|(version, _)| *version.as_slice() >= *floor);
    let systems = first.map_or("none yet", |(_, systems)| systems);
    let what = format!("requires glibc {shown}, and the wheels of {which} require less");
    let why = format!("it requires {name}; the first systems with it: {systems}");
    Some(Finding::risk(Problem::Glibc, what, why).fix(avoid(name)))
}

/// The first jaxlib whose CPU client supports calls without user data. Earlier releases dereference a null pointer.
const USER_DATA: &str = "0.5.1";

/// Returns a finding if a handler needs user data and some of these jaxlib releases do not support it.
pub(crate) fn about_user_data(handler: &str, versions: &[&str]) -> Option<Finding> {
    let is_older = |version: &&str| number(version) < number(USER_DATA);
    let without: Vec<&str> = versions.iter().copied().filter(is_older).collect();
    let which = span(&without)?;
    let finding = Finding::proved_risk(
        Problem::UserData,
        format!(
            "uses user data, so that calls in JAX with {which} end the process, even if the parameter is optional"
        ),
        "their runtime dereferences a null pointer, because JAX attaches no user data",
    );
    let fix = format!("require jaxlib {USER_DATA} or later, or remove the user data");
    Some(finding.about_handler(handler).fix(fix))
}
