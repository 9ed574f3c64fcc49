//! How the cost of a call grows with its operands, its attributes, and the depth of its dictionaries, in Rust, C and C++ with
//! our headers: `benches/src/scale.rs` measures, this fits a line and judges.

use super::{compile, handlers};
use crate::libraries::file_name;
use crate::ui;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// How many times of what a step costs in the smallest call it may cost in the largest one. Up to 2.3
/// was measured; what grows with the square makes it 30 and more.
const MOST: f64 = 4.0;

/// Measures, prints, and writes `scale.json`; what grows faster than it may.
pub(super) fn run(root: &Path, out: &Path) -> Result<Vec<String>> {
    let release = handlers(root)?;
    let rust = release.join(file_name("xla_ffi_bench_handlers"));
    let mut libraries = vec![format!("rust={}", rust.display())];
    for (column, compiler, source) in [
        ("c_gcc", "gcc", "scale.c"),
        ("c_clang", "clang", "scale.c"),
        ("cpp_gcc", "g++", "scale.cc"),
        ("cpp_clang", "clang++", "scale.cc"),
    ] {
        let source = root.join("benches/c").join(source);
        let name = format!("scale_{column}");
        let include = root.join("include");
        if let Some(library) = compile(out, &name, compiler, &source, &include, &[])? {
            libraries.push(format!("{column}={}", library.display()));
        }
    }
    let output = Command::new(release.join("scale"))
        .arg("1")
        .args(&libraries)
        .output()?;
    ensure!(
        output.status.success(),
        "the measurement of how costs grow failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut report: Value = serde_json::from_slice(&output.stdout)?;
    let mut misses = vec![];
    for case in report["cases"].as_array_mut().context("no cases")? {
        misses.extend(judge(case)?);
    }
    let path = out.join("scale.json");
    fs::write(&path, format!("{report:#}\n")).with_context(|| path.display().to_string())?;
    ui::note(format_args!("as numbers: {}", path.display()));
    Ok(misses)
}

/// Adds to each column of a case its fit, prints it, and says which ones grow faster than they may.
fn judge(case: &mut Value) -> Result<Vec<String>> {
    let name = case["case"].as_str().context("no name")?.to_owned();
    let of = case["of"].as_str().context("no unit")?.to_owned();
    let grows = case["grows"].as_str().context("no growth")?.to_owned();
    let sizes = numbers(&case["sizes"])?;
    let steps: Vec<f64> = sizes
        .iter()
        .map(|size| match grows.as_str() {
            "n log n" => size * size.log2(),
            _ => *size,
        })
        .collect();
    let mut misses = vec![];
    println!(
        "{name}: ns for each {of}, of {} to {}",
        sizes[0],
        last(&sizes)
    );
    let columns = case["ns"].take();
    let mut fitted = serde_json::Map::new();
    for (column, costs) in columns.as_object().context("no costs")? {
        let costs = numbers(costs)?;
        let fit = Fit::of(&steps, &costs);
        let each = costs.iter().zip(&sizes).map(|(cost, size)| cost / size);
        let each: Vec<String> = each.map(|cost| format!("{cost:8.1}")).collect();
        println!("  {column:10}{}  {grows}: {fit}", each.join(""));
        let growth = growth(&steps, &costs);
        if growth > MOST {
            misses.push(format!(
                "{name}, {column}: a step of {grows} costs {growth:.1} times as much in the largest call as in the smallest, at \
                 most {MOST}"
            ));
        }
        fitted.insert(
            column.clone(),
            json!({ "ns": costs, "fixed": fit.fixed, "step": fit.step, "off": fit.off, "growth": growth }),
        );
    }
    case["columns"] = fitted.into();
    case.as_object_mut().context("no case")?.remove("ns");
    Ok(misses)
}

fn numbers(list: &Value) -> Result<Vec<f64>> {
    let list = list.as_array().context("no list")?;
    ensure!(list.len() > 1, "a line needs two points");
    list.iter()
        .map(|number| number.as_f64().context("no number"))
        .collect()
}

fn last(list: &[f64]) -> f64 {
    list.last().copied().unwrap_or(f64::NAN)
}

/// What a step costs in the largest call, over what it costs in the smallest.
fn growth(steps: &[f64], costs: &[f64]) -> f64 {
    (last(costs) / last(steps)) / (costs[0] / steps[0])
}

/// `cost = fixed + step * steps`, of which each point is off by a part of its cost, and the sum of the squares of these parts
/// is least.
struct Fit {
    fixed: f64,
    step: f64,
    /// By which part of its cost the point is off that is off most.
    off: f64,
}

impl Fit {
    fn of(steps: &[f64], costs: &[f64]) -> Self {
        let points = || steps.iter().zip(costs);
        let sum = |of: fn(f64, f64) -> f64| -> f64 { points().map(|(x, y)| of(*x, *y)).sum() };
        let (ww, wwx) = (sum(|_, y| 1.0 / (y * y)), sum(|x, y| x / (y * y)));
        let wwxx = sum(|x, y| x * x / (y * y));
        let (w, wx) = (sum(|_, y| 1.0 / y), sum(|x, y| x / y));
        let determinant = ww * wwxx - wwx * wwx;
        let step = (ww * wx - wwx * w) / determinant;
        let fixed = (wwxx * w - wwx * wx) / determinant;
        let off = points().map(|(x, y)| ((fixed + step * x) / y - 1.0).abs());
        Self {
            fixed,
            step,
            off: off.fold(0.0, f64::max),
        }
    }
}

impl std::fmt::Display for Fit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { fixed, step, off } = self;
        let off = 100.0 * off;
        write!(
            f,
            "{fixed:.0} ns and {step:.2} ns a step, off by {off:.0} %"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let steps = [64.0, 512.0, 4096.0];
        let fit = Fit::of(&steps, &steps.map(|n| 100.0 + 3.0 * n));
        assert!((fit.fixed - 100.0).abs() < 1e-6 && (fit.step - 3.0).abs() < 1e-6);
        assert!(fit.off < 1e-9);
        assert!(Fit::of(&steps, &steps.map(|n| n * n)).off > 0.5);
    }

    #[test]
    fn what_grows_with_the_square_is_told() {
        let case = |grows: &str, cost: fn(f64) -> f64| {
            let sizes = [64.0, 512.0, 4096.0];
            let mut case = json!({
                "case": "results", "of": "result", "grows": grows, "sizes": sizes,
                "ns": { "rust": sizes.map(cost) },
            });
            judge(&mut case).unwrap().len()
        };
        assert_eq!(case("n", |n| 3.0 * n + 50.0), 0);
        assert_eq!(case("n log n", |n| 3.0 * n * n.log2()), 0);
        assert_eq!(case("n", |n| n * n), 1);
        assert_eq!(case("n log n", |n| n * n), 1);
    }
}
