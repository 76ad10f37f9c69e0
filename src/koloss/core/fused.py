"""The refresh of Algorithm 1 on a GPU, in one pass over the features: Triton kernels for torch tensors in single precision.

    pass_over     logits η-weighted, their running maximum, Σ exp, and Σ exp φφ' of each program's share of the rows
    add_up        the shares of all programs, brought to one maximum and added in double precision
    spread_out    p = (1 - γ)q + γπ of every action, and its sum over each block of actions
    look_up       actions by inversion: first the block, then the place in it; no cumulative sums of all actions are kept
    weigh         |φ'A| of every action for one or two small matrices A: leverages, and with them the bonus

Tensor cores multiply numbers of 11 bits. At "highest" precision, torch's own word for it, each number is split into two
of them: X = H + E, and X'X = H'H + H'E + E'H up to 2⁻²². Since (H'(H + 2E) + (H + 2E)'H)/2 is the same, two products are enough
where three are usual. They are float16, which has as many bits as TF32 at twice the speed: whitened features are of size 1 or so, and
of weighted ones those that fall out of its range have no weight. Larger features are split into TF32. Products of a few rows are
added outside the tensor cores, which would cut digits off the sum.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

Tensor: TypeAlias = Any

FEWEST, MOST = 16, 128
"""Features that a kernel is made for; with fewer, columns of zeros are added."""

BLOCK = 1024
"""Actions whose probabilities are added up, to find the place of a draw in two steps."""

LARGEST = 4096.0
"""Features below it can be multiplied as numbers of 16 bits."""

PARTS = 8
"""Parts in which the programs' shares are added up, side by side."""

PROGRAMS = 1056
"""Programs that share the rows: 8 on each of the 132 multiprocessors of an H200."""


@triton.jit
def _upper_bits(x):  # type: ignore[no-untyped-def]
    """The 11 leading bits of numbers in single precision."""
    return (x.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)


@triton.jit  # type: ignore[untyped-decorator]
def pass_over_kernel(  # type: ignore[no-untyped-def]
    features, slope, offset, logits, sums, totals, tops, N,
    M: tl.constexpr, ROWS: tl.constexpr, COARSE: tl.constexpr, HALVES: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Logits φ'slope + offset, and of this program's rows the maximum, Σ exp(logit - max) and Σ exp(logit - max) φφ'."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    columns = tl.arange(0, M)
    direction = tl.load(slope + columns)
    sigma = tl.zeros((M, M), tl.float32)
    total, top = 0.0, float("-inf")
    for start in tl.range(program * ROWS, N, programs * ROWS, num_stages=STAGES):
        rows = start + tl.arange(0, ROWS)
        inside = rows < N
        places = rows.to(tl.int64)[:, None] * M + columns[None, :]
        phi = tl.load(features + places, mask=inside[:, None], other=0.0)
        logit = tl.sum(phi * direction[None, :], axis=1)
        logit += tl.load(offset + rows, mask=inside, other=float("-inf"))
        tl.store(logits + rows, logit, mask=inside)
        highest = tl.max(logit, axis=0)
        if highest > top:
            factor = tl.exp(top - highest)
            sigma *= factor
            total *= factor
            top = highest
        weight = tl.exp(logit - tl.maximum(top, -1e38))  # none where all are excluded so far
        total += tl.sum(weight, axis=0)
        phi = phi * tl.sqrt(weight)[:, None]
        if HALVES:
            upper = phi.to(tl.float16)
            across = tl.trans(upper)
            share = tl.dot(across, upper)
            if not COARSE:
                share = tl.dot(across, (2 * (phi - upper.to(tl.float32))).to(tl.float16), share)
        else:
            upper = _upper_bits(phi)
            across = tl.trans(upper)
            share = tl.dot(across, upper, input_precision="tf32")
            if not COARSE:
                share = tl.dot(across, 2 * (phi - upper), share, input_precision="tf32")
        sigma += share
    tl.store(totals + program, total)
    tl.store(tops + program, top)
    tl.store(sums + program * M * M + columns[:, None] * M + columns[None, :], sigma)


@triton.jit  # type: ignore[untyped-decorator]
def add_up_kernel(  # type: ignore[no-untyped-def]
    sums, totals, tops, parts, summary, P,
    M: tl.constexpr, SHARES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """One row of Σ exp φφ' from some of the programs, the maximum of all logits and Σ exp."""
    row, part = tl.program_id(0), tl.program_id(1)
    shares, columns = tl.arange(0, SHARES), tl.arange(0, M)
    local = tl.load(tops + shares, mask=shares < P, other=float("-inf"))
    top = tl.max(local, axis=0)
    result = tl.zeros((M,), tl.float64)
    for start in range(part * ROWS, P, tl.num_programs(1) * ROWS):
        some = start + tl.arange(0, ROWS)
        inside = some < P
        factor = tl.exp(tl.load(tops + some, mask=inside, other=float("-inf")) - top)
        places = some[:, None] * M * M + row * M + columns[None, :]
        values = tl.load(sums + places, mask=inside[:, None], other=0.0)
        result += tl.sum(values.to(tl.float64) * factor.to(tl.float64)[:, None], axis=0)
    tl.store(parts + (part * M + row) * M + columns, result)
    if row + part == 0:
        scaled = tl.load(totals + shares, mask=shares < P, other=0.0).to(tl.float64)
        tl.store(summary, top.to(tl.float64))
        tl.store(summary + 1, tl.sum(scaled * tl.exp(local - top).to(tl.float64), axis=0))


@triton.jit  # type: ignore[untyped-decorator]
def spread_out_kernel(  # type: ignore[no-untyped-def]
    logits, design, summary, p, masses, N, gamma, BLOCK: tl.constexpr
):
    """p = (1 - γ)q + γπ, and its sum over every block of actions."""
    block = tl.program_id(0)
    rows = block * BLOCK + tl.arange(0, BLOCK)
    inside = rows < N
    top, total = tl.load(summary), tl.load(summary + 1)
    weight = tl.exp(tl.load(logits + rows, mask=inside, other=float("-inf")) - top.to(tl.float32))
    share = ((1 - gamma) / total).to(tl.float32)
    explored = tl.load(design + rows, mask=inside, other=0.0)
    probability = share * weight + gamma * explored
    tl.store(p + rows, probability, mask=inside)
    tl.store(masses + block, tl.sum(probability.to(tl.float64), axis=0))


@triton.jit  # type: ignore[untyped-decorator]
def look_up_kernel(  # type: ignore[no-untyped-def]
    features, p, cumulative, uniforms, found, N, BLOCKS,
    M: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The action whose cumulative probability first exceeds a uniform number, its probability and, where there is room, features."""
    draw = tl.program_id(0)
    target = tl.load(uniforms + draw) * tl.load(cumulative + BLOCKS - 1)
    low, high = 0, BLOCKS - 1  # the first block whose end is above the target
    for _ in range(STEPS):
        middle = (low + high) // 2
        above = tl.load(cumulative + middle) > target
        high = tl.where(above, middle, high)
        low = tl.where(above, low, tl.minimum(middle + 1, high))
    before = tl.where(high > 0, tl.load(cumulative + tl.maximum(high - 1, 0)), 0.0)
    rows = high * BLOCK + tl.arange(0, BLOCK)
    weight = tl.load(p + rows, mask=rows < N, other=0.0).to(tl.float64)
    passed = tl.sum((tl.cumsum(weight, axis=0) <= target - before).to(tl.int32), axis=0)
    action = tl.minimum(high * BLOCK + passed, tl.minimum(high * BLOCK + BLOCK, N) - 1)
    tl.store(found + draw * WIDTH, action.to(tl.float64))
    tl.store(found + draw * WIDTH + 1, tl.load(p + action).to(tl.float64))
    if WIDTH > 2:
        columns = tl.arange(0, M)
        phi = tl.load(features + action.to(tl.int64) * M + columns)
        tl.store(found + draw * WIDTH + 2 + columns, phi.to(tl.float64))


@triton.jit  # type: ignore[untyped-decorator]
def _times(x, y, COARSE: tl.constexpr, HALVES: tl.constexpr):  # type: ignore[no-untyped-def]
    """x y by the tensor cores."""
    if HALVES:
        x_upper, y_upper = x.to(tl.float16), y.to(tl.float16)
        product = tl.dot(x_upper, y_upper)
        if not COARSE:
            product = tl.dot((x - x_upper.to(tl.float32)).to(tl.float16), y_upper, product)
            product = tl.dot(x_upper, (y - y_upper.to(tl.float32)).to(tl.float16), product)
    elif COARSE:
        product = tl.dot(x, y, input_precision="tf32")
    else:
        product = tl.dot(x, y, input_precision="tf32x3")
    return product


@triton.jit  # type: ignore[untyped-decorator]
def weigh_kernel(  # type: ignore[no-untyped-def]
    features, first, second, out, N, bias, epsilon, nu,
    M: tl.constexpr, ROWS: tl.constexpr, COARSE: tl.constexpr, HALVES: tl.constexpr, PENALTY: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """b e + ε s + ν s² of every action, where e² = |φ'second|² and s² = |φ'first|² - e²."""
    columns = tl.arange(0, M)
    square = columns[:, None] * M + columns[None, :]
    whole = tl.load(first + square)
    penalised = whole
    if PENALTY:
        penalised = tl.load(second + square)
    for start in tl.range(tl.program_id(0) * ROWS, N, tl.num_programs(0) * ROWS, num_stages=STAGES):
        rows = start + tl.arange(0, ROWS)
        inside = rows < N
        places = rows.to(tl.int64)[:, None] * M + columns[None, :]
        phi = tl.load(features + places, mask=inside[:, None], other=0.0)
        white = _times(phi, whole, COARSE, HALVES)
        s2 = tl.sum(white * white, axis=1)
        value = tl.zeros((ROWS,), tl.float32)
        if PENALTY:
            white = _times(phi, penalised, COARSE, HALVES)
            e2 = tl.sum(white * white, axis=1)
            value += bias * tl.sqrt(e2)
            s2 = tl.maximum(s2 - e2, 0.0)
        tl.store(out + rows, value + epsilon * tl.sqrt(s2) + nu * s2, mask=inside)


class Refreshed(NamedTuple):
    """What a refresh leaves on the device."""

    p: Tensor  # (N,)
    cumulative: Tensor  # (blocks,), in double precision
    sums: Tensor  # (M² + 2,), in double precision: Σ exp(logit - max) φφ', not yet symmetric; max; Σ exp(logit - max)


class Square(NamedTuple):
    """A small matrix on the device, and its largest number."""

    matrix: Tensor  # (M, M)
    largest: float


class Fused:
    """Kernels for one matrix of features, with what they need to work on.

    Parameters
    ----------
    features : Tensor of shape (N, m)
        In single precision; kept as rows with 16, 32, 64 or 128 columns, the last of which are zeros.
    programs : int
        How many share the rows.
    """

    def __init__(self, features: Tensor, *, programs: int = PROGRAMS) -> None:
        self.size, self.rank = features.shape
        N, M = self.size, max(FEWEST, triton.next_power_of_2(self.rank))
        if self.rank == M:
            self.rows = features.contiguous()
        else:
            self.rows = features.new_zeros((N, M))
            self.rows[:, : self.rank] = features
        self.columns, self.wide = M, M > 64  # too many sums for the registers of one warp
        # Numbers of 16 bits have as many digits as TF32 and are multiplied twice as fast, but end at 65,504.
        self.halves = float(features.abs().max()) < LARGEST
        self.programs = max(1, min(programs, triton.cdiv(N, 16)))
        self.blocks = triton.cdiv(N, BLOCK)
        self._logits = self._empty(N)
        self._sums = self._empty(self.programs, M, M)
        self._totals, self._tops = self._empty(self.programs), self._empty(self.programs)
        self._parts = self._empty(PARTS, M * M, dtype=torch.float64)

    @property
    def features(self) -> Tensor:
        """The features, as they were given."""
        return self.rows[:, : self.rank]

    @property
    def is_coarse(self) -> bool:
        """Whether torch has been told that 11 bits will do in products of float32."""
        return str(torch.get_float32_matmul_precision()) != "highest"

    def single(self, values: Any) -> Tensor:
        """Numbers on the device, in single precision."""
        if isinstance(values, np.ndarray):
            values = values.astype(np.float32)  # a copy: some arrays must not be written to
        return torch.as_tensor(values, dtype=torch.float32, device=self.rows.device)

    def _empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=self.rows.device)

    def direction(self, slope: NDArray[Any]) -> Tensor:
        """A vector with a number for each column, on the device."""
        padded = np.zeros(self.columns, dtype=np.float32)
        padded[: self.rank] = slope
        return self.single(padded)

    def refresh(self, slope: Tensor, offset: Tensor, design: Tensor, gamma: float) -> Refreshed:
        """p = (1 - γ)q + γπ with q ∝ exp(φ'slope + offset), and what Σ is made of; nothing is waited for."""
        sums = self._empty(self.columns**2 + 2, dtype=torch.float64)
        p, masses = self._empty(self.size), self._empty(self.blocks, dtype=torch.float64)
        with torch.cuda.device_of(self.rows):  # Triton launches on the current device
            self.pass_over(slope, offset)
            self.add_up(sums)
            self.spread_out(design, gamma, sums, p, masses)
        return Refreshed(p, torch.cumsum(masses, 0), sums)

    def sigma(self, refreshed: Refreshed) -> NDArray[np.float64]:
        """E_q φφ' on the host; waits for the device."""
        M, m = self.columns, self.rank
        sums = refreshed.sums.cpu().numpy()
        sigma = sums[:-2].reshape(M, M)[:m, :m]
        mean: NDArray[np.float64] = (sigma + sigma.T) / (2 * sums[-1])
        return mean

    def pass_over(self, slope: Tensor, offset: Tensor) -> None:
        """Logits of all actions, and the shares of all programs in their sums."""
        coarse = self.is_coarse
        warps, rows = (8, 64) if self.wide else (1, 16)
        pass_over_kernel[(self.programs,)](
            self.rows, slope, offset, self._logits, self._sums, self._totals, self._tops, self.size,
            M=self.columns, ROWS=rows, COARSE=coarse, HALVES=self.halves, STAGES=3, num_warps=warps,
        )  # fmt: skip

    def add_up(self, sums: Tensor) -> None:
        """The sums of all programs."""
        P, M = self.programs, self.columns
        add_up_kernel[(M, PARTS)](
            self._sums, self._totals, self._tops, self._parts, sums[-2:], P,
            M=M, SHARES=triton.next_power_of_2(P), ROWS=32,
        )  # fmt: skip
        torch.sum(self._parts, 0, out=sums[:-2])

    def spread_out(
        self, design: Tensor, gamma: float, sums: Tensor, p: Tensor, masses: Tensor
    ) -> None:
        """Probabilities, and their sums over blocks."""
        spread_out_kernel[(self.blocks,)](
            self._logits, design, sums[-2:], p, masses, self.size, gamma, BLOCK=BLOCK
        )

    def law(self, p: Tensor) -> Refreshed:
        """Probabilities from which actions can be drawn again."""
        whole = torch.nn.functional.pad(p.double(), (0, self.blocks * BLOCK - len(p)))
        masses = whole.reshape(self.blocks, BLOCK).sum(1)
        return Refreshed(p, torch.cumsum(masses, 0), self._empty(0, dtype=torch.float64))

    def draw(
        self, refreshed: Refreshed, uniforms: NDArray[Any], *, features: bool
    ) -> NDArray[np.float64]:
        """Actions by inversion of p, in rows: which, its probability and, where they are wanted, its features; in one transfer."""
        count, width = len(uniforms), self.columns + 2 if features else 2
        targets = torch.as_tensor(uniforms, dtype=torch.float64, device=self.rows.device)
        found = self._empty(count, width, dtype=torch.float64)
        with torch.cuda.device_of(self.rows):
            look_up_kernel[(count,)](
                self.rows, refreshed.p, refreshed.cumulative, targets, found, self.size, self.blocks,
                M=self.columns, STEPS=self.blocks.bit_length() + 1, BLOCK=BLOCK, WIDTH=width,
            )  # fmt: skip
        drawn: NDArray[np.float64] = found.cpu().numpy()
        return drawn[:, : self.rank + 2]

    def bonus(
        self, whole: Square, penalty: Square | None, bias: float, epsilon: float, nu: float
    ) -> Tensor:
        """b e(a) + ε s(a) + ν s(a)² of every action a, from matrices made by `square`."""
        if not self.wide or penalty is None:
            return self._weigh(whole, penalty, bias, epsilon, nu)
        # Two matrices of this size have no room in a multiprocessor.
        e2 = self._weigh(penalty, None, 0.0, 0.0, 1.0)
        s2 = torch.clamp(self._weigh(whole, None, 0.0, 0.0, 1.0) - e2, min=0.0)
        return bias * e2.sqrt() + epsilon * s2.sqrt() + nu * s2

    def _weigh(self, whole: Square, penalty: Square | None, *numbers: float) -> Tensor:
        N, out, other = self.size, self._empty(self.size), penalty or whole
        halves = self.halves and max(whole.largest, other.largest) < LARGEST
        rows, stages = (64 if self.wide or penalty else 128), 3 if halves or not self.wide else 1
        with torch.cuda.device_of(self.rows):
            weigh_kernel[(max(1, min(self.programs // 4, triton.cdiv(N, rows))),)](
                self.rows, whole.matrix, other.matrix, out, N, *numbers,
                M=self.columns, ROWS=rows, COARSE=self.is_coarse, HALVES=halves, PENALTY=penalty is not None,
                STAGES=stages, num_warps=4,
            )  # fmt: skip
        return out

    def square(self, matrix: NDArray[Any]) -> Square:
        """A matrix with as many rows as the features have columns, and as many columns."""
        square = np.zeros((self.columns, self.columns), dtype=np.float32)
        square[: matrix.shape[0], : matrix.shape[1]] = matrix
        return Square(self.single(square), float(np.max(np.abs(square))))
