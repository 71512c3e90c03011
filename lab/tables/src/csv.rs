//! The values of a report as comma-separated text, the fields of JSON as columns: the same for
//! every system, where `result_table` has those of an experiment.

use crate::cells::quoted;
use crate::join::Line;
use crate::report::Report;

const HEADING: &str = "system,table,row,quantity,unit,published,model,error_pct,kind,verdict\n";

impl Report {
    /// The values, one to a line.
    #[must_use]
    pub fn to_csv(&self) -> String {
        csv(self.lines())
    }
}

/// A heading and a line for each value.
fn csv<'a>(lines: impl Iterator<Item = &'a Line>) -> String {
    let mut text = HEADING.to_owned();
    for line in lines {
        let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let cells = [
            quoted(&line.system),
            quoted(&line.table),
            quoted(&line.row),
            quoted(&line.quantity),
            quoted(&line.unit),
            number(line.published),
            number(line.model),
            number(line.error_pct),
            line.kind.map_or("", crate::expected::Kind::word).to_owned(),
            line.verdict.word().to_owned(),
        ];
        text += &cells.join(",");
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::sample;

    #[test]
    fn the_whole_file() {
        let mut report = sample::report();
        report.runs[1].lines[0].row = "11 cells, \"new\"".into();
        assert_eq!(
            report.to_csv(),
            "\
system,table,row,quantity,unit,published,model,error_pct,kind,verdict
sample,table-1,1 cell,time,us,108,110,1.85185185185186,predicted,within
sample,table-1,10 cells,time,us,200,200,0,calibrated,within
sample,table-1,20 cells,time,us,240,300,25,misprint,misprint
sample,scalars,-,rate,Mbit/s,25.6,25.6,0,predicted,within
sample,table-1,\"11 cells, \"\"new\"\"\",time,us,200,,,calibrated,missing
sample,table-1,20 cells,time,us,240,350,45.83333333333333,misprint,misprint
sample,scalars,-,rate,Mbit/s,25.6,25.6,0,predicted,within
sample,table-1,1 cell,time,us,,160,,,missing
sample,table-1,10 cells,time,us,,250,,,missing
"
        );
    }
}
