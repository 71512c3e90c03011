//! What rivals print: figures and versions.

/// A number in the last line of comma-separated values (UCX).
pub fn ucx_field(output: &str, index: usize) -> Option<f64> {
    let line = output.lines().rev().find(|line| {
        line.starts_with(|c: char| c.is_ascii_digit()) && line.split(',').count() >= 8
    })?;
    positive(line.split(',').nth(index)?)
}

/// The microseconds of one transfer: the last column but one (libfabric).
pub fn fabric_field(output: &str) -> Option<f64> {
    let line = output
        .lines()
        .rev()
        .find(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()))?;
    let columns: Vec<&str> = line.split_whitespace().collect();
    positive(columns.get(columns.len().checked_sub(2)?)?)
}

/// The nanoseconds of one operation (programs of `benches/rivals`).
pub fn nanoseconds(output: &str) -> Option<f64> {
    let mut lines = output.lines();
    positive(lines.find_map(|line| line.strip_prefix("ns-per-operation "))?)
}

fn positive(text: &str) -> Option<f64> {
    let value: f64 = text.trim().parse().ok()?;
    (value.is_finite() && value > 0.0).then_some(value)
}

/// The first word that is numbers with dots between them.
pub fn version_in(text: &str) -> Option<String> {
    let is_version =
        |word: &&str| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok());
    text.split_whitespace().find(is_version).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found() {
        assert_eq!(
            version_in("# Version 1.13.1\n# Git").as_deref(),
            Some("1.13.1")
        );
        assert_eq!(version_in("fi_info: 1.17.0\n").as_deref(), Some("1.17.0"));
        assert_eq!(version_in("iceoryx2 0.10.0\n").as_deref(), Some("0.10.0"));
        assert_eq!(version_in("no . version 1..2"), None);
    }

    #[test]
    fn outputs_of_packaged_programs_are_understood() {
        let ucx = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,\
                   overall_mr\n200000,0.050,0.055,0.055,139.31,139.31,18259127,18259127\n";
        assert_eq!(ucx_field(ucx, 1), Some(0.05));
        assert_eq!(ucx_field(ucx, 7), Some(18_259_127.0));
        assert_eq!(ucx_field("nothing", 1), None);
        let fabric = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   \
                      Mxfers/sec\n64      20k     =20k     2.4m        0.03s     73.54       \
                      0.87       1.15\n";
        assert_eq!(fabric_field(fabric), Some(0.87));
        assert_eq!(fabric_field(""), None);
    }

    #[test]
    fn outputs_of_our_own_programs_are_understood() {
        assert_eq!(nanoseconds("ns-per-operation 123.4\n"), Some(123.4));
        assert_eq!(nanoseconds("a warning\nns-per-operation 7\n"), Some(7.0));
        for wrong in [
            "",
            "123.4\n",
            "ns-per-operation\n",
            "ns-per-operation x\n",
            "ns-per-operation 0\n",
            "ns-per-operation -5\n",
            "ns-per-operation NaN\n",
            "ns-per-operation inf\n",
        ] {
            assert_eq!(nanoseconds(wrong), None, "{wrong:?}");
        }
    }
}
