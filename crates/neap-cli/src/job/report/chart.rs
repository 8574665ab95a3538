//! A chart over time: areas that lie on each other, lines, and behind them the same as a table.

use std::fmt::Write as _;

use super::markup::Markup;
use super::scale::{Marks, Unit, number, time, time_step};

/// Size of the drawing, and what of it is around the field.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const ABOVE: f64 = 24.0;
const BELOW: f64 = 26.0;
/// Marks of the axes, about.
const MARKS: usize = 5;
const TIME_MARKS: usize = 8;
/// Strips that show the values under the pointer, at most.
const STRIPS: usize = 128;
/// Colours and dashes that the style sheet has.
const LOOKS: usize = 8;

/// One figure at all times.
pub struct Line {
    /// What it is.
    pub name: String,
    /// As many as there are times.
    pub values: Vec<f64>,
}

/// Figures that have one unit.
pub struct Chart {
    /// What they are.
    pub title: &'static str,
    /// How to read them.
    pub about: &'static str,
    /// What they count.
    pub unit: Unit,
    /// In seconds, in order.
    pub times: Vec<f64>,
    /// The first is the lowest.
    pub areas: Vec<Line>,
    /// Above all areas.
    pub lines: Vec<Line>,
    /// Each value is that of the time since the one before.
    pub steps: bool,
}

/// From values to places in the drawing.
struct Field {
    end: f64,
    top: f64,
}

impl Field {
    fn x(&self, time: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (time / self.end).clamp(0.0, 1.0)
    }

    fn y(&self, value: f64) -> f64 {
        let floor = HEIGHT - BELOW;
        floor - (floor - ABOVE) * (value / self.top).clamp(0.0, 1.0)
    }
}

/// A class of the style sheet.
fn look(kind: &str, at: usize) -> String {
    format!("{kind} {kind}{}", at % LOOKS)
}

fn place(place: f64) -> String {
    format!("{place:.1}")
}

impl Chart {
    /// All figures, areas first.
    fn figures(&self) -> impl Iterator<Item = &Line> {
        self.areas.iter().chain(&self.lines)
    }

    /// The highest that is drawn.
    fn most(&self) -> f64 {
        let sums =
            (0..self.times.len()).map(|at| self.areas.iter().map(|area| area.values[at]).sum());
        let lines = self
            .lines
            .iter()
            .flat_map(|line| line.values.iter().copied());
        sums.chain(lines).fold(0.0, f64::max)
    }

    /// Whether there is nothing but zeros.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.most() <= 0.0
    }

    /// Writes it as a part of a page; `id` is its own there.
    pub fn write(&self, page: &mut Markup, id: &str) {
        page.with("section", &[("aria-labelledby", id)], |page| {
            page.line("h2", &[("id", id)], self.title);
            page.line("p", &[], self.about);
            if self.is_empty() {
                page.line("p", &[("class", "none")], "All values are 0.");
                return;
            }
            if self.times.len() < 2 {
                page.line("p", &[("class", "none")], "One sample is too few to draw.");
            } else {
                page.with("figure", &[], |page| self.draw(page, id));
            }
            self.tabulate(page);
        });
        page.end_line();
    }

    fn draw(&self, page: &mut Markup, id: &str) {
        let (unit, one) = self.unit.of(self.most());
        let marks = Marks::up_to(self.most() / one, MARKS);
        let field = Field {
            end: self.times.last().copied().unwrap_or(0.0).max(1e-3),
            top: marks.top() * one,
        };
        let (title, desc) = (format!("{id}-title"), format!("{id}-desc"));
        let size = format!("0 0 {WIDTH} {HEIGHT}");
        let names = format!("{title} {desc}");
        let attributes = [
            ("xmlns", "http://www.w3.org/2000/svg"),
            ("viewBox", size.as_str()),
            ("role", "img"),
            ("aria-labelledby", names.as_str()),
        ];
        page.with("svg", &attributes, |page| {
            page.line(
                "title",
                &[("id", &title)],
                &format!("{} in {unit} over time", self.title),
            );
            page.line("desc", &[("id", &desc)], &self.description());
            draw_axes(page, &field, marks, (unit, one));
            self.draw_areas(page, &field);
            for (at, line) in self.lines.iter().enumerate() {
                let class = look("line", at);
                let path = self.path(&field, &line.values);
                page.empty("path", &[("class", &class), ("d", &path)]);
            }
            self.draw_strips(page, &field, (unit, one));
        });
        page.end_line();
        page.with("figcaption", &[], |page| self.write_legend(page));
    }

    fn draw_areas(&self, page: &mut Markup, field: &Field) {
        let mut floor = vec![0.0; self.times.len()];
        for (at, area) in self.areas.iter().enumerate() {
            let above = floor
                .iter()
                .zip(&area.values)
                .map(|(floor, value)| floor + value);
            let above: Vec<f64> = above.collect();
            let mut path = String::new();
            let there = self.times.iter().zip(&above);
            let back = self.times.iter().zip(&floor).rev();
            for (nr, (time, value)) in there.chain(back).enumerate() {
                let letter = if nr == 0 { 'M' } else { 'L' };
                // Writing to a string cannot fail.
                let _ = write!(path, "{letter}{:.1} {:.1}", field.x(*time), field.y(*value));
            }
            path.push('Z');
            page.empty("path", &[("class", &look("area", at)), ("d", &path)]);
            floor = above;
        }
    }

    fn path(&self, field: &Field, values: &[f64]) -> String {
        let mut path = String::new();
        for (nr, (time, value)) in self.times.iter().zip(values).enumerate() {
            let (x, y) = (field.x(*time), field.y(*value));
            let _ = match (nr, self.steps) {
                (0, _) => write!(path, "M{x:.1} {y:.1}"),
                (_, true) => write!(path, "V{y:.1}H{x:.1}"),
                (_, false) => write!(path, "L{x:.1} {y:.1}"),
            };
        }
        path
    }

    /// Strips that show nothing but what the pointer is over.
    fn draw_strips(&self, page: &mut Markup, field: &Field, unit: (&str, f64)) {
        let each = self.times.len().div_ceil(STRIPS);
        let (top, height) = (place(ABOVE), place(HEIGHT - ABOVE - BELOW));
        page.with(
            "g",
            &[("class", "strips"), ("aria-hidden", "true")],
            |page| {
                let mut from = LEFT;
                for group in (0..self.times.len()).collect::<Vec<_>>().chunks(each) {
                    let at = group[group.len() - 1];
                    let to = match self.times.get(at + 1) {
                        Some(next) if !self.steps => field.x(f64::midpoint(self.times[at], *next)),
                        _ => field.x(self.times[at]),
                    };
                    let (x, width) = (place(from), place((to - from).max(0.0)));
                    let attributes = [
                        ("x", x.as_str()),
                        ("y", &top),
                        ("width", &width),
                        ("height", &height),
                    ];
                    page.with("rect", &attributes, |page| {
                        page.line("title", &[], &self.values_at(at, unit));
                    });
                    from = to;
                }
            },
        );
    }

    fn values_at(&self, at: usize, (unit, one): (&str, f64)) -> String {
        let mut text = time(self.times[at]);
        for line in self.figures() {
            let _ = write!(
                text,
                "\n{}: {} {unit}",
                line.name,
                number(line.values[at] / one)
            );
        }
        text
    }

    /// In words: what a reader who sees nothing is to know.
    fn description(&self) -> String {
        let (unit, one) = self.unit.of(self.most());
        let until = time(self.times.last().copied().unwrap_or(0.0));
        let mut text = format!("From the beginning to {until}.");
        for line in self.figures() {
            let (most, last) = (number(most_of(line) / one), number(last_of(line) / one));
            let _ = write!(
                text,
                " {}: at most {most} {unit}, at the end {last}.",
                line.name
            );
        }
        text
    }

    fn write_legend(&self, page: &mut Markup) {
        let (unit, one) = self.unit.of(self.most());
        let areas = self
            .areas
            .iter()
            .enumerate()
            .map(|(at, line)| ("area", at, line));
        let lines = self
            .lines
            .iter()
            .enumerate()
            .map(|(at, line)| ("line", at, line));
        page.with("ul", &[("class", "legend")], |page| {
            for (kind, at, line) in areas.chain(lines) {
                page.with("li", &[], |page| {
                    draw_swatch(page, kind, at);
                    page.line("bdi", &[], &line.name);
                    let most = number(most_of(line) / one);
                    page.text(&format!(" (at most {most} {unit})"));
                });
            }
        });
    }

    fn tabulate(&self, page: &mut Markup) {
        let (unit, one) = self.unit.of(self.most());
        page.with("details", &[], |page| {
            page.line("summary", &[], "The values as a table");
            page.with("div", &[("class", "wide"), ("tabindex", "0")], |page| {
                page.with("table", &[], |page| {
                    page.line("caption", &[], &format!("{}, in {unit}", self.title));
                    page.with("thead", &[], |page| {
                        page.with("tr", &[], |page| {
                            page.line("th", &[("scope", "col")], "seconds");
                            for line in self.figures() {
                                page.line("th", &[("scope", "col")], &line.name);
                            }
                        });
                    });
                    page.with("tbody", &[], |page| {
                        for at in 0..self.times.len() {
                            page.with("tr", &[], |page| {
                                page.line(
                                    "th",
                                    &[("scope", "row")],
                                    &format!("{:.1}", self.times[at]),
                                );
                                for line in self.figures() {
                                    page.line("td", &[], &number(line.values[at] / one));
                                }
                            });
                        }
                    });
                });
            });
        });
    }
}

fn most_of(line: &Line) -> f64 {
    line.values.iter().copied().fold(0.0, f64::max)
}

fn last_of(line: &Line) -> f64 {
    line.values.last().copied().unwrap_or(0.0)
}

fn draw_axes(page: &mut Markup, field: &Field, marks: Marks, (unit, one): (&str, f64)) {
    let (left, right, floor) = (place(LEFT), place(WIDTH - RIGHT), place(HEIGHT - BELOW));
    page.with("g", &[("class", "axes")], |page| {
        page.line("text", &[("x", "64"), ("y", "14")], unit);
        for mark in marks.all() {
            let y = place(field.y(mark * one));
            let ends = [
                ("x1", left.as_str()),
                ("x2", &right),
                ("y1", &y),
                ("y2", &y),
            ];
            page.empty("line", &ends);
            let at = [("class", "y"), ("x", "58"), ("y", y.as_str()), ("dy", "4")];
            page.line("text", &at, &plain(mark, marks.step));
        }
        let step = time_step(field.end, TIME_MARKS);
        let count = (field.end / step * 1.000_001).floor() as usize;
        for mark in (0..=count).map(|at| at as f64 * step) {
            let x = place(field.x(mark));
            let ends = [
                ("x1", x.as_str()),
                ("x2", &x),
                ("y1", &floor),
                ("y2", "218"),
            ];
            page.empty("line", &ends);
            let at = [("class", "x"), ("x", x.as_str()), ("y", "234")];
            page.line("text", &at, &time(mark));
        }
    });
}

/// A mark's number, with no more places than the step has.
fn plain(mark: f64, step: f64) -> String {
    let places = (-step.log10().floor()).max(0.0) as usize;
    format!("{mark:.places$}")
}

fn draw_swatch(page: &mut Markup, kind: &str, at: usize) {
    let attributes = [
        ("xmlns", "http://www.w3.org/2000/svg"),
        ("viewBox", "0 0 24 12"),
        ("aria-hidden", "true"),
    ];
    let path = match kind {
        "area" => "M0 0H24V12H0Z",
        _ => "M0 6H24",
    };
    page.with("svg", &attributes, |page| {
        page.empty("path", &[("class", &look(kind, at)), ("d", path)]);
    });
}

#[cfg(test)]
mod tests {
    use super::super::markup::tests::check;
    use super::*;

    fn line(name: &str, values: &[f64]) -> Line {
        Line {
            name: name.to_owned(),
            values: values.to_vec(),
        }
    }

    fn chart(unit: Unit, steps: bool) -> Chart {
        Chart {
            title: "Memory",
            about: "What it is.",
            unit,
            times: vec![0.0, 1.0, 2.0, 4.0],
            areas: vec![
                line("low", &[0.0, 50.0, 50.0, 0.0]),
                line("high", &[0.0, 50.0, 0.0, 100.0]),
            ],
            lines: vec![line("limit", &[80.0; 4])],
            steps,
        }
    }

    fn text(chart: &Chart) -> String {
        let mut page = Markup::document();
        page.with("html", &[], |page| chart.write(page, "c"));
        let text = page.finish();
        check(&text);
        text
    }

    /// All pairs of coordinates of the path of a class.
    fn places(text: &str, class: &str) -> Vec<(f64, f64)> {
        let begin = format!("<path class=\"{class}\" d=\"");
        let path = text
            .split(&begin)
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let path = path.expect("a path").trim_end_matches('Z');
        let pairs = path.split(['M', 'L']).skip(1).map(|pair| {
            let (x, y) = pair.split_once(' ').expect("two numbers");
            (x.parse().expect("a number"), y.parse().expect("a number"))
        });
        pairs.collect()
    }

    #[test]
    fn values_are_drawn_where_they_belong() {
        let text = text(&chart(Unit::Percent, false));
        let (left, right, top, floor) = (64.0, 836.0, 24.0, 214.0);
        let quarter = (right - left) / 4.0;
        let half = (top + floor) / 2.0;
        let low = places(&text, "area area0");
        assert_eq!(
            low[..4],
            [
                (left, floor),
                (left + quarter, half),
                (left + 2.0 * quarter, half),
                (right, floor)
            ]
        );
        assert!(low[4..].iter().all(|(_, y)| *y == floor), "{low:?}");
        let high = places(&text, "area area1");
        assert_eq!((high[1], high[3]), ((left + quarter, top), (right, top)));
        assert_eq!(high[6], (left + quarter, half), "it lies on the other");
        let limit = places(&text, "line line0");
        assert!(
            limit
                .iter()
                .all(|(_, y)| (y - (floor - 0.8 * (floor - top))).abs() < 0.1)
        );
    }

    #[test]
    fn a_rate_holds_since_the_sample_before() {
        let text = text(&chart(Unit::Rate, true));
        assert!(text.contains("M64.0 62.0V62.0H257.0V62.0H450.0"), "{text}");
    }

    #[test]
    fn it_is_read_without_being_seen() {
        let text = text(&chart(Unit::Percent, false));
        assert!(text.contains("role=\"img\" aria-labelledby=\"c-title c-desc\""));
        assert!(text.contains("<title id=\"c-title\">Memory in % over time</title>"));
        assert!(text.contains("high: at most 100 %, at the end 100."));
        assert_eq!(text.matches("<tr>").count(), 5);
        assert!(text.contains("<th scope=\"row\">4.0</th><td>0</td><td>100</td><td>80.0</td>"));
        assert!(
            text.contains("2 s\nlow: 50.0 %\nhigh: 0 %\nlimit: 80.0 %"),
            "{text}"
        );
    }

    #[test]
    fn there_are_few_strips_however_many_samples() {
        let mut chart = chart(Unit::Bytes, false);
        chart.times = (0..1000).map(f64::from).collect();
        chart.areas = vec![line("one", &[f64::from(u32::MAX); 1000])];
        chart.lines.clear();
        let text = text(&chart);
        let strips = text.matches("<rect").count();
        assert!((100..=STRIPS).contains(&strips), "{strips}");
    }

    #[test]
    fn what_cannot_be_drawn_is_said() {
        let mut chart = chart(Unit::Bytes, false);
        chart.times = vec![0.0];
        for line in chart.areas.iter_mut().chain(&mut chart.lines) {
            line.values = vec![7.0];
        }
        let one = text(&chart);
        assert!(one.contains("One sample is too few") && !one.contains("<svg"));
        assert!(one.contains("<table>"));
        for line in chart.areas.iter_mut().chain(&mut chart.lines) {
            line.values = vec![0.0];
        }
        assert!(text(&chart).contains("All values are 0."));
    }
}
