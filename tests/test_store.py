"""A model directory is whole, private, exact, and refused once a byte has changed or of
an old format.
"""

import io
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa
from flow_cohorts import columns_of
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from written_files import read_json

from screening import (
    build,
    load_model,
    load_recipe,
    open_ledger,
    read_cohort,
    save_model,
)
from screening.data.encoding import Encoder
from screening.errors import ModelError
from screening.estimators.ensembles import FoldEnsemble
from screening.ledger.database import SETTINGS
from screening.recipes.building import list_recipes
from screening.store import arrays as stored_arrays
from screening.store.arrays import pack, unpack
from screening.store.model import Model
from screening.store.serialization import canonical, read_document

# A method whose state is no array is offered for comparison only; test_blend stores
# blends, and test_given_scores what has columns of its own.
RECIPES = [
    each for each in list_recipes() if each.persistable and not each.missing_requirement
]
NOT_HERE = ("blend", "given", "points")
STORED = [each.name for each in RECIPES if each.machine not in NOT_HERE]
# Rows of two folds' machines: half of them are in both.
FOLDS = (slice(0, 45), slice(15, 60))
NEW = np.random.default_rng(5).normal(size=(30, 2))
NAMES = ("model.json", "arrays.npz", "validation.parquet")


def make_model(name: str, document: dict) -> Model:
    """A small model of a recipe: two machines, trained on made-up rows that they share
    in part.

    `document`: of a trained model, for what no machine depends on.
    """
    x = np.random.default_rng(3).normal(size=(60, 2))
    recipe = load_recipe(name)
    classes = {"multi_class": ["a", "b", "c"]}.get(recipe.machine, ["no", "yes"])
    target = (x[:, 0] > 0).astype(int)
    if len(classes) > 2:
        target += x[:, 1] > 0.5
    label = np.array(classes)[target]
    table = pd.DataFrame(
        {
            "id": [f"{i:04}" for i in range(60)],
            "u": x[:, 0],
            "v": x[:, 1],
            "y": label,
        }
    )
    cohort = read_cohort(
        table,
        id="id",
        label="y",
        positive=classes[1],
        need_label=True,
    )
    encoder = Encoder(cohort.contract.features).fit(cohort.values)
    encoded = encoder.transform(cohort.values)
    machines = []
    for rows in FOLDS:
        machines.append(build(recipe).fit(encoded[rows], target[rows]))
    kind, n_outputs = {2: ("binary", 1), 3: ("multi", 3)}[len(classes)]
    document = document | {
        "recipe": document["recipe"]
        | {"name": name, "text": recipe.text, "parameters": recipe.parameters},
        "contract": cohort.contract.to_dict(),
        "task": document["task"]
        | {"kind": kind, "classes": classes, "watched": [classes[1]]},
        "operating_points": [document["operating_points"][0] | {"class": classes[1]}],
    }
    return Model(
        document=document,
        recipe=recipe,
        contract=cohort.contract,
        encoder=encoder,
        ensemble=FoldEnsemble(machines, recipe.machine, n_outputs),
        calibration=np.linspace(-1, 1, 9),
        held_out=columns_of(
            pd.DataFrame({"id": cohort.id, "fold": 0, "label": label, "score": x[:, 0]})
        ),
        selftest=encoded[:8],
    )


@pytest.fixture(scope="module")
def document(cohort, trained):
    return trained(cohort, "svm_weighted", search=1).document


@pytest.fixture(scope="module")
def model(document):
    return make_model("svm", document)


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    return save_model(
        model, tmp_path_factory.mktemp("models") / "m", lambda _: "<p>page</p>"
    )


@pytest.mark.parametrize("name", STORED)
def test_a_loaded_model_scores_bit_for_bit_as_the_one_that_was_saved(
    name, document, tmp_path
):
    model = make_model(name, document)
    loaded = load_model(save_model(model, tmp_path / "m"))
    assert loaded.digest == model.digest
    scores = model.scores(NEW)
    assert np.array_equal(loaded.scores(NEW), scores)
    assert np.array_equal(loaded.calibration, model.calibration)
    assert loaded.validation.equals(model.validation)


def test_a_new_process_gives_the_same_bits(model, saved):
    """The held-out table has the same bytes with any pandas; only the owner can read it
    all.
    """
    code = (
        "import sys, numpy as np; from screening import load_model;"
        "x = np.random.default_rng(5).normal(size=(30, 2));"
        "sys.stdout.write(load_model(sys.argv[1]).scores(x).tobytes().hex())"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, saved],
        capture_output=True,
        text=True,
        check=True,
    )
    table = pd.read_parquet(io.BytesIO(model.table_bytes))

    assert answer.stdout == model.scores(NEW).tobytes().hex()
    assert b"pandas" not in model.table_bytes
    assert table.astype(model.validation.dtypes).equals(model.validation)
    assert stat.S_IMODE(saved.stat().st_mode) == 0o700
    modes = {stat.S_IMODE(path.stat().st_mode) for path in saved.iterdir()}
    assert modes == {0o600}


@given(st.data())
def test_any_flipped_byte_or_missing_file_is_refused(saved, tmp_path_factory, data):
    name = data.draw(st.sampled_from(NAMES))
    content = bytearray((saved / name).read_bytes())
    last = len(content) - 1
    place = data.draw(st.integers(0, last))
    content[place] ^= data.draw(st.integers(1, 255))
    folder = tmp_path_factory.mktemp("flipped")
    for file in {*NAMES} - {name}:
        (folder / file).write_bytes((saved / file).read_bytes())

    with pytest.raises(ModelError, match=name.replace(".", r"\.")):
        load_model(folder)
    (folder / name).write_bytes(content)
    with pytest.raises(ModelError) as refused:
        load_model(folder)
    words = str(refused.value)
    assert name in words
    assert "from a backup" in words or "update screening" in words


def test_selftest_other_scores(model, saved, tmp_path):
    """A machine that scores otherwise than when it was trained is refused.

    And a newer format, with the remedy.
    """
    forged = replace(model)
    arrays = unpack(model.array_bytes)
    forged.__dict__["array_bytes"] = pack(
        arrays | {"selftest/score": arrays["selftest/score"] + 0.01}
    )
    save_model(forged, tmp_path / "m")
    document = read_json(saved / "model.json")
    document["format_version"] = 2
    (tmp_path / "model.json").write_bytes(canonical(document))

    with pytest.raises(ModelError, match="self-test"):
        load_model(tmp_path / "m")
    with pytest.raises(ModelError, match="update screening"):
        load_model(tmp_path)


def test_arrays_refused():
    """Arrays with objects or without finite values are never written.

    Others are compressed, and come back as they were.
    """
    arrays = {
        "a": np.zeros(100_000),
        "b": np.eye(2, 3),
        "c": np.array("x"),
        "d": np.ones((0, 2)),
    }
    content = pack(arrays)

    assert len(content) < 5000
    for name, value in unpack(content).items():
        assert_array_equal(value, arrays[name], strict=True)
    objects = np.array([{}], dtype=object)
    with pytest.raises(ValueError, match="Object arrays"):
        pack({"a": objects})
    with pytest.raises(ValueError, match="finite"):
        pack({"a": np.array([np.nan])})


def test_arrays_that_unpack_to_more_than_the_limit_are_refused(monkeypatch):
    """The limit is of what is unpacked: a small file may hold large arrays."""
    content = pack({"a": np.zeros(100_000)})
    monkeypatch.setattr(stored_arrays, "MAX_UNPACKED_BYTES", 900_000)
    assert len(unpack(content)["a"]) == 100_000
    monkeypatch.setattr(stored_arrays, "MAX_UNPACKED_BYTES", 800_000)

    with pytest.raises(ModelError, match=r"unpacks to 800,128 bytes.*from a backup"):
        unpack(content)


def test_a_pickle_in_the_place_of_an_array_is_refused_and_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "sprung",))

    trapped = np.array([Trap()], dtype=object)
    np.savez(tmp_path / "arrays.npz", a=trapped)

    with pytest.raises(ModelError):
        unpack((tmp_path / "arrays.npz").read_bytes())
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("kind", ["model", "run"])
def test_a_model_or_run_of_before_is_refused_with_what_to_do(kind, tmp_path):
    (tmp_path / f"{kind}.json").write_bytes(canonical({"format": 4}))
    with pytest.raises(
        ModelError, match="was made by a version before the first release; "
    ):
        read_document(tmp_path, kind)


@pytest.mark.parametrize("how", [{"make": True}, {"read_only": True}])
def test_a_ledger_of_before_is_refused_and_left_as_it_is(place, how):
    older = SETTINGS.update().values(name="format", value="2")
    with open_ledger(place, make=True) as ledger, ledger.writing() as connection:
        connection.execute(older)
    engine = sa.create_engine(place if "://" in place else f"sqlite:///{place}")

    with pytest.raises(
        ModelError, match="made by a version before the first release; create a new one"
    ):
        open_ledger(place, **how)
    with engine.connect() as connection:
        stored = connection.execute(sa.select(SETTINGS)).all()
        assert stored == [("format", "2")]
    engine.dispose()
