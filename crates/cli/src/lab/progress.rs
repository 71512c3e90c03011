//! How far a run is and how long it will take, on standard error if that is a terminal.

use std::io::stderr;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use barewire_report::terminal::{may_redraw, progress_bar};
use barewire_tables::runs::Watch;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

/// How often it is drawn.
const PERIOD: Duration = Duration::from_millis(100);
/// Nothing is foretold from less than this share.
const SHARE_LEAST: f64 = 0.02;
/// The steps of the bar.
const STEPS: u64 = 1000;

/// Does `work`, and draws how far `watch` says it is until then.
pub fn shown<T>(watch: &Watch, work: impl FnOnce() -> T) -> T {
    if !may_redraw(&stderr()) {
        return work();
    }
    let (working, is_over) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let begun = Instant::now();
            let bar = bar();
            // Whoever works drops the other end, in a panic too.
            while is_over.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                draw(&bar, watch, begun.elapsed());
            }
            bar.finish_and_clear();
        });
        let result = work();
        drop(working);
        result
    })
}

fn bar() -> ProgressBar {
    let bar = progress_bar(STEPS);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {bar:30} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    bar
}

fn draw(bar: &ProgressBar, watch: &Watch, elapsed: Duration) {
    let share = watch.share();
    bar.set_position((share * STEPS as f64) as u64);
    let mut words = match watch.runs() {
        (_, 1) => String::new(),
        (over, all) => format!("{over} of {all} runs, "),
    };
    words += &match share >= SHARE_LEAST {
        true => {
            let left = elapsed.mul_f64((1.0 - share) / share);
            format!("about {} left", HumanDuration(left))
        }
        false => format!("{} so far", HumanDuration(elapsed)),
    };
    bar.set_message(words);
    bar.tick();
}
