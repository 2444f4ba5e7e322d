//! What is known of a column of samples: its name, its unit, who tells it, and what a cell makes of it.
//!
//! A kind of measurement declares its samples once, by `columns!`: the type of a sample and the table of its
//! columns, from which follow the file, the parser of engines' logs, the means of a cell and the rows of
//! reports.

use engine_api::metric::Metric;

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Gas.
    Gas,
    /// Things, counted.
    Count,
    /// Nanoseconds.
    Nanoseconds,
}

/// Who tells a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The payload.
    Payload,
    /// The clock of this program.
    Client,
    /// The engine, behind this key in a line of its log.
    Log(Line, &'static str),
}

/// Lines of an engine's log that tell of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// That it was added.
    Block,
    /// That its state root was made.
    Root,
}

/// What is declared of a column beside its name.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// What its values are.
    pub unit: Unit,
    /// Who tells them.
    pub source: Source,
    /// The metric of the same content, where engines export one.
    pub metric: Option<Metric>,
    /// The name for people of its mean over all blocks of a cell, fitting `... per block 3 → 24`; empty where a
    /// mean tells nothing: throughputs are ratios of sums.
    pub label: &'static str,
}

/// A column of samples of type `S`.
#[derive(Debug)]
pub struct Column<S> {
    /// Its name in files and for programs.
    pub name: &'static str,
    /// What is declared of it.
    pub about: About,
    /// Its value in a sample; `None` when nobody told it.
    pub get: fn(&S) -> Option<u64>,
    /// Sets it.
    pub set: fn(&mut S, u64),
}

impl<S> Column<S> {
    /// Its mean; `None` when a sample lacks it, or there is none.
    pub fn mean<'s>(&self, samples: impl IntoIterator<Item = &'s S>) -> Option<f64>
    where
        S: 's,
    {
        let (mut sum, mut count) = (0, 0_u64);
        for sample in samples {
            sum += (self.get)(sample)?;
            count += 1;
        }
        (count > 0).then(|| sum as f64 / count as f64)
    }
}

/// Declares a type of samples, whose fields are the columns of its file in their order: first those that name a
/// payload, then numbers with what is declared of them, which make the table.
macro_rules! columns {
    (
        $(#[$about_type:meta])*
        $sample:ident
        named by { $($(#[$key_doc:meta])* $key:ident: $key_type:ty,)* }
        with { $($(#[$doc:meta])* $name:ident: $value:ty = $about:expr;)* }
    ) => {
        $(#[$about_type])*
        #[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
        pub struct $sample {
            $($(#[$key_doc])* pub $key: $key_type,)*
            $($(#[$doc])* pub $name: $value,)*
        }

        impl $sample {
            /// Every column of numbers, in the order of the file.
            pub const COLUMNS: &[$crate::record::column::Column<Self>] = &[
                $($crate::record::column::Column {
                    name: stringify!($name),
                    about: $about,
                    get: |sample| sample.$name.into(),
                    set: |sample, number| sample.$name = number.into(),
                },)*
            ];
        }
    };
}

pub(crate) use columns;
