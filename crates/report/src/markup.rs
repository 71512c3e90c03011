//! Text in pages and drawings.

/// The text, safe inside an element or an attribute.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Whether every element is closed, attributes are quoted, and nothing is left open:
/// enough of XML for what our pages and drawings have. For tests. `void` names the elements
/// that have no end.
///
/// # Panics
/// It is not so.
pub fn check_well_formed(text: &str, void: &[&str]) {
    let mut open: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let tag_end = rest[start..].find('>').expect("an open tag") + start;
        let tag = &rest[start + 1..tag_end];
        rest = &rest[tag_end + 1..];
        if tag.starts_with('!') {
            continue;
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes in <{tag}>");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closing </{name}>");
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap().to_owned();
        if tag.ends_with('/') || void.contains(&name.as_str()) {
            continue;
        }
        if name == "style" {
            let end = rest.find("</style>").expect("an open style");
            rest = &rest[end..];
        }
        open.push(name);
    }
    assert!(open.is_empty(), "left open: {open:?}");
}
