//! Shape contracts: two of them, a line each, then for each argument a byte with its rank and one for each dimension.

use crate::change::Dice;
use xla_ffi_contract::{Contract, Dim};

/// What the attribute `k` is.
const K: i128 = 3;

pub(crate) fn attack(input: &[u8]) {
    let mut lines = input.splitn(3, |byte| *byte == b'\n');
    let mut contract = || contract(lines.next().unwrap_or_default());
    let (Some(wide), narrow) = (contract(), contract()) else {
        return;
    };
    let shapes = shapes(lines.next().unwrap_or_default());
    let args: Vec<(&str, &[i64])> = shapes.iter().map(|dims| ("x", dims.as_slice())).collect();
    let results = |contract: &Contract| {
        let results = contract.infer(&args, &[("k", K)]);
        match &results {
            Ok(rets) => {
                assert_eq!(rets.len(), contract.rets.len());
                assert!(rets.iter().flatten().flatten().all(|size| *size >= 0));
            }
            Err(why) => assert!(why.to_string().contains(&contract.text)),
        }
        results.ok()
    };
    for contract in [Some(wide), narrow].into_iter().flatten() {
        let _ = results(&contract);
    }
}

/// The contract of a line, if it is one.
fn contract(line: &[u8]) -> Option<Contract> {
    let text = std::str::from_utf8(line).ok()?;
    match Contract::parse(text) {
        Ok(contract) => {
            assert_eq!(contract.text, text);
            assert!(contract.names.len() <= Contract::MAX_NAMES);
            Some(contract)
        }
        Err(why) => {
            assert!(!why.is_empty());
            None
        }
    }
}

fn shapes(bytes: &[u8]) -> Vec<Vec<i64>> {
    let mut bytes = bytes.iter().copied();
    let mut shapes = vec![];
    while let Some(rank) = bytes.next() {
        let dims = bytes.by_ref().take((rank % 8).into());
        // Most are few, so that names meet; some have no double.
        let size = |dim: u8| match dim {
            0..250 => i64::from(dim % 7),
            _ => i64::MAX - i64::from(dim),
        };
        shapes.push(dims.map(size).collect());
    }
    shapes
}

/// Dimensions and operands, and what comes close to them.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "n", "m", "k", "nm", "_", "...", "()", "token", "0", "1", "2", "3", "6", "4294967295", "4294967296", "2*n",
    "0*n", "n/2", "n/0", "n+1", "n-1", "n-4294967295", "n+4294967295", "4294967295*n", "3*n/2-1", "2*m/2+0",
    "n+", "*n", "n*2", "n/", "n/m", "2*k", "k/3", "m k", "n, m", "n?", "n*", "n?*", "n ?", "n *", "?", "*", "",
    ",", "->", "-", "+1", "2*_", "2*3", "n1", "1n", "n_", "é", "\t", "\u{a0}", "\u{2003}",
    "a b c d e f g h i j l o p q r s t u v w x y z aa bb cc",
];

/// Changes words of the two contracts, the second to a variant of the first, or the shapes to some that fit.
pub(crate) fn change(input: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = input
        .splitn(3, |byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    lines.resize(3, vec![]);
    match dice.below(6) {
        0 => lines[1] = lines[0].clone(),
        1 => lines.swap(0, 1),
        2 => {
            let line = dice.below(2);
            if let Some(fitting) = fitting(&lines[line], dice) {
                lines[2] = fitting;
            }
        }
        _ => {}
    }
    for _ in 0..=dice.below(3) {
        let line = dice.below(2);
        let words = words(&lines[line]);
        let Some(word) = dice.of(&words).cloned() else {
            lines[line] = b"n -> n".to_vec();
            continue;
        };
        let other = dice
            .of(&words)
            .map_or(vec![], |word| lines[line][word.clone()].to_vec());
        let mut new = match dice.below(3) {
            0 => other,
            1 => dice
                .of(WORDS)
                .map_or(vec![], |word| word.as_bytes().to_vec()),
            _ => vec![],
        };
        match dice.below(4) {
            // All that are the same, as the names of one size are.
            0 => {
                let old = lines[line][word].to_vec();
                for word in words.into_iter().rev() {
                    if lines[line][word.clone()] == old {
                        lines[line].splice(word, new.iter().copied());
                    }
                }
                continue;
            }
            1 => new.extend([b" ", b",", b"?", b"*"][dice.below(4)]),
            2 => {
                new.extend([b" ", b","][dice.below(2)]);
                lines[line].splice(word.start..word.start, new);
                continue;
            }
            _ => {}
        }
        lines[line].splice(word, new);
    }
    lines.join(&b'\n')
}

/// Where the words of a line are.
fn words(line: &[u8]) -> Vec<std::ops::Range<usize>> {
    let is_word = |at: &usize| !b" ,".contains(&line[*at]);
    let starts = (0..line.len()).filter(|at| is_word(at) && (*at == 0 || !is_word(&(at - 1))));
    let words = starts.map(|start| {
        start
            ..(start..line.len())
                .find(|at| !is_word(at))
                .unwrap_or(line.len())
    });
    words.collect()
}

/// Shapes that fit a contract, as [`shapes`] reads them.
fn fitting(line: &[u8], dice: &mut Dice) -> Option<Vec<u8>> {
    let contract = contract(line)?;
    let (mut bytes, skew, middle) = (vec![], dice.below(7), dice.below(3));
    for entry in &contract.args {
        let times = match (entry.optional, entry.repeats) {
            (true, _) => dice.below(2),
            (_, true) => dice.below(4),
            _ => 1,
        };
        let mut dims = vec![];
        for dim in &entry.dims {
            match dim {
                Dim::Name(name) if contract.names[*name] == "k" => dims.push(K as u8),
                Dim::Name(name) => dims.push(((name + skew) % 7) as u8),
                Dim::Size(size) => dims.push((size % 7) as u8),
                Dim::Ellipsis => dims.extend(std::iter::repeat_n(5, middle)),
                Dim::Any | Dim::Computed(_) => dims.push(dice.below(256) as u8),
            }
        }
        for _ in 0..times {
            bytes.push(dims.len() as u8);
            bytes.extend(&dims);
        }
    }
    Some(bytes)
}
