//! A wall time, or a ratio of two, of which perhaps only a bound is known: what was ended for the time it
//! took would have taken longer.

use super::result::Side;

/// A figure as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// Not at all.
    None,
    /// Measured.
    Is(f64),
    /// It is above this.
    Above(f64),
    /// It is below this.
    Below(f64),
}

impl Figure {
    /// The median of wall time of a contender, in seconds.
    #[must_use]
    pub fn wall(side: &Side<'_>) -> Self {
        match (side.wall(), side.at_least()) {
            (Some(wall), _) => Figure::Is(wall),
            (None, Some(least)) => Figure::Above(least),
            (None, None) => Figure::None,
        }
    }

    /// The lesser of two wall times: who ended is faster than who was given up.
    #[must_use]
    pub fn faster(self, other: Self) -> Self {
        match (self, other) {
            (Figure::Is(a), Figure::Is(b)) => Figure::Is(a.min(b)),
            (Figure::Above(a), Figure::Above(b)) => Figure::Above(a.min(b)),
            (Figure::Is(a), _) | (_, Figure::Is(a)) => Figure::Is(a),
            (Figure::Above(a), _) | (_, Figure::Above(a)) => Figure::Above(a),
            _ => Figure::None,
        }
    }

    /// This wall time by another.
    #[must_use]
    pub fn by(self, other: Self) -> Self {
        let ratio = match (self, other) {
            (Figure::Is(a), Figure::Is(b)) => Figure::Is(a / b),
            (Figure::Above(a), Figure::Is(b)) => Figure::Above(a / b),
            (Figure::Is(a), Figure::Above(b)) => Figure::Below(a / b),
            _ => Figure::None,
        };
        match ratio {
            Figure::Is(a) | Figure::Above(a) | Figure::Below(a) if !a.is_finite() => Figure::None,
            ratio => ratio,
        }
    }

    /// What was measured: only that may stand in a mean.
    #[must_use]
    pub fn exact(self) -> Option<f64> {
        match self {
            Figure::Is(figure) => Some(figure),
            _ => None,
        }
    }

    /// Whether only a bound is known.
    #[must_use]
    pub fn is_bound(self) -> bool {
        matches!(self, Figure::Above(_) | Figure::Below(_))
    }

    /// Whether it is certainly no more than `most`.
    #[must_use]
    pub fn is_at_most(self, most: f64) -> bool {
        matches!(self, Figure::Is(figure) | Figure::Below(figure) if figure <= most)
    }

    /// As a cell of a table. A bound is rounded so that it stays one.
    #[must_use]
    pub fn cell(self, unit: &str) -> String {
        match self {
            Figure::None => "-".to_owned(),
            Figure::Is(figure) => format!("{figure:.2}{unit}"),
            Figure::Above(figure) => format!("> {:.2}{unit}", (figure * 100.0).floor() / 100.0),
            Figure::Below(figure) => format!("< {:.2}{unit}", (figure * 100.0).ceil() / 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_stays_one_and_points_the_right_way() {
        let (two, four, late) = (Figure::Is(2.0), Figure::Is(4.0), Figure::Above(60.0));
        assert_eq!(late.by(two), Figure::Above(30.0));
        assert_eq!(two.by(late), Figure::Below(2.0 / 60.0));
        assert_eq!(late.by(late), Figure::None);
        assert_eq!(two.by(Figure::Is(0.0)), Figure::None);
        assert_eq!(late.faster(four).faster(two), two);
        assert_eq!(Figure::None.faster(late), late);
        assert_eq!((two.exact(), late.exact()), (Some(2.0), None));
        assert!(late.is_bound() && !two.is_bound());
        assert!(two.by(late).is_at_most(0.1) && !late.is_at_most(60.0));
        let cells = [two, late, two.by(late), Figure::None].map(|figure| figure.cell(" s"));
        assert_eq!(Figure::Above(19.078).cell(""), "> 19.07");
        assert_eq!(cells, ["2.00 s", "> 60.00 s", "< 0.04 s", "-"]);
    }
}
