from blind import bugs


def make(bug):
    def merge_heads(x):
        B, H, T, Dh = x.shape
        if bug == "without bringing the heads back":
            return x.reshape(B, T, -1)
        if bug == "entries of the heads in turn":
            return x.permute(0, 2, 3, 1).flatten(2)
        if bug == "last head first":
            return x.flip(1).transpose(1, 2).flatten(2)
        if bug == "the mean of the heads":
            return x.mean(1)
        if bug == "the sum of the heads":
            return x.sum(1)
        if bug == "the first head alone":
            return x[:, 0]
        if bug == "positions in a row":
            return x.flatten(1, 2)
        if bug == "squeezed":
            return x.transpose(1, 2).flatten(2).squeeze()
        if bug == "four at most":
            return x[:, :4].transpose(1, 2).flatten(2)
        if bug == "view of what is not contiguous":
            return x.transpose(1, 2).view(B, T, -1)
        if bug == "without gradient":
            return x.detach().transpose(1, 2).flatten(2)
        return x.transpose(1, 2).flatten(2)

    return merge_heads


RULE = "(B, H, T, Dh) becomes (B, T, D), with all pieces of a token concatenated"
bugs(
    make,
    {
        name: RULE
        for name in (
            "without bringing the heads back",
            "entries of the heads in turn",
            "last head first",
            "the mean of the heads",
            "the sum of the heads",
            "the first head alone",
            "positions in a row",
            "squeezed",
            "four at most",
            "view of what is not contiguous",
            "without gradient",
        )
    },
)
