//! What a user that waits for a check sees: one bar, of the phase that runs. It is drawn on
//! standard error, and only if that is a terminal.

use std::fmt;

use designs::Progress;
use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};

const TEMPLATE: &str = "{msg:<24} {bar:30} {human_pos}/{human_len}  {rate}/s  {eta} left";

/// Shows how far a check is.
pub(super) struct Watch {
    bar: ProgressBar,
    /// What the bar is about.
    now: Option<(&'static str, u32)>,
}

impl Watch {
    /// Nothing is drawn before the first step.
    pub(super) fn new() -> Self {
        let style = ProgressStyle::with_template(TEMPLATE).expect("the template is a constant");
        let style = style.with_key("rate", |state: &ProgressState, text: &mut dyn fmt::Write| {
            // Without its decimals, which flicker. A bar that cannot be drawn is not drawn.
            let _ = write!(text, "{}", HumanCount(state.per_sec() as u64));
        });
        Self { bar: ProgressBar::no_length().with_style(style), now: None }
    }

    /// Shows a step. A new phase has a rate and an end of its own.
    pub(super) fn show(&mut self, progress: Progress) {
        let now = (progress.phase, progress.round);
        if self.now.replace(now) != Some(now) {
            self.bar.reset();
            self.bar.set_message(title(progress));
        }
        self.bar.set_length(progress.total);
        self.bar.set_position(progress.done);
    }

    /// Takes the bar away.
    pub(super) fn end(self) {
        self.bar.finish_and_clear();
    }
}

/// The phase; a round that is not the first checks what the repairs of those before have made.
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
