"""What K(x, y) is: kernels, their sums, products and multiples, and their losses."""

from koloss.kernels.algebra import Product, Scaled, Sum
from koloss.kernels.base import Kernel, KernelLike
from koloss.kernels.dot_product import Linear, LinearLoss, Polynomial, Quadratic, QuadraticLoss
from koloss.kernels.loss import KernelLoss, Loss
from koloss.kernels.mixed import Mixed
from koloss.kernels.posynomial import Posynomial, PosynomialLoss
from koloss.kernels.rescaled import Rescaled
from koloss.kernels.scales import Scales, estimate_scales
from koloss.kernels.stationary import Gaussian, Matern, Periodic, White

__all__ = [
    "Gaussian",
    "Kernel",
    "KernelLike",
    "KernelLoss",
    "Linear",
    "LinearLoss",
    "Loss",
    "Matern",
    "Mixed",
    "Periodic",
    "Polynomial",
    "Posynomial",
    "PosynomialLoss",
    "Product",
    "Quadratic",
    "QuadraticLoss",
    "Rescaled",
    "Scaled",
    "Scales",
    "Sum",
    "White",
    "estimate_scales",
]
