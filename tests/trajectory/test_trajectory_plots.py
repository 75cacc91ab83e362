"""Figures: they return axes, show the numbers they should, and refuse what they cannot draw."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import widefield as wf
from widefield.trajectory import plots


@pytest.fixture(scope="module")
def trajectory():
    problem = wf.Problem(
        network=wf.MLP(hidden_layers=2),
        data=wf.data.sphere(samples=4, dimension=6, test_samples=3, seed=1),
        optimiser=wf.SGD(learning_rate=0.05, steps=6),
    )
    return wf.solve(problem, wf.FiniteWidth(12, seeds=3))


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_loss_curve_is_the_mean_with_a_band_of_one_standard_error(trajectory):
    axes = plots.losses([trajectory])
    (line,) = axes.lines
    np.testing.assert_array_equal(line.get_xdata(), trajectory.data.time)
    np.testing.assert_allclose(line.get_ydata(), trajectory.data.loss.mean("seed"), rtol=1e-14)
    assert axes.get_yscale() == "log"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["width 12"]
    band = axes.collections[0].get_paths()[0].vertices
    error = trajectory.standard_error("loss")
    assert np.isclose(band[:, 1].max(), float((trajectory.mean("loss") + error).max()))


def test_kernel_map_sorts_samples_by_target(trajectory):
    axes = plots.kernel(trajectory, "feature_kernel", layer=2)
    shown = axes.images[0].get_array()
    order = np.argsort(-trajectory.data.targets.values[:, 0], kind="stable")
    expected = trajectory.data.feature_kernel.isel(time=-1, layer=1).mean("seed").values[np.ix_(order, order)]
    np.testing.assert_allclose(shown, expected, rtol=1e-14)


def test_density_integrates_to_one(trajectory):
    axes = plots.preactivation_density(trajectory, 2)
    assert len(axes.patches) > 0
    for patch in axes.patches:
        x, y = patch.get_xy().T
        area = np.abs(np.sum((x[1:] - x[:-1]) * (y[1:] + y[:-1]) / 2))
        assert np.isclose(area, 1, atol=0.02)


def test_pages(trajectory, tmp_path):
    # loss, three distances, two kernels and a colour bar
    assert len(plots.compare(trajectory, trajectory).axes) == 7
    plots.summary(trajectory).savefig(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes()[:4] == b"%PDF"


def test_summary_names_its_curves_right(trajectory):
    top = plots.summary(trajectory).axes[0]
    handles, labels = top.get_legend_handles_labels()
    shown = {label: handle.get_ydata() for handle, label in zip(handles, labels, strict=True)}
    assert set(shown) == {"training", "test"}
    np.testing.assert_allclose(shown["training"], trajectory.mean("loss"), rtol=1e-14)
    np.testing.assert_allclose(shown["test"], trajectory.mean("test_loss"), rtol=1e-14)
    assert top.get_ylabel() == "loss"
    assert [text.get_text() for text in top.get_legend().get_texts()] == labels


def test_guide_has_slope_minus_one_half():
    axes = plots.against_width([64, 256], [0.2, 0.1])
    guide = axes.lines[1].get_ydata()
    assert np.isclose(guide[0] / guide[1], 2)


def test_mistakes_are_named(trajectory):
    with pytest.raises(wf.InvalidInput, match="layer="):
        plots.kernel(trajectory, "feature_kernel")
    with pytest.raises(wf.InvalidInput, match="time alone"):
        plots.curve(trajectory, "outputs")
    with pytest.raises(wf.UnknownName, match="did you mean 'loss'"):
        plots.curve(trajectory, "lose")
    with pytest.raises(wf.InvalidInput, match="at least one"):
        plots.compare()


def test_style_is_not_left_behind(trajectory):
    before = dict(plt.rcParams)
    plots.losses([trajectory])
    assert dict(plt.rcParams) == before
