//! The parts of the contract beside the bytes, for every device.

use std::io::ErrorKind;

use block::file::{Access, DiskFile, OpenError};
use block::{Buffer, Durability, Verb};
use bytes::Bytes;
use futures::future::{join, join_all};

use crate::common::{Driven, every_device};

fn sector(value: u8) -> Vec<Bytes> {
    vec![vec![value; 512].into()]
}

fn read(driven: &Driven, offset: u64, length: usize) -> Vec<u8> {
    let buffer = driven.run(driven.device.read(offset, Buffer::zeroed(length)));
    buffer.expect("a read").to_vec()
}

#[test]
fn a_dropped_future_abandons_the_answer_and_not_the_transfer() {
    for (driven, scratch) in every_device("dropped", 1 << 20) {
        for number in 0..100 {
            drop(driven.device.write(number * 512, sector(7), Durability::Plain));
            drop(driven.device.read(number * 512, Buffer::zeroed(4096)));
        }
        driven.run(driven.device.close()).expect("a close");
        let bytes = std::fs::read(scratch.path()).expect("the file");
        assert!(bytes[..51_200].iter().all(|&byte| byte == 7), "{}", driven.name);
    }
}

#[test]
fn a_closed_device_refuses_and_its_disk_can_be_opened_again() {
    for (driven, scratch) in every_device("closed", 1 << 20) {
        let write = driven.device.write(0, sector(1), Durability::Through);
        let again = DiskFile::open(scratch.path(), Access::ReadWrite);
        assert!(matches!(again, Err(OpenError::Locked(_))), "{}", driven.name);
        let (written, closed) = driven.run(join(write, driven.device.close()));
        written.expect("it was under way before");
        closed.expect("a close");
        let refused = driven.run(driven.device.flush()).expect_err("a refusal");
        assert_eq!((refused.verb, refused.kind), (Verb::Flush, ErrorKind::NotConnected));
        DiskFile::open(scratch.path(), Access::ReadWrite).expect("the lock is gone");
        driven.run(driven.device.close()).expect("closing twice is no harm");
        assert_eq!(driven.device.geometry().size, 1 << 20);
    }
}

#[test]
fn ranges_that_are_misaligned_or_outside_are_refused() {
    for (driven, _scratch) in every_device("refused", 4096) {
        for (offset, length) in [(1, 512), (0, 100), (4096, 512), (3584, 1024)] {
            let buffer = Buffer::zeroed(length);
            let error = driven.run(driven.device.read(offset, buffer)).expect_err("a refusal");
            assert_eq!(error.kind, ErrorKind::InvalidInput, "{}", driven.name);
            let error = driven.run(driven.device.discard(offset, length as u64));
            assert_eq!(error.expect_err("a refusal").kind, ErrorKind::InvalidInput);
        }
    }
}

#[test]
fn nothing_is_read_and_written_without_complaint() {
    for (driven, _scratch) in every_device("nothing", 4096) {
        assert!(read(&driven, 4096, 0).is_empty(), "{}", driven.name);
        for data in [vec![], vec![Bytes::new(), Bytes::new()]] {
            driven.run(driven.device.write(0, data, Durability::Through)).expect("a write");
        }
        driven.run(driven.device.discard(0, 0)).expect("a discard");
        driven.run(driven.device.flush()).expect("a flush");
    }
}

#[test]
fn a_write_of_very_many_pieces_is_continued_to_its_end() {
    for (driven, _scratch) in every_device("pieces", 1 << 20) {
        let data: Vec<Bytes> = (0..2560_u32).map(|n| Bytes::from(vec![n as u8])).collect();
        driven.run(driven.device.write(512, data, Durability::Through)).expect("a write");
        let bytes = read(&driven, 512, 2560);
        let right = bytes.iter().enumerate().all(|(n, &byte)| byte == n as u8);
        assert!(right, "{}", driven.name);
    }
}

#[test]
fn a_discard_keeps_the_neighbours() {
    for (driven, _scratch) in every_device("discard", 1 << 20) {
        let data = vec![vec![5; 16_384].into()];
        driven.run(driven.device.write(0, data, Durability::Plain)).expect("a write");
        driven.run(driven.device.discard(4096, 4096)).expect("a discard");
        let bytes = read(&driven, 0, 16_384);
        let kept = bytes[..4096].iter().chain(&bytes[8192..]).all(|&byte| byte == 5);
        assert!(kept, "{}", driven.name);
    }
}

#[test]
fn a_disk_that_has_shrunk_behind_our_back_is_an_error_and_not_zeros() {
    for (driven, scratch) in every_device("shrunk", 8192) {
        let file = std::fs::OpenOptions::new().write(true).open(scratch.path()).expect("it");
        file.set_len(4096).expect("a smaller file");
        let result = driven.run(driven.device.read(0, Buffer::zeroed(8192)));
        let error = result.expect_err("there is less");
        assert_eq!((error.kind, error.length), (ErrorKind::UnexpectedEof, 8192));
    }
}

#[test]
fn thousands_of_calls_at_once_are_all_answered() {
    for (driven, _scratch) in every_device("many", 1 << 21) {
        let device = &driven.device;
        let writes: Vec<_> = (0..4096_u64)
            .map(|n| device.write(n * 512, sector(n as u8), Durability::Plain))
            .collect();
        let answers = driven.run(join_all(writes));
        assert!(answers.iter().all(Result::is_ok), "{}", driven.name);
        let reads: Vec<_> =
            (0..4096_u64).map(|n| device.read(n * 512, Buffer::zeroed(512))).collect();
        for (n, buffer) in driven.run(join_all(reads)).into_iter().enumerate() {
            assert_eq!(buffer.expect("a read")[..], [n as u8; 512], "{}", driven.name);
        }
    }
}
