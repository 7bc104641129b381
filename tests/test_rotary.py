import math

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves
from transformers_small import shaken

from attention_course import models
from attention_course.attention import Attention, MultiHeadAttention
from attention_course.blockwise import blockwise_attend
from attention_course.decoding import greedy
from attention_course.masks import causal_mask, padding_mask, sliding_window_mask
from attention_course.transformer import (
    EncoderBlock,
    FeedForward,
    GroupedQueryAttention,
    Residual,
    RotaryPositions,
)

B, T, S, DH = 2, 3, 7, 10
H, G = 6, 2
D = H * DH
V, HIDDEN, L = 19, 23, 3
# From many keys to one: grouped queries with multi-query attention as their case.
key_heads = pytest.mark.parametrize("num_key_heads", [1, 2, 3, 6])


def llama(**sizes):
    sizes = {"num_key_heads": G, "num_heads": H, "dim": D} | sizes
    return shaken(
        models.llama(vocab_size=V, hidden_dim=HIDDEN, num_layers=L, base=100.0, **sizes)
    )


def grouped(num_key_heads=G, positions=True, **more):
    turns = RotaryPositions(DH) if positions else None
    return shaken(GroupedQueryAttention(D, H, num_key_heads, turns, **more))


# Positions that turn


def test_a_quarter_turn_by_hand(device):
    """Of width 4 and base (2/pi)^2, positions turn the first plane, entries 0 and 2, by
    1 and the second, entries 1 and 3, by pi/2."""
    turn = RotaryPositions(4, base=(2 / math.pi) ** 2)
    x = torch.tensor([[[3.0, 5.0, 0.0, 7.0]]], device=device).expand(1, 3, 4)
    expected = [
        [3.0, 5.0, 0.0, 7.0],
        [3 * math.cos(1), -7.0, 3 * math.sin(1), 5.0],
        [3 * math.cos(2), -5.0, 3 * math.sin(2), -7.0],
    ]

    assert_close(turn(x), torch.tensor([expected], device=device))


def test_the_clocks_are_those_of_the_paper():
    """The first clock turns by 1 a position, the last by 10000^(-(D-2)/D)."""
    x = torch.zeros(2, 14)
    x[:, :7] = 1.0
    cos, sin = RotaryPositions(14)(x)[1].chunk(2)

    speeds = torch.tensor([10000 ** (-2 * i / 14) for i in range(7)])
    assert_close(torch.atan2(sin, cos), speeds)
    assert_close(cos.square() + sin.square(), torch.ones(7))


def test_products_depend_on_the_distance_alone():
    turn, q, k = RotaryPositions(DH), torch.randn(1, DH), torch.randn(1, DH)

    def product(t, s):
        return turn(q, past=t) @ turn(k, past=s).mT

    for t, s in [(3, 0), (5, 2), (45, 42)]:
        assert_close(product(t, s), product(3, 0), rtol=1e-4, atol=1e-4)
    assert (product(3, 0) - product(0, 3)).abs() > 1e-3


def test_turning_goes_on_where_the_past_ended():
    turn, x = RotaryPositions(DH), torch.randn(B, H, S, DH)

    assert_close(
        torch.cat([turn(x[..., :2, :]), turn(x[..., 2:, :], past=2)], dim=2), turn(x)
    )
    assert_close(turn(x).norm(dim=-1), x.norm(dim=-1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_turn_as_far_as_singles(dtype):
    """2049 is no number of float16, and 257 none of bfloat16."""
    x = torch.randn(1, 2, DH)
    turned = RotaryPositions(DH)(x.to(dtype), past=2049)

    assert turned.dtype == dtype
    assert_close(
        turned.float(), RotaryPositions(DH)(x, past=2049), rtol=0.03, atol=0.03
    )


# Heads that share keys


def test_shared_keys_by_hand():
    """Two heads of width one and one key for both, all maps the identity or a sum."""
    attention = GroupedQueryAttention(2, 2, 1)
    with torch.no_grad():
        attention.query_proj.weight.copy_(torch.eye(2))
        attention.key_proj.weight.copy_(torch.tensor([[1.0, 0.0]]))
        attention.value_proj.weight.copy_(torch.tensor([[0.0, 1.0]]))
        attention.output_proj.weight.copy_(torch.eye(2))
    query = torch.tensor([[[1.0, 0.0]]])
    key = torch.tensor([[[0.0, 5.0], [math.log(3.0), 7.0]]])
    value = torch.tensor([[[4.0, 10.0], [8.0, 20.0]]])
    context, weights = attention(query, key, value)

    assert_close(weights, torch.tensor([[[[0.25, 0.75]], [[0.5, 0.5]]]]))
    assert_close(context, torch.tensor([[[17.5, 15.0]]]))


def every_head_its_own(attention):
    """Multi-head attention that keeps each shared key once for every head."""
    ours = MultiHeadAttention(D, H)
    group = H // attention.num_key_heads

    def copied(projection):
        by_head = projection.weight.unflatten(0, (-1, DH))
        return by_head.repeat_interleave(group, dim=0).flatten(0, 1)

    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.zero_()
        ours.query_proj.weight.copy_(attention.query_proj.weight)
        ours.key_proj.weight.copy_(copied(attention.key_proj))
        ours.value_proj.weight.copy_(copied(attention.value_proj))
        ours.output_proj.weight.copy_(attention.output_proj.weight)
    return ours


def masks(device=None):
    padding = padding_mask(torch.tensor([4, 7], device=device), S)
    empty = torch.ones(B, T, S, dtype=torch.bool, device=device)
    empty[0, 1] = False
    window = sliding_window_mask(S, 2, device)[:T]
    return {
        "none": None,
        "padding": padding,
        "window": window,
        "both": padding & window,
        "an empty row": empty,
        "one row": padding[0, 0],
        "one number": padding[0, 0, 0],
    }


@key_heads
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", masks())
def test_shared_keys_are_equal_keys(num_key_heads, need_weights, kind, device):
    attention = grouped(num_key_heads, positions=False).to(device)
    query, source = (torch.randn(B, n, D, device=device) for n in (T, S))
    mask = masks(device)[kind]
    context, weights = attention(query, source, source + 1, mask, need_weights)

    expected, their_weights = every_head_its_own(attention).to(device)(
        query, source, source + 1, mask
    )
    assert_close(context, expected, rtol=1e-4, atol=1e-4)
    if need_weights:
        assert_close(weights, their_weights, rtol=1e-4, atol=1e-5)
    else:
        assert weights is None


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_turned_head_is_torchs_kernel_on_turned_vectors(need_weights):
    attention, turn = grouped(), RotaryPositions(DH)
    x, mask = torch.randn(B, S, D), causal_mask(S)
    context, _ = attention(x, x, x, mask, need_weights)

    def heads(projection, n):
        return projection(x).unflatten(-1, (n, DH)).transpose(1, 2)

    shared = [heads(p, G) for p in (attention.key_proj, attention.value_proj)]
    k, v = (y.repeat_interleave(H // G, dim=1) for y in shared)
    q = turn(heads(attention.query_proj, H))
    expected = F.scaled_dot_product_attention(q, turn(k), v, mask)
    expected = attention.output_proj(expected.transpose(1, 2).flatten(2))
    assert_close(context, expected, rtol=1e-4, atol=1e-4)


def test_the_last_queries_stand_where_the_last_keys_do():
    attention, x, mask = grouped(), torch.randn(B, S, D), causal_mask(S)
    context, weights = attention(x, x, x, mask)
    last, last_weights = attention.ask(x[:, -T:], attention.remember(x, x), mask[-T:])

    assert_close(last, context[:, -T:])
    assert_close(last_weights, weights[:, :, -T:])


def test_turned_attention_knows_the_order():
    attention, x, order = grouped(), torch.randn(B, S, D), torch.arange(S).flip(0)
    context, _ = attention(x, x, x)
    flipped, _ = attention(x[:, order], x[:, order], x[:, order])

    assert not torch.allclose(flipped, context[:, order], atol=1e-2)


@key_heads
def test_a_cache_holds_the_heads_of_keys_and_no_others(num_key_heads, device):
    model = llama(num_key_heads=num_key_heads).to(device)
    token = torch.randint(V, (B, S), device=device)
    _, _, cache = model.step(token, None, model.start())

    assert len(cache) == L
    for seen in cache:
        assert seen.key.shape == seen.value.shape == (B, num_key_heads, S, DH)
        assert seen.nbytes == 2 * B * num_key_heads * S * DH * 4
    held = sum(tensor.untyped_storage().nbytes() for tensor in tree_leaves(cache))
    assert held == sum(seen.nbytes for seen in cache)


@key_heads
def test_a_llama_decodes_as_it_steps(num_key_heads, device):
    model = llama(num_key_heads=num_key_heads).to(device)
    target = torch.randint(V, (B, S), device=device)
    logits, _ = model.decode(target)

    first, _, cache = model.step(target[:, :2], None, model.start())
    stacked = [first]
    for t in range(2, S):
        step_logits, _, cache = model.step(target[:, t : t + 1], None, cache)
        stacked.append(step_logits)
    assert_close(torch.cat(stacked, dim=1), logits, rtol=1e-4, atol=1e-4)


def test_a_llama_sees_no_later_token():
    model, target = llama(), torch.arange(S)[None] + 5
    logits = model(target)
    for t in range(S):
        (gradient,) = torch.autograd.grad(
            logits[0, t].square().sum(), model.embedding.weight, retain_graph=True
        )
        assert set(gradient.abs().sum(dim=1).nonzero()[:, 0].tolist()) == set(
            range(5, 6 + t)
        )


def test_a_llama_continues_a_prompt_in_a_batch_as_alone():
    """Distances are those of the tokens, whatever padding stands between."""
    model, bos = llama(tied=True), 1
    prompts = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 3, 3, 3], [3, 3, 3, 3, 3]])
    lengths = torch.tensor([5, 2, 0])
    answers = torch.tensor([[bos, 7, 8], [bos, 9, 4], [bos, 5, 6]])
    memory = model.encode(prompts, lengths)
    at_once, _ = model.decode(answers, memory)
    written = greedy(model, prompts, lengths, bos, -1, 5).tokens

    cache, stacked = model.start(memory), []
    for t in range(3):
        logits, _, cache = model.step(answers[:, t : t + 1], memory, cache)
        stacked.append(logits)
    assert_close(torch.cat(stacked, dim=1), at_once, rtol=1e-4, atol=1e-4)
    for row, length in enumerate(lengths.tolist()):
        prompt = prompts[row : row + 1, :length]
        whole = torch.cat(
            [answers[row : row + 1, :1], prompt, answers[row, None, 1:]], 1
        )
        assert_close(at_once[row], model(whole)[0, length:], rtol=1e-4, atol=1e-4)
        alone = greedy(model, prompt, lengths[row : row + 1], bos, -1, 5).tokens
        assert written[row].tolist() == alone[0].tolist()


def test_every_parameter_of_a_llama_learns():
    model = llama()
    model(torch.randint(V, (B, S))).logsumexp(dim=-1).sum().backward()

    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name
        assert not name.endswith("bias")


@pytest.mark.parametrize("tied", [True, False])
def test_the_parts_of_a_llama_are_those_of_existing_blocks(tied):
    model = llama(tied=tied)
    assert isinstance(grouped(), Attention)
    assert (model.head.weight is model.embedding.weight) is tied
    assert {type(block) for block in model.blocks} == {EncoderBlock}


def test_what_is_looked_up_in_blocks_is_looked_up_all_the_same():
    def in_threes(q, k, v, mask):
        return blockwise_attend(q, k, v, mask, block_size=3)

    fused, blockwise = llama(), llama(look_up=in_threes)
    blockwise.load_state_dict(fused.state_dict())
    token = torch.randint(V, (B, S))
    assert_close(blockwise(token), fused(token), rtol=1e-4, atol=1e-4)


def test_turned_heads_stand_in_any_block():
    """Also after the sum, beside another network and another norm."""
    around = [Residual(nn.LayerNorm(D), 0.0, pre_norm=False) for _ in range(2)]
    block = shaken(EncoderBlock(grouped(), FeedForward(D, HIDDEN), *around))
    x, mask = torch.randn(B, S, D), causal_mask(S)
    states, _ = block(x, mask)
    first, past = block(x[:, :4], mask[:4, :4])
    rest, _ = block(x[:, 4:], mask[4:], past)

    assert_close(torch.cat([first, rest], dim=1), states, rtol=1e-4, atol=1e-4)


def test_a_llama_runs_without_data():
    model = llama().to("meta")
    prompts = torch.zeros(B, S, dtype=torch.long, device="meta")
    memory = model.encode(prompts, torch.tensor([7, 2]))
    logits, _, cache = model.step(prompts[:, :1], memory, model.start())
    logits, _, cache = model.step(prompts[:, 1:2], memory, cache)

    made = tree_leaves((memory, logits, cache))
    assert {tensor.device.type for tensor in made} == {"meta"}
    assert logits.shape == (B, 1, V)


@pytest.mark.parametrize("build", ["llama", "gpt2"])
def test_the_host_reads_no_value(build):
    """Not even where each prompt has a past of its own, and positions end."""
    sizes = {"vocab_size": V, "dim": D, "num_heads": H, "hidden_dim": HIDDEN}
    more = {"llama": {"num_key_heads": G}, "gpt2": {"max_length": 13}}[build]
    with FakeTensorMode():
        model = getattr(models, build)(**sizes, num_layers=2, **more)
        prompts = torch.zeros(B, S, dtype=torch.long)
        memory = model.encode(prompts, torch.full((B,), 5))
        logits, _, cache = model.step(prompts[:, :1], memory, model.start())
        logits, _, cache = model.step(prompts[:, 1:2], memory, cache)

    assert logits.shape == (B, 1, V)


# What follows is about our own errors, and about compiling: it runs where no hook
# checks shapes before us.


@pytest.mark.plain
@pytest.mark.parametrize("width", [0, 1, 7])
def test_odd_widths_are_refused(width):
    with pytest.raises(ValueError, match=f"pairs of entries, got width {width}$"):
        RotaryPositions(width)


@pytest.mark.plain
@pytest.mark.parametrize("base", [0.0, -1.0, math.nan])
def test_a_base_is_positive(base):
    with pytest.raises(ValueError, match=f"above 0, got {base}"):
        RotaryPositions(DH, base)


@pytest.mark.plain
@pytest.mark.parametrize("num_key_heads", [0, 4, 12])
def test_heads_that_cannot_share_are_refused(num_key_heads):
    with pytest.raises(ValueError, match=f"^6 heads .* among {num_key_heads} heads of"):
        GroupedQueryAttention(D, H, num_key_heads)


@pytest.mark.plain
@pytest.mark.parametrize("num_heads", [0, 7])
def test_heads_that_do_not_divide_the_width_are_refused(num_heads):
    for make in (
        lambda: GroupedQueryAttention(D, num_heads, 1),
        lambda: llama(num_heads=num_heads),
    ):
        with pytest.raises(ValueError, match=f"^width {D} .* {num_heads} heads"):
            make()


@pytest.mark.plain
def test_positions_of_another_width_are_refused():
    with pytest.raises(ValueError, match="of width 10, .* vectors of width 12"):
        GroupedQueryAttention(D, H, G, RotaryPositions(12))
    with pytest.raises(ValueError, match="width 12, got width 10"):
        RotaryPositions(12)(torch.randn(B, H, T, DH))


@pytest.mark.plain
def test_shared_heads_refuse_what_does_not_fit():
    attention, x = grouped(), torch.randn(B, S, D)
    memory = attention.remember(x, x)
    others = grouped(1).remember(x, x)
    for match, wrong in {
        f"width {D}, got width {D - 1}": lambda: attention(x[..., 1:], x, x),
        r"\(2, 7, 60\) and values of \(2, 6, 60\)": lambda: attention(x, x, x[:, 1:]),
        "for 1 sentences, but a memory of 2": lambda: attention.ask(x[:1], memory),
        "2 heads of width 10, but the memory 1 of": lambda: attention.ask(x, others),
        "7 queries cannot be the last of 5": lambda: attention(x, x[:, 2:], x[:, 2:]),
        "torch.bool.*got torch.float32": lambda: attention.ask(
            x, memory, torch.zeros(S, S)
        ),
        r"\(3, 7\) does not broadcast": lambda: attention.ask(
            x, memory, torch.ones(3, S, dtype=torch.bool)
        ),
    }.items():
        with pytest.raises(ValueError, match=match):
            wrong()


@pytest.mark.plain
@pytest.mark.parametrize("look_up", [None, blockwise_attend])
def test_a_llama_compiles_as_one_graph(look_up):
    model, token = llama(look_up=look_up), torch.randint(V, (B, S))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")

    assert_close(compiled(token), model(token), rtol=1e-4, atol=1e-4)


@pytest.mark.plain
def test_going_on_with_a_prompt_compiles_as_one_graph():
    model = llama()
    memory = model.encode(torch.randint(V, (B, 5)), torch.tensor([5, 2]))
    decode = torch.compile(model.decode, fullgraph=True, backend="aot_eager")
    token = torch.randint(V, (B, T))

    assert_close(
        decode(token, memory)[0], model.decode(token, memory)[0], rtol=1e-4, atol=1e-4
    )
