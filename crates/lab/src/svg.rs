//! The parts that all pictures share: their head, colours, round numbers at axes. Not pictures.

/// Colours of lines and areas, in their order.
pub const COLOURS: [&str; 8] = ["#1b6ca8", "#2a9d5c", "#c77d0a", "#8a4fbf", "#b8323a", "#3aa6a6", "#7a6a2b", "#d46a9f"];
/// About so many lines across.
const LINES: f64 = 5.0;

/// A round number of which about five make up this much.
pub fn step(most: f64) -> f64 {
    let rough = (most / LINES).max(f64::MIN_POSITIVE);
    let ten = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * ten).find(|n| *n >= rough).unwrap_or(rough)
}

/// Head of a picture of this size: white, with the texts' font.
pub fn head(width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    )
}

/// Text as it may stand in a picture.
pub fn clean(text: &str) -> String {
    text.replace('&', "and").replace('<', "")
}
