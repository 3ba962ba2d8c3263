"""Networks whose results in float16 are known from numpy: twenty layers and more, and what float16 cannot hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.measuring import numbers

Weights = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Network:
    """A graph in ONNX's text format, its weights, and inputs ``x`` of a `shape`, drawn with a deviation `scale`."""

    graph: str
    weights: Weights
    shape: tuple[int, ...]
    scale: float = 1.0


def drawn(*shape: int, seed: int) -> NDArray[np.float32]:
    """Weights (inputs, outputs), or of a convolution, that keep activations at their size."""
    size = np.sqrt(np.prod(shape[1:] if len(shape) > 2 else shape[:1]))
    return np.asarray(numbers(*shape, seed=seed) / size, np.float32)


def perceptron() -> Network:
    """Twelve products, each with a bias and a Tanh."""
    nodes: list[str] = []
    weights: Weights = {}
    last = "x"
    for i in range(12):
        nodes.append(f"p{i} = MatMul({last}, w{i}) s{i} = Add(p{i}, b{i}) t{i} = Tanh(s{i})")
        weights |= {f"w{i}": drawn(32, 32, seed=i), f"b{i}": numbers(32, seed=i + 50)}
        last = f"t{i}"
    return Network(
        f"(float[n, 32] x) => (float[n, 32] y) {{ {' '.join(nodes)} y = Mul({last}, b0) }}", weights, (4, 32)
    )


def convolutions() -> Network:
    """Eight convolutions with normalisations and gates, a pooling, a resize and a mean."""
    nodes: list[str] = []
    weights: Weights = {}
    last = "x"
    for i in range(8):
        nodes.append(
            f"c{i} = Conv<pads = [1, 1, 1, 1]>({last}, w{i}, b{i}) "
            f"n{i} = BatchNormalization(c{i}, g{i}, b{i}, b{i}, g{i}) s{i} = Sigmoid(n{i}) a{i} = Mul(n{i}, s{i})"
        )
        weights |= {f"w{i}": drawn(6, 6 if i else 3, 3, 3, seed=i), f"b{i}": numbers(6, seed=i) / 4}
        weights[f"g{i}"] = np.abs(numbers(6, seed=i + 9)) + np.float32(0.5)
        last = f"a{i}"
    end = f'm = MaxPool<kernel_shape = [2, 2]>({last}) r = Resize<mode = "linear">(m, , sizes) g = GlobalAveragePool(r)'
    weights["sizes"] = np.array([1, 1, 2, 2], np.float32)
    graph = f"(float[n, 3, 8, 8] x) => (float[n, 6] y) {{ {' '.join(nodes)} {end} y = Flatten(g) }}"
    return Network(graph, weights, (4, 3, 8, 8))


def _normalized(name: str, read: str) -> str:
    """A LayerNormalization that is written out, which gives ``n`` and the name."""
    return (
        f"m{name} = ReduceMean<axes = [-1]>({read}) d{name} = Sub({read}, m{name}) q{name} = Pow(d{name}, two) "
        f"v{name} = ReduceMean<axes = [-1]>(q{name}) e{name} = Add(v{name}, tiny) r{name} = Sqrt(e{name}) "
        f"n{name} = Div(d{name}, r{name}) "
    )


def encoder() -> Network:
    """Two blocks of masked attention and a perceptron, each behind a normalisation."""
    weights: Weights = {}
    nodes, last = "", "x"
    sizes = {"wk": (16, 16), "wq": (16, 16), "wv": (16, 16), "wf": (16, 48), "wg": (48, 16)}
    for i in range(2):
        nodes += (
            f"{_normalized(f'a{i}', last)} k{i} = MatMul(na{i}, wk{i}) l{i} = MatMul(na{i}, wq{i}) "
            f"u{i} = MatMul(na{i}, wv{i}) kt{i} = Transpose<perm = [0, 2, 1]>(k{i}) z{i} = MatMul(l{i}, kt{i}) "
            f"zs{i} = Mul(z{i}, scale) zm{i} = Add(zs{i}, mask) p{i} = Softmax(zm{i}) o{i} = MatMul(p{i}, u{i}) "
            f"h{i} = Add({last}, o{i}) {_normalized(f'b{i}', f'h{i}')} f{i} = MatMul(nb{i}, wf{i}) g{i} = Relu(f{i}) "
            f"j{i} = MatMul(g{i}, wg{i}) y{i} = Add(h{i}, j{i}) "
        )
        weights |= {f"{name}{i}": drawn(*size, seed=9 * i + k) for k, (name, size) in enumerate(sizes.items())}
        last = f"y{i}"
    weights |= {"two": np.array(2, np.float32), "tiny": np.array(1e-5, np.float32), "scale": np.array(0.25, np.float32)}
    weights["mask"] = np.where(np.arange(6) < 4, 0, -1e9).astype(np.float32)
    return Network(
        f"(float[n, 6, 16] x) => (float[n, 6, 16] y) {{ {nodes} y = Identity({last}) }}", weights, (4, 6, 16)
    )


def residual() -> Network:
    """Ten sums that grow to some thousands, where neighbours in float16 are two apart."""
    nodes: list[str] = []
    weights: Weights = {"one": np.ones(24, np.float32)}
    last = "x"
    for i in range(10):
        nodes.append(f"p{i} = MatMul({last}, w{i}) r{i} = Relu(p{i}) s{i} = Add({last}, r{i})")
        weights[f"w{i}"] = np.float32(1.6) * drawn(24, 24, seed=i)
        last = f"s{i}"
    graph = f"(float[n, 24] x) => (float[n, 24] y) {{ {' '.join(nodes)} y = Mul({last}, one) }}"
    return Network(graph, weights, (4, 24))


def repeated() -> Network:
    """A product, a sum and a Tanh in each of 24 turns of a loop, between two products."""
    body = """a (int64 i, bool on, float[n, 16] h) => (bool on2, float[n, 16] h3) {
        on2 = Identity(on) h1 = MatMul(h, turn) h2 = Add(h1, x) h3 = Tanh(h2) }"""
    graph = f"""(float[n, 16] x) => (float[n, 16] y) {{
        s = MatMul(x, first) e = Loop(turns, , s)<body = {body}> y = MatMul(e, first) }}"""
    weights: Weights = {"first": drawn(16, 16, seed=1), "turn": drawn(16, 16, seed=2)}
    return Network(graph, weights | {"turns": np.array(24)}, (4, 16))


def overflowing() -> Network:
    """A normalisation of numbers whose squares need 2e5."""
    graph = f"(float[n, 4, 16] x) => (float[n, 4, 8] y) {{ {_normalized('', 'x')} y = MatMul(n, w) }}"
    weights: Weights = {"two": np.array(2, np.float32), "tiny": np.array(1e-5, np.float32), "w": drawn(16, 8, seed=1)}
    return Network(graph, weights, (8, 4, 16), scale=500.0)


NETWORKS = (perceptron, convolutions, encoder, residual, repeated, overflowing)


def _small(nodes: str, scale: float = 1.0, **weights: Any) -> Network:
    arrays: Weights = {name: np.asarray(value, np.float32) for name, value in weights.items()}
    return Network(f"(float[n, 16] x) => (float[n, 16] y) {{ {nodes} }}", arrays, (4, 16), scale)


def scaled(factor: float) -> Network:
    """A product, and one that brings it back."""
    return _small("a = Mul(x, k) y = Mul(a, s)", k=factor, s=1 / factor)


def heavy_weight() -> Network:
    """Weights beyond the range, which the file holds as its largest number."""
    return _small("p = Mul(x, w) y = Mul(p, s)", w=[1e5, -2e5] * 8, s=1e-3)


def cast_by_user() -> Network:
    """To float16 and back, by casts of the user's own."""
    return _small("a = Mul(x, k) h = Cast<to = 10>(a) f = Cast<to = 1>(h) y = Mul(f, s)", k=3e4, s=1e-4)


def underflowing() -> Network:
    """Squares below 6e-8 are 0, and those below 6e-5 have fewer bits."""
    return _small("q = Mul(x, x) r = Add(q, tiny) y = Sqrt(r)", 1e-3, tiny=1e-9)


def summed() -> Network:
    """Sums of sixteen numbers that float16 holds, some of which it does not."""
    return _small("a = Mul(x, k) s = ReduceSum(a) y = Add(a, s)", k=2e4)


def masked_twice() -> Network:
    """Two masks, which add to a number below the lowest: the Softmax gives 0 there."""
    mask = np.where(np.arange(16) < 9, 0, -3e38)
    return _small("m = Add(one_mask, other_mask) a = Add(x, m) y = Softmax(a)", one_mask=mask, other_mask=mask)


def in_branch() -> Network:
    """A square that overflows, in a body of an If, whose root is read outside."""
    nodes = """a = Mul(x, k) l = ReduceMax<keepdims = 0>(x) yes = Greater(l, zero)
        r = If(yes)<then_branch = t () => (float[n, 16] t2) { t1 = Mul(a, a) t2 = Sqrt(t1) },
            else_branch = e () => (float[n, 16] e1) { e1 = Neg(a) }>
        y = Div(a, r)"""
    return _small(nodes, k=300.0, zero=np.zeros(()))


BESIDE = (heavy_weight, cast_by_user, underflowing, summed, masked_twice, in_branch)
