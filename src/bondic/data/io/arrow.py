"""Arrow tables as columns: pyarrow's own, and everything that speaks its C stream (pandas, polars and others)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bondic.core.errors import InvalidInput, one_line
from bondic.data.io.table import Column, SourceTable, unequal_rows
from bondic.documents import parse_json
from bondic.errors import shown


def is_arrow_like(source: Any) -> bool:
    """pyarrow's own tables and batches, everything with an Arrow C stream (pandas, polars, DuckDB), and what turns into one."""
    return any(hasattr(source, name) for name in ("__arrow_c_stream__", "__arrow_c_array__", "to_arrow"))


def to_arrow(source: Any, label: str) -> pa.Table:
    """The object as an Arrow table."""
    try:
        streams = hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")
        return pa.table(source if streams else source.to_arrow())
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError) as problem:
        raise InvalidInput(
            f"{label} cannot be turned into an Arrow table ({one_line(problem, 200)}). Columns need one type each: "
            "numbers, text or lists of numbers."
        ) from problem


def arrow_table(table: pa.Table, label: str, *, lists_as_text: bool = False, **more: Any) -> SourceTable:
    """Columns are decoded when they are used."""

    def load(name: str) -> Column:
        column = table.column(name)
        try:
            return decode(column, name, label, lists_as_text)
        except (pa.ArrowException, NotImplementedError, UnicodeDecodeError) as problem:
            raise InvalidInput(
                f"{label}: column {one_line(name)} of type {one_line(column.type)} cannot be read ({one_line(problem, 200)})."
            ) from problem

    def ticks(name: str) -> npt.NDArray[Any] | None:
        temporal = pa.types.is_timestamp(table.column(name).type) or pa.types.is_date(table.column(name).type)
        return np.asarray(table.column(name).to_numpy()) if temporal else None

    return SourceTable(label, tuple(table.column_names), load, ticks=ticks, **more)


def decode(column: pa.ChunkedArray, name: str, label: str, lists_as_text: bool) -> Column:
    """One column as numbers, text or rows of numbers."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # no chunks, or more than one array can hold
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    categorical = pa.types.is_dictionary(whole.type)
    if categorical:
        whole = _plain_text(whole.dictionary).take(whole.indices)
    whole = _plain_text(whole)
    kind = whole.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(whole, name, label)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text(whole, name, label, lists_as_text)
    if pa.types.is_null(kind):
        return Column(np.zeros(len(whole)), np.ones(len(whole), dtype=bool))
    if pa.types.is_decimal(kind):
        whole = whole.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise InvalidInput(
            f"{label}: column {one_line(name)} has type {one_line(kind)}; numbers, text or lists of numbers are needed. "
            "Dates and times can be given as numbers (hours since the start of the episode, say)."
        )
    return _numbers(whole, categorical)


def _plain_text(values: pa.Array) -> pa.Array:
    """Text of polars (`string_view`), for which Arrow has few functions, as plain text; everything else as it is."""
    return values.cast(pa.large_string()) if values.type == pa.string_view() else values


def _numbers(values: pa.Array, categorical: bool = False) -> Column:
    missing = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    if missing is not None:  # integers and flags stay what they are
        values = values.fill_null(False if pa.types.is_boolean(values.type) else 0)
    found = np.asarray(values.to_numpy(zero_copy_only=False))
    if found.dtype.kind == "f" and np.isnan(found.min(initial=0.0)):
        missing = np.isnan(found) if missing is None else missing | np.isnan(found)
    return Column(found, missing, categorical)


def _text(values: pa.Array, name: str, label: str, lists_as_text: bool) -> Column:
    missing = values.is_null().to_numpy(zero_copy_only=False)
    texts = values.fill_null("").to_pylist()
    present = [text for text, gap in zip(texts, missing, strict=True) if not gap]
    if lists_as_text and present and all(text[:1] == "[" and text[-1:] == "]" for text in present):
        return as_column(name, _parsed(texts, missing, name, label), label)
    out = np.empty(len(texts), dtype=object)
    out[:] = texts
    return Column(out, missing if missing.any() else None)


def _parsed(texts: list[str], missing: npt.NDArray[np.bool_], name: str, label: str) -> npt.NDArray[Any]:
    """Lists written as text, "[0.1, 2]"."""
    out = np.empty(len(texts), dtype=object)
    for row, text in enumerate(texts):
        if missing[row]:
            continue
        try:
            out[row] = [None if entry is None else float(entry) for entry in parse_json(text)]
        except (ValueError, TypeError, OverflowError) as problem:
            raise InvalidInput(
                f"{label}: column {one_line(name)} is not a list of numbers at row {row}: {one_line(text)}. Write [0.1, 2.5]."
            ) from problem
        if None in out[row]:
            raise InvalidInput(
                f"{label}: column {one_line(name)} has a gap inside its list at row {row}: {one_line(text)}."
            )
    return out


def _lists(column: pa.Array, name: str, label: str) -> Column:
    """Lists of one length as a matrix; a missing list is a row of missing entries."""
    gone = column.is_null().to_numpy(zero_copy_only=False)
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    present = np.flatnonzero(~gone)
    width = int(lengths[present[0]]) if present.size else 1
    odd = present[lengths[present] != width]
    if odd.size:
        raise unequal_rows(label, name, int(odd[0]), int(lengths[odd[0]]), width)
    flat = column.drop_null().flatten()
    inner = decode(pa.chunked_array([flat]), name, label, False)
    if inner.values.ndim > 1:
        raise InvalidInput(
            f"{label}: column {one_line(name)} holds lists of lists; one list of numbers per row is needed."
        )
    values = np.zeros((len(column), width), dtype=inner.values.dtype)
    values[present] = inner.values.reshape(present.size, width)
    mask = np.zeros(values.shape, dtype=bool)
    mask[gone] = True
    if inner.missing is not None:
        mask[present] = inner.missing.reshape(present.size, width)
    return Column(values, mask if mask.any() else None, inner.categorical)


def arrays_table(source: str, arrays: Mapping[str, Any], **more: Any) -> SourceTable:
    """A table over arrays (or sequences) by name."""
    given = {"ticks": lambda name: dates(arrays[name]), **more}
    return SourceTable(source, tuple(arrays), lambda name: as_column(name, arrays[name], source), **given)


def dates(values: Any) -> npt.NDArray[Any] | None:
    """An array of dates or times as it is; None for anything else."""
    return values if isinstance(values, np.ndarray) and values.dtype.kind in "Mm" else None


def as_column(name: str, values: Any, source: str) -> Column:
    """Anything array-like as a column; what cannot be read as numbers or text is refused."""
    masked = np.ma.getmaskarray(values).copy() if np.ma.isMaskedArray(values) else None
    try:
        array = np.ma.getdata(values) if masked is not None else np.asarray(values)
    except ValueError:  # rows of unequal length: the odd one is named below
        array = np.empty(len(values), dtype=object)
        array[:] = list(values)
    if array.ndim == 0:
        raise InvalidInput(f"{source}: {one_line(name)} is a single value; one entry per row is needed.")
    if array.dtype.kind in "OUS" and array.size:
        column = _from_objects(name, array, source)
    elif array.dtype.kind in "biuf" or not array.size:
        missing = np.isnan(array) if array.dtype.kind == "f" else None
        column = Column(array, missing if missing is not None and missing.any() else None)
    else:
        raise InvalidInput(
            f"{source}: {one_line(name)} has dtype {one_line(array.dtype)}; numbers or text are needed. Dates and times can be "
            "given as numbers (hours since the start of the episode, say)."
        )
    if masked is None or not masked.any():
        return column
    return Column(column.values, masked if column.missing is None else masked | column.missing)


def _from_objects(name: str, array: npt.NDArray[Any], source: str) -> Column:
    """Text and Python objects: numbers or rows of numbers, with None or NaN where a value is missing."""
    entries = array.ravel().tolist()
    try:
        if array.dtype.kind == "S" or any(isinstance(entry, bytes) for entry in entries):
            entries = [entry.decode() if isinstance(entry, bytes) else entry for entry in entries]
        column = decode(pa.chunked_array([pa.array(entries, from_pandas=True)]), name, source, False)
    except UnicodeDecodeError as problem:
        raise InvalidInput(f"{source}: {one_line(name)} holds text that is not UTF-8.") from problem
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
        if isinstance(problem, InvalidInput):
            raise
        kinds = shown(sorted({type(entry).__name__ for entry in entries if entry is not None}))
        raise InvalidInput(
            f"{source}: {one_line(name)} mixes {kinds}; every row needs a number, a text or a list of numbers."
        ) from problem
    if array.ndim == 1:
        return column
    missing = None if column.missing is None else column.missing.reshape(array.shape)
    return Column(column.values.reshape(array.shape), missing)
