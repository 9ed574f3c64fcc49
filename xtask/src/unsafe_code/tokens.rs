//! The unsafe code of one file, by its tokens: they are there in the bodies of macros too, and what
//! stands in strings and comments is none. Comments are what lies between tokens.

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::ops::Range;

/// What a file has.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Found {
    pub(super) blocks: usize,
    /// Functions, and foreign ones block by block.
    pub(super) functions: usize,
    pub(super) impls: usize,
    pub(super) traits: usize,
    /// The first sentence of the module's documentation.
    pub(super) doc: String,
    /// Names in backticks in the `SAFETY:` comments.
    pub(super) names: BTreeSet<String>,
    /// Lines of the blocks and implementations without such a comment.
    pub(super) unexplained: Vec<usize>,
    /// The file forbids unsafe code.
    pub(super) forbids: bool,
}

impl Found {
    /// Whether anything is unsafe here.
    pub(super) fn is_some(&self) -> bool {
        self.blocks + self.functions + self.impls + self.traits > 0
    }
}

/// Reads a file's text.
pub(super) fn read(text: &str) -> Result<Found> {
    let tokens: TokenStream = text.parse().map_err(|error| anyhow!("{error}"))?;
    let mut reader = Reader {
        text,
        end: 0,
        found: Found::default(),
    };
    // No comment of the file's head belongs to its first item.
    reader.stream(tokens, Explained::default());
    reader.found.doc = first_sentence(text)?;
    Ok(reader.found)
}

/// Whether a `SAFETY:` comment stands before a token.
#[derive(Clone, Copy, Default)]
struct Explained {
    /// In its statement.
    here: bool,
    /// In the statement whose parentheses it is in.
    outside: bool,
}

struct Reader<'a> {
    text: &'a str,
    /// Where the last token ended.
    end: usize,
    found: Found,
}

impl Reader<'_> {
    fn stream(&mut self, tokens: TokenStream, mut explained: Explained) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut index = 0;
        // The commas between a closure's parameters end nothing.
        let mut in_closure = false;
        while let Some(token) = tokens.get(index) {
            if let Some(length) = test_item(&tokens[index..]) {
                index += length;
                self.end = tokens[index - 1].span().byte_range().end;
                explained.here = false;
                continue;
            }
            let place = token.span().byte_range();
            match token {
                TokenTree::Group(group) => {
                    explained.here |= self.gap(group.span_open().byte_range());
                    self.group(group, explained);
                    let ends = group.delimiter() == Delimiter::Brace;
                    explained.here &= !ends;
                    in_closure &= !ends;
                }
                TokenTree::Ident(word) if *word == "unsafe" => {
                    explained.here |= self.gap(place);
                    let line = word.span().start().line;
                    self.count(&tokens[index + 1..], line, explained);
                }
                TokenTree::Punct(mark) if mark.as_char() == ';' => {
                    self.gap(place);
                    explained.here = false;
                    in_closure = false;
                }
                TokenTree::Punct(mark) if mark.as_char() == ',' => {
                    explained.here |= self.gap(place);
                    explained.here &= in_closure;
                }
                TokenTree::Punct(mark) if mark.as_char() == '|' => {
                    explained.here |= self.gap(place);
                    in_closure = !in_closure;
                }
                TokenTree::Ident(word) if *word == "forbid" => {
                    self.gap(place);
                    if let Some(TokenTree::Group(group)) = tokens.get(index + 1) {
                        let lints = group.stream().to_string();
                        self.found.forbids |= lints.contains("unsafe_code");
                    }
                }
                _ => explained.here |= self.gap(place),
            }
            index += 1;
        }
    }

    fn group(&mut self, group: &Group, explained: Explained) {
        // A comment speaks for what stands in the same statement, not for a body that follows it.
        let inside = match group.delimiter() {
            Delimiter::Brace => Explained::default(),
            _ => Explained {
                here: false,
                outside: explained.here || explained.outside,
            },
        };
        self.stream(group.stream(), inside);
        self.gap(group.span_close().byte_range());
    }

    /// What the keyword begins.
    fn count(&mut self, behind: &[TokenTree], line: usize, explained: Explained) {
        let word = |token: Option<&TokenTree>| match token {
            Some(TokenTree::Ident(word)) => word.to_string(),
            _ => String::new(),
        };
        let has_body = |tokens: &[TokenTree]| matches!(tokens.first(), Some(TokenTree::Ident(_)));
        let must_explain = match (behind.first(), word(behind.first()).as_str()) {
            (Some(TokenTree::Group(group)), _) if group.delimiter() == Delimiter::Brace => {
                self.found.blocks += 1;
                true
            }
            (_, "impl") => {
                self.found.impls += 1;
                true
            }
            (_, "trait") => {
                self.found.traits += 1;
                false
            }
            (_, "fn") => {
                // A name follows, or the variable of a macro; the type of a pointer has none.
                let named = has_body(&behind[1..])
                    || matches!(behind.get(1), Some(TokenTree::Punct(mark)) if matches!(mark.as_char(), '#' | '$'));
                self.found.functions += usize::from(named);
                false
            }
            (_, "extern") => {
                let rest = &behind[1..];
                let rest = match rest.first() {
                    Some(TokenTree::Literal(_)) => &rest[1..],
                    _ => rest,
                };
                let named = match rest.first() {
                    Some(TokenTree::Ident(word)) if *word == "fn" => {
                        !matches!(rest.get(1), Some(TokenTree::Group(_)) | None)
                    }
                    Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Brace,
                    _ => false,
                };
                self.found.functions += usize::from(named);
                false
            }
            // An attribute such as `unsafe(no_mangle)`, or a word of a macro's own grammar.
            _ => false,
        };
        if must_explain && !explained.here && !explained.outside {
            self.found.unexplained.push(line);
        }
    }

    /// Takes what lies between the last token and this one; whether it has a `SAFETY:` comment.
    fn gap(&mut self, token: Range<usize>) -> bool {
        let gap = self.text.get(self.end..token.start).unwrap_or_default();
        self.end = token.end;
        let Some((_, comment)) = gap.split_once("SAFETY:") else {
            return false;
        };
        let names = comment.split('`').skip(1).step_by(2);
        // Names of code, not what is quoted for its text.
        let names = names.filter(|name| {
            let may = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '.');
            !name.is_empty() && name.chars().all(may)
        });
        self.found.names.extend(names.map(str::to_owned));
        true
    }
}

/// How many tokens an item of tests takes that begins here.
fn test_item(tokens: &[TokenTree]) -> Option<usize> {
    let [TokenTree::Punct(mark), TokenTree::Group(group), rest @ ..] = tokens else {
        return None;
    };
    let attribute = group.stream().to_string().replace(' ', "");
    if mark.as_char() != '#' || !(attribute == "cfg(test)" || attribute.starts_with("cfg(all(test"))
    {
        return None;
    }
    let end = rest.iter().position(|token| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(mark) => mark.as_char() == ';',
        _ => false,
    })?;
    Some(2 + end + 1)
}

/// The first sentence of a file's `//!`, or nothing.
fn first_sentence(text: &str) -> Result<String> {
    let file = syn::parse_file(text)?;
    let mut sentence = String::new();
    for attribute in &file.attrs {
        let syn::Meta::NameValue(pair) = &attribute.meta else {
            continue;
        };
        let syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(line),
            ..
        }) = &pair.value
        else {
            continue;
        };
        let line = line.value();
        if !attribute.path().is_ident("doc") || line.trim().is_empty() {
            break;
        }
        if !sentence.is_empty() {
            sentence.push(' ');
        }
        sentence += line.trim();
        if let Some(end) = sentence.find(". ") {
            sentence.truncate(end + 1);
        }
        if sentence.ends_with('.') {
            break;
        }
    }
    Ok(without_links(&sentence))
}

/// A text whose links are what they show: where they lead, rustdoc alone knows.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, shown, behind)) = next_link(rest) {
        plain += before;
        plain += shown;
        rest = behind;
    }
    plain + rest
}

fn next_link(text: &str) -> Option<(&str, &str, &str)> {
    let (head, behind) = text.split_once("](")?;
    let (before, shown) = head.rsplit_once('[')?;
    let (_, behind) = behind.split_once(')')?;
    Some((before, shown, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_counted_where_it_is_written() {
        let found = read(
            "//! What [`it`](crate::It) is. More of it,\n//! and more.\n\
             unsafe impl Send for X {}\n\
             unsafe trait T { unsafe fn f(&self); }\n\
             type F = Option<unsafe extern \"C\" fn(*mut u8)>;\n\
             unsafe extern \"C\" fn g(f: unsafe fn()) { }\n\
             #[unsafe(no_mangle)] fn h() { \"unsafe { }\"; /* unsafe { } */ }\n\
             macro_rules! m { () => { unsafe { } unsafe fn $name() {} } }\n",
        )
        .unwrap();
        assert_eq!(found.doc, "What `it` is.");
        let counts = [found.blocks, found.functions, found.impls, found.traits];
        assert_eq!(counts, [1, 3, 1, 1]);
        assert_eq!(found.unexplained, [3, 8]);
    }

    #[test]
    fn a_comment_speaks_for_its_own_statement() {
        let lines = |body: &str| read(body).unwrap().unexplained;
        assert_eq!(
            lines("fn f() {\n// SAFETY: `it` is.\nlet x = g(unsafe { h() });\n}"),
            [0; 0]
        );
        assert_eq!(
            lines("fn f() {\n// SAFETY: yes.\nlet g = |a, b| unsafe { h() };\n}"),
            [0; 0]
        );
        assert_eq!(
            lines("fn f() {\n// SAFETY: yes.\nlet x = 1;\nunsafe { h() };\n}"),
            [4]
        );
        assert_eq!(lines("// SAFETY: yes.\nfn f() {\nunsafe { h() };\n}"), [3]);
        assert_eq!(lines("fn f() {\n\"SAFETY:\";\nunsafe { h() };\n}"), [3]);
        assert_eq!(
            lines(
                "fn f() {\nmatch x { 1 => {}\n// SAFETY: yes.\n2 => unsafe { h() },\n_ => unsafe {} }\n}"
            ),
            [5]
        );
        let found =
            read("fn f() {\n// SAFETY: `it` is, `a b` no name.\nunsafe { h() }\n}").unwrap();
        assert_eq!(found.names.into_iter().collect::<Vec<_>>(), ["it"]);
    }

    #[test]
    fn tests_are_left_out() {
        let text = "#[cfg(test)]\nmod tests { fn f() { unsafe { } } }\nfn g() { unsafe { } }\n\
            #[cfg(all(test, loom))]\nmod more;";
        let found = read(text).unwrap();
        assert_eq!(found.blocks, 1);
        assert!(!found.forbids);
        assert!(read("//! What.\n#![forbid(unsafe_code)]").unwrap().forbids);
    }
}
