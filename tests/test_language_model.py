import itertools

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves
from transformers_small import (
    STACK,
    TARGET,
    B,
    T,
    V,
    both_orders,
    language_model,
    torchs_encoder_block,
)

from attention_course.decoding import beam_search, greedy, sample
from attention_course.masks import causal_mask
from attention_course.models import decoder_only

BOS, EOS = 1, 2
# Prompts of 5, 3, 0 and 1 tokens, padded with what must not be read.
PROMPTS = torch.tensor(
    [[4, 5, 6, 7, 8], [9, 10, 11, 3, 3], [12, 3, 3, 3, 3], [13, 14, 3, 3, 3]]
)
LENGTHS = torch.tensor([5, 3, 0, 1])
ANSWERS = torch.tensor([[BOS, 7, 8], [BOS, 9, 4], [BOS, 5, 6], [BOS, 6, 7]])


def alone():
    """Give each prompt without its padding, as a batch of one, and its answer."""
    for row, length in enumerate(LENGTHS.tolist()):
        yield PROMPTS[row : row + 1, :length], ANSWERS[row : row + 1]


@both_orders
@pytest.mark.parametrize("kind", ["sines", "learned"])
def test_a_language_model_decodes_as_it_steps(pre_norm, kind, device):
    model = language_model(kind, pre_norm=pre_norm).to(device)
    target = torch.randint(1, V, (B, 7), device=device)
    logits, weights = model.decode(target)
    assert weights is None
    assert_close(model(target), logits)

    # two tokens at once
    first, _, cache = model.step(target[:, :2], None, model.start())
    stacked = [first]
    for t in range(2, 7):
        step_logits, _, cache = model.step(target[:, t : t + 1], None, cache)
        stacked.append(step_logits)
    assert_close(torch.cat(stacked, dim=1), logits)


@both_orders
def test_a_language_model_is_torchs_encoder_blocks_under_a_causal_mask(pre_norm):
    model = language_model(pre_norm=pre_norm)
    x = model.embedding(TARGET)
    for block in model.blocks:
        x = torchs_encoder_block(block, pre_norm)(x, src_mask=~causal_mask(T))

    assert_close(model(TARGET), model.head(model.norm(x)))


@both_orders
def test_a_language_model_does_not_see_later_tokens(pre_norm):
    model = language_model(pre_norm=pre_norm)
    logits = model(TARGET)
    for b in range(B):
        for t in range(T):
            (gradient,) = torch.autograd.grad(
                logits[b, t].square().sum(), model.embedding.weight, retain_graph=True
            )
            reached = gradient.abs().sum(dim=-1) > 0
            assert reached[TARGET[b, : t + 1]].all()
            assert reached.sum() == t + 1  # no later token, and no other sentence's


def test_every_parameter_of_a_language_model_learns():
    model = language_model("learned")
    model(TARGET).logsumexp(dim=-1).sum().backward()

    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name


@pytest.mark.parametrize("kind", ["sines", "learned"])
def test_a_language_model_runs_without_data(kind):
    model, target = language_model(kind).to("meta"), TARGET.to("meta")
    logits, _, cache = model.step(target[:, :2], None, model.start())
    step_logits, _, cache = model.step(target[:, 2:], None, cache)

    assert {
        tensor.device.type for tensor in tree_leaves((logits, step_logits, cache))
    } == {"meta"}
    assert (logits.shape, step_logits.shape) == ((B, 2, V), (B, 1, V))


@both_orders
@pytest.mark.parametrize("kind", ["sines", "learned"])
def test_a_prompts_steps_are_the_whole_sequence_at_once(kind, pre_norm, device):
    """BOS, the prompt and what is written, in one call, without padding or cache."""
    model = language_model(kind, pre_norm=pre_norm).to(device)
    target = ANSWERS.to(device)
    memory = model.encode(PROMPTS.to(device), LENGTHS)
    at_once, _ = model.decode(target, memory)

    cache, stacked = model.start(memory), []
    for t in range(T):
        logits, _, cache = model.step(target[:, t : t + 1], memory, cache)
        stacked.append(logits)
    assert_close(torch.cat(stacked, dim=1), at_once, rtol=0, atol=1e-5)

    for row, (prompt, answer) in enumerate(alone()):
        whole = torch.cat([answer[:, :1], prompt, answer[:, 1:]], dim=1).to(device)
        expected = model(whole)[0, prompt.size(1) :]
        assert_close(at_once[row], expected, rtol=0, atol=1e-5)


def eloquent(kind, pre_norm):
    """Draw models until one has something else to say to every prompt."""
    while True:
        model = language_model(kind, pre_norm=pre_norm)
        model.head.bias.data.zero_()
        for module in model.modules():
            if isinstance(module, nn.LayerNorm):
                module.reset_parameters()
        said = greedy(model, PROMPTS, LENGTHS, BOS, -1, 7).tokens.tolist()
        if len({tuple(row) for row in said}) == len(PROMPTS):
            return model


@both_orders
@pytest.mark.parametrize("kind", ["sines", "learned"])
def test_a_prompt_is_continued_in_a_batch_as_it_is_alone(kind, pre_norm):
    model = eloquent(kind, pre_norm)
    searches = (
        greedy,
        lambda *given: sample(*given, top_k=1),
        lambda *given: beam_search(*given, beam_size=3, length_penalty=0.6),
    )
    # Whatever token is declared the end: some go on while others have ended.
    said = greedy(model, PROMPTS, LENGTHS, BOS, -1, 7).tokens
    for search, eos in itertools.product(searches, said[:, 2].unique().tolist()):
        together = search(model, PROMPTS, LENGTHS, BOS, eos, 7)
        for row, (prompt, _) in enumerate(alone()):
            length = torch.tensor([prompt.size(1)])
            one = search(model, prompt, length, BOS, eos, 7)
            size = one.tokens.size(1)
            assert together.tokens[row, :size].tolist() == one.tokens[0].tolist()
            assert_close(together.scores[row], one.scores[0], rtol=0, atol=1e-5)


def test_samples_of_a_prompt_come_as_often_in_a_batch_as_alone():
    model, n = language_model(), 4000
    model.head.weight.data /= 4  # so that some tokens are likely, and none is certain
    drawn = sample(
        model,
        PROMPTS.repeat_interleave(n, dim=0),
        LENGTHS.repeat_interleave(n),
        BOS,
        EOS,
        1,
    ).tokens.view(len(PROMPTS), n)

    for row, (prompt, _) in enumerate(alone()):
        whole = torch.cat([torch.tensor([[BOS]]), prompt], dim=1)
        odds = model(whole)[0, -1].softmax(dim=-1)
        shares = drawn[row].bincount(minlength=V) / n
        assert_close(shares, odds, rtol=0, atol=4 * (0.25 / n) ** 0.5)


def test_what_stands_on_padding_is_not_read():
    model = language_model()
    logits, _ = model.decode(ANSWERS, model.encode(PROMPTS, LENGTHS))
    junk = torch.where(torch.arange(5) < LENGTHS[:, None], PROMPTS, PROMPTS + 4)
    more = torch.cat([junk, torch.full((4, 2), 9)], dim=1)

    for other in (junk, more):
        assert_close(model.decode(ANSWERS, model.encode(other, LENGTHS))[0], logits)


def test_an_empty_prompt_is_none():
    """Every sentence starts with BOS, so that there is something to go on with."""
    model = language_model()
    none = torch.zeros(2, dtype=torch.long)
    for source in (PROMPTS[:2], PROMPTS[:2, :0]):
        memory = model.encode(source, none)
        assert_close(model.decode(TARGET, memory)[0], model(TARGET))


def test_every_token_of_a_prompt_goes_through_the_blocks_once():
    model, seen = language_model(), []
    model.blocks[0].register_forward_hook(
        lambda module, inputs, output: seen.append(inputs[0].size(1))
    )
    greedy(model, PROMPTS, LENGTHS, BOS, -1, 4)
    assert seen == [1 + 5, 1, 1, 1]


def test_a_prompt_runs_without_data():
    model = language_model().to("meta")
    memory = model.encode(PROMPTS.to("meta"), LENGTHS)
    logits, _, cache = model.step(ANSWERS[:, :1].to("meta"), memory, model.start())
    logits, _, cache = model.step(ANSWERS[:, 1:2].to("meta"), memory, cache)

    made = tree_leaves((memory, logits, cache))
    assert {tensor.device.type for tensor in made} == {"meta"}
    assert logits.shape == (4, 1, V)


# What follows is about our own errors, and about compiling: it runs where no hook
# checks shapes before us.


@pytest.mark.plain
def test_a_prompt_has_one_length():
    with pytest.raises(ValueError, match=r"\(3,\) for 4 sources"):
        language_model().encode(PROMPTS, LENGTHS[:3])


@pytest.mark.plain
def test_a_stack_that_drops_compiles_as_one_graph():
    sizes = STACK | {"num_layers": 1}
    model = decoder_only(vocab_size=V, **sizes, dropout=0.5).train()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")

    compiled(TARGET).sum().backward()
    assert not torch.allclose(compiled(TARGET), compiled(TARGET))


@pytest.mark.plain
def test_a_language_model_compiles_as_one_graph():
    model = language_model(num_layers=2)

    assert_close(
        torch.compile(model, fullgraph=True, backend="aot_eager")(TARGET), model(TARGET)
    )


@pytest.mark.plain
def test_going_on_with_a_prompt_compiles_as_one_graph():
    model = language_model(num_layers=2)
    memory = model.encode(PROMPTS, LENGTHS)
    decode = torch.compile(model.decode, fullgraph=True, backend="aot_eager")

    assert_close(decode(ANSWERS, memory)[0], model.decode(ANSWERS, memory)[0])
