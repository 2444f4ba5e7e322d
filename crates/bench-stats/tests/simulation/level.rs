//! A simulated gas level: visits with the noise of small machines.
//!
//! A simulated pass replays blocks of unequal cost. Its noise is that of small machines: a restart
//! moves all blocks of a visit by 0.75 %, a round moves all its visits by 2 %, and block times carry
//! correlated noise of 3 % with a coefficient of 0.4 between neighbours: 1 % a visit, all in all. A machine
//! can be worse than that: it wanders or drifts from visit to visit, some visits are disturbed, and
//! restarts differ with heavy tails.
//!
//! Invariant: a seed determines every visit.

use bench_stats::{SplitMix, Throughput};

const BLOCKS: usize = 50;
const RESTART: f64 = 0.0075;
const DRIFT: f64 = 0.02;
const BLOCK: f64 = 0.03;
const CORRELATION: f64 = 0.4;
/// How much slower a disturbed visit is, at least and at most.
const DISTURBED: (f64, f64) = (0.05, 0.05);
/// Variance of Student's t with three degrees of freedom.
const T3_VARIANCE: f64 = 3.0;

/// Gas and nanoseconds of the blocks of a visit.
pub(crate) type Blocks = Vec<(u64, u64)>;

/// One gas level of a simulated sweep. The last cell is the A/A control of the first.
pub(crate) struct Level {
    /// Relative slowness of each cell, 1.03 being 3 % slower.
    pub(crate) slowness: Vec<f64>,
    /// Noise of restarts and blocks, relative to the usual one.
    pub(crate) noise: f64,
    /// Noise of each cell's restarts, relative to that.
    pub(crate) restless: Vec<f64>,
    /// Whether restarts differ as Student's t with three degrees of freedom does, at the same variance.
    pub(crate) heavy_tails: bool,
    costs: Vec<f64>,
    /// How far the machine wanders from one visit to the next, relative, and how far it has come.
    pub(crate) wander: f64,
    wandered: f64,
    /// How much slower each visit is than the one before it.
    pub(crate) drift: f64,
    /// How far a cell is from another one that is the same, for the whole sweep, relative: by where the
    /// machine happened to put its files, say.
    pub(crate) placement: f64,
    places: Vec<f64>,
    /// Part of the visits that are disturbed, for the whole visit.
    pub(crate) disturbed: f64,
    /// How much slower such a visit is, at least and at most.
    pub(crate) disturbance: (f64, f64),
    random: SplitMix,
}

impl Level {
    pub(crate) fn new(seed: u64, slowness: &[f64]) -> Self {
        let mut random = SplitMix::new(seed);
        let costs = (0..BLOCKS).map(|_| (0.2 * random.normal()).exp()).collect();
        let mut slowness = slowness.to_vec();
        slowness.push(slowness[0]);
        Self {
            places: slowness.iter().map(|_| random.normal()).collect(),
            placement: 0.0,
            noise: 1.0,
            heavy_tails: false,
            restless: vec![1.0; slowness.len()],
            slowness,
            costs,
            wander: 0.0,
            wandered: 0.0,
            drift: 0.0,
            disturbed: 0.0,
            disturbance: DISTURBED,
            random,
        }
    }

    pub(crate) fn compared(&self) -> usize {
        self.slowness.len() - 1
    }

    /// One round: gas and nanoseconds of every block of every cell, visited in random order.
    pub(crate) fn round(&mut self) -> Vec<Vec<(u64, u64)>> {
        let cells: Vec<usize> = (0..self.slowness.len()).collect();
        let mut visits = self.round_of(&cells, usize::MAX);
        visits.sort_by_key(|(cell, _)| *cell);
        visits.into_iter().map(|(_, blocks)| blocks).collect()
    }

    /// The first so many visits of a round of some cells, in the order in which they are made.
    pub(crate) fn round_of(&mut self, cells: &[usize], visits: usize) -> Vec<(usize, Blocks)> {
        let drift = DRIFT * self.random.normal();
        let mut order = cells.to_vec();
        self.random.shuffle(&mut order);
        order.truncate(visits);
        let visit = |cell: usize| {
            self.wandered += self.drift + self.wander * self.random.normal();
            let machine = drift + self.wandered + self.disturbance();
            (cell, self.visit(cell, machine))
        };
        order.into_iter().map(visit).collect()
    }

    /// What disturbs a visit; nothing, mostly.
    fn disturbance(&mut self) -> f64 {
        if self.random.unit() >= self.disturbed {
            return 0.0;
        }
        let (least, most) = self.disturbance;
        least + (most - least) * self.random.unit()
    }

    /// What a restart adds, in standard deviations.
    fn restart(&mut self) -> f64 {
        let normal = self.random.normal();
        if !self.heavy_tails {
            return normal;
        }
        let squares: f64 = (0..3).map(|_| self.random.normal().powi(2)).sum();
        normal / (squares / 3.0).sqrt() / T3_VARIANCE.sqrt()
    }

    /// One visit while everything is slower by this part.
    fn visit(&mut self, cell: usize, machine: f64) -> Blocks {
        let slowness = self.slowness[cell];
        let visit = machine
            + self.placement * self.places[cell]
            + self.noise * self.restless[cell] * RESTART * self.restart();
        let step = self.noise * BLOCK * (1.0 - CORRELATION * CORRELATION).sqrt();
        let mut noise = 0.0;
        let random = &mut self.random;
        let block = |cost: &f64| {
            noise = CORRELATION * noise + step * random.normal();
            let time = 10e6 * cost * slowness * (visit + noise).exp();
            (10_000_000, time as u64)
        };
        self.costs.iter().map(block).collect()
    }
}

pub(crate) fn throughput(blocks: &[(u64, u64)]) -> Throughput {
    blocks
        .iter()
        .map(|(gas, time)| Throughput::new(*gas, *time))
        .sum()
}

/// Visits of a level by cell.
pub(crate) type Visits = Vec<Vec<(u64, Throughput)>>;
