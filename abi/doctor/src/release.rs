//! The published releases of jaxlib with this ABI, and what their wheels ask of a system.

use crate::finding::{Confidence, Finding, Problem, Severity};
use xla_ffi_abi::declared::parse_version;

/// Every release that the package index has had, oldest first; one was withdrawn. `cargo xtask verdicts`
/// asks the index, and a test compares.
pub const RELEASES: [&str; 32] = [
    "0.4.31", "0.4.32", "0.4.33", "0.4.34", "0.4.35", "0.4.36", "0.4.38", "0.5.0", "0.5.1",
    "0.5.3", "0.6.0", "0.6.1", "0.6.2", "0.7.0", "0.7.1", "0.7.2", "0.8.0", "0.8.1", "0.8.2",
    "0.8.3", "0.9.0", "0.9.0.1", "0.9.1", "0.9.2", "0.10.0", "0.10.1", "0.10.2", "0.11.0",
    "0.11.1", "0.11.2", "0.12.0", "0.12.0.1",
];

/// From which release on wheels for Linux ask for which glibc, by their tags (manylinux2014 is 2.17).
const GLIBC: [(&str, [u32; 2]); 2] = [("0.4.31", [2, 17]), ("0.7.1", [2, 27])];

/// First systems with a glibc, for people.
const SYSTEMS: &[([u32; 2], &str)] = &[
    ([2, 28], "Debian 10, RHEL 8"),
    ([2, 31], "Ubuntu 20.04, Debian 11"),
    ([2, 34], "RHEL 9"),
    ([2, 35], "Ubuntu 22.04"),
    ([2, 36], "Debian 12"),
    ([2, 39], "Ubuntu 24.04, RHEL 10"),
];

/// The oldest glibc on which the wheel of a release runs.
#[must_use]
pub fn glibc(version: &str) -> [u32; 2] {
    let wanted = parse_version(version);
    let from = GLIBC
        .iter()
        .rev()
        .find(|(first, _)| parse_version(first) <= wanted);
    from.unwrap_or(&GLIBC[0]).1
}

pub(crate) fn dotted(version: &[u32]) -> String {
    let numbers: Vec<String> = version.iter().map(u32::to_string).collect();
    numbers.join(".")
}

/// What the glibc that a library asks for means beside that of the releases it is to run with.
pub(crate) fn about_glibc(floor: &[u32], versions: &[&str]) -> Option<Finding> {
    let shown = dotted(floor);
    let runs = |version: &&&str| floor <= glibc(version).as_slice();
    let (with, without): (Vec<&&str>, Vec<&&str>) = versions.iter().partition(runs);
    let systems = SYSTEMS
        .iter()
        .find(|(version, _)| version.as_slice() >= floor)
        .map_or("newer systems only", |(_, systems)| *systems);
    let asks = "the versions that its symbols ask for";
    if without.is_empty() {
        let what = match with.as_slice() {
            [] => return None,
            [only] => format!("it runs wherever jaxlib {only} does: glibc {shown} or later"),
            _ => format!("it runs wherever these jaxlibs do: glibc {shown} or later"),
        };
        return Some(Finding::note(Problem::Glibc, what, asks));
    }
    let mut floors: Vec<String> = without
        .iter()
        .map(|version| dotted(&glibc(version)))
        .collect();
    floors.dedup();
    let which = match (without.as_slice(), with.first()) {
        ([only], _) => format!("jaxlib {only} does"),
        (_, None) => "jaxlib does".to_owned(),
        ([first, .., last], Some(_)) => format!("jaxlib {first} to {last} does"),
        ([], _) => return None,
    };
    let rest = with.first().map_or_else(String::new, |first| {
        format!("; it runs wherever jaxlib {first} or later does")
    });
    Some(
        Finding::risk(Problem::Glibc,
            format!(
                "it does not load on systems with a glibc older than {shown}, though {which} (from {}){rest}",
                floors.join(" and ")
            ),
            format!("its symbols ask for GLIBC_{shown}; first systems with it: {systems}"),
        )
        .fix("build it for an older system: with cargo-zigbuild or zig as the compiler, or in a manylinux image (docs/shipping.md)"),
    )
}

/// The first jaxlib whose CPU client answers the question for user data where it was given none; the ones before follow a
/// null pointer.
const USER_DATA: &str = "0.5.1";

/// What a handler's wish for user data means on the releases that it is to run with.
pub(crate) fn about_user_data(handler: &str, versions: &[&str]) -> Option<Finding> {
    let first = parse_version(USER_DATA);
    let without: Vec<&str> = versions
        .iter()
        .copied()
        .filter(|version| parse_version(version) < first)
        .collect();
    let which = match without.as_slice() {
        [] => return None,
        [only] => format!("jaxlib {only}"),
        [oldest, .., newest] => format!("jaxlib {oldest} to {newest}"),
    };
    let finding = Finding::new(
        Confidence::Proved,
        Severity::Risk,
        Problem::UserData,
        format!(
            "it asks for user data: in JAX with {which} a call ends the process, though the parameter be optional"
        ),
        "their runtime follows a null pointer where the program attached none, and JAX attaches none",
    );
    let fix = format!("require jaxlib {USER_DATA} or later, or leave user data to another handler");
    Some(finding.about_handler(handler).fix(fix))
}
