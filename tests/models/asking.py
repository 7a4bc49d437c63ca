"""Helpers to ask a model, and plain loops to compare its answers with: one text at a time, nothing shared."""

from dataclasses import asdict

import torch

from evenhand.models import LoadOptions, load
from evenhand.requests import Cloze, Continuation, Scores


def opened(folder, **options):
    """The model in a folder."""
    return load(str(folder), LoadOptions(device="cpu", **options))


def ask(model, requests, answered=()):
    """All answers by request; every request answered once."""
    pairs = [pair for batch in model.answer(requests, answered) for pair in batch]
    found = dict(pairs)
    assert len(found) == len(pairs)
    return found


def apart(first, second):
    """The largest difference between two sets of answers of one shape."""
    assert first.keys() == second.keys()
    worst = 0.0
    for request, answer in first.items():
        other = second[request]
        assert [len(x) for x in answer.logprobs] == [len(x) for x in other.logprobs], request
        for a, b in zip(answer.logprobs, other.logprobs, strict=True):
            worst = max([worst, *(abs(x - y) for x, y in zip(a, b, strict=True))])
    return worst


def work(model):
    """The model's counters now."""
    return asdict(model.work)


@torch.no_grad()
def _logprobs(model, ids):
    return torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0].double(), -1)


def causal(model, tokenizer, request):
    """A causal answer by full logits of one text after the other."""

    def ids(text):
        found = tokenizer(text)["input_ids"] if text else tokenizer("")["input_ids"]
        return found[:-1] if found and found[-1] == tokenizer.eos_token_id and tokenizer.eos_token != text else found

    if isinstance(request, Continuation):
        context, texts = request.context, [request.context + choice for choice in request.choices]
    else:
        context = request.context
        texts = [f"{context} {request.text}" if context else request.text]
    paths, alone = [ids(text) for text in texts], ids(context)
    begin = 0
    while begin < len(alone) and all(begin < len(path) and path[begin] == alone[begin] for path in paths):
        begin += 1
    bos = [tokenizer.bos_token_id]
    asked = "always" if begin == 0 else "tokenizer" if isinstance(request, Continuation) else request.start
    if not isinstance(request, Continuation) and request.start == "tokenizer" and begin == 0:
        first, rest = _logprobs(model, bos + paths[0]), _logprobs(model, paths[0])
        values = [first[0, paths[0][0]], *(rest[i - 1, paths[0][i]] for i in range(1, len(paths[0])))]
        return Scores((tuple(float(value) for value in values),))
    if asked == "always" and paths[0][:1] != bos:
        paths, begin = [bos + path for path in paths], begin + 1
    found = []
    for path in paths:
        values = _logprobs(model, path)
        found.append(tuple(float(values[i - 1, path[i]]) for i in range(begin, len(path))))
    return Scores(tuple(found))


def masked(model, tokenizer, request: Cloze):
    """A cloze answer, one masked input at a time: within a word left to right."""
    found = []
    for fill in request.fills:
        start, end = request.span
        text, stop = request.text[:start] + fill + request.text[end:], start + len(fill)
        encoded = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
        ids = encoded["input_ids"]
        at = encoded["offset_mapping"]
        inside = [i for i, (low, high) in enumerate(at) if low < high and low < stop and start < high]
        before, (low, high) = inside[0] - 1, at[inside[0] - 1]
        if high == start > 0 and not text[low:high].strip() and tokenizer.decode([ids[before]]).strip() == "":
            inside.insert(0, before)  # a space of its own in front of the word is a piece of the word
        values = []
        for k, position in enumerate(inside):
            shown = list(ids)
            for later in inside[k:]:
                shown[later] = tokenizer.mask_token_id
            values.append(float(_logprobs(model, shown)[position, ids[position]]))
        found.append(tuple(values))
    return Scores(tuple(found))
