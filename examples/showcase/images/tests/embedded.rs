//! Tests the library on the embedded runtime, on every revision of the ABI.

use std::io::Cursor;

use image::{DynamicImage, ImageFormat, RgbImage};
use xla_ffi_runtime::{
    Attributes, DType, ErrorCode, Outcome, Result, Revision, Runtime, Shape, Stage, Tensor,
};

const NEWEST: Revision = Revision::ALL[Revision::ALL.len() - 1];

/// Returns an image with a smooth gradient of colours: the encoded file, and the pixels.
fn file(format: ImageFormat) -> (Vec<u8>, Vec<u8>) {
    let slope = |x: u32, y: u32| image::Rgb([(8 * x) as u8, (8 * y) as u8, (4 * (x + y)) as u8]);
    let image = DynamicImage::ImageRgb8(RgbImage::from_fn(16, 8, slope));
    let mut file = Cursor::new(vec![]);
    image.write_to(&mut file, format).unwrap();
    (file.into_inner(), image.into_rgb8().into_raw())
}

fn decode(revision: Revision, files: &[&[u8]], height: u32) -> Result<Outcome> {
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let file = format!("{prefix}images{suffix}");
    let file = std::env::current_exe().unwrap().with_file_name(file);
    let runtime = Runtime::new(revision);
    let library = runtime.open(&file)?;
    let handler = library.handler("decode", &[(Stage::Execute, "images__decode")])?;
    let attributes = Attributes::new()
        .with("height", height)
        .with("width", 16_u32);
    let longest = files.iter().map(|file| file.len()).max().unwrap_or(0);
    let mut packed = Vec::new();
    for file in files {
        packed.extend_from_slice(file);
        packed.resize(packed.len() + longest - file.len(), 0);
    }
    let lengths: Vec<i32> = files.iter().map(|file| file.len() as i32).collect();
    let count = files.len() as i64;
    handler
        .instantiate(&attributes)?
        .call()
        .arg(Tensor::from_slice([count, longest as i64], &packed)?)
        .arg(Tensor::from_slice([count], &lengths)?)
        .ret(Shape::new(DType::U8, [count, height.into(), 16, 3])?)
        .run()
}

#[test]
fn decodes() {
    let ((png, pixels), (jpeg, _)) = (file(ImageFormat::Png), file(ImageFormat::Jpeg));
    for revision in Revision::ALL {
        let outcome = decode(revision, &[&png, &jpeg, &png], 8).unwrap();
        let found: Vec<u8> = outcome.rets[0].to_vec().unwrap();
        let (first, rest) = found.split_at(pixels.len());
        let (second, third) = rest.split_at(pixels.len());
        assert!(first == pixels && third == pixels, "{revision:?}");
        let apart = second
            .iter()
            .zip(&pixels)
            .map(|(a, b)| a.abs_diff(*b))
            .max();
        assert!(apart < Some(40), "{revision:?}: {apart:?}");
    }
}

#[test]
fn truncated_files_are_lost() {
    for format in [ImageFormat::Png, ImageFormat::Jpeg] {
        let (file, _) = file(format);
        for length in 0..file.len() - 1 {
            // PNG's last chunk is empty, so the bytes before that chunk are the whole image.
            if format == ImageFormat::Png && length + 16 >= file.len() {
                break;
            }
            let error = decode(NEWEST, &[&file, &file[..length]], 8).unwrap_err();
            assert!(error.message().contains("image 1: "), "{length}: {error}");
            if length > 100 {
                assert_eq!(error.code(), ErrorCode::DataLoss, "{length}: {error}");
            }
        }
    }
}

#[test]
fn refuses_other_sizes() {
    let (png, _) = file(ImageFormat::Png);
    let error = decode(NEWEST, &[&png], 9).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(
        error
            .message()
            .contains("8 pixels high and 16 wide, expected 9 and 16"),
        "{error}"
    );
}
