//! Versions as Python's installers compare them (PEP 440): `1.0`, `v1`, `1.0-rc.1` and `1!2.post3+local` have one spelling each.

use std::fmt::Write;

/// The one spelling of a version; none for what is no version.
pub(super) fn normal(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    let text = text.strip_prefix('v').unwrap_or(&text);
    let (public, local) = match text.split_once('+') {
        Some((public, local)) => (public, Some(local)),
        None => (text, None),
    };
    let mut rest = Rest(public);
    let mut spelt = String::new();
    let mut first = rest.number()?;
    if let Some(behind) = rest.0.strip_prefix('!') {
        rest.0 = behind;
        if first != "0" {
            let _ = write!(spelt, "{first}!");
        }
        first = rest.number()?;
    }
    let mut release = vec![first];
    while let Some(behind) = rest.0.strip_prefix('.') {
        let mut after = Rest(behind);
        let Some(number) = after.number() else { break };
        release.push(number);
        rest = after;
    }
    while release.len() > 1 && release.last().is_some_and(|number| number == "0") {
        release.pop();
    }
    spelt += &release.join(".");
    let pre = [
        ("alpha", "a"),
        ("beta", "b"),
        ("preview", "rc"),
        ("pre", "rc"),
        ("rc", "rc"),
        ("a", "a"),
        ("b", "b"),
        ("c", "rc"),
    ];
    spelt += &rest.labelled(&pre);
    let after = rest.0.strip_prefix('-').map(Rest);
    // `1.0-1` is `1.0.post1`.
    match after.and_then(|mut after| Some((after.number()?, after))) {
        Some((number, after)) => {
            let _ = write!(spelt, ".post{number}");
            rest = after;
        }
        None => spelt += &rest.labelled(&[("post", ".post"), ("rev", ".post"), ("r", ".post")]),
    }
    spelt += &rest.labelled(&[("dev", ".dev")]);
    if !rest.0.is_empty() {
        return None;
    }
    if let Some(local) = local {
        let mut sign = '+';
        for part in local.split(['.', '-', '_']) {
            if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return None;
            }
            spelt.push(sign);
            spelt += &Rest(part).whole().unwrap_or_else(|| part.to_owned());
            sign = '.';
        }
    }
    Some(spelt)
}

/// What has not been read yet.
struct Rest<'t>(&'t str);

impl Rest<'_> {
    /// The digits that come next, without zeros that say nothing.
    fn number(&mut self) -> Option<String> {
        let end = self.0.find(|letter: char| !letter.is_ascii_digit());
        let (digits, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        if digits.is_empty() {
            return None;
        }
        self.0 = rest;
        let told = digits.trim_start_matches('0');
        Some(if told.is_empty() { "0" } else { told }.to_owned())
    }

    /// All of it as a number.
    fn whole(mut self) -> Option<String> {
        self.number().filter(|_| self.0.is_empty())
    }

    /// A word and its number, 0 without one, if it comes next: nothing otherwise.
    fn labelled(&mut self, words: &[(&str, &str)]) -> String {
        let sign = |letter| matches!(letter, '.' | '-' | '_');
        let behind = self.0.strip_prefix(sign).unwrap_or(self.0);
        let found = words
            .iter()
            .find_map(|(word, spelt)| Some((behind.strip_prefix(word)?, spelt)));
        let Some((behind, spelt)) = found else {
            return String::new();
        };
        let mut after = Rest(behind.strip_prefix(sign).unwrap_or(behind));
        let number = match after.number() {
            Some(number) => {
                self.0 = after.0;
                number
            }
            None => {
                self.0 = behind;
                "0".to_owned()
            }
        };
        format!("{spelt}{number}")
    }
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn spellings_of_one_version_are_one() {
        for (one, other) in [
            ("1.0", "1"),
            ("v1.0.0", "1"),
            ("01.02", "1.2"),
            ("1.0-RC.1", "1rc1"),
            ("1.0alpha", "1a0"),
            ("1.0_preview-2", "1rc2"),
            ("1.0c3", "1rc3"),
            ("1.0-1", "1.post1"),
            ("1.0.rev2", "1.post2"),
            ("1.0r2", "1.post2"),
            ("1.0DEV", "1.dev0"),
            ("1.0a1.post2.dev3", "1a1.post2.dev3"),
            ("0!1.0", "1"),
            ("2!1.0", "2!1"),
            ("1.0+Cuda_12.08", "1+cuda.12.8"),
            ("0.0", "0"),
            (" 1.0 ", "1"),
        ] {
            assert_eq!(normal(one).as_deref(), Some(other), "{one}");
            assert_eq!(normal(other).as_deref(), Some(other), "{other}");
        }
    }

    #[test]
    fn what_is_no_version_has_no_spelling() {
        for text in [
            "",
            "v",
            "x",
            "1 .x",
            "1.x",
            "1..2",
            "1.",
            "1.0+",
            "1.0+a..b",
            "1.0+a b",
            "1!",
            "1.0a1b2",
            "1.0-",
            "1.0dev1post1",
            "1.0+a+b",
            "ü",
            "1.0ü",
        ] {
            assert_eq!(normal(text), None, "{text}");
        }
    }
}
