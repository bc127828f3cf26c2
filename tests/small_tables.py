"""Tables of a few cells, written and read by a contract."""

from screening.contract.contract import Contract
from screening.data.reading import read_cohort

CONTRACT = Contract.from_dict(
    {
        "cohort": {"id": "id"},
        "features": {
            "age": {"type": "number", "plausible": [0, 120]},
            "ward": {"type": "category", "categories": ["A", "B"]},
            "sick": {"type": "boolean"},
            "stage": {"type": "ordinal", "categories": ["I", "II", "III"]},
        },
    }
)


HEADER = "id,age,ward,sick,stage"


GOOD = "00123,61,A,yes,II"


def written(folder, text, name="night.csv", encoding="utf-8"):
    path = folder / name
    if isinstance(text, str):
        text = text.encode(encoding)
    path.write_bytes(text)
    return path


def with_feature(**feature):
    return Contract.from_dict(
        {"cohort": {}, "features": {"x": {"type": "number"} | feature}}
    )


def column(folder, cells, **feature):
    """Values of a one-feature table whose second column keeps blank lines from being
    skipped.
    """
    lines = [f'"{cell}",-\n' for cell in cells]
    path = written(folder, "x,other\n" + "".join(lines))
    cohort = read_cohort(path, with_feature(**feature))
    return cohort.features["x"].tolist()
