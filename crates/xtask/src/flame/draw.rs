//! Frames as a picture: width is their time, and each is above its caller.

use super::stacks::Frame;

/// Sizes in pixels.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
const ROW: f64 = 16.0;
const TITLE: f64 = 34.0;
const LETTER: f64 = 6.1;
/// Frames narrower than this are left out.
const NARROWEST: f64 = 2.5;

struct Drawing {
    /// Pixels for each sample.
    scale: f64,
    all: u64,
    height: f64,
    shapes: String,
}

/// An SVG picture.
pub(super) fn picture(title: &str, root: &Frame) -> String {
    let scale = (WIDTH - 2.0 * MARGIN) / root.samples().max(1) as f64;
    let height = TITLE + depth(root, scale) as f64 * ROW + MARGIN;
    let mut drawing = Drawing { scale, all: root.samples().max(1), height, shapes: String::new() };
    drawing.callees(root, MARGIN, 0);
    let (shapes, title) = (drawing.shapes, escaped(title));
    let middle = WIDTH / 2.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"10\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"{middle}\" y=\"20\" text-anchor=\"middle\" font-size=\"14\">{title}</text>\n\
         {shapes}</svg>\n"
    )
}

/// Maximum depth of the frames that are drawn.
fn depth(frame: &Frame, scale: f64) -> usize {
    let drawn = frame.callees().filter(|(_, frame)| frame.samples() as f64 * scale >= NARROWEST);
    drawn.map(|(_, frame)| 1 + depth(frame, scale)).max().unwrap_or(0)
}

impl Drawing {
    fn callees(&mut self, frame: &Frame, left: f64, level: usize) {
        let mut at = left;
        for (name, callee) in frame.callees() {
            let width = callee.samples() as f64 * self.scale;
            if width >= NARROWEST {
                self.shape(name, callee, (at, width), level);
                self.callees(callee, at, level + 1);
            }
            at += width;
        }
    }

    fn shape(&mut self, name: &str, frame: &Frame, (left, width): (f64, f64), level: usize) {
        let top = self.height - MARGIN - (level + 1) as f64 * ROW;
        let share = 100.0 * frame.samples() as f64 / self.all as f64;
        let color = color(name, frame.is_kernel());
        let (title, label) = (escaped(name), escaped(&label(name, width)));
        self.shapes.push_str(&format!(
            "<g><title>{title}: {share:.1} %</title>\
             <rect x=\"{left:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{height}\" \
             fill=\"{color}\"/><text x=\"{text:.1}\" y=\"{base}\">{label}</text></g>\n",
            height = ROW - 1.0,
            text = left + 2.0,
            base = top + ROW - 5.0,
        ));
    }
}

/// The part of a name that fits: its end is more informative than its beginning.
fn label(name: &str, width: f64) -> String {
    let room = (width / LETTER) as usize;
    let letters: Vec<char> = name.chars().collect();
    match letters.len() {
        count if count <= room => name.to_owned(),
        _ if room < 4 => String::new(),
        count => ["..", &letters[count - (room - 2)..].iter().collect::<String>()].concat(),
    }
}

/// Kernel frames are blue, ours are wood-coloured, with a slight variation by name.
fn color(name: &str, is_kernel: bool) -> String {
    let sum = name.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let shade = sum % 40;
    if is_kernel {
        format!("#{:02x}{:02x}{:02x}", 130 + shade, 175 + shade, 225)
    } else {
        format!("#{:02x}{:02x}{:02x}", 225, 165 + shade, 105 + shade)
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::stacks::parse;
    use super::*;

    #[test]
    fn frames_are_as_wide_as_their_share_and_names_are_escaped() {
        let text = "t\n\t 1 <a>::b\n\nt\n\t 1 <a>::b\n\nt\n\t ffffffff81000000 c\n\nu\n\t 1 d\n\n";
        let picture = picture("x < y", &parse(text));
        assert!(picture.contains("x &lt; y") && picture.contains("&lt;a&gt;::b: 50.0 %"));
        let half = (WIDTH - 2.0 * MARGIN) / 2.0;
        assert!(picture.contains(&format!("width=\"{half:.1}\"")), "{picture}");
        assert_eq!(picture.matches("<rect").count(), 6, "the ground, two threads, three functions");
    }

    #[test]
    fn a_name_without_room_keeps_its_end() {
        assert_eq!(label("journal::append", 10.0 * LETTER), "..::append");
        assert_eq!(label("journal::append", 3.0 * LETTER), "");
        assert_eq!(label("short", 300.0), "short");
    }
}
