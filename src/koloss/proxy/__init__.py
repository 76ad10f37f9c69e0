"""The RKHS made finite, with a certified error: ℋ ⊃ ℝ^m."""

from koloss.proxy.base import Proxy
from koloss.proxy.exact import exact_features
from koloss.proxy.kernel_pca import kernel_pca
from koloss.proxy.mercer import mercer_features
from koloss.proxy.pivoted_cholesky import pivoted_cholesky
from koloss.proxy.spectrum import Decay, Eigendecay, eigendecay

__all__ = [
    "Decay",
    "Eigendecay",
    "Proxy",
    "eigendecay",
    "exact_features",
    "kernel_pca",
    "mercer_features",
    "pivoted_cholesky",
]
