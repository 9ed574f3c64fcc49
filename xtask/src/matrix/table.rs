//! The table of a matrix: what ran, beside what was expected.

use super::in_ci;
use crate::expected::{Cell, Expected, Runtime};
use std::collections::BTreeMap;

/// One result: the cell, and what was said.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) cell: Cell,
    pub(super) message: String,
}

/// The cells of one jaxlib by library and feature, in the order of the driver; or why there are none.
#[derive(Debug)]
pub(super) enum Column {
    Cells {
        order: Vec<(String, String)>,
        cells: BTreeMap<(String, String), Outcome>,
    },
    NoWheel(String),
    Failed(String),
}

impl Column {
    pub(super) fn brief(&self) -> String {
        match self {
            Self::Cells { cells, .. } => format!("{} cells", cells.len()),
            Self::NoWheel(why) | Self::Failed(why) => why.clone(),
        }
    }
}

/// What ran, and what was expected of it.
pub(super) struct Table<'a> {
    /// What the rows are grouped by, and each group's title.
    pub(super) libraries: &'a [(&'a str, &'a str)],
    pub(super) runtimes: Vec<Runtime>,
    pub(super) columns: Vec<Column>,
    pub(super) expected: Expected,
}

impl Table<'_> {
    /// Every row: those that ran, in the driver's order, then those that are only expected.
    fn rows(&self) -> Vec<(String, String)> {
        let mut rows: Vec<(String, String)> = Vec::new();
        for (library, _) in self.libraries {
            let mut of_library: Vec<String> = Vec::new();
            for column in &self.columns {
                if let Column::Cells { order, .. } = column {
                    for (_, feature) in order.iter().filter(|(of, _)| of.as_str() == *library) {
                        if !of_library.contains(feature) {
                            of_library.push(feature.clone());
                        }
                    }
                }
            }
            for feature in self.expected.features(library) {
                if !of_library.iter().any(|known| known == feature) {
                    of_library.push(feature.to_owned());
                }
            }
            rows.extend(
                of_library
                    .into_iter()
                    .map(|feature| ((*library).to_owned(), feature)),
            );
        }
        rows
    }

    /// What a cell is to show, and the complaint where it differs from what is expected.
    fn judge(
        &self,
        row: &(String, String),
        runtime: &Runtime,
        column: &Column,
    ) -> (&'static str, Option<String>) {
        let Column::Cells { cells, .. } = column else {
            return ("-", None);
        };
        let wanted = self.expected.cell(&row.0, &row.1, runtime);
        match (cells.get(row), wanted) {
            (Some(got), Some((wanted, words))) if got.cell.is_expected(wanted) => {
                let said = got.message.contains(words);
                let complaint =
                    || format!("absent for another reason than {words:?}: {}", got.message);
                if said {
                    (got.cell.name(), None)
                } else {
                    ("FAIL", Some(complaint()))
                }
            }
            (Some(got), Some((wanted, _))) => (
                "FAIL",
                Some(format!(
                    "expected {}, got {}: {}",
                    wanted.name(),
                    got.cell.name(),
                    got.message
                )),
            ),
            (Some(got), None) => (
                "FAIL",
                Some(format!(
                    "not in expected.txt; got {}: {}",
                    got.cell.name(),
                    got.message
                )),
            ),
            (None, _) => (
                "FAIL",
                Some("expected.txt lists it, but no driver ran it".to_owned()),
            ),
        }
    }

    /// Prints the table and everything that is not as expected; tells whether all is.
    pub(super) fn show(&self) -> bool {
        let rows = self.rows();
        let width = rows
            .iter()
            .map(|(_, feature)| feature.len())
            .max()
            .unwrap_or(0);
        let mut complaints = Vec::new();
        let mut absences: BTreeMap<(String, String), String> = BTreeMap::new();
        for (library, title) in self.libraries {
            println!("\n{title}");
            print!("{:width$}", "");
            for runtime in &self.runtimes {
                print!("  {:>1$}", runtime.label(), column_width(runtime));
            }
            print!("\n{:width$}", "");
            for runtime in &self.runtimes {
                print!("  {:>1$}", runtime.revision.name(), column_width(runtime));
            }
            println!();
            for row in rows.iter().filter(|(of, _)| of.as_str() == *library) {
                print!("{:width$}", row.1);
                for (runtime, column) in self.runtimes.iter().zip(&self.columns) {
                    let (shown, complaint) = self.judge(row, runtime, column);
                    print!("  {shown:>0$}", column_width(runtime));
                    if let Some(complaint) = complaint {
                        complaints.push(format!(
                            "{library}, {}, {}: {complaint}",
                            row.1,
                            named(runtime)
                        ));
                    } else if let Column::Cells { cells, .. } = column
                        && let Some(outcome) = cells.get(row)
                        && outcome.cell != Cell::Ok
                    {
                        let key = (
                            format!("{library}, {}", row.1),
                            outcome.cell.name().to_owned(),
                        );
                        let said: String = outcome.message.chars().take(200).collect();
                        absences
                            .entry(key)
                            .or_insert_with(|| format!("{}: {said}", named(runtime)));
                    }
                }
                println!();
            }
        }
        println!("\nwhat was said, once a row:");
        for ((row, cell), said) in &absences {
            println!("  {row}, {cell} on {said}");
        }
        for (runtime, column) in self.runtimes.iter().zip(&self.columns) {
            match column {
                Column::NoWheel(why) => println!("no wheel, {}: {why}", named(runtime)),
                Column::Failed(why) => println!("FAIL, {}: {why}", named(runtime)),
                Column::Cells { .. } => {}
            }
        }
        for complaint in &complaints {
            println!("FAIL: {complaint}");
        }
        let lost = |column: &Column| match column {
            Column::Failed(_) => true,
            // A developer's machine may lack a Python; CI may not.
            Column::NoWheel(_) => in_ci(),
            Column::Cells { .. } => false,
        };
        let ran = self
            .columns
            .iter()
            .any(|column| matches!(column, Column::Cells { .. }));
        complaints.is_empty() && ran && !self.columns.iter().any(lost)
    }

    /// One plain line with all counts.
    pub(super) fn summary(&self, what: &str) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for row in self.rows() {
            for (runtime, column) in self.runtimes.iter().zip(&self.columns) {
                *counts
                    .entry(self.judge(&row, runtime, column).0)
                    .or_default() += 1;
            }
        }
        let count = |name: &str| counts.get(name).copied().unwrap_or(0);
        let columns = |wanted: fn(&Column) -> bool| {
            self.columns.iter().filter(|column| wanted(column)).count()
        };
        format!(
            "{} ok, {} absent, {} moot, {} refused, {} wrong, {} crash, {} FAIL; {} of {} {what} ran, {} without a wheel",
            count("ok"),
            count("absent"),
            count("moot"),
            count("refused"),
            count("wrong"),
            count("crash"),
            count("FAIL") + columns(|column| matches!(column, Column::Failed(_))),
            columns(|column| matches!(column, Column::Cells { .. })),
            self.columns.len(),
            columns(|column| matches!(column, Column::NoWheel(_)))
        )
    }

    /// All cells with their messages, for whoever wants to look closer.
    pub(super) fn messages(&self) -> Vec<serde_json::Value> {
        let mut all = Vec::new();
        for (runtime, column) in self.runtimes.iter().zip(&self.columns) {
            let Column::Cells { order, cells } = column else {
                continue;
            };
            for key in order {
                let Some(outcome) = cells.get(key) else {
                    continue;
                };
                all.push(serde_json::json!({
                    "host": runtime.host, "version": runtime.version, "revision": runtime.revision.name(),
                    "library": key.0, "feature": key.1, "cell": outcome.cell.name(), "message": outcome.message,
                }));
            }
        }
        all
    }

    /// How many cells of a column are what, by name.
    pub(super) fn counts(
        &self,
        runtime: &Runtime,
        column: &Column,
    ) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for row in self.rows() {
            *counts
                .entry(self.judge(&row, runtime, column).0)
                .or_default() += 1;
        }
        counts
    }

    /// The rows that are absent in a column, each once.
    pub(super) fn absent(&self, runtime: &Runtime, column: &Column) -> Vec<String> {
        let mut found = Vec::new();
        for row in self.rows() {
            if self.judge(&row, runtime, column).0 == "absent" && !found.contains(&row.1) {
                found.push(row.1);
            }
        }
        found
    }
}

/// How wide a column is: as its head, and as the longest word in it.
fn column_width(runtime: &Runtime) -> usize {
    runtime.label().len().max(7)
}

/// A host as errors name it.
fn named(runtime: &Runtime) -> String {
    format!("{} {}", runtime.host, runtime.version)
}
