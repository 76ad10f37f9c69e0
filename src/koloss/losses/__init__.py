"""What the adversary plays: elements of the RKHS that evaluate, add, scale and have a norm."""

from koloss.losses.base import Loss
from koloss.losses.kernel import KernelLoss
from koloss.losses.linear import LinearLoss
from koloss.losses.posynomial import PosynomialLoss
from koloss.losses.quadratic import QuadraticLoss

__all__ = ["KernelLoss", "LinearLoss", "Loss", "PosynomialLoss", "QuadraticLoss"]
