//! Figures as people read them.
//!
//! Invariant: no figure is finer than what is known of it.

/// Two digits of a half width are shown when they are at most this, else one.
const TWO_DIGITS_TO: f64 = 3.0;

/// Digits of a figure of which no interval is known.
const DIGITS_ALONE: i32 = 2;

/// The decimal place that figures are rounded to: the power of ten of their last digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(i32);

impl Place {
    /// That of figures known to within ± `half`.
    pub(crate) fn within(half: f64) -> Self {
        Self::digits(half, 1 + i32::from(leading(half) < TWO_DIGITS_TO))
    }

    /// That of the last of so many digits of a figure.
    pub(crate) fn digits(figure: f64, digits: i32) -> Self {
        let power = figure.abs().log10().floor();
        let power = if power.is_finite() { power as i32 } else { 0 };
        Self(power + 1 - digits)
    }

    /// That of a figure between these ends; of one whose interval is not known, that of its second digit.
    pub(crate) fn of(figure: f64, ends: Option<(f64, f64)>) -> Self {
        match ends {
            Some((low, high)) if high > low => Self::within((high - low) / 2.0),
            _ => Self::digits(figure, DIGITS_ALONE),
        }
    }

    /// The finer of both.
    pub(crate) fn or_finer(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }

    /// The figure, with a proper minus.
    pub(crate) fn text(self, figure: f64) -> String {
        let rounded = self.round(figure);
        let decimals = usize::try_from(-self.0).unwrap_or(0);
        format!("{rounded:.decimals$}").replace('-', "−")
    }

    /// What the digits down to this place say.
    pub(crate) fn round(self, figure: f64) -> f64 {
        let unit = 10f64.powi(self.0);
        // Adding nothing makes a zero positive.
        (figure / unit).round() * unit + 0.0
    }

    /// The same with its sign in any case.
    pub(crate) fn signed(self, figure: f64) -> String {
        let text = self.text(figure);
        if text.starts_with('−') {
            text
        } else {
            format!("+{text}")
        }
    }
}

/// A figure divided by the power of ten below it.
fn leading(figure: f64) -> f64 {
    figure.abs() / 10f64.powf(figure.abs().log10().floor())
}

/// How many times its lower end the upper end of an interval may be for both to be shown.
const MOST_TOLD: f64 = 100.0;

/// Whether an interval of a throughput or a ratio is worth showing: two visits can give one that spans
/// everything.
pub(crate) fn is_telling((low, high): (f64, f64)) -> bool {
    high <= MOST_TOLD * low
}

/// A throughput with the half width of its interval: `0.483 ±0.007`.
pub(crate) fn with_half_width(figure: f64, ends: Option<(f64, f64)>) -> String {
    let Some((low, high)) = ends else {
        return Place::of(figure, None).text(figure);
    };
    if !is_telling((low, high)) {
        return format!("{} ±?", Place::digits(figure, 1).text(figure));
    }
    let half = (high - low) / 2.0;
    let place = Place::of(figure, ends);
    format!("{} ±{}", place.text(figure), place.text(half))
}

/// A duration: `6m33s`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match (whole / 3_600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s:02}s"),
        (h, m, _) => format!("{h}h{m:02}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_end_where_their_interval_does() {
        for (figure, ends, expected) in [
            (0.48321, Some((0.47621, 0.49021)), "0.483 ±0.007"),
            (0.64612, Some((0.62112, 0.67112)), "0.646 ±0.025"),
            (0.25412, Some((0.136, 0.475)), "0.25 ±0.17"),
            (0.23812, Some((0.01, 0.94)), "0.2 ±0.5"),
            (0.29312, Some((0.0004, 2_070.0)), "0.3 ±?"),
            (0.99999, Some((0.99989, 1.00009)), "0.99999 ±0.00010"),
            (1234.5, Some((1034.5, 1434.5)), "1230 ±200"),
            (0.48321, None, "0.48"),
            (48.321, None, "48"),
            (0.0, None, "0.0"),
        ] {
            assert_eq!(with_half_width(figure, ends), expected);
        }
    }

    #[test]
    fn signs_are_shown_and_nothing_is_negative_zero() {
        let place = Place::within(0.6);
        assert_eq!(place.signed(-0.04), "+0.0");
        assert_eq!(place.signed(-12.34), "−12.3");
        assert_eq!(Place::within(4.0).signed(-30.4), "−30");
    }

    #[test]
    fn durations_have_two_units() {
        for (seconds, expected) in [(0.4, "0s"), (59.6, "1m00s"), (393.0, "6m33s")] {
            assert_eq!(duration(seconds), expected);
        }
        assert_eq!(duration(7_265.0), "2h01m");
    }
}
