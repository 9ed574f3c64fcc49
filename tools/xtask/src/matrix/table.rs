//! The table of a matrix, which compares actual results with expected results.

use super::in_ci;
use crate::expected::{Cell, Expected, Runtime};
use std::collections::BTreeMap;

/// A measured result: the cell, and the message.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) cell: Cell,
    pub(super) message: String,
}

/// The cells of a runtime by library and feature, in the order of the driver, or the reason why no cells exist.
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

/// The actual results of all runtimes, and the expected results.
pub(super) struct Table<'a> {
    /// The groups of rows: the name of a library and the title of its group.
    pub(super) libraries: &'a [(&'a str, &'a str)],
    pub(super) runtimes: Vec<Runtime>,
    pub(super) columns: Vec<Column>,
    pub(super) expected: Expected,
}

impl Table<'_> {
    /// Returns all rows: first the rows that ran, in the driver's order, then the rows that are only expected.
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

    /// Returns the text of a cell. If the cell differs from the expected cell, also returns an error text.
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
        let complaint = match (cells.get(row), wanted) {
            (Some(got), Some((wanted, words))) if got.cell.is_expected(wanted) => {
                if got.message.contains(words) {
                    return (got.cell.name(), None);
                }
                format!("absent for another reason than {words:?}: {}", got.message)
            }
            (Some(got), wanted) => {
                let wanted = wanted.map_or("nothing", |(cell, _)| cell.name());
                format!(
                    "expected {wanted}, got {}: {}",
                    got.cell.name(),
                    got.message
                )
            }
            (None, _) => "expected.txt lists it, but no driver ran it".to_owned(),
        };
        ("FAIL", Some(complaint))
    }

    /// Prints the table and all differences from the expected cells. Returns true if there are no differences.
    pub(super) fn show(&self) -> bool {
        let rows = self.rows();
        let width = rows.iter().map(|(_, feature)| feature.len()).max();
        let width = width.unwrap_or(0);
        let mut complaints = Vec::new();
        for (library, title) in self.libraries {
            println!("\n{title}");
            let heads: [fn(&Runtime) -> String; 2] =
                [Runtime::label, |runtime| runtime.revision.name().to_owned()];
            for head in heads {
                print!("{:width$}", "");
                for runtime in &self.runtimes {
                    print!("  {:>1$}", head(runtime), column_width(runtime));
                }
                println!();
            }
            for row in rows.iter().filter(|(of, _)| of.as_str() == *library) {
                print!("{:width$}", row.1);
                for (runtime, column) in self.runtimes.iter().zip(&self.columns) {
                    let (shown, complaint) = self.judge(row, runtime, column);
                    print!("  {shown:>0$}", column_width(runtime));
                    let place = || format!("{library}, {}, {}", row.1, named(runtime));
                    complaints.extend(complaint.map(|why| format!("{}: {why}", place())));
                }
                println!();
            }
        }
        for (runtime, column) in self.runtimes.iter().zip(&self.columns) {
            match column {
                // A developer's machine may lack a Python version, but CI must have all versions.
                Column::NoWheel(why) if !in_ci() => println!("{}: {why}", named(runtime)),
                Column::NoWheel(why) | Column::Failed(why) => {
                    complaints.push(format!("{}: {why}", named(runtime)));
                }
                Column::Cells { .. } => {}
            }
        }
        for complaint in &complaints {
            println!("FAIL: {complaint}");
        }
        let mut columns = self.columns.iter();
        complaints.is_empty() && columns.any(|column| matches!(column, Column::Cells { .. }))
    }

    /// Returns one line of text with the number of cells of each kind.
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
        let names = ["ok", "absent", "moot", "refused", "wrong", "crash"];
        let names = names.map(|name| format!("{} {name}", count(name)));
        let columns = |wanted: fn(&Column) -> bool| {
            self.columns.iter().filter(|column| wanted(column)).count()
        };
        format!(
            "{}, {} FAIL; {} of {} {what} ran, {} without a wheel",
            names.join(", "),
            count("FAIL") + columns(|column| matches!(column, Column::Failed(_))),
            columns(|column| matches!(column, Column::Cells { .. })),
            self.columns.len(),
            columns(|column| matches!(column, Column::NoWheel(_)))
        )
    }
}

/// Returns the width of the column of a runtime, which is at least the width of the longest cell.
fn column_width(runtime: &Runtime) -> usize {
    runtime.label().len().max(7)
}

/// Returns the name and version of a host, for error messages.
fn named(runtime: &Runtime) -> String {
    format!("{} {}", runtime.host, runtime.version)
}
