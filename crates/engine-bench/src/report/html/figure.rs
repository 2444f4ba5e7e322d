//! A drawing with what is to be said about it.

use super::escape;
use plotters::style::RGBColor;

/// What belongs to which colour.
pub(super) type Key = Vec<(String, RGBColor)>;

/// A drawing.
pub(super) struct Figure {
    pub(super) caption: String,
    pub(super) svg: String,
    pub(super) key: Key,
}

impl Figure {
    /// The drawing as HTML.
    pub(super) fn html(&self) -> String {
        let items = self.key.iter().map(|(name, RGBColor(red, green, blue))| {
            let name = escape(name);
            format!(
                "<span><i style=\"background:#{red:02x}{green:02x}{blue:02x}\"></i>{name}</span>"
            )
        });
        let items: String = items.collect();
        let key = match items.as_str() {
            "" => String::new(),
            items => format!("<p class=\"key\">{items}</p>\n"),
        };
        let caption = escape(&self.caption);
        format!(
            "<figure>\n{key}{}\n<figcaption>{caption}</figcaption>\n</figure>",
            self.svg
        )
    }
}
