"""Variants of a preset: what each departure from it buys. Runs and records all of them.

    python -m studies.ablations torus [--seeds 3] [--parallel 2]
    python -m studies.ablations torus-field
    python -m studies.ablations homnist --data-dir MNIST

Runs lie under runs/ablations/ and are resumed if they were interrupted; records go to results/<experiment>-ablations/.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

NISO = [sys.executable, "-m", "niso"]

PUBLISHED = "--eigenvalues sorted --eigenfunctions polar --norm l1 --multiplicity 0.3 --multiplicity-decay 1"
PLAIN_ADAM = "--learning-rate 7e-3 --weight-decay 1e-4 --eigenfunction-beta2 0.999 --eigenfunction-eps 1e-8"
ONE_RATE = "--eigenvalue-learning-rate None --mass-learning-rate None --eigenvalues-frozen 0"
ABSOLUTE = "--relative-equivariance None"
LATE = "--eigenvalue-noise-decay None"
COMMON = {
    "torus": "--steps 8000 --warmup-steps 800 --learning-rate 0.02",
    "torus-field": "--preset field",
    "homnist": "--preset small --rank 32 --conv.latent-channels 32 --steps 500 --conv.channels 64 --conv.patch 4 "
    "--conv.stem-channels 64 --precision bf16-mixed --compile",
}
VARIANTS = {
    "torus": {
        "default": "",
        "published-at-this-budget": f"{PUBLISHED} {PLAIN_ADAM} {ONE_RATE}",
        "published-with-shifted-eigenvalues": f"{PUBLISHED} {PLAIN_ADAM} --eigenvalues shifted "
        "--multiplicity-decay 0.003",
        "sorted-eigenvalues": "--eigenvalues sorted --eigenvalue-learning-rate 0.03 --eigenvalues-frozen 0",
        "slow-eigenvalues": "--eigenvalue-learning-rate 0.03",
        "polar-eigenfunctions": "--eigenfunctions polar --learning-rate 0.01 --eigenfunction-beta2 0.999",
        "l1-norm": "--norm l1 --multiplicity 0.3",
        "constant-multiplicity": "--multiplicity-decay 1",
        "eigenvalues-never-frozen": "--eigenvalues-frozen 0",
        "no-spectral-dropout": "--spectral-dropout 0",
    },
    "torus-field": {
        "no-noise": "--eigenvalue-noise 0",
        "noise-0.3": "--eigenvalue-noise 0.3",
        "noise-decay-0.001": "--eigenvalue-noise-decay 1e-3",
        "late-decay-noise-0.3": f"--eigenvalue-noise 0.3 {LATE}",
        "late-decay-noise-0.6": LATE,
        "late-decay-noise-0.3-equivariance-4": f"--eigenvalue-noise 0.3 --equivariance 4 {LATE}",
        "reconstruction-alone": "--equivariance 0",
        "mean-square-no-noise": "--norm l2 --multiplicity 0.04 --equivariance 0 --eigenvalue-noise 0 "
        "--steps 6000 --warmup-steps 600",
    },
    "homnist": {
        **{f"group-{n}-others": f"--method niso-group --group {n}" for n in (2, 4, 8)},
        **{f"group-{n}-joint": f"--method niso-group --group {n} --no-leave-one-out" for n in (2, 4, 8)},
        "group-4-absolute": f"--method niso-group {ABSOLUTE}",
        "triplet": "--method niso-triplet",
        "triplet-absolute": f"--method niso-triplet {ABSOLUTE}",
        "pairs": "--method niso",
        "pairs-no-multiplicity": "--method niso-no-multiplicity",
        "pairs-no-multiplicity-degenerate": "--method niso-no-multiplicity --eigenvalues cumulative",
    },
}


def run(experiment: str, variant: str, seed: int, more: list[str]) -> None:
    """Run or resume one variant, and record it."""
    out = Path("runs/ablations") / f"{experiment}-{variant}-seed{seed}"
    if (out / "config.yaml").exists():
        command = ["resume", str(out)]
    else:
        flags = [*COMMON[experiment].split(), *VARIANTS[experiment][variant].split(), *more]
        command = ["run", experiment.partition("-")[0], *flags, "--seed", str(seed), "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    for words in (command, ["record", str(out), "--to", f"results/{experiment}-ablations/{variant}"]):
        done = subprocess.run([*NISO, *words], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"niso {' '.join(words)}: {done.stderr}")
    print(f"{variant} seed {seed}: done", flush=True)


def main() -> None:
    """Parse the arguments and run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=VARIANTS)
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0 … N − 1 of every variant")
    parser.add_argument("--parallel", type=int, default=2, help="processes side by side, of one thread each")
    options, more = parser.parse_known_args()  # what is left goes to niso run
    work = [(variant, seed) for seed in range(options.seeds) for variant in VARIANTS[options.experiment]]
    with ThreadPoolExecutor(options.parallel) as pool:
        list(pool.map(lambda item: run(options.experiment, *item, more), work))


if __name__ == "__main__":
    main()
