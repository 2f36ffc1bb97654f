//! The way of file data between the device and those who want it.

use std::future::Future;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use cache::data::Found;
use futures::FutureExt;
use futures::future::try_join_all;
use vfs::FsError;

use crate::data::slices;
use crate::home::Home;

impl Home {
    /// Reads bytes of the device that are data of a file, one piece after the other.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub(crate) async fn read_data(
        self: &Rc<Self>,
        range: Range<u64>,
    ) -> Result<Vec<Bytes>, FsError> {
        while self.data().is_loading(&range) {
            self.data().wait().await;
        }
        // From here on nothing is awaited until all reads have begun: nobody who has begun one
        // waits for another's.
        let unit = self.geometry().fragment_size;
        let blocks = (range.end - range.start) / self.geometry().block_size + 1;
        let mut parts = Vec::with_capacity(blocks as usize);
        let (mut missing, mut reads) = (Vec::new(), Vec::new());
        let mut at = range.start;
        while at < range.end {
            match self.data().find(at..range.end) {
                Found::Here(data) => {
                    at += data.len() as u64;
                    parts.push(data);
                }
                Found::Nothing(end) => {
                    let end = end.min(at - at % unit + block::PARTED_MOST as u64);
                    reads.push(self.load_data(at..end));
                    missing.push(parts.len());
                    at = end;
                }
            }
        }
        if missing.is_empty() {
            return Ok(parts);
        }
        // From behind, so that the places of those before stay.
        for (place, data) in missing.into_iter().zip(try_join_all(reads).await?).rev() {
            parts.splice(place..place, data);
        }
        Ok(parts)
    }

    /// Begins to read, at once, what somebody waits for.
    fn load_data(
        self: &Rc<Self>,
        range: Range<u64>,
    ) -> impl Future<Output = Result<Vec<Bytes>, FsError>> + use<> {
        let unit = self.geometry().fragment_size;
        let skip = (range.start % unit) as usize;
        let (from, to) = (range.start - skip as u64, range.end.next_multiple_of(unit));
        let loading = self.data().begin(from..to);
        let read = self.begin_read(from..to);
        let used = (range.end - from) as usize;
        async move {
            let data = read.await?;
            loading.keep(&data, used, false);
            Ok(slices(&data, skip, used - skip))
        }
    }

    /// Begins to read, at once, what somebody will want, whole fragments.
    /// It is on its way, and arrives, whether the future is dropped or not; kept it is only if that
    /// is run.
    pub(crate) fn load_ahead(
        self: &Rc<Self>,
        range: Range<u64>,
    ) -> impl Future<Output = ()> + use<> {
        let loading = self.data().begin(range.clone());
        let read = self.begin_read(range);
        async move {
            if let Ok(data) = read.await {
                loading.keep(&data, 0, true);
            }
        }
    }

    fn begin_read(
        &self,
        range: Range<u64>,
    ) -> impl Future<Output = Result<Vec<Bytes>, FsError>> + use<> {
        self.bound_data();
        let buffer = block::Buffer::unfilled((range.end - range.start) as usize);
        let delayed = self.delayed().over(&range);
        let is_all = matches!(&delayed[..], [(_, only)] if only.len() == buffer.len());
        let read = match is_all {
            true => std::future::ready(Ok(buffer)).boxed_local(),
            false => self.device().read(range.start, buffer),
        };
        async move {
            let mut buffer = read.await.map_err(|_| FsError::Io)?;
            for (at, data) in delayed {
                buffer[at..at + data.len()].copy_from_slice(&data);
            }
            Ok(buffer.freeze_in_parts())
        }
    }

    /// Keeps whole fragments of data that have just been written at a byte of the device.
    pub(crate) fn keep_written(&self, start: u64, data: &Bytes) {
        // On a damaged disk a block may lie anywhere, and be no stretch.
        if data.len() > block::PART && !start.is_multiple_of(self.geometry().block_size) {
            return;
        }
        self.bound_data();
        self.data().keep_written(start, data);
    }
}
