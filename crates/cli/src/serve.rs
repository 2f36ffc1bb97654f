//! `duramen serve`: serves volumes over NFS until a signal or an error ends it.

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::ops::Deref;
use std::panic;
use std::path::{Path, PathBuf};
use std::process;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use block::file::{Access, DiskFile};
use clap::Args;
use futures::FutureExt;
use futures::future::{join_all, ready};
use runtime::Runtime;
use server::config::{Listen, parse_address};
use server::control::{Act, Desk, Refused, Socket};
use server::device_counts::DeviceBook;
use server::disks::Disks;
use server::reactor::elsewhere;
use server::{
    Config, Fsid, ReadyInfo, ServeError, Settings, Share, Signals, Volume as Served, reactor,
    shut_down,
};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::choice::Word;
use crate::configuration::DEFAULT_FILE;
use crate::engine::{OpenVolume, ReportStop};
use crate::failure::Failure;
use crate::front;
use crate::info;
use crate::memory;
use crate::mkfs::{self, Created};
use crate::mkfs_arguments::MkfsArguments;
use crate::probe::silent_disks;
use crate::readable::warn_of_readable;
use crate::root_directory::{Owner, parse_mode, parse_owner};
use crate::sets::Orders;
use crate::sharing::{is_shared, open_together, open_with_own_log};
use crate::size::parse_size;
use crate::snapshots::{self, Keeper};
use crate::volume::Volume;
use crate::wanted::{NamedVolume, VolumeWords, WantedVolume, common_log, find_all, wanted_of};
use crate::words::{self, Lines, quoted};

/// The arguments of `duramen serve`.
#[derive(Args, Debug, Default)]
pub(crate) struct ServeArguments {
    /// Volumes to serve: see 'duramen --help'. The last part of the path, without '.img', is the
    /// name of the export: 'disks/data' and 'disks/data.img' become '/data' [default: the sections
    /// [volumes.NAME] of the configuration]
    #[arg(value_name = "VOLUME")]
    pub(crate) volumes: Vec<PathBuf>,
    /// Address and port to listen on, or just a port of 127.0.0.1; may be repeated
    /// [default: 127.0.0.1:2049]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address)]
    pub(crate) listen: Vec<SocketAddr>,
    /// Configuration file: volumes, access rules, limits [default: none with VOLUME;
    /// /etc/duramen/duramen.toml without]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Use this file or device as the log. Several volumes share it. A missing file is created.
    /// [default: a folder's own log; a bare disk is served without one, under policy sync]
    #[arg(long, value_name = "PATH")]
    pub(crate) log: Option<PathBuf>,
    /// Record all calls, without data, in this new file; 'duramen bench --replay' plays it
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Control socket for a bare disk, as in 'duramen info DISK --control PATH'. A folder has its
    /// own, 'control.sock'
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
    /// Serve read-only and write nothing to the volumes. Each must have been shut down cleanly
    #[arg(long, conflicts_with_all = ["create", "log"])]
    pub(crate) read_only: bool,
    /// Serve a RAID set with disks missing or restored from a backup. The missing disks may hold
    /// newer data: use this only if they do not, or are lost
    #[arg(long)]
    pub(crate) degraded: bool,
    /// Create each missing volume with this size, as 'duramen mkfs' does; an existing one is served
    /// as it is
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) create: Option<u64>,
    /// Storage engine of a volume that is created [default: ffs]
    #[arg(long, requires = "create", value_parser = Word::Engine)]
    pub(crate) engine: Option<String>,
    /// Write policy of a volume that is created with engine ffs [default: log]
    #[arg(long, requires = "create", value_parser = Word::Policy)]
    pub(crate) policy: Option<String>,
    /// Owner of the root directory of a volume that is created, by number [default: the user who
    /// runs this command]
    #[arg(long, requires = "create", value_name = "UID:GID", value_parser = parse_owner)]
    pub(crate) owner: Option<Owner>,
    /// Mode of the root directory of a volume that is created, in octal [default: 755]
    #[arg(long, requires = "create", value_parser = parse_mode)]
    pub(crate) mode: Option<u16>,
}

impl ServeArguments {
    fn words(&self) -> VolumeWords<'_> {
        let (log, control) = (self.log.as_deref(), self.control.as_deref());
        VolumeWords { volumes: &self.volumes, log, control }
    }
}

/// The arguments, and the volumes that they ask for.
struct Asked<'a> {
    arguments: &'a ServeArguments,
    wanted: Vec<WantedVolume>,
}

impl Deref for Asked<'_> {
    type Target = ServeArguments;

    fn deref(&self) -> &ServeArguments {
        self.arguments
    }
}

/// Serves until a signal ends the server.
///
/// # Errors
/// [`Failure`] if a volume cannot be opened, an address cannot be used, or the end was not clean.
pub(crate) fn run(arguments: &ServeArguments) -> Result<(), Failure> {
    log_to_standard_error();
    end_with_a_panic();
    run_with(arguments, read_settings)
}

/// Serves with the settings that `read` finds. Signals are handled before that.
fn run_with(
    arguments: &ServeArguments,
    read: fn(&ServeArguments) -> Result<Settings, Failure>,
) -> Result<(), Failure> {
    let read_and_serve = async |runtime| {
        let signals = Signals::new()?;
        let settings = read(arguments)?;
        let wanted = wanted_of(arguments.words(), &settings.config)?;
        create_and_serve(&Asked { arguments, wanted }, settings, signals, runtime).await
    };
    let serving = reactor::block_on_unless(
        read_and_serve,
        |served| matches!(served, Err(Failure::Serve(error)) if error.ends_at_once()),
    );
    let served = serving.map_err(Failure::Start)?;
    words::drain();
    served
}

/// Creates missing volumes and serves all. The new ones are removed if none is served in the end.
async fn create_and_serve(
    arguments: &Asked<'_>,
    settings: Settings,
    mut signals: Signals,
    runtime: Runtime,
) -> Result<(), Failure> {
    let (mut created, has_served) = (Vec::new(), Cell::new(false));
    let served = match create_missing(arguments, &mut signals, &mut created).await {
        Ok(true) => serve(arguments, settings, runtime, signals, &has_served).await,
        ended => ended.map(drop),
    };
    if !has_served.get() {
        created.into_iter().for_each(Created::undo);
    }
    served
}

/// Creates missing volumes and completes unfinished ones, if the arguments ask for it. Returns
/// whether no signal to end came meanwhile: such a signal takes effect when the volume is complete,
/// and a second one at once.
async fn create_missing(
    arguments: &Asked<'_>,
    signals: &mut Signals,
    created: &mut Vec<Created>,
) -> Result<bool, Failure> {
    let Some(size) = arguments.create else { return Ok(true) };
    for WantedVolume { path, .. } in &arguments.wanted {
        let wanted = MkfsArguments {
            engine: arguments.engine.clone(),
            policy: arguments.policy.clone(),
            owner: arguments.owner,
            mode: arguments.mode,
            ..MkfsArguments::usual(path, size)
        };
        let make = move || mkfs::create_missing(&wanted);
        created.extend(signals.while_starting(elsewhere(make), || false).await??);
        if signals.is_end_asked() {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn serve(
    arguments: &Asked<'_>,
    settings: Settings,
    runtime: Runtime,
    signals: Signals,
    has_served: &Cell<bool>,
) -> Result<(), Failure> {
    let mut opened = Vec::new();
    let ready = |info: &ReadyInfo| {
        has_served.set(true);
        announce(info);
    };
    let served = open_and_serve(arguments, settings, &runtime, signals, &mut opened, ready).await;
    if matches!(&served, Err(Failure::Serve(error)) if error.ends_at_once()) {
        return served;
    }
    // A server that failed to start leaves its volumes clean, too. A second shutdown of a volume is
    // harmless.
    close_all(opened, &runtime, served).await
}

/// Shuts volumes down behind a start or a server with this result. If a disk does not answer, that
/// is the result: the process must end at once.
async fn close_all<T>(
    opened: Vec<(Served, ReportStop)>,
    runtime: &Runtime,
    result: Result<T, Failure>,
) -> Result<T, Failure> {
    let ends = opened.into_iter().map(async |(volume, report_stop): (Served, ReportStop)| {
        shut_down(runtime, &[volume]).await.inspect(|()| report_stop())
    });
    let mut failed = join_all(ends).await.into_iter().filter_map(Result::err);
    match (failed.find(ServeError::ends_at_once), result) {
        (None, result) => result,
        (Some(stuck), Ok(_)) => Err(stuck.into()),
        (Some(stuck), Err(failure)) => {
            words::say(failure);
            Err(stuck.into())
        }
    }
}

async fn open_and_serve(
    arguments: &Asked<'_>,
    mut settings: Settings,
    runtime: &Runtime,
    mut signals: Signals,
    opened: &mut Vec<(Served, ReportStop)>,
    ready: impl FnOnce(&ReadyInfo),
) -> Result<(), Failure> {
    let mut found = find_all(&arguments.wanted, arguments.words())?;
    found.iter_mut().for_each(|(_, volume)| volume.is_degraded_meant = arguments.degraded);
    let Some(probed) = signals.unless_ended(probe_all(&mut found, runtime)).await else {
        return Ok(()); // no volume is open yet
    };
    probed?;
    let opening = open_all(arguments, &settings, &found, runtime);
    let is_waiting = || found.iter().any(|(_, volume)| volume.is_waiting.load(Ordering::Relaxed));
    let results = signals.while_starting(opening, is_waiting).await??;
    let refused = results.iter().filter(|result| result.is_err()).count();
    let all_refused = refused == results.len();
    let (mut volumes, mut desks, mut keepers) = (Vec::new(), Vec::new(), Vec::new());
    let mut unclaimed = None;
    let controls = arguments.wanted.iter().map(|wanted| wanted.control.as_deref());
    for (((name, volume), control), result) in found.into_iter().zip(controls).zip(results) {
        match result {
            Ok(open) => {
                let OpenVolume { id, file_system, live, jobs, scrubs, orders, .. } = open;
                let (front, found, report_stop) = (open.front, open.found, open.report_stop);
                let served = Served { name: name.clone(), fsid: Fsid(id), file_system };
                opened.push((served.clone(), report_stop));
                warn_of_readable(&volume);
                front.iter().for_each(|front| front::watch(front, &volume.path, runtime));
                let claimed = claim_socket(&volume, control.or(arguments.control.as_deref()));
                // The others are open, too, and must be noted first.
                let socket = claimed.unwrap_or_else(|failure| {
                    unclaimed = Some(failure);
                    None
                });
                let (path, files) = (volume.path.clone(), served.file_system.clone());
                let keeper = Keeper::new(path, files, jobs.clone(), runtime);
                keepers.push((keeper.clone(), volume.settings.snapshots));
                desks.push(Desk {
                    volume: name.clone(),
                    socket,
                    live,
                    info: info::served(&volume, &name, found, settings.file.as_deref()),
                    nvram: front::act(front.filter(|_| orders.is_some()), jobs.clone(), runtime),
                    jobs,
                    scrub: scrubs.begin(),
                    act: orders.map_or_else(|| no_orders(&volume), Orders::act),
                    snapshots: keeper.act(),
                });
                volumes.push(served);
            }
            Err(failure) if all_refused => return Err(failure),
            // A refused volume does not delay the others.
            Err(failure) => {
                words::say(format_args!("{failure}; the others are served without it"));
                settings.refused.push(name);
            }
        }
    }
    if let Some(failure) = unclaimed {
        return Err(failure);
    }
    for (keeper, settings) in keepers.into_iter().filter(|_| !arguments.read_only) {
        keeper.go_on();
        snapshots::attend(keeper, settings);
    }
    Ok(server::serve(runtime, volumes, settings, desks, signals, ready).await?)
}

/// Claims the control socket of a volume, if it has one. A volume is served even if its folder
/// cannot have a socket.
fn claim_socket(volume: &Volume, named: Option<&Path>) -> Result<Option<Socket>, Failure> {
    let Some(own) = volume.socket() else {
        return Ok(named.map(Socket::claim).transpose()?);
    };
    match Socket::claim(&own) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) => {
            words::say(format_args!("{error}; it is served without a control socket of its own"));
            Ok(None)
        }
    }
}

/// Refuses orders for a volume on one disk, and for one that may not be changed.
fn no_orders(volume: &Volume) -> Act {
    let why = match volume.settings.raid {
        None => "the volume does not stand on a set of disks",
        Some(_) => "the volume is served read-only",
    };
    Rc::new(move |_, _| ready(Err(Refused::Conflict(why.to_owned()))).boxed_local())
}

/// Waits for those disks of the volumes that they need.
async fn probe_all(found: &mut [NamedVolume], runtime: &Runtime) -> Result<(), Failure> {
    for (_, volume) in found {
        volume.silent = silent_disks(volume, runtime).await?;
    }
    Ok(())
}

/// Opens the volumes and returns a result for each.
async fn open_all(
    arguments: &Asked<'_>,
    settings: &Settings,
    found: &[NamedVolume],
    runtime: &Runtime,
) -> Result<Vec<Result<OpenVolume, Failure>>, Failure> {
    let cache_bytes = match settings.config.cache {
        Some(bytes) => usize::try_from(bytes.0).unwrap_or(usize::MAX),
        None => memory::usual_cache(arguments.wanted.len()),
    };
    let disks = Disks::new().map_err(Failure::Start)?;
    let (book, clock) = (settings.devices.clone(), runtime.clock.clone());
    let device = move |disk: DiskFile| {
        let path = disk.path().to_owned();
        book.counted(&path, disks.device(disk), clock.clone())
    };
    let volumes: Vec<Volume> = found.iter().map(|(_, volume)| volume.clone()).collect();
    let access = if arguments.read_only { Access::ReadOnly } else { Access::ReadWrite };
    let mut results = Vec::new();
    match &common_log(&arguments.wanted)? {
        Some(log) if is_shared(log, &volumes, &device, runtime).await? => {
            results = open_together(&volumes, log, device, cache_bytes, runtime).await?;
        }
        _ => {
            for volume in &volumes {
                let opened =
                    open_with_own_log(volume, access, device.clone(), cache_bytes, runtime).await;
                match opened {
                    Ok(volume) => results.push(Ok(volume)),
                    Err(failure) => {
                        // After a refusal the other volumes are closed as they were.
                        let names = found.iter().map(|(name, _)| name);
                        let opened = names.zip(results.into_iter().flatten());
                        let opened = opened.map(|(name, open)| {
                            let (name, fsid) = (name.clone(), Fsid(open.id));
                            let volume = Served { name, fsid, file_system: open.file_system };
                            (volume, Box::new(|| ()) as ReportStop)
                        });
                        return close_all(opened.collect(), runtime, Err(failure)).await;
                    }
                }
            }
        }
    }
    Ok(results)
}

/// Ends the process when any task or thread panics: an invariant is broken, and nothing that
/// follows from it may reach a disk or a client. Promised changes are durable, and the next start
/// recovers them. Without this hook, the reactor would drop that one task and continue serving.
fn end_with_a_panic() {
    panic::set_hook(Box::new(move |panic| {
        words::say(format_args!("{panic}\n{}", Backtrace::capture()));
        words::drain();
        process::abort();
    }));
}

/// Sends log messages of the running server to standard error; `RUST_LOG` sets the level.
fn log_to_standard_error() {
    let filter =
        EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).from_env_lossy();
    words::in_background();
    let lines = tracing_subscriber::fmt().with_writer(Lines).with_env_filter(filter);
    // An error about an unwritable line would be one more such line.
    lines.log_internal_errors(false).with_ansi(io::stderr().is_terminal()).init();
}

/// Reads the configuration. The command line overrides it.
fn read_settings(arguments: &ServeArguments) -> Result<Settings, Failure> {
    let has_volumes_of_file = arguments.volumes.is_empty();
    let file = arguments.config.clone();
    let file = file.or_else(|| has_volumes_of_file.then(|| PathBuf::from(DEFAULT_FILE)));
    if arguments.config.is_none() && file.as_deref().is_some_and(|file| !file.exists()) {
        let sentence = format!("name a VOLUME, or write the configuration {DEFAULT_FILE}");
        return Err(Failure::Usage(sentence));
    }
    let mut config = match &file {
        Some(path) => Config::read(path).map_err(server::ServeError::from)?,
        None => Config::default(),
    };
    if !arguments.listen.is_empty() {
        config.listen = Listen(arguments.listen.clone());
    }
    if arguments.trace.is_some() {
        config.trace = arguments.trace.clone();
    }
    let (refused, devices) = (Vec::new(), DeviceBook::default());
    Ok(Settings { config, file, refused, has_volumes_of_file, devices })
}

/// Announces that the server is ready, who may do what with its volumes, and how to mount them. The
/// first word of the first line is `ready:`, for programs that wait for it.
fn announce(ready: &ReadyInfo) {
    let mut text = String::from("ready:");
    for share in &ready.shares {
        for address in &ready.addresses {
            text.push_str(&format!(" {address}/{}", share.volume));
        }
    }
    text.push('\n');
    let shares = ready.shares.iter().map(Share::to_string);
    for line in shares.chain(ready.mount_lines(|word| quoted(Path::new(word)))) {
        text.push_str(&line);
        text.push('\n');
    }
    let mut output = io::stdout().lock();
    // A server whose output is closed serves as well.
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::time::Duration;

    /// Environment variable that makes the test panic, and says how.
    const PANICS: &str = "DURAMEN_TEST_PANICS";
    const SIGABRT: i32 = 6;

    #[test]
    fn a_task_that_panics_ends_the_process() {
        match std::env::var(PANICS).as_deref() {
            Ok("told") => panic_in_a_task(end_with_a_panic),
            Ok(_) => panic_in_a_task(|| {}),
            Err(_) => {
                let told = again("told");
                assert_eq!(told.status.signal(), Some(SIGABRT), "{told:?}");
                let words = String::from_utf8_lossy(&told.stderr);
                assert!(words.contains("something is wrong"), "it says why: {words}");
                // The bug that this test must catch: the reactor continues without the task.
                assert!(again("untold").status.success());
            }
        }
    }

    /// Environment variable that makes the test send itself a signal.
    const SIGNALS: &str = "DURAMEN_TEST_SIGNALS";

    #[test]
    fn a_reload_before_the_configuration_is_read_does_not_end_the_process() {
        const TEST: &str = "a_reload_before_the_configuration_is_read_does_not_end_the_process";
        if std::env::var_os(SIGNALS).is_none() {
            let ended = in_a_process(TEST, SIGNALS, "yes");
            assert!(ended.status.success(), "{ended:?}");
            return;
        }
        let ended = run_with(&ServeArguments::default(), |_| {
            let process = process::id().to_string();
            let sent = Command::new("kill").args(["-HUP", &process]).status();
            assert!(sent.expect("kill is there").success());
            Err(Failure::Usage("nothing is to be served".to_owned()))
        });
        assert!(matches!(ended, Err(Failure::Usage(_))), "{ended:?}");
    }

    fn again(how: &str) -> process::Output {
        in_a_process("a_task_that_panics_ends_the_process", PANICS, how)
    }

    /// Runs a test of this file in a process of its own, with this variable.
    fn in_a_process(test: &str, variable: &str, value: &str) -> process::Output {
        let mut process = Command::new(std::env::current_exe().expect("this program"));
        process.args(["--exact", &format!("serve::tests::{test}"), "--nocapture"]);
        process.env(variable, value).output().expect("it runs")
    }

    fn panic_in_a_task(prepare: fn()) {
        prepare();
        let reactor = reactor::block_on(|runtime| async move {
            runtime.tasks.spawn(Box::pin(async { panic!("something is wrong") }));
            runtime.clock.sleep(Duration::from_millis(10)).await;
        });
        reactor.expect("a reactor");
    }
}
