//! Shape contracts: two of them, a line each, then for each argument a byte with its rank and one for each dimension.

use xla_ffi_contract::Contract;

/// What the attribute `k` is.
const K: i128 = 3;

pub(crate) fn attack(input: &[u8]) {
    let mut lines = input.splitn(3, |byte| *byte == b'\n');
    let mut contract = || contract(lines.next().unwrap_or_default());
    let contracts = [contract(), contract()];
    let shapes = shapes(lines.next().unwrap_or_default());
    let args: Vec<(&str, &[i64])> = shapes.iter().map(|dims| ("x", dims.as_slice())).collect();
    for contract in contracts.into_iter().flatten() {
        match contract.infer(&args, &[("k", K)]) {
            Ok(rets) => {
                assert_eq!(rets.len(), contract.rets.len());
                assert!(rets.iter().flatten().flatten().all(|size| *size >= 0));
            }
            Err(why) => assert!(why.to_string().contains(&contract.text)),
        }
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
