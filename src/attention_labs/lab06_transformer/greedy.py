"""Question `greedy`: greedy decoding, which feeds back the most probable token."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from attention_course import decoding
from attention_labs.lab06_transformer.shared import CACHE, LENGTHS, NO_NOTHING
from nbjudge import (
    ANYWHERE,
    FUNCTION,
    Axis,
    Battery,
    Changed,
    Draw,
    Finding,
    Mistake,
    Question,
    Reply,
    Request,
    close,
    comparable,
    each_of,
    edit,
    error_like,
    in_words,
    normal,
    of_output,
    same_numbers,
)

WRITING = "14_decoding.html#decoding-greedy"


class _Script(nn.Module):
    """A model whose tokens depend on all before them, and whose end is known.

    The logits come from the last token, from a state that every token changes, and from
    the source.
    """

    def __init__(self, table: Tensor, mix: Tensor, ends: Tensor, eos: int):
        super().__init__()
        self.table, self.mix, self.ends, self.eos = table, mix, ends, eos
        self.encoded = self.stepped = 0

    def encode(self, source: Tensor, lengths: Tensor) -> Tensor:
        self.encoded += 1
        return self.table[source.long()].flatten(1, -2).sum(1) / lengths[:, None]

    def start(self, memory: Tensor) -> Any:
        return torch.zeros_like(memory), 0, ()

    def step(self, token: Tensor, memory: Tensor, cache: Any) -> Any:
        state, steps, came = cache
        # A model may keep what it was given: it has to stay as it was.
        state = state + sum((x - y).to(state) for x, y in came)
        logits = []
        for one in token.unbind(1):
            self.stepped += 1
            state = torch.tanh(state @ self.mix + self.table[one])
            said = 3 * state @ self.mix.mT + memory
            far = said.abs().amax(1) + 1
            if self.eos < said.size(1):
                said[:, self.eos] = torch.where(self.ends == steps, far, -far)
            logits.append(said)
            steps += 1
        came = ((token, token.clone()),)
        return torch.stack(logits, dim=1), None, (state, steps, came)


def _use_greedy(
    greedy: Any,
    table: Tensor,
    mix: Tensor,
    source: Tensor,
    lengths: Tensor,
    ends: Tensor,
    bos: int,
    eos: int,
    max_length: int,
    before: Tensor | None = None,
    bare: bool = False,
) -> Any:
    """Decode, and count: a source that was read, and tokens that were stepped over.

    If another table is given, the model has it first, and writes with it, too. A bare
    model has nothing but the three methods.
    """
    model = _Script(table, mix, ends, eos)
    own = SimpleNamespace(encode=model.encode, start=model.start, step=model.step)
    writer = own if bare else model
    if before is not None:
        model.table = before
        greedy(writer, source, lengths, bos, eos, max_length)
        model.table, model.encoded, model.stepped = table, 0, 0
    decoded = greedy(writer, source, lengths, bos, eos, max_length)
    if decoded is None:
        return None
    tokens = getattr(decoded, "tokens", decoded)  # the course's returns more
    work = source.new_tensor([model.encoded, model.stepped], dtype=torch.long)
    return (tokens, work) if model.training else Changed((tokens, work))


def _to_write(
    d: Draw, longest: int | None = None, axes: tuple[int, ...] = (), same: bool = False
) -> Request:
    """Ask for sentences of which none ends, or all after `longest` tokens or before."""
    bos, eos = torch.randperm(d.V, generator=d)[:2].tolist()
    source = torch.randint(d.V, (d.B, d.S, *axes), generator=d)
    lengths = torch.randint(1, d.S + 1, (d.B,), generator=d)
    ends = torch.randint((longest or 0) + 1, (d.B,), generator=d)
    tables = normal(d, d.V, d.V), normal(d, d.V, d.V) / 2
    written = source, lengths, ends + d.N**2 * (longest is None)
    return Request((*tables, *written, eos if same else bos, eos, d.N))


def _ending(d: Draw) -> list[Request]:
    """Ask for sentences that end before the others, with the last step or at once."""
    asked = [_to_write(d, longest) for longest in (d.N // 2, d.N, 0)]
    rare = _to_write(d, d.N, same=True), _to_write(d, d.N, axes=(2,))
    plain = _to_write(d)
    trained = replace(
        plain,
        inputs=(*plain.inputs, normal(d, d.V, d.V)),
        about="a model that wrote before it was trained",
    )
    bare = replace(
        plain,
        inputs=(*_to_write(d, d.N).inputs, None, True),
        about="a model that is no module, and has only the three methods",
    )
    *start, _, longest = plain.inputs
    endless = [
        replace(plain, inputs=(*start, eos, longest), about=f"EOS is {eos}, no token")
        for eos in (-1, d.V)
    ]
    table, mix, source, *rest = _to_write(d).inputs
    pixels = Request(
        (table, mix, source.double(), *rest), about="a source of numbers, not of ids"
    )
    return [*asked, *rare, trained, bare, *endless, pixels]


BATTERY = Battery(
    FUNCTION,
    _to_write,
    {
        "B": Axis("sentences"),
        "S": Axis("tokens in the longest source"),
        "V": Axis("tokens in the vocabulary", least=2, most=12, long=600),
        "N": Axis("max_length", long=300),
    },
    large=(1e5,),  # among equal logits any token is a likeliest one
    leaves_out={
        "in front": "the text says (B, T)",
        "bfloat16": "rounding decides which token is the likeliest",
        "long in bfloat16": "rounding decides which token is the likeliest",
        **NO_NOTHING,
    },
)


def _whole_numbers(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    kind = reply.outputs[0].dtype
    return None if kind == torch.long else Finding(f"{kind}", f"{torch.long}")


_same_tokens = each_of(
    in_words(
        of_output(0, same_numbers),
        lambda request, reply, reference: Finding(
            "different tokens", "the most probable tokens"
        ),
    ),
    _whole_numbers,
)


def _same_counts(request: Request, reply: Reply, reference: Reply) -> Finding | None:
    given, few = (
        ", ".join(map(str, x.outputs[1].flatten().tolist())) for x in (reply, reference)
    )
    if given == few:
        return None
    return Finding(f"times that the source was read, tokens fed: {given}", few)


@comparable
def _right_until_the_end(request: Request, reply: Reply, reference: Reply) -> bool:
    wanted, ends = reference.outputs[0], request.inputs[4]
    until = torch.arange(wanted.size(1)) <= ends[:, None]
    given = reply.outputs[0]
    return not close(given, wanted) and close(given * until, wanted * until)


def _length_differs(request: Request, reply: Reply, reference: Reply) -> bool:
    given, wanted = reply.outputs[0].shape, reference.outputs[0].shape
    same = len(given) == 2 and given[0] == wanted[0]
    return same and given[1] != wanted[1] and given[1] <= request.inputs[7] + 1


def _begins_with_bos(request: Request, reply: Reply, reference: Reply) -> bool:
    given, wanted = reply.outputs[0], reference.outputs[0]
    one_more = given.shape == (len(wanted), wanted.size(1) + 1)
    return one_more and bool((given[:, 0] == request.inputs[5]).all())


STEPS = decoding._one_by_one  # what all that decodes token by token does
STEP = "logits, step_weights, cache = model.step(token, memory, cache)"
WHOLE = """so_far = torch.cat([torch.full_like(token, bos), *tokens], dim=1)
        logits, step_weights, cache = model.step(so_far, memory, cache)
        logits = logits[:, -1:]"""

QUESTION = Question(
    name="greedy",
    reference=decoding.greedy,
    use=_use_greedy,
    battery=BATTERY,
    requirements={
        "lengths": LENGTHS,
        "likeliest": "Greedy decoding takes the most probable token at every step.",
        "step": "At every step, `model.step(token, memory, cache)` takes the last"
        " token (B, 1), and only this token. It returns logits (B, 1, V), weights,"
        " which you do not need, and the cache for the next step.",
        "encode": "Call `model.encode(source, lengths)` once: it reads the source and"
        " returns a memory. `model.start(memory)` returns the cache for the first"
        " step.",
        "BOS": "Use BOS as the first input, but leave it out of the output.",
        "one token": "Some models use the same token for BOS and EOS, so the first"
        " input must not end a sentence.",
        "EOS": "A sentence ends when the model predicts EOS for it. All later tokens"
        " of this sentence must be EOS, whatever the model predicts.",
        "over": "Stop when all sentences have ended, or after `max_length` steps.",
        "takes": "Take the most probable token at every step, for a batch of sources"
        " at once.",
        "model": "model: has `encode`, `start` and `step`, and need not have anything"
        " else.",
        "source": "source: what `encode` reads; its first axis is B.",
        "of source": "lengths: the number of tokens in each source.",
        "bos": "bos: id of the token that starts a target.",
        "eos": "eos: id of the token that ends a target; it may be an id that no token"
        " has.",
        "max_length": "max_length: the largest number of steps, at least 1.",
        "returns": "Token ids (B, T), of dtype long, T <= `max_length`; after its"
        " first EOS, a sentence holds only EOS.",
    },
    properties=(
        BATTERY.numbers(
            "the most probable token, which is the input of the next step",
            2,
            _same_tokens,
            checks=("likeliest", "BOS", "takes", "model", "of source", "bos"),
            gradients=False,
        ),
        BATTERY.edges(
            1,
            each_of(_same_tokens, _same_counts),
            claim="only EOS after the first EOS; a stop when all sentences have ended;"
            " each token fed once, the source read once; edge cases",
            also=_ending,
            checks=(
                *("lengths", "step", "encode", "one token", "EOS", "over", "source"),
                *("eos", "max_length", "returns"),
            ),
        ),
        BATTERY.manners(1),
    ),
    mistakes=(
        Mistake(
            "BOS is fed in at every step",
            "Feed each step the token that was chosen in the step before.",
            WRITING,
            edit(
                decoding._one_by_one, "step(token,", "step(torch.full_like(token, bos),"
            ),
        ),
        Mistake(
            "the cache is not passed on",
            "Each step returns a cache. Pass it to the next step.",
            WRITING,
            edit(
                decoding._one_by_one, "memory, cache)", "memory, model.start(memory))"
            ),
        ),
        Mistake(
            "BOS in the output",
            "BOS is the first input. Leave it out of the output.",
            WRITING,
            edit(
                STEPS,
                "tokens[:needed]",
                "[torch.full_like(token, bos), *tokens[:needed]]",
            ),
            sign=_begins_with_bos,
        ),
        Mistake(
            "the whole prefix is fed at every step",
            "The past is in the cache, so feed each step only the last token.",
            CACHE,
            edit(STEPS, STEP, WHOLE),
        ),
        Mistake(
            "the first EOS ends all sentences",
            "Stop when *every* sentence has had its EOS.",
            WRITING,
            edit(decoding._End.reached, "ended.all()", "ended.any()"),
        ),
        Mistake(
            "decoding always goes on to max_length",
            "Stop as soon as every sentence has had its EOS.",
            WRITING,
            edit(decoding._End.reached, "ended.all()", "torch.tensor(False)"),
        ),
        Mistake(
            "the source is taken to have two axes",
            "Only the first axis of the source is known: it is B. Read off no other.",
            "",
            edit(STEPS, "memory = model", "rows, size = source.shape; memory = model"),
        ),
        Mistake(
            "another token than EOS after the end",
            "After a sentence's EOS, write the id `eos`, not another one.",
            WRITING,
            (
                edit(STEPS, "masked_fill(ended, eos)", "masked_fill(ended, 0)"),
                edit(STEPS, "masked_fill(ended, eos)", "masked_fill(ended, 2)"),
            ),
        ),
        Mistake(
            "the source is read at every step",
            "`encode` reads the source. Its memory serves all steps, so call it once.",
            CACHE,
            edit(STEPS, STEP, f"memory = model.encode(source, lengths); {STEP}"),
        ),
        Mistake(
            "BOS ends a sentence",
            "Only an EOS that the model predicts ends a sentence. The first input must"
            " not end it, even if BOS and EOS are the same token.",
            WRITING,
            edit(STEPS, "torch.zeros_like(token, dtype=torch.bool)", "token == eos"),
        ),
        Mistake(
            "the largest logit, not its index",
            "A token is the index of the largest logit, not the logit itself.",
            WRITING,
            sign=error_like("used as indices"),
        ),
        Mistake(
            "the least probable token",
            "The most probable token has the largest logit.",
            WRITING,
            edit(decoding.greedy, "argmax", "argmin"),
        ),
        Mistake(
            "a sentence continues after its EOS",
            "After a sentence's EOS, write EOS for this sentence, whatever the model"
            " predicts.",
            WRITING,
            edit(STEPS, "masked_fill(ended, eos)", "clone()"),
            sign=_right_until_the_end,
        ),
        *ANYWHERE,
        Mistake(
            "a list instead of a tensor",
            "Concatenate the tokens of all steps, each (B, 1), along the second axis.",
            sign=error_like("wanted tensors"),
        ),
        Mistake(
            "tokens right, model calls or dtype wrong",
            "The tokens are right. Read the source once, and feed each token once.",
            CACHE,
            sign=lambda request, reply, reference: close(
                reply.outputs[0], reference.outputs[0]
            ),
        ),
        Mistake(
            "a wrong number of steps",
            "Write at most max_length tokens, and stop when every sentence has had its"
            " EOS. EOS counts as a token, but BOS does not.",
            WRITING,
            (
                edit(STEPS, "range(max_length)", "range(max_length - 1)"),
                edit(STEPS, "range(max_length)", "range(max_length + 1)"),
            ),
            sign=_length_differs,
        ),
        Mistake(
            "wrong tokens are fed or chosen",
            "Feed BOS first, and then always the token that was chosen last. Choose"
            " the index of the largest of the V logits.",
            WRITING,
            sign=lambda request, reply, reference: bool(reply.outputs),
        ),
    ),
)
