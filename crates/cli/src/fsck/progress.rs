//! Progress of a check for a waiting user: one bar for the current phase. It is drawn on standard
//! error, and only if that is a terminal.

use std::fmt;

use designs::Progress;
use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};

const TEMPLATE: &str = "{msg:<24} {bar:30} {human_pos}/{human_len}  {rate}/s  {eta} left";

/// Progress bar of a check.
pub(super) struct Watch {
    bar: ProgressBar,
    /// The phase and round that the bar shows.
    now: Option<(&'static str, u32)>,
}

impl Watch {
    /// Creates a bar that is not drawn before the first step.
    pub(super) fn new() -> Self {
        let style = ProgressStyle::with_template(TEMPLATE).expect("the template is a constant");
        let style = style.with_key("rate", |state: &ProgressState, text: &mut dyn fmt::Write| {
            // The rate without decimals, which would flicker. A bar that cannot be drawn is
            // skipped.
            let _ = write!(text, "{}", HumanCount(state.per_sec() as u64));
        });
        Self { bar: ProgressBar::no_length().with_style(style), now: None }
    }

    /// Shows a step. A new phase has its own rate and end.
    pub(super) fn show(&mut self, progress: Progress) {
        let now = (progress.phase, progress.round);
        if self.now.replace(now) != Some(now) {
            self.bar.reset();
            self.bar.set_message(title(progress));
        }
        self.bar.set_length(progress.total);
        self.bar.set_position(progress.done);
    }

    /// Removes the bar.
    pub(super) fn end(self) {
        self.bar.finish_and_clear();
    }
}

/// Title of a phase. Each round after the first checks the repairs of the rounds before it.
fn title(progress: Progress) -> String {
    let phase = progress.phase;
    match progress.round {
        0 | 1 => phase.to_owned(),
        round => format!("{phase} (round {round})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_told_from_the_second_on() {
        let progress = Progress { phase: "inodes", round: 1, done: 0, total: 1 };
        assert_eq!(title(progress), "inodes");
        assert_eq!(title(Progress { round: 2, ..progress }), "inodes (round 2)");
    }

    #[test]
    fn a_phase_starts_from_its_own_beginning() {
        let mut watch = Watch::new();
        watch.show(Progress { phase: "inodes", round: 1, done: 90, total: 100 });
        watch.show(Progress { phase: "maps", round: 1, done: 1, total: 7 });
        assert_eq!((watch.bar.position(), watch.bar.length()), (1, Some(7)));
        assert_eq!(watch.bar.message(), "maps");
        watch.end();
    }
}
