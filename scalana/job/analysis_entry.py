"""Start of an analysis in another environment: its Python runs this file, of the scalana that recorded.

The environment need not have scalana: the package that this file belongs to is loaded, and nothing else that is
installed where it is. Only if that package came without the analysis, as the recorder's published wheel does, are the
sources of the analysis those that this Python has, of the same version.
"""

from __future__ import annotations

import os
import sys
from importlib import util


def _load_package() -> None:
    """Make ``scalana`` the package of this file, whatever this Python would import by that name."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    package = os.path.dirname(here)
    spec = util.spec_from_file_location(
        "scalana", os.path.join(package, "__init__.py"), submodule_search_locations=[package]
    )
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules["scalana"] = module
    spec.loader.exec_module(module)


def main(arguments: list[str]) -> int:
    """Run a command, or report a run that has just ended."""
    _load_package()
    from scalana import analysis_home, console

    console.open_streams()
    analysis_home.find_sources()
    if lack := analysis_home.lacks_here():
        console.complain(lack)
        return 1
    if arguments[:1] == [analysis_home.OF_RUN]:
        from scalana.job import reporting

        return reporting.report_of_run(*arguments[1:])
    if arguments[:1] == [analysis_home.FRAMES]:
        from scalana.job import reporting

        return reporting.keep_frames(*arguments[1:])
    from scalana.cli import main as run_command

    return run_command(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
