//! `duramen-lab`: for people who study file systems.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use lab::figure::{Figure, table};
use lab::picture::Picture;
use lab::{acacia, calaveras, softupdates};

/// Runs the experiments of the papers, and puts what was published beside what they give.
#[derive(Debug, Parser)]
#[command(name = "duramen-lab", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Every experiment of a paper, on a model of its hardware
    Paper {
        /// Which
        name: Paper,
        /// Print a list for programs, not a table
        #[arg(long)]
        json: bool,
        /// Write the paper's pictures into this folder, too
        #[arg(long, value_name = "DIR")]
        svg: Option<PathBuf>,
        /// Fail when a figure is not as published, and nothing says why
        #[arg(long)]
        check: bool,
        /// The small form: of soft updates a twentieth of the torture test, of Acacia 240 requests
        /// of each size and not 3000
        #[arg(long)]
        short: bool,
        /// What all chance follows from
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Paper {
    /// "Metadata Logging in an NFS Server", 1995
    Calaveras,
    /// The alpha distribution of soft updates
    Softupdates,
    /// "A Synchronous File Server for Distributed File Systems", 1992
    Acacia,
}

/// Results of a paper's experiments.
struct Found {
    figures: Vec<Figure>,
    pictures: Vec<Picture>,
    /// Figures that are not as published.
    failures: Vec<String>,
}

impl Paper {
    fn results(self, short: bool, seed: u64) -> Found {
        let tell = |experiment: &str| eprintln!("{experiment} ...");
        match self {
            Self::Calaveras => {
                let results = calaveras::run(seed, &tell);
                let others = results.figures.iter().filter(|figure| !figure.is_accounted_for());
                let failures = others.map(|figure| figure.figure.clone()).collect();
                Found { figures: results.figures, pictures: results.pictures, failures }
            }
            Self::Softupdates => {
                let results = softupdates::run(seed, short, &tell);
                let failures = results.failures();
                Found { figures: results.figures, pictures: results.pictures, failures }
            }
            Self::Acacia => {
                let acacia::Results { figures, pictures, failures } =
                    acacia::run(seed, short, &tell);
                Found { figures, pictures, failures }
            }
        }
    }
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let Command::Paper { name, json, svg, check, short, seed } = command;
    match run(json, svg, check, || name.results(short, seed)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("duramen-lab: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(
    json: bool,
    svg: Option<PathBuf>,
    check: bool,
    results: impl FnOnce() -> Found,
) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(folder) = &svg {
        // Before the work, so that a folder that cannot be made is reported immediately.
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
    }
    let Found { figures, pictures, failures } = results();
    for picture in svg.iter().flat_map(|_| &pictures) {
        picture.write(svg.as_deref().expect("it is asked for"))?;
    }
    print!("{}", said(&figures, json)?);
    if failures.is_empty() || !check {
        Ok(())
    } else {
        Err(format!("not as published: {}", failures.join("; ")).into())
    }
}

fn said(figures: &[Figure], json: bool) -> serde_json::Result<String> {
    if json { Ok(serde_json::to_string_pretty(figures)? + "\n") } else { Ok(table(figures)) }
}
