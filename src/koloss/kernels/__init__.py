"""What K(x, y) is: kernels, and their sums, products and multiples."""

from koloss.kernels.algebra import Product, Scaled, Sum
from koloss.kernels.base import Kernel, KernelLike
from koloss.kernels.gaussian import Gaussian
from koloss.kernels.kernel_loss import KernelLoss
from koloss.kernels.linear import Linear
from koloss.kernels.linear_loss import LinearLoss
from koloss.kernels.loss import Loss
from koloss.kernels.matern import Matern
from koloss.kernels.periodic import Periodic
from koloss.kernels.polynomial import Polynomial
from koloss.kernels.posynomial import Posynomial
from koloss.kernels.posynomial_loss import PosynomialLoss
from koloss.kernels.quadratic import Quadratic
from koloss.kernels.quadratic_loss import QuadraticLoss

__all__ = [
    "Gaussian",
    "Kernel",
    "KernelLike",
    "KernelLoss",
    "Linear",
    "LinearLoss",
    "Loss",
    "Matern",
    "Periodic",
    "Polynomial",
    "Posynomial",
    "PosynomialLoss",
    "Product",
    "Quadratic",
    "QuadraticLoss",
    "Scaled",
    "Sum",
]
