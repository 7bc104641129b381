"""The models of `pretrained` beside those of transformers, with the same weights."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported

import pytest
import torch
from torch.testing import assert_close
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Model,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaModel,
)

from attention_course.pretrained import load
from attention_course.transformer import TransformerEncoder, TransformerLM

B, T, V, N = 2, 11, 19, 13  # sentences, tokens, vocabulary, learned positions
GPT2 = {"vocab_size": V, "n_positions": N, "n_embd": 14, "n_head": 2, "n_layer": 3}
LLAMA = {
    "vocab_size": V,
    "hidden_size": 42,
    "intermediate_size": 23,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "max_position_embeddings": N,
}
BERT = {
    "vocab_size": V,
    "hidden_size": 14,
    "intermediate_size": 23,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "max_position_embeddings": N,
}
ENDS = {"bos_token_id": 1, "eos_token_id": 2}


def shaken(model):
    """Far from its beginning: every parameter counts, biases and norms as well."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 3)
    return model.eval()


def gpt2(**more):
    return shaken(GPT2LMHeadModel(GPT2Config(**(GPT2 | ENDS | more))))


def llama(**more):
    return shaken(LlamaForCausalLM(LlamaConfig(**(LLAMA | ENDS | more))))


def bert(kind=BertModel, **more):
    return shaken(kind(BertConfig(**(BERT | more))))


def loaded(theirs):
    return load(theirs.config.to_dict(), theirs.state_dict())


WRITERS = {
    "gpt2": gpt2,
    "gpt2, untied": lambda: gpt2(tie_word_embeddings=False),
    "gpt2, narrow inside": lambda: gpt2(n_inner=5, layer_norm_epsilon=0.1),
    "llama": llama,
    "llama, tied": lambda: llama(tie_word_embeddings=True),
    "llama, one key for each": lambda: llama(num_key_value_heads=3),
    "llama, groups of two": lambda: llama(
        hidden_size=40, num_attention_heads=4, num_key_value_heads=2
    ),
    "llama, another base": lambda: llama(
        rope_parameters={"rope_type": "default", "rope_theta": 17.0}, rms_norm_eps=0.1
    ),
}
each_writer = pytest.mark.parametrize("name", WRITERS)


@each_writer
def test_whole_sequences_get_the_same_logits(name):
    theirs, token = WRITERS[name](), torch.randint(V, (B, T))
    ours = loaded(theirs)
    with torch.no_grad():
        expected = theirs(token).logits
        assert_close(ours(token), expected, rtol=0, atol=1e-4)

    assert isinstance(ours, TransformerLM) and not ours.training
    assert expected.std() > 0.5
    assert (ours.head.weight is ours.embedding.weight) == (
        theirs.config.tie_word_embeddings
    )
    count = sum(parameter.numel() for parameter in theirs.parameters())
    assert sum(parameter.numel() for parameter in ours.parameters()) == count


@each_writer
def test_a_prefix_and_cached_steps_get_the_same_logits(name):
    theirs, token = WRITERS[name](), torch.randint(V, (B, T))
    ours = loaded(theirs)
    with torch.no_grad():
        whole = theirs(token).logits
        answer = theirs(token[:, :5], use_cache=True)
        logits, _, cache = ours.step(token[:, :5], None, ours.start())
        for t in range(5, T + 1):
            assert_close(logits[:, -1], whole[:, t - 1], rtol=0, atol=1e-4)
            assert_close(logits, answer.logits, rtol=0, atol=1e-4)
            if t < T:
                new = token[:, t : t + 1]
                answer = theirs(
                    new, past_key_values=answer.past_key_values, use_cache=True
                )
                logits, _, cache = ours.step(new, None, cache)

    for seen, layer in zip(cache, answer.past_key_values.layers, strict=True):
        assert seen.key.shape == layer.keys.shape
        assert_close(seen.value, layer.values, rtol=0, atol=1e-4)


@each_writer
def test_prompts_of_unequal_length_get_the_same_logits(name):
    """Theirs are padded in front, and told by a mask and positions."""
    theirs, prompt = WRITERS[name](), torch.randint(V, (B, 4))
    ours, lengths, bos = loaded(theirs), torch.tensor([4, 2]), 1
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
    token = torch.tensor(
        [[bos, *prompt[0].tolist()], [0, 0, bos, *prompt[1, :2].tolist()]]
    )
    with torch.no_grad():
        memory = ours.encode(prompt, lengths)
        logits, _ = ours.decode(torch.tensor([[bos]] * B), memory)
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
        expected = theirs(token, attention_mask=mask, position_ids=positions).logits
        assert_close(logits, expected[:, -1:], rtol=0, atol=1e-4)


@pytest.mark.parametrize("more", [{}, {"layer_norm_eps": 0.1, "type_vocab_size": 3}])
def test_berts_states_are_the_same(more):
    theirs, token = bert(**more), torch.randint(V, (B, T))
    ours, lengths = loaded(theirs), torch.tensor([T, 7])
    real = torch.arange(T) < lengths[:, None]
    segment = (torch.arange(T) >= torch.tensor([[4], [3]])).long()
    with torch.no_grad():
        expected = theirs(
            token, attention_mask=real.long(), token_type_ids=segment
        ).last_hidden_state
        states = ours(token, lengths, segment).states
        in_one = ours(token, lengths).states
        theirs_in_one = theirs(token, attention_mask=real.long()).last_hidden_state

    assert isinstance(ours, TransformerEncoder)
    assert_close(states[real], expected[real], rtol=0, atol=1e-4)
    assert_close(in_one[real], theirs_in_one[real], rtol=0, atol=1e-4)
    assert not torch.allclose(states[real], in_one[real], atol=0.1)


@pytest.mark.parametrize(
    ("make", "kind", "body"),
    [(lambda: gpt2(), GPT2Model, "transformer"), (lambda: bert(), BertForMaskedLM, "")],
)
def test_a_body_is_known_with_a_head_and_without(make, kind, body):
    """GPT-2's body alone is a GPT-2, as its head is the table; the head of a masked
    BERT is left out."""
    theirs = make()
    if kind is GPT2Model:
        other, inner = loaded(theirs), getattr(theirs, body)
    else:
        inner, other = theirs, bert(BertForMaskedLM)
        other.bert.load_state_dict(inner.state_dict(), strict=False)
        other = loaded(other)
    alone = load(theirs.config.to_dict(), inner.state_dict())
    for name, value in alone.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


def test_old_buffers_are_no_parameters():
    theirs = gpt2()
    tensors = theirs.state_dict()
    for layer in range(3):
        tensors[f"transformer.h.{layer}.attn.bias"] = torch.ones(1, 1, N, N)
        tensors[f"transformer.h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    token = torch.randint(V, (B, T))
    with torch.no_grad():
        ours = load(theirs.config.to_dict(), tensors)
        assert_close(ours(token), theirs(token).logits, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_loaded_as_singles(dtype):
    theirs = llama()
    half = {name: value.to(dtype) for name, value in theirs.state_dict().items()}
    ours = load(theirs.config.to_dict(), half)

    for parameter in ours.parameters():
        assert parameter.dtype == torch.float32
        assert parameter.is_contiguous() and parameter.requires_grad
    assert torch.equal(ours.norm.weight, half["model.norm.weight"].float())


@pytest.mark.parametrize("make", [gpt2, llama, bert])
def test_what_is_loaded_is_a_copy(make):
    theirs = make()
    before = {name: value.clone() for name, value in theirs.state_dict().items()}
    ours = loaded(theirs)
    with torch.no_grad():
        for parameter in ours.parameters():
            assert parameter.is_contiguous()
            parameter.zero_()

    for name, value in theirs.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_the_older_names_of_rotary_positions_are_read():
    theirs, token = WRITERS["llama, another base"](), torch.randint(V, (B, T))
    config = theirs.config.to_dict()
    base = config.pop("rope_parameters")["rope_theta"]
    for older in (
        {"rope_theta": base},
        {"rope_theta": base, "rope_scaling": None},
        {"rope_theta": base, "rope_scaling": {"type": "default"}},
    ):
        ours = load(config | older, theirs.state_dict())
        with torch.no_grad():
            assert_close(ours(token), theirs(token).logits, rtol=0, atol=1e-4)
    usual = load(config, theirs.state_dict())
    assert usual.blocks[0].self_attention.positions.base == 10_000.0


def test_a_body_of_a_llama_has_no_head():
    theirs = shaken(LlamaModel(LlamaConfig(**(LLAMA | ENDS))))
    with pytest.raises(ValueError, match="^tensor lm_head.weight is missing$"):
        loaded(theirs)


# What follows is about our own errors.


@pytest.mark.plain
@pytest.mark.parametrize(
    ("make", "wrong", "told"),
    [
        (
            gpt2,
            {"model_type": "mistral"},
            "'mistral'; known here are gpt2, llama, bert",
        ),
        (gpt2, {"model_type": None}, "model_type .* None"),
        (gpt2, {"model_type": ["gpt2"]}, r"model_type .* \['gpt2'\]"),
        (gpt2, {"activation_function": "relu"}, "activation_function .* 'relu'"),
        (gpt2, {"scale_attn_weights": False}, "scale_attn_weights .* False"),
        (gpt2, {"scale_attn_by_inverse_layer_idx": True}, "inverse_layer_idx .* True"),
        (gpt2, {"add_cross_attention": True}, "add_cross_attention .* True"),
        (gpt2, {"n_head": 3}, "width 14 .* 3 heads"),
        (gpt2, {"n_head": None}, "n_head .* from 1 on, got None"),
        (gpt2, {"n_layer": 0}, "n_layer .* from 1 on, got 0"),
        (gpt2, {"n_embd": "14"}, "n_embd .* from 1 on, got '14'"),
        (gpt2, {"n_inner": True}, "n_inner .* from 1 on, got True"),
        (gpt2, {"layer_norm_epsilon": "small"}, "layer_norm_epsilon .* got 'small'"),
        (gpt2, {"tie_word_embeddings": "yes"}, "tie_word_embeddings .* got 'yes'"),
        (gpt2, {"quantization_config": {"bits": 4}}, "quantization_config .*'bits'"),
        (llama, {"hidden_act": "gelu"}, "hidden_act .* 'gelu'"),
        (llama, {"attention_bias": True}, "attention_bias .* True"),
        (llama, {"mlp_bias": True}, "mlp_bias .* True"),
        (llama, {"head_dim": 8}, "head_dim .* 8; known here is 14"),
        (llama, {"num_key_value_heads": 2}, "3 heads .* among 2 heads of keys"),
        (llama, {"num_attention_heads": 6}, "head_dim .* 14; known here is 7"),
        (llama, {"num_attention_heads": 5}, "width 42 .* 5 heads"),
        (llama, {"num_attention_heads": 6, "head_dim": None}, "pairs .* got width 7"),
        (
            llama,
            {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5}},
            "'llama3'; known here is 'default'",
        ),
        (
            llama,
            {"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2}},
            "'linear'; known",
        ),
        (llama, {"rope_parameters": 17}, "rope_parameters .* got 17"),
        (
            llama,
            {"rope_parameters": {"rope_theta": "big"}},
            "rope_theta .* above 0, got 'big'",
        ),
        (llama, {"rms_norm_eps": 0}, "rms_norm_eps .* above 0, got 0"),
        (llama, {"rms_norm_eps": float("inf")}, "rms_norm_eps .* above 0, got inf"),
        (bert, {"hidden_act": "relu"}, "hidden_act .* 'relu'"),
        (bert, {"is_decoder": True}, "is_decoder .* True"),
        (
            bert,
            {"position_embedding_type": "relative_key"},
            "position_embedding_type .* 'relative_key'",
        ),
    ],
)
def test_what_ours_does_not_compute_is_refused_by_name(make, wrong, told):
    theirs = make()
    with pytest.raises(ValueError, match=told):
        load(theirs.config.to_dict() | wrong, theirs.state_dict())


@pytest.mark.plain
def test_tensors_that_do_not_fit_are_named():
    theirs = gpt2()
    config, good = theirs.config.to_dict(), theirs.state_dict()
    norm, joined = "transformer.h.1.ln_2.bias", "transformer.h.0.attn.c_attn.weight"
    other_head = good["lm_head.weight"] + 1
    without = {name: value for name, value in good.items() if name != norm}
    layer = {name: value for name, value in good.items() if ".h.2." not in name}
    for tensors, told in (
        (without, f"^tensor {norm} is missing$"),
        (layer, r"^tensor transformer\.h\.2\..* missing, and so are 11 others$"),
        ({}, "tensor wte.weight is missing"),
        (good | {"score.weight": torch.ones(2)}, "^tensor score.weight .* too many$"),
        (good | {norm: torch.ones(15)}, rf"tensor {norm} .* \(15,\), not of \(14,\)"),
        (
            good | {joined: good[joined].mT},
            rf"tensor {joined} is of shape \(42, 14\), not of \(14, 42\)$",
        ),
        (good | {norm: good[norm].long()}, f"tensor {norm} is of torch.int64"),
        (
            good | {"lm_head.weight": other_head},
            "lm_head.weight is not transformer.wte",
        ),
        (llama().state_dict(), "tensor wte.weight is missing"),
    ):
        with pytest.raises(ValueError, match=told):
            load(config, tensors)
