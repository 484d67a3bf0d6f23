"""LANES doubles at once: a vector type for compiled loops, so that speed does not hang on an auto-vectorizer.

Every operation acts on each lane and is rounded once, as written; only a product followed by a sum may be fused. The
width is the same on every machine: LLVM splits a vector into as many registers as the processor needs for it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar

from llvmlite import ir
from numba.core import types
from numba.core.datamodel import models
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, register_model

LANES = 32
"""Four registers of eight doubles or eight of four: enough independent chains to hide the latency of a polynomial."""
NARROW = 8
"""Width of running sums."""

_DOUBLE, _INT32, _INT64 = ir.DoubleType(), ir.IntType(32), ir.IntType(64)
_VECTOR, _INTEGERS = ir.VectorType(_DOUBLE, LANES), ir.VectorType(_INT64, LANES)
_FUSE = ("contract",)


class Lanes(types.Type):
    """The numba type of a vector."""

    def __init__(self) -> None:
        super().__init__(name=f"Lanes({LANES})")


lanes_type = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)  # type: ignore[no-untyped-call]


def _compiled(function: Callable[..., Any]) -> Any:
    """A function for compiled code alone, from the instructions it stands for."""
    return intrinsic(function)


def _spread(builder: Any, number: Any) -> Any:
    single = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(single, single, ir.Constant(ir.VectorType(_INT32, LANES), None))


def _constant(value: Any, kind: Any = _VECTOR) -> Any:
    return ir.Constant(kind, [ir.Constant(kind.element, value)] * LANES)


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any, width: int) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), ir.VectorType(_DOUBLE, width).as_pointer())


@_compiled
def splat(typingctx: Any, number: Any) -> Any:
    """The same number in every lane."""
    del typingctx, number

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del context, signature
        return _spread(builder, args[0])

    return lanes_type(types.float64), codegen


@_compiled
def load(typingctx: Any, array: Any, index: Any) -> Any:
    """array.flat[index : index + LANES] of a contiguous array."""
    del typingctx, index

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, signature.args[0], args[0], args[1], LANES), align=8)

    return lanes_type(array, types.int64), codegen


def _elementwise(build: Callable[..., Any], operands: int) -> Any:
    """A function of `operands` vectors from the instructions of one lane."""

    def make(*given: Any) -> Any:
        del given

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            del context, signature
            return build(builder, *args)

        return lanes_type(*[lanes_type] * operands), codegen

    if operands == 1:
        return _compiled(lambda typingctx, a: make(typingctx, a))
    if operands == 2:
        return _compiled(lambda typingctx, a, b: make(typingctx, a, b))
    return _compiled(lambda typingctx, a, b, c: make(typingctx, a, b, c))


def _library(name: str) -> Callable[[Any, Any], Any]:
    def build(builder: Any, a: Any) -> Any:
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        return builder.call(builder.module.declare_intrinsic(f"{name}.v{LANES}f64", (), kind), [a])

    return build


def _times_power(builder: Any, value: Any, shifted: Any) -> Any:
    """Add the integer in the low bits of `shifted` to the exponent field of `value`."""
    power = builder.shl(builder.bitcast(shifted, _INTEGERS), _constant(52, _INTEGERS))
    return builder.bitcast(builder.add(builder.bitcast(value, _INTEGERS), power), _VECTOR)


absolute = _elementwise(_library("llvm.fabs"), 1)
root = _elementwise(_library("llvm.sqrt"), 1)
smaller = _elementwise(lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b), 2)
"""The smaller of a and b; b where a is not a number."""
where_equal = _elementwise(
    lambda builder, a, b, c: builder.select(builder.fcmp_ordered("==", a, b), c, _constant(0.0)), 3
)
"""c where a == b, else 0."""
times_power_of_two = _elementwise(_times_power, 2)
"""value 2^k for shifted = 1.5 * 2^52 + k: exact while the result is a normal number."""


def _part(builder: Any, vector: Any, start: int, width: int) -> Any:
    places = ir.Constant(ir.VectorType(_INT32, width), list(range(start, start + width)))
    return builder.shuffle_vector(vector, vector, places)


@_compiled
def accumulate(typingctx: Any, array: Any, index: Any, vector: Any) -> Any:
    """Add the quarters of a vector to array.flat[index : index + NARROW], one after the other."""
    del typingctx, index, vector

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature.args[0], args[0], args[1], NARROW)
        sums = builder.load(address, align=8)
        for start in range(0, LANES, NARROW):
            sums = builder.fadd(sums, _part(builder, args[2], start, NARROW), flags=_FUSE)
        builder.store(sums, address, align=8)
        return context.get_dummy_value()

    return types.void(array, types.int64, lanes_type), codegen


@_compiled
def total(typingctx: Any, array: Any, index: Any) -> Any:
    """The sum of array.flat[index : index + NARROW], by halves."""
    del typingctx, index

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_address(context, builder, signature.args[0], args[0], args[1], NARROW), align=8)
        width = NARROW
        while width > 1:
            width //= 2
            value = builder.fadd(_part(builder, value, 0, width), _part(builder, value, width, width))
        return builder.extract_element(value, ir.Constant(_INT32, 0))

    return types.float64(array, types.int64), codegen


def _operator(symbol: Any, build: Callable[[Any, Any, Any], Any]) -> None:
    """Let a binary operator of two vectors stand for these instructions."""

    class Template(ConcreteTemplate):
        cases: ClassVar = [lanes_type(lanes_type, lanes_type)]

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del context, signature
        return build(builder, *args)

    infer_global(symbol)(Template)  # type: ignore[no-untyped-call]
    lower_builtin(symbol, Lanes, Lanes)(codegen)  # type: ignore[no-untyped-call]


_operator(operator.add, lambda builder, a, b: builder.fadd(a, b, flags=_FUSE))
_operator(operator.sub, lambda builder, a, b: builder.fsub(a, b, flags=_FUSE))
_operator(operator.mul, lambda builder, a, b: builder.fmul(a, b, flags=_FUSE))
