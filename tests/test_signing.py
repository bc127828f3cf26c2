"""Models that travel: signed where they are made, refused where another signature was
asked for.
"""

import shutil
from pathlib import Path

import pytest
from commands import screen
from faults.amounts import examples
from faults.desk import train
from flow_cohorts import patients, written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from screening import load_model
from screening.errors import ModelError
from screening.store.signing import SIGNATURE, private_key, public_key

forms = pytest.importorskip("cryptography.hazmat.primitives.serialization")
ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")
ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")

FEWER = ("--max-flag-rate", "0.2", "--reason", "fewer")


def pem(path: Path, key, secret=forms.NoEncryption()) -> Path:  # noqa: B008
    path.write_bytes(
        key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, secret)
    )
    path.chmod(0o600)
    return path


def public_pem(path: Path, key) -> Path:
    path.write_bytes(
        key.public_key().public_bytes(
            forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return path


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("desk")
    written(patients(120), folder / "past.csv").chmod(0o600)
    written(patients(40, seed=7), folder / "tonight.csv")
    for name in ("ours", "theirs"):
        key = ed25519.Ed25519PrivateKey.generate()
        pem(folder / f"{name}.pem", key)
        public_pem(folder / f"{name}.pub", key).chmod(0o600)
    key = folder / "ours.pem"
    screen(*train(folder, "--out", folder / "signed", "--sign", key))
    screen(*train(folder, "--out", folder / "unsigned"))
    return folder


@pytest.fixture
def model(desk, tmp_path):
    return Path(shutil.copytree(desk / "signed", tmp_path / "model"))


def scored(desk, model, pub="ours.pub", code=0):
    where = ("--out", model.parent / "run", "--require-signature", desk / pub)
    answer = screen("score", model, desk / "tonight.csv", *where, code=code)
    return answer.stderr


@pytest.mark.parametrize(
    ("name", "pub"),
    [
        ("unsigned", "ours.pub"),
        ("signed", "theirs.pub"),
    ],
)
def test_unsigned_model(desk, tmp_path, name, pub):
    """A model without our signature is refused and nothing is written.

    A signature changes no other byte of the model.
    """
    for file in ("model.json", "arrays.npz", "validation.parquet", "report.html"):
        assert (desk / "signed" / file).read_bytes() == (
            desk / "unsigned" / file
        ).read_bytes()
    model = shutil.copytree(desk / name, tmp_path / "model")
    assert "sign" in scored(desk, model, pub, code=4)
    assert not (tmp_path / "run").exists()


def test_another_threshold_drops_or_renews_the_signature_and_says_so(desk, model):
    screen("threshold", model, *FEWER, "--sign", desk / "theirs.pem")
    shutil.copy(desk / "signed" / SIGNATURE, model / SIGNATURE)
    assert "belongs to another model" in scored(desk, model, code=4)

    renewed = screen("threshold", model, *FEWER, "--sign", desk / "ours.pem")
    assert "was signed" not in renewed.stderr
    scored(desk, model)
    dropped = screen("threshold", model, *FEWER)
    assert "the model was signed" in dropped.stderr
    assert not (model / SIGNATURE).exists()
    scored(desk, model, code=4)


def test_train_in_place_of_signed_model(desk, model):
    """Training anew in the place of a signed model drops the signature and says so."""
    trained = screen(*train(desk, "--out", model))

    assert "the model was signed" in trained.stderr
    assert not (model / SIGNATURE).exists()
    scored(desk, model, code=4)


@pytest.mark.repeated
@settings(
    max_examples=examples(20, 60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    content=st.binary(max_size=200)
    | st.text("0123456789abcdef", min_size=128, max_size=128).map(str.encode)
)
def test_no_made_up_signature_is_taken(desk, model, content):
    """And an endless one is not read."""
    (model / SIGNATURE).write_bytes(content)
    with pytest.raises(ModelError):
        load_model(model, public_key(desk / "ours.pub"))
    (model / SIGNATURE).write_bytes(b"0" * 5000)
    with pytest.raises(ModelError, match="5000 bytes"):
        load_model(model, public_key(desk / "ours.pub"))


@pytest.mark.parametrize("name", ["absent.pem", "past.csv", "ours.pub"])
def test_what_is_no_signing_key_is_refused_before_anything_is_trained(
    desk, tmp_path, name
):
    words = train(desk, "--out", tmp_path / "model", "--sign", desk / name)
    said = screen(*words, code=2).stderr
    assert name in said
    assert list(tmp_path.iterdir()) == []


def test_unfit_signing_keys(tmp_path):
    """Keys of another kind with a password or open to others are refused."""
    ours = ed25519.Ed25519PrivateKey.generate()
    other = ec.generate_private_key(ec.SECP256R1())
    bare = pem(tmp_path / "bare", ours)
    bare.chmod(0o640)
    wrong = {
        pem(
            tmp_path / "locked", ours, forms.BestAvailableEncryption(b"secret")
        ): "not an Ed25519 key",
        pem(tmp_path / "other", other): "not an Ed25519",
        bare: "chmod 600",
    }

    for path, words in wrong.items():
        with pytest.raises(Exception, match=words):
            private_key(path)
    with pytest.raises(Exception, match="not a public Ed25519 key"):
        public_key(public_pem(tmp_path / "other.pub", other))
