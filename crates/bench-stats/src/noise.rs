//! The noise floor: how much identical cells differ from round to round.
//!
//! Invariant: without a repeated cell there is no noise floor; it is never assumed.

use crate::{interval, throughput::Throughput};

/// The relative spread of one cell between rounds, pooled over all cells that have at least two:
/// the root of the mean variance of log throughput, weighted by degrees of freedom.
///
/// 0.012 means that two rounds of the same cell differ by about 1.2 %. `None` when no cell has
/// two rounds.
pub fn noise_floor<'a>(cells: impl IntoIterator<Item = &'a [Throughput]>) -> Option<f64> {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for rounds in cells {
        let logs: Vec<f64> = rounds
            .iter()
            .filter_map(|round| round.ggas_per_second())
            .map(f64::ln)
            .collect();
        if let Some(deviation) = interval::standard_deviation(&logs) {
            let degrees = (logs.len() - 1) as f64;
            squares += deviation.powi(2) * degrees;
            freedom += degrees;
        }
    }
    (freedom > 0.0).then(|| (squares / freedom).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cells: &[&[u64]], expected: Option<f64>) {
        let cells: Vec<Vec<Throughput>> = cells
            .iter()
            .map(|times| {
                times
                    .iter()
                    .map(|time| Throughput::new(1_000_000, *time))
                    .collect()
            })
            .collect();
        let found = noise_floor(cells.iter().map(Vec::as_slice));
        match (found, expected) {
            (Some(found), Some(expected)) => assert!((found - expected).abs() < 1e-6, "{found}"),
            _ => assert_eq!(found, expected),
        }
    }

    #[test]
    fn pools_the_spread_of_repeated_cells() {
        check(&[], None);
        check(&[&[1000], &[2000]], None);
        check(&[&[1000, 1000], &[500, 500]], Some(0.0));
        // Two rounds a factor e^0.02 apart have a log deviation of 0.02 / sqrt(2).
        let apart = (1e6 * 0.02f64.exp()).round() as u64;
        check(&[&[1_000_000, apart], &[7]], Some(0.02 / 2f64.sqrt()));
    }
}
