import torch
from attention_course.tasks.core import PAD
from blind import bugs


def make(bug):
    def pad_left(rows):
        longest = max(map(len, rows))
        if bug == "fills the rows themselves":
            lengths = [len(row) for row in rows]
            for row in rows:
                row[:0] = [PAD] * (longest - len(row))
            ids = rows
        else:
            lengths = [len(row) for row in rows]
            ids = [[PAD] * (longest - len(row)) + row for row in rows]
        where = [[0] * (longest - n) + list(range(n)) for n in lengths]
        shape = len(rows), longest
        ids = torch.tensor(ids, dtype=torch.long).reshape(shape)
        where = torch.tensor(where, dtype=torch.long).reshape(shape)
        if bug == "id 0 is no token":
            where = ((ids != PAD).cumsum(-1) - 1).clamp(min=0)
        if bug == "leading zeros are padding":
            token = (ids != PAD).cumsum(-1) > 0
            where = (token.cumsum(-1) - 1).clamp(min=0)
        if bug == "id 0 has position 0":
            where = where * (ids != PAD)
        if bug == "column numbers":
            where = torch.arange(longest).expand(shape)
        if bug == "positions from 1":
            where = torch.tensor(
                [[0] * (longest - n) + list(range(1, n + 1)) for n in lengths]
            ).reshape(shape).long()
        if bug == "negative positions on padding":
            where = torch.arange(longest) - (longest - torch.tensor(lengths))[:, None]
        if bug == "positions in 32 bits":
            where = where.int()
        if bug == "one column more":
            ids = torch.nn.functional.pad(ids, (1, 0), value=PAD)
            where = torch.nn.functional.pad(where, (1, 0))
        if bug == "positions from the end":
            where = where.flip(-1)
        return (where, ids) if bug == "exchanged" else (ids, where)

    return pad_left


ID = "An id does not say whether it is padding. The id of `PAD` may also stand in a row, and there it is a token"
POSITION = "The position of a token is the number of tokens that stand before it in its own row"
bugs(
    make,
    {
        "fills the rows themselves": "Your function leaves the rows that came in as they are.",
        "id 0 is no token": ID,
        "leading zeros are padding": ID,
        "id 0 has position 0": ID,
        "column numbers": POSITION,
        "positions from 1": POSITION,
        "negative positions on padding": "Padding has the position 0.",
        "positions in 32 bits": "both of `torch.long`",
        "one column more": "The longest row is not filled up.",
        "positions from the end": POSITION,
        "exchanged": "The ids (B, T) and the positions (B, T)",
    },
)
