//! Dates of the Gregorian calendar, in UTC.

const SECONDS_PER_DAY: i64 = 86_400;
/// Days of 400 years, after which the calendar repeats itself.
const DAYS_PER_CYCLE: i64 = 146_097;
/// Days from 1 March of year 0 to 1 January 1970.
const DAYS_TO_1970: i64 = 719_468;

/// A time as `2026-11-21 03:58:00`, from seconds since 1970 in UTC.
pub(crate) fn show_time(seconds: i64) -> String {
    let [hour, minute, second] = clock(seconds);
    format!("{} {hour:02}:{minute:02}:{second:02}", show_day(seconds))
}

/// A time as one word: `2026-11-21T03:58:00Z`.
pub(crate) fn show_stamp(seconds: i64) -> String {
    let [hour, minute, second] = clock(seconds);
    format!("{}T{hour:02}:{minute:02}:{second:02}Z", show_day(seconds))
}

/// The hour of a time as one word: `2026-11-21T03:00Z`.
pub(crate) fn show_hour(seconds: i64) -> String {
    let [hour, ..] = clock(seconds);
    format!("{}T{hour:02}:00Z", show_day(seconds))
}

/// The day of a time: `2026-11-21`.
pub(crate) fn show_day(seconds: i64) -> String {
    let (year, month, day) = date(seconds.div_euclid(SECONDS_PER_DAY));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Hour, minute and second of a time.
fn clock(seconds: i64) -> [i64; 3] {
    let second = seconds.rem_euclid(SECONDS_PER_DAY);
    [second / 3600, second / 60 % 60, second % 60]
}

/// Year, month and day of a day counted from 1970. Years here begin in March, so the leap day is
/// their last day.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(DAYS_TO_1970);
    let (cycle, day) = (days.div_euclid(DAYS_PER_CYCLE), days.rem_euclid(DAYS_PER_CYCLE));
    // One day for each leap year that has passed in the cycle: every fourth year, but not every
    // hundredth.
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Five months from March on have 153 days in all, and so do the next five.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + cycle * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days_have_their_dates() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (951_868_800, "2000-03-01 00:00:00"),
            (1_700_000_000, "2023-11-14 22:13:20"),
            (4_107_542_400, "2100-03-01 00:00:00"),
            (-2_203_891_200, "1900-03-01 00:00:00"),
        ] {
            assert_eq!(show_time(seconds), text);
            let (day, time) = text.split_once(' ').expect("both");
            assert_eq!(show_stamp(seconds), format!("{day}T{time}Z"));
            assert_eq!(show_hour(seconds), format!("{day}T{}:00Z", &time[..2]));
            assert_eq!(show_day(seconds), day);
        }
    }

    #[test]
    fn each_day_of_a_cycle_follows_the_one_before() {
        let lengths = |year: i64| {
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        };
        let mut expected = (1970, 1, 1);
        for days in 0..DAYS_PER_CYCLE {
            assert_eq!(date(days), expected);
            let (year, month, day) = expected;
            expected = match (month, day < lengths(year)[month as usize - 1]) {
                (_, true) => (year, month, day + 1),
                (12, false) => (year + 1, 1, 1),
                (_, false) => (year, month + 1, 1),
            };
        }
    }

    #[test]
    fn the_ends_of_time_do_not_panic() {
        for seconds in [i64::MIN, i64::MAX] {
            assert!(show_time(seconds).contains(':'));
        }
    }
}
