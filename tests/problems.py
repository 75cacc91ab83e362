"""Problems, tables and checks that several tests share."""

import math

import numpy as np

from widefield.base.seal import sealed
from widefield.proportional import LinearNetwork, LinearTask, Spectrum, lr_sweep, power_law

GRAM = np.array([[2.0, 0.5], [0.5, 1.0]])
NETWORKS = {
    "infinite": LinearNetwork(2),
    "unequal": LinearNetwork(3, (0.1, 1 / 3, 2.0), centred=True),
    "residual": LinearNetwork(2, 2.0, branch=0.7),
    "infinitely deep": LinearNetwork(math.inf, 2.0, branch=1.2, depth_scaled=True),
    "ntk": LinearNetwork(1, 0.7, 1 / 7, "ntk"),
}
TASKS = {
    "population": LinearTask(),
    "samples": LinearTask(samples=1 / 3, noise=0.3),
    "batch": LinearTask(batch_size=2.0),
    "several outputs": LinearTask(target=GRAM),
    "bins": LinearTask(spectrum=power_law(1.5, 0.5, 1000, bins=7)),
    "coefficients": LinearTask(spectrum=Spectrum([1.0, 0.3], [[1.0, 2.0], [3.0, 4.0]], [1, 5])),
}


INPUTS = np.array([[1.0, 0.3, -0.4], [0.2, -1.1, 0.5], [0.7, 0.6, 0.9]])
TARGETS = np.array([1.0, -0.5, 0.8])
"""Three samples in three dimensions, for networks at infinite width."""

REFERENCE_KERNELS = {
    "feature_kernel": "features",
    "gradient_kernel": "gradients",
    "alignment_kernel": "alignment",
    "pseudo_gradient_kernel": "pseudo",
}
"""Names of the package, and of the references."""

LINEAR_DESCENT = [
    (1, (0.1, 0.4170365770, 0.6803670677, 0.9190910960), 1.3491718952, 1.3491718952),
    (2, (0.15, 0.5878116092, 0.8734416714, 0.9925125620), 1.7735054146, 1.2326784447),
    (3, (0.2, 0.7428987141, 0.9700862296, 0.9997750812), 2.1391904826, 1.1574624912),
    (5, (0.3, 0.9594252977, 0.9999048852, 0.9999999996), 2.7963840095, 1.0856010461),
]
"""Linear networks on one sample, K = y = gamma_0 = 1, eta = 0.05: layers, outputs after 1, 5, 10, 20 steps, kernels."""


def assert_same_data(one, other):
    assert set(one.variables) == set(other.variables)
    for name, value in one.variables.items():
        assert value.dims == other.variables[name].dims
        if value.dtype.kind not in "OU":  # NetCDF has one kind of text
            assert value.dtype == other.variables[name].dtype
        np.testing.assert_array_equal(value.values, other.variables[name].values)
    assert one.attrs.items() <= other.attrs.items()


def write_sealed(data, path):
    """A file that nobody damaged, whatever is in it."""
    path.write_bytes(sealed(bytes(data.to_netcdf(engine="h5netcdf"))))


def small_sweep(parameterisation="mean-field", **options):
    widths = (0.5, 2, math.inf)
    network = LinearNetwork(2, 1.0, 2.0, parameterisation)
    return lr_sweep(network, LinearTask(samples=3.0), np.geomspace(0.01, 0.5, 7), 9, values=widths, **options)
