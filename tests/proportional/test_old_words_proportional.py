"""Words of the proportional limit that were used before: each works, means the same, and says what to write now."""

import math

import numpy as np
import pytest

from old_words import assert_takes_old_word
from problems import assert_same_data
from widefield.base.errors import InvalidInput
from widefield.proportional import (
    Dynamics,
    LinearNetwork,
    LinearTask,
    as_problem,
    closed_forms,
    gradient_flow,
    largest_stable_rate,
    lr_sweep,
    plots,
    power_law,
    simulate,
    simulated_sweep,
    solve,
    solve_long,
    solve_many,
    suggested_rates,
)

NETWORK, TASK, RATES = LinearNetwork(1, 1.0), LinearTask(samples=2.0), [0.01, 0.02, 0.03]


def losses(answer):
    return answer.data["test_loss"].values


FUNCTIONS = {
    "solve, rate": (lambda **w: losses(solve(NETWORK, TASK, steps=3, **w)), ("rate", "learning_rate", 0.1)),
    "solve_many, rates": (
        lambda **w: solve_many([NETWORK], [TASK], **w).test,
        ("rates", "learning_rates", np.full((1, 3), 0.1)),
    ),
    "solve_long, rate": (
        lambda **w: losses(solve_long(NETWORK, TASK, steps=3, records=2, **w)),
        ("rate", "learning_rate", 0.1),
    ),
    "solve_long, times": (lambda **w: losses(solve_long(NETWORK, TASK, 0.1, 4, **w)), ("times", "records", 2)),
    "gradient_flow, time": (
        lambda **w: losses(gradient_flow(NETWORK, TASK, records=2, tolerance=0.1, **w)),
        ("time", "t_end", 0.1),
    ),
    "gradient_flow, times": (
        lambda **w: losses(gradient_flow(NETWORK, TASK, 0.1, tolerance=0.1, **w)),
        ("times", "records", 2),
    ),
    "simulate, rate": (
        lambda **w: losses(simulate(NETWORK, TASK, steps=2, dimension=4, seeds=2, **w)),
        ("rate", "learning_rate", 0.1),
    ),
    "simulate, networks": (
        lambda **w: losses(simulate(NETWORK, TASK, 0.1, 2, dimension=4, **w)),
        ("networks", "seeds", 3),
    ),
    "as_problem, rate": (
        lambda **w: as_problem(NETWORK, TASK, steps=2, dimension=4, **w)[0].optimiser.rates(),
        ("rate", "learning_rate", 0.1),
    ),
    "largest_stable_rate, precision": (
        lambda **w: largest_stable_rate(NETWORK, TASK, 5, **w),
        ("precision", "tolerance", 0.5),
    ),
    "lr_sweep, rates": (
        lambda **w: lr_sweep(NETWORK, TASK, steps=2, values=(1, 2), **w).data["loss"].values,
        ("rates", "learning_rates", RATES),
    ),
    "simulated_sweep, rates": (
        lambda **w: simulated_sweep(NETWORK, TASK, steps=1, values=(1,), dimension=4, seeds=2, **w).data["loss"].values,
        ("rates", "learning_rates", RATES),
    ),
    "two_layer_losses, rate": (
        lambda **w: closed_forms.two_layer_losses(1.5, steps=3, **w),
        ("rate", "learning_rate", 0.1),
    ),
    "two_layer_structured, rate": (
        lambda **w: closed_forms.two_layer_structured(power_law(1.5, 0.5, 5), 1.5, steps=3, **w),
        ("rate", "learning_rate", 0.1),
    ),
    "one_step_loss, rate": (
        lambda **w: closed_forms.one_step_loss(width=2.0, richness=1.5, **w),
        ("rate", "learning_rate", 0.1),
    ),
    "one_step_centred, rate": (
        lambda **w: closed_forms.one_step_centred(2, width=2.0, **w),
        ("rate", "learning_rate", 0.1),
    ),
    "one_step_centred, layers": (
        lambda **w: closed_forms.one_step_centred(learning_rate=0.1, width=2.0, **w),
        ("layers", "hidden_layers", 3),
    ),
    "lazy_kernel, layers": (lambda **w: closed_forms.lazy_kernel(branch=0.5, **w), ("layers", "hidden_layers", 3)),
    "lazy_full_batch, rate": (
        lambda **w: closed_forms.lazy_full_batch(2.0, samples=2.0, steps=3, **w)[0],
        ("rate", "learning_rate", 0.1),
    ),
    "lazy_online, rate": (
        lambda **w: closed_forms.lazy_online(2.0, batch_size=2.0, steps=3, **w),
        ("rate", "learning_rate", 0.1),
    ),
    "lazy_online, batch": (
        lambda **w: closed_forms.lazy_online(2.0, 0.1, steps=3, **w),
        ("batch", "batch_size", 2.0),
    ),
    "lazy_finite_width, rate": (
        lambda **w: closed_forms.lazy_finite_width(width=2.0, steps=3, **w),
        ("rate", "learning_rate", 0.1),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    call, words = FUNCTIONS[name]
    assert_takes_old_word(call, *words)


SWEEPS = {
    "lr_sweep": lambda **w: lr_sweep(NETWORK, TASK, RATES, 2, **w),
    "simulated_sweep": lambda **w: simulated_sweep(NETWORK, TASK, RATES, 1, dimension=4, seeds=2, **w),
}


@pytest.mark.parametrize("over", ["width", "depth"])
@pytest.mark.parametrize("name", SWEEPS)
def test_sweeps_take_their_axis_by_name(name, over):
    expected = SWEEPS[name](over=over, values=(1, 2))
    with pytest.warns(DeprecationWarning, match=rf"{name}\({over}s=...\) is now called over='{over}', values=..."):
        assert_same_data(SWEEPS[name](**{f"{over}s": (1, 2)}).data, expected.data)
    with pytest.raises(InvalidInput, match="give these alone"):
        SWEEPS[name](**{f"{over}s": (1, 2), "values": (1, 2)})


@pytest.mark.parametrize("over", ["width", "depth"])
def test_suggestions_take_their_axis_by_name(over):
    expected = suggested_rates(NETWORK, TASK, 2, over=over, values=(1, 2), count=3)
    with pytest.warns(DeprecationWarning, match=rf"suggested_rates\({over}s=...\)"):
        found = suggested_rates(NETWORK, TASK, 2, **{f"{over}s": (1, 2)}, count=3)
    np.testing.assert_array_equal(found, expected)


def test_a_sweep_is_over_one_axis():
    with pytest.raises(InvalidInput, match="give these alone"):
        lr_sweep(NETWORK, TASK, RATES, 2, widths=(1,), depths=(1,))


def test_tasks():
    expected = LinearTask(batch_size=2.0)
    with pytest.warns(DeprecationWarning, match=r"LinearTask\(batch=...\) is now called batch_size=..."):
        assert LinearTask(batch=2.0) == expected
    with pytest.warns(DeprecationWarning, match="LinearTask.batch is now called LinearTask.batch_size"):
        assert expected.batch == 2.0
    table = expected.to_table()
    assert table["batch_size"] == 2.0
    table["batch"] = table.pop("batch_size")
    assert LinearTask.from_table(table) == expected  # without a word: it was right when it was written


ATTRIBUTES = {
    "LinearNetwork.gamma": (LinearNetwork(1, 4.0, 3.0, "ntk"), "mean_field_richness", 1.5),
    "LinearNetwork.beta": (LinearNetwork(4, 1.0, branch=3.0, depth_scaled=True), "branch_scale", 1.5),
    "RateSweep.rates": (lr_sweep(NETWORK, TASK, RATES, 2, values=(1,)), "learning_rates", RATES),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes(name):
    owner, new, value = ATTRIBUTES[name]
    np.testing.assert_array_equal(getattr(owner, new), value)
    with pytest.warns(DeprecationWarning, match=rf"{name} is now called {name.split('.')[0]}.{new}"):
        np.testing.assert_array_equal(getattr(owner, name.split(".")[1]), value)


@pytest.mark.parametrize(("old", "new"), Dynamics.old_words.items())
def test_variables(old, new):
    deep = LinearNetwork(math.inf, 1.0, branch=1.0, depth_scaled=True)  # extrapolated, with bounds
    found = solve(deep, TASK, 0.1, 2, keep=True, layer_steps=2)
    assert old not in found.data
    with pytest.warns(DeprecationWarning, match=f"'{old}' is now called '{new}'"):
        assert found.variable(old).identical(found.data[new])


FIGURES = {
    "loss_plot": "losses",
    "split_plot": "split",
    "summary_plot": "summary",
    "transfer_plot": "transfer",
    "transfer_figure": "sweep_summary",
}


@pytest.mark.parametrize("old", FIGURES)
def test_figures(old):
    with pytest.warns(DeprecationWarning, match=rf"{old} is now called widefield.proportional.plots.{FIGURES[old]}"):
        assert getattr(plots, old) is getattr(plots, FIGURES[old])


def test_the_unit_of_sizes_is_in_the_answer():
    structured = LinearTask(samples=8, spectrum=power_law(1.5, 0.5, 5))
    assert solve(NETWORK, TASK, 0.1, 2).data.attrs["sizes"] == "over the dimension"
    assert solve(LinearNetwork(1, 4), structured, 0.1, 2).data.attrs["sizes"] == "numbers"
    assert lr_sweep(NETWORK, TASK, RATES, 2, values=(1,)).data.attrs["sizes"] == "over the dimension"
