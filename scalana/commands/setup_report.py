"""``scalana setup-report``: an environment of its own for the analysis."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from scalana import console
from scalana.errors import CommandError, UsageError


class SetupReportCommand:
    """Make an environment for the analysis, apart from that of your jobs."""

    example = """\
examples:
  scalana setup-report
  scalana setup-report --python python3.12
  scalana setup-report -- --no-index --find-links wheels/

The environment of a job needs the recorder alone. This command makes another one in the cache folder, by venv and pip,
with the packages of the analysis. From then on, scalana run and scalana report use it wherever their own environment
lacks them. Options behind -- go to pip install.
"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.usage = "scalana setup-report [--python PYTHON] [--force] [-- PIP-OPTIONS ...]"
        parser.add_argument(
            "--python", metavar="PYTHON", help="the Python to make it with, 3.10 or newer (default: this one)"
        )
        parser.add_argument("--force", action="store_true", help="replace the environment if it exists")

    def run(self, args: argparse.Namespace) -> int:
        """Make the environment, if there is none yet."""
        from scalana import analysis_home

        python = analysis_home.python_of(args.python, "--python") if args.python else sys.executable
        folder = analysis_home.environment_folder(os.environ)
        if analysis_home.is_complete(folder) and not args.force:
            console.complain(f"the analysis is ready in {folder} (--force replaces it)")
            return 0
        if trouble := analysis_home.too_old(python):
            raise UsageError(f"--python: {trouble}")
        try:
            made = analysis_home.make_environment(folder, python, args.rest or [])
        except subprocess.CalledProcessError as error:
            raise CommandError(
                f"could not make {folder}: {os.path.basename(error.cmd[0])} {' '.join(error.cmd[1:4])} ... failed, see "
                "above. It needs the module venv (Debian: apt install python3-venv) and the packages of PyPI (without "
                "internet: scalana setup-report -- --no-index --find-links FOLDER)"
            ) from error
        except OSError as error:
            raise CommandError(
                f"cannot write {error.filename or folder}: {error.strerror or error} (SCALANA_CACHE names another "
                "folder)"
            ) from error
        console.complain(f"the analysis is ready: scalana run and scalana report use {made}")
        return 0
