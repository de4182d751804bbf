"""The play, in a process to be traced: `python -m tests.kill.powered HOME`."""

import sys
from pathlib import Path

from tests.kill.play import Witness, fitted, play, run

if __name__ == "__main__":
    home = Path(sys.argv[1])
    with fitted():
        run(play, home / "disk" / "store", Witness(home / "witness"))
