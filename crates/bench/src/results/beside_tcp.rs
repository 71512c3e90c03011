//! Links between hosts beside kernel TCP over the same path.

use crate::case::Transport;
use crate::measure::stats::rounded;
use crate::results::Row;

/// Says of each row of a link between hosts how it compares with kernel TCP at the same work: in the same band, or
/// where TCP has none there, in the one in which it has most samples. `all` are the rows of all bands.
pub fn compare(rows: &mut [Row], all: &[Row]) {
    let own = |row: &&mut Row| row.transport == Transport::Hosts.name();
    for row in rows.iter_mut().filter(own) {
        let same = all.iter().filter(|it| is_tcp_at_the_same(it, row));
        let best = same.max_by_key(|it| (it.band == row.band, it.samples));
        row.ratio_to_tcp = best.map(|tcp| rounded(row.median / tcp.median));
    }
}

fn is_tcp_at_the_same(tcp: &Row, row: &Row) -> bool {
    let work = |it: &Row| (it.size_bytes, it.connections, it.outstanding);
    tcp.transport == Transport::Tcp.name()
        && (&tcp.test, &tcp.waiting) == (&row.test, &row.waiting)
        && work(tcp) == work(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    fn row(transport: &str, band: &str, samples: u64, median: f64) -> Row {
        let some = report().results[0].clone();
        Row {
            transport: transport.into(),
            band: band.into(),
            samples,
            median,
            ..some
        }
    }

    #[test]
    fn the_same_band_counts_and_else_the_best_covered() {
        let ratio = |tcp: &[Row], own: Row| {
            let mut rows = vec![own];
            compare(&mut rows, tcp);
            rows[0].ratio_to_tcp
        };
        let tcp = [row("tcp", "A", 3, 10.0), row("tcp", "B", 9, 20.0)];
        assert_eq!(ratio(&tcp, row("hosts", "A", 1, 15.0)), Some(1.5));
        assert_eq!(ratio(&tcp, row("hosts", "C", 1, 15.0)), Some(0.75));
        assert_eq!(ratio(&tcp, row("barewire", "A", 1, 15.0)), None);
        let other = Row {
            size_bytes: 9,
            ..row("hosts", "A", 1, 15.0)
        };
        assert_eq!(ratio(&tcp, other), None);
    }
}
