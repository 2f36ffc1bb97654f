//! What each sector may show, by the times of the calls alone.
//!
//! The bytes of a write say which write it was, and which sector. A sector may show the content of
//! before, or that of any write that was issued, unless a later write is there for certain: after a
//! cut one that is durable, for a read one that was answered. A sector whose only copy was damaged
//! may return an error until then, and a discarded one any bytes. Nothing here knows an NVRAM.

use std::ops::Range;

/// Bytes of a sector.
pub(super) const SECTOR: u64 = 512;

/// The write that a sector shows: a number that no two writes of a story share. The content that
/// the volume was made with is version 0.
pub(super) type Version = u32;
/// The sector cannot be read.
pub(super) const ERROR: Version = Version::MAX;
/// Of an allowed set: any bytes.
pub(super) const ANYTHING: Version = Version::MAX - 1;
/// Of an allowed set: what a look shows may be gone after the next cut, whatever is flushed. A call
/// of a disk has failed, and the bytes are in a cache that no later flush promises.
pub(super) const STRANDED: Version = Version::MAX - 3;
/// Of a sector that is shown: bytes of no version.
pub(super) const UNKNOWN: Version = Version::MAX - 2;

/// The versions that each sector may show.
pub(super) type Allowed = Vec<Vec<Version>>;

/// The bytes of a sector in a version: one number over and over, and its place in the sector.
fn words(version: Version, sector: u64) -> impl Iterator<Item = u64> {
    let first = u64::from(version) << 32 | sector;
    (0..SECTOR / 8).map(move |place| first.wrapping_mul(2 * place + 1).wrapping_add(place))
}

/// The bytes of sectors in a version.
pub(super) fn bytes(version: Version, sectors: Range<u64>) -> Vec<u8> {
    let words = sectors.flat_map(|sector| words(version, sector));
    words.flat_map(u64::to_le_bytes).collect()
}

/// The versions of sectors, of which `first` is the first.
pub(super) fn versions_in(read: &[u8], first: u64) -> Vec<Version> {
    let sectors = (first..).zip(read.chunks_exact(SECTOR as usize));
    let version = |(sector, read): (u64, &[u8])| {
        let (read, _) = read.as_chunks::<8>();
        let version = (u64::from_le_bytes(read[0]) >> 32) as Version;
        let is_it =
            words(version, sector).zip(read).all(|(word, read)| word.to_le_bytes() == *read);
        if is_it { version } else { UNKNOWN }
    };
    sectors.map(version).collect()
}

/// What a call does to sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Writes its own version.
    Write { version: Version, is_through: bool },
    /// They may hold anything.
    Discard,
    /// All writes that were answered before it are durable.
    Flush,
    /// The memory that may alone have them is damaged.
    Damage,
    /// Nothing.
    None,
}

/// A call, and when it was issued and answered, as serial numbers of the world.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) effect: Effect,
    pub(super) sectors: Range<u64>,
    pub(super) issued: Option<u64>,
    pub(super) answered: Option<u64>,
    pub(super) is_good: bool,
}

/// What is certain of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certain {
    /// No cut takes it back.
    Durable,
    /// Every later read shows it, also in a process after a kill.
    Answered,
    /// It was answered while the battery was bad: the memory may be lost.
    Below,
}

/// The calls of a life, with their times.
#[derive(Default)]
pub(super) struct Timeline {
    /// What the start of the life might show.
    pub(super) base: Allowed,
    /// What it did show, and when that was made durable.
    pub(super) shown: Option<(u64, Allowed)>,
    pub(super) spans: Vec<Span>,
    /// The spans that concern each sector.
    of_sector: Vec<Vec<usize>>,
    /// When each write was durable.
    durable: Vec<Option<u64>>,
    /// When the battery was bad.
    bad: Vec<Range<u64>>,
}

impl Timeline {
    /// A life of these calls.
    pub(super) fn new(base: Allowed, shown: Option<(u64, Allowed)>, spans: Vec<Span>) -> Self {
        let mut of_sector = vec![Vec::new(); base.len()];
        for (number, span) in spans.iter().enumerate().filter(|(_, span)| span.issued.is_some()) {
            if !matches!(span.effect, Effect::Flush | Effect::None) {
                let sectors = span.sectors.start as usize..span.sectors.end as usize;
                of_sector[sectors].iter_mut().for_each(|of_it| of_it.push(number));
            }
        }
        let durable = spans.iter().map(|span| durable(span, &spans)).collect();
        Self { base, shown, spans, of_sector, durable, bad: Vec::new() }
    }

    /// The same with a battery that was bad then.
    pub(super) fn with_battery(self, bad: Vec<Range<u64>>) -> Self {
        Self { bad, ..self }
    }

    /// The versions that each sector may show without the memory, after a cut.
    pub(super) fn allowed_below(&self, at: u64) -> Allowed {
        let anything = vec![vec![ANYTHING, ERROR]; self.base.len()];
        let sectors = anything.iter().zip(&self.of_sector);
        sectors.map(|(base, of_it)| self.of(base, of_it, (at, at), Certain::Below)).collect()
    }

    /// What each sector may show in a look that began before one event and ended before another.
    pub(super) fn allowed(&self, began: u64, ended: u64, certain: Certain) -> Allowed {
        let base = match &self.shown {
            Some((when, shown)) if *when < began => shown,
            _ => &self.base,
        };
        let sectors = base.iter().zip(&self.of_sector);
        sectors.map(|(base, of_it)| self.of(base, of_it, (began, ended), certain)).collect()
    }

    /// The sectors of which a write was issued before an event, and is not durable then.
    pub(super) fn not_durable(&self, at: u64) -> impl Iterator<Item = bool> {
        let is_not = move |&number: &usize| {
            let span = &self.spans[number];
            let is_write = matches!(span.effect, Effect::Write { .. });
            is_write && span.issued < Some(at) && self.durable[number].is_none_or(|when| when >= at)
        };
        self.of_sector.iter().map(move |of_it| of_it.iter().any(is_not))
    }

    fn of(
        &self,
        base: &[Version],
        of_it: &[usize],
        (began, ended): (u64, u64),
        certain: Certain,
    ) -> Vec<Version> {
        let when = |number: usize| match certain {
            Certain::Durable => self.durable[number],
            Certain::Answered => self.spans[number].answered.filter(|_| self.spans[number].is_good),
            Certain::Below => {
                self.durable[number].filter(|when| self.bad.iter().any(|bad| bad.contains(when)))
            }
        };
        let is_over = |answered: Option<u64>| {
            of_it.iter().any(|&number| {
                let later = &self.spans[number];
                matches!(later.effect, Effect::Write { .. })
                    && answered.is_some_and(|answered| later.issued > Some(answered))
                    && when(number).is_some_and(|when| when < began)
            })
        };
        let mut allowed = if is_over(Some(0)) { Vec::new() } else { base.to_vec() };
        for &number in of_it {
            let span = &self.spans[number];
            if span.issued.is_none_or(|issued| issued >= ended) || is_over(span.answered) {
                continue;
            }
            match span.effect {
                Effect::Write { version, .. } => allowed.push(version),
                Effect::Discard => allowed.push(ANYTHING),
                Effect::Damage => allowed.push(ERROR),
                Effect::Flush | Effect::None => {}
            }
        }
        allowed
    }
}

fn durable(span: &Span, spans: &[Span]) -> Option<u64> {
    let Effect::Write { is_through, .. } = span.effect else { return None };
    let answered = span.answered.filter(|_| span.is_good)?;
    let covers = |flush: &&Span| {
        flush.effect == Effect::Flush && flush.is_good && flush.issued > Some(answered)
    };
    let covered = spans.iter().filter(covers).filter_map(|flush| flush.answered).min();
    if is_through { Some(answered) } else { covered }
}

/// Whether sectors show allowed versions.
///
/// # Errors
/// The first sector that does not.
pub(super) fn judge(shown: &[Version], allowed: &[Vec<Version>], first: u64) -> Result<(), String> {
    for (sector, (shown, allowed)) in (first..).zip(shown.iter().zip(allowed)) {
        let is_any = *shown != ERROR && allowed.contains(&ANYTHING);
        if !is_any && !allowed.contains(shown) {
            let allowed: Vec<String> = allowed.iter().map(|&version| word(version)).collect();
            return Err(format!(
                "sector {sector} shows {}, and may show {}",
                word(*shown),
                allowed.join(", ")
            ));
        }
    }
    Ok(())
}

fn word(version: Version) -> String {
    match version {
        ERROR => "an error".to_owned(),
        ANYTHING => "anything".to_owned(),
        UNKNOWN => "what was never written".to_owned(),
        STRANDED => "what no flush promises".to_owned(),
        version => format!("version {version}"),
    }
}

/// What a life may show from the start on, after a look at all of it that was made durable.
pub(super) fn settled(base: &Allowed, shown: &[Version]) -> Allowed {
    let settled = |(base, &shown): (&Vec<Version>, &Version)| {
        // Lost sectors stay lost, or have what they had; discarded ones stay unknown.
        let is_open = shown == ERROR || base.contains(&ANYTHING);
        if is_open { base.clone() } else { vec![shown] }
    };
    base.iter().zip(shown).map(settled).collect()
}

/// The same, but for what that may not have made durable, by what the look might show: a cut may
/// leave there what it might have left before.
pub(super) fn unless_stranded(settled: Allowed, visible: &Allowed, durable: &Allowed) -> Allowed {
    let of = |((settled, visible), durable): ((Vec<Version>, &Vec<Version>), &Vec<Version>)| {
        let is_stranded = visible.contains(&STRANDED);
        if is_stranded { [settled, durable.clone(), vec![STRANDED]].concat() } else { settled }
    };
    settled.into_iter().zip(visible).zip(durable).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(version: Version, (issued, answered): (u64, u64), is_through: bool) -> Span {
        let effect = Effect::Write { version, is_through };
        let (issued, answered) = (Some(issued), Some(answered));
        Span { effect, sectors: 0..1, issued, answered, is_good: true }
    }

    #[test]
    fn a_version_is_over_when_a_later_one_is_certain() {
        let flush = Span { effect: Effect::Flush, ..write(0, (30, 40), false) };
        let damage = Span { effect: Effect::Damage, ..write(0, (45, 45), false) };
        let spans = vec![
            write(1, (10, 20), false),
            flush,
            damage,
            write(2, (50, 60), false),
            write(3, (70, 80), true),
        ];
        let timeline = Timeline::new(vec![vec![0]], None, spans);
        let cut = |at| timeline.allowed(at, at, Certain::Durable).remove(0);
        assert_eq!([cut(15), cut(35)], [[0, 1]; 2]);
        assert_eq!(cut(44), [1]);
        assert_eq!(cut(65), [1, ERROR, 2]);
        assert_eq!(cut(75), [1, ERROR, 2, 3]);
        assert_eq!(cut(85), [3]);
        let read = timeline.allowed(65, 75, Certain::Answered).remove(0);
        assert_eq!(read, [2, 3]);
        assert!(
            judge(&[3], std::slice::from_ref(&read), 0).is_ok() && judge(&[1], &[read], 0).is_err()
        );
    }

    #[test]
    fn without_the_memory_there_is_what_was_answered_beside_a_bad_battery() {
        let spans =
            vec![write(1, (10, 20), true), write(2, (30, 40), true), write(3, (50, 60), true)];
        let timeline = Timeline::new(vec![vec![0]], None, spans).with_battery(vec![35..45, 90..91]);
        let below = |at| timeline.allowed_below(at).remove(0);
        assert_eq!(below(25), [ANYTHING, ERROR, 1]);
        assert_eq!([below(41), below(70)], [vec![2], vec![2, 3]]);
    }

    #[test]
    fn a_look_settles_what_no_failed_call_has_left() {
        let spans = vec![write(1, (10, 20), true), write(2, (30, 40), false)];
        let timeline = Timeline::new(vec![vec![0]], None, spans);
        assert!(
            [(25, false), (35, true), (50, true)]
                .iter()
                .all(|&(at, is_not)| timeline.not_durable(at).eq([is_not]))
        );
        let durable = vec![vec![1, 2]];
        let after = |visible: Vec<Version>| {
            let visible = vec![visible];
            unless_stranded(settled(&visible, &[2]), &visible, &durable)
        };
        assert_eq!(after(vec![1, 2]), [[2]]);
        assert_eq!(after(vec![1, 2, STRANDED]), [[2, 1, 2, STRANDED]]);
    }

    #[test]
    fn a_sector_says_whose_it_is() {
        let mut read = bytes(7, 3..5);
        assert_eq!(versions_in(&read, 3), [7, 7]);
        assert_eq!(versions_in(&read, 4), [UNKNOWN, UNKNOWN], "of another place");
        read[1023] ^= 1;
        assert_eq!(versions_in(&read, 3), [7, UNKNOWN]);
        assert_eq!(versions_in(&[0; 512], 0), [UNKNOWN]);
    }
}
