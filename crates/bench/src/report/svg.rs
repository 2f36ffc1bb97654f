//! The report as a picture: latencies for each workload, or, for workloads played at rising rates,
//! response time against throughput.

use std::path::Path;

use plotters::prelude::{
    BLACK, ChartBuilder, Circle, Color, IntoDrawingArea, IntoLogRange, LineSeries, Palette,
    Palette99, PathElement, SVGBackend, WHITE,
};

use super::{Latency, Point, Report};

/// The size of a picture, in pixels.
const SIZE: (u32, u32) = (960, 600);

/// The picture could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {why}")]
pub struct PlotError {
    path: String,
    why: String,
}

/// Writes a picture of the report.
///
/// # Errors
/// [`PlotError`].
pub fn plot(report: &Report, path: &Path) -> Result<(), PlotError> {
    let drawn = if report.curves.is_empty() {
        draw_latencies(report, path)
    } else {
        draw_curves(report, path)
    };
    drawn.map_err(|error| PlotError { path: path.display().to_string(), why: error.to_string() })
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw_latencies(report: &Report, path: &Path) -> Drawn {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let latencies: Vec<_> = report.workloads.iter().map(|result| points(&result.latency)).collect();
    let all = || latencies.iter().flatten().map(|point| point.1);
    let lowest = all().fold(f64::MAX, f64::min).clamp(0.001, 1e6);
    let highest = all().fold(0.01, f64::max).max(lowest * 10.0);
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("{}: latency", report.target), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..4.0_f64, (lowest..highest * 1.2).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("so many steps took no longer")
        .y_desc("ms")
        .x_labels(5)
        .x_label_formatter(&|nines| share(*nines))
        .draw()?;
    for (index, (result, line)) in report.workloads.iter().zip(&latencies).enumerate() {
        let color = Palette99::pick(index).to_rgba();
        chart
            .draw_series(LineSeries::new(line.iter().copied(), color.stroke_width(2)))?
            .label(result.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
}

/// Latencies in milliseconds, by the nines of their percentile: 1 is 90 %, 2 is 99 %.
fn points(latency: &Latency) -> [(f64, f64); 4] {
    let half = -(0.5_f64).log10();
    let all = [
        (half, latency.p50_us),
        (1.0, latency.p90_us),
        (2.0, latency.p99_us),
        (3.0, latency.p999_us),
    ];
    all.map(|(nines, us)| (nines, (us / 1000.0).max(0.001)))
}

fn share(nines: f64) -> String {
    let share = 100.0 * (1.0 - 10_f64.powf(-nines));
    format!("{share} %")
}

fn draw_curves(report: &Report, path: &Path) -> Drawn {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let all = || report.curves.iter().flat_map(|curve| &curve.points);
    let widest = all().map(|point| point.achieved_per_s).fold(1.0, f64::max) * 1.05;
    let highest = all().map(|point| point.mean_ms).fold(0.1, f64::max) * 1.05;
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("{}: response time", report.target), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..widest, 0.0..highest)?;
    chart.configure_mesh().x_desc("calls/s answered").y_desc("mean ms").draw()?;
    for (index, curve) in report.curves.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        let place = |point: &Point| (point.achieved_per_s, point.mean_ms);
        let line = curve.points.iter().map(place);
        chart
            .draw_series(LineSeries::new(line, color.stroke_width(2)).point_size(3))?
            .label(curve.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
        let knee = curve.knee.map(|index| place(&curve.points[index]));
        chart.draw_series(knee.map(|place| Circle::new(place, 7, color.stroke_width(2))))?;
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
}
