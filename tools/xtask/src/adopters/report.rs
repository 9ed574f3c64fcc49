//! Measurements of a public project, and regressions from the expected values.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The result of building a project.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Build {
    pub(super) wheel: PathBuf,
    /// The CPU time of the build in seconds.
    pub(super) seconds: f64,
    pub(super) warnings: u64,
    /// The number of compiler warnings in XLA's headers or in the SDK's headers.
    pub(super) header_warnings: u64,
    /// The total size in bytes of the wheel's libraries.
    pub(super) bytes: u64,
}

/// The result of running a project's tests.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Suite {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) errors: u64,
    pub(super) skipped: u64,
    /// The signal or exit status of the test run; `None` if all tests ran.
    pub(super) ended: Option<String>,
    /// The text of the first error or failure.
    pub(super) reason: Option<String>,
}

/// The results of the project's tests on one jaxlib.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) jaxlib: String,
    /// The number of tests that should pass with the SDK's headers.
    pub(super) expected: u64,
    pub(super) upstream: Option<Suite>,
    pub(super) ours: Suite,
}

/// All measurements of one project.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) project: String,
    pub(super) version: String,
    pub(super) upstream: Build,
    pub(super) ours: Build,
    pub(super) rows: Vec<Row>,
}

impl Suite {
    /// Returns the cell of the table for the results of a test run.
    fn brief(&self) -> String {
        const REFUSED: &str = "is incompatible with the framework's API version";
        let refused = self
            .reason
            .as_ref()
            .is_some_and(|reason| reason.contains(REFUSED));
        let Self {
            passed,
            failed,
            errors,
            ..
        } = self;
        match (&self.ended, failed + errors) {
            (Some(ended), _) => ended.clone(),
            (None, 0) => format!("{passed} pass"),
            (None, _) if refused && *passed == 0 => "refused".to_owned(),
            (None, _) if refused => format!("refused, {passed} pass"),
            (None, failed) => format!("{passed} pass, {failed} fail"),
        }
    }
}

impl Report {
    /// Returns the regressions: results that are worse than with XLA's headers, or worse than in `projects.toml`.
    pub(super) fn defects(&self) -> Vec<String> {
        let mut defects = vec![];
        let (upstream, ours) = (&self.upstream, &self.ours);
        for (what, upstream, ours) in [
            ("warnings", upstream.warnings, ours.warnings),
            (
                "warnings in headers",
                upstream.header_warnings,
                ours.header_warnings,
            ),
        ] {
            if ours > upstream {
                defects.push(format!("{ours} {what}, {upstream} with XLA's headers"));
            }
        }
        for row in &self.rows {
            let (jaxlib, ours) = (&row.jaxlib, &row.ours);
            let reason = ours.reason.as_deref().unwrap_or_default();
            if ours.passed < row.expected || ours.ended.is_some() {
                defects.push(format!(
                    "jaxlib {jaxlib}: {}, expected {}: {reason}",
                    ours.brief(),
                    row.expected
                ));
            }
            if let Some(upstream) = &row.upstream
                && ours.passed < upstream.passed
            {
                defects.push(format!(
                    "jaxlib {jaxlib}: {}, {} with XLA's headers: {reason}",
                    ours.brief(),
                    upstream.brief()
                ));
            }
        }
        let name = &self.project;
        defects
            .iter()
            .map(|defect| format!("{name}: {defect}"))
            .collect()
    }
}

/// Returns the reports as a Markdown table, in which columns for XLA's headers precede columns for the SDK's headers.
pub(super) fn table(reports: &[Report]) -> String {
    let mut lines =
        String::from("| project | warnings | build | library | tests |\n|---|---|---|---|---|\n");
    for report in reports {
        let (upstream, ours) = (&report.upstream, &report.ours);
        let tests = report.rows.iter().map(|row| {
            let upstream = row.upstream.as_ref();
            let upstream = upstream.map_or("not run".to_owned(), Suite::brief);
            format!("{}: {upstream} / {}", row.jaxlib, row.ours.brief())
        });
        lines.push_str(&format!(
            "| {} {} | {} / {} | {:.0} / {:.0} s | {} / {} KiB | {} |\n",
            report.project,
            report.version,
            upstream.warnings,
            ours.warnings,
            upstream.seconds,
            ours.seconds,
            upstream.bytes / 1024,
            ours.bytes / 1024,
            tests.collect::<Vec<_>>().join("; "),
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(warnings: u64) -> Build {
        Build {
            wheel: PathBuf::new(),
            seconds: 1.0,
            warnings,
            header_warnings: 0,
            bytes: 1,
        }
    }

    fn report(warnings: u64, passed: u64, ended: Option<&str>) -> Report {
        let suite = |passed, ended: Option<&str>| Suite {
            passed,
            ended: ended.map(str::to_owned),
            ..Suite::default()
        };
        Report {
            project: "a".to_owned(),
            version: "1".to_owned(),
            upstream: build(1),
            ours: build(warnings),
            rows: vec![Row {
                jaxlib: "0.12.0".to_owned(),
                expected: 3,
                upstream: Some(suite(4, None)),
                ours: suite(passed, ended),
            }],
        }
    }

    #[test]
    fn a_defect_is_what_is_worse_than_upstream_or_than_expected() {
        for (warnings, passed, ended, defects) in [
            (1, 4, None, 0),
            (2, 4, None, 1),
            (1, 3, None, 1),
            (1, 2, None, 2),
            (1, 4, Some("crashed: SIGSEGV"), 1),
        ] {
            let found = report(warnings, passed, ended).defects();
            assert_eq!(found.len(), defects, "{found:?}");
        }
    }
}
