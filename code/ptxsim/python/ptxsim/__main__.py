"""The command ptxsim, also as python -m ptxsim."""

import os
import sys

from ptxsim.native import folder


def main() -> None:
    try:
        command = folder() / "ptxsim"
        os.execv(command, [str(command), *sys.argv[1:]])
    except (RuntimeError, OSError) as error:
        sys.exit(f"ptxsim: {error}")


if __name__ == "__main__":
    main()
