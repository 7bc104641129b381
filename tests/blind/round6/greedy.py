import torch
from blind import bugs


def make(bug):
    @torch.no_grad()
    def greedy(model, source, lengths, bos, eos, max_length):
        memory = model.encode(source, lengths)
        cache = model.start(memory)
        token = torch.full((len(source), 1), bos, device=source.device)
        ended = torch.zeros(len(source), 1, dtype=torch.bool, device=source.device)
        said = [token] if bug == "BOS in the output" else []
        if bug == "one step too few":
            max_length = max(max_length - 1, 1)
        if bug == "one step too many":
            max_length += 1
        if bug == "BOS may end":
            ended = token == eos
        for step in range(max_length):
            if bug == "encodes at each step":
                memory = model.encode(source, lengths)
            if bug == "cache of the start at each step":
                logits, _, _ = model.step(token, memory, cache)
            elif bug == "always BOS goes in":
                first = torch.full_like(token, bos)
                logits, _, cache = model.step(first, memory, cache)
            else:
                logits, _, cache = model.step(token, memory, cache)
            logits = logits[:, -1]
            if bug == "EOS not at the first step" and step == 0:
                logits = logits.clone()
                logits[:, eos] = -torch.inf
            if bug == "BOS is never said":
                logits = logits.clone()
                logits[:, bos] = -torch.inf
            if bug == "PAD is never said":
                logits = logits.clone()
                logits[:, 0] = -torch.inf
            if bug == "drawn":
                token = torch.multinomial(logits.float().softmax(-1), 1)
            elif bug == "the least probable":
                token = logits.argmin(-1, keepdim=True)
            elif bug == "largest magnitude":
                token = logits.abs().argmax(-1, keepdim=True)
            elif bug == "one token for the batch":
                token = logits.sum(0).argmax(-1).expand(len(source), 1).clone()
            else:
                token = logits.argmax(-1, keepdim=True)
            if bug == "zeros after the end":
                token = token.masked_fill(ended, 0)
            elif bug != "goes on after EOS":
                token = token.masked_fill(ended, eos)
            ended = ended | (token == eos)
            said.append(token)
            if bug == "stops when one has ended" and ended.any():
                break
            if bug == "stops when the first has ended" and ended[0].all():
                break
            if bug == "never stops early":
                continue
            if bug == "stops one step late":
                if (torch.cat(said[:-1], 1) == eos).any(1).all() if said[1:] else False:
                    break
                continue
            if bug == "EOS of the last step cut" and ended.all():
                said.pop()
                break
            if ended.all():
                break
        if not said:
            return token[:, :0]
        out = torch.cat(said, 1)
        if bug == "lists":
            return out.tolist()
        return out

    return greedy


RULE = "the three points of the text"
bugs(
    make,
    {
        name: RULE
        for name in (
            "BOS in the output",
            "one step too few",
            "one step too many",
            "BOS may end",
            "encodes at each step",
            "cache of the start at each step",
            "always BOS goes in",
            "EOS not at the first step",
            "BOS is never said",
            "PAD is never said",
            "drawn",
            "the least probable",
            "largest magnitude",
            "one token for the batch",
            "zeros after the end",
            "goes on after EOS",
            "stops when one has ended",
            "stops when the first has ended",
            "never stops early",
            "stops one step late",
            "EOS of the last step cut",
            "lists",
        )
    },
)
