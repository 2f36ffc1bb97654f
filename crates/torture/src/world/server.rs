//! The server as the program builds it, in tasks of its machine.

use std::rc::{Rc, Weak};

use block::BlockDevice;
use designs::OpenError;
use dispatch::Dispatcher;
use namespace::Namespace;
use runtime::Runtime;
use sim::{Disk, Host, Machine};
use vfs::{FileSystem, FsError};

use super::connection::answer;
use super::{Running, SERVER, State, Watched, WorldOptions};
use crate::volume::volumes;

/// The parts of a server.
pub(super) struct Plan {
    pub(super) machine: Rc<Machine>,
    pub(super) runtime: Runtime,
    /// The disks of the volume, followed by that of its log, if it has one.
    pub(super) disks: Vec<Rc<Disk>>,
    pub(super) ram: Option<Rc<ram::Disk>>,
    pub(super) host: Host,
    pub(super) options: WorldOptions,
    pub(super) state: Weak<Watched>,
}

/// Opens the volume and serves it, until a power cut.
pub(super) async fn serve(plan: Plan) {
    let Plan { machine, runtime, disks, ram, host, options, state } = plan;
    for disk in &disks {
        disk.reopen(&machine).await;
    }
    let opened = match ram.zip(options.ram.clone()) {
        Some((ram, options)) => match ram::open(ram, runtime.clone(), options).await {
            Ok(files) => Ok(Rc::new(Namespace::new(files)) as Rc<dyn FileSystem>),
            Err(error) => Err(OpenError::new(error)),
        },
        None => {
            let disks = disks.into_iter().map(|disk| disk as Rc<dyn BlockDevice>).collect();
            let opened = options.design.open_by(disks, runtime.clone(), &options.open).await;
            opened.map(|opened| opened.files)
        }
    };
    let tell = |now| {
        if let Some(state) = state.upgrade() {
            state.set(now);
        }
    };
    let file_system = match opened {
        Ok(file_system) => file_system,
        Err(error) => return tell(State::Failed(Rc::new(error))),
    };
    let volumes = volumes(file_system.clone());
    let WorldOptions { exports, window, limits, connection_calls, .. } = options;
    let dispatcher = Dispatcher::new(runtime.clone(), volumes, exports, window, limits);
    if dispatcher.restore().await.is_err() {
        // The disk was lost in the meantime.
        return tell(State::Failed(Rc::new(OpenError::new(FsError::Io))));
    }
    let listener = host.listen(SERVER.port()).expect("a machine that has just started");
    tell(State::Serving(Running { dispatcher: dispatcher.clone(), file_system }));
    answer(listener, dispatcher, runtime.tasks, connection_calls, None).await;
}
