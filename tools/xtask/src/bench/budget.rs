//! The limits for the cost of a call, and the comparison of measured costs with the limits.

use anyhow::{Context, Result};
use serde_json::Value;

/// The columns of the table of costs, in order.
pub(super) const COLUMNS: [&str; 11] = [
    "rust",
    "c_gcc",
    "c_clang",
    "unchecked_gcc",
    "unchecked_clang",
    "header_gcc",
    "header_clang",
    "cpp_gcc",
    "cpp_clang",
    "upstream_gcc",
    "upstream_clang",
];

/// The columns with limits. Each has the column of the C handlers that a compiler of the same family built.
const OURS: [(&str, &str); 3] = [
    ("rust", "c_clang"),
    ("cpp_gcc", "c_gcc"),
    ("cpp_clang", "c_clang"),
];
/// Known exceptions whose cost is higher than with upstream's header. Each has a case, a column, and the allowed
/// multiple of upstream's cost.
///
/// `docs/maintaining/performance.md` lists the measurements.
const NOT_YET: [(&str, &str, f64); 1] = [("8 arguments, 8 results", "rust", 1.1)];

/// A case of the benchmark, with the nanoseconds per call in each column.
pub(super) struct Row {
    case: String,
    is_error: bool,
    pub(super) is_judged: bool,
    costs: [Option<f64>; COLUMNS.len()],
}

impl Row {
    pub(super) fn read(row: &Value) -> Result<Self> {
        Ok(Self {
            case: row["case"]
                .as_str()
                .context("a case has no name")?
                .to_owned(),
            is_error: row["kind"] == "error",
            is_judged: row["kind"] != "information",
            costs: COLUMNS.map(|column| row[column].as_f64()),
        })
    }

    fn cost(&self, column: &str) -> Option<f64> {
        let index = COLUMNS.iter().position(|known| *known == column)?;
        self.costs[index]
    }

    fn quotient(&self, column: &str, other: &str) -> Option<f64> {
        Some(self.cost(column)? / self.cost(other)?)
    }

    /// Returns the cost with upstream's header. Of the two compilers, the faster counts.
    fn upstream(&self) -> Option<f64> {
        let costs = ["upstream_gcc", "upstream_clang"].map(|column| self.cost(column));
        costs.into_iter().flatten().reduce(f64::min)
    }

    /// Returns the costs of the case, each with its limit.
    pub(super) fn judge(&self) -> Vec<Judged> {
        let mut all = vec![];
        for (column, c) in OURS {
            let Some(cost) = self.cost(column) else {
                continue;
            };
            let mut add = |against, other: f64, goal: f64| {
                let known = |entry: &&(&str, &str, f64)| {
                    against == Against::Upstream
                        && (entry.0, entry.1) == (self.case.as_str(), column)
                };
                let limit = NOT_YET
                    .iter()
                    .find(known)
                    .map_or(goal, |entry| goal.max(entry.2 * other));
                all.push(Judged {
                    case: self.case.clone(),
                    column,
                    cost,
                    limit,
                    goal,
                    against,
                });
            };
            if let Some(c) = self.cost(c) {
                let goal = match (self.is_error, self.case.as_str()) {
                    (false, _) => (1.15 * c).max(c + 0.5),
                    (true, "wrong dtype") => 2.0 * c,
                    // The error contains the handler's name and stage, which the C handlers omit.
                    (true, _) => 3.0 * c,
                };
                add(Against::C, c, goal);
            }
            if let (false, Some(upstream)) = (self.is_error, self.upstream()) {
                add(Against::Upstream, upstream, upstream);
            }
        }
        all
    }
}

/// The column with which a cost is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Against {
    C,
    Upstream,
}

/// A measured cost and its limit.
pub(super) struct Judged {
    case: String,
    column: &'static str,
    pub(super) cost: f64,
    pub(super) limit: f64,
    /// The limit without the exceptions in [`NOT_YET`].
    goal: f64,
    against: Against,
}

impl Judged {
    /// Returns the distance of the cost below the limit, relative to the limit. The distance is negative if the cost
    /// exceeds the limit.
    pub(super) fn room(&self) -> f64 {
        1.0 - self.cost / self.limit
    }

    /// Returns true if only an exception in [`NOT_YET`] allows the cost.
    pub(super) fn is_behind(&self) -> bool {
        self.limit > self.goal && self.cost > self.goal && self.cost <= self.limit
    }

    pub(super) fn is_of(&self, other: &Self) -> bool {
        (&self.case, self.column, self.against) == (&other.case, other.column, other.against)
    }
}

impl std::fmt::Display for Judged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            case,
            column,
            cost,
            limit,
            goal,
            against,
        } = self;
        let against = match against {
            Against::C => "C",
            Against::Upstream => "upstream's header",
        };
        write!(
            f,
            "{case}, {column}: {cost:.1} ns, at most {limit:.1} ns beside {against}"
        )?;
        if limit > goal {
            write!(f, " ({goal:.1} is the goal)")?;
        }
        Ok(())
    }
}

/// Prints the costs of all cases as a table.
pub(super) fn print(rows: &[Row]) {
    println!("ns a call, one core, minimum of many");
    print!("{:36}", "");
    for column in COLUMNS {
        print!("{column:>16}");
    }
    println!(
        "{:>14}{:>15}{:>14}{:>18}",
        "rust/c_clang", "rust/upstream", "cpp/c, gcc", "cpp/c, clang"
    );
    let shown = |number: Option<f64>, digits: usize| {
        number.map_or_else(|| "-".to_owned(), |number| format!("{number:.digits$}"))
    };
    for row in rows {
        print!("{:36}", row.case);
        for cost in row.costs {
            print!("{:>16}", shown(cost, 1));
        }
        println!(
            "{:>14}{:>15}{:>14}{:>18}",
            shown(row.quotient("rust", "c_clang"), 2),
            shown(
                row.cost("rust")
                    .zip(row.upstream())
                    .map(|(rust, upstream)| rust / upstream),
                2
            ),
            shown(row.quotient("cpp_gcc", "c_gcc"), 2),
            shown(row.quotient("cpp_clang", "c_clang"), 2)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Row};

    fn row(case: &str, is_error: bool, costs: &[(&str, f64)]) -> Row {
        Row {
            case: case.to_owned(),
            is_error,
            is_judged: true,
            costs: COLUMNS.map(|column| {
                let found = costs.iter().find(|(name, _)| *name == column);
                found.map(|(_, cost)| *cost)
            }),
        }
    }

    fn over(row: &Row) -> usize {
        let judged = row.judge();
        judged.iter().filter(|judged| judged.room() < 0.0).count()
    }

    #[test]
    fn every_column_is_below_the_better_of_upstream() {
        let costs = |ours| {
            row(
                "a",
                false,
                &[
                    ("rust", ours),
                    ("cpp_gcc", ours),
                    ("cpp_clang", ours),
                    ("upstream_gcc", 20.0),
                    ("upstream_clang", 10.0),
                ],
            )
        };
        assert_eq!((over(&costs(9.9)), over(&costs(10.1))), (0, 3));
    }
}
