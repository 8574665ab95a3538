//! Elements and text that are HTML and well-formed XML at once. Whatever is told by others goes through here, and is escaped.

/// A document that grows.
#[derive(Default)]
pub struct Markup(String);

impl Markup {
    /// The document's first line, before its one element.
    #[must_use]
    pub fn document() -> Self {
        Self("<!DOCTYPE html>\n".to_owned())
    }

    /// All of it.
    #[must_use]
    pub fn finish(self) -> String {
        self.0
    }

    /// An element with what is inside. Not for elements that HTML has without an end, such as `meta`.
    pub fn with(
        &mut self,
        name: &'static str,
        attributes: &[(&'static str, &str)],
        inside: impl FnOnce(&mut Self),
    ) {
        self.begin(name, attributes);
        self.0.push('>');
        inside(self);
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push('>');
    }

    /// An element with text inside.
    pub fn line(&mut self, name: &'static str, attributes: &[(&'static str, &str)], text: &str) {
        self.with(name, attributes, |inside| inside.text(text));
    }

    /// An element with nothing inside: those that HTML has without an end, and those of SVG.
    pub fn empty(&mut self, name: &'static str, attributes: &[(&'static str, &str)]) {
        self.begin(name, attributes);
        self.0.push_str("/>");
    }

    /// A style sheet of our own, which has neither `<` nor `&`.
    pub fn style(&mut self, sheet: &'static str) {
        debug_assert!(!sheet.contains(['<', '&']));
        self.0.push_str("<style>");
        self.0.push_str(sheet);
        self.0.push_str("</style>");
    }

    /// The end of a line, for who reads the file itself.
    pub fn end_line(&mut self) {
        self.0.push('\n');
    }

    /// Text.
    pub fn text(&mut self, text: &str) {
        for letter in text.chars() {
            match letter {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' | '\t' => self.0.push(letter),
                // XML has no name for most of them.
                _ if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {
                    self.0.push(char::REPLACEMENT_CHARACTER);
                }
                _ => self.0.push(letter),
            }
        }
    }

    fn begin(&mut self, name: &'static str, attributes: &[(&'static str, &str)]) {
        self.0.push('<');
        self.0.push_str(name);
        for (key, value) in attributes {
            self.0.push(' ');
            self.0.push_str(key);
            self.0.push_str("=\"");
            self.text(value);
            self.0.push('"');
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Panics unless a document is well-formed: each element ends where it must, and nothing is left unescaped.
    pub fn check(document: &str) {
        let mut open: Vec<&str> = Vec::new();
        let mut rest = document.strip_prefix("<!DOCTYPE html>").expect("HTML");
        while let Some((text, tag)) = rest.split_once('<') {
            check_text(text);
            let (tag, behind) = tag.split_once('>').expect("a tag has an end");
            rest = behind;
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
                continue;
            }
            let is_empty = tag.ends_with('/');
            let tag = tag.trim_end_matches('/');
            let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "{name:?}");
            let values = attributes.split('"').skip(1).step_by(2);
            values.for_each(check_text);
            let quotes = attributes.matches('"').count();
            let keys = attributes.split('"').step_by(2);
            let is_key = |key: &str| key.trim().is_empty() || key.trim().ends_with('=');
            assert!(quotes % 2 == 0 && keys.into_iter().all(is_key), "{tag}");
            if !is_empty {
                open.push(name);
            }
        }
        assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
    }

    fn check_text(text: &str) {
        let is_odd = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(!text.contains(is_odd) && !text.contains('>'), "{text:?}");
        for behind in text.split('&').skip(1) {
            let names = ["amp;", "lt;", "gt;", "quot;", "#39;"];
            assert!(names.iter().any(|name| behind.starts_with(name)), "{text}");
        }
    }

    #[test]
    fn what_others_tell_is_text_wherever_it_stands() {
        let hostile = "</title><script>alert(\"1\")</script>' onload='x&\u{0}\u{1b}\u{ffff}\r";
        let mut page = Markup::document();
        page.with("html", &[("title", hostile)], |page| {
            page.line("p", &[], hostile);
            page.empty("br", &[("class", hostile)]);
        });
        let text = page.finish();
        check(&text);
        assert!(!text.contains("<script") && !text.contains("' onload"));
    }
}
