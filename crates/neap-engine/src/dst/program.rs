//! What a program does next, from its mappings and a number.

use std::cell::Cell;
use std::ops::Range;

use neap_imagined::{Act, Chance, Machine, PAGE, Prot, SpaceNr};

use super::plan::Plan;

/// Where programs have their memory: so many pages.
pub(super) const BASE: u64 = 0x10_0000_0000;
pub(super) const PAGES: u64 = 128;

struct Place<'a> {
    chance: &'a mut Chance,
    mappings: Vec<Range<u64>>,
}

impl Place<'_> {
    /// Some pages from `BASE` on, mapped or not.
    fn anywhere(&mut self, most: u64) -> Range<u64> {
        let len = 1 + self.chance.below(most);
        let at = self.chance.below(PAGES - len + 1);
        BASE + at * PAGE..BASE + (at + len) * PAGE
    }

    fn mapping(&mut self) -> Option<Range<u64>> {
        let some = self.mappings.len() as u64;
        (some > 0).then(|| self.mappings[self.chance.below(some) as usize].clone())
    }

    /// Some pages of one mapping; often all of them.
    fn part(&mut self) -> Option<Range<u64>> {
        let whole = self.mapping()?;
        let pages = (whole.end - whole.start) / PAGE;
        if self.chance.happens(300) {
            return Some(whole);
        }
        let from = self.chance.below(pages);
        let len = 1 + self.chance.below(pages - from);
        let start = whole.start + from * PAGE;
        Some(start..start + len * PAGE)
    }

    fn page(&mut self) -> Option<u64> {
        let whole = self.mapping()?;
        let pages = (whole.end - whole.start) / PAGE;
        // A few pages are touched often.
        let most = if self.chance.happens(500) {
            pages.min(8)
        } else {
            pages
        };
        Some(whole.start + self.chance.below(most) * PAGE)
    }
}

/// The next act. `None`: it does nothing for now.
pub(super) fn next(
    machine: &Machine,
    space: SpaceNr,
    plan: &Plan,
    walk: &Cell<u64>,
    chance: &mut Chance,
) -> Option<Act> {
    let its_own = BASE..BASE + PAGES * PAGE;
    let mappings = machine.mappings(space).into_iter();
    let mappings = mappings.map(|(range, _)| range);
    let mut place = Place {
        mappings: mappings
            .filter(|range| its_own.contains(&range.start))
            .collect(),
        chance,
    };
    if place.mappings.is_empty() {
        return Some(Act::Map(place.anywhere(plan.most), Prot::RW));
    }
    match place.chance.below(100) {
        0..30 => {
            // It goes on where it read last, or elsewhere.
            let next = walk.get() + PAGE;
            let goes_on = place.chance.happens(plan.walks);
            let there = place.mappings.iter().any(|range| range.contains(&next));
            let page = if goes_on && there {
                next
            } else {
                place.page()?
            };
            walk.set(page);
            Some(Act::Read(page))
        }
        30..58 => {
            let page = place.page()?;
            let (word, value) = (place.chance.below(512), place.chance.draw());
            Some(Act::Write(page, word as usize, value))
        }
        58..62 => Some(Act::Noise(place.page()?, place.chance.draw())),
        62..64 if plan.forks => Some(Act::Fork),
        64..72 if plan.discards => {
            let range = place.part()?;
            Some(match place.chance.happens(600) {
                true => Act::Discard(range),
                false => Act::Free(range),
            })
        }
        72..92 if plan.changes => change(&mut place),
        92.. if plan.attributes => attribute(&mut place, plan),
        _ => Some(Act::Read(place.page()?)),
    }
}

fn change(place: &mut Place<'_>) -> Option<Act> {
    match place.chance.below(10) {
        0..3 => Some(Act::Map(place.anywhere(24), Prot::RW)),
        3..5 => Some(Act::Unmap(place.part()?)),
        5 => {
            let from = place.mapping()?;
            let len = (1 + place.chance.below(32)) * PAGE;
            let most = BASE + PAGES * PAGE - from.start;
            Some(Act::Resize {
                len: len.min(most),
                from,
            })
        }
        _ => {
            let from = place.part()?;
            let old = from.end - from.start;
            let len = match place.chance.below(4) {
                0 => (1 + place.chance.below(32)) * PAGE,
                _ => old,
            };
            let room = PAGES - len.min(PAGES * PAGE) / PAGE + 1;
            Some(Act::Move {
                to: BASE + place.chance.below(room) * PAGE,
                len,
                stays: len == old && place.chance.happens(200),
                from,
            })
        }
    }
}

fn attribute(place: &mut Place<'_>, plan: &Plan) -> Option<Act> {
    let range = place.part()?;
    Some(match place.chance.below(8) {
        0 => Act::Protect(range, Prot::R),
        1 => Act::Protect(range, Prot::NONE),
        2..5 => Act::Protect(range, Prot::RW),
        5 => Act::Lock(range, place.chance.happens(400)),
        // Where a fork and a move took no turns, it does not tell which came first of what it is not to have.
        6 => Act::Lock(range, false),
        _ if plan.races => Act::Lock(range, false),
        _ => Act::Keep(range),
    })
}
