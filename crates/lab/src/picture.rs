//! Curves as pictures.

use std::path::Path;

use plotters::prelude::{
    BLACK, ChartBuilder, Color, IntoDrawingArea, LineSeries, PathElement, RGBColor, SVGBackend,
    TRANSPARENT, WHITE,
};

/// Size of a picture, in pixels.
const SIZE: (u32, u32) = (800, 480);

/// Colours of the curves, in order.
const COLORS: [RGBColor; 4] =
    [RGBColor(190, 30, 45), RGBColor(0, 110, 60), RGBColor(225, 130, 0), RGBColor(0, 80, 170)];

/// Several curves over the same axes.
#[derive(Clone, Debug)]
pub struct Picture {
    /// File name without extension.
    pub name: &'static str,
    /// Caption above the picture.
    pub caption: &'static str,
    /// Labels of the axes.
    pub axes: [&'static str; 2],
    /// Upper end of the vertical axis; higher values are clipped.
    pub height: f64,
    /// The curves, with their names.
    pub curves: Vec<(&'static str, Vec<(f64, f64)>)>,
}

/// The picture could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {why}")]
pub struct PictureError {
    path: String,
    why: String,
}

impl Picture {
    /// Writes the picture into a folder.
    ///
    /// # Errors
    /// [`PictureError`].
    pub fn write(&self, folder: &Path) -> Result<(), PictureError> {
        let path = folder.join(format!("{}.svg", self.name));
        let drawn = self.draw(&path);
        let path = path.display().to_string();
        drawn.map_err(|error| PictureError { path, why: error.to_string() })
    }

    fn draw(&self, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
        let root = SVGBackend::new(path, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let all = self.curves.iter().flat_map(|(_, points)| points);
        let width = all.map(|point| point.0).fold(1.0, f64::max) * 1.05;
        let mut chart = ChartBuilder::on(&root)
            .caption(self.caption, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..width, 0.0..self.height)?;
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT).x_label_formatter(&|x| format!("{x:.0}"));
        mesh.x_desc(self.axes[0]).y_desc(self.axes[1]).draw()?;
        for (index, (name, points)) in self.curves.iter().enumerate() {
            let color = COLORS[index % COLORS.len()];
            let line = points.iter().copied().map(|(x, y)| (x, y.min(self.height)));
            chart
                .draw_series(LineSeries::new(line, color.stroke_width(2)).point_size(3))?
                .label(*name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
        }
        let mut labels = chart.configure_series_labels();
        labels.position(plotters::prelude::SeriesLabelPosition::UpperLeft);
        labels.background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
        root.present()?;
        Ok(())
    }
}
