//! Floats in messages. What `core` does for them is exact, and alone makes a library of one handler
//! a tenth larger; twelve digits tell a reader enough.

use std::fmt::Write;

/// Powers of ten that together reach every exponent.
const POWERS: [(i32, f64); 9] = [
    (256, 1e256),
    (128, 1e128),
    (64, 1e64),
    (32, 1e32),
    (16, 1e16),
    (8, 1e8),
    (4, 1e4),
    (2, 1e2),
    (1, 1e1),
];

/// Writes `value` to twelve significant digits: `0.1`, `2.0`, `1e300`.
pub(crate) fn push(text: &mut String, value: f64) {
    if value.is_nan() {
        return text.push_str("NaN");
    }
    if value.is_sign_negative() {
        text.push('-');
    }
    let mut size = value.abs();
    if size.is_infinite() {
        return text.push_str("inf");
    }
    if size == 0.0 {
        return text.push_str("0.0");
    }
    // size * 10^exponent stays the value, until 1 <= size < 10.
    let mut exponent = 0;
    for (power, factor) in POWERS {
        if size >= factor {
            size /= factor;
            exponent += power;
        } else if size * factor < 10.0 {
            size *= factor;
            exponent -= power;
        }
    }
    let mut digits = (size * 1e11 + 0.5) as u64;
    if digits >= 1_000_000_000_000 {
        digits /= 10;
        exponent += 1;
    }
    while digits % 10 == 0 {
        digits /= 10;
    }
    let mut shown = String::new();
    let _ = write!(shown, "{digits}");
    if !(-4..16).contains(&exponent) {
        text.push_str(&shown[..1]);
        if shown.len() > 1 {
            text.push('.');
            text.push_str(&shown[1..]);
        }
        let _ = write!(text, "e{exponent}");
        return;
    }
    if exponent < 0 {
        text.push_str("0.");
        (1..-exponent).for_each(|_| text.push('0'));
        return text.push_str(&shown);
    }
    // As many digits as stand before the point, and one behind it.
    let before = exponent as usize + 1;
    while shown.len() <= before {
        shown.push('0');
    }
    text.push_str(&shown[..before]);
    text.push('.');
    text.push_str(&shown[before..]);
}

#[cfg(test)]
mod tests {
    fn shown(value: f64) -> String {
        let mut text = String::new();
        super::push(&mut text, value);
        text
    }

    #[test]
    fn looks_as_in_core_up_to_twelve_digits() {
        let values = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            2.5,
            10.0,
            100.0,
            0.1,
            0.00012,
            1e-5,
            1.5e-5,
            123_456.789,
            1e15,
            9.5e15,
            1e16,
            1.25e20,
            1e39,
            -3.5e38,
            1e300,
            1e-300,
            1.797e308,
            2.5e-307,
            99.5,
            0.5,
        ];
        for value in values {
            assert_eq!(shown(value), format!("{value:?}"));
        }
        assert_eq!(shown(f64::NAN), "NaN");
        assert_eq!(shown(f64::NEG_INFINITY), "-inf");
    }

    #[test]
    fn further_digits_are_rounded() {
        assert_eq!(shown(1.0 / 3.0), "0.333333333333");
        assert_eq!(shown(2.0 / 3.0), "0.666666666667");
        assert_eq!(shown(0.999_999_999_999_9), "1.0");
        assert_eq!(shown(f64::MAX), "1.79769313486e308");
        assert_eq!(shown(f64::MIN_POSITIVE), "2.22507385851e-308");
        assert_eq!(shown(5e-324), "4.94065645841e-324");
    }
}
