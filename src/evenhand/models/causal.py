"""Causal language models on transformers."""

from collections.abc import Iterator, Sequence

from evenhand.errors import ModelError
from evenhand.models import LoadOptions, plan
from evenhand.models.checkpoint import Checkpoint
from evenhand.models.hub import expect, locate
from evenhand.models.steps import Part, Step, reading, whole
from evenhand.requests import Classify, Continuation, Embed, Generate, Request, Sentence, Texts

ROW_TOKENS = 256


class Causal(Checkpoint):
    """Shared prefixes are forwarded once, all choices of a context are read from one pass."""

    kind = "causal"
    reading = "causal"
    supports = frozenset({Continuation, Sentence, Generate, Embed, Classify})

    def steps(self, requests: Sequence[Request]) -> Iterator[Step]:
        """Likelihoods first, in planned batches; then vectors; then samples, prompt by prompt; then training."""
        if paths := self._paths(requests):
            facts = self.told or self.facts
            if facts.trees and not any(facts.window and len(path.tokens) > facts.window for path in paths):
                rows = plan.trees(paths, min(ROW_TOKENS, self.batch_tokens))
            else:
                rows = plan.chains(paths)
            yield from reading(rows, self.batch_tokens)
        yield from self.vectors(requests)
        prompts = ((i, r) for i, r in enumerate(requests) if isinstance(r, Generate))
        yield from whole("sample", prompts, lambda request: request.samples * request.max_tokens)
        yield from self.training(requests)

    def do(self, step: Step) -> list[Part]:
        """Samples texts, or what every checkpoint does."""
        if step.what == "sample":
            i, request = step.load
            return [(plan.Slot(i, 0, 0), self._sample(request))]
        return super().do(step)

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
