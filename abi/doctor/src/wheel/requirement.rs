//! What a wheel requires of other projects: `Requires-Dist` in its metadata.

use crate::release::RELEASES;
use std::cmp::Ordering;
use xla_ffi_abi::declared::parse_version;

/// A project that is installed with the wheel, without a condition or an extra.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The project, in lower case and with `-`.
    pub project: String,
    /// Its extras, as written.
    pub extras: String,
    /// The versions that are allowed, each an operator and a version: `(">=", "0.4.31")`.
    pub bounds: Vec<(String, String)>,
}

/// Operators, longest first.
const OPERATORS: [&str; 8] = ["===", "~=", "==", "!=", "<=", ">=", "<", ">"];

impl Requirement {
    /// Reads a value of `Requires-Dist`. Returns `None` for a requirement of an extra, and for one that depends on the
    /// interpreter or the system.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let (text, marker) = text.split_once(';').unwrap_or((text, ""));
        // jaxlib has the same versions for all of these.
        let is_conditional = ["extra", "implementation"]
            .iter()
            .any(|name| marker.contains(name));
        if is_conditional {
            return None;
        }
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let text = text.trim();
        let (name, rest) =
            text.split_at(text.find(|letter| !is_name(letter)).unwrap_or(text.len()));
        let rest = rest.trim_start();
        let (extras, rest) = match rest.strip_prefix('[') {
            Some(extras) => extras.split_once(']')?,
            None => ("", rest),
        };
        let rest = rest.trim().trim_start_matches('(').trim_end_matches(')');
        let bound = |part: &str| {
            let part = part.trim();
            let operator = OPERATORS
                .iter()
                .find(|operator| part.starts_with(**operator))?;
            let version = part[operator.len()..].trim();
            Some(((*operator).to_owned(), version.to_owned()))
        };
        Some(Self {
            project: name.to_ascii_lowercase().replace(['_', '.'], "-"),
            extras: extras.to_owned(),
            bounds: rest.split(',').filter_map(bound).collect(),
        })
    }

    /// Returns true if the requirement allows this version.
    #[must_use]
    pub fn allows(&self, version: &str) -> bool {
        self.bounds.iter().all(|(operator, bound)| {
            let prefix = bound.strip_suffix(".*");
            let wanted = prefix.unwrap_or(bound);
            let (Some(version), Some(wanted)) = (parse_version(version), parse_version(wanted))
            else {
                return true;
            };
            let starts =
                |length: usize| (0..length).all(|at| part(&version, at) == part(&wanted, at));
            let order = compare(&version, &wanted);
            match operator.as_str() {
                ">=" => order != Ordering::Less,
                ">" => order == Ordering::Greater,
                "<=" => order != Ordering::Greater,
                "<" => order == Ordering::Less,
                "!=" if prefix.is_some() => !starts(wanted.len()),
                "!=" => order != Ordering::Equal,
                "~=" => order != Ordering::Less && starts(wanted.len().saturating_sub(1)),
                _ if prefix.is_some() => starts(wanted.len()),
                _ => order == Ordering::Equal,
            }
        })
    }
}

fn part(version: &[u32], at: usize) -> u32 {
    version.get(at).copied().unwrap_or(0)
}

fn compare(one: &[u32], other: &[u32]) -> Ordering {
    let mut parts = (0..one.len().max(other.len())).map(|at| part(one, at).cmp(&part(other, at)));
    parts.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Returns the jaxlib releases that a wheel may be installed with, because it requires `jax` or `jaxlib`. A jax release is
/// judged with the jaxlib of its version. `None` if the wheel requires neither.
#[must_use]
pub fn releases(requires: &[Requirement]) -> Option<Vec<&'static str>> {
    let of_jax: Vec<&Requirement> = requires
        .iter()
        .filter(|one| matches!(one.project.as_str(), "jax" | "jaxlib"))
        .collect();
    let allowed = |version: &&'static str| of_jax.iter().all(|one| one.allows(version));
    (!of_jax.is_empty()).then(|| RELEASES.into_iter().filter(allowed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_read() {
        let of = |texts: &[&str]| {
            let all: Vec<_> = texts
                .iter()
                .filter_map(|text| Requirement::of(text))
                .collect();
            releases(&all).map(|found| (found.first().copied(), found.last().copied()))
        };
        for (texts, range) in [
            (&["jax>=0.9.0"][..], Some((Some("0.9.0"), Some("0.12.0.1")))),
            (
                &["jaxlib (>=0.5,<0.6)"],
                Some((Some("0.5.0"), Some("0.5.3"))),
            ),
            (
                &["jax [cuda12] ~= 0.8.1 ; python_version > '3.9'"],
                Some((Some("0.8.1"), Some("0.8.3"))),
            ),
            (&["jax==0.7.*"], Some((Some("0.7.0"), Some("0.7.2")))),
            (&["jax==0.5"], Some((Some("0.5.0"), Some("0.5.0")))),
            (
                &["JAX<=0.9.0,!=0.9.0", "jaxlib>0.8.1"],
                Some((Some("0.8.2"), Some("0.8.3"))),
            ),
            (&["jax"], Some((Some("0.4.31"), Some("0.12.0.1")))),
            (&["jax>=0.99"], Some((None, None))),
            (&["jax>=0.9; extra == 'test'", "jaxtyping>=0.2"], None),
        ] {
            assert_eq!(of(texts), range, "{texts:?}");
        }
        let numpy = Requirement::of("nvidia_cublas.cu12").unwrap();
        assert_eq!(
            (numpy.project.as_str(), numpy.bounds.len()),
            ("nvidia-cublas-cu12", 0)
        );
    }
}
