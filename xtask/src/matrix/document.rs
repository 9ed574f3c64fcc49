//! The table of hosts in `docs/versions.md`, written from what the matrix showed.

use super::table::{Column, Table};
use crate::python;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

const FILE: &str = "docs/versions.md";
const BEGIN: &str = "<!-- hosts: cargo xtask matrix --document -->";
const END: &str = "<!-- end of hosts -->";

/// Writes a row for each host that ran; those of others stay as they are.
pub(super) fn write(root: &Path, table: &Table<'_>) -> Result<()> {
    let date = python::output(Command::new("date").args(["-u", "+%F"]), "date")?;
    let mut rows = Vec::new();
    for (runtime, column) in table.runtimes.iter().zip(&table.columns) {
        if !matches!(column, Column::Cells { .. }) {
            continue;
        }
        let counts = table.counts(runtime, column);
        let count = |name: &str| counts.get(name).copied().unwrap_or(0);
        let (ok, absent, failed) = (count("ok"), count("absent"), count("FAIL"));
        let (host, version, revision) = (&runtime.host, &runtime.version, runtime.revision);
        let lacks = table.absent(runtime, column).join(", ");
        let head = format!("| `{host}` {version} |");
        rows.push((
            head.clone(),
            format!(
                "{head} {revision} | {ok} | {absent} | {failed} | {lacks} | {} |",
                date.trim()
            ),
        ));
    }
    let path = root.join(FILE);
    let text = std::fs::read_to_string(&path).context(FILE)?;
    std::fs::write(&path, replaced(&text, &rows)?).context(FILE)
}

/// The text with these rows in place of those that begin alike, or behind the others.
fn replaced(text: &str, rows: &[(String, String)]) -> Result<String> {
    let (before, rest) = text
        .split_once(BEGIN)
        .with_context(|| format!("{FILE} has no line {BEGIN}"))?;
    let (inside, after) = rest
        .split_once(END)
        .with_context(|| format!("{FILE} has no line {END}"))?;
    let mut lines: Vec<&str> = inside.lines().filter(|line| !line.is_empty()).collect();
    for (head, row) in rows {
        match lines
            .iter_mut()
            .find(|line| line.starts_with(head.as_str()))
        {
            Some(line) => *line = row,
            None => lines.push(row),
        }
    }
    Ok(format!(
        "{before}{BEGIN}\n{}\n{END}{after}",
        lines.join("\n")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_replaced_or_added() {
        let text = format!("a\n{BEGIN}\n| host |\n|---|\n| `x` 1 | old |\n{END}\nb\n");
        let row = |head: &str, rest: &str| (head.to_owned(), format!("{head}{rest}"));
        let got = replaced(
            &text,
            &[row("| `x` 1 |", " new |"), row("| `y` 2 |", " more |")],
        );
        let wanted =
            format!("a\n{BEGIN}\n| host |\n|---|\n| `x` 1 | new |\n| `y` 2 | more |\n{END}\nb\n");
        assert_eq!(got.unwrap(), wanted);
        assert!(replaced("nothing", &[]).is_err());
    }
}
