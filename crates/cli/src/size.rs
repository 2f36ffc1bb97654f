//! Sizes for people.

/// Units, each 1024 times the previous one.
const UNITS: [char; 5] = ['K', 'M', 'G', 'T', 'P'];

/// Parses a number of bytes: `4096`, `512M`, `1.5G`, `2TiB`. Units are powers of 1024.
///
/// # Errors
/// A sentence about the error, for clap to print behind the option.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || "write a size like 4096, 512M, 1.5G or 2TiB (units of 1024)".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let number: u64 = whole.parse().map_err(|_| wrong())?;
    let unit = unit.trim_start().to_ascii_uppercase();
    let unit = unit.strip_suffix("IB").or_else(|| unit.strip_suffix('B')).unwrap_or(&unit);
    let power = match unit.chars().collect::<Vec<_>>()[..] {
        [] => 0,
        [letter] => 1 + UNITS.iter().position(|&unit| unit == letter).ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    let factor = 1024_u64.pow(power as u32);
    let part = part_of(factor, decimals).ok_or_else(wrong)?;
    let bytes = number.checked_mul(factor).and_then(|bytes| bytes.checked_add(part));
    bytes.ok_or_else(|| "no disk is as large as that".to_owned())
}

/// Bytes of a decimal fraction of a unit, rounded down; `None` for a fraction of a byte.
fn part_of(unit: u64, decimals: &str) -> Option<u64> {
    let places = u32::try_from(decimals.len()).ok().filter(|places| (1..=9).contains(places))?;
    let part: u64 = decimals.parse().ok()?;
    if unit == 1 && part > 0 {
        return None;
    }
    u64::try_from(u128::from(part) * u128::from(unit) / u128::from(10_u64.pow(places))).ok()
}

/// Formats a number of bytes in the largest unit that leaves at least one digit before the point:
/// `1.5 GiB`.
pub(crate) fn show_size(bytes: u64) -> String {
    let power = (bytes.max(1).ilog2() / 10).min(UNITS.len() as u32);
    if power == 0 {
        return format!("{bytes} bytes");
    }
    let unit = UNITS[power as usize - 1];
    let scaled = bytes as f64 / 1024_f64.powi(power as i32);
    if scaled.fract() == 0.0 {
        format!("{scaled} {unit}iB")
    } else {
        format!("{scaled:.1} {unit}iB")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written_by_hand() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4k", 4096),
            ("512M", 512 << 20),
            ("1G", 1 << 30),
            ("1 GiB", 1 << 30),
            ("2tb", 2 << 40),
            ("1.5G", 3 << 29),
            ("0.25 MiB", 1 << 18),
            ("2TiB", 2 << 40),
            ("1.000000001K", 1024),
            ("4096.0", 4096),
            ("1P", 1 << 50),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn nonsense_is_no_size() {
        for text in [
            "",
            "G",
            "-1",
            "1.5",
            "1.G",
            ".5G",
            "1.5.5G",
            "1X",
            "1GG",
            "99999999999P",
            "1 0",
            "1.0000000001G",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_with_a_fitting_unit() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1536 << 20, "1.5 GiB"),
            (1 << 40, "1 TiB"),
        ] {
            assert_eq!(show_size(bytes), text);
        }
    }
}
