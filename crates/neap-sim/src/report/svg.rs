//! Plots as SVG text: grouped bars with whiskers, and curves. No script, no font, nothing from
//! outside, so that a page keeps for ever.

use std::fmt::Write;

/// Colours told apart by people who do not see red and green alike (Okabe and Ito).
const COLOURS: [&str; 7] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#888888",
];
/// Size of a plot and of its margins, in units of the drawing.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;

/// Text with the characters that mean something in XML written out.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// One group of bars: a name, and for each series value, low and high.
#[derive(Clone, Debug)]
pub struct Group {
    /// Below the bars.
    pub name: String,
    /// Value, low end and high end for each series; `None` leaves the bar out.
    pub values: Vec<Option<(f64, f64, f64)>>,
}

/// Bars in groups.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Above the plot.
    pub title: String,
    /// Names of the series, one for each bar of a group.
    pub series: Vec<String>,
    /// The groups.
    pub groups: Vec<Group>,
}

/// A line through points.
#[derive(Clone, Debug)]
pub struct Curve {
    /// In the legend.
    pub name: String,
    /// Points, ascending in x.
    pub points: Vec<(f64, f64)>,
}

/// Curves over a common axis.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Above the plot.
    pub title: String,
    /// Below the axis.
    pub x_name: String,
    /// Whether x goes by powers.
    pub log_x: bool,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// A step of 1, 2 or 5 times a power of ten that gives about five ticks up to `top`.
fn tick(top: f64) -> f64 {
    if top <= 0.0 || !top.is_finite() {
        return 1.0;
    }
    let raw = top / 5.0;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].iter().find(|&&m| m * power >= raw);
    step.unwrap_or(&10.0) * power
}

fn open(title: &str, legend: &[String]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"11\" role=\"img\">\n\
         <text x=\"{LEFT}\" y=\"14\" font-size=\"13\">{}</text>\n",
        escape(title)
    );
    let mut x = LEFT;
    for (i, name) in legend.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"22\" width=\"9\" height=\"9\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"30\">{}</text>",
            x + 13.0,
            escape(name)
        );
        x += 24.0 + 6.2 * name.chars().count() as f64;
    }
    svg
}

fn y_axis(svg: &mut String, top: f64) {
    let step = tick(top);
    let mut value = 0.0;
    while value <= top * 1.0001 {
        let y = y_of(value, top);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            super::number(value)
        );
        value += step;
    }
}

fn y_of(value: f64, top: f64) -> f64 {
    let span = HEIGHT - TOP - BOTTOM;
    HEIGHT - BOTTOM - span * (value.max(0.0) / top).min(1.0)
}

fn top_of(values: impl Iterator<Item = f64>) -> f64 {
    let most = values.filter(|v| v.is_finite()).fold(0.0, f64::max);
    if most > 0.0 { most * 1.05 } else { 1.0 }
}

impl Bars {
    /// The plot. Values below zero are drawn by their size, with the sign in the label.
    #[must_use]
    pub fn svg(&self) -> String {
        let all = || self.groups.iter().flat_map(|g| g.values.iter().flatten());
        let top = top_of(all().map(|&(v, low, high)| v.abs().max(low.abs()).max(high.abs())));
        let mut svg = open(&self.title, &self.series);
        y_axis(&mut svg, top);
        let room = (WIDTH - LEFT - RIGHT) / self.groups.len().max(1) as f64;
        let bar = room * 0.8 / self.series.len().max(1) as f64;
        for (i, group) in self.groups.iter().enumerate() {
            let start = LEFT + room * (i as f64 + 0.1);
            for (k, value) in group.values.iter().enumerate() {
                if let Some(value) = value {
                    self.bar(&mut svg, start + bar * k as f64, bar, k, *value, top);
                }
            }
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                start + room * 0.4,
                HEIGHT - BOTTOM + 16.0,
                escape(&group.name)
            );
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn bar(&self, svg: &mut String, x: f64, width: f64, k: usize, v: (f64, f64, f64), top: f64) {
        let (value, low, high) = v;
        let y = y_of(value.abs(), top);
        let colour = COLOURS[k % COLOURS.len()];
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\">\
             <title>{}: {} ({} to {})</title></rect>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"9\">{}</text>",
            width * 0.92,
            HEIGHT - BOTTOM - y,
            escape(self.series.get(k).map_or("", String::as_str)),
            super::number(value),
            super::number(low),
            super::number(high),
            x + width * 0.46,
            y - 3.0,
            super::number(value)
        );
        if low != high {
            let _ = writeln!(
                svg,
                "<line x1=\"{0:.1}\" y1=\"{1:.1}\" x2=\"{0:.1}\" y2=\"{2:.1}\" stroke=\"#333\"/>",
                x + width * 0.75,
                y_of(low.abs(), top),
                y_of(high.abs(), top)
            );
        }
    }
}

impl Plot {
    /// The plot.
    #[must_use]
    pub fn svg(&self) -> String {
        let names: Vec<String> = self.curves.iter().map(|c| c.name.clone()).collect();
        let mut svg = open(&self.title, &names);
        let points = || self.curves.iter().flat_map(|c| c.points.iter());
        let top = top_of(points().map(|p| p.1));
        y_axis(&mut svg, top);
        let place = |x: f64| if self.log_x { x.max(1e-9).log2() } else { x };
        let least = points().map(|p| place(p.0)).fold(f64::INFINITY, f64::min);
        let most = points()
            .map(|p| place(p.0))
            .fold(f64::NEG_INFINITY, f64::max);
        let span = if most > least { most - least } else { 1.0 };
        let x_of = |x: f64| LEFT + (WIDTH - LEFT - RIGHT) * (place(x) - least) / span;
        for (i, curve) in self.curves.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            let mut path = String::new();
            for &(x, y) in &curve.points {
                let _ = write!(path, "{:.1},{:.1} ", x_of(x), y_of(y, top));
            }
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                path.trim_end()
            );
        }
        let mut marks: Vec<f64> = points().map(|p| p.0).collect();
        marks.sort_by(f64::total_cmp);
        marks.dedup();
        let every = marks.len().div_ceil(12).max(1);
        for x in marks.iter().step_by(every) {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                x_of(*x),
                HEIGHT - BOTTOM + 16.0,
                super::number(*x)
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n</svg>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 8.0,
            escape(&self.x_name)
        );
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(tick(227_300.5), 50_000.0);
        assert_eq!(tick(4.25), 1.0);
        assert_eq!(tick(0.0), 1.0);
    }

    #[test]
    fn a_plot_is_closed_and_escaped() {
        let bars = Bars {
            title: "a < b & c".into(),
            series: vec!["s".into()],
            groups: vec![Group {
                name: "g".into(),
                values: vec![Some((1.0, 0.5, 2.0))],
            }],
        };
        let svg = bars.svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("a &lt; b &amp; c") && !svg.contains("NaN"));
        let empty = Plot {
            title: String::new(),
            x_name: String::new(),
            log_x: true,
            curves: Vec::new(),
        };
        assert!(!empty.svg().contains("NaN") && !empty.svg().contains("inf"));
    }
}
