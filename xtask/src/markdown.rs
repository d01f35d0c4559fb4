//! Links in Markdown texts.

use std::ops::Range;

/// A link, `[text](target)`, or an image, by the bytes of its parts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// With the brackets, without the exclamation mark of an image.
    pub(crate) whole: Range<usize>,
    pub(crate) text: Range<usize>,
    pub(crate) target: Range<usize>,
}

/// The lines of a text that are not in a block of code, and where each begins.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut is_code, mut end) = (false, 0);
    text.split_inclusive('\n').filter_map(move |line| {
        let start = end;
        end += line.len();
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then(|| (start, line.trim_end()))
    })
}

/// A text's links, in their order. What stands between backticks is no link; its brackets are.
pub(crate) fn links(text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (start, line) in prose(text) {
        let mut is_code = false;
        // The brackets that are open.
        let mut open = Vec::new();
        for (at, byte) in line.bytes().enumerate() {
            is_code ^= byte == b'`';
            if is_code {
                continue;
            }
            if byte == b'[' {
                open.push(at);
            }
            let Some(begin) = (if byte == b']' { open.pop() } else { None }) else { continue };
            let Some(after) = line[at..].strip_prefix("](") else { continue };
            if let Some(length) = after.find(')') {
                let target = start + at + 2;
                found.push(Link {
                    whole: start + begin..target + length + 1,
                    text: start + begin + 1..start + at,
                    target: target..target + length,
                });
            }
        }
    }
    found
}

/// Whether a link's target is of the web, and not a file or an anchor.
pub(crate) fn is_web(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

#[test]
fn links_have_their_text_and_their_target() {
    let text = "A [b](c.md) `[d](e)` [`f[1]`](g#h)\n```\n[i](j)\n```\n[k] ([l]) ![m](n.svg)";
    let parts = |link: &Link| (text[link.whole.clone()].len(), &text[link.text.clone()], &text[link.target.clone()]);
    let found = links(text);
    assert_eq!(
        found.iter().map(parts).collect::<Vec<_>>(),
        [(9, "b", "c.md"), (13, "`f[1]`", "g#h"), (10, "m", "n.svg")]
    );
}
