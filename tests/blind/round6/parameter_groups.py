from blind import bugs


def make(bug):
    def parameter_groups(model, rate, decay):
        layers = list(model.body.encoder.layer)
        parts = [model.head, *reversed(layers), model.body.embeddings]
        if bug == "embeddings at the rate of the lowest layer":
            rates = [rate * decay**i for i in range(len(layers) + 1)]
            rates.append(rates[-1])
        elif bug == "lowest layer at the largest rate":
            parts = [model.head, *layers, model.body.embeddings]
            rates = [rate * decay**i for i in range(len(parts))]
        elif bug == "top layer at the head's rate":
            rates = [rate, *(rate * decay**i for i in range(len(parts) - 1))]
        elif bug == "embeddings at the head's rate":
            rates = [rate * decay**i for i in range(len(parts))]
            rates[-1] = rate
        elif bug == "linear":
            rates = [rate * (1 - i * (1 - decay)) for i in range(len(parts))]
        elif bug == "divided":
            rates = [rate / decay**i for i in range(len(parts))]
        elif bug == "square of the decay":
            rates = [rate * decay ** (2 * i) for i in range(len(parts))]
        elif bug == "one rate for the body":
            rates = [rate] + [rate * decay] * (len(parts) - 1)
        elif bug == "two layers taken for granted":
            parts = [model.head, layers[-1], layers[-2 % len(layers)]]
            parts.append(model.body.embeddings)
            rates = [rate * decay**i for i in range(4)]
        else:
            rates = [rate * decay**i for i in range(len(parts))]
        if bug == "embeddings forgotten":
            parts, rates = parts[:-1], rates[:-1]
        if bug == "head forgotten":
            parts, rates = parts[1:], rates[1:]
        groups = []
        for part, lr in zip(parts, rates):
            params = [p for p in part.parameters() if p.requires_grad]
            if bug == "frozen parameters, too":
                params = list(part.parameters())
            if bug == "part left out if one parameter is frozen":
                if any(not p.requires_grad for p in part.parameters()):
                    continue
            if bug == "weights alone":
                params = [p for p in params if p.dim() > 1]
            if bug == "frozen parameters made trainable":
                params = list(part.requires_grad_(True).parameters())
            if bug == "names":
                params = [name for name, _ in part.named_parameters()]
            if bug == "copies":
                params = [p.clone() for p in params]
            if bug == "a generator":
                params = iter(params)
            groups.append({"params": params, "lr": lr})
        if bug == "key rate":
            groups = [{"params": g["params"], "rate": g["lr"]} for g in groups]
        if bug == "everything once more at the head's rate":
            groups[0]["params"] = [p for p in model.parameters() if p.requires_grad]
        return groups

    return parameter_groups


RULE = "The head has `rate`, the last layer of the body `rate * decay`, the layer before it `decay` times that, and so on; the embeddings lie below all layers."
bugs(
    make,
    {
        name: RULE
        for name in (
            "embeddings at the rate of the lowest layer",
            "lowest layer at the largest rate",
            "top layer at the head's rate",
            "embeddings at the head's rate",
            "linear",
            "divided",
            "square of the decay",
            "one rate for the body",
            "two layers taken for granted",
            "embeddings forgotten",
            "head forgotten",
            "frozen parameters, too",
            "part left out if one parameter is frozen",
            "weights alone",
            "frozen parameters made trainable",
            "names",
            "copies",
            "a generator",
            "key rate",
            "everything once more at the head's rate",
        )
    },
)
