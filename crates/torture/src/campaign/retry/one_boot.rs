//! Repeats a call to a running server: it is carried out once, and every repetition gets the same
//! bytes, whenever and from wherever it comes.

use std::time::Duration;

use bytes::Bytes;
use sim::Stream;

use super::cases::{Case, Undo};
use super::number::another_call_of_the_number;
use super::over_cut::First;
use super::stage::{Base, PORT, Stage, XID, exchange, receive, record, send};
use super::{Judge, same};

/// The connection of a repetition while the first call may still run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// On the same connection.
    SameConnection,
    /// Another connection from the same port; the first is lost.
    OldPort,
    /// Another connection from another port; the first is lost.
    NewPort,
    /// A second connection beside the first.
    Beside,
}

const WAYS: [Way; 4] = [Way::SameConnection, Way::OldPort, Way::NewPort, Way::Beside];

/// Repeats a call at every moment of its execution, and long after it.
pub fn judge(judge: &mut Judge<'_>, base: &Base, first: &First, full: bool) {
    for (index, way) in WAYS.into_iter().enumerate() {
        // In short, each way takes different moments.
        let step = if full { 1 } else { WAYS.len() };
        for events in (0..=first.events()).skip(index % step).step_by(step) {
            judge.counts.states += 1;
            if let Err(reason) = repeat(judge.case, base, first, way, events) {
                let when = format!("repeated {way:?} after {events} events of the first");
                judge.violate(&when, &reason);
            }
        }
    }
}

fn repeat(case: &Case, base: &Base, first: &First, way: Way, events: usize) -> Result<(), String> {
    let stage = Stage::new(2, base.served, &base.remains)?;
    let record = record(case, XID);
    let stream = stage.world.run(stage.connect(PORT));
    stage.world.start_recording();
    stage.world.run(send(&stream, &record))?;
    let mut waited = 0;
    while stage.events() < events && waited < 10_000 {
        stage.world.run_for(Duration::from_micros(5), std::future::pending::<()>());
        waited += 1;
    }
    let (reply, stream) = stage.world.run(again(&stage, &record, stream, way))?;
    if !same(&stage.view()?, first.after()) {
        return Err(format!("not what one execution makes: {:?}", stage.view()?));
    }
    drop(stream);
    let later = stage.world.run(on_another(&stage, &record))?;
    if later != reply {
        return Err("the same call is answered otherwise later".into());
    }
    after_undo(&stage, case, &record, &reply)?;
    stage.world.run(another_call_of_the_number(&stage, &base.handles.root))
}

/// Repeats the call, and receives all answers.
async fn again(
    stage: &Stage,
    record: &Bytes,
    stream: Stream,
    way: Way,
) -> Result<(Bytes, Stream), String> {
    match way {
        Way::SameConnection => {
            send(&stream, record).await?;
            let replies = [receive(&stream).await?, receive(&stream).await?];
            equal(replies).map(|reply| (reply, stream))
        }
        Way::Beside => {
            let other = stage.connect(0).await;
            let there = exchange(&other, record).await?;
            equal([receive(&stream).await?, there]).map(|reply| (reply, stream))
        }
        Way::OldPort | Way::NewPort => {
            drop(stream);
            let stream = stage.connect(if way == Way::OldPort { PORT } else { 0 }).await;
            Ok((exchange(&stream, record).await?, stream))
        }
    }
}

fn equal([one, other]: [Bytes; 2]) -> Result<Bytes, String> {
    if one == other { Ok(one) } else { Err("it is answered in two ways".into()) }
}

async fn on_another(stage: &Stage, record: &Bytes) -> Result<Bytes, String> {
    let stream = stage.connect(0).await;
    exchange(&stream, record).await
}

/// A late repetition undoes nothing that another client has done since.
fn after_undo(stage: &Stage, case: &Case, record: &Bytes, reply: &Bytes) -> Result<(), String> {
    if case.undo == Undo::Nothing {
        return Ok(());
    }
    stage.world.run(stage.undo(case.undo));
    let undone = stage.view()?;
    if stage.world.run(on_another(stage, record))? != *reply {
        return Err("a late repetition is answered otherwise".into());
    }
    if same(&stage.view()?, &undone) {
        Ok(())
    } else {
        Err("a late repetition destroys what somebody else has done".into())
    }
}
