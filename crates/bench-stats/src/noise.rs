//! The noise floor: how much identical cells differ.
//!
//! A sweep visits A/A controls: cells that are the same as others but for their names. Whatever makes
//! one differ from its original (the order of visits, the layout of a file, luck) can make any two
//! cells differ, so no difference within that is called one. One control in a few rounds is a single
//! draw, which may happen to be near 0; so the floor is never below what the spread of visits alone
//! makes identical cells differ by on average.
//!
//! Invariant: a floor is measured or missing, never assumed.

use crate::{interval::mean, layout::Layout};

/// What a noise floor is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NoiseFloor {
    /// Relative difference between A/A controls and their originals: the root of the mean square over
    /// controls. 0.012 is 1.2 %. `None` when no control shares two rounds with its original.
    pub observed: Option<f64>,
    /// The relative difference that the spread of visits alone would make identical cells show, averaged
    /// likewise over levels. `None` when no level has two rounds of two cells.
    pub expected: Option<f64>,
}

impl NoiseFloor {
    /// Of the levels of a sweep, each with its A/A controls: the index of a control and that of its
    /// original.
    pub fn of<'a>(levels: impl IntoIterator<Item = (&'a Layout, &'a [(usize, usize)])>) -> Self {
        let (mut observed, mut expected) = (Vec::new(), Vec::new());
        for (layout, controls) in levels {
            let differences = controls
                .iter()
                .map(|(control, original)| layout.differences(*control, *original));
            let shared = differences.filter(|differences| differences.len() > 1);
            observed.extend(shared.map(|differences| mean(&differences).powi(2)));
            expected.extend(layout.chance_square());
        }
        let relative =
            |squares: &[f64]| (!squares.is_empty()).then(|| mean(squares).sqrt().exp_m1());
        Self {
            observed: relative(&observed),
            expected: relative(&expected),
        }
    }

    /// The floor, relative: the larger of the two. `None` when neither is known.
    pub fn relative(&self) -> Option<f64> {
        match (self.observed, self.expected) {
            (Some(observed), Some(expected)) => Some(observed.max(expected)),
            (observed, expected) => observed.or(expected),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Throughput;

    /// Cells by their logarithms, round by round from 1 on.
    fn layout(cells: &[&[f64]]) -> Layout {
        let visit =
            |log: &f64| Throughput::new(1_000_000_000_000_000, (1e15 * (-log).exp()) as u64);
        Layout::new(
            cells
                .iter()
                .map(|logs| (1..).zip(logs.iter().map(visit)).collect::<Vec<_>>()),
        )
    }

    fn floor(levels: &[&[&[f64]]]) -> NoiseFloor {
        let layouts: Vec<Layout> = levels.iter().map(|cells| layout(cells)).collect();
        NoiseFloor::of(layouts.iter().map(|layout| (layout, &[(1, 0)][..])))
    }

    #[test]
    fn is_the_difference_that_identical_cells_show() {
        for (levels, observed) in [
            (vec![], None),
            (vec![&[&[0.0][..], &[0.5]][..]], None),
            (vec![&[&[0.0, 0.0][..], &[0.01, -0.01]][..]], Some(0.0)),
            (
                vec![
                    &[&[0.0, 0.0][..], &[0.03, 0.03]][..],
                    &[&[0.0, 0.0][..], &[-0.04, -0.04]][..],
                ],
                Some(0.00125f64.sqrt().exp_m1()),
            ),
        ] {
            match (floor(&levels).observed, observed) {
                (Some(found), Some(expected)) => {
                    assert!((found - expected).abs() < 1e-9, "{levels:?}: {found}");
                }
                (found, expected) => assert_eq!(found, expected, "{levels:?}"),
            }
        }
    }

    #[test]
    fn a_control_that_happens_to_agree_leaves_what_visits_vary_by() {
        // Means agree; differences by round have a deviation of 0.02 √2, so a visit varies by 0.02.
        let found = floor(&[&[&[0.0, 0.0][..], &[0.02, -0.02]]]);
        assert!(found.observed.unwrap().abs() < 1e-9);
        let expected = 0.02f64.exp_m1();
        assert!((found.expected.unwrap() - expected).abs() < 1e-9);
        assert_eq!(found.relative(), found.expected);
        // A control that differs by more than that is believed.
        let found = floor(&[&[&[0.0, 0.0][..], &[0.12, 0.08]]]);
        assert!((found.relative().unwrap() - 0.1f64.exp_m1()).abs() < 1e-9);
        assert_eq!(floor(&[&[&[0.0][..], &[0.5]]]).relative(), None);
    }
}
