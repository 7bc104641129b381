"""What `make bench` measures against: PyTorch's own modules, joeynmt, d2l and
x-transformers, at the sizes asked for.

The last three go into a folder of their own, _build/bench, without their dependencies:
joeynmt and d2l pin versions of years ago. Whatever is wrong with a peer, building it
raises, and its row says why.
"""

import importlib
import math
import subprocess
import sys
import warnings
from importlib.metadata import distributions
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import torch
from measure.report import ROOT
from torch import Tensor, nn

from attention_course.masks import causal_mask
from attention_course.transformer import SinusoidalPositions

FOLDER = ROOT / "_build" / "bench"
PINNED = {
    # for a machine that has torch alone, see gpu_check
    "jaxtyping": ["jaxtyping==0.3.11", "wadler-lindig==0.1.8"],
    "joeynmt": ["joeynmt==2.3.0"],
    "d2l": ["d2l==1.0.3"],
    "x_transformers": (
        ["x-transformers==2.31.10", "einops==0.8.2", "einx==0.4.3", "frozendict==2.5.1"]
        + ["loguru==0.7.3", "packaging==26.3", "torch-einops-utils==0.2.0"]
    ),
}
# What joeynmt and d2l import for logs, subwords, pictures and tables: nothing that is
# measured here calls it.
NEVER_CALLED = (
    "torch.utils.tensorboard",
    "sentencepiece",
    "subword_nmt",
    "torchvision",
    "pandas",
)
BOS, EOS = 2, 3  # as in joeynmt


def install() -> None:
    """Fetch what is not there yet. What cannot be had is missed by those who build
    it."""
    there = {
        f"{found.name}=={found.version}".replace("_", "-")
        for found in distributions(path=[str(FOLDER)])
    }
    for pins in PINNED.values():
        if not there.issuperset(pins):
            command = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--upgrade",
            ]
            subprocess.run([*command, "--target", str(FOLDER), *pins], check=False)


def fetched(name: str) -> ModuleType:
    """Import a module of a peer's."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))  # last: what the course has itself comes first
    absent = [module for module in NEVER_CALLED if module not in sys.modules]
    sys.modules.update((module, MagicMock()) for module in absent)
    try:
        return importlib.import_module(name)
    finally:
        for module in absent:  # or torch would take them for the real ones
            del sys.modules[module]


class TorchTransformer(nn.Module):
    """nn.Transformer between the course's embeddings and an output map; pre-norm, as
    the course's."""

    # Whether it is told that its mask is causal; None: it finds out by looking at it.
    told_causal: bool | None = None

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        heads: int,
        hidden_dim: int,
        layers: int,
        dropout: float,
    ):
        super().__init__()
        self.source, self.target = (nn.Embedding(vocab_size, dim) for _ in range(2))
        self.positions, self.dropout = SinusoidalPositions(dim), nn.Dropout(dropout)
        with warnings.catch_warnings():
            # it tells that pre-norm has no fast path for padded batches
            warnings.simplefilter("ignore")
            self.body = nn.Transformer(
                dim,
                heads,
                layers,
                layers,
                hidden_dim,
                dropout,
                batch_first=True,
                norm_first=True,
            )
        self.head = nn.Linear(dim, vocab_size)

    def drop_like_the_paper(self) -> "TorchTransformer":
        """Drop what a sub-layer adds, and nothing inside it: Vaswani et al. (2017),
        Section 5.4."""
        for layer in [*self.body.encoder.layers, *self.body.decoder.layers]:
            layer.self_attn.dropout = layer.dropout.p = 0.0
            if hasattr(layer, "multihead_attn"):
                layer.multihead_attn.dropout = 0.0
        return self

    def forward(self, source: Tensor, padding: Tensor, target: Tensor) -> Tensor:
        states = self.body.encoder(
            self._embed(self.source, source), src_key_padding_mask=padding
        )
        return self.head(self.decode(target, states, padding))

    def decode(self, target: Tensor, states: Tensor, padding: Tensor) -> Tensor:
        future = ~causal_mask(target.size(1), target.device)
        return self.body.decoder(
            self._embed(self.target, target),
            states,
            future,
            memory_key_padding_mask=padding,
            tgt_is_causal=self.told_causal,
        )

    def _embed(self, table: nn.Embedding, token: Tensor) -> Tensor:
        return self.dropout(
            self.positions(table(token) * math.sqrt(table.embedding_dim))
        )

    @torch.inference_mode()
    def greedy(self, source: Tensor, padding: Tensor, steps: int) -> Tensor:
        states = self.body.encoder(
            self._embed(self.source, source), src_key_padding_mask=padding
        )
        tokens = source.new_full((source.size(0), 1), BOS)
        for _ in range(steps):  # the whole prefix again: nn.Transformer has no cache
            logits = self.head(self.decode(tokens, states, padding)[:, -1:])
            tokens = torch.cat([tokens, logits.argmax(dim=-1)], dim=1)
        return tokens


def joeynmt(vocab_size: int, encoder: dict, decoder: dict) -> nn.Module:
    """Build a model of joeynmt's from its own configuration."""
    special = {"unk": "<unk>", "pad": "<pad>", "bos": "<s>", "eos": "</s>"}
    names = {f"{name}_token": token for name, token in special.items()}
    ids = {f"{name}_id": i for i, name in enumerate(special)}
    symbols = SimpleNamespace(**names, **ids, sep_token=None, sep_id=None, lang_tags=[])
    vocabulary = fetched("joeynmt.vocabulary").Vocabulary(
        [str(i) for i in range(4, vocab_size)], symbols
    )
    configuration = {"encoder": encoder, "decoder": decoder}
    return fetched("joeynmt.model").build_model(configuration, vocabulary, vocabulary)


def joeynmt_transformer(
    vocab_size: int, dim: int, heads: int, hidden_dim: int, layers: int, dropout: float
):
    """joeynmt's Transformer, pre-norm."""
    part = {
        "type": "transformer",
        "num_layers": layers,
        "num_heads": heads,
        "hidden_size": dim,
        "ff_size": hidden_dim,
    }
    part |= {"dropout": dropout, "layer_norm": "pre"}
    part |= {"embeddings": {"embedding_dim": dim, "scale": True, "dropout": dropout}}
    return joeynmt(vocab_size, part, part)


def joeynmt_rnn(
    vocab_size: int,
    embedding_dim: int,
    hidden_dim: int,
    dropout: float,
    **decoder: object,
):
    """joeynmt's recurrent model: a bidirectional GRU, and a GRU that asks after its
    update."""
    part = {
        "type": "recurrent",
        "rnn_type": "gru",
        "hidden_size": hidden_dim,
        "num_layers": 1,
        "dropout": dropout,
    }
    part |= {"embeddings": {"embedding_dim": embedding_dim, "dropout": dropout}}
    return joeynmt(
        vocab_size,
        {**part, "bidirectional": True},
        {**part, "hidden_dropout": dropout, **decoder},
    )


def joeynmt_logits(
    model: nn.Module, source: Tensor, lengths: Tensor, target: Tensor
) -> Tensor:
    """Run joeynmt's model up to its logits, as its training does."""
    masks = {
        "src_mask": source.new_ones(source.size(0), 1, source.size(1), dtype=torch.bool)
    }
    masks["trg_mask"] = masks["src_mask"].new_ones(source.size(0), 1, target.size(1))
    return model._encode_decode(
        src=source, trg_input=target, src_length=lengths, **masks
    )[0]


def joeynmt_search(
    model: nn.Module, source: Tensor, lengths: Tensor, steps: int, beam_size: int
) -> None:
    """Decode as joeynmt does, and let no sentence end before the last step."""
    search = fetched("joeynmt.search")
    mask = source.new_ones(source.size(0), 1, source.size(1), dtype=torch.bool)
    with torch.inference_mode():
        states, final, _, _ = model(
            return_type="encode", src=source, src_length=lengths, src_mask=mask
        )
    seen = {
        "src_mask": mask,
        "model": model,
        "encoder_output": states,
        "encoder_hidden": final,
    }
    if beam_size == 1:
        search.greedy(max_output_length=steps, min_output_length=steps, **seen)
    else:
        limits = {"max_output_length": steps, "min_output_length": steps}
        search.beam_search(beam_size=beam_size, alpha=0.0, n_best=1, **limits, **seen)


def x_transformer(
    vocab_size: int, dim: int, heads: int, layers: int, length: int, dropout: float
) -> nn.Module:
    """x-transformers' encoder-decoder; its feed-forward networks are four times as wide
    as the model, as all here."""
    part = {
        "num_tokens": vocab_size,
        "depth": layers,
        "heads": heads,
        "attn_dim_head": dim // heads,
    }
    part |= {
        "max_seq_len": length + 1,
        "emb_dropout": dropout,
        "attn_dropout": dropout,
        "ff_dropout": dropout,
    }
    both = {
        f"{side}_{key}": value for side in ("enc", "dec") for key, value in part.items()
    }
    return fetched("x_transformers").XTransformer(dim=dim, **both)


def d2l_encoder(
    vocab_size: int, dim: int, heads: int, hidden_dim: int, layers: int, dropout: float
) -> nn.Module:
    """d2l's Transformer encoder (its decoder is in the book only), with biases in its
    projections as elsewhere."""
    encoder = fetched("d2l.torch").TransformerEncoder
    return encoder(vocab_size, dim, hidden_dim, heads, layers, dropout, use_bias=True)


def d2l_additive(hidden_dim: int) -> nn.Module:
    """d2l's additive attention, which projects the keys each time that it is asked."""
    return fetched("d2l.torch").AdditiveAttention(hidden_dim, dropout=0.0)
