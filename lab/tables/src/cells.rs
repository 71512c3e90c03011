//! Values as the cells of a table: in a few figures, or quoted for a file.

/// A value in four figures, or all of a larger whole number.
pub(crate) fn figures(value: f64) -> String {
    let whole_digits = value.abs().log10().floor().clamp(-9.0, 9.0) + 1.0;
    let decimals = (4.0 - whole_digits).clamp(0.0, 9.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A mean with half the width of its interval, to the second digit of that: `22.714 ± 0.032`.
pub(crate) fn with_half_width(mean: f64, half_width: f64) -> String {
    let decimals = 1.0 - half_width.log10().floor();
    let decimals = decimals.clamp(0.0, 9.0) as usize;
    format!("{mean:.decimals$} ± {half_width:.decimals$}")
}

/// An error in percent. What rounds to nothing has no minus.
pub(crate) fn percent(error: f64) -> String {
    let rounded = (error * 100.0).round() / 100.0;
    format!("{:+.2} %", rounded + 0.0)
}

/// Text as a cell of comma-separated values.
pub(crate) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_a_sign_unless_they_round_to_nothing() {
        for (error, text) in [
            (-0.001, "+0.00 %"),
            (0.0, "+0.00 %"),
            (-0.006, "-0.01 %"),
            (3.014, "+3.01 %"),
            (-12.0, "-12.00 %"),
        ] {
            assert_eq!(percent(error), text);
        }
    }

    #[test]
    fn a_mean_has_the_digits_of_its_interval() {
        for (mean, half_width, text) in [
            (22.713_9, 0.032_14, "22.714 ± 0.032"),
            (1250.4, 120.0, "1250 ± 120"),
            (0.5, 3.0, "0.5 ± 3.0"),
            (f64::NAN, f64::NAN, "NaN ± NaN"),
        ] {
            assert_eq!(with_half_width(mean, half_width), text);
        }
    }

    #[test]
    fn values_have_four_figures() {
        for (value, text) in [
            (0.0, "0"),
            (0.872_34, "0.8723"),
            (12.345, "12.35"),
            (1250.0, "1250"),
            (461_234.4, "461234"),
            (7.9, "7.9"),
            (-3.210_04, "-3.21"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(figures(value), text);
        }
    }
}
