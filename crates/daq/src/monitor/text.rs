//! The lines of each period, and the ledger at the end.

use std::fmt::Write as _;

use barewire_proto::evb::{EventAccount, Imbalance, Ledger};

use super::losses::{in_words, losses, wrapped};
use super::picture::{Picture, Seen, all};
use super::time_of_day::time_of_day;
use crate::accounts::{BuilderReport, SourceReport, drops, fates};
use crate::config::{Config, SinkKind};
use crate::faults::FaultCounts;
use crate::spread::{Spread, Spreads};

/// Sums of the period before, to tell rates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    age_ns: u64,
    built: u64,
    sent_bytes: u64,
    processor_ns: u64,
    held_up_ns: u64,
}

/// Columns of a terminal that everything fits.
const WIDTH: usize = 80;

/// What there is to say each period, in lines of at most 80 columns: time of day (UTC) and rates; what waits and
/// what is held up; what was lost so far, if anything was. `unix_s` is the time.
#[must_use]
pub fn lines(picture: &Picture, config: &Config, before: &mut Rates, unix_s: u64) -> String {
    let now = Rates {
        age_ns: picture.age_ns,
        built: picture.events.built,
        sent_bytes: all(&picture.sources).map(|it| it.account.sent_bytes).sum(),
        processor_ns: processor_ns(picture),
        held_up_ns: all(&picture.sources).map(|it| it.held_up_ns).sum(),
    };
    let passed = now.age_ns.saturating_sub(before.age_ns).max(1) as f64 / 1e9;
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / passed;
    let held_up = rate(now.held_up_ns, before.held_up_ns) / 1e9;
    let rates = vec![
        format!(
            "{} {:8.1} s {:?}: {:.0} events/s",
            time_of_day(unix_s),
            picture.age_ns as f64 / 1e9,
            picture.state,
            rate(now.built, before.built),
        ),
        format!("{:.1} MB/s", rate(now.sent_bytes, before.sent_bytes) / 1e6),
        format!(
            "{:.0} % of a processor",
            rate(now.processor_ns, before.processor_ns) / 1e7
        ),
    ];
    let mut text = wrapped(&rates, ", ", 10, WIDTH);
    let indented = |mut items: Vec<String>| {
        if let Some(first) = items.first_mut() {
            first.insert_str(0, "  ");
        }
        wrapped(&items, ", ", 4, WIDTH)
    };
    let mut waiting = waiting(picture, config);
    waiting.push(share_held_up(held_up / picture.sources.len().max(1) as f64));
    text.extend(indented(waiting));
    let mut sums = vec![format!("built {}", picture.events.built)];
    sums.extend(in_words(&losses(picture)));
    text.extend(indented(sums));
    *before = now;
    text.join("\n")
}

/// How far the run is held up: events in flight and waiting, the oldest one, and how full buffers are.
#[must_use]
pub fn waiting(picture: &Picture, config: &Config) -> Vec<String> {
    let events = &picture.events;
    let window = config
        .manager
        .window
        .map_or_else(String::new, |it| format!(" of {it}"));
    let mut items = vec![
        format!("in flight {}{window}", events.in_flight),
        format!("waiting {}", events.waiting),
        oldest(picture),
    ];
    let queued: u64 = picture
        .sources
        .iter()
        .map(|it| it.report.queued_bytes)
        .sum();
    let fullest = (0..)
        .zip(&picture.sources)
        .max_by_key(|it| it.1.report.queued_bytes);
    let fullest = fullest.map_or_else(String::new, |(source, seen)| {
        let share = share_of_buffer(seen.report.queued_bytes, config);
        format!(" (fullest: {share:.0} %, source {source})")
    });
    items.push(format!("buffers {:.1} MB{fullest}", queued as f64 / 1e6));
    let to_be_taken: u64 = picture
        .builders
        .iter()
        .map(|it| it.report.to_be_taken)
        .sum();
    if to_be_taken > 0 {
        items.push(format!("for file or consumer {to_be_taken} events"));
    }
    items
}

/// Of a source's buffer, in per cent.
#[must_use]
pub fn share_of_buffer(queued_bytes: u64, config: &Config) -> f64 {
    queued_bytes as f64 * 100.0 / config.source.buffer_bytes.max(1) as f64
}

/// Back-pressure on sources, from 0 to 1, for people.
#[must_use]
pub fn share_held_up(share: f64) -> String {
    format!(
        "sources held up {:.0} % of the time",
        (share * 100.0).min(100.0)
    )
}

/// The event that is open for longest at the builders that live, and for how long.
fn oldest(picture: &Picture) -> String {
    let open = (0..).zip(&picture.builders);
    let open = open.filter(|(_, it)| it.live && it.report.account.events_open > 0);
    match open.max_by_key(|(_, it)| it.report.oldest_age_ns) {
        Some((builder, seen)) => format!(
            "oldest open event {} for {:.1} ms (builder {builder})",
            seen.report.oldest_event,
            seen.report.oldest_age_ns as f64 / 1e6
        ),
        None => "no event open".to_owned(),
    }
}

fn processor_ns(picture: &Picture) -> u64 {
    let sources = all(&picture.sources).map(|it| it.processor_ns);
    let builders = all(&picture.builders).map(|it| it.processor_ns);
    sources.chain(builders).sum::<u64>() + picture.processor_ns
}

/// What became of all events, as a sum.
#[must_use]
pub fn event_sum(events: &EventAccount) -> String {
    format!(
        "triggered {} = built {} + incomplete {} + abandoned {} + aborted {} + waiting {} + in flight {}; refused {}",
        events.triggered,
        events.built,
        events.incomplete,
        events.abandoned,
        events.aborted,
        events.waiting,
        events.in_flight,
        events.refused
    )
}

/// The ledger as a text, and whether it balances.
///
/// # Errors
///
/// With the text, the first sum that does not hold.
pub fn ledger(picture: &Picture) -> (String, Result<(), String>) {
    let mut text = String::new();
    let events = &picture.events;
    let _ = writeln!(
        text,
        "run {}: {} events in {:.3} s, {:.2} s of processor time",
        picture.run,
        events.triggered,
        picture.age_ns as f64 / 1e9,
        processor_ns(picture) as f64 / 1e9
    );
    let _ = writeln!(text, "  events     {}", event_sum(events));
    each(&picture.sources, |name, report| {
        source_line(&mut text, name, report);
    });
    each(&picture.builders, |name, report| {
        builder_lines(&mut text, name, report);
    });
    for (builder, spreads) in picture.spreads.iter().enumerate() {
        spread_lines(&mut text, &format!("builder {builder}"), spreads);
    }
    if picture.spreads.len() > 1 {
        spread_lines(&mut text, "all", &picture.spread());
    }
    if let Some(what) = lost_on_purpose(picture) {
        let _ = writeln!(text, "  {what}");
    }
    let verdict = balance(picture);
    let said = match &verdict {
        Ok(()) => "the ledger balances".to_owned(),
        Err(problem) => format!("THE LEDGER DOES NOT BALANCE: {problem}"),
    };
    let _ = writeln!(text, "  {said}");
    (text, verdict)
}

fn each<R: Default + PartialEq>(seen: &[Seen<R>], mut say: impl FnMut(&str, &R)) {
    for (at, seen) in seen.iter().enumerate() {
        for (life, report) in seen.past.iter().enumerate() {
            let when = match *report == R::default() {
                true => " before its first report",
                false => "",
            };
            say(&format!("{at}, died{when}, life {}", life + 1), report);
        }
        let name = match seen.live {
            true => at.to_string(),
            false => format!("{at}, lost"),
        };
        say(&name, &seen.report);
    }
}

fn source_line(text: &mut String, name: &str, report: &SourceReport) {
    let account = &report.account;
    let _ = write!(
        text,
        "  source {name}: offered {} = sent {} + queued {}",
        account.offered, account.sent, account.queued
    );
    for (reason, count) in drops(&account.dropped).into_iter().filter(|it| it.1 > 0) {
        let _ = write!(text, " + dropped ({reason}) {count}");
    }
    let _ = writeln!(
        text,
        "; {} bytes; not taken from the detector {}",
        account.sent_bytes, report.not_offered
    );
    let faulty = report.faults.in_words();
    if !faulty.is_empty() {
        let _ = writeln!(text, "      faulty on purpose: {faulty}");
    }
    let intake = &report.intake;
    if intake.given > 0 {
        let _ = writeln!(
            text,
            "      its detector gave {} = offered {} + waiting {} + dropped (full) {} + dropped (order) {} + dropped (no such event) {}",
            intake.given,
            account.offered,
            intake.waiting,
            intake.overflowed,
            intake.unordered,
            intake.unwanted
        );
    }
}

fn builder_lines(text: &mut String, name: &str, report: &BuilderReport) {
    let account = &report.account;
    let _ = write!(text, "  builder {name}: came {} =", account.copies);
    let mut sign = "";
    for (fate, count) in fates(account) {
        if count > 0 || fate == "built" {
            let _ = write!(text, "{sign} {fate} {count}");
            sign = " +";
        }
    }
    let _ = writeln!(
        text,
        "; out of sequence {}, gaps {}, cut {}, wrong content {}, wrong size {}",
        account.out_of_sequence, account.gaps, report.cut, report.mismatched, report.wrong_size
    );
    let _ = writeln!(
        text,
        "      events given {} = built {} + incomplete {} + abandoned {} + open {}; missing {}{}; recorded {}",
        account.events_assigned,
        account.events_built,
        account.events_incomplete,
        account.events_abandoned,
        account.events_open,
        account.missing,
        missing_by_source(account.missing_by_source.as_slice()),
        report.recorded
    );
    if report.untaken + report.to_be_taken > 0 {
        let _ = writeln!(
            text,
            "      for file or consumer: taken {} + dropped {} + waiting {}",
            report.recorded, report.untaken, report.to_be_taken
        );
    }
}

fn spread_lines(text: &mut String, name: &str, spreads: &Spreads) {
    let time = spreads.building_ns.quantiles();
    let [median, nine, most, all_but_few, longest] = time.map(|ns| ns as f64 / 1e3);
    let _ = writeln!(
        text,
        "  {name}: building time: median {median:.1} us, 90 % {nine:.1}, 99 % {most:.1}, 99.9 % {all_but_few:.1}, longest {longest:.1}"
    );
    let sizes = |of: &Spread| {
        let [median, _, most, _, largest] = of.quantiles();
        format!("median {median} B, 99 % {most}, largest {largest}")
    };
    let (events, fragments) = (sizes(&spreads.event_bytes), sizes(&spreads.fragment_bytes));
    let _ = writeln!(text, "      events: {events}; fragments: {fragments}");
}

fn missing_by_source(missing: &[u64]) -> String {
    let named = missing.iter().enumerate().filter(|(_, count)| **count > 0);
    let named: Vec<_> = named
        .map(|(source, count)| format!("source {source}: {count}"))
        .collect();
    match named.is_empty() {
        true => String::new(),
        false => format!(" ({})", named.join(", ")),
    }
}

/// What was lost in a run that no setting allows to be, for people; `None` if nothing was. Settings may allow that
/// a source drops what does not fit its buffer, that an event is closed without a fragment that came too late
/// and that a consumer does not take everything.
#[must_use]
pub fn lost(picture: &Picture, config: &Config) -> Option<String> {
    let mut all_lost = Vec::new();
    let abandoned = picture.events.abandoned;
    if abandoned > 0 {
        all_lost.push(format!("{abandoned} events with a builder that died"));
    }
    for (at, source) in picture.sources.iter().enumerate() {
        if source.live && source.past.is_empty() {
            continue;
        }
        let of_source = |it: &BuilderReport| it.account.missing_by_source.get(at).copied();
        let missing: u64 = all(&picture.builders).filter_map(of_source).sum();
        all_lost.push(format!(
            "source {at} died: {missing} of its fragments are missing, and events of that time are without it"
        ));
    }
    let timed_out: u64 = all(&picture.builders).map(|it| it.account.timed_out).sum();
    let timed_out = timed_out.saturating_sub(faults(picture).absent());
    if timed_out > 0 && !config.may_time_out {
        all_lost.push(format!(
            "{timed_out} fragments that did not come within builder.timeout"
        ));
    }
    let corrupt: u64 = all(&picture.builders).map(|it| it.account.corrupt).sum();
    let corrupt = corrupt.saturating_sub(faults(picture).corrupt());
    if corrupt > 0 {
        all_lost.push(format!("{corrupt} fragments that came damaged"));
    }
    let unrecorded: u64 = all(&picture.builders).map(|it| it.untaken).sum();
    if unrecorded > 0 && matches!(config.sink, SinkKind::File { .. }) {
        all_lost.push(format!("{unrecorded} events that could not be recorded"));
    }
    (!all_lost.is_empty()).then(|| all_lost.join("; "))
}

/// All that sources have sent faulty on purpose.
fn faults(picture: &Picture) -> FaultCounts {
    let each = all(&picture.sources).map(|it| it.faults);
    each.fold(FaultCounts::default(), FaultCounts::and)
}

/// What was lost because sources have sent faulty fragments on purpose, for people; `None` if none was faulty. It
/// is allowed, and told all the same.
#[must_use]
pub fn lost_on_purpose(picture: &Picture) -> Option<String> {
    let faulty = faults(picture).in_words();
    let of = |what: fn(&BuilderReport) -> u64| all(&picture.builders).map(what).sum::<u64>();
    (!faulty.is_empty()).then(|| {
        format!(
            "by [faults] of the configuration: fragments {faulty}; builders found {} late, {} duplicate, {} unassigned, \
             {} corrupt, and closed {} events without {} fragments",
            of(|it| it.account.late),
            of(|it| it.account.duplicate),
            of(|it| it.account.unassigned),
            of(|it| it.account.corrupt),
            of(|it| it.account.events_incomplete),
            of(|it| it.account.missing)
        )
    })
}

/// Fragments that sources have sent and no builder has seen.
#[must_use]
pub fn on_the_way(picture: &Picture) -> Option<u64> {
    full(picture).lost_on_the_way()
}

fn full(picture: &Picture) -> Ledger {
    Ledger {
        sources: all(&picture.sources).map(|it| it.account).collect(),
        builders: all(&picture.builders)
            .map(|it| it.account.clone())
            .collect(),
        events: picture.events,
    }
}

/// Whether every sum holds that can be asked for. Where a part was lost, its last report is
/// what it said up to [`crate::part::BEAT`] before: each account balances by itself, and sums
/// over parts cannot be asked for.
fn balance(picture: &Picture) -> Result<(), String> {
    let problem = |it: Imbalance| it.to_string();
    let whole = |live: bool, lives: u32| live && lives == 1;
    let nobody_lost = picture.sources.iter().all(|it| whole(it.live, it.lives))
        && picture.builders.iter().all(|it| whole(it.live, it.lives));
    for report in all(&picture.sources) {
        report.account.balance().map_err(problem)?;
        if !report.intake.balances(report.account.offered) {
            return Err(format!(
                "fragments that a detector gave: {:?}",
                report.intake
            ));
        }
    }
    for report in all(&picture.builders) {
        if !report.sink_balances() {
            let (taken, dropped) = (report.recorded, report.untaken);
            return Err(format!(
                "events built or given up: recorded or taken {taken}, dropped {dropped}, waiting {}",
                report.to_be_taken
            ));
        }
    }
    for seen in &picture.builders {
        let past = seen.past.iter().try_for_each(|it| it.account.balance());
        past.map_err(problem)?;
        match seen.live {
            true => seen.report.account.balance_closed(),
            false => seen.report.account.balance(),
        }
        .map_err(problem)?;
    }
    picture.events.balance().map_err(problem)?;
    let left = picture.events.waiting + picture.events.in_flight;
    if left > 0 {
        return Err(format!("{left} events are neither built nor given up"));
    }
    let mismatched: u64 = all(&picture.builders).map(|it| it.mismatched).sum();
    if mismatched > 0 {
        return Err(format!("{mismatched} pieces do not hold what was sent"));
    }
    if !nobody_lost {
        return Ok(());
    }
    full(picture).balance().map_err(problem)?;
    match on_the_way(picture) {
        Some(0) => Ok(()),
        Some(lost) => Err(format!("{lost} fragments were sent and never seen")),
        None => Err("builders have seen more fragments than were sent".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use barewire_proto::evb::RunState;

    use super::*;
    use crate::monitor::Seen;

    #[test]
    fn the_lines_of_a_period_fit_a_terminal_and_hide_nothing() {
        let config = Config::parse("", "a.toml").expect("good");
        let mut sent = SourceReport {
            queued_bytes: 32 << 20,
            held_up_ns: 1_000_000_000,
            ..SourceReport::default()
        };
        sent.account.sent_bytes = 4_000_000;
        sent.account.dropped.full = 7;
        let mut took = BuilderReport {
            oldest_event: 99,
            oldest_age_ns: 2_500_000,
            cut: 8,
            ..BuilderReport::default()
        };
        took.account.events_open = 3;
        took.account.gaps = 5;
        let mut dead = BuilderReport::default();
        dead.account.late = 6;
        let mut picture = Picture {
            run: 1,
            state: RunState::Draining,
            events: EventAccount {
                built: 20,
                incomplete: 2,
                in_flight: 9,
                waiting: 4,
                ..EventAccount::default()
            },
            sources: vec![Seen {
                live: true,
                report: sent,
                ..Seen::default()
            }],
            builders: vec![Seen {
                live: true,
                report: took,
                past: vec![dead],
                ..Seen::default()
            }],
            spreads: Vec::new(),
            age_ns: 2_000_000_000,
            processor_ns: 500_000_000,
        };
        let mut rates = Rates::default();
        let text = lines(&picture, &config, &mut rates, 1_795_476_665);
        assert!(text.lines().all(|it| it.len() <= 80), "{text}");
        for part in [
            "23:31:05      2.0 s Draining: 10 events/s, 2.0 MB/s, 25 % of a processor",
            "in flight 9 of 1024, waiting 4,",
            "oldest open event 99 for 2.5 ms (builder 0)",
            "buffers 33.6 MB (fullest: 50 %, source 0)",
            "sources held up 50 % of the time",
            "built 20, events incomplete 2, dropped (buffer full) 7",
            "late 6",
            "gaps 5",
            "cut 8",
        ] {
            let text = text.replace("\n    ", " ");
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
        // The next line has the rates since this one.
        picture.age_ns += 1_000_000_000;
        let next = lines(&picture, &config, &mut rates, 1_795_476_666);
        assert!(next.contains(": 0 events/s"), "{next}");
        assert!(next.contains("held up 0 %"), "{next}");
        // A life that ended before its first report is a life.
        picture.sources[0].past = vec![SourceReport::default()];
        let (text, _) = ledger(&picture);
        let named = "source 0, died before its first report, life 1: offered 0";
        assert!(text.contains(named), "{text}");
        let said = lost(&picture, &config).expect("a source died");
        assert!(said.starts_with("source 0 died"), "{said}");
    }
}
