//! Charts as SVG, drawn with plotters. Nothing of the system is needed for it, fonts neither: the page that holds a chart chooses them.
//!
//! Each chart is drawn in two sizes, one for phones, in the light colours of [`super::palette`]; the page's style sheet puts the dark ones
//! in their place. Legend and caption are the page's.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::format::number;
use super::model::{Axis, Chart, ChartKind, Origin, Point, Scale, Series};
use super::palette::{AXIS, BACKGROUND, GRID, ON_SERIES, TEXT, series as series_colour};

/// Font that the page replaces by its own.
const FONT: &str = "sans-serif";
/// plotters writes fonts smaller by this factor than it is told.
const FONT_FACTOR: f64 = 1.24;
/// Width of a letter in proportion to the size of its font, a little more than it is on average.
const LETTER: f64 = 0.6;
/// What is said in place of a bar.
const NOT_MEASURED: &str = "not measured";
/// Ticks that a linear axis has about.
const TICKS: f64 = 5.0;
/// Decades up to which a logarithmic axis has ticks between them.
const FEW_DECADES: i32 = 2;

/// Size of a picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    width: u32,
    height: u32,
    /// Height of the letters, px.
    font: f64,
    /// Letters of a category's name beside bars.
    name_letters: usize,
}

/// For ordinary screens and paper.
pub(super) const WIDE: Size = Size { width: 760, height: 360, font: 13.0, name_letters: 32 };
/// For phones.
pub(super) const NARROW: Size = Size { width: 380, height: 300, font: 12.0, name_letters: 16 };

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Ruler, Ruler>>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

/// The picture as an `svg` element. `None` if there is nothing to be drawn, or no way that this version knows.
pub(super) fn draw(chart: &Chart, size: Size) -> Option<String> {
    if chart.series.iter().all(|series| series.points.is_empty()) {
        return None;
    }
    let size = match chart.kind {
        ChartKind::Lines => size,
        ChartKind::Bars | ChartKind::StackedBars => bars_size(chart, size),
        ChartKind::Unknown => return None,
    };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (size.width, size.height)).into_drawing_area();
        area.fill(&BACKGROUND.rgb()).ok()?;
        if chart.kind == ChartKind::Lines { lines(&area, chart, size) } else { bars(&area, chart, size) }
            .ok()?;
        area.present().ok()?;
    }
    Some(svg)
}

/// An axis with its range and its ticks, in coordinates of the picture: logarithms where the scale is one.
#[derive(Clone)]
struct Ruler {
    range: Range<f64>,
    ticks: Vec<(f64, String)>,
    scale: Scale,
}

impl Ruler {
    fn of_numbers(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let place = |value: f64| match axis.scale {
            Scale::Linear => Some(value),
            Scale::Logarithmic => (value > 0.0).then(|| value.log10()),
        };
        let places: Vec<f64> = values.filter_map(place).filter(|place| place.is_finite()).collect();
        let least = places.iter().copied().fold(f64::INFINITY, f64::min);
        let most = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match axis.scale {
            _ if places.is_empty() => Self::linear(0.0, 1.0),
            Scale::Linear => Self::linear(least.min(0.0), most.max(0.0)),
            Scale::Logarithmic => Self::logarithmic(least.floor(), most.ceil()),
        }
    }

    fn linear(least: f64, most: f64) -> Self {
        let most = if most > least { most } else { least + 1.0 };
        let rough = (most - least) / TICKS;
        let magnitude = 10_f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * magnitude);
        let (first, last) = ((least / step).floor(), (most / step).ceil());
        let digits = (-step.log10().floor()).clamp(0.0, 9.0) as u8;
        let ticks = (0..=(last - first).clamp(1.0, 50.0) as u32).map(|at| {
            let value = (first + f64::from(at)) * step;
            (value, number(value, digits))
        });
        Self { range: first * step..last * step, ticks: ticks.collect(), scale: Scale::Linear }
    }

    fn logarithmic(least: f64, most: f64) -> Self {
        let (first, last) = (least as i32, (most as i32).max(least as i32 + 1));
        let between: &[f64] = if last - first <= FEW_DECADES { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = ((last - first) / 8 + 1) as usize;
        let mut ticks = Vec::new();
        for decade in (first..=last).step_by(every) {
            for factor in between {
                let place = f64::from(decade) + factor.log10();
                if place <= f64::from(last) {
                    let digits = decade.min(0).unsigned_abs().min(9) as u8;
                    ticks.push((place, number(factor * 10_f64.powi(decade), digits)));
                }
            }
        }
        Self { range: f64::from(first)..f64::from(last), ticks, scale: Scale::Logarithmic }
    }

    fn of_names(names: &[String], margin: f64) -> Self {
        let ticks = names.iter().enumerate().map(|(at, name)| (at as f64, name.clone())).collect();
        Self { range: -margin..names.len().max(1) as f64 - 1.0 + margin, ticks, scale: Scale::Linear }
    }

    /// Where a number stands; none for what has no logarithm.
    fn place(&self, value: f64) -> Option<f64> {
        match self.scale {
            Scale::Linear => Some(value),
            Scale::Logarithmic => (value > 0.0).then(|| value.log10()),
        }
    }

    /// Room that the labels need beside the axis.
    fn label_width(&self, font: f64) -> u32 {
        let letters = self.ticks.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0);
        (letters as f64 * font * LETTER) as u32 + 14
    }
}

impl Ranged for Ruler {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        first + (share.clamp(-1.0, 2.0) * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        self.ticks.iter().map(|(at, _)| *at).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Ruler {
    fn format(value: &f64) -> String {
        number(*value, 2)
    }

    fn format_ext(&self, value: &f64) -> String {
        self.ticks.iter().find(|(at, _)| at == value).map(|(_, label)| label.clone()).unwrap_or_default()
    }
}

fn points(chart: &Chart) -> impl Iterator<Item = &Point> {
    chart.series.iter().flat_map(|series| &series.points)
}

fn font(size: f64) -> TextStyle<'static> {
    (FONT, size * FONT_FACTOR).into_font().color(&TEXT.rgb())
}

/// The axes of a picture and what stands at them.
fn plane<'a, 'b>(
    area: &'a Area<'b>,
    x: &Ruler,
    y: &Ruler,
    names: (&str, Size),
    bars: bool,
) -> Result<Plane<'a, 'b>, DrawingAreaErrorKind<<SVGBackend<'b> as DrawingBackend>::ErrorType>> {
    let (x_name, size) = names;
    let below = if x_name.is_empty() { 1.8 } else { 3.4 };
    let mut plane = ChartBuilder::on(area)
        .margin(6)
        .margin_top(12)
        .margin_right(if bars { 4.5 * size.font } else { 1.6 * size.font } as u32)
        .x_label_area_size((size.font * below) as u32)
        .y_label_area_size(y.label_width(size.font))
        .build_cartesian_2d(x.clone(), y.clone())?;
    let mut mesh = plane.configure_mesh();
    if bars {
        mesh.disable_y_mesh();
    } else {
        mesh.disable_x_mesh();
    }
    mesh.bold_line_style(GRID.rgb())
        .light_line_style(TRANSPARENT)
        .axis_style(AXIS.rgb())
        .label_style(font(size.font))
        .axis_desc_style(font(size.font))
        .x_desc(x_name)
        .draw()?;
    Ok(plane)
}

fn lines<'a>(area: &Area<'a>, chart: &Chart, size: Size) -> Drawn<'a> {
    let x = if chart.categories.is_empty() {
        Ruler::of_numbers(&chart.x, points(chart).map(|point| point.x))
    } else {
        Ruler::of_names(&chart.categories, 0.3)
    };
    let extremes = |point: &Point| [Some(point.y), point.low, point.high];
    let y = Ruler::of_numbers(&chart.y, points(chart).flat_map(extremes).flatten());
    let mut plane = plane(area, &x, &y, (&axis_name(&chart.x), size), false)?;
    for (at, series) in chart.series.iter().enumerate() {
        line(&mut plane, series, at, &x, &y)?;
    }
    Ok(())
}

/// What an axis measures and in which unit.
pub(super) fn axis_name(axis: &Axis) -> String {
    match (axis.label.as_str(), axis.unit.as_str()) {
        (label, "") => label.to_owned(),
        ("", unit) => unit.to_owned(),
        (label, unit) => format!("{label} ({unit})"),
    }
}

fn line<'b>(plane: &mut Plane<'_, 'b>, series: &Series, at: usize, x: &Ruler, y: &Ruler) -> Drawn<'b> {
    let colour = series_colour(at).rgb();
    let place = |point: &Point| Some((x.place(point.x)?, y.place(point.y)?));
    let places: Vec<(f64, f64)> = series.points.iter().filter_map(place).collect();
    match series.origin {
        Origin::Measured => {
            plane.draw_series(LineSeries::new(places.iter().copied(), colour.stroke_width(2)))?
        }
        Origin::Calculated | Origin::Document => {
            plane.draw_series(DashedLineSeries::new(places.iter().copied(), 5, 4, colour.stroke_width(2)))?
        }
    };
    for point in &series.points {
        let ends = [point.low, point.high].map(|end| Some((x.place(point.x)?, y.place(end?)?)));
        if let [Some(low), Some(high)] = ends {
            plane.draw_series([PathElement::new([low, high], colour.stroke_width(1))])?;
        }
    }
    // A dashed line alone is one that nobody measured; the document's points are hollow.
    let style = match series.origin {
        Origin::Calculated => return Ok(()),
        Origin::Document => colour.stroke_width(2),
        Origin::Measured => colour.filled(),
    };
    for place in places {
        marker(plane, place, at, style)?;
    }
    Ok(())
}

/// A point in the shape of its series.
fn marker<'b>(plane: &mut Plane<'_, 'b>, place: (f64, f64), at: usize, style: ShapeStyle) -> Drawn<'b> {
    let outline = |corners: &[(i32, i32)]| corners.iter().map(|(x, y)| (*x, *y)).collect::<Vec<_>>();
    let shape: Vec<(i32, i32)> = match at % 4 {
        0 => Vec::new(),
        1 => outline(&[(0, -6), (5, 4), (-5, 4), (0, -6)]),
        2 => outline(&[(-4, -4), (4, -4), (4, 4), (-4, 4), (-4, -4)]),
        _ => outline(&[(0, -6), (6, 0), (0, 6), (-6, 0), (0, -6)]),
    };
    if shape.is_empty() {
        plane.draw_series([Circle::new(place, 4, style)])?;
    } else if style.filled {
        plane.draw_series([EmptyElement::at(place) + Polygon::new(shape, style)])?;
    } else {
        plane.draw_series([EmptyElement::at(place) + PathElement::new(shape, style)])?;
    }
    Ok(())
}

/// Bars take the height that they need.
fn bars_size(chart: &Chart, size: Size) -> Size {
    let each = if chart.kind == ChartKind::Bars { chart.series.len().max(1) as f64 * 0.8 + 0.9 } else { 2.2 };
    let rows = chart.categories.len().max(1) as f64;
    Size { height: (rows * each * size.font * 1.35 + size.font * 5.0) as u32, ..size }
}

fn bars<'a>(area: &Area<'a>, chart: &Chart, size: Size) -> Drawn<'a> {
    // The first category is at the top, where the numbers of the axis are highest.
    let names: Vec<String> =
        chart.categories.iter().rev().map(|name| shortened(name, size.name_letters)).collect();
    let y = Ruler::of_names(&names, 0.5);
    let sums = (0..names.len()).map(|at| chart.series.iter().filter_map(|series| value(series, at)).sum());
    let lengths: Vec<f64> = match chart.kind {
        ChartKind::StackedBars => sums.collect(),
        _ => points(chart).map(|point| point.y).collect(),
    };
    let linear = Axis { scale: Scale::Linear, ..chart.y.clone() };
    let x = Ruler::of_numbers(&linear, lengths.into_iter());
    let mut plane = plane(area, &x, &y, (&axis_name(&chart.y), size), true)?;
    for at in 0..names.len() {
        let middle = (names.len() - 1 - at) as f64;
        if chart.kind == ChartKind::StackedBars {
            stacked(&mut plane, chart, (at, middle), &x, size)?;
        } else {
            side_by_side(&mut plane, chart, (at, middle), size)?;
        }
    }
    Ok(())
}

fn value(series: &Series, category: usize) -> Option<f64> {
    series.points.iter().find(|point| point.x == category as f64).map(|point| point.y)
}

/// The series of a category behind each other; each with its number where there is room, the sum at the end.
fn stacked<'b>(
    plane: &mut Plane<'_, 'b>,
    chart: &Chart,
    (at, middle): (usize, f64),
    x: &Ruler,
    size: Size,
) -> Drawn<'b> {
    let pixel = (x.range.end - x.range.start) / f64::from(size.width) * 1.4;
    let mut start = 0.0;
    for (index, series) in chart.series.iter().enumerate() {
        let Some(length) = value(series, at) else { continue };
        let corners = [(start, middle - 0.32), (start + length, middle + 0.32)];
        plane.draw_series([Rectangle::new(corners, series_colour(index).rgb().filled())])?;
        plane.draw_series([Rectangle::new(corners, BACKGROUND.rgb().stroke_width(1))])?;
        let text = number(length, 0);
        if length > text.chars().count() as f64 * size.font * LETTER * pixel {
            let colour = ON_SERIES.rgb();
            let style = font(size.font).color(&colour).pos(Pos::new(HPos::Center, VPos::Center));
            plane.draw_series([Text::new(text, (start + length / 2.0, middle), style)])?;
        }
        start += length;
    }
    end_of_bar(plane, start, middle, &number(start, 0), size)
}

/// The series of a category below each other, each with its number.
fn side_by_side<'b>(
    plane: &mut Plane<'_, 'b>,
    chart: &Chart,
    (at, middle): (usize, f64),
    size: Size,
) -> Drawn<'b> {
    let each = 0.76 / chart.series.len().max(1) as f64;
    for (index, series) in chart.series.iter().enumerate() {
        let top = middle + 0.38 - index as f64 * each;
        let Some(length) = value(series, at) else {
            end_of_bar(plane, 0.0, top - each * 0.44, NOT_MEASURED, size)?;
            continue;
        };
        let corners = [(0.0, top - each * 0.88), (length, top)];
        let colour = series_colour(index).rgb();
        let style = if series.origin == Origin::Measured { colour.filled() } else { colour.stroke_width(2) };
        plane.draw_series([Rectangle::new(corners, style)])?;
        end_of_bar(plane, length, top - each * 0.44, &number(length, tick_digits(length)), size)?;
    }
    Ok(())
}

fn end_of_bar<'b>(plane: &mut Plane<'_, 'b>, length: f64, middle: f64, text: &str, size: Size) -> Drawn<'b> {
    let style = font(size.font).pos(Pos::new(HPos::Left, VPos::Center));
    plane.draw_series([EmptyElement::at((length, middle)) + Text::new(text.to_owned(), (5, 0), style)])?;
    Ok(())
}

/// Three significant digits, more or less.
fn tick_digits(value: f64) -> u8 {
    if value == 0.0 { 0 } else { (2.0 - value.abs().log10().floor()).clamp(0.0, 6.0) as u8 }
}

fn shortened(name: &str, letters: usize) -> String {
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    name.chars().take(letters - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ruler: &Ruler) -> Vec<&str> {
        ruler.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_numbers_around_the_values() {
        let axis = Axis::new("", "");
        let linear = |values: &[f64]| Ruler::of_numbers(&axis, values.iter().copied());
        assert_eq!(labels(&linear(&[3.0, 7.3])), ["0", "2", "4", "6", "8"]);
        assert_eq!(labels(&linear(&[0.013])), ["0.000", "0.005", "0.010", "0.015"]);
        assert_eq!(labels(&linear(&[-3.0, 4.0])), ["-4", "-2", "0", "2", "4"]);
        assert_eq!(labels(&linear(&[0.0])), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(linear(&[]).range, 0.0..1.0);
        let logarithmic =
            |values: &[f64]| Ruler::of_numbers(&axis.clone().logarithmic(), values.iter().copied());
        assert_eq!(labels(&logarithmic(&[0.4, 30.0, 1_500.0])), ["0.1", "1", "10", "100", "1000", "10,000"]);
        assert_eq!(labels(&logarithmic(&[3.0, 9.0])), ["1", "2", "5", "10"]);
        assert_eq!(logarithmic(&[0.0, -1.0]).range, 0.0..1.0, "no logarithm, no place");
    }

    #[test]
    fn extreme_numbers_can_be_drawn() {
        for value in [f64::MAX, f64::MIN_POSITIVE, -1e300, 0.0, 1e-12] {
            for chart in [
                Chart::lines("lines", Axis::new("x", ""), Axis::new("y", "")),
                Chart::lines("logarithmic", Axis::new("x", ""), Axis::new("y", "").logarithmic()),
                Chart::bars("bars", ["one"], Axis::new("y", "")),
                Chart::cycles_by_stage("stages", ["one"]),
            ] {
                let chart = chart.series(Series::points("s", [(0.0, value)]));
                let svg = draw(&chart, NARROW).unwrap_or_else(|| panic!("{} of {value}", chart.title));
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{} of {value}", chart.title);
            }
        }
    }

    #[test]
    fn what_was_not_measured_is_drawn_otherwise() {
        let chart =
            |series| draw(&Chart::throughput_by_size("t", "Mpps", [64, 128]).series(series), WIDE).unwrap();
        let circles = |svg: &str| svg.matches("<circle").count();
        let measured = chart(Series::measured("m", [Some(1.0), Some(2.0)]));
        let document = chart(Series::document("d", [Some(1.0), Some(2.0)]));
        let calculated = chart(Series::calculated("c", [1.0, 2.0]));
        assert_eq!([&measured, &document, &calculated].map(|svg| circles(svg)), [2, 2, 0]);
        let hollow = |svg: &str| svg.split("<circle").skip(1).all(|circle| circle.contains("fill=\"none\""));
        assert!(!hollow(&measured) && hollow(&document));
    }

    #[test]
    fn names_are_escaped_and_nothing_is_drawn_of_nothing() {
        let chart = Chart::bars("b", ["<script>&"], Axis::new("", ""));
        assert!(draw(&chart, WIDE).is_none());
        let svg = draw(&chart.series(Series::measured("s", [Some(1.0)])), WIDE).unwrap();
        assert!(svg.contains("&lt;script&gt;&amp;") && !svg.contains("<script"), "{svg}");
    }
}
