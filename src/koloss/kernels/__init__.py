"""What K(x, y) is: kernels, and their sums, products and multiples."""

from koloss.kernels.algebra import Product, Scaled, Sum
from koloss.kernels.base import Kernel, KernelLike
from koloss.kernels.gaussian import Gaussian
from koloss.kernels.linear import Linear
from koloss.kernels.matern import Matern
from koloss.kernels.periodic import Periodic
from koloss.kernels.polynomial import Polynomial
from koloss.kernels.posynomial import Posynomial
from koloss.kernels.quadratic import Quadratic

__all__ = [
    "Gaussian",
    "Kernel",
    "KernelLike",
    "Linear",
    "Matern",
    "Periodic",
    "Polynomial",
    "Posynomial",
    "Product",
    "Quadratic",
    "Scaled",
    "Sum",
]
