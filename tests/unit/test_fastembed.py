"""Models on this machine through fastembed: for real where it is installed, else by a stand-in.

The stand-in is a package of that name in a folder. It has the few names that plait uses, with the
signatures and failures of fastembed 0.9, so that the suite needs no download and no onnxruntime.
"""

import json
import struct
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from plait.embedders import EmbedderOptions, fastembed, open_embedder
from plait.embedders.fastembed import FASTEMBED_MODEL, Fastembed, pull
from plait.errors import ConfigError, EmbedderError, advise
from plait.testing import cosine
from plait.types import Space
from tests.codes import has_code

HAS_FASTEMBED = find_spec("fastembed") is not None
STATIC = "minishlab/potion-base-8M"
NAMES = ("fastembed", "huggingface_hub", "loguru")

FASTEMBED = """
import os, warnings
from loguru import logger
asked = []
class Row(list):
    def tolist(self):
        return list(self)
class TextEmbedding:
    @classmethod
    def list_supported_models(cls):
        return [
            {"model": name, "sources": {"hf": "Qdrant/" + name.rpartition("/")[2]},
             "model_file": "model.onnx", "additional_files": ["model.onnx_data"], "dim": 384}
            for name in ("DEFAULT", "intfloat/multilingual-e5-large")
        ]
    def __init__(self, model_name, cache_dir=None, *, local_files_only=False):
        assert local_files_only
        warnings.warn("the pooling of this model has changed", UserWarning)
        known = [each["model"].lower() for each in self.list_supported_models()]
        if model_name.lower() not in known:
            raise ValueError("not supported")
        state = os.path.join(cache_dir or "", "state")
        if not os.path.exists(state):
            logger.error("Could not find model in cache_dir")
            raise ValueError("Could not load model from any source.")
        with open(state, encoding="utf-8") as file:
            self.state = file.read()
        if self.state == "damaged":
            raise RuntimeError("Protobuf parsing failed")
    def embed(self, documents, batch_size=256):
        asked.append((list(documents), batch_size))
        for text in documents[1 if self.state == "forgetful" else 0:]:
            value = {"zero": 0.0, "nan": float("nan")}.get(self.state, float(len(text)))
            yield Row([value] + [0.0] * 383)
""".replace("DEFAULT", FASTEMBED_MODEL)
HUB = """
import os
asked = []
def snapshot_download(repo_id, *, allow_patterns, cache_dir):
    asked.append((repo_id, allow_patterns, cache_dir))
    if os.path.exists(os.path.join(cache_dir, "offline")):
        raise ConnectionError("Name or service not known")
    with open(os.path.join(cache_dir, "state"), "w", encoding="utf-8") as file:
        file.write("fine")
"""
BARS = """
shown = []
def enable_progress_bars(): shown.append(True)
def disable_progress_bars(): shown.append(False)
"""
LOGURU = """
import sys
class Logger:
    off = ()
    def disable(self, name): self.off += (name,)
    def error(self, words): "fastembed" in self.off or sys.stderr.write(words)
logger = Logger()
"""


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.partition(".")[0] in NAMES:
            monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The stand-in, and an empty folder for models."""
    for path, text in (
        ("fastembed.py", FASTEMBED),
        ("huggingface_hub/__init__.py", HUB),
        ("huggingface_hub/utils.py", BARS),
        ("loguru.py", LOGURU),
    ):
        file = tmp_path / "packages" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    forget(monkeypatch)
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    folder = tmp_path / "models"
    folder.mkdir()
    yield folder
    # What the stand-in left in the table of modules must not be anybody else's fastembed.
    for name in [*sys.modules]:
        if name.partition(".")[0] in NAMES:
            del sys.modules[name]


def has(folder: Path, state: str = "fine") -> str:
    (folder / "state").write_text(state, encoding="utf-8")
    return str(folder)


def test_without_the_package_the_install_command_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    for act in (lambda: open_embedder("fastembed"), lambda: pull(None, "")):
        with pytest.raises(
            ConfigError,
            check=has_code("not_installed", "fastembed", advise("install", extra="fastembed")),
        ):
            act()


def test_a_model_that_is_not_here_is_an_error_at_once_and_in_silence(
    models: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    embedder = Fastembed(folder=str(models))
    pull_it = advise("pull_model", model=FASTEMBED_MODEL)
    with pytest.raises(EmbedderError, check=has_code("model_missing", FASTEMBED_MODEL, pull_it)):
        embedder.embed(["text"], "passage")
    [finding] = embedder.check()
    assert finding.level == "error"
    assert capfd.readouterr() == ("", "")


def test_a_model_that_came_later_is_found(models: Path) -> None:
    embedder = Fastembed(folder=str(models))
    with pytest.raises(EmbedderError):
        embedder.embed(["text"], "passage")
    has(models)
    assert None not in embedder.embed(["text"], "passage")


def test_every_text_with_a_visible_character_gets_a_unit_vector(models: Path) -> None:
    embedder = open_embedder("fastembed", EmbedderOptions(folder=has(models)))
    assert embedder.dims == 384
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vectors = embedder.embed(["one", " ", "\ud800", ""], "query")
    assert [vector is None for vector in vectors] == [False, True, False, True]
    assert vectors[0] is not None
    assert cosine(vectors[0], vectors[0]) == pytest.approx(1.0)
    assert embedder.embed([], "query") == []
    assert embedder.embed([" "], "query") == [None]
    assert sys.modules["fastembed"].asked == [(["one", "?"], fastembed.BATCH)]


def test_the_prefix_is_added_and_is_part_of_the_space(models: Path) -> None:
    embedder = Fastembed("intfloat/multilingual-e5-large", folder=has(models))
    assert embedder.dims is None
    assert embedder.space == Space(
        "fastembed", "intfloat/multilingual-e5-large", 0, prefix="query: | passage: "
    )
    embedder.embed(["one"], "query")
    embedder.embed(["one"], "passage")
    assert embedder.space.dims == 384
    assert [texts for texts, _ in sys.modules["fastembed"].asked] == [
        ["query: one"],
        ["passage: one"],
    ]
    known = embedder.space
    assert Fastembed(known.model, known=known).dims == 384
    assert Fastembed(known.model, known=known._replace(model="x")).dims is None


@pytest.mark.parametrize(
    ("state", "code"),
    [("damaged", "model_unreadable"), ("nan", "bad_vector"), ("forgetful", "wrong_count")],
)
def test_a_broken_model_gives_no_vectors(models: Path, state: str, code: str) -> None:
    with pytest.raises(EmbedderError, check=has_code(code)):
        Fastembed(folder=has(models, state)).embed(["one", "two"], "passage")


def test_a_text_that_means_nothing_to_the_model_has_no_vector(models: Path) -> None:
    embedder = Fastembed(folder=has(models, "zero"))
    assert embedder.embed(["one", "two"], "passage") == [None, None]


def test_other_dimensions_than_asked_for_are_an_error(models: Path) -> None:
    with pytest.raises(EmbedderError, check=has_code("wrong_dims")):
        Fastembed(folder=has(models), dims=256).embed(["one"], "passage")


def test_an_unknown_model_is_refused_with_the_choices(models: Path) -> None:
    with pytest.raises(EmbedderError, match="MiniLM", check=has_code("unknown_model", "nonsense")):
        Fastembed("nonsense", folder=has(models)).embed(["text"], "passage")
    with pytest.raises(ConfigError, check=has_code("unknown_model", "nonsense")):
        pull("nonsense", str(models))


def test_doctor_is_told_that_the_model_is_here(models: Path) -> None:
    [finding] = Fastembed(folder=has(models)).check()
    assert (finding.level, finding.message) == ("ok", f"fastembed has {FASTEMBED_MODEL}")


@pytest.mark.parametrize("progress", [True, False])
def test_a_model_is_fetched_only_when_asked_for(models: Path, progress: bool) -> None:
    assert pull("INTFLOAT/multilingual-e5-large", str(models), progress=progress) == (
        "intfloat/multilingual-e5-large"
    )
    [(source, files, folder)] = sys.modules["huggingface_hub"].asked
    assert (source, folder) == ("Qdrant/multilingual-e5-large", str(models))
    assert {"tokenizer.json", "model.onnx", "model.onnx_data"} <= set(files)
    assert sys.modules["huggingface_hub.utils"].shown == [progress]
    embedder = Fastembed("intfloat/multilingual-e5-large", folder=str(models))
    assert None not in embedder.embed(["text"], "passage")


def test_a_download_that_fails_says_so(models: Path) -> None:
    (models / "offline").touch()
    with pytest.raises(
        EmbedderError, match="Name or service not known", check=has_code("download_failed")
    ):
        pull(None, str(models))


def test_the_words_of_a_model_made_for_search_weigh_less_than_of_the_default(models: Path) -> None:
    default, other = Fastembed(), Fastembed("intfloat/multilingual-e5-large")
    assert default.tuning.keyword_weight > other.tuning.keyword_weight
    assert default.tuning.external
    assert other.tuning.external


# -- the real thing ------------------------------------------------------------------------


def tiny_model(folder: Path) -> None:
    """A static model of four words, in the layout of the hub's cache."""
    words = ["[UNK]", "red", "blue", "sky"]
    home = folder / f"models--{STATIC.replace('/', '--')}"
    snapshot = home / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("0123abcd", encoding="utf-8")
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {
            "type": "WordLevel",
            "vocab": {word: number for number, word in enumerate(words)},
            "unk_token": "[UNK]",
        },
    }
    (snapshot / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (snapshot / "config.json").write_text("{}", encoding="utf-8")
    rows = [[float(number == column) for column in range(256)] for number in range(len(words))]
    data = b"".join(struct.pack("<256f", *row) for row in rows)
    tensor = {"dtype": "F32", "shape": [len(words), 256], "data_offsets": [0, len(data)]}
    header = json.dumps({"embeddings": tensor}).encode()
    file = struct.pack("<Q", len(header)) + header + data
    (snapshot / "model.safetensors").write_bytes(file)


@pytest.mark.skipif(not HAS_FASTEMBED, reason="fastembed is not installed")
@pytest.mark.filterwarnings("default")  # what its many packages warn of is theirs
def test_the_real_fastembed_loads_and_embeds_from_a_folder(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tiny_model(tmp_path)
    embedder = Fastembed(STATIC, folder=str(tmp_path))
    red, both, *silent = embedder.embed(["red", "blue red", " ", "unheard of"], "passage")
    assert silent == [None, None]
    assert red is not None
    assert both is not None
    assert embedder.dims == 256
    assert cosine(red, both) == pytest.approx(0.5**0.5)
    with pytest.raises(EmbedderError, check=has_code("model_missing")):
        Fastembed(folder=str(tmp_path)).embed(["red"], "query")
    with pytest.raises(EmbedderError, check=has_code("unknown_model")):
        Fastembed("nonsense", folder=str(tmp_path)).embed(["red"], "query")
    assert capfd.readouterr() == ("", "")
