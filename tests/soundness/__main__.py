"""Run the soundness campaign.

    python -m tests.soundness [--nets 5000] [--certified 90] [--seconds 60] [--seed 0]
    python -m tests.soundness --seed 0 --net 1234          # one net again, to look at an escape
    python -m tests.soundness --seed 0 --certificate 12    # the certificates of one net again

The exit code is 1 if any value escaped, a certificate broke, a trap was believed, a net was refused
by mistake, or a full run left out a layer kind.
"""

import argparse
import datetime
import json
import shlex
import sys
import warnings
from pathlib import Path

import torch
from rich.console import Console

from tests.soundness.bounds import check_net
from tests.soundness.campaign import run_campaign
from tests.soundness.certificates import check_certificates

NUM_NETS, NUM_CERTIFIED = 5200, 90


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nets", type=int, default=NUM_NETS)
    parser.add_argument("--certified", type=int, default=NUM_CERTIFIED)
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--net", type=int, default=None, help="check one net only")
    parser.add_argument("--certificate", type=int, default=None, help="check one net's only")
    parser.add_argument("--out", type=Path, default=None, help="a file for the counts")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="Using padding='same'")
    torch.set_num_threads(1)
    console = Console()
    if options.net is not None or options.certificate is not None:
        if options.net is not None:
            found = check_net(options.seed, options.net)
            wrong = bool(found.escapes or found.refused)
        else:
            found = check_certificates(options.seed, options.certificate)
            wrong = bool(found.broken)
        console.print(found)
        return int(wrong)
    campaign = run_campaign(
        seed=options.seed,
        num_nets=options.nets,
        num_certified=options.certified,
        seconds=options.seconds,
        processes=options.processes,
        progress=True,
    )
    campaign.show(console)
    is_complete = options.seconds is not None or not campaign.missing
    if not is_complete:
        console.print(f"no net had {', '.join(campaign.missing)}")
    if options.out is not None:
        header = {
            "command": f"python -m tests.soundness {shlex.join(sys.argv[1:])}",
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        }
        options.out.write_text(json.dumps(header | campaign.to_dict(), indent=1) + "\n")
    return int(not (campaign.is_sound and is_complete))


if __name__ == "__main__":
    sys.exit(main())
