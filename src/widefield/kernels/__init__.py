"""Kernels of networks, and predictions with a fixed kernel.

| question | answer |
|---|---|
| NNGP and NTK of a network of infinite width, of any learning rule | `StaticKernel(network, rule)(x, x2)` |
| the kernels of its layers; as functions of an angle | `StaticKernel.layers`, `StaticKernel.by_angle` |
| Bayesian inference with a kernel | `posterior`, `log_evidence` |
| an ensemble of lazily trained networks | `trained` |
| kernels of a real network | `network_kernels` |
| kernels of any function f(params, x) in jax | `ntk_of_function`, `nngp_of_function` |
| where weight decay comes to rest: regression with the final NTK | `weight_decay_fixed_point` |
| how kernels of real networks scatter around their limits | `kernel_fluctuations` |

| files | job |
|---|---|
| `static.py`, `blocks.py` | kernels at infinite width, a block of pairs at a time |
| `prediction.py` | what a kernel predicts at the end, or at any time |
| `dynamics.py`, `linear_model.py` | training with a fixed kernel: any loss, batches, random initial outputs |
| `representer.py` | fixed points of weight decay, from a trajectory |
| `empirical.py`, `functions.py` | kernels of real networks, and of any function |
| `fluctuations.py`, `susceptibility.py`, `noise.py`, `sample_pairs.py` | their scatter: recursion, its coefficients |
"""

from typing import TYPE_CHECKING

from ..base.lazy import load_when_used

if TYPE_CHECKING:
    from .empirical import NetworkKernels as NetworkKernels
    from .empirical import network_kernels as network_kernels
    from .fluctuations import KernelFluctuations as KernelFluctuations
    from .fluctuations import kernel_fluctuations as kernel_fluctuations
    from .fluctuations import saddle_point as saddle_point
    from .functions import nngp_of_function as nngp_of_function
    from .functions import ntk_of_function as ntk_of_function
    from .prediction import Blocks as Blocks
    from .prediction import Prediction as Prediction
    from .prediction import log_evidence as log_evidence
    from .prediction import posterior as posterior
    from .prediction import trained as trained
    from .representer import FixedPoint as FixedPoint
    from .representer import weight_decay_fixed_point as weight_decay_fixed_point
    from .static import Kernels as Kernels
    from .static import LayerKernels as LayerKernels
    from .static import StaticKernel as StaticKernel
else:
    __getattr__, __dir__, __all__ = load_when_used(__name__)
