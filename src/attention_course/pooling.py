"""Attention without a decoder: pooling with a learned query, classifiers and labelers.

`answer_with` and `gradient_times_input` examine whether the weights of a `Classifier`
explain its answers.
"""

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from attention_course.attention import attend
from attention_course.checks import check_width
from attention_course.scores import Score
from attention_course.seq2seq import Encoded


class AttentionPooling(nn.Module):
    r"""Summarize a memory in one vector: a learned query looks for what the task needs.

    .. math:: a_s = \mathrm{softmax}_s\, \mathrm{score}(q, k_s), \quad
        c = \sum_s a_s v_s

    Yang et al. (2016), Section 2.2, word attention, is this with an `AdditiveScore`: k
    and v are h_it, the v of our score is u_w, U is W_w, and the learned W q takes the
    place of the bias b_w.

    Args:
        query_dim: width of the query.
        score: compares a query of that width with the memory's states.
    """

    def __init__(self, query_dim: int, score: Score):
        super().__init__()
        self.query = nn.Parameter(torch.randn(query_dim))
        self.score = score

    def forward(
        self, encoded: Encoded, value: Float[Tensor, "B S Dv"] | None = None
    ) -> tuple[Float[Tensor, "B Dv"], Float[Tensor, "B 1 S"]]:
        """Attend to a memory once.

        Args:
            encoded: what an encoder returned.
            value: the vectors to average, one per source position; None: the states.

        Returns:
            The context, and the weights over the memory.
        """
        query = self.query.expand(encoded.states.size(0), 1, -1)  # (B, 1, D)
        scores = self.score(query, self.score.project_keys(encoded.states))
        context, weights = attend(
            scores, encoded.states if value is None else value, encoded.mask
        )
        return context[:, 0], weights


class Classifier(nn.Module):
    r"""One answer for a whole source: a sentence's sentiment, or what an image shows.

    .. math:: P(y \mid x) = \mathrm{softmax}(W c + b)

    Yang et al. (2016), Section 2.3, where c is the document vector v. A state also
    contains its neighbors, so the answer may be found at any position. If the weights
    should show which words decide, average vectors that contain no neighbors: the
    embeddings (`values`).

    Args:
        encoder: maps (source, lengths) to `Encoded`, with states of width E.
        pooling: summarizes the states in one vector.
        head: maps a context to V logits.
        values: maps the source to the vectors to average, (B, S, Dv); None: the states.
    """

    def __init__(
        self,
        encoder: nn.Module,
        pooling: AttentionPooling,
        head: nn.Module,
        values: nn.Module | None = None,
    ):
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        self.head = head
        self.values = values

    def forward(
        self, source: Shaped[Tensor, "B ..."], lengths: Int[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B V"], Float[Tensor, "B 1 S"]]:
        """Classify a batch of sources.

        Args:
            source: the encoder's input.
            lengths: tokens in each source.

        Returns:
            Logits of the classes, and the weights over the source.
        """
        value = None if self.values is None else self.values(source)
        context, weights = self.pooling(self.encoder(source, lengths), value)
        return self.head(context), weights


def answer_with(
    model: Classifier,
    source: Int[Tensor, "B S"],
    lengths: Int[Tensor, " B"],
    weights: Float[Tensor, "B 1 S"],
) -> Float[Tensor, "B V"]:
    """Let a model answer with attention weights that are not its own.

    Args:
        model: everything else in it stays as it is.
        source: token ids.
        lengths: tokens in each source.
        weights: over the source, 0 on padding.

    Returns:
        Logits of the classes.
    """
    value = (
        model.encoder(source, lengths).states
        if model.values is None
        else model.values(source)
    )
    return model.head((weights @ value)[:, 0])


def gradient_times_input(
    model: Classifier, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"]
) -> Float[Tensor, "B S"]:
    r"""Attribute the answer to the words by gradient times input.

    .. math:: g_s = \frac{\partial (\ell_1 - \ell_2)}{\partial x_s} \cdot x_s

    where \ell_1 and \ell_2 are the largest and the second largest logit, and x_s is the
    embedding of word s. To first order, g_s is how much the lead of the answer would
    shrink if the embedding were zero. Every path from x_s to the answer counts,
    including the one through the weights.

    Args:
        model: its encoder has an `embedding`.
        source: token ids.
        lengths: tokens in each source.

    Returns:
        One number per word: positive if the word supports the answer, negative if it
        speaks against it.
    """
    embedded: list[Tensor] = []  # two, if the embeddings are also averaged
    hook = model.encoder.get_submodule("embedding").register_forward_hook(
        lambda *call: embedded.append(call[-1])
    )
    first, second = model(source, lengths)[0].topk(2).values.unbind(dim=-1)
    hook.remove()
    gradients = torch.autograd.grad((first - second).sum(), embedded)
    return (
        torch.stack([(g * x).sum(dim=-1) for g, x in zip(gradients, embedded)])
        .sum(dim=0)
        .detach()
    )


class Labeller(nn.Module):
    r"""One answer per position, such as a part of speech per word or a vowel per frame.

    .. math:: P(y_s \mid x) = \mathrm{softmax}(W h_s + b)

    Graves and Schmidhuber (2005). Answer s belongs to token s, so there is nothing to
    look for, and the model needs no attention.

    Args:
        encoder: maps (source, lengths) to `Encoded`, with states of width E.
        head: maps a state of width E to V logits.
    """

    def __init__(self, encoder: nn.Module, head: nn.Linear):
        super().__init__()
        self.encoder = encoder
        self.head = head

    def forward(
        self, source: Shaped[Tensor, "B S ..."], lengths: Int[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B S V"], None]:
        """Label a batch of sources.

        Args:
            source: the encoder's input.
            lengths: tokens in each source.

        Returns:
            Logits of the labels at every position, which are meaningless on padding,
            and None for the weights.
        """
        states = self.encoder(source, lengths).states
        check_width(states, self.head.in_features)
        return self.head(states), None
