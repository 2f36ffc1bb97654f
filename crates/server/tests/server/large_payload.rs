//! Data up to the largest transfer, with unaligned lengths and offsets.

use nfs3_types::nfs3::{
    CREATE3args, NFS_PROGRAM, READ3args, WRITE3args, WRITE3res, createhow3, nfs_fh3, sattr3,
    stable_how,
};
use nfs3_types::xdr_codec::Opaque;

use crate::fixture::{Client, Fixture, at, call, fragments, record, with_default};

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index / 251 + index) as u8).collect()
}

fn write<'a>(file: &nfs_fh3, offset: u64, data: &'a [u8]) -> WRITE3args<'a> {
    WRITE3args {
        file: file.clone(),
        offset,
        count: data.len() as u32,
        stable: stable_how::FILE_SYNC,
        data: Opaque::borrowed(data),
    }
}

/// Creates a file of `size` bytes.
pub(crate) async fn make(client: &mut Client, root: &nfs_fh3, size: usize) -> nfs_fh3 {
    let how = createhow3::UNCHECKED(sattr3::default());
    let made = client.create(&CREATE3args { where_: at(root, "large"), how }).await;
    let file = made.expect("a reply").unwrap().obj.unwrap();
    if size > 0 {
        let written = client.write(&write(&file, 0, &pattern(size))).await;
        assert_eq!(written.expect("a reply").unwrap().count as usize, size);
    }
    file
}

#[test]
fn what_is_written_is_read_back() {
    with_default(async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        let file = make(&mut client, &root, 0).await;
        for (length, offset) in
            [(1, 0), (511, 3), (32_767, 1), (32_769, 5), (65_536, 8), (1_000_001, 77), (1 << 20, 0)]
        {
            let data = pattern(length);
            let written = client.write(&write(&file, offset, &data)).await;
            assert_eq!(written.expect("a reply").unwrap().count as usize, length);
            let args = READ3args { file: file.clone(), offset, count: length as u32 };
            let read = client.read(&args).await.expect("a reply").unwrap();
            assert!(*read.data == *data, "{length} bytes at {offset}");
        }
    });
}

#[test]
fn large_data_in_fragments_arrives_whole() {
    with_default(async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        let file = make(&mut client, &root, 0).await;
        let mut raw = fixture.raw().await;
        let data = pattern(300_003);
        let write = call(4, NFS_PROGRAM::NFSPROC3_WRITE, &write(&file, 0, &data));
        raw.send(&fragments(&write, 9_999)).await;
        raw.results::<WRITE3res>(4).await.unwrap();
        let args = READ3args { file, offset: 0, count: 1 << 20 };
        let read = client.read(&args).await.expect("a reply").unwrap();
        assert!(*read.data == *data);
    });
}

#[test]
fn large_data_tells_calls_of_the_same_number_apart() {
    with_default(async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        let file = make(&mut client, &root, 0).await;
        let before = fixture.data.executed();
        let mut data = pattern(100_000);
        for last in [1, 1, 2] {
            data[99_999] = last;
            let mut raw = fixture.raw().await;
            raw.send(&record(4, NFS_PROGRAM::NFSPROC3_WRITE, &write(&file, 0, &data))).await;
            raw.results::<WRITE3res>(4).await.unwrap();
        }
        assert_eq!(fixture.data.executed(), before + 2);
    });
}

#[test]
fn a_record_over_the_limit_costs_the_connection_and_nothing_else() {
    with_default(async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        let mut raw = fixture.raw().await;
        raw.send(&(1u32 << 31 | 2 << 20).to_be_bytes()).await;
        assert!(raw.reply().await.is_none());
        make(&mut client, &root, 100).await;
    });
}

#[test]
fn a_write_whose_count_is_not_its_length_is_refused() {
    with_default(async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        let file = make(&mut client, &root, 0).await;
        for count in [0, 4, 6] {
            let args = WRITE3args { count, ..write(&file, 0, b"12345") };
            let result = client.write(&args).await.expect("a reply");
            let expected = nfs3_types::nfs3::nfsstat3::NFS3ERR_INVAL;
            let nfs3_types::nfs3::Nfs3Result::Err((status, _)) = result else { panic!("{count}") };
            assert_eq!(status, expected);
        }
    });
}
