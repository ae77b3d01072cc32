"""What lies where in a run folder: the one place that knows, for whoever writes one and whoever reads it.

::

    DIR/run.json                       what was run; may be missing
    DIR/job.json                       for which job the folder was made
    DIR/worlds/<id>                    empty: what the processes have in common with those of other folders of their job
    DIR/starts/<name>.json             how a start of a job went that is started on several hosts
    DIR/starts/<name>/...              what such a start recorded, where it came over the network
    DIR/records/<host>-<pid>-<n>.rec   one per recorded process, see :mod:`scalana.runtime.record.format`
    DIR/records/<host>-<pid>-0.note    why a process could not write one
    DIR/records/<host>-<pid>-<n>.models.json   the modules of torch that a process called
    DIR/records/<host>-<pid>-<n>.operators.json   the operators that these ran on few steps
    DIR/launches/<host>-<pid>-0        other hosts on which a launcher or a cluster was to start processes, one a line
    DIR/report.txt, DIR/report.json    the report, once there is one
    DIR/hangs.json                     when the job hung, as far as somebody followed it
    DIR/native-frames.json             functions and lines of native code, for machines that lack its binaries
    DIR/launcher.env                   what a launcher is to set on other hosts, while the job runs
    DIR/mpi/                           what was compiled for the job, where it could lie nowhere else
    DIR/attach/                        what ``scalana attach --record`` has processes of the job run

``_core/record/run_layout.h`` has the same names for processes without Python; a test compares them.
"""

from __future__ import annotations

import os

from scalana.runtime.typed import Mapping, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    Folder = str | os.PathLike[str]

RECORDS, RECORD, NOTE, MODELS, OPERATORS = "records", ".rec", ".note", ".models.json", ".operators.json"
RUN_VARIABLE, RATE_VARIABLE, BUDGET_VARIABLE = "SCALANA_RUN_DIR", "SCALANA_RATE_HZ", "SCALANA_BUDGET_BYTES"
"""In the environment of a job: the folder of its run, samples a second, bytes of a record at most."""
JOB_VARIABLE = "SCALANA_JOB"
"""Likewise: what all that one ``scalana run`` starts has in common, on whichever host."""
PRELOAD_VARIABLE = "SCALANA_PRELOAD"
"""Likewise: what a rank that a launcher may start on another host is to preload, if that host has it."""
WITHOUT_MPI = "MPI calls are not recorded on"
"""How a note on a host that does not have it begins."""
PASSED_ON_VARIABLE = "PYTHON_SCALANA"
"""Likewise: all of these in one."""
NATIVE_VARIABLE = "SCALANA_NATIVE"
"""Likewise: number of a process that is recorded already, a program of MPI that initialises Python after MPI."""
WORLDS = "worlds"
LAUNCHES = "launches"
DEFAULT_RATE_HZ = 200.0
DEFAULT_BUDGET_BYTES = 64 << 20
_INFO, _JOB, _STARTS, _START = "run.json", "job.json", "starts", ".json"
_REPORTS = {"text": "report.txt", "json": "report.json", "timeline": "timeline.svg"}


def info_file(folder: Folder) -> str:
    """Where it says what was run."""
    return os.path.join(folder, _INFO)


def job_file(folder: Folder) -> str:
    """Where it says for which job the folder was made."""
    return os.path.join(folder, _JOB)


def start_file(folder: Folder, name: str) -> str:
    """Where one of several starts of a job says how it went."""
    return os.path.join(folder, _STARTS, name + _START)


def start_folder(folder: Folder, name: str) -> str:
    """The run folder of a start whose records came over the network."""
    return os.path.join(folder, _STARTS, name)


def note_world(folder: Folder, world: str) -> None:
    """Leave in a run folder what its processes have in common with those of their job in other folders.

    Raises:
        OSError: it cannot be written.
    """
    os.makedirs(os.path.join(folder, WORLDS), exist_ok=True)
    os.close(os.open(os.path.join(folder, WORLDS, world), os.O_WRONLY | os.O_CREAT, 0o666))


def worlds(folder: Folder) -> list[str]:
    """What was left by :func:`note_world`."""
    try:
        return sorted(os.listdir(os.path.join(folder, WORLDS)))
    except OSError:
        return []


def note_launch(folder: Folder, process: str, hosts: Sequence[str]) -> None:
    """Leave in a run folder on which other hosts a process, by :func:`process_name`, starts others.

    Raises:
        OSError: it cannot be written.
    """
    os.makedirs(os.path.join(folder, LAUNCHES), exist_ok=True)
    with open(os.path.join(folder, LAUNCHES, f"{process}-0"), "a", encoding="utf-8") as file:
        file.writelines(f"{host}\n" for host in hosts)


def launched_hosts(folder: Folder) -> list[str]:
    """The other hosts on which launchers were to start processes, as far as their command lines name them."""
    found: dict[str, None] = {}
    try:
        names = sorted(os.listdir(os.path.join(folder, LAUNCHES)))
    except OSError:
        return []
    for name in names:
        with open(os.path.join(folder, LAUNCHES, name), encoding="utf-8", errors="replace") as file:
            found.update(dict.fromkeys(file.read().split()))
    return list(found)


def start_names(folder: Folder) -> list[str]:
    """The names of the starts of a job, if it has several."""
    try:
        names = os.listdir(os.path.join(folder, _STARTS))
    except OSError:
        return []
    return [name.removesuffix(_START) for name in sorted(names) if name.endswith(_START)]


def report_file(folder: Folder, form: str) -> str:
    """Where the report of a form, ``text``, ``json`` or ``timeline``, is kept."""
    return os.path.join(folder, _REPORTS[form])


def frames_file(folder: Folder) -> str:
    """Where functions and lines of native code are kept, as far as they were known where the job ran."""
    return os.path.join(folder, "native-frames.json")


def hangs_file(folder: Folder) -> str:
    """Where it stands when the job hung."""
    return os.path.join(folder, "hangs.json")


def hangs(folder: Folder) -> list[dict[str, object]]:
    """When the job hung: ``since_unix_s`` and ``until_unix_s`` of each hang, without the latter if it did not end."""
    import json

    try:
        with open(hangs_file(folder), encoding="utf-8") as file:
            found = json.load(file)["hangs"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [hang for hang in found if isinstance(hang, dict)] if isinstance(found, list) else []


def made_folder(folder: Folder, kind: str) -> str:
    """Where things may lie that were compiled for a job, such as its recorder for ``mpi``."""
    return os.path.join(folder, kind)


def make_records(folder: Folder) -> None:
    """Make the folder of the records, and the run folder.

    Raises:
        OSError: it cannot be made.
    """
    os.makedirs(os.path.join(folder, RECORDS), exist_ok=True)


def process_name(host: str, pid: int) -> str:
    """What the files of a process begin with."""
    return f"{host.replace('/', '_')}-{pid}"


def new_record(folder: Folder, host: str, pid: int) -> str:
    """The next record of a process: it has several if it stops recording and starts again."""
    stem = os.path.join(folder, RECORDS, process_name(host, pid))
    number = 0
    while os.path.exists(f"{stem}-{number}{RECORD}"):
        number += 1
    return f"{stem}-{number}{RECORD}"


def note_file(folder: Folder, host: str, pid: int) -> str:
    """Where a process says why it has no record."""
    return os.path.join(folder, RECORDS, f"{process_name(host, pid)}-0{NOTE}")


def models_file(record: Folder) -> str:
    """Where it stands which modules the process of a record called."""
    return os.fspath(record).removesuffix(RECORD) + MODELS


def operators_file(record: Folder) -> str:
    """Where it stands which operators the modules of that process ran."""
    return os.fspath(record).removesuffix(RECORD) + OPERATORS


def record_files(folder: Folder) -> list[str]:
    """All records, by name; those that came over the network last."""
    return _files(folder, RECORD)


def note_files(folder: Folder) -> list[str]:
    """What processes without a record say, by name."""
    return _files(folder, NOTE)


def notes(folder: Folder) -> list[str]:
    """What processes left behind that could not open a record, each note once."""
    found: dict[str, None] = {}
    for name in note_files(folder):
        try:
            with open(name, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        lines = [line for line in text.splitlines() if line.strip()]
        found.update(dict.fromkeys(lines or ["a record and its error could not be written: the disk may be full"]))
    return list(found)


def stem_of(record: str) -> str:
    """The name of a record without its end: what another record may say that it descends from."""
    return record.removesuffix(RECORD)


def _files(folder: Folder, end: str) -> list[str]:
    came = [start_folder(folder, name) for name in start_names(folder)]
    found = []
    for records in (os.path.join(one, RECORDS) for one in (folder, *came)):
        try:
            names = os.listdir(records)
        except OSError:
            continue
        found += [os.path.join(records, name) for name in sorted(names) if name.endswith(end)]
    return found


def write_info(folder: Folder, info: Mapping[str, object]) -> None:
    """Write what was run, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    write_json(info_file(folder), info)


def write_json(target: str, content: Mapping[str, object]) -> None:
    """Write a JSON file, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    import json  # here: a job waits for all that is loaded before it

    write_text(target, json.dumps(dict(content), indent=1) + "\n")


def write_text(target: str, text: str) -> None:
    """Write a text file, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    temporary = f"{target}.{os.getpid()}"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, target)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
