//! Plays a crowd to its end, and checks it after every step.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use nfs3_types::mount::{dirpath, mountres3};
use nfs3_types::nfs3::{Nfs3Option, Nfs3Result, nfs_fh3, post_op_fh3, stable_how};
use nfs3_types::xdr_codec::Opaque;
use sim::Prng;

use super::ledger::{Client, Role};
use super::peer::{Crowd, DATA_BYTES, Files, exchange, record};
use super::schedule::{run_for, until};
use super::stage::Stage;
use super::workload::{Scene, Workload, guest};
use super::{edges, judge};
use crate::calls;
use crate::protocol::{self, Answer, Mnt, Request, Response};
use crate::world::VOLUME;

/// Time for the server to finish its work after all clients have gone.
const REST: Duration = Duration::from_secs(2);
const ROOM: usize = 256 << 10;

/// Result of a crowd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Played {
    /// Calls of quiet clients, and newcomers.
    pub(super) judged: u64,
    pub(super) connections: u64,
    /// A hash of all events.
    pub(super) digest: u64,
}

/// Plays a crowd.
///
/// # Errors
/// A violation.
pub(super) fn play(workload: &Workload) -> Result<Played, String> {
    let stage = Stage::new(workload.design, workload.seed, (workload.limits, workload.bounds))?;
    let files = stage.executor.block_on(prepare(&stage))?;
    let clock = stage.executor.runtime().clock;
    let crowd = Rc::new(Crowd { ledger: stage.ledger.clone(), clock, files });
    match workload.scene {
        Scene::Edge(edge) => edges::play(&stage, workload, &crowd, edge)?,
        _ => peers(&stage, workload, &crowd)?,
    }
    run_for(&stage, workload, REST)?;
    judge::at_end(&stage, workload)?;
    stage.stop.throw();
    until(&stage, workload, || stage.end.take())??;
    let lanes = stage.ledger.lanes();
    let newcomers = lanes.iter().filter(|lane| lane.role == Role::Newcomer).count();
    let turns = stage.ledger.turns.borrow().len();
    let (judged, connections) = ((newcomers + turns) as u64, lanes.len() as u64);
    Ok(Played { judged, connections, digest: stage.executor.digest() })
}

/// Runs all peers until the last has gone.
fn peers(stage: &Stage, workload: &Workload, crowd: &Rc<Crowd>) -> Result<(), String> {
    let left: Rc<RefCell<BTreeMap<usize, &'static str>>> = Rc::default();
    let failed: Rc<RefCell<Option<String>>> = Rc::default();
    let mut prng = Prng::new(!workload.seed);
    for (number, peer) in workload.peers.iter().cloned().enumerate() {
        left.borrow_mut().insert(number, "");
        let (crowd, left, failed) = (crowd.clone(), left.clone(), failed.clone());
        let own = prng.fork();
        let live = async move {
            if let Err(reason) = crowd.live(&peer, own).await {
                failed.borrow_mut().get_or_insert(reason);
            }
            left.borrow_mut().remove(&number);
        };
        stage.executor.runtime().tasks.spawn(live.boxed_local());
    }
    let is_over = || {
        let failed = failed.borrow_mut().take();
        failed.map(Err).or_else(|| left.borrow().is_empty().then_some(Ok(())))
    };
    until(stage, workload, is_over)
        .map_err(|reason| {
            let manner = |number: &usize| format!("{:?}", workload.peers[*number].manner);
            let left: Vec<String> = left.borrow().keys().map(manner).collect();
            if left.is_empty() {
                reason
            } else {
                format!("{reason}; not gone: {}", left.join(", "))
            }
        })
        .flatten()
}

/// Makes one call of the client that prepares the volume.
async fn ask(client: &mut Client, request: &Request) -> Result<Response, String> {
    let record = record(1, request);
    client.lane.shortest.set(client.lane.shortest.get().min(record.len()));
    let reply = exchange(client, &record).await.ok_or("hung up on while it prepares")?;
    let (_, answer) = protocol::reply(&reply).ok_or("a reply that is none")?;
    let Answer::Results(results) = &answer else { return Err(format!("{answer:?}")) };
    Response::decode(request.target(), results).ok_or_else(|| format!("no results: {answer:?}"))
}

/// Fills the volume with a few files.
async fn prepare(stage: &Stage) -> Result<Files, String> {
    let mut client = stage.ledger.connect(guest(999), Role::Other, ROOM);
    let path = Mnt(dirpath(Opaque::owned(VOLUME.as_bytes().to_vec())));
    let root = match ask(&mut client, &Request::Mnt(path)).await? {
        Response::Mnt(mountres3::Ok(mounted)) => nfs_fh3 { data: mounted.fhandle.0 },
        other => return Err(format!("no mount: {other:?}")),
    };
    let still = calls::mkdir(&root, "still");
    let still = match ask(&mut client, &Request::Mkdir(still)).await? {
        Response::Mkdir(Nfs3Result::Ok(made)) => handle(made.obj)?,
        other => return Err(format!("no directory: {other:?}")),
    };
    let mut files = Vec::new();
    for (directory, name) in [(&still, "kept"), (&root, "data"), (&root, "target")] {
        match ask(&mut client, &Request::Create(calls::create(directory, name))).await? {
            Response::Create(Nfs3Result::Ok(made)) => files.push(handle(made.obj)?),
            other => return Err(format!("no file: {other:?}")),
        }
    }
    let [_, data, target] = files.try_into().map_err(|_| "three files")?;
    let payload = vec![5; DATA_BYTES as usize];
    let write = calls::write(&data, 0, payload, stable_how::FILE_SYNC);
    match ask(&mut client, &Request::Write(write)).await? {
        Response::Write(Nfs3Result::Ok(_)) => Ok(Files { root, still, data, target }),
        other => Err(format!("no data: {other:?}")),
    }
}

fn handle(told: post_op_fh3) -> Result<nfs_fh3, String> {
    match told {
        Nfs3Option::Some(handle) => Ok(handle),
        Nfs3Option::None => Err("no handle".to_owned()),
    }
}
