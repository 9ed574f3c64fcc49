//! Pages of the book as tests read them.

use crate::root;

/// A code block of a page.
pub struct Block {
    /// What stands behind the opening fence, up to a comma; empty where nothing does.
    pub language: String,
    /// Its lines.
    pub text: String,
}

/// The text of a page of `docs/`.
///
/// # Panics
/// Where there is no such page.
#[must_use]
pub fn page(name: &str) -> String {
    let path = root().join("docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The code blocks of a page, in their order.
#[must_use]
pub fn blocks(page: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some("") if inside => inside = false,
            Some(language) => {
                inside = true;
                let language = language.split(',').next().unwrap_or_default();
                found.push(Block {
                    language: language.to_owned(),
                    text: String::new(),
                });
            }
            None if inside => {
                if let Some(block) = found.last_mut() {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
            }
            None => {}
        }
    }
    found
}
