//! Plain tables: columns as wide as their widest cell, numbers to the right.

/// Which side of its column a cell keeps to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table being put together.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    #[must_use]
    pub fn new(columns: &[(&str, Align)]) -> Table {
        Table {
            columns: columns
                .iter()
                .map(|&(name, align)| (name.to_owned(), align))
                .collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells are empty, cells too many are left out.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The head's cells.
    pub fn head(&self) -> impl Iterator<Item = (&str, Align)> {
        self.columns
            .iter()
            .map(|(name, align)| (name.as_str(), *align))
    }

    /// The rows' cells.
    #[must_use]
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// The table as lines, two spaces between columns and none at an end.
    #[must_use]
    pub fn text(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            let widest = cells.map(|cell| cell.chars().count()).max();
            widest
                .unwrap_or(0)
                .max(self.columns[column].0.chars().count())
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let names: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let mut text = String::new();
        for row in std::iter::once(&names).chain(&self.rows) {
            let mut line = String::new();
            for (column, (_, align)) in self.columns.iter().enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                let pad = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
                let gap = if column == 0 { "" } else { "  " };
                line.push_str(gap);
                match align {
                    Align::Left => line.extend([cell, &pad]),
                    Align::Right => line.extend([pad.as_str(), cell]),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[("name", Align::Left), ("n", Align::Right)]);
        table.row(vec!["longer".into(), "5".into()]);
        table.row(vec!["x".into(), "1,000".into()]);
        assert_eq!(
            table.text(),
            "name        n\nlonger      5\nx       1,000\n"
        );
    }
}
