//! Disks as text, for tests that keep them: `home 1000` begins a disk of 0x1000 bytes, and a line
//! follows for each stretch of bytes, zeros left out. `800 00ff` are two bytes at offset 0x800, and
//! `800 1000*a5` are 0x1000 equal ones.

use std::fmt::Write;

use crate::Image;

/// Number of equal bytes from which on they are a stretch of their own.
const RUN: usize = 32;

/// Writes disks with their names, which have a letter beyond *f*.
pub fn write<'a>(disks: impl IntoIterator<Item = (&'a str, &'a Image)>) -> String {
    let mut text = String::new();
    for (name, image) in disks {
        assert!(u64::from_str_radix(name, 16).is_err(), "{name} could be an offset");
        writeln!(text, "{name} {:x}", image.size()).expect("text grows");
        let bytes = image.bytes();
        let mut at = 0;
        while at < bytes.len() {
            let run = equal(&bytes[at..]);
            if run < RUN {
                let rest = &bytes[at..];
                let end = (1..rest.len()).find(|&end| equal(&rest[end..]) >= RUN);
                let stretch = &rest[..end.unwrap_or(rest.len())];
                let hex: String = stretch.iter().map(|byte| format!("{byte:02x}")).collect();
                writeln!(text, "{at:x} {hex}").expect("text grows");
                at += stretch.len();
            } else {
                if bytes[at] != 0 {
                    writeln!(text, "{at:x} {run:x}*{:02x}", bytes[at]).expect("text grows");
                }
                at += run;
            }
        }
    }
    text
}

fn equal(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|&&byte| byte == bytes[0]).count()
}

fn number(text: &str) -> u64 {
    u64::from_str_radix(text, 16).expect("a number in hexadecimal")
}

/// Reads disks, in their order.
///
/// # Panics
/// The text is none that [`write`] made.
pub fn read(text: &str) -> Vec<Image> {
    let mut images: Vec<Image> = Vec::new();
    for line in text.lines() {
        let (place, what) = line.split_once(' ').expect("two words to a line");
        let Ok(place) = u64::from_str_radix(place, 16) else {
            images.push(Image::zeroed(number(what)));
            continue;
        };
        let bytes = match what.split_once('*') {
            Some((count, byte)) => vec![number(byte) as u8; number(count) as usize],
            None => {
                let pairs = (0..what.len()).step_by(2).map(|at| &what[at..at + 2]);
                pairs.map(|pair| number(pair) as u8).collect()
            }
        };
        images.last_mut().expect("a disk was named").write(place, &bytes);
    }
    images
}
