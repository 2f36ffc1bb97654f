//! `duramen raid fail` and `duramen raid online`: take a member out and bring it back, on a user's
//! order.
//!
//! Taking a member out costs the set a part of its redundancy, or all of it. So a person is asked
//! for confirmation; a program passes `--force`.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use serde_json::json;

use super::{ask, change, follow_fill, is_complete, rebuild};
use crate::failure::Failure;
use crate::volume::Volume;

/// Takes the member of a slot out of the set.
///
/// # Errors
/// [`Failure`], also if the user does not confirm.
pub(super) fn fail(
    volume: &Volume,
    slot: usize,
    force: bool,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let path = volume.path.display();
    if !force {
        let question = format!("{path}: take the member of slot {slot} out? [y/N] ");
        let (input, mut screen) = (io::stdin(), io::stderr());
        let is_person = input.is_terminal();
        if let Err(why) = confirm(&question, is_person, &mut input.lock(), &mut screen) {
            return Err(Failure::NotDone { path: volume.path.clone(), why: why.to_owned() });
        }
    }
    if ask(volume, "fail", &json!({ "slot": slot }))?.is_none() {
        change(volume, async |orders, _| orders.fail(slot).await)?;
    }
    Ok(writeln!(output, "{path}: the member of slot {slot} is out")?)
}

/// Brings back the member of a slot, from this disk or from the path in the settings.
///
/// # Errors
/// [`Failure`].
pub(super) fn bring_online(
    volume: &Volume,
    (slot, disk): (usize, Option<PathBuf>),
    is_background: bool,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let path = volume.path.display();
    match ask(volume, "online", &json!({ "slot": slot, "path": disk }))? {
        Some(_) if is_background => {
            return Ok(writeln!(output, "{path}: the member of slot {slot} comes back")?);
        }
        Some(answer) => follow_fill(volume, slot, &answer, "catching up")?,
        None => {
            let lacking = change(volume, async |orders, stack| {
                let returning = orders.begin_return(slot, disk.as_deref()).await?;
                rebuild(orders, stack, returning, "catching up").await
            })?;
            is_complete(volume, slot, lacking)?;
        }
    }
    Ok(writeln!(output, "{path}: the member of slot {slot} is in again")?)
}

/// Asks a person a yes-or-no question.
///
/// # Errors
/// The reason why the answer is no.
fn confirm(
    question: &str,
    is_person: bool,
    input: &mut impl BufRead,
    screen: &mut impl Write,
) -> Result<(), &'static str> {
    if !is_person {
        return Err("the set would have one disk less to lose; if that is meant, say --force");
    }
    let mut answer = String::new();
    let asked = write!(screen, "{question}").and_then(|()| screen.flush());
    let answered = asked.and_then(|()| input.read_line(&mut answer));
    let is_meant = ["y", "yes"].contains(&answer.trim().to_lowercase().as_str());
    if answered.is_ok() && is_meant { Ok(()) } else { Err("nothing has changed") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_person_who_says_yes_is_believed() {
        let told = |answer: &str, is_person| {
            let mut screen = Vec::new();
            let told = confirm("well? ", is_person, &mut answer.as_bytes(), &mut screen);
            (told, String::from_utf8(screen).expect("text"))
        };
        for yes in ["y\n", "Y\n", "yes\n", " YES \n"] {
            assert_eq!(told(yes, true), (Ok(()), "well? ".to_owned()), "{yes:?}");
        }
        for no in ["", "\n", "n\n", "no\n", "yesterday\n"] {
            assert_eq!(told(no, true), (Err("nothing has changed"), "well? ".to_owned()), "{no:?}");
        }
        let (told, shown) = told("y\n", false);
        assert!(told.is_err_and(|why| why.contains("say --force")) && shown.is_empty());
    }
}
