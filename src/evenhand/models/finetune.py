"""A transformers model trained as a classifier of texts: its body, pooled, and a linear head, all of it trained.

The body is loaded anew, in float32, so that the model that answers other requests is never touched. What a step is does
not depend on --batch-tokens: a batch that is larger is forwarded in parts, its gradients added up. Everything random
(the head's first weights, the order of texts, dropout) comes from the request's seed. Texts appear in no message.
"""

import random
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import InputError, ModelError
from evenhand.models import BATCH_TOKENS, hub, plan
from evenhand.requests import Classify

if TYPE_CHECKING:
    from evenhand.models.checkpoint import Checkpoint

HEAD_RATE = 10
"""How many times faster the head learns: it starts from nothing."""
POOL = 16
"""Batches whose texts are sorted by length among each other."""
WARM = 0.1
DECAY = 0.01
NORM = 1.0


def probabilities(checkpoint: "Checkpoint", request: Classify) -> "array[float]":
    """Every query's probabilities of the classes, one after the other: float32, queries times classes.

    Raises:
        InputError: texts, labels or weights are not one for each other.
        ModelError: training failed, or ended in numbers that are not finite.
    """
    import torch

    n = len(request.texts)
    if not n or len(request.labels) != n or len(request.weights) not in (0, n) or min(request.labels) < 0:
        raise InputError(f"{n} texts to train on have {len(request.labels)} labels, {len(request.weights)} weights")
    device = checkpoint._torch_device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(request.seed)
        trained = _Trained(checkpoint, request, device)
        try:
            trained.train(request)
            found = trained.classified(request.queries)
        except (RuntimeError, MemoryError, IndexError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ModelError(f"training the model failed: {reason}; a smaller --batch-tokens takes less") from error
    if not np.isfinite(found).all():
        raise ModelError("training ended in numbers that are not finite; a smaller learning_rate may help")
    return array("f", found.tobytes())


class _Trained:
    """The body and its head."""

    def __init__(self, checkpoint: "Checkpoint", request: Classify, device: Any) -> None:
        import torch

        self.checkpoint, self.device = checkpoint, device
        self.room = checkpoint.options.batch_tokens or BATCH_TOKENS
        self.first = request.pooling == "first"
        self.body = hub.load_weights(checkpoint.found, "encoder", torch.float32, device, checkpoint.options)
        config = self.body.config
        text = config.get_text_config()
        width = next((w for name in ("hidden_size", "d_model", "dim") if (w := getattr(text, name, None))), None)
        if width is None:
            raise ModelError(f"{checkpoint.found.ref}: its config does not say how wide its hidden states are")
        self.settings = {"use_cache": False} if checkpoint.reading == "causal" or config.is_encoder_decoder else {}
        self.head = torch.nn.Linear(width, max(request.labels) + 1).to(device)

    def train(self, request: Classify) -> None:
        """All epochs; the model is in evaluation mode afterwards."""
        import torch

        tokens = self.checkpoint.encoder.cut(request.texts)
        weights = request.weights or (1.0,) * len(tokens)
        groups: list[dict[str, Any]] = [
            {"params": [p for p in self.body.parameters() if p.requires_grad], "lr": request.learning_rate},
            {"params": list(self.head.parameters()), "lr": request.learning_rate * HEAD_RATE},
        ]
        every = [p for group in groups for p in group["params"]]
        optimiser = torch.optim.AdamW(groups, weight_decay=DECAY)
        steps = request.epochs * -(-len(tokens) // request.batch)
        warm = max(1, round(WARM * steps))
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: min((step + 1) / warm, (steps - step) / max(1, steps - warm), 1.0)
        )
        order = random.Random(request.seed)  # noqa: S311 - nothing secret
        self.body.train()
        for epoch in range(request.epochs):
            total = 0.0
            for batch in _shuffled([len(ids) for ids in tokens], request.batch, order):
                optimiser.zero_grad(set_to_none=True)
                for part in plan.grouped([len(tokens[i]) for i in batch], self.room):
                    own = [batch[j] for j in part]
                    logits = self._logits([tokens[i] for i in own])
                    labels = torch.tensor([request.labels[i] for i in own], device=self.device)
                    losses = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
                    loss = (losses * torch.tensor([weights[i] for i in own], device=self.device)).sum() / len(batch)
                    loss.backward()  # type: ignore[no-untyped-call]
                    total += float(loss.detach()) * len(batch)
                torch.nn.utils.clip_grad_norm_(every, NORM)
                optimiser.step()
                schedule.step()
            loss_now = f"mean loss {total / len(tokens):.3f}"
            self.checkpoint.options.tell(
                f"trained on {len(tokens):,} texts, pass {epoch + 1} of {request.epochs}: {loss_now}"
            )
        self.body.eval()

    def classified(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """Shape (queries, classes)."""
        import torch

        tokens = self.checkpoint.encoder.cut(queries)
        found = np.zeros((len(tokens), self.head.out_features), dtype=np.float32)
        with torch.inference_mode():
            for batch in plan.grouped([len(ids) for ids in tokens], self.room):
                found[batch] = self._logits([tokens[i] for i in batch]).softmax(-1).cpu().numpy()
        return found

    def _logits(self, rows: Sequence[Sequence[int]]) -> Any:
        from evenhand.models.forward import padded

        ids, there = (value.to(self.device) for value in padded(rows, self.checkpoint.pad))
        hidden = self.body(input_ids=ids, attention_mask=there, **self.settings).last_hidden_state
        work, real = self.checkpoint.work, int(there.sum())
        work.passes += 1
        work.rows += len(rows)
        work.tokens += real
        work.padding += there.numel() - real
        if self.first:
            return self.head(hidden[:, 0])
        return self.head((hidden * there[:, :, None]).sum(1) / there.sum(1, keepdim=True))


def _shuffled(lengths: Sequence[int], batch: int, order: random.Random) -> list[list[int]]:
    """Batches of texts in random order, each of about one length: sorted within pools of batches."""
    rows = list(range(len(lengths)))
    order.shuffle(rows)
    found = []
    for low in range(0, len(rows), POOL * batch):
        pool = sorted(rows[low : low + POOL * batch], key=lengths.__getitem__)
        found += [pool[i : i + batch] for i in range(0, len(pool), batch)]
    order.shuffle(found)
    return found
