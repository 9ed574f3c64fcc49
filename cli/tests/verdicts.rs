//! Compares the doctor's verdicts with the measured behaviour of real jaxlibs, for handlers built with XLA's headers.
//! `cargo xtask verdicts` makes the measurements (tests/jax/verdicts.txt). A verdict may be unknown, but must not
//! contradict the measurement.

use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use xla_ffi_testing::headers::{Headers, folder_or_skip};
use xla_ffi_testing::verdicts::{self, End, Kind, Row, Table};
use xla_ffi_testing::{cost, target_folder};

/// The doctor's verdict on a handler for one jaxlib, simplified for the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// The doctor reports that the handler loads and that its calls have no known risks.
    Works,
    /// The doctor reports proof that the handler does not work.
    Fails,
    /// The doctor does not claim that the handler works or fails.
    Open,
}

fn claim(verdict: &Value) -> Claim {
    let risks = verdict["risks"].as_array().unwrap();
    let proved = verdict["confidence"] == "proved" && verdict["loads"] == "no";
    let proved_risk = |risk: &Value| risk["confidence"] == "proved" && risk["severity"] == "fails";
    if (proved && verdict["declared"] == false) || risks.iter().any(proved_risk) {
        Claim::Fails
    } else if verdict["loads"] == "yes" && risks.iter().all(|risk| risk["severity"] == "note") {
        Claim::Works
    } else {
        Claim::Open
    }
}

/// Returns the doctor's claims about a library's handler for every published jaxlib, in the table's order.
fn claims(library: &Path, arguments: &[&str], table: &Table) -> Vec<Claim> {
    let library = library.display().to_string();
    let doctor = [env!("CARGO_BIN_EXE_xla-ffi"), "doctor", &library];
    let arguments = [&doctor, &["--format=json", "--jaxlib", ".."][..], arguments].concat();
    let (output, cost) = cost::shell("\"$@\"", &arguments, |_| {});
    assert!(
        cost.is_under(Duration::from_secs(2)),
        "{library} takes {cost:?}"
    );
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let verdicts = told["libraries"][0]["jaxlibs"].as_array().unwrap();
    let releases: Vec<&str> = verdicts
        .iter()
        .map(|v| v["jaxlib"].as_str().unwrap())
        .collect();
    assert_eq!(
        releases, table.jaxlibs,
        "the doctor's releases are those of the table"
    );
    verdicts.iter().map(claim).collect()
}

fn row<'a>(table: &'a Table, headers: &str, case: &str) -> &'a Row {
    let found = table
        .rows
        .iter()
        .find(|row| row.headers == headers && row.case == case);
    found.unwrap_or_else(|| panic!("tests/jax/verdicts.txt has no {headers} {case}"))
}

#[test]
fn claims_are_what_jaxlibs_do() {
    let test = "claims_are_what_jaxlibs_do";
    let Some(folder) = folder_or_skip(test) else {
        return;
    };
    let table = Table::committed();
    let mut wrong = Vec::new();
    let mut told = [0, 0, 0];
    for version in verdicts::headers() {
        let headers = Headers {
            version: version.to_owned(),
            revision: xla_ffi_abi::xla_ffi_sys::Revision::of_jaxlib(version).unwrap(),
            include: folder.join(version),
        };
        for kind in Kind::ALL {
            if !kind.is_in(headers.revision) {
                continue;
            }
            let out = target_folder().join("tmp/verdicts");
            let Some(library) = verdicts::library(&out, test, &headers, kind) else {
                return;
            };
            let stages = "execute=stateful,instantiate=stateful_instantiate";
            let types = match headers.revision as u8 {
                7.. => "factor=factor_type_id,factor_type_info",
                _ => "factor=factor_type_id",
            };
            let cases: &[(&str, &[&str])] = match kind {
                Kind::Stateful => &[
                    ("stateful", &["--handler", stages]),
                    ("registered", &["--handler", stages, "--type", types]),
                ],
                other => &[(other.handler(), &["--handler", other.handler()])],
            };
            for (case, arguments) in cases {
                let ends = &row(&table, version, case).ends;
                for (at, claim) in claims(&library, arguments, &table).into_iter().enumerate() {
                    told[claim as usize] += 1;
                    let jaxlib = &table.jaxlibs[at];
                    let Some(end) = ends[at] else {
                        panic!("{version} {case} was not measured on {jaxlib}");
                    };
                    // Without `--type`, the doctor cannot know whether users register the type. The measurement with a
                    // registered type therefore also counts.
                    let or_registered = *case == "stateful"
                        && row(&table, version, "registered").ends[at] == Some(End::Works);
                    let is_true = match claim {
                        Claim::Works => end == End::Works,
                        Claim::Fails => end != End::Works && !or_registered,
                        Claim::Open => true,
                    };
                    if !is_true {
                        wrong.push(format!(
                            "{case} of {version} on {jaxlib}: {claim:?} is claimed, {}",
                            end.name()
                        ));
                    }
                }
            }
        }
    }
    let [works, fails, open] = told;
    println!("{works} claimed to work, {fails} proved to fail, {open} open");
    assert!(
        wrong.is_empty(),
        "{} false claims:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    // Unknown verdicts never contradict a measurement, so a minimum number of known verdicts is required.
    assert!(works > 250 && fails > 300, "{told:?}");
}

#[test]
fn wheels_ask_for_the_glibc_that_the_doctor_knows() {
    let table = Table::committed();
    for (version, glibc) in table.jaxlibs.iter().zip(&table.glibc) {
        let [major, minor] = xla_ffi_doctor::glibc(version);
        assert_eq!(&format!("{major}.{minor}"), glibc, "{version}");
    }
    assert_eq!(table.jaxlibs, xla_ffi_doctor::RELEASES);
}
