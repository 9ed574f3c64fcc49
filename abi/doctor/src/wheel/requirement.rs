//! The requirements of a wheel on other projects, from `Requires-Dist` in its metadata.

use crate::release::{RELEASES, number};
use pep440_rs::VersionSpecifiers;

/// A project that is always installed with the wheel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The name of the project in lower case, with `-` as the separator.
    pub project: String,
    /// The extras of the project that the requirement names in brackets, as written.
    pub extras: String,
    /// The versions of the project that the wheel allows.
    pub versions: VersionSpecifiers,
}

impl Requirement {
    /// Parses a value of `Requires-Dist`. Returns `None` for requirements of an extra, and for requirements that depend
    /// on the implementation of Python.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let (text, marker) = text.split_once(';').unwrap_or((text, ""));
        // Other conditions, such as the operating system, are ignored, because jaxlib has the same versions on all
        // systems.
        if ["extra", "implementation"]
            .iter()
            .any(|name| marker.contains(name))
        {
            return None;
        }
        let text = text.replace([' ', '(', ')'], "");
        let is_end = |letter: char| !letter.is_ascii_alphanumeric() && !"-_.".contains(letter);
        let (name, rest) = text.split_at(text.find(is_end).unwrap_or(text.len()));
        let (extras, versions) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => ("", rest),
        };
        Some(Self {
            project: name.to_ascii_lowercase().replace(['_', '.'], "-"),
            extras: extras.to_owned(),
            // A requirement with a URL allows any version.
            versions: versions.parse().unwrap_or_default(),
        })
    }
}

/// Returns the jaxlib releases that the wheel's requirements on `jax` and `jaxlib` allow. A version of jax counts as
/// the same version of jaxlib. Returns `None` if the wheel requires neither.
#[must_use]
pub fn releases(requires: &[Requirement]) -> Option<Vec<&'static str>> {
    let of_jax: Vec<&Requirement> = requires
        .iter()
        .filter(|one| matches!(one.project.as_str(), "jax" | "jaxlib"))
        .collect();
    let allowed = |version: &&'static str| {
        let version = number(version);
        of_jax.iter().all(|one| one.versions.contains(&version))
    };
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
        let bare = Requirement::of("nvidia_cublas.cu12").unwrap();
        assert_eq!(bare.project, "nvidia-cublas-cu12");
    }
}
