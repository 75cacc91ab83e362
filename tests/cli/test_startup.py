"""How the command line starts, and how it stops when it has hardly started."""

import json
import signal
import subprocess
import sys

import pytest
import typer

import widefield as wf
from widefield.cli.app import app

COMMANDS = ("solve", "compare", "crosscheck", "advise", "proportional", "lr-transfer", "show", "new", "demo", "cache")
START = """
import json, sys
from widefield.cli import main
sys.argv = ["widefield", *{arguments!r}]
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
DROPPED = """
import gc, signal, time
from widefield.cli import app, main

def callback(phase, details):
    gc.callbacks.clear()
    signal.raise_signal(signal.SIGINT)

def run():
    gc.callbacks.append(callback)
    gc.collect()
    for _ in range(300):
        time.sleep(0.1)

app.run = run
main()
"""


@pytest.mark.parametrize("arguments", [["--help"], ["solve", "--help"], ["proportional", "--help"]], ids=" ".join)
def test_help_loads_nothing_heavy(arguments):
    done = subprocess.run([sys.executable, "-c", START.format(arguments=arguments)], capture_output=True, text=True)
    assert done.returncode == 0
    heavy = {"jax", "equinox", "scipy", "pandas", "xarray", "sklearn", "matplotlib", "diffrax"}
    assert not heavy & set(json.loads(done.stderr))


def test_help_names_all_commands():
    done = subprocess.run([sys.executable, "-m", "widefield.cli", "--help"], capture_output=True, text=True, check=True)
    assert all(f" {command} " in done.stdout for command in COMMANDS)


def test_options_that_several_commands_have_are_one():
    commands = typer.main.get_command(app).commands
    helped = {o.help for c in commands.values() for o in c.params if "--seeds" in o.opts}
    assert helped == {"Number of independent networks."}
    assert sum("--seeds" in o.opts for c in commands.values() for o in c.params) == 4


def test_version():
    done = subprocess.run([sys.executable, "-m", "widefield.cli", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"widefield {wf.__version__}\n")


def test_interrupted_while_modules_are_imported(tmp_path):
    """Slow modules take the place of the commands, so that Ctrl-C certainly comes in time."""
    (tmp_path / "typer.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(60)")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from widefield.cli import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 130


def test_an_interrupt_that_python_drops_comes_again():
    done = subprocess.run([sys.executable, "-c", DROPPED], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
