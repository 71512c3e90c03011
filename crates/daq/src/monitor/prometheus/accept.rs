//! Which format somebody wants who asks over HTTP.

/// How figures are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text format 0.0.4 of Prometheus.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// The same, for who only takes the draft 0.0.1.
    OpenMetricsDraft,
}

const OPEN: &str = "application/openmetrics-text";

impl Format {
    /// The first of a request's header fields `Accept` decides: OpenMetrics if it is named and nothing
    /// else is wanted more.
    #[must_use]
    pub fn of_request(request: &str) -> Self {
        let fields = request
            .split("\r\n")
            .skip(1)
            .take_while(|it| !it.is_empty());
        let accept = fields.filter_map(|it| it.split_once(':'));
        let mut accept = accept.filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
        accept
            .next()
            .map_or(Self::Prometheus, |(_, value)| Self::accepted(value))
    }

    fn accepted(value: &str) -> Self {
        let mut best = (Self::Prometheus, 0.0);
        let mut plain = 0.0_f64;
        for range in value.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut weight, mut version) = (1.0, "");
            for (name, value) in parts.filter_map(|it| it.split_once('=')) {
                match name.trim().to_ascii_lowercase().as_str() {
                    "q" => weight = value.trim().parse().unwrap_or(0.0),
                    "version" => version = value.trim().trim_matches('"'),
                    _ => {}
                }
            }
            let format = match (kind.as_str(), version) {
                (OPEN, "" | "1.0.0") => Self::OpenMetrics,
                (OPEN, "0.0.1") => Self::OpenMetricsDraft,
                ("text/plain" | "text/*", _) => {
                    plain = plain.max(weight);
                    continue;
                }
                _ => continue,
            };
            if weight > best.1 {
                best = (format, weight);
            }
        }
        match best.1 >= plain {
            true => best.0,
            false => Self::Prometheus,
        }
    }

    /// As HTTP says it.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::OpenMetricsDraft => "application/openmetrics-text; version=0.0.1; charset=utf-8",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_the_format_that_it_prefers() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                          application/openmetrics-text;version=0.0.1;q=0.4,\
                          text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for (accept, format) in [
            (prometheus, Format::OpenMetrics),
            ("*/*", Format::Prometheus),
            ("", Format::Prometheus),
            (
                "text/html, application/xhtml+xml, */*;q=0.8",
                Format::Prometheus,
            ),
            (
                "application/openmetrics-text; version=0.0.1, text/plain;q=0.5",
                Format::OpenMetricsDraft,
            ),
            (
                "application/openmetrics-text; version=\"1.0.0\"; charset=utf-8",
                Format::OpenMetrics,
            ),
            ("Application/OpenMetrics-Text", Format::OpenMetrics),
            (
                "application/openmetrics-text;q=0.4, text/plain;q=0.6",
                Format::Prometheus,
            ),
            ("application/openmetrics-text;q=0", Format::Prometheus),
            (
                "application/openmetrics-text;version=9.0.0",
                Format::Prometheus,
            ),
        ] {
            let request = format!("GET /metrics HTTP/1.1\r\nHost: a\r\naCCept: {accept}\r\n\r\n");
            assert_eq!(Format::of_request(&request), format, "{accept}");
        }
        assert_eq!(
            Format::of_request("GET / HTTP/1.1\r\n\r\n"),
            Format::Prometheus
        );
        // What follows the head is no head.
        let body = format!("GET / HTTP/1.1\r\n\r\nAccept: {OPEN}\r\n");
        assert_eq!(Format::of_request(&body), Format::Prometheus);
    }
}
