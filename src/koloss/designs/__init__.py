"""Where to explore: distributions on the actions, with the largest leverage they leave."""

from koloss.designs.base import Design, Whitened, leverage_from_gram, whiten
from koloss.designs.john import john_design
from koloss.designs.spanner import barycentric_spanner
from koloss.designs.uniform import uniform_design

__all__ = [
    "Design",
    "Whitened",
    "barycentric_spanner",
    "john_design",
    "leverage_from_gram",
    "uniform_design",
    "whiten",
]
