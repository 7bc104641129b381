from blind import bugs


def make(bug):
    def split_heads(x, num_heads):
        B, T, D = x.shape
        if bug == "by tokens":
            return x.reshape(B, num_heads, T, -1)
        if bug == "every H-th entry":
            return x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2)
        if bug == "heads behind the positions":
            return x.unflatten(-1, (num_heads, -1))
        if bug == "heads in front":
            return x.unflatten(-1, (num_heads, -1)).permute(2, 0, 1, 3)
        if bug == "width in front of positions":
            return x.unflatten(-1, (num_heads, -1)).permute(0, 2, 3, 1)
        if bug == "last head first":
            return x.unflatten(-1, (num_heads, -1)).transpose(1, 2).flip(1)
        if bug == "as many pieces as the width of a head":
            return x.unflatten(-1, (-1, num_heads)).transpose(1, 2)
        if bug == "one head stays as it is":
            return x if num_heads == 1 else x.unflatten(-1, (num_heads, -1)).mT
        if bug == "eight at most":
            return x.unflatten(-1, (min(num_heads, 8), -1)).transpose(1, 2)
        if bug == "without gradient":
            return x.detach().unflatten(-1, (num_heads, -1)).transpose(1, 2)
        if bug == "in float32":
            return x.float().unflatten(-1, (num_heads, -1)).transpose(1, 2)
        return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)

    return split_heads


RULE = "the first Dh entries of *each token's* vector belong to the first head. Heads come before positions"
bugs(
    make,
    {
        name: RULE
        for name in (
            "by tokens",
            "every H-th entry",
            "heads behind the positions",
            "heads in front",
            "width in front of positions",
            "last head first",
            "as many pieces as the width of a head",
            "one head stays as it is",
            "eight at most",
            "without gradient",
            "in float32",
        )
    },
)
