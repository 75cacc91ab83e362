"""Files of trajectories: what is saved is loaded, anything else is a clear error, and nothing is half-written."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import widefield as wf
from problems import assert_same_data, write_sealed
from widefield.base import storage
from widefield.base.errors import FileProblem
from widefield.theories.recording import from_outcome
from widefield.training.runner import Outcome

SEEDS, STEPS = 2, np.array([0, 5, 12])
anything = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)


def problem_with(outputs, layers=2):
    return wf.Problem(
        network=wf.MLP(hidden_layers=layers, activation="tanh"),
        data=wf.data.gaussian(samples=3, dimension=2, outputs=outputs, test_samples=1),
        optimiser=wf.SGD(learning_rate=0.1, steps=12),
    )


def shapes(outputs, layers=2):
    kernel = (layers, 3, outputs, 3, outputs)
    return {
        "outputs": (3, outputs),
        "test_outputs": (1, outputs),
        "loss": (),
        "feature_kernel": (layers, 3, 3),
        "gradient_kernel": kernel,
        "ntk": kernel[1:],
        "preactivation": (layers, 3, 4),
        "features 1": (3, 5),
        "features 2": (3, 2),
        "gradients 1": (3, outputs, 5),
        "gradients 2": (3, outputs, 2),
    }


def made_up(outputs=1, fill=None, status="complete", message=""):
    """A trajectory with the labels of a real run and any numbers in it."""
    rng = np.random.default_rng(0)
    lead = (SEEDS, len(STEPS))
    fill = fill or (lambda name, shape: rng.normal(size=shape))
    records = {name: fill(name, lead + shape) for name, shape in shapes(outputs).items()}
    outcome = Outcome(records, STEPS, status, message, {"seconds": 0.1})
    return from_outcome(problem_with(outputs), wf.FiniteWidth(7, seeds=SEEDS, seed=3), outcome, [3, 4])


def assert_same(one, other):
    assert one.problem == other.problem
    assert one.theory == other.theory
    assert_same_data(one.data, other.data)


@settings(max_examples=8)
@given(data=st.data(), outputs=st.integers(1, 3), status=st.sampled_from(["complete", "diverged"]), message=st.text())
def test_what_is_saved_is_loaded(data, outputs, status, message, tmp_path_factory):
    message = message.replace("\0", "")  # HDF5 attributes are C strings

    def fill(name, shape):
        if name.rpartition(" ")[0]:  # fields of two-time kernels are compressed by linear algebra
            return np.ones(shape)
        return data.draw(arrays(np.float64, shape, elements=anything, fill=anything))

    trajectory = made_up(outputs, fill, status, message)
    path = tmp_path_factory.mktemp("runs") / "run.nc"
    trajectory.save(path)
    once = wf.Trajectory.load(path)
    trajectory.data.attrs["message"] = storage.printable(message)  # what a terminal would obey is not read
    assert_same(trajectory, once)
    assert (once.status, once.message, once.label) == (status, storage.printable(message), "width 7")
    once.save(str(path))  # over itself, from what was loaded
    assert_same(once, wf.Trajectory.load(str(path)))
    assert list(path.parent.iterdir()) == [path]


def test_a_problem_longer_than_an_attribute_may_be(tmp_path):
    x = np.random.default_rng(0).normal(size=(3, 5000))
    problem = wf.Problem(wf.MLP(2, "tanh"), wf.Data(x, [1.0, 2.0, 3.0]), optimiser=wf.SGD(0.1, 12))
    assert len(problem.to_toml()) > 2**17
    trajectory = wf.Trajectory(made_up().data, problem, wf.FiniteWidth(7))
    trajectory.save(tmp_path / "run.nc")
    assert_same(trajectory, wf.Trajectory.load(tmp_path / "run.nc"))


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run.nc"
    made_up().save(path)
    return path


def test_a_missing_file(tmp_path):
    with pytest.raises(FileProblem, match=r"there is no file .*none.nc"):
        wf.Trajectory.load(tmp_path / "none.nc")


def test_a_folder(tmp_path):
    with pytest.raises(FileProblem, match=r"cannot read .*: it is a folder"):
        wf.Trajectory.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"[network]\nkind = 'mlp'\n", b"\x89HDF\r\n\x1a\n", bytes(range(256)) * 50])
def test_a_file_of_another_kind(tmp_path, content):
    path = tmp_path / "run.nc"
    path.write_bytes(content)
    with pytest.raises(FileProblem, match=r"run.nc cannot be read as NetCDF; it is damaged or something else"):
        wf.Trajectory.load(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("part", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file(saved, part):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(part * len(content))])
    with pytest.raises(FileProblem, match=r"run.nc .*it is damaged"):
        wf.Trajectory.load(saved)


def test_a_file_one_byte_short(saved):
    saved.write_bytes(saved.read_bytes()[:-1])
    with pytest.raises(FileProblem, match="damaged"):
        wf.Trajectory.load(saved)


def test_a_flipped_bit_in_the_numbers_is_found(tmp_path):
    """The compressed numbers carry a checksum: they are right, or the file is refused."""
    import h5py

    trajectory = made_up(3)
    trajectory.save(tmp_path / "run.nc")
    with h5py.File(tmp_path / "run.nc") as opened:
        places = [opened[name].id.get_chunk_info(0) for name in ("gradient_kernel", "outputs", "loss")]
    content = (tmp_path / "run.nc").read_bytes()
    for place in places:
        for offset in np.linspace(0, place.size - 1, 4).astype(int):
            flipped = bytearray(content)
            flipped[place.byte_offset + offset] ^= 0x10
            (tmp_path / "bad.nc").write_bytes(flipped)
            with pytest.raises(FileProblem, match="damaged"):
                wf.Trajectory.load(tmp_path / "bad.nc")


def test_a_foreign_file(tmp_path):
    xr.Dataset({"temperature": ("x", [1.0, 2.0])}).to_netcdf(tmp_path / "weather.nc", engine="h5netcdf")
    with pytest.raises(FileProblem, match=r"weather.nc is a NetCDF file, but not a trajectory saved by widefield"):
        wf.Trajectory.load(tmp_path / "weather.nc")


def rewritten(saved, change):
    with xr.open_dataset(saved, engine="h5netcdf") as opened:
        data = opened.load()
    write_sealed(change(data), saved)
    return saved


@pytest.mark.parametrize("schema", [0, 3, 99, "one"])
def test_a_file_of_another_version(saved, schema):
    rewritten(saved, lambda data: data.assign_attrs(schema=schema))
    with pytest.raises(FileProblem, match=rf"schema version {schema}; this widefield reads up to 2"):
        wf.Trajectory.load(saved)


def test_a_file_without_its_problem(saved):
    rewritten(saved, lambda data: data.drop_vars("_problem"))
    with pytest.raises(FileProblem, match="it lacks its problem"):
        wf.Trajectory.load(saved)


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("problem", "[network]\nkind='mlp'", r"needs a section \[data\]"),
        ("problem", "kind = [", "cannot be understood"),
        ("theory", "kind = 'finit-width'\nwidth = 3", "unknown kind of theory 'finit-width'; did you mean"),
        ("theory", "kind = ", "cannot be understood"),
    ],
)
def test_a_file_whose_problem_or_theory_makes_no_sense(saved, name, text, match):
    rewritten(saved, lambda data: data.assign({f"_{name}": ((), text)}))
    with pytest.raises(FileProblem, match=match):
        wf.Trajectory.load(saved)


def test_a_file_from_a_loss_that_is_not_there(saved):
    rewritten(saved, lambda data: data.assign(_problem=((), str(data._problem.item()).replace("squared", "cubed"))))
    with pytest.raises(FileProblem, match=r"run.nc describes a problem .*kind of loss 'cubed-error'; did you mean"):
        wf.Trajectory.load(saved)


def test_nothing_is_written_where_it_cannot_be(tmp_path):
    trajectory = made_up()
    with pytest.raises(FileProblem, match=r"cannot write .*the folder .*missing does not exist"):
        trajectory.save(tmp_path / "missing" / "run.nc")
    (tmp_path / "folder.nc").mkdir()
    with pytest.raises(FileProblem, match=r"folder.nc: it is a folder"):
        trajectory.save(tmp_path / "folder.nc")
    with pytest.raises(FileProblem, match=r"cannot write /proc/run.nc"):
        trajectory.save("/proc/run.nc")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.nc"]
    assert list((tmp_path / "folder.nc").iterdir()) == []


def test_a_folder_without_permission(tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(FileProblem, match=r"cannot write .*run.nc: Permission denied"):
        made_up().save(tmp_path / "run.nc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device"), RuntimeError("?")])
def test_an_interrupted_write_leaves_the_old_file(saved, monkeypatch, error):
    before, real = saved.read_bytes(), Path.write_bytes

    def half(self, content):
        real(self, content[:1000])
        raise error

    monkeypatch.setattr(Path, "write_bytes", half)
    expected = FileProblem if isinstance(error, OSError) else error if isinstance(error, type) else type(error)
    with pytest.raises(expected):
        made_up(2).save(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_the_file_says_what_it_is(saved):
    with xr.open_dataset(saved, engine="h5netcdf") as opened:
        assert opened.attrs["format"] == "widefield trajectory"
        assert opened.attrs["schema"] == storage.SCHEMA
        assert opened.attrs["widefield"] == wf.__version__
        assert wf.Problem.from_toml(str(opened["_problem"].item())) == problem_with(1)


def test_new_files_have_the_permissions_of_the_user(saved):
    plain = saved.parent / "plain"
    plain.touch()
    assert saved.stat().st_mode == plain.stat().st_mode
