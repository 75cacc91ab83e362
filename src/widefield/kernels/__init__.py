"""Kernels of networks, and predictions with a fixed kernel.

| question | answer |
|---|---|
| NNGP and NTK of a network of infinite width, of any learning rule | `StaticKernel(network, rule)(x, x2)` |
| the kernels of its layers; as functions of an angle | `StaticKernel.layers`, `StaticKernel.by_angle` |
| Bayesian inference with a kernel | `posterior`, `log_evidence` |
| an ensemble of lazily trained networks; one of them; any algorithm | `trained`; `trained_network`; `tensor_descent` |
| test error: bias, variance, spread; over initialisations | `error_cumulants`, `loss_statistics`; `error_map` |
| targets of classes; linear models, kernels of features | `smoothed_labels`, `logits`; `linear_fit`, \
`kernel_of_features` |
| kernels of a real network | `network_kernels` |
| kernels of any function f(params, x) in jax | `ntk_of_function`, `nngp_of_function` |
| where weight decay comes to rest: regression with the final NTK | `weight_decay_fixed_point` |
| how kernels of real networks scatter around their limits | `kernel_fluctuations` |

| files | job |
|---|---|
| `static.py`, `blocks.py` | kernels at infinite width, a block of pairs at a time |
| `prediction.py` | what a kernel predicts at the end, or at any time |
| `training_with_tensors.py` | steps of one network with any tensor: Newton, minibatches |
| `error_spread.py`, `initialisation_errors.py` | generalisation error over networks, and over initialisations |
| `class_targets.py`, `features.py` | targets of classes; linear models and the kernels of their features |
| `dynamics.py`, `linear_model.py` | training with a fixed kernel: any loss, batches, random initial outputs |
| `representer.py` | fixed points of weight decay, from a trajectory |
| `empirical.py`, `functions.py` | kernels of real networks, and of any function |
| `fluctuations.py`, `susceptibility.py`, `noise.py`, `sample_pairs.py` | their scatter: recursion, its coefficients |
"""

from typing import TYPE_CHECKING

from ..base.lazy import load_when_used

if TYPE_CHECKING:
    from .class_targets import logits as logits
    from .class_targets import smoothed_labels as smoothed_labels
    from .empirical import NetworkKernels as NetworkKernels
    from .empirical import network_kernels as network_kernels
    from .error_spread import LossStatistics as LossStatistics
    from .error_spread import error_cumulants as error_cumulants
    from .error_spread import loss_statistics as loss_statistics
    from .features import LinearFit as LinearFit
    from .features import gaussian_kernel as gaussian_kernel
    from .features import kernel_of_features as kernel_of_features
    from .features import linear_fit as linear_fit
    from .fluctuations import KernelFluctuations as KernelFluctuations
    from .fluctuations import kernel_fluctuations as kernel_fluctuations
    from .fluctuations import saddle_point as saddle_point
    from .functions import nngp_of_function as nngp_of_function
    from .functions import ntk_of_function as ntk_of_function
    from .initialisation_errors import bayesian_rates as bayesian_rates
    from .initialisation_errors import error_map as error_map
    from .prediction import Blocks as Blocks
    from .prediction import Prediction as Prediction
    from .prediction import log_evidence as log_evidence
    from .prediction import posterior as posterior
    from .prediction import response as response
    from .prediction import trained as trained
    from .representer import FixedPoint as FixedPoint
    from .representer import weight_decay_fixed_point as weight_decay_fixed_point
    from .stability import loss_curvature as loss_curvature
    from .static import Kernels as Kernels
    from .static import LayerKernels as LayerKernels
    from .static import StaticKernel as StaticKernel
    from .training_with_tensors import TensorStep as TensorStep
    from .training_with_tensors import batch_tensor as batch_tensor
    from .training_with_tensors import generalised_error as generalised_error
    from .training_with_tensors import newton_tensor as newton_tensor
    from .training_with_tensors import slopes as slopes
    from .training_with_tensors import tensor_descent as tensor_descent
    from .training_with_tensors import trained_network as trained_network
else:
    __getattr__, __dir__, __all__ = load_when_used(__name__)
