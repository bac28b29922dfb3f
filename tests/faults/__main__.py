"""Run the campaign against runs: signals at random moments, and full disks.

    python -m tests.faults [--kills 100] [--terms 20] [--disks 40] [--seed 0] [--out FILE]

Disks are small mounts where these are allowed. With --short, or where they are not, the size of
files is limited instead.

The exit code is 1 if anything was lost, mixed or different, or if a full disk got no sentence.
"""

import argparse
import datetime
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.faults.campaign import KINDS, run_campaign


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--terms", type=int, default=20)
    parser.add_argument("--disks", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="a file for the counts")
    parser.add_argument("--short", action="store_true", help="mount nothing")
    options = parser.parse_args()
    memory = Path("/dev/shm")  # a disk in memory: a checkpoint need not wait for a real one
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        campaign = run_campaign(
            Path(folder),
            seed=options.seed,
            kills=options.kills,
            terms=options.terms,
            disks=options.disks,
            is_short=options.short,
        )
    counts, console = campaign.to_dict(), Console()
    table = Table("command", *KINDS)
    for name, faults in counts["commands"].items():
        table.add_row(name, *(str(faults[kind]) for kind in KINDS))
    console.print(table)
    for name, count in counts.items():
        if not isinstance(count, dict | list):
            console.print(f"{name}: {count}", highlight=False)
    for text in campaign.failures:
        console.print(f"failed: {text}", markup=False, highlight=False, soft_wrap=True)
    if options.out is not None:
        header = {
            "command": f"python -m tests.faults {shlex.join(sys.argv[1:])}".strip(),
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        }
        options.out.write_text(json.dumps(header | counts, indent=1) + "\n")
    return int(bool(campaign.failures))


if __name__ == "__main__":
    sys.exit(main())
