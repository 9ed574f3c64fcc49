//! The plot of `docs/performance.md`: what decoding costs, as bars.

use serde_json::Value;
use std::fmt::Write;

/// The columns that are drawn: name in the report, in words, colour.
const SERIES: [(&str, &str, &str); 4] = [
    ("rust", "Rust", "#b7410e"),
    ("cpp_clang", "our C++, clang", "#2f6f9f"),
    ("c_clang", "C with all checks, clang", "#7a7a7a"),
    ("upstream", "upstream's C++, its better compiler", "#d9a441"),
];

const LABELS: f64 = 250.0;
const BARS: f64 = 560.0;
const BAR: f64 = 9.0;

/// An SVG of the success cases of a report of decoding. Bars end at the plot's edge where they are longer than that.
pub(super) fn draw(report: &Value) -> String {
    let empty = vec![];
    let cases = report["cases"].as_array().unwrap_or(&empty);
    let rows: Vec<_> = cases
        .iter()
        .filter(|case| case["kind"] == "success")
        .collect();
    let step = BAR * SERIES.len() as f64 + 10.0;
    let (width, top) = (LABELS + BARS + 60.0, 34.0);
    let height = top + step * rows.len() as f64 + 10.0;
    let longest = 50.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<title>Nanoseconds a call, success cases</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (place, (_, words, colour)) in SERIES.iter().enumerate() {
        let x = 10.0 + 200.0 * place as f64;
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"8\" width=\"10\" height=\"10\" fill=\"{colour}\"/><text x=\"{}\" y=\"17\">{words}</text>",
            x + 15.0
        );
    }
    for (place, row) in rows.iter().enumerate() {
        let y = top + step * place as f64;
        let name = row["case"].as_str().unwrap_or_default();
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>",
            LABELS - 8.0,
            y + step / 2.0
        );
        for (bar, (column, _, colour)) in SERIES.iter().enumerate() {
            let costs = match *column {
                "upstream" => vec!["upstream_gcc", "upstream_clang"],
                column => vec![column],
            };
            let costs = costs.into_iter().filter_map(|column| row[column].as_f64());
            let Some(cost) = costs.reduce(f64::min) else {
                continue;
            };
            let long = BARS * (cost / longest).min(1.0);
            let y = y + BAR * bar as f64;
            let _ = writeln!(
                svg,
                "<rect x=\"{LABELS}\" y=\"{y}\" width=\"{long:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{}\" font-size=\"9\">{cost:.1}</text>",
                LABELS + long + 3.0,
                y + BAR - 1.0
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_success_case_has_its_bars() {
        let case = |name: &str, kind: &str| {
            serde_json::json!({
                "case": name, "kind": kind, "rust": 4.0, "upstream_gcc": 15.0, "upstream_clang": 9.25
            })
        };
        let report =
            serde_json::json!({ "cases": [case("good", "success"), case("bad", "error")] });
        let svg = super::draw(&report);
        assert!(svg.contains(">good<") && !svg.contains(">bad<"), "{svg}");
        assert!(svg.contains(">4.0<") && svg.contains(">9.2<"), "{svg}");
    }
}
