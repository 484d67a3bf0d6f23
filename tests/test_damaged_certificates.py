"""Certificate files of unknown origin: refused in words, before they take memory or time."""

from __future__ import annotations

import copy
import io
import os
import struct
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from bondic_lab.noise.plug_in import PlugIn

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments import damaged_certificates
from experiments.certificate_damage import as_archive, as_member, as_text

import bondic
from bondic.core.certificate import Certificate, compute_digest
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.functions import FeatureFunction
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import Constant
from bondic.tuning.defaults import Advanced
from builders import synthetic


@pytest.fixture(scope="module")
def certified():
    mdp, log, policy, initial = synthetic(200, gamma=0.3)
    problem = bondic.make_problem(log, policy, initial, gamma=mdp.gamma, reward_range=mdp.reward_range)
    method = bondic.Dual(radius="paper", gauge=PlugIn(0.05), advanced=Advanced(pairs=8))
    return bondic.estimate_interval(problem, method=method).certificate, log


def write(folder: Path, text: bytes, archive: bytes) -> Path:
    (folder / "c.npz").write_bytes(archive)
    (folder / "c.json").write_bytes(text)
    return folder / "c.json"


def with_members(certificate: Certificate, folder: Path, changes: dict[str, bytes], **packing: object) -> Path:
    """The certificate with some members of its archive written byte by byte."""
    members = {f"{name}.npy": as_member(array) for name, array in certificate.arrays.items()} | changes
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", **({"compression": zipfile.ZIP_DEFLATED} | packing)) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return write(folder, as_text(certificate.body, certificate.digest), out.getvalue())


def header(shape: str, kind: str = "<f8") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text


def test_a_whole_certificate_is_read_as_numpy_reads_it(certified, tmp_path):
    certificate, log = certified
    text, numbers = bondic.save_certificate(certificate, tmp_path / "c")
    loaded = bondic.load_certificate(text)
    with np.load(numbers) as data:
        assert set(data.files) == set(loaded.arrays)
        for name in data.files:
            np.testing.assert_array_equal(data[name], loaded.arrays[name])
            assert data[name].dtype == loaded.arrays[name].dtype
    turned = {name: np.asfortranarray(array).astype(">f8") for name, array in certificate.arrays.items()}
    path = write(tmp_path, as_text(certificate.body, certificate.digest), as_archive(turned))
    assert bondic.verify(bondic.load_certificate(path), log).low == bondic.verify(certificate, log).low


def test_an_archive_that_grows_is_refused_before_it_does(certified, tmp_path):
    certificate, _ = certified
    count = 4 * 2**20  # 32 MB of zeros in 32 kB
    path = with_members(
        certificate, tmp_path, {"estimand.policies.0.answers.next.npy": header(f"({count},)") + bytes(8 * count)}
    )
    assert (tmp_path / "c.npz").stat().st_size < 2**17
    tracemalloc.start()
    with pytest.raises(VerificationError, match="bytes unpacked"):
        bondic.load_certificate(path, most_bytes=2**24)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**23


@pytest.mark.parametrize(
    ("changes", "packing", "words"),
    [
        ({"estimand.policies.0.answers.next.npy": header("(100000000000000,)") + b"\0" * 8}, {}, "not the size it has"),
        ({"estimand.policies.0.answers.next.npy": header("(2, 2)") + b"\0" * 24}, {}, "not the size it has"),
        ({"estimand.policies.0.answers.next.npy": header("(1,)", "<f16") + b"\0" * 16}, {}, "type f16"),
        ({"estimand.policies.0.answers.next.npy": header("(1,)", "|O") + b"\0" * 8}, {}, "header"),
        ({"estimand.policies.0.answers.next.npy": header("(1,)", "<c16") + b"\0" * 16}, {}, "type c16"),
        ({"estimand.policies.0.answers.next.npy": header("__import__('os')") + b"\0" * 8}, {}, "header"),
        ({"estimand.policies.0.answers.next.npy": b"\x93NUMPY\x03\0"}, {}, "not an array"),
        ({}, {"compression": zipfile.ZIP_BZIP2}, "packed in a way"),
        ({}, {"compression": zipfile.ZIP_LZMA}, "packed in a way"),
        ({f"m{k}.npy": b"" for k in range(5000)}, {}, "more than 4096 arrays"),
    ],
)
def test_archives_that_lie_are_refused(certified, tmp_path, changes, packing, words):
    with pytest.raises(VerificationError, match=words):
        bondic.load_certificate(with_members(certified[0], tmp_path, changes, **packing))


def test_arrays_of_one_name_comments_and_long_lists_are_refused(certified, tmp_path):
    certificate, _ = certified
    text = as_text(certificate.body, certificate.digest)
    whole = as_archive(dict(certificate.arrays))
    out = io.BytesIO(whole)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(out, "a") as archive:
        archive.writestr("estimand.policies.0.answers.next.npy", as_member(np.zeros(3)))
    commented = whole[:-2] + b"\x05\0hello"
    for content, words in ((out.getvalue(), "same name"), (commented, "not an archive"), (b"", "not an archive")):
        with pytest.raises(VerificationError, match=words):
            bondic.load_certificate(write(tmp_path, text, content))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"a": ' + b"9" * 100_000 + b"}", "whole number of 100000 digits"),
        (b'{"a": 1, "a": 2}', "two values of the same name"),
        (b"[" * 100_000 + b"]" * 100_000, "more than 64 deep"),
        (b"[1, 2]", "not a list of named values"),
        (b" " * (5 * 2**20), "too large"),
        (b'{"digest": "", "arrays": "c.npz"}', "no digest"),
        (b'{"digest": "' + b"0" * 64 + b'", "arrays": 5}', "TypeError"),
        (b'{"digest": "' + b"0" * 64 + b'", "arrays": ".."}', "not a plain file"),
        (b"\xff\xfe{", "is damaged"),
    ],
)
def test_texts_that_are_no_certificate_are_refused(certified, tmp_path, text, words):
    with pytest.raises(VerificationError, match=words):
        bondic.load_certificate(write(tmp_path, text, as_archive(dict(certified[0].arrays))))


def test_a_pipe_is_not_read(certified, tmp_path):
    certificate, _ = certified
    path = write(tmp_path, as_text(certificate.body, certificate.digest), b"")
    (tmp_path / "c.npz").unlink()
    os.mkfifo(tmp_path / "c.npz")
    with pytest.raises(VerificationError, match="not a plain file"):
        bondic.load_certificate(path)


def signed(certificate: Certificate, place: str, value: object) -> Certificate:
    body = copy.deepcopy(certificate.body)
    node, (*way, last) = body, place.split(".")
    for key in way:
        node = node[int(key) if key.isdigit() else key]
    node[last] = value
    return Certificate(body, certificate.arrays, compute_digest(body, certificate.arrays))


GAUSSIAN = {"kernel": "gaussian", "bandwidth": {"array": "estimand.policies.0.start.weights"}, "on": "observation"}
DIRAC = {"kernel": "dirac", "on": "action"}


def several(kind, *parts):
    return {"kernel": kind, "parts": list(parts)}


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("proof.ball.kernel", several("product", *[several("sum", *[GAUSSIAN] * 4)] * 25), "256 are evaluated"),
        ("proof.ball.kernel", several("product", *[DIRAC] * 40), "embedding columns"),
        ("proof.ball.kernel", several("sum", *[GAUSSIAN] * 200), "200 parts"),
        ("proof.ball.kernel", {"kernel": "constant", "value": True, "on": "time"}, "a number is needed, not True"),
        ("proof.ball.kernel", {"kernel": "time-mask", "horizon": float("nan"), "on": "time"}, "horizon"),
        ("proof.ball.kernel", {"kernel": "gaussian-series", "degree": 3}, "there is no kernel 'gaussian-series'"),
        ("proof.ball.radius", float("nan"), "ball.radius"),
        ("proof.ball.radius", True, "ball.radius"),
        ("proof.ball.radius", "9", "ball.radius"),
        ("conclusion.low", False, "conclusion.low"),
        ("proof.budget.alpha", 0.5, "of alpha = 0.5"),
        ("proof.budget.parts.noise", 10**400, "digits"),
        ("proof.ball.kernel", several("product"), "ball.kernel"),
        ("proof.instruments.provenance.rows", [float("nan"), 5], "provenance.rows"),
        ("conclusion.high", float("inf"), "conclusion.high"),
        ("proof.estimand.terms.horizon", 10**30, "horizon"),
        ("proof.estimand.terms.may_terminate", 1, "may_terminate"),
        ("proof.estimand.seed", -1, "seed"),
        ("proof.estimand.rows", [0.0, 5], "proof.estimand.rows"),
        ("proof.estimand.policies.0.start.weights", {"array": "nothing"}, "the name of an array"),
        ("information", [[[[]]]] * 200_000, "more than 100000 values"),
        ("information", 10**60, "digits"),
        ("information", {"a": {1, 2}}, "not JSON|holds a"),
        ("proof.omegas.third", None, "proof.omegas"),
        ("third", None, "and no others"),
    ],
)
def test_values_that_do_not_belong_are_refused(certified, place, value, words):
    certificate, log = certified
    if isinstance(value, dict) and "a" in value:  # no digest exists for what is no JSON
        forged = Certificate({**certificate.body, place: value}, certificate.arrays, "0" * 64)
    else:
        forged = signed(certificate, place, value)
    with pytest.raises(VerificationError, match=words):
        bondic.verify(forged, log)


def test_nesting_is_limited(certified):
    certificate, log = certified
    deep: object = GAUSSIAN
    for _ in range(60):
        deep = {"kernel": "scaled", "part": deep, "factor": 1.0}
    with pytest.raises(VerificationError, match="nested more than 40 deep"):
        bondic.verify(signed(certificate, "proof.ball.kernel", deep), log)


def test_the_work_is_estimated_before_it_is_done(certified):
    """Half a million starts for a log of 200 rows: 10^11 pairs of points."""
    certificate, log = certified
    many = 500_000
    arrays = dict(certificate.arrays) | {
        "estimand.policies.0.start.observations": np.random.default_rng(0).normal(size=(many, 1)),
        "estimand.policies.0.start.weights": np.full(many, 1.0 / many),
        "estimand.policies.0.answers.initial": np.full((many, 2), 0.5),
    }
    with pytest.raises(VerificationError, match="pairs of points"):
        bondic.verify(Certificate(certificate.body, arrays), log)


def test_kernels_do_not_explode():
    layout = bondic.core.kernels.normal_form.Layout(1, False, 0, 2)
    product = Constant(1.0) + bondic.Gaussian(1.0)
    for _ in range(24):
        product = product * (Constant(1.0) + bondic.Gaussian(1.0))
    with pytest.raises(InvalidInput, match="33554432 terms"):
        bondic.core.kernels.normal_form.normal_form(product, layout)
    waves = RandomFeatures.gaussian(300, 1, 1.0, seed=0)
    with pytest.raises(InvalidInput, match="216000000 features"):
        FeatureFunction(waves * waves * waves, layout, np.zeros(3))


def test_some_hundred_damaged_files():
    """The experiment in small: nothing but words, whatever was damaged."""
    tally = damaged_certificates.run(150, seed=20260101, jobs=1)
    assert tally.sound, tally.bad
    assert tally.counts["refused"] > 100
    assert tally.counts["accepted, same claims"] > 2  # otherwise everything is refused, and nothing was tested
    assert tally.peak < 2**30
