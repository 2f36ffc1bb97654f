//! Serves a volume after its steps, and checks it.

use std::rc::Rc;

use block::BlockDevice;
use designs::{CheckOptions, OpenEngine, OpenError, Opened};
use runtime::Runtime;
use sim::Executor;
use vfs::{FileSystem, LoggedReply};

use super::super::design::Design;
use super::super::driver::Driver;
use super::super::ram::Ram;
use super::super::recover::seed;
use super::known::{Found, Known, LONG};
use super::place::Place;
use super::repair::repair;

/// A volume in service, and its memory, which is held as long.
pub struct Served {
    /// The engine.
    pub engine: Rc<dyn OpenEngine>,
    /// The file system above it.
    pub files: Rc<dyn FileSystem>,
    /// Makes calls.
    pub driver: Driver,
    /// The remembered answers.
    pub remembered: Vec<LoggedReply>,
}

impl Served {
    /// Wraps an opened volume.
    ///
    /// # Errors
    /// When the volume has stopped.
    pub async fn new(opened: Opened) -> Result<Self, String> {
        let Opened { files, engine, .. } = opened;
        let told = files.take_remembered().open().await.map_err(|_| "it has stopped")?;
        let driver = Driver::new(files.clone());
        Ok(Self { engine, files, driver, remembered: told.into_inner() })
    }

    /// Waits for the end of an interrupted chain, before which no client can read the file, and
    /// returns its length.
    pub async fn long(&self) -> Option<u64> {
        let id = self.driver.find(LONG).await.ok()?;
        self.driver.read(id).await.ok()?;
        self.driver.attributes(id).await.ok().map(|attributes| attributes.size)
    }

    async fn found(&self) -> Result<Found, String> {
        let long = self.long().await;
        let view = self.driver.view().await;
        let (view, _) = view.map_err(|error| format!("it cannot be read: {error}"))?;
        Ok(Found { view, long, remembered: self.remembered.clone() })
    }

    /// Stops the volume.
    ///
    /// # Errors
    /// When it does not stop.
    pub async fn stop(&self) -> Result<(), String> {
        self.driver.stop().await.map_err(|error| format!("it does not stop: {error}"))
    }
}

fn rams(place: &Place) -> Vec<Rc<Ram>> {
    place.contents().0.into_iter().map(|image| Rc::new(Ram::new(image))).collect()
}

fn devices(rams: &[Rc<Ram>]) -> Vec<Rc<dyn BlockDevice>> {
    rams.iter().map(|ram| ram.clone() as _).collect()
}

/// Checks that the state is allowed and that the checker finds nothing.
///
/// # Errors
/// The violation.
pub fn look(place: &Place, known: &Known) -> Result<(), String> {
    let executor = Executor::new(!seed(place.design, &place.contents()));
    let (rams, runtime) = (rams(place), executor.runtime());
    let devices = || devices(&rams);
    executor.block_on(async {
        if place.is_clean() {
            is_well(place.design, &devices()[0], &runtime)
                .await
                .map_err(|reason| format!("clean, {reason}"))?;
        }
        let mut opened = place.design.open(devices(), runtime.clone()).await;
        if matches!(opened, Err(OpenError::UnfinishedCheck(_))) {
            // The open asks for another repair, which is done.
            repair(place.design, &devices(), &runtime).await?;
            opened = place.design.open(devices(), runtime.clone()).await;
        }
        let opened = opened.map_err(|error| format!("it does not come back: {error}"))?;
        let served = Served::new(opened).await?;
        known.fits(&served.found().await?)?;
        served.stop().await?;
        is_well(place.design, &devices()[0], &runtime)
            .await
            .map_err(|reason| format!("stopped, {reason}"))?;
        let opened = place.design.open(devices(), runtime.clone()).await;
        let opened = opened.map_err(|error| format!("it does not open when stopped: {error}"))?;
        let served = Served::new(opened).await?;
        let found = served.found().await?;
        known.fits(&found).map_err(|reason| format!("after a clean stop {reason}"))?;
        served.stop().await
    })
}

/// Checks that the checker finds nothing.
async fn is_well(
    design: Design,
    device: &Rc<dyn BlockDevice>,
    runtime: &Runtime,
) -> Result<(), String> {
    let report = design.check(device, runtime, &CheckOptions::default()).await;
    let report = report.map_err(|error| format!("it cannot be checked: {error}"))?;
    match report.findings.list.first() {
        None => Ok(()),
        Some(finding) => Err(format!("it is not well: {finding}")),
    }
}

/// The same place after a repair.
///
/// # Errors
/// When the repair fails.
pub fn repaired(place: &Place) -> Result<Place, String> {
    let executor = Executor::new(!seed(place.design, &place.contents()));
    let rams = rams(place);
    executor.block_on(repair(place.design, &devices(&rams), &executor.runtime()))?;
    let images = super::super::disks::Images(rams.iter().map(|ram| ram.image()).collect());
    Ok(Place { beside: place.beside.clone(), ..Place::new(place.design, &images) })
}
