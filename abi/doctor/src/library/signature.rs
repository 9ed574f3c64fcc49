//! Code signatures of Mach-O files. macOS on AArch64 does not load a library that has no signature or was changed after
//! signing. The identity of the signer is not checked.

use sha2::{Digest, Sha256};

/// The code signature of a Mach-O file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Signature {
    /// The file has no signature.
    #[default]
    Missing,
    /// The signature has digests of the code but no signer. Linkers create such signatures.
    AdHoc,
    /// The signature has a signer's certificate, which was not checked.
    Certified,
    /// The signature does not match the file, for the reason in the text.
    Broken(String),
}

const SUPER_BLOB: u32 = 0xfade_0cc0;
const CODE_DIRECTORY: u32 = 0xfade_0c02;
/// The slot of the first code directory in a signature.
const DIRECTORY_SLOT: u32 = 0;
const AD_HOC: u32 = 2;
const SHA256: u8 = 2;
const DIGEST: usize = 32;

/// Compares the code with the digests in the file's signature, which has `size` bytes at offset `at`.
pub(super) fn check(file: &[u8], (at, size): (u32, u32)) -> Signature {
    match read(file, at as usize, size as usize) {
        Ok(signature) => signature,
        Err(why) => Signature::Broken(why),
    }
}

/// Reads a big-endian 32-bit number of a signature.
fn word(bytes: &[u8], at: usize) -> Result<u32, String> {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    let found = found.ok_or("it ends too early")?;
    Ok(u32::from_be_bytes(*found))
}

fn read(file: &[u8], at: usize, size: usize) -> Result<Signature, String> {
    let end = at.checked_add(size);
    let blob = end.and_then(|end| file.get(at..end));
    let blob = blob.ok_or("it is outside the file")?;
    if word(blob, 0)? != SUPER_BLOB {
        return Err("it has an unknown format".to_owned());
    }
    let count = word(blob, 8)? as usize;
    let mut directory = None;
    for slot in 0..count.min(blob.len() / 8) {
        if word(blob, 12 + slot * 8)? == DIRECTORY_SLOT {
            directory = blob.get(word(blob, 16 + slot * 8)? as usize..);
        }
    }
    let directory = directory.ok_or("it has no code directory")?;
    if word(directory, 0)? != CODE_DIRECTORY {
        return Err("its code directory has an unknown format".to_owned());
    }
    let signature = match word(directory, 12)? & AD_HOC {
        0 => Signature::Certified,
        _ => Signature::AdHoc,
    };
    let hashes = word(directory, 16)? as usize;
    let slots = word(directory, 28)? as usize;
    let limit = word(directory, 32)? as usize;
    let [length, kind, _, shift] = word(directory, 36)?.to_be_bytes();
    if (kind, usize::from(length)) != (SHA256, DIGEST) {
        // SHA-1 digests are not checked, because macOS versions after 10.11 do not use them.
        return Ok(signature);
    }
    let code = file.get(..limit.min(at));
    let code = code.filter(|_| limit <= at);
    let code = code.ok_or("it covers more than the code before it")?;
    let page = 1_usize.checked_shl(shift.into()).filter(|page| *page > 1);
    let page = page.ok_or("its page size is invalid")?;
    if slots != code.len().div_ceil(page) {
        return Err(format!("it has {slots} digests for {} bytes", code.len()));
    }
    for (index, page) in code.chunks(page).enumerate() {
        let from = hashes.saturating_add(index * DIGEST);
        let stated = directory.get(from..from.saturating_add(DIGEST));
        if stated != Some(&Sha256::digest(page)[..]) {
            return Err(format!("the digest of code page {index} differs"));
        }
    }
    Ok(signature)
}
