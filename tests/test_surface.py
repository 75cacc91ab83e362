"""What users see after `import widefield as wf`: which names there are, and what they cost."""

import contextlib
import importlib
import inspect
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import widefield as wf

ROOT = Path(wf.__file__).parents[2]
ROOMS = ("activations", "data", "effective", "kernels", "plots", "proportional", "two_layer")
HEAVY = {"diffrax", "matplotlib", "pandas", "rich", "scipy.optimize", "scipy.stats", "sklearn", "typer", "xarray"}
PUBLIC_IN_0_1_0 = """
    MLP SGD AlternatingMonteCarlo ClosedLinear Cosine Data DirectFeedbackAlignment Diverged FeedbackAlignment
    FileProblem FiniteWidth Fluctuations GatedLinear GradientDescent GradientFlow GradientIndependence Hebb Huber
    InfiniteWidth Interrupted InvalidInput KernelClassifier KernelRegressor Lazy LearningRule Logistic Loss NotAccurate
    Perturbative Piecewise PowerDecay Problem Record Schedule SoftmaxCrossEntropy SquaredError Theory Trajectory
    TwoLayer UnknownName WidefieldError __version__ activations crosscheck data effective kernels plots proportional
    solve two_layer
"""
KINDS = """
import json, widefield as wf
families = [wf.DataSource, wf.Loss, wf.LearningRule, wf.Optimiser, wf.Schedule, wf.Theory]
print(json.dumps({family.family: sorted(family.members) for family in families}))
"""
ALL_MODULES = """
import importlib, pkgutil, widefield
for module in pkgutil.walk_packages(widefield.__path__, "widefield."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def fresh(code):
    """What a new Python prints when it runs this, as JSON."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def loaded_by(code):
    """The modules that a new Python has loaded after this."""
    return set(fresh(f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))"))


def test_dir_is_what_is_public_and_all_of_it_exists():
    assert dir(wf) == wf.__all__
    assert set(PUBLIC_IN_0_1_0.split()) <= set(dir(wf))
    assert [name for name in dir(wf) if name.startswith("_")] == ["__version__"]
    for place in (wf, *(getattr(wf, room) for room in ROOMS)):
        assert sorted(place.__all__) == dir(place)
        for name in dir(place):
            assert getattr(place, name) is not None, name


def test_a_name_that_does_not_exist_is_an_attribute_error_with_a_suggestion():
    with pytest.raises(AttributeError, match="module 'widefield' has no attribute 'Problm'") as caught:
        wf.Problm  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("Problm", wf)
    with pytest.raises(AttributeError, match=r"widefield\.effective"):
        wf.effective.criticalty  # noqa: B018


@pytest.mark.parametrize("room", ROOMS)
def test_no_public_name_is_also_that_of_a_module(room):
    """Else it would mean one or the other, depending on what was imported before."""
    place = getattr(wf, room)
    folder = Path(place.__file__).parent if place.__file__.endswith("__init__.py") else None
    modules = {path.stem for path in folder.glob("*.py")} if folder else set()
    assert not [name for name in dir(place) if name in modules and not inspect.ismodule(getattr(place, name))]


def exists(mention):
    """Whether `wf.room.name` exists, or `widefield.module.name`; what objects have is looked for in their class."""
    package, *parts = mention.split(".")
    found = wf
    for count, part in enumerate(parts, 1):
        if part in getattr(found, "__dataclass_fields__", {}):
            return True
        if package == "widefield" and not hasattr(found, part):
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(".".join(["widefield", *parts[:count]]))
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def mentions(path):
    """All dotted names that begin with the package; on pages also those in code that begin with a public room."""
    text = path.read_text()
    found = set(re.findall(r"\b(?:wf|widefield)(?:\.[A-Za-z]\w*)+", text))
    if path.suffix == ".md":
        rooms = "effective|kernels|proportional|two_layer|plots"
        found |= {f"wf.{name}" for name in re.findall(rf"`((?:{rooms})(?:\.(?!py\b)[A-Za-z]\w*)+)", text)}
    return found


PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_name_on_a_page_exists(path):
    assert [name for name in mentions(path) if not exists(name)] == []


def test_every_name_in_a_docstring_exists():
    files = sorted((ROOT / "src").rglob("*.py"))
    found = {(path.name, name) for path in files for name in mentions(path)}
    assert len(found) > 5, "the search finds nothing"
    assert [place for place in found if not exists(place[1])] == []


def test_import_is_light():
    loaded = loaded_by("import widefield")
    assert not loaded & (HEAVY | {"jax", "equinox", "numpy"})
    assert sum(name.startswith("widefield") for name in loaded) <= 4


def test_a_problem_loads_nothing_that_only_answers_need():
    assert not loaded_by("import widefield as wf; wf.Problem, wf.MLP, wf.data, wf.SGD, wf.SquaredError") & HEAVY


def test_theories_load_nothing_that_only_some_of_them_need():
    loaded = loaded_by("import widefield as wf; wf.solve, wf.FiniteWidth, wf.Trajectory")
    assert loaded & HEAVY == {"pandas", "xarray"}


def test_import_takes_a_moment():
    seconds = fresh("import time; start = time.perf_counter(); import widefield; print(time.perf_counter() - start)")
    assert seconds < 0.5


def test_files_know_all_kinds_whatever_was_imported():
    assert fresh(KINDS) == fresh(ALL_MODULES + KINDS)
    problem = "import widefield as wf; wf.Problem; optimisers = sorted(wf.Optimiser.members)"
    assert fresh(f"import json\n{problem}\nprint(json.dumps(optimisers))") == ["gradient-flow", "sgd"]


def test_a_trajectory_is_loaded_before_any_theory_is_named():
    path = ROOT / "tests" / "files" / "0.1.0" / "lazy.nc"
    load = f"wf.Trajectory.load({str(path)!r})"
    assert fresh(f"import json, widefield as wf; print(json.dumps({load}.theory.kind))") == "lazy"


def test_no_module_configures_jax():
    settings = "print(json.dumps({name: repr(value) for name, value in sorted(jax.config.values.items())}))"
    assert fresh(f"import json, jax\n{ALL_MODULES}\n{settings}") == fresh(f"import json, jax\n{settings}")


def test_errors_are_named_as_users_know_them_and_survive_pickling():
    assert repr(wf.InvalidInput) == "<class 'widefield.InvalidInput'>"
    for error in (wf.InvalidInput("no"), wf.UnknownName("rule", "heb", ["hebb"]), wf.Diverged("late", None)):
        assert type(error).__module__ == "widefield"
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
    assert repr(wf.effective.NotCritical) == "<class 'widefield.effective.NotCritical'>"


def test_warnings_are_filtered_by_their_public_name():
    code = "import warnings, widefield as wf; warnings.warn('far off', wf.NotAccurate)"
    command = [sys.executable, "-W", "error::widefield.NotAccurate", "-c", code]
    source = {"PYTHONPATH": str(Path(wf.__file__).parents[1])}  # the option is read before editable installs are found
    stopped = subprocess.run(command, capture_output=True, text=True, env=os.environ | source)
    assert "widefield.NotAccurate: far off" in stopped.stderr
    assert stopped.returncode == 1


def test_descriptions_survive_pickling_and_their_sources_are_found():
    network = wf.MLP(hidden_layers=2, activation="tanh")
    assert pickle.loads(pickle.dumps(network)) == network
    assert inspect.getsource(wf.MLP).startswith(("@traced", "@dataclass", "class MLP"))
