"""Causal language models on transformers."""

from collections.abc import Container, Iterator, Sequence

from evenhand.errors import ModelError
from evenhand.models import Batch, LoadOptions, plan
from evenhand.models.checkpoint import Checkpoint
from evenhand.models.hub import expect, locate
from evenhand.requests import Classify, Continuation, Embed, Generate, Request, Sentence, Texts

ROW_TOKENS = 256


class Causal(Checkpoint):
    """Shared prefixes are forwarded once, all choices of a context are read from one pass."""

    kind = "causal"
    reading = "causal"
    supports = frozenset({Continuation, Sentence, Generate, Embed, Classify})

    def answer(self, requests: Sequence[Request], answered: Container[Request]) -> Iterator[Batch]:
        """Likelihoods first, in planned batches; then vectors; then samples, prompt by prompt; then training."""
        scored = [request for request in requests if not isinstance(request, Generate | Embed | Classify)]
        if any(request not in answered for request in scored):
            paths = self._paths(scored)
            window = self.forward.window
            if self.forward.trees and not any(window and len(path.tokens) > window for path in paths):
                rows = plan.trees(paths, min(ROW_TOKENS, self.options.batch_tokens))
            else:
                rows = plan.chains(paths)
            yield from self.run(scored, rows, answered)
        yield from self.embed(requests, answered)
        for request in requests:
            if isinstance(request, Generate) and request not in answered:
                yield [(request, self._sample(request))]
        yield from self.classify(requests, answered)

    def _paths(self, requests: Sequence[Request]) -> list[plan.Path]:
        continued = [(i, r) for i, r in enumerate(requests) if isinstance(r, Continuation)]
        sentences = [(i, r) for i, r in enumerate(requests) if isinstance(r, Sentence)]
        joint = self.encoder.continuations([r.context for _, r in continued], [r.choices for _, r in continued])
        alone = self.encoder.sentences(
            [r.text for _, r in sentences], [r.context for _, r in sentences], [r.start for _, r in sentences]
        )
        paths = [
            plan.Path(tokens, start, i, choice)
            for (i, _), choices in zip(continued, joint, strict=True)
            for choice, (tokens, start) in enumerate(choices)
        ]
        for (i, _), parts in zip(sentences, alone, strict=True):
            first = 0
            for tokens, start in parts:
                paths.append(plan.Path(tokens, start, i, 0, first))
                first += len(tokens) - start
        return paths

    def _sample(self, request: Generate) -> Texts:
        """Ancestral samples: temperature 1, no truncation, a generator seeded per request."""
        import torch
        from transformers import GenerationConfig

        from evenhand.requests import key

        (tokens,) = self.encoder.prompts([request.prompt], room=request.max_tokens)
        model = self.forward.model
        # A checkpoint may bring penalties, cut-offs and beams of its own; of its settings only the end of a text stays.
        model.generation_config = GenerationConfig(eos_token_id=model.generation_config.eos_token_id)
        ids = torch.tensor([tokens], device=model.device)
        devices = [model.device] if model.device.type == "cuda" else []
        with torch.random.fork_rng(devices), torch.inference_mode():
            torch.manual_seed(int(key(request)[:15], 16))
            try:
                out = model.generate(
                    ids, attention_mask=torch.ones_like(ids), do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
                    num_return_sequences=request.samples, max_new_tokens=request.max_tokens, pad_token_id=self.pad,
                )  # fmt: skip
            except (RuntimeError, MemoryError) as error:
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
                raise ModelError(f"the model failed to continue {request.prompt[:60]!r}: {reason}") from error
        self.work.passes += request.max_tokens
        self.work.tokens += len(tokens) + request.samples * (request.max_tokens - 1)
        new = self.tokenizer.batch_decode(out[:, ids.shape[1] :], skip_special_tokens=True)
        return Texts(tuple(new))


def load(ref: str, options: LoadOptions) -> Causal:
    """The causal model at `ref`."""
    found = locate(ref, options)
    expect(found, "causal")
    return Causal(found, options)
