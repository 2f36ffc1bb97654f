//! A bit flips at rest, anywhere on a volume of a design with checksums of everything: a client
//! sees the same bytes, or an error.

use std::collections::BTreeMap;
use std::rc::Rc;

use block::BlockDevice;
use designs::CheckOptions;
use nfs3_types::nfs3::{Nfs3Result, nfs_fh3};
use sim::{Executor, Image, PAGE_SIZE, Prng};
use vfs::FileSystem;

use super::base;
use super::design::Design;
use super::disks::Images;
use super::model::{Model, What};
use super::ram::Ram;
use super::server::{Server, handle};
use crate::calls;

/// Bit flips in each page.
const FLIPS: usize = 3;

/// Number of flips with no effect, with a volume that could not be opened, and with something
/// unreadable.
#[derive(Debug, Default)]
struct Counts {
    same: usize,
    unopened: usize,
    unread: usize,
}

/// All names of a volume with their contents, or an error for each.
async fn all(server: &Server, names: &Model) -> Result<BTreeMap<String, Option<What>>, String> {
    let mut handles = BTreeMap::from([(String::new(), handle(server.witness.root()))]);
    let mut found = BTreeMap::new();
    for (path, seen) in names.view() {
        let (above, last) = path.rsplit_once('/').unwrap_or(("", &path));
        let Some(directory) = handles.get(above) else {
            found.insert(path, None);
            continue;
        };
        let file = match server.ask(&calls::lookup(directory, last)).await? {
            Nfs3Result::Ok(ok) => ok.object,
            Nfs3Result::Err((_, _)) => {
                found.insert(path, None);
                continue;
            }
        };
        let what = look(server, &file, &seen.what).await?;
        handles.insert(path.clone(), file);
        found.insert(path, what);
    }
    Ok(found)
}

/// The contents of a file, if they can be read.
async fn look(server: &Server, file: &nfs_fh3, what: &What) -> Result<Option<What>, String> {
    let attributes = match server.ask(&calls::getattr(file)).await? {
        Nfs3Result::Ok(ok) => ok.obj_attributes,
        Nfs3Result::Err((_, _)) => return Ok(None),
    };
    if *what == What::Directory {
        return Ok(Some(What::Directory));
    }
    let read = calls::read(file, 0, attributes.size as u32);
    Ok(match server.ask(&read).await? {
        Nfs3Result::Ok(ok) => Some(What::Regular(Rc::new(ok.data.to_vec()))),
        Nfs3Result::Err((_, _)) => None,
    })
}

/// Reads a volume and checks it.
fn judge(design: Design, image: Image, counts: &mut Counts) -> Result<(), String> {
    let (images, model) = (Images(vec![image]), Model::before(design));
    let executor = Executor::new(1);
    let disks = |images: &Images| {
        Ram::all(images).into_iter().map(|ram| ram as Rc<dyn BlockDevice>).collect::<Vec<_>>()
    };
    let runtime = executor.runtime();
    let report = executor.block_on(async {
        let options = CheckOptions { full: true, ..CheckOptions::default() };
        design.check(&disks(&images)[0], &runtime, &options).await
    });
    let is_silent = report.is_ok_and(|report| report.findings.list.is_empty());
    let Ok(opened) = executor.block_on(design.open(disks(&images), executor.runtime())) else {
        counts.unopened += 1;
        return if is_silent { Err("the check is silent".to_owned()) } else { Ok(()) };
    };
    let server = Server::new(executor.runtime(), opened.files);
    let found = executor.block_on(all(&server, &model))?;
    let expected = model.view();
    let mut is_same = true;
    for (path, what) in found {
        match what {
            None => is_same = false,
            Some(what) if what == expected[&path].what => {}
            Some(_) => return Err(format!("{path} has other bytes")),
        }
    }
    counts.same += usize::from(is_same);
    counts.unread += usize::from(!is_same);
    if !is_same && is_silent { Err("the check is silent".to_owned()) } else { Ok(()) }
}

#[test]
fn a_bit_that_flips_at_rest_leaves_the_same_bytes_or_an_error() {
    let mut all_unopened = 0;
    for design in Design::all().filter(|design| design.is_summed()) {
        let (images, _) = base(design);
        let whole = images.volume();
        let (mut counts, mut prng) = (Counts::default(), Prng::new(7));
        for page in 0..whole.size() / PAGE_SIZE as u64 {
            for _ in 0..FLIPS {
                let at = page * PAGE_SIZE as u64 + prng.below(PAGE_SIZE as u64);
                let (mut image, mut byte) = (whole.clone(), [0]);
                image.read(at, &mut byte);
                image.write(at, &[byte[0] ^ 1 << prng.below(8)]);
                let judged = judge(design, image, &mut counts);
                assert_eq!(judged, Ok(()), "{design:?}, byte {at}, {counts:?}");
            }
        }
        let Counts { same, unopened, unread } = counts;
        assert!(same > 100 && unread > 10, "{design:?}: {counts:?}");
        all_unopened += unopened;
    }
    // A design with two copies of its root opens with any one bit that has flipped.
    assert!(all_unopened > 0, "some flips end a volume of some design");
}
