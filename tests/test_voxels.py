"""Voxel runs: volumes, clusters and slices, held to coordinates that can be counted by
hand.
"""

import base64
import io

import numpy as np
import pandas as pd
import pytest
from flow_cohorts import written
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from image_folders import folder_of, nibabel
from numpy.random import default_rng
from PIL import Image
from report_fixture import voxel_run
from written_files import page_in, scores_in

from screening import read_cohort, score, train
from screening.imaging.neighbourhood import grid_index, grid_step
from screening.imaging.voxels import fullest_slices, largest_clusters, palette_png, ramp
from screening.report import draw_run
from screening.report.worklist import worklist
from screening.schemas.run import RunDocument, Slice, Volume, Voxels

ONES = np.ones(3)


def decoded(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Pixels and palette of a PNG."""
    with Image.open(io.BytesIO(content)) as picture:
        return np.asarray(picture), np.frombuffer(
            picture.palette.palette, np.uint8
        ).reshape(-1, 3)


@given(
    arrays(
        np.uint8,
        st.tuples(st.integers(1, 9), st.integers(1, 9)),
        elements=st.integers(0, 7),
    )
)
def test_a_picture_reads_back_pixel_by_pixel(pixels):
    palette = ramp([(0, 0, 0), (255, 128, 0)], 8)
    found, colours = decoded(palette_png(pixels, palette))
    assert np.array_equal(found, pixels)
    assert np.array_equal(colours, palette)


def test_the_largest_clusters_are_found_with_their_corners():
    block = np.argwhere(np.ones((3, 2, 2))).astype(float)
    diagonal = np.repeat([[10.0], [11.0], [12.0], [13.0]], 3, axis=1)
    places = np.concatenate([20.0 * np.eye(3), diagonal, block])
    scored = np.column_stack([places, np.arange(len(places))])
    n_clusters, clusters = largest_clusters(scored, ONES)
    far = np.array([(0.0, 0, 0, 0), (1e4, 1e4, 1e4, 0)])

    assert n_clusters == 5
    assert [cluster.voxels for cluster in clusters] == [12, 4, 1]
    assert clusters[0].low == [0, 0, 0]
    assert clusters[0].high == [2, 1, 1]
    assert clusters[1].centre == [11.5, 11.5, 11.5]
    assert clusters[0].top_score == len(places) - 1
    # Coordinates that span too much are not searched.
    assert largest_clusters(far, ONES)[0] is None
    assert largest_clusters(far[:0], ONES) == (0, [])


@given(st.integers(0, 10**6), st.floats(0.1, 7), st.floats(-500, 500))
def test_clusters_do_not_depend_on_the_order_the_spacing_or_the_origin(
    seed, spacing, origin
):
    rng = default_rng(seed)
    drawn = rng.integers(0, 6, (40, 3))
    places = np.unique(drawn, axis=0).astype(float)
    shuffled = rng.permutation(places) * spacing + origin
    unscored = np.zeros((len(places), 1))
    one = largest_clusters(np.hstack([places, unscored]), ONES)
    moved = np.hstack([shuffled, unscored])
    other = largest_clusters(moved, ONES * spacing)
    assert one[0] == other[0]
    assert [cluster.voxels for cluster in one[1]] == [
        cluster.voxels for cluster in other[1]
    ]


def test_steps_and_slices_are_those_of_the_grid():
    places = np.array([(1.0, 2.0, 3.0), (2.5, 2.0, 9.0)])
    step = np.array([1.5, 1.0, 3.0])
    planes = np.array([(0.0, 0, z) for z in [5, 5, 5, 1, 1, 9]])
    steps = np.array([3.0, 1.5, 0.0, 9.0])
    index = grid_index(places, step)
    assert grid_step(steps) == 1.5
    assert grid_step(np.array([4.0])) == 1.0
    assert index.tolist() == [
        [0, 0, 0],
        [1, 0, 2],
    ]
    assert fullest_slices(planes, 2) == [1.0, 5.0]


def large(n_patients: int, side: int, depth: int) -> pd.DataFrame:
    """Patients of side x side x depth voxels with a bright block in the middle
    slice.
    """
    rng = default_rng(0)
    grid = np.indices((side, side, depth))
    x, y, z = grid.reshape(3, -1)
    tables = []
    for number in range(n_patients):
        from_middle_x = abs(x - side // 2)
        from_middle_y = abs(y - side // 2)
        is_near = (from_middle_x < 9) & (from_middle_y < 6)
        lesion = is_near & (z == 1)
        noise = rng.normal(0, 0.3, (len(x), 2))
        values = noise + np.outer(lesion, [1.0, 2.0])
        t2, adc = values.T
        tables.append(
            pd.DataFrame(
                {"patient": f"P{number}", "x": x, "y": y, "z": z, "t2": t2, "adc": adc}
            )
        )
    return pd.concat(tables, ignore_index=True)


def test_run_volumes_and_slices(tissue_model, tmp_path):
    """A run tells volume clusters and pictures of the fullest slices in a small
    page.
    """
    night = large(3, 64, 3)
    run = score(
        tissue_model,
        written(night, tmp_path / "night.parquet"),
        tmp_path / "run",
        batch_rows=5000,
    )
    page = page_in(run.directory)
    found = run.document["voxels"]
    flags = scores_in(run.directory)["flagged"]
    first = found["patients"][0]
    chosen = first["slices"][0]
    is_group = night["patient"] == first["group"]
    here = is_group & (night["z"] == chosen["at"])
    pixels, palette = decoded(base64.b64decode(chosen["overlay"]))

    assert (
        sum(p["flagged"] for p in found["patients"])
        == run.document["counts"]["flagged"]
        > 0
    )
    in_clusters = sum(cluster["voxels"] for cluster in first["clusters"])
    assert in_clusters <= first["flagged"]
    assert chosen["flagged"] == flags[here].sum()
    is_marked = pixels == len(palette) - 1
    assert is_marked.sum() == chosen["flagged"]
    assert pixels.shape == (64, 64)
    assert len(page.encode()) < 2_000_000
    assert "img-src data:; " in page
    assert page.count("<img ") == page.count('alt="Patient') > 0
    assert '"overlay"' not in page


def test_wide_slice_drawn_coarser(tissue_model, tmp_path):
    """A slice wider than a page needs is drawn coarser and keeps its flags."""
    wide = large(1, 200, 2)
    wide.loc[wide["z"] == 0, ["t2", "adc"]] = -1.0
    run = score(
        tissue_model, written(wide, tmp_path / "night.parquet"), tmp_path / "run"
    )
    first, *_ = run.document["voxels"]["patients"]
    chosen = first["slices"][-1]
    pixels, palette = decoded(base64.b64decode(chosen["overlay"]))
    assert max(pixels.shape) <= 192
    assert (pixels == len(palette) - 1).any()


def block_of(*patients):
    grid = {
        "axes": list("xyz"),
        "step": [1, 1, 1],
        "base": None,
        "scale": None,
        "colours": {},
    }
    found = Voxels(**grid, patients_flagged=len(patients), patients=patients)
    return RunDocument.from_dict(voxel_run()).replace(voxels=found)


def test_what_is_no_picture_is_never_written_into_the_page():
    bad = Slice(
        at=1,
        voxels=4,
        flagged=1,
        width=2,
        height=2,
        overlay='x" onerror="alert(1)',
        heat="",
    )
    run = block_of(
        Volume(group="P1", voxels=4, flagged=1, slices=[bad], n_clusters=0, clusters=[])
    )
    page = draw_run(run)
    assert "onerror" not in page
    assert "<img" not in page


def test_two_patients_whose_names_look_alike_keep_their_own_volumes():
    names = ["P\n1", "P 1"]
    run = block_of(
        *(
            Volume(
                group=name, voxels=9, flagged=n, slices=[], n_clusters=0, clusters=[]
            )
            for n, name in enumerate(names, start=1)
        )
    )
    groups = [
        group.replace(group=name)
        for name, group in zip(names, run.groups, strict=False)
    ]
    part, *_ = worklist(run.replace(groups=groups), 3)["parts"]
    lines = part.lines
    assert [line.volume.flagged for line in lines] == [1, 2]


@pytest.mark.parametrize(
    "codes", ["RAS", "PIR"], ids=lambda codes: f"stored as {codes}"
)
def test_slices_axial_orientation(tmp_path, codes):
    """Slices are axial with the right on the left however the images are stored.

    A bright spot at the patient's right, front and top is drawn at the upper left of
    the top slice.
    """
    body = np.zeros((12, 10, 8))
    body[1:-1, 1:-1, 1:-1] = 1.0
    wanted = body.copy()
    wanted[9:11, 7:9, 5:7] = 50.0
    turn = nibabel.orientations.ornt_transform(
        nibabel.orientations.axcodes2ornt("RAS"),
        nibabel.orientations.axcodes2ornt(codes),
    )
    patients = {}
    for number in range(4):
        noise = default_rng(number).normal(0, 0.1, body.shape)
        volumes = {
            "t1": wanted * body + noise,
            "mask": body,
            "lesion": wanted > 1,
        }
        turned = {
            name: nibabel.orientations.apply_orientation(v.astype(np.float32), turn)
            for name, v in volumes.items()
        }
        patients[f"P{number}"] = turned
    affine = (
        nibabel.orientations.inv_ornt_aff(turn, body.shape)
        if codes != "RAS"
        else np.eye(4)
    )
    two_by_three = np.diag([2.0, 2, 3, 1])
    folder = folder_of(patients, tmp_path / "images", two_by_three @ affine)
    model = train(
        read_cohort(folder, label="lesion"),
        "logistic",
        search=1,
        jobs=1,
        folds=2,
        beside=(),
    )

    run = score(model, folder, tmp_path / "run")

    first = run.document["voxels"]["patients"][0]
    top = first["slices"][-1]
    pixels, palette = decoded(base64.b64decode(top["overlay"]))
    rows, columns = np.nonzero(pixels == len(palette) - 1)
    assert first["anatomical"]
    assert top["at"] == 6
    assert top["flagged"] == 4
    # Of 10 x 8 voxels inside the mask: one from the edge in front, none from the edge
    # at the right.
    assert sorted(set(rows)) == [0, 1]
    assert sorted(set(columns)) == [0, 1]
    page = page_in(run.directory)
    assert "axial slice 7 from below" in page
    assert ">R</b>" in page
    assert ">L</b>" in page
