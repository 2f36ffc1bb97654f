//! `duramen snapshot`: snapshots of a volume, to inspect and to roll back to.
//!
//! 1. [`verbs`] has the operations, and the messages for their refusals.
//! 2. [`keeper`] runs them on a served volume on the orders of its control channel, and continues
//!    deletions; [`schedule`] has it create snapshots by the hour and the day.
//! 3. [`here`] runs them on a volume without a server.
//!
//! A command asks the server of a volume, and opens the volume itself if there is none. No code
//! here depends on the name of an engine: an open volume has snapshots, or has none.

mod here;
mod interrupt;
mod keeper;
mod schedule;
#[cfg(test)]
mod tests;
mod verbs;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use runtime::Runtime;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use server::control::Answer;
use server::control::client::{self, AskError};
use server::reactor::elsewhere;

use crate::calendar::{show_stamp, show_time};
use crate::failure::Failure;
use crate::order::{self, ASK_AGAIN, UNKNOWN, bar, is_done};
use crate::shown::show_name;
use crate::size::show_size;
use crate::volume::Volume;
use here::Here;
use interrupt::Interrupt;
pub(crate) use keeper::Keeper;
pub(crate) use schedule::attend;
use verbs::{Told, Wrong};

/// Text at the end of `duramen snapshot --help`.
pub(crate) const HELP: &str = "\
A snapshot takes almost no space at first: it shares all unchanged data with the volume. Clients
find it, read-only, as '.snapshot/NAME' in every directory. Engines shadow and lfs have
snapshots; engine ffs does not.

Examples:
  duramen snapshot create data before-upgrade   create a snapshot
  duramen snapshot create data                  create one named after the current time
  duramen snapshot list data                    list snapshots and the space they hold
  duramen snapshot delete data before-upgrade   delete one and free its space
  duramen snapshot rollback data before-upgrade return the volume to that state

To have the server take snapshots automatically, add to volume.toml:
  [snapshots]
  hourly = 24                                   one per hour; keep the last 24
  daily = 30                                    one per day; keep the last 30";

/// Maximum number of names that are tried with the same time.
const MOST_AT_ONCE: u32 = 1000;

/// The arguments of `duramen snapshot`.
#[derive(Args, Debug)]
pub(crate) struct SnapshotArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a snapshot of the volume
    ///
    /// The snapshot is on stable storage when the command returns.
    Create {
        #[command(flatten)]
        common: Common,
        /// Name [default: the time, such as 2026-11-27T21:05:00Z; the second snapshot in the same
        /// second ends in -2]
        name: Option<String>,
    },
    /// List the snapshots, oldest first
    List {
        #[command(flatten)]
        common: Common,
    },
    /// Delete a snapshot and free the space that only it holds
    ///
    /// The snapshot disappears at once; its space is freed in steps. If the command is interrupted,
    /// the server of the volume, or the next 'delete', finishes the work.
    Delete {
        #[command(flatten)]
        common: Common,
        /// Name of the snapshot
        name: String,
    },
    /// Return a volume that is not being served to the state of a snapshot
    ///
    /// All later changes are lost.
    Rollback {
        #[command(flatten)]
        common: Alone,
        /// Name of the snapshot
        name: String,
        /// Also delete all newer snapshots
        #[arg(long)]
        delete_newer: bool,
    },
}

/// What all of them take.
#[derive(Args, Debug)]
struct Alone {
    /// Volume: see 'duramen --help'
    volume: PathBuf,
    /// Print JSON; sizes are in bytes, times in seconds since 1970
    #[arg(long)]
    json: bool,
}

/// What those take that a server does, too.
#[derive(Args, Debug)]
struct Common {
    #[command(flatten)]
    alone: Alone,
    /// Control socket of a bare disk that is served with the same option
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// A volume and the control socket of its server.
struct Place {
    volume: Volume,
    socket: Option<PathBuf>,
    runtime: Runtime,
    interrupt: Interrupt,
}

/// Runs a subcommand. Call it within the reactor.
///
/// # Errors
/// [`Failure`].
pub(crate) async fn run(
    arguments: &SnapshotArguments,
    output: &mut dyn Write,
    runtime: &Runtime,
) -> Result<(), Failure> {
    match &arguments.command {
        Command::Create { common, name } => {
            let place = Place::find(common, runtime)?;
            let made = match name {
                Some(name) => place.create(name).await?,
                None => place.create_at(&show_stamp(runtime.clock.wall().seconds)).await?,
            };
            if common.alone.json {
                return print_json(&made, output);
            }
            let path = place.volume.path.display();
            Ok(writeln!(output, "{path}: snapshot '{}' is made", shown(&made.name))?)
        }
        Command::List { common } => {
            let all = Place::find(common, runtime)?.list().await?;
            if common.alone.json { print_json(&all, output) } else { print_list(&all, output) }
        }
        Command::Delete { common, name } => {
            let place = Place::find(common, runtime)?;
            let gone = place.delete(name).await?;
            let (_, freed) = gone.progress();
            if common.alone.json {
                let Told { name, number, .. } = gone;
                let deleted = json!({ "name": name, "number": number, "freed_bytes": freed });
                return print_json(&deleted, output);
            }
            let (path, size) = (place.volume.path.display(), show_size(freed));
            let name = shown(name);
            Ok(writeln!(output, "{path}: snapshot '{name}' is deleted, and {size} are free again")?)
        }
        Command::Rollback { common, name, delete_newer } => {
            let place = Place::of(common, None, runtime)?;
            let deleted = place.roll_back(name, *delete_newer).await?;
            if common.json {
                return print_json(&json!({ "name": name, "deleted": deleted }), output);
            }
            let path = place.volume.path.display();
            for name in deleted {
                writeln!(output, "{path}: snapshot '{}' is deleted", shown(&name))?;
            }
            Ok(writeln!(output, "{path}: it is what snapshot '{}' holds", shown(name))?)
        }
    }
}

fn shown(name: &str) -> String {
    show_name(name.as_bytes())
}

fn print_json(value: &impl Serialize, output: &mut dyn Write) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).expect("all keys are names");
    Ok(writeln!(output, "{text}")?)
}

fn print_list(all: &[Told], output: &mut dyn Write) -> Result<(), Failure> {
    let width = all.iter().map(|told| shown(&told.name).chars().count()).max().unwrap_or(0);
    for told in all {
        let (name, created) = (shown(&told.name), show_time(told.created));
        let [all, alone, freed] =
            [told.referenced_bytes, told.unique_bytes, told.freed_bytes].map(show_size);
        let how = if told.is_deleting() {
            format!("being deleted: {freed} of it are free again, {alone} are left")
        } else {
            format!("holds {all}, {alone} of it alone")
        };
        writeln!(output, "{name:<width$}  {created}  {how}")?;
    }
    Ok(())
}

impl Place {
    fn find(common: &Common, runtime: &Runtime) -> Result<Self, Failure> {
        Self::of(&common.alone, common.control.as_ref(), runtime)
    }

    fn of(named: &Alone, control: Option<&PathBuf>, runtime: &Runtime) -> Result<Self, Failure> {
        let volume = Volume::find(&named.volume)?;
        let socket = control.cloned().or_else(|| volume.socket());
        let (runtime, interrupt) = (runtime.clone(), Interrupt::heed(runtime)?);
        Ok(Self { volume, socket, runtime, interrupt })
    }

    fn failure(&self, why: impl ToString) -> Failure {
        Failure::NotDone { path: self.volume.path.clone(), why: why.to_string() }
    }

    async fn create(&self, name: &str) -> Result<Told, Failure> {
        let Some(answer) = self.order("create", json!({ "name": name })).await? else {
            return self.open_here().await?.create(name).await;
        };
        if answer.get("job").is_none() {
            return self.understood(answer);
        }
        let left = "interrupted: the server goes on, and may make the snapshot";
        self.follow(&answer, "making", left).await?;
        let made = self.list().await?.into_iter().find(|told| told.name == name);
        made.ok_or_else(|| self.failure(format_args!("snapshot '{}' has gone", shown(name))))
    }

    /// Creates a snapshot under this name, or under a free name that begins with it.
    async fn create_at(&self, stamp: &str) -> Result<Told, Failure> {
        let mut name = stamp.to_owned();
        for number in 2..=MOST_AT_ONCE {
            match self.create(&name).await {
                Err(Failure::NotDone { why, .. }) if why == Wrong::Taken(name).to_string() => {
                    name = format!("{stamp}-{number}");
                }
                made => return made,
            }
        }
        self.create(&name).await
    }

    async fn list(&self) -> Result<Vec<Told>, Failure> {
        match self.ask(|socket| client::get(&socket, "/v1/snapshots")).await? {
            Some(answer) => self.understood(answer),
            None => here::list(self).await.map_err(|failure| self.or_ask(failure)),
        }
    }

    /// Opens a volume if no server answered for it.
    async fn open_here(&self) -> Result<Here<'_>, Failure> {
        Here::open(self).await.map_err(|failure| self.or_ask(failure))
    }

    fn or_ask(&self, failure: Failure) -> Failure {
        order::or_ask(failure, &self.volume, self.socket.as_deref())
    }

    async fn delete(&self, name: &str) -> Result<Told, Failure> {
        let Some(answer) = self.order("delete", json!({ "name": name })).await? else {
            return self.open_here().await?.delete(name).await;
        };
        let left = "interrupted: the snapshot is found no more, and the server goes on with its \
                    deletion";
        let gone: Told = self.understood(answer["snapshot"].clone())?;
        let is_known = self.follow(&answer, "deleting", left).await?;
        if !is_known && self.list().await?.iter().any(|told| told.number == gone.number) {
            let why = "it knows nothing of the deletion any more, and some is left to be done";
            return Err(self.refused(why));
        }
        Ok(gone)
    }

    /// Rolls the volume back, and returns the names of the snapshots that were deleted for it.
    async fn roll_back(&self, name: &str, delete_newer: bool) -> Result<Vec<String>, Failure> {
        verbs::parse(name).map_err(|wrong| self.failure(wrong))?;
        match self.order("rollback", json!({ "name": name })).await? {
            Some(_) => Err(self.failure("its server is of another version")),
            None => Here::open(self).await?.roll_back(name, delete_newer).await,
        }
    }

    /// Sends an order to the server of the volume. `None` if there is no server.
    async fn order(&self, order: &str, said: Value) -> Result<Option<Value>, Failure> {
        let route = format!("/v1/snapshots/{order}");
        self.ask(move |socket| client::post(&socket, &route, said.to_string())).await
    }

    /// Sends a request to the server of the volume, and returns the body of its answer. `None` if
    /// there is no server.
    async fn ask(
        &self,
        ask: impl FnOnce(PathBuf) -> Result<Answer, AskError> + Send + 'static,
    ) -> Result<Option<Value>, Failure> {
        self.answer(ask).await?.map(|answer| self.body(&answer)).transpose()
    }

    /// Sends a request to the server of the volume, and returns the whole answer with any status.
    /// `None` if there is no server.
    async fn answer(
        &self,
        ask: impl FnOnce(PathBuf) -> Result<Answer, AskError> + Send + 'static,
    ) -> Result<Option<Answer>, Failure> {
        let Some(socket) = self.socket.clone() else { return Ok(None) };
        let asked = elsewhere(move || ask(socket));
        let interrupted = "interrupted: the server was asked, and may do it all the same";
        let answer = self.interrupt.unless_heard(asked).await;
        match answer.ok_or_else(|| self.failure(interrupted))? {
            Err(AskError::Nobody(_)) => Ok(None),
            Err(error) => Err(self.refused(error)),
            Ok(answer) => Ok(Some(answer)),
        }
    }

    fn body(&self, answer: &Answer) -> Result<Value, Failure> {
        if answer.status == 200 {
            let body = serde_json::from_str(&answer.body);
            return body.map_err(|_| self.refused("its answer is of another version"));
        }
        let why = answer.error().unwrap_or_else(|| "it does not say why".to_owned());
        let is_told = matches!(answer.status, 400 | 409);
        Err(if is_told { self.failure(why) } else { self.refused(why) })
    }

    /// Failure of a request that the server did not carry out.
    fn refused(&self, why: impl ToString) -> Failure {
        let path = self.socket.clone().unwrap_or_default();
        Failure::Control { path, why: why.to_string() }
    }

    fn understood<T: DeserializeOwned>(&self, answer: Value) -> Result<T, Failure> {
        serde_json::from_value(answer).map_err(|_| self.refused("its answer is of another version"))
    }

    /// Waits for the end of a job of the server. `left` is the message if an interrupt ends the
    /// wait. Returns whether the job is known to be done: the server forgets jobs that have ended.
    async fn follow(
        &self,
        answer: &Value,
        doing: &'static str,
        left: &str,
    ) -> Result<bool, Failure> {
        let job = answer["job"].as_u64().ok_or_else(|| self.refused("it names no job"))?;
        let bar = bar(doing);
        loop {
            if self.interrupt.is_heard() {
                return Err(self.failure(left));
            }
            let route = format!("/v1/jobs/{job}");
            let told = self.answer(move |socket| client::get(&socket, &route)).await?;
            let told =
                told.ok_or_else(|| self.refused("it has ended, and left some to be done"))?;
            if told.status == UNKNOWN {
                return Ok(false);
            }
            if is_done(&self.body(&told)?, &bar).map_err(|why| self.refused(why))? {
                return Ok(true);
            }
            self.interrupt.unless_heard(self.runtime.clock.sleep(ASK_AGAIN)).await;
        }
    }
}
