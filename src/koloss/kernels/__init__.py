"""What K(x, y) is: kernels, their sums, products and multiples, and their losses."""

from koloss.kernels.algebra import Product, Scaled, Sum
from koloss.kernels.base import Kernel, KernelLike
from koloss.kernels.gaussian import Gaussian
from koloss.kernels.linear import Linear, LinearLoss
from koloss.kernels.logs import Scales, estimate_scales
from koloss.kernels.loss import KernelLoss, Loss
from koloss.kernels.matern import Matern
from koloss.kernels.mixed import Mixed
from koloss.kernels.periodic import Periodic
from koloss.kernels.polynomial import Polynomial
from koloss.kernels.posynomial import Posynomial, PosynomialLoss
from koloss.kernels.quadratic import Quadratic, QuadraticLoss
from koloss.kernels.rescaled import Rescaled
from koloss.kernels.white import White

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
