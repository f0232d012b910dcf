"""The command line: ``rnnopt reproduce``, ``list``, ``doctor``, ``paper``."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from pathlib import Path


class _Ended(KeyboardInterrupt):
    """A signal asks the run to end; Ctrl-C is one of them."""

    def __init__(self, number):
        self.number = number


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        """Say what is wrong in one line, with where to look; argparse would print the usage too."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return the exit status: 0, 1 if something failed, 2 if it could not start, 128 + n after signal n."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal may lack the letters of a folder's name
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except _Ended as ended:
        return 128 + ended.number
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # whoever read our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE
    except _cannot_start() as error:
        print(f"rnnopt: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        print(f"rnnopt: {error.strerror or error}{where}", file=sys.stderr)
        return 1


def _cannot_start():
    from rnnopt.devices import DeviceUnavailable
    from rnnopt.reproduce import CannotStart

    return CannotStart, DeviceUnavailable


def _parser():
    from rnnopt import __version__
    from rnnopt.artifacts import PRESETS
    from rnnopt.devices import DEVICES

    parser = _Parser(prog="rnnopt", description="Recurrent networks made fast by exposing parallelism, reproducibly.")
    parser.add_argument("--version", action="version", version=f"rnnopt {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name, run, text):
        added = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        added.set_defaults(run=run)
        return added

    reproduce = command("reproduce", _reproduce, "regenerate every figure and table that is not up to date")
    reproduce.add_argument("--preset", choices=PRESETS, default="laptop", help="how large (default: %(default)s)")
    reproduce.add_argument("--device", type=_device_name, default="auto", metavar="DEVICE",
                           help=f"what to measure on: auto, {', '.join(DEVICES)}, or model:CARD, which predicts (default: %(default)s)")
    reproduce.add_argument("--only", nargs="+", default=[], metavar="ITEM", help="these items alone; the head of a name will do")
    reproduce.add_argument("--list", action="store_true", help="say what would be made and why, and make nothing")
    reproduce.add_argument("--force", action="store_true", help="measure and make anew what is up to date")
    listing = command("list", _list, "list the items, what they make, and whether that is up to date")
    paper = command("paper", _paper, "typeset the paper from what was regenerated")
    for added in (reproduce, listing, paper):
        added.add_argument("--build", metavar="DIR", help="folder for everything generated (default: build in the checkout)")
    importing = command("import-records", _import_records, "put the records of a GPU check under data/recorded")
    importing.add_argument("folder", type=Path, help="what `make gpu-check` left")
    importing.add_argument("--machine", required=True, metavar="NAME", help="short name of the machine, such as h200")
    command("doctor", _doctor, "say what this machine has, what is missing, and how to get it")
    return parser


def _device_name(name):
    from rnnopt.devices import split

    try:
        return name if name == "auto" or split(name) else None
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _project(options):
    from rnnopt import paths
    from rnnopt.reproduce import CannotStart, Project

    try:
        root = paths.checkout_root()
    except FileNotFoundError as error:
        raise CannotStart(error) from None
    named = options.build or os.environ.get("RNNOPT_BUILD")
    build = Path(named).expanduser().absolute() if named else root / "build"
    return Project(root, build, Path(__file__).resolve().parent)


def _reproduce(options):
    from rnnopt import artifacts, reproduce

    only = [name for text in options.only for name in re.split(r"[\s,]+", text) if name]
    project = _project(options)
    if options.list:
        return _print_list(project, reproduce.select(artifacts.ITEMS, only), options.preset, options.device)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores the second, and so should we
            signal.signal(number, _end)
    return reproduce.reproduce(project, artifacts.ITEMS, preset=options.preset, device=options.device, only=only,
                               force=options.force)


def _end(number, _frame):
    raise _Ended(number)


def _list(options):
    from rnnopt import artifacts

    return _print_list(_project(options), artifacts.ITEMS)


def _print_list(project, items, preset=None, device=None):
    from rnnopt.reproduce import listing

    for line in listing.lines(project, items, preset, device):
        print(line)
    return 0


def _import_records(options):
    from rnnopt.gpu_check.importing import import_records

    try:
        made = import_records(options.folder, options.machine)
    except ValueError as error:
        raise _cannot_start()[0](error) from None
    print(f"{len(made)} records in {os.path.relpath(made[0].parent)}")
    return 0


def _doctor(options):
    from rnnopt import doctor

    return doctor.main()


def _paper(options):
    from rnnopt import paper

    print(os.path.relpath(paper.build(options.build)))
    return 0
