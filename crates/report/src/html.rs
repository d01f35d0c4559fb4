//! Text in HTML.

/// Text as HTML has it, in elements and in attributes.
pub(crate) fn escape(text: &str) -> String {
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

/// Like [`escape`], with exponents (`2^26`) where they belong: for elements alone.
pub(crate) fn prose(text: &str) -> String {
    let text = escape(text);
    let mut parts = text.split('^');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        match digits > 0 && out.ends_with(|c: char| c.is_ascii_digit()) {
            true => out += &format!("<sup>{}</sup>{}", &part[..digits], &part[digits..]),
            false => out += &format!("^{part}"),
        }
    }
    out
}

/// Like [`prose`], with `code` between backticks.
pub(crate) fn with_code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts.map(|(i, part)| if i % 2 == 1 { format!("<code>{}</code>", escape(part)) } else { prose(part) }).collect()
}

/// The contrast of two colours (`#rrggbb`), as the Web Content Accessibility Guidelines define it.
#[cfg(test)]
pub(crate) fn contrast(one: &str, other: &str) -> f64 {
    let luminance = |colour: &str| -> f64 {
        let part = |at: usize| {
            let part = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    };
    let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
    one.max(other) / one.min(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("a < b & \"c\""), "a &lt; b &amp; &quot;c&quot;");
        assert_eq!(prose("2^26 < 10^9, x^2, a ^ b"), "2<sup>26</sup> &lt; 10<sup>9</sup>, x^2, a ^ b");
        assert_eq!(with_code("see `a<b>` & c"), "see <code>a&lt;b&gt;</code> &amp; c");
    }
}
