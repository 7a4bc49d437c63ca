"""References to checkpoints: what a folder or a Hub id is taken for, and what is refused, with what advice."""

import json
import shutil
import socket

import asking
import pytest
import tiny
import torch
import transformers

import hub_server
from evenhand.errors import InputError, ModelError
from evenhand.models import LoadOptions, hub, kinds, load
from evenhand.requests import Cloze, Continuation
from evenhand.spec import slug

CONTINUATION = Continuation("The doctor was a", (" man", " woman"))
CLOZE = Cloze("The BLANK was a man.", (4, 9), ("doctor", "plumber"))
CPU = LoadOptions(device="cpu")


@pytest.fixture
def copy(checkpoint, tmp_path):
    """A function that copies a tiny checkpoint and changes its config."""

    def copy(architecture="GPT2LMHeadModel", **changes):
        folder = shutil.copytree(checkpoint(architecture), tmp_path / "model")
        path = folder / "config.json"
        config = json.loads(path.read_text()) | changes
        path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))
        return folder

    return copy


def refused(folder, request=None, options=CPU):
    """What an InputError says, from loading or from the first answer."""
    with pytest.raises(InputError) as caught:
        model = load(str(folder), options)
        asking.ask(model, [request or (CLOZE if model.kind == "masked" else CONTINUATION)])
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- kinds


@pytest.mark.parametrize("architecture", sorted(tiny.ARCHITECTURES))
def test_the_kind_is_the_configs(checkpoint, architecture):
    kind = "causal" if architecture in tiny.CAUSAL else "masked"
    folder = str(checkpoint(architecture))
    assert hub.kind_of(folder, CPU) == kind
    assert load(folder, CPU).kind == kind
    assert kind in kinds()


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [
        ("BertForPreTraining", "masked"),
        ("GPT2LMHeadModel", "causal"),
        ("XLMWithLMHeadModel", "causal"),
        ("T5ForConditionalGeneration", "seq2seq"),
        ("BartForConditionalGeneration", "seq2seq"),
    ],
)
def test_kinds_by_the_names_of_architectures(tmp_path, architecture, kind):
    (tmp_path / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    assert hub.kind_of(str(tmp_path), CPU) == kind


def test_every_kind_that_a_config_can_name_has_a_module(tmp_path):
    assert set(hub.HEADS.values()) <= set(kinds())


@pytest.mark.parametrize(
    ("forced", "architecture", "said"),
    [
        ("masked", "GPT2LMHeadModel", "is a causal language model (GPT2LMHeadModel), not a masked language model"),
        ("causal", "BertForMaskedLM", "is a masked language model (BertForMaskedLM), not a causal language model"),
    ],
)
def test_a_forced_kind_that_is_not_the_configs_is_refused(checkpoint, forced, architecture, said):
    message = refused(f"{forced}:{checkpoint(architecture)}")
    assert said in message
    assert f"leave out '{forced}:'" in message


def test_an_unknown_kind_is_refused_with_the_nearest():
    assert "did you mean 'causal'" in refused("casual:some/model")


def test_a_body_without_a_head_is_refused_with_what_to_say(copy):
    folder = copy("BertForMaskedLM", architectures=["BertModel"])
    message = refused(folder)
    assert "names no language-modelling head (architectures: BertModel)" in message
    assert "masked:" in message


def test_a_config_without_architectures_loads_where_the_kind_is_said(copy):
    folder = copy("BertForMaskedLM", architectures=None)
    assert "architectures: none" in refused(folder)
    model = load(f"masked:{folder}", CPU)
    assert asking.ask(model, [CLOZE])


# --- weights


def test_a_head_without_weights_is_refused(checkpoint, tmp_path):
    """Case 27: a head that was never trained would answer at random."""
    folder = shutil.copytree(checkpoint("BertForMaskedLM"), tmp_path / "m")
    model = transformers.BertForMaskedLM.from_pretrained(folder)
    model.bert.save_pretrained(folder)
    message = refused(f"masked:{folder}")
    assert "no weights for cls.predictions." in message
    assert "they would be random" in message
    assert "cannot be read as a masked language model" in message


@pytest.mark.parametrize("architecture", ["LlamaForCausalLM", "GPT2LMHeadModel"])
def test_a_layer_without_weights_is_refused(checkpoint, tmp_path, architecture):
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(checkpoint(architecture), tmp_path / "m")
    weights = load_file(folder / "model.safetensors")
    gone = [name for name in weights if ".1." in name and "mlp" in name]
    save_file({k: v for k, v in weights.items() if k not in gone}, folder / "model.safetensors", {"format": "pt"})
    assert f"({len(gone)} missing in all)" in refused(folder)


def test_no_weights_at_all_are_refused(copy):
    folder = copy()
    (folder / "model.safetensors").unlink()
    assert "no weights there (no *.safetensors, no pytorch_model*.bin)" in refused(folder)
    with pytest.raises(InputError, match="no weights there"):
        load(str(folder), CPU).identity()


@pytest.mark.parametrize("architecture", ["GPT2LMHeadModel", "BertForMaskedLM"])
def test_damaged_weights_are_a_one_line_error(copy, architecture):
    folder = copy(architecture)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ModelError, match="cannot") as caught:
        asking.ask(load(str(folder), CPU), [CONTINUATION])
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_pickled_weights_load_and_answer_alike(checkpoint, copy):
    folder = copy()
    weights = transformers.GPT2LMHeadModel.from_pretrained(folder).state_dict()
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    usual = asking.ask(load(str(checkpoint("GPT2LMHeadModel")), CPU), [CONTINUATION])
    assert asking.apart(asking.ask(load(str(folder), CPU), [CONTINUATION]), usual) < 1e-6


def test_a_pickle_that_would_run_code_is_not_run(copy, tmp_path):
    import os

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "trapped"),)

    folder = copy()
    (folder / "model.safetensors").unlink()
    torch.save({"transformer.wte.weight": Trap()}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError) as caught:
        asking.ask(load(str(folder), CPU), [CONTINUATION])
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "trapped").exists()


# --- folders


def test_a_folder_without_a_config_is_refused(tmp_path):
    assert "no config.json there" in refused(tmp_path)


def test_a_file_is_not_a_folder(tmp_path):
    path = tmp_path / "toy.json"
    path.write_text("{}")
    assert f"scripted:{path}" in refused(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "config.json is not JSON"), ("[]", "is not a JSON object"), ("\xff", "config.json is not JSON")],
)
def test_a_config_that_cannot_be_read_is_refused(tmp_path, text, said):
    (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
    assert said in refused(tmp_path)


def test_architectures_that_are_no_list_of_names_are_refused(copy):
    assert "names no language-modelling head" in refused(copy(architectures=[]))


@pytest.mark.parametrize("architectures", ["GPT2LMHeadModel", 3, {"a": 1}])
def test_architectures_of_another_type_are_refused(copy, architectures):
    assert "names no language-modelling head" in refused(copy(architectures=architectures))


def test_a_missing_tokenizer_is_refused(copy):
    folder = copy()
    for path in folder.glob("token*"):
        path.unlink()
    assert "tokenizer" in refused(folder)


def test_a_damaged_tokenizer_is_refused(copy):
    folder = copy()
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": 3}')
    assert "no tokenizer that transformers can read" in refused(folder)


CODE = """
from transformers import GPT2LMHeadModel
import pathlib
pathlib.Path({path!r}).mkdir()
class OwnLMHeadModel(GPT2LMHeadModel):
    pass
"""


def test_code_of_its_own_is_refused_and_not_run(copy, tmp_path):
    folder = copy(architectures=["OwnLMHeadModel"], auto_map={"AutoModelForCausalLM": "modeling_own.OwnLMHeadModel"})
    (folder / "modeling_own.py").write_text(CODE.format(path=str(tmp_path / "ran")))
    message = refused(folder)
    assert "brings code of its own (OwnLMHeadModel)" in message
    assert "--trust-remote-code" in message
    assert not (tmp_path / "ran").exists()


def test_code_beside_an_architecture_that_transformers_has_is_left_alone(checkpoint, copy, tmp_path):
    folder = copy(auto_map={"AutoModelForCausalLM": "modeling_own.OwnLMHeadModel"})
    (folder / "modeling_own.py").write_text(CODE.format(path=str(tmp_path / "ran")))
    usual = asking.ask(load(str(checkpoint("GPT2LMHeadModel")), CPU), [CONTINUATION])
    assert asking.ask(load(str(folder), CPU), [CONTINUATION]) == usual
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("device", ["cuda", "cuda:7", "mps"])
def test_a_device_that_is_not_there_is_refused(checkpoint, device):
    if device != "mps" and torch.cuda.is_available() and device == "cuda":
        pytest.skip("there is one")
    message = refused(checkpoint("GPT2LMHeadModel"), options=LoadOptions(device=device))
    assert message.startswith(f"--device {device}: this machine has")


def test_an_almost_packaged_name_is_refused_with_the_name():
    assert "did you mean 'smollm2-135m'" in refused("smollm2-135")


# --- the Hub


@pytest.fixture
def served(checkpoint, tmp_path, monkeypatch):
    """A Hub on this machine with two tiny models; yields its requests so far."""
    models = {"tiny/gpt2": checkpoint("GPT2LMHeadModel"), "tiny/bert": checkpoint("BertForMaskedLM")}
    with hub_server.hub(models) as (address, asked):
        hub_server.point(monkeypatch, tmp_path / "cache", address)
        yield asked


@pytest.mark.parametrize(
    ("ref", "architecture", "request_"),
    [("tiny/gpt2", "GPT2LMHeadModel", CONTINUATION), ("tiny/bert", "BertForMaskedLM", CLOZE)],
)
def test_a_hub_model_answers_as_its_folder(served, checkpoint, ref, architecture, request_):
    here, there = load(str(checkpoint(architecture)), CPU), load(ref, CPU)
    assert there.kind == here.kind
    assert there.identity().revision == hub_server.COMMIT
    assert there.identity().fingerprint == here.identity().fingerprint
    assert asking.ask(there, [request_]) == asking.ask(here, [request_])


def test_the_kind_and_a_wrong_one_are_known_before_weights_are_fetched(served):
    assert hub.kind_of("tiny/bert", CPU) == "masked"
    assert load("tiny/gpt2", CPU).kind == "causal"
    assert "leave out 'causal:'" in refused("causal:tiny/bert")
    assert served
    assert not any("safetensors" in line for line in served)


def test_a_model_whose_kind_is_not_said_is_looked_up_once(served):
    load("tiny/gpt2", CPU)
    assert sum("/revision/" in line for line in served) == 1
    assert len(served) == len(set(served))


def test_what_was_fetched_once_is_there_offline(served, checkpoint):
    first = asking.ask(load("tiny/gpt2", CPU), [CONTINUATION])
    before = len(served)
    again = load("tiny/gpt2", LoadOptions(device="cpu", offline=True))
    assert again.identity().revision == hub_server.COMMIT
    assert asking.ask(again, [CONTINUATION]) == first
    assert len(served) == before, "offline asks nobody"


def test_a_pickled_hub_model_is_fetched_too(checkpoint, copy, tmp_path, monkeypatch):
    folder = copy()
    torch.save(transformers.GPT2LMHeadModel.from_pretrained(folder).state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with hub_server.hub({"tiny/old": folder}) as (address, _):
        hub_server.point(monkeypatch, tmp_path / "cache", address)
        found = asking.ask(load("tiny/old", CPU), [CONTINUATION])
    usual = asking.ask(load(str(checkpoint("GPT2LMHeadModel")), CPU), [CONTINUATION])
    assert asking.apart(found, usual) < 1e-6


@pytest.mark.parametrize(
    ("status", "said"),
    [(404, "the Hub has none of that name"), (401, "the Hub has none of that name"), (403, "accept its terms")],
)
def test_a_model_that_the_hub_does_not_give_is_refused(tmp_path, monkeypatch, status, said):
    with hub_server.hub(status=status) as (address, _):
        hub_server.point(monkeypatch, tmp_path / "cache", address)
        message = refused("tiny/none")
    assert message.startswith("model 'tiny/none' is not a folder here, and")
    assert said in message


def test_a_reference_that_can_be_no_hub_id_is_refused(served):
    for ref in ("a/b/c", "no such model", "../nowhere"):
        assert "not a Hub id (OWNER/NAME)" in refused(ref)
    assert served == []


def test_a_hub_that_is_down_is_an_input_error(tmp_path, monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        hub_server.point(monkeypatch, tmp_path / "cache", f"http://127.0.0.1:{closed.getsockname()[1]}")
        assert "the Hub cannot be reached" in refused("tiny/gpt2")


def test_offline_without_the_model_is_an_input_error(served, monkeypatch):
    assert "it is not in the Hub cache" in refused("tiny/gpt2", options=LoadOptions(device="cpu", offline=True))
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "it is not in the Hub cache" in refused("tiny/gpt2")
    assert served == []


# --- revisions


@pytest.fixture
def revised(checkpoint, tmp_path, monkeypatch):
    """A Hub with one model in two revisions, and a branch whose name holds a slash; yields its requests so far."""
    revisions = {"main": "GPT2LMHeadModel", "step1000": "OPTForCausalLM", "refs/pr/1": "GPT2LMHeadModel"}
    served = {"tiny/model": {name: checkpoint(architecture) for name, architecture in revisions.items()}}
    with hub_server.hub(served) as (address, asked):
        hub_server.point(monkeypatch, tmp_path / "cache", address)
        yield asked


@pytest.mark.parametrize(
    ("ref", "revision", "architecture"),
    [
        ("tiny/model", "main", "GPT2LMHeadModel"),
        ("tiny/model@step1000", "step1000", "OPTForCausalLM"),
        ("causal:tiny/model@step1000", "step1000", "OPTForCausalLM"),
        ("tiny/model@refs/pr/1", "refs/pr/1", "GPT2LMHeadModel"),
        (f"tiny/model@{hub_server.commit('step1000')}", "step1000", "OPTForCausalLM"),
    ],
)
def test_a_revision_is_the_one_that_answers(revised, checkpoint, ref, revision, architecture):
    there, here = load(ref, CPU), load(str(checkpoint(architecture)), CPU)
    who = there.identity()
    assert (who.ref, who.revision) == (ref.removeprefix("causal:"), hub_server.commit(revision))
    assert who.fingerprint == here.identity().fingerprint
    assert asking.ask(there, [CONTINUATION]) == asking.ask(here, [CONTINUATION])
    assert slug(ref) == ref.replace(":", "-").replace("/", "-").replace("@", "-")


def test_a_revision_that_was_fetched_is_there_offline_and_another_is_not(revised):
    offline = LoadOptions(device="cpu", offline=True)
    first = asking.ask(load("tiny/model@step1000", CPU), [CONTINUATION])
    before = len(revised)
    assert asking.ask(load("tiny/model@step1000", offline), [CONTINUATION]) == first
    assert "revision 'main' is not in the Hub cache" in refused("tiny/model@main", options=offline)
    assert len(revised) == before


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("tiny/model@step9", "the Hub has no revision 'step9' of it"),
        ("causal:tiny/model@step9", "the Hub has no revision 'step9' of it"),
        ("tiny/model@", "no revision after the @"),
        ("tiny/none@step1000", "the Hub has none of that name"),
        ("@main", "not a Hub id"),
        ("demo@main", "demo has one revision"),
        ("causal:demo@x", "demo has one revision"),
        ("masked:smollm2-135m@1", "smollm2-135m has one revision"),
    ],
)
def test_a_revision_that_is_not_there_is_refused(revised, ref, said):
    assert said in refused(ref)


def test_a_folder_has_no_revisions_and_may_have_an_at_in_its_name(revised, copy):
    folder = copy()
    assert "is a local folder, which has no revisions" in refused(f"{folder}@step1000")
    assert "is a local folder, which has no revisions" in refused(f"{folder}@")
    named = folder.rename(folder.with_name("model@step1000"))
    who = load(str(named), CPU).identity()
    assert (who.ref, who.revision) == (str(named), None)
    assert "is a local folder, which has no revisions" in refused(f"{named}@main")
    assert revised == []
