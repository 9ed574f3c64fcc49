//! The option `--format`, and findings in the formats for CI: SARIF and GitHub annotations.

use serde_json::{Value, json};

/// The option `--format` of commands whose findings CI can annotate.
#[derive(clap::Args)]
pub(crate) struct Form {
    /// Choose the output format; `sarif` (2.1.0) and `github` (annotations) are for CI.
    #[arg(long, value_name = "FORMAT", help_heading = "Output", value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// The option `--format` of other commands.
#[derive(clap::Args)]
pub(crate) struct TextOrJson {
    /// Choose the output format.
    #[arg(long, value_name = "FORMAT", help_heading = "Output", value_enum, default_value_t = Plain::Text)]
    format: Plain,
}

impl TextOrJson {
    pub(crate) fn is_json(&self) -> bool {
        self.format == Plain::Json
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Plain {
    Text,
    Json,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
    Sarif,
    Github,
}

/// A finding in the form that SARIF and GitHub annotations share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Annotation {
    /// The number of the finding, such as `XF204`.
    pub(crate) id: &'static str,
    /// The level of the finding: `error`, `warning` or `note`.
    pub(crate) level: &'static str,
    /// The text of the finding.
    pub(crate) message: String,
    /// The path of the file, as on the command line.
    pub(crate) path: String,
    /// The line in the file, if the line is known.
    pub(crate) line: Option<u32>,
    /// The key of the finding in allow-lists and baselines.
    pub(crate) key: String,
    /// The reason why the finding is allowed; `None` if no list allows it.
    pub(crate) known: Option<String>,
}

/// The entry of the catalogue for one kind of finding.
pub(crate) struct Rule {
    pub(crate) id: &'static str,
    pub(crate) name: String,
    pub(crate) meaning: &'static str,
    pub(crate) remedy: &'static str,
}

/// Returns a SARIF 2.1.0 document with one result per finding. Findings that a list allows are suppressed results, with
/// the list's reason.
pub(crate) fn sarif(tool: &str, rules: &[Rule], annotations: &[Annotation]) -> Value {
    let rules: Vec<Value> = rules
        .iter()
        .map(|rule| {
            json!({
                "id": rule.id,
                "name": rule.name,
                "shortDescription": { "text": rule.meaning },
                "fullDescription": { "text": format!("{} {}", rule.meaning, rule.remedy) },
                "help": { "text": rule.remedy },
            })
        })
        .collect();
    let results: Vec<Value> = annotations
        .iter()
        .map(|annotation| {
            let mut result = json!({
                "ruleId": annotation.id,
                "level": annotation.level,
                "message": { "text": annotation.message },
                "locations": [{
                    "physicalLocation": { "artifactLocation": { "uri": uri(&annotation.path) } },
                }],
                "partialFingerprints": { "key/v1": annotation.key },
            });
            if let Some(line) = annotation.line {
                result["locations"][0]["physicalLocation"]["region"] = json!({ "startLine": line });
            }
            if let Some(reason) = &annotation.known {
                result["suppressions"] = json!([{ "kind": "external", "justification": reason }]);
            }
            result
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": tool,
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "results": results,
        }],
    })
}

/// Returns a path as a relative URI reference (RFC 3986), with reserved characters escaped.
fn uri(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            _ => uri += &format!("%{byte:02X}"),
        }
    }
    uri
}

/// Returns the findings as workflow commands for GitHub, one per line. Notes and findings that a list allows are
/// omitted.
pub(crate) fn github(annotations: &[Annotation]) -> String {
    // Workflow commands give these characters a special meaning, so they are escaped.
    let data = |text: &str| {
        text.replace('%', "%25")
            .replace('\r', "%0D")
            .replace('\n', "%0A")
    };
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    let annotations = annotations
        .iter()
        .filter(|annotation| annotation.level != "note" && annotation.known.is_none());
    let lines = annotations.map(|annotation| {
        let line = annotation.line.map(|line| format!(",line={line}"));
        let line = line.unwrap_or_default();
        format!(
            "::{} file={}{line},title={}::{}\n",
            annotation.level,
            property(&annotation.path),
            property(annotation.id),
            data(&annotation.message)
        )
    });
    lines.collect()
}
