import torch
from attention_course.scores import Score
from blind import bugs


def make(bug):
    class DotScore(Score):
        def project_keys(self, key):
            if bug == "keys divided by their length":
                return key / key.norm(dim=-1, keepdim=True)
            return super().project_keys(key)

        def forward(self, query, projected):
            if bug == "scaled":
                return query @ projected.mT / query.size(-1) ** 0.5
            if bug == "three axes alone":
                return torch.bmm(query, projected.transpose(1, 2))
            if bug == "keys by queries":
                return projected @ query.mT
            if bug == "t and s run together":
                return (query * projected).sum(-1)
            if bug == "negative scores cut":
                return (query @ projected.mT).relu()
            if bug == "weights":
                return (query @ projected.mT).softmax(-1)
            if bug == "first axis of the batch alone":
                return query @ projected.mT.flatten(0, -3)[:1].expand_as(projected.mT)
            if bug == "transposed by T":
                return query @ projected.transpose(0, -1)
            if bug == "the mean of the products":
                return torch.einsum("...td,...sd->...ts", query, projected) / len(
                    query[0, 0] if query.dim() == 3 else query[0]
                )
            if bug == "rounded to four places":
                return (query @ projected.mT * 1e4).round() / 1e4
            return query @ projected.mT

    return DotScore


BY = "multiply entry by entry and add up"
bugs(
    make,
    {
        "keys divided by their length": BY,
        "scaled": BY,
        "three axes alone": "(..., T, D)",
        "keys by queries": "(..., T, S)",
        "t and s run together": "Score every query against every key",
        "negative scores cut": BY,
        "weights": BY,
        "first axis of the batch alone": "(..., S, D)",
        "transposed by T": "(..., S, D)",
        "the mean of the products": BY,
        "rounded to four places": BY,
    },
)
