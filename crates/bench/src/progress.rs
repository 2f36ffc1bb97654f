//! Progress of a measurement: a bar for the running phase, on standard error and only if that is a
//! terminal. An interrupt from the keyboard ends the phase, but not the cleanup.

use std::cell::Cell;
use std::process::{Command, Stdio};
use std::rc::Rc;

use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};
use load::stage::{ProcessorTime, Watch};

use crate::cpu::Process;

const TEMPLATE: &str = "{msg:<28} {human_pos} calls  {rate}/s  {elapsed}{errors}";

/// Shows the progress of a measurement.
pub(crate) struct Progress {
    bar: ProgressBar,
    server: Option<Process>,
    /// Shell command to run before each measurement.
    prepared: Option<String>,
    failed: Rc<Cell<u64>>,
    is_over: Rc<Cell<bool>>,
}

impl Progress {
    /// Draws nothing before the first phase.
    pub(crate) fn new(is_shown: bool, server: Option<Process>, prepared: Option<String>) -> Self {
        let bar = if is_shown { ProgressBar::no_length() } else { ProgressBar::hidden() };
        Self { bar, server, prepared, failed: Rc::default(), is_over: Rc::default() }
    }

    /// Waits for the first interrupt, and then makes everything end.
    pub(crate) fn end_on_interrupt(&self) {
        let is_over = self.is_over.clone();
        tokio::task::spawn_local(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                is_over.set(true);
            }
        });
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template(TEMPLATE).expect("the template is a constant");
    // A bar that cannot be drawn is not drawn.
    style.with_key("rate", |state: &ProgressState, text: &mut dyn std::fmt::Write| {
        let _ = write!(text, "{}", HumanCount(state.per_sec() as u64));
    })
}

/// Runs a shell command and waits for it, blocking: nothing else may happen meanwhile.
fn run_in_shell(command: &str) -> Result<(), String> {
    let why = |why: String| format!("before measuring, '{command}': {why}");
    let mut shell = Command::new("/bin/sh");
    // Its output is not part of the report.
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null());
    match shell.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(why(status.to_string())),
        Err(error) => Err(why(error.to_string())),
    }
}

impl Watch for Progress {
    fn prepared(&self, _workload: &str) -> Result<(), String> {
        self.prepared.as_deref().map_or(Ok(()), run_in_shell)
    }

    fn begin(&self, phase: &str, _total: u64) {
        self.failed.set(0);
        self.bar.reset();
        self.bar.set_style(style());
        self.bar.set_message(phase.to_owned());
    }

    fn progress(&self, done: u64, failed: u64) {
        if failed != self.failed.replace(failed) {
            let errors = format!("  {failed} errors");
            self.bar.set_style(style().with_key(
                "errors",
                move |_: &ProgressState, text: &mut dyn std::fmt::Write| {
                    let _ = text.write_str(&errors);
                },
            ));
        }
        self.bar.set_position(done);
    }

    fn processor_time(&self) -> ProcessorTime {
        let server = self.server.as_ref();
        ProcessorTime { client: Process::own().time(), server: server.and_then(Process::time) }
    }

    fn is_over(&self) -> bool {
        self.is_over.get()
    }
}
