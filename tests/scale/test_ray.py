"""Steps on Ray workers: the same numbers as one process, a lost machine, faults in one line."""

import json
import os
import pickle
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

import evenhand
from evenhand.errors import InputError
from evenhand.models import LoadOptions
from evenhand.requests import Continuation
from evenhand.scale.ray import Spread, _current, _shares, _Worker

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
import tiny

ALONE = "ip link set lo up 2>/dev/null || ifconfig lo up; exec "


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """What the runs on a simulated cluster of two machines did."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "--net", "true"], check=False).returncode:
        pytest.skip("needs `unshare --net`, so root: Ray would bind this host's own address")
    home = tmp_path_factory.mktemp("cluster")
    model = tiny.save(home / "model", "GPT2LMHeadModel")
    script = [sys.executable, str(Path(__file__).with_name("two_nodes.py")), str(model), str(home)]
    quoted = " ".join(f"'{part}'" for part in script)
    env = os.environ | {"TMPDIR": "/tmp", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        ["unshare", "--net", "bash", "-c", ALONE + quoted],
        capture_output=True, encoding="utf-8", timeout=500, check=False, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_two_workers_give_what_one_process_gives_to_the_last_digit(cluster):
    assert cluster["two"]["results"] == cluster["one"]["results"]
    assert cluster["two"]["steps"] == cluster["one"]["steps"] >= 12
    assert cluster["two"]["device"] == "cpu, 2 Ray workers"
    for name in ("tokens", "heads"):  # forwarded where the weights are, once, but for the trials when a model loads
        assert 0 < cluster["two"]["work"][name] <= cluster["one"]["work"][name] * 2


def test_a_machine_that_is_lost_costs_only_what_it_had_not_finished(cluster):
    assert cluster["lost"]["results"] == cluster["one"]["results"]
    assert 0 < cluster["lost"]["before"] < cluster["one"]["steps"] - 3  # it was lost in the middle
    assert cluster["one"]["steps"] <= cluster["lost"]["steps"] <= cluster["one"]["steps"] + 4


def test_what_is_answered_is_not_asked_again(cluster):
    assert cluster["again"]["steps"] == 0
    assert cluster["again"]["results"] == cluster["one"]["results"]


def test_faults_on_a_cluster_are_one_line(cluster):
    assert cluster["fails"] == {"error": "the card fell out", "code": 3, "going": []}
    assert cluster["fails again"] == cluster["fails"]
    assert cluster["many"]["code"] == cluster["cards"]["code"] == 2
    assert cluster["many"]["error"].startswith("--ray-workers 9: the cluster has ")
    assert cluster["cards"]["error"] == "--ray-gpus 1: the cluster has 0 GPUs"


@pytest.mark.parametrize(
    ("machines", "workers", "gpus", "found"),
    [
        ([{"CPU": 4}], None, None, (1, {"num_cpus": 4})),
        ([{"CPU": 4}, {"CPU": 2}, {"memory": 1}], None, None, (2, {"num_cpus": 2})),
        ([{"CPU": 4}], 4, None, (4, {"num_cpus": 1})),
        ([{"CPU": 16, "GPU": 2}], None, None, (2, {"num_cpus": 8, "num_gpus": 1})),
        ([{"CPU": 16, "GPU": 2}], None, 0.5, (4, {"num_cpus": 4, "num_gpus": 0.5})),
        ([{"CPU": 16, "GPU": 2}], None, 0, (1, {"num_cpus": 16})),
        ([{"CPU": 8, "GPU": 8}, {"CPU": 8, "GPU": 8}], 4, 2, (4, {"num_cpus": 4, "num_gpus": 2})),
    ],
)
def test_workers_are_one_a_card_or_one_a_machine_and_share_its_cores(machines, workers, gpus, found):
    nodes = [{"Alive": True, "Resources": resources} for resources in machines]
    cluster = SimpleNamespace(nodes=lambda: [*nodes, {"Alive": False, "Resources": {"CPU": 99}}])
    assert _shares(cluster, workers, gpus) == found


@pytest.mark.parametrize(
    ("file", "fingerprint", "said"),
    [("absent.json", "0", "cannot read the script"), ("model.json", "0", "is not the same model on every worker")],
)
def test_a_worker_that_has_not_the_model_hands_its_error_back(script, tmp_path, file, fingerprint, said):
    script(default=-1, supports=["Continuation"])
    worker = _Worker(f"scripted:{tmp_path / file}", LoadOptions(), fingerprint)
    batch = {"number": [3], "step": [pickle.dumps(("look up", [(0, Continuation("a", (" b",)))]))]}
    (packed,) = worker(batch)["done"]
    number, error, work = pickle.loads(packed)
    assert number == 3 and said in str(error) and work["passes"] == 0


def test_work_that_was_cut_short_has_ended_when_the_cluster_is_left():
    """A thread of Ray Data's that went on would join the cluster again, while the next run is joining it."""
    stop, left = threading.Event(), []

    def batches():
        try:
            yield
        finally:
            threading.Timer(0.2, stop.set).start()

    spread = object.__new__(Spread)
    spread._batches = batches()
    next(spread._batches)
    reader = threading.Thread(target=stop.wait, name="iter_threaded", daemon=True)
    reader.start()
    spread._ray = SimpleNamespace(
        exceptions=SimpleNamespace(RayError=OSError), shutdown=lambda: left.append(reader.is_alive())
    )
    spread.close()
    assert left == [False]


def test_without_ray_one_line_says_how_to_install_it(monkeypatch, tmp_path, script):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"^--ray needs ray: pip install 'evenhand\[ray\]'$"):
        evenhand.run(script(default=-1, supports=["Continuation"]), out=tmp_path / "run", ray="local")


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "nowhere"])
def test_a_cluster_that_is_not_there_is_one_line_and_soon(tmp_path, script, address):
    with pytest.raises(InputError, match=f"^--ray {address}: nothing answers there; "):
        evenhand.run(script(default=-1, supports=["Continuation"]), out=tmp_path / "run", ray=address)


def test_the_cluster_that_is_there_is_told_by_ray_s_note_while_something_answers(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert _current() is None
    (tmp_path / "ray").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        (tmp_path / "ray" / "ray_current_cluster").write_text(address)
        assert _current() == address
    assert _current() is None


def test_workers_without_ray_are_a_mistake(tmp_path, script):
    with pytest.raises(InputError, match="--ray-workers and --ray-gpus are about --ray"):
        evenhand.run(script(default=-1, supports=["Continuation"]), out=tmp_path / "run", ray_workers=2)
