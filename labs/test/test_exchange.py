"""The functions of labs/tools/exchange and activations, which compare attention on a model's Q, K and V: on the
CPU, with the book's reference as the operators, and tensors that are drawn. `make test-torch` runs it."""
import importlib.machinery
import importlib.util
import pathlib
import sys

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attention_in_stages import STAGES, decode, fill_cache, native, new_cache, read_cache

TOOLS = pathlib.Path(__file__).resolve().parents[1] / "tools"


@pytest.fixture(scope="module")
def exchange(tmp_path_factory):
    """The tool, loaded with empty weights."""
    folder = tmp_path_factory.mktemp("model")
    torch.save({"weight": torch.zeros(1)}, folder / "weights.bin")
    (folder / "texts.json").write_text('{"texts": []}')
    loader = importlib.machinery.SourceFileLoader("exchange", str(TOOLS / "exchange"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("exchange", loader))
    before = sys.argv, sys.path[:]
    sys.argv = ["exchange", str(folder / "out.json"), "--texts", str(folder / "texts.json"),
                "--weights", str(folder / "weights.bin")]
    sys.path.insert(0, str(TOOLS))
    loader.exec_module(module)
    sys.argv, sys.path[:] = before
    return module


def layers(tokens=70):
    """Q, K and V of two layers: floats that neither half nor E4M3 holds exactly."""
    torch.manual_seed(0)
    return [[torch.randn(2, 3, tokens, 64) * size for size in (2, 1, 3)] for _ in range(2)]


def test_exact_attention_with_a_mask_is_pytorchs(exchange):
    qkv = [x.double() for x in layers()[0]]
    for causal in (False, True):
        wanted = scaled_dot_product_attention(*qkv, is_causal=causal)
        torch.testing.assert_close(exchange.model.exact(*qkv, causal=causal), wanted, rtol=1e-12, atol=1e-12)


def test_what_a_cache_is_given_is_what_it_has(exchange):
    _, k, v = layers()[0]
    k[0, 0, 0] = k[0, 0, 0] / k[0, 0, 0].abs().max() * 448 / 64  # a row with the scale 2^-6 and the code of 448
    k[0, 0, 0, k[0, 0, 0].abs().argmin()] = 2**-15  # the row's smallest code, too
    k[0, 0, 1] = 0
    cache = new_cache(*k.shape[:3], page=16, device="cpu")
    fill_cache(cache, k, v)
    had = read_cache(cache)
    _, *given = exchange.cached(k, k, v)
    for x, y in zip(given, had):
        assert torch.equal(x, y[:, :, :x.shape[2]].double())


def test_token_by_token_is_causal_attention_of_the_cache(exchange, monkeypatch):
    tables = []
    monkeypatch.setattr(exchange, "decode", lambda *qkv: tables.append(qkv[3].table) or decode(*qkv))
    qkv = layers()[0]
    out = exchange.token_by_token(*qkv)
    wanted = exchange.model.exact(*exchange.cached(*qkv), causal=True)
    assert ((out - wanted).norm() / wanted.norm()).item() < 4e-4
    assert len(tables) == 70
    assert sorted(tables[0].flatten().tolist()) == list(range(10))
    assert tables[0].flatten().tolist() != list(range(10))


def test_a_program_is_launched_in_place_of_the_one_that_a_gpu_would_take(exchange, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(native, "_library", lambda name: name)
    native._program.cache_clear()
    before = dict(STAGES)
    for stage, (hopper, portable) in (("causal", ("ch20_room", "ch20_causal")),
                                      ("decode", ("ch21_hopper", "ch21_decode")),
                                      ("prompt", ("ch22_hopper", "ch22_prompt"))):
        assert native._program(stage, "gpu") == hopper
        with pytest.raises(ZeroDivisionError), exchange.launching(stage, portable):
            assert native._program(stage, "gpu") == portable
            raise ZeroDivisionError
        assert native._program(stage, "gpu") == hopper
    assert STAGES == before
    native._program.cache_clear()


def test_errors_with_a_mask(exchange, monkeypatch):
    monkeypatch.setattr(exchange, "HOPPER", False)
    monkeypatch.setattr(exchange, "flash", scaled_dot_product_attention)
    said = exchange.masked(layers())
    assert list(said) == ["flash", "head_scales", "codes", "ch20_causal", "token_scales", "ch21_decode"]
    for way, errors in said.items():
        for error in errors.values():
            assert 0 < error["rel_head"] <= error["rel_row"]
        if way == "codes":  # an emulation of chapter 18's kernel, with its error of P in E4M3
            assert 0.01 < errors["given"]["rel_head"] < 0.04
        else:
            assert errors["given"]["rel_row"] < 1.5e-3
        if way == "flash":
            assert errors["whole"]["rel_row"] < 4e-3
        else:  # the error of rounding normally distributed values to E4M3
            assert 0.02 < errors["whole"]["rel_head"] < 0.1


def test_an_attention_of_nan_or_of_another_place_is_wrong(exchange):
    wanted = [exchange.model.exact(*qkv) for qkv in layers()]
    assert exchange.model.attention_errors(wanted, wanted) == {"rel_head": 0, "rel_row": 0}
    poisoned = [x.clone() for x in wanted]
    poisoned[0][1, 2, 3, 4] = float("nan")
    for wrong in (poisoned, [-x for x in wanted], [x.flip(2) for x in wanted]):
        with pytest.raises(SystemExit) as stopped:
            exchange.model.attention_errors(wrong, wanted)
        assert stopped.value.code == 1


def test_the_worst_is_over_all_layers(exchange):
    wanted = [exchange.model.exact(*qkv) for qkv in layers()]
    off = [x.clone() for x in wanted]
    off[0][1, 2, 3] *= 1.25
    worst = exchange.model.attention_errors(off, wanted)
    assert worst["rel_row"] == pytest.approx(0.25)
    assert 0.01 < worst["rel_head"] < 0.1


def test_without_a_gpu_nothing_is_measured(exchange, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as stopped:
        exchange.main()
    assert stopped.value.code == 3
    assert capsys.readouterr().err == "exchange: no GPU here\n"
    assert not pathlib.Path(exchange.asked["out"]).exists()
