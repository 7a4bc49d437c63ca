"""A cluster of two one-core machines, simulated, and what evenhand's runs on it do: prints one JSON object.

Run where there is only loopback (Ray binds the host's own address otherwise): `python two_nodes.py MODEL FOLDER`.
"""

import json
import os
import sys
import threading
from pathlib import Path

MODEL, FOLDER = sys.argv[1], Path(sys.argv[2])
LOG = FOLDER / "steps.log"
BACKEND = f"""
import time
from evenhand.errors import ModelError
from evenhand.models import causal, hub

class Slow(causal.Causal):
    def do(self, step):
        found = super().do(step)
        with open({str(LOG)!r}, "a") as log:
            log.write(f"{{step.what}}\\n")
        time.sleep(0.3)
        if {str(FOLDER / "fail")!r} and __import__("pathlib").Path({str(FOLDER / "fail")!r}).exists():
            raise ModelError("the card fell out")
        return found

def load(ref, options):
    return Slow(hub.locate(ref, options), options)
"""


def install():
    """A backend of kind `slow:`, as an outside package brings it, where workers find it too."""
    home = FOLDER / "site"
    about = home / "slow_backend-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-backend\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[evenhand.models]\nslow = slow_backend\n")
    (home / "slow_backend.py").write_text(BACKEND)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(home), os.environ.get("PYTHONPATH", "")])
    sys.path.insert(0, str(home))


def steps():
    """How many steps were done so far, by anyone."""
    return len(LOG.read_text().splitlines()) if LOG.exists() else 0


def main():
    """Runs on one process, on two workers, on two of which one is lost, and again."""
    install()
    os.environ["OMP_NUM_THREADS"] = "1"  # as many as each machine has: more threads add up in another order
    from ray.cluster_utils import Cluster

    import evenhand
    from evenhand.run import Silent

    table = FOLDER / "jobs.csv"
    table.write_text("occupation\n" + "".join(f"{'very ' * (i % 9)}busy worker of kind {i}\n" for i in range(120)))
    how = {"data": {"cooccurrence": table}, "batch_tokens": 32, "bootstrap": 99, "device": "cpu"}

    def measured(out, progress=None, **more):
        before = steps()
        done = evenhand.run(f"slow:{MODEL}", "cooccurrence", out=FOLDER / out, progress=progress, **how, **more)
        about = json.loads((done.path / "run.json").read_bytes())
        return {
            "results": (done.path / "results.json").read_text(), "steps": steps() - before, "work": about["work"],
            "device": about["device"],
        }  # fmt: skip

    found = {"one": measured("one")}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 100 * 2**20})
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20) for _ in range(2)]
    on = {"ray": cluster.address}

    class Saboteur(Silent):
        """Takes a machine away, unannounced, once a few answers are there."""

        seen = done = 0

        def advance(self, n):
            self.seen += n
            if self.seen >= 12 and len(nodes) == 2:
                self.done = steps()
                threading.Thread(target=cluster.remove_node, args=(nodes.pop(), False)).start()

    found["two"] = measured("two", **on)
    found["again"] = measured("two", **on)
    saboteur, before = Saboteur(), steps()
    found["lost"] = measured("lost", saboteur, **on)
    found["lost"]["before"] = saboteur.done - before
    (FOLDER / "fail").touch()
    for name, more in {"fails": {}, "fails again": {}, "many": {"ray_workers": 9}, "cards": {"ray_gpus": 1}}.items():
        try:
            measured(name, **on, **more)
        except evenhand.errors.EvenhandError as error:
            going = {thread.name for thread in threading.enumerate()} - {"MainThread", "Prefetcher"}
            found[name] = {"error": str(error), "code": error.exit_code, "going": sorted(going)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
