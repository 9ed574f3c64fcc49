//! Checks how the cost of a call grows with operands, attributes and the depth of dictionaries.
//!
//! `tools/benches/src/scale.rs` measures handlers in Rust, C and C++ with this project's headers.

use super::{compile, handlers, report, save};
use crate::libraries::file_name;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// The maximum cost per step in the largest call, relative to the cost per step in the smallest call.
///
/// Measured ratios are up to 2.3; quadratic growth would give 30 or more.
const MOST: f64 = 4.0;

/// Measures and prints the costs, and writes them to `scale.json`. Returns the costs that grow too fast.
pub(super) fn run(root: &Path, out: &Path) -> Result<Vec<String>> {
    let release = handlers(root)?;
    let rust = release.join(file_name("xla_ffi_bench_handlers"));
    let mut libraries = vec![format!("rust={}", rust.display())];
    for (column, compiler, source) in [
        ("c_gcc", "gcc", "header.c"),
        ("c_clang", "clang", "header.c"),
        ("cpp_gcc", "g++", "scale.cc"),
        ("cpp_clang", "clang++", "scale.cc"),
    ] {
        let source = root.join("tools/benches/c").join(source);
        let name = format!("scale_{column}");
        let include = root.join("include");
        if let Some(library) = compile(out, &name, compiler, &source, &include, &[])? {
            libraries.push(format!("{column}={}", library.display()));
        }
    }
    let mut scale = Command::new(release.join("scale"));
    let mut report = report(scale.arg("1").args(&libraries))?;
    let mut misses = vec![];
    for case in report["cases"].as_array_mut().context("no cases")? {
        misses.extend(judge(case)?);
    }
    save(out, "scale.json", &report)?;
    Ok(misses)
}

/// Computes the growth of each column, adds it to the JSON of the case, and prints it. Returns the columns that grow
/// too fast.
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
    let mut judged = serde_json::Map::new();
    for (column, costs) in columns.as_object().context("no costs")? {
        let costs = numbers(costs)?;
        let each = costs.iter().zip(&sizes).map(|(cost, size)| cost / size);
        let each: Vec<String> = each.map(|cost| format!("{cost:8.1}")).collect();
        let growth = growth(&steps, &costs);
        println!("  {column:10}{}  {grows}: {growth:.1} times", each.join(""));
        if growth > MOST {
            misses.push(format!(
                "{name}, {column}: a step of {grows} costs {growth:.1} times as much in the largest call as in the smallest, at \
                 most {MOST}"
            ));
        }
        judged.insert(column.clone(), json!({ "ns": costs, "growth": growth }));
    }
    case["columns"] = judged.into();
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

/// Returns the cost per step in the largest call, relative to the cost per step in the smallest call.
fn growth(steps: &[f64], costs: &[f64]) -> f64 {
    (last(costs) / last(steps)) / (costs[0] / steps[0])
}
