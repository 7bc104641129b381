"""A language model: a stack that reads what it writes, and has no source."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_course.attention import KeyValue
from attention_course.transformer.blocks import EncoderBlock
from attention_course.transformer.positions import TokenEmbedding
from attention_course.transformer.stacks import _causal_after, _check_depth, _head


class TransformerLM(nn.Module):
    r"""A language model: predict each token from all tokens before it, and from nothing
    else.

    .. math:: P(y) = \prod_t P(y_t \mid y_{<t})

    Radford et al. (2018), Section 3.1, Eqs. 1-2: a decoder-only Transformer, a stack of
    encoder blocks under a causal mask. There is no source, so its memory is None;
    otherwise it is driven like an `EncoderDecoder`.

    Args:
        vocab_size: V, tokens in the vocabulary.
        dim: D, width of the states.
        num_heads: H; it divides D.
        hidden_dim: width inside the feed-forward networks.
        num_layers: L, blocks.
        positions: adds positions of width D.
        dropout: see `EncoderBlock`.
        pre_norm: see `Residual`; the sum that pre-norm blocks leave is normalised once,
            at the end.
        tied: use one table as embedding and as output map, see `TransformerDecoder`.

    Raises:
        ValueError: fewer than 1 block.
    """

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        num_heads: int,
        hidden_dim: int,
        num_layers: int,
        positions: nn.Module,
        dropout: float = 0.0,
        pre_norm: bool = True,
        tied: bool = False,
    ):
        super().__init__()
        _check_depth(num_layers)
        self.embedding = TokenEmbedding(vocab_size, dim, positions, dropout)
        self.blocks = nn.ModuleList(
            EncoderBlock(dim, num_heads, hidden_dim, dropout, pre_norm)
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(dim) if pre_norm else nn.Identity()
        self.head = _head(self.embedding, tied)

    def encode(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"]) -> None:
        """Return no memory: the source only says how many sentences are wanted."""

    def decode(
        self, target: Int[Tensor, "B T"], memory: None = None
    ) -> tuple[Float[Tensor, "B T V"], None]:
        """Predict every next token (teacher forcing). See `EncoderDecoder.decode`."""
        logits, _, _ = self.step(target, memory, self.start(memory))
        return logits, None

    def start(self, memory: None = None) -> tuple[None, ...]:
        """Return the cache before the first step: nothing per layer."""
        return (None,) * len(self.blocks)

    def step(
        self,
        token: Int[Tensor, "B T"],
        memory: None,
        cache: tuple[KeyValue | None, ...],
    ) -> tuple[Float[Tensor, "B T V"], None, tuple[KeyValue, ...]]:
        """Predict the token after each of T tokens. See `EncoderDecoder.step`."""
        past = 0 if cache[0] is None else cache[0].key.size(2)
        mask = _causal_after(past, token)
        x = self.embedding(token, past)
        all_seen = []
        for block, layer_past in zip(self.blocks, cache):
            x, seen = block(x, mask, layer_past)
            all_seen.append(seen)
        return self.head(self.norm(x)), None, tuple(all_seen)

    def forward(self, target: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Predict every next token."""
        return self.decode(target)[0]
