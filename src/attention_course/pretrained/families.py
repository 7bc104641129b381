"""GPT-2, Llama and BERT: their sizes and tensors, as named by the library transformers.

There, GPT-2 joins the maps of queries, keys and values in one, and stores its matrices
transposed. The untrained models are in `models.families`.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attention_course import models
from attention_course.pretrained.config import (
    Config,
    flag,
    only,
    positive,
    rotary_base,
    whole,
)
from attention_course.pretrained.weights import fill, places
from attention_course.transformer.rotary import head_width

QUERY, KEY, VALUE, OUTPUT = (
    f"blocks.#.self_attention.{name}_proj"
    for name in ("query", "key", "value", "output")
)
NORM, NEXT_NORM = "blocks.#.around_self.norm", "blocks.#.around_feed_forward.norm"


class Family(NamedTuple):
    """How to build and fill the models of one family.

    Attributes:
        build: builds the model from a configuration.
        names: see `places`; without the prefix.
        prefix: beginning of all names except the head's, unless the body was saved
            alone.
        unused: a pattern for tensors that are not parameters of our models.
        length: the configuration's name for the longest text, in tokens.
        turned: see `fill`.
        tied: whether embedding and output share one table if the configuration does not
            say; None: there is no head.
        writes: whether it predicts the next token.
    """

    build: Callable[[Config], nn.Module]
    names: Mapping[str, tuple[str, ...]]
    prefix: str
    unused: str
    length: str = "max_position_embeddings"
    turned: tuple[str, ...] = ()
    tied: bool | None = None
    writes: bool = True


def build_gpt2(config: Config) -> nn.Module:
    """Build a GPT-2 with the sizes from a configuration."""
    only(config, "activation_function", "gelu_new", "gelu_pytorch_tanh")
    only(config, "scale_attn_weights", True)
    only(config, "scale_attn_by_inverse_layer_idx", False)
    only(config, "add_cross_attention", False)
    dim = whole(config, "n_embd")
    return models.gpt2(
        vocab_size=whole(config, "vocab_size"),
        dim=dim,
        num_heads=whole(config, "n_head"),
        hidden_dim=whole(config, "n_inner", 4 * dim),
        num_layers=whole(config, "n_layer"),
        max_length=whole(config, "n_positions"),
        eps=positive(config, "layer_norm_epsilon", 1e-5),
        tied=flag(config, "tie_word_embeddings", True),
    )


def build_llama(config: Config) -> nn.Module:
    """Build a Llama with the sizes from a configuration."""
    only(config, "hidden_act", "silu")
    only(config, "attention_bias", False)
    only(config, "mlp_bias", False)
    dim = whole(config, "hidden_size")
    num_heads = whole(config, "num_attention_heads")
    only(config, "head_dim", head_width(dim, num_heads), None)
    return models.llama(
        vocab_size=whole(config, "vocab_size"),
        dim=dim,
        num_heads=num_heads,
        num_key_heads=whole(config, "num_key_value_heads", num_heads),
        hidden_dim=whole(config, "intermediate_size"),
        num_layers=whole(config, "num_hidden_layers"),
        base=rotary_base(config),
        eps=positive(config, "rms_norm_eps", 1e-6),
        tied=flag(config, "tie_word_embeddings", False),
    )


def build_bert(config: Config) -> nn.Module:
    """Build a BERT with the sizes from a configuration."""
    only(config, "hidden_act", "gelu")
    only(config, "position_embedding_type", "absolute", None)
    only(config, "is_decoder", False)
    return models.bert(
        vocab_size=whole(config, "vocab_size"),
        dim=whole(config, "hidden_size"),
        num_heads=whole(config, "num_attention_heads"),
        hidden_dim=whole(config, "intermediate_size"),
        num_layers=whole(config, "num_hidden_layers"),
        max_length=whole(config, "max_position_embeddings"),
        num_segments=whole(config, "type_vocab_size", 2),
        eps=positive(config, "layer_norm_eps", 1e-12),
    )


GPT2 = Family(
    build_gpt2,
    {
        "wte": ("embedding.table",),
        "wpe": ("embedding.positions.table",),
        "h.#.ln_1": (NORM,),
        "h.#.attn.c_attn": (QUERY, KEY, VALUE),
        "h.#.attn.c_proj": (OUTPUT,),
        "h.#.ln_2": (NEXT_NORM,),
        "h.#.mlp.c_fc": ("blocks.#.feed_forward.0",),
        "h.#.mlp.c_proj": ("blocks.#.feed_forward.2",),
        "ln_f": ("norm",),
    },
    prefix="transformer.",
    unused=r"h\.\d+\.attn\.(masked_)?bias",  # old files contain causal masks
    length="n_positions",
    turned=(".c_attn.", ".c_proj.", ".c_fc."),
    tied=True,
)
LLAMA = Family(
    build_llama,
    {
        "embed_tokens": ("embedding.table",),
        "layers.#.input_layernorm": (NORM,),
        "layers.#.self_attn.q_proj": (QUERY,),
        "layers.#.self_attn.k_proj": (KEY,),
        "layers.#.self_attn.v_proj": (VALUE,),
        "layers.#.self_attn.o_proj": (OUTPUT,),
        "layers.#.post_attention_layernorm": (NEXT_NORM,),
        "layers.#.mlp.gate_proj": ("blocks.#.feed_forward.gate",),
        "layers.#.mlp.up_proj": ("blocks.#.feed_forward.inner",),
        "layers.#.mlp.down_proj": ("blocks.#.feed_forward.outer",),
        "norm": ("norm",),
    },
    prefix="model.",
    unused=r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",  # old files contain angles
    tied=False,
)
BERT = Family(
    build_bert,
    {
        "embeddings.word_embeddings": ("embedding.table",),
        "embeddings.token_type_embeddings": ("embedding.segments",),
        "embeddings.position_embeddings": ("embedding.positions.table",),
        "embeddings.LayerNorm": ("embedding.norm",),
        "encoder.layer.#.attention.self.query": (QUERY,),
        "encoder.layer.#.attention.self.key": (KEY,),
        "encoder.layer.#.attention.self.value": (VALUE,),
        "encoder.layer.#.attention.output.dense": (OUTPUT,),
        "encoder.layer.#.attention.output.LayerNorm": (NORM,),
        "encoder.layer.#.intermediate.dense": ("blocks.#.feed_forward.0",),
        "encoder.layer.#.output.dense": ("blocks.#.feed_forward.2",),
        "encoder.layer.#.output.LayerNorm": (NEXT_NORM,),
    },
    prefix="bert.",
    unused=r"pooler\..*|cls\..*|embeddings\.position_ids",  # heads are not built
    writes=False,
)
FAMILIES = {"gpt2": GPT2, "llama": LLAMA, "bert": BERT}


def find_family(config: Config) -> Family:
    """Look up the family that a configuration names.

    Raises:
        ValueError: it names no family, or an unknown one.
    """
    name = config.get("model_type")
    if not isinstance(name, str) or name not in FAMILIES:
        raise ValueError(
            f"model_type in config.json is {name!r}; known here are"
            f" {', '.join(FAMILIES)}"
        )
    only(config, "quantization_config", None)
    return FAMILIES[name]


def load(config: Config, tensors: Mapping[str, Tensor]) -> nn.Module:
    """Build one of our models with the weights of another library's model.

    Args:
        config: the contents of config.json, or `model.config.to_dict()` of
            transformers.
        tensors: the contents of model.safetensors, or `model.state_dict()`.

    Returns:
        A `TransformerLM`, or for BERT a `TransformerEncoder`, in eval mode, on the CPU,
        in single precision, with copies of the tensors. Nothing is computed in half
        precision, whatever precision they were saved in.

    Raises:
        ValueError: the family is unknown, the configuration asks for something that our
            models do not do, or the tensors are not those of such a model; the message
            names the problem.
    """
    family = find_family(config)
    with torch.device("meta"):  # only shapes: the numbers are replaced
        model: nn.Module = family.build(config)
    prefix = family.prefix
    if not any(name.startswith(prefix) for name in tensors):
        prefix = ""
    names = {prefix + theirs: ours for theirs, ours in family.names.items()}
    unused = re.compile(f"({re.escape(prefix)})?({family.unused})")
    tensors = {
        name: tensor
        for name, tensor in tensors.items()
        if unused.fullmatch(name) is None
    }
    if family.tied is not None:
        tied = flag(config, "tie_word_embeddings", family.tied)
        if tied:
            _drop_second_table(tensors, next(iter(names)))
        else:
            names["lm_head"] = ("head",)
    depth = len([*model.get_submodule("blocks").children()])
    fill(model, places(model, names, depth), tensors, family.turned)
    if family.tied is not None and tied:
        table = model.get_submodule("embedding.table")
        model.get_submodule("head").weight = table.weight
    return model.eval()


def _drop_second_table(tensors: dict[str, Tensor], table: str) -> None:
    """Remove a tied head from the tensors, if it was saved along with its table.

    Raises:
        ValueError: the head and the table differ.
    """
    head, first = tensors.pop("lm_head.weight", None), tensors.get(f"{table}.weight")
    if head is not None and first is not None and not torch.equal(head, first):
        raise ValueError(
            f"tensor lm_head.weight is not {table}.weight, but config.json says that"
            " they are one"
        )
