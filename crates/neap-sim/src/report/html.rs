//! One page that needs nothing else: tables and plots inline.

use super::svg::escape;
use super::table::{Align, Table};

const STYLE: &str = "body{font:15px/1.45 sans-serif;margin:2em auto;max-width:60em;padding:0 1em}\
table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .7em;border-bottom:1px solid #ddd}\
th{text-align:left}.r{text-align:right;font-variant-numeric:tabular-nums}svg{max-width:100%}\
@media(prefers-color-scheme:dark){body{background:#fff;color:#111}}";

/// A piece of a page.
#[derive(Clone, Debug)]
pub enum Part {
    /// A heading.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A table.
    Table(Table),
    /// A finished plot.
    Svg(String),
}

/// The page with this title and these parts.
#[must_use]
pub fn page(title: &str, parts: &[Part]) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{0}</title>\
         <style>{STYLE}</style></head><body>\n<h1>{0}</h1>\n",
        escape(title)
    );
    for part in parts {
        match part {
            Part::Heading(text) => html.push_str(&format!("<h2>{}</h2>\n", escape(text))),
            Part::Text(text) => html.push_str(&format!("<p>{}</p>\n", escape(text))),
            Part::Svg(svg) => html.push_str(svg),
            Part::Table(table) => push_table(&mut html, table),
        }
    }
    html.push_str("</body></html>\n");
    html
}

fn push_table(html: &mut String, table: &Table) {
    let aligns: Vec<Align> = table.head().map(|(_, align)| align).collect();
    let class = |column: usize| match aligns.get(column) {
        Some(Align::Right) => " class=\"r\"",
        _ => "",
    };
    html.push_str("<table><thead><tr>");
    for (column, (name, _)) in table.head().enumerate() {
        html.push_str(&format!("<th{}>{}</th>", class(column), escape(name)));
    }
    html.push_str("</tr></thead><tbody>\n");
    for row in table.rows() {
        html.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            html.push_str(&format!("<td{}>{}</td>", class(column), escape(cell)));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_takes_nothing_from_outside() {
        let mut table = Table::new(&[("a", Align::Left), ("b", Align::Right)]);
        table.row(vec!["<x>".into(), "1".into()]);
        let html = page("t & u", &[Part::Text("p".into()), Part::Table(table)]);
        assert!(html.contains("<td>&lt;x&gt;</td><td class=\"r\">1</td>"));
        assert!(!html.contains("src=") && !html.contains("href="));
    }
}
