"""The table of features once more, slow and without DuckDB, from a long table.

Written from what docs/features.md promises, row by row in Python: it shares no code
with `screening.features` but the factors of units.
"""

import datetime
import math
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pandas as pd

from screening.features.spec import Feature
from screening.features.units import conversion

WITHDRAWN = "entered-in-error"
ONE_HOUR = datetime.timedelta(hours=1)
LONG_AGO = datetime.datetime(1, 1, 1)


def reference_night(events: pd.DataFrame, spec: Path, date: str) -> pd.DataFrame:
    """Return the table of a night, from events as `EVENT_COLUMNS` has them.

    Times are in UTC. A feature of the spec has `codes`, `window` and `take`.
    """
    settings = tomllib.loads(spec.read_text(encoding="utf-8"))
    rows = _night(list(_lines(events)), settings, datetime.date.fromisoformat(date))
    names = ["id", "group", "time", *settings["features"]]
    return pd.DataFrame(rows, columns=names)


def reference_past(
    events: pd.DataFrame, spec: Path, first: str, last: str
) -> pd.DataFrame:
    """Return the table of the past: of each stay the first night that it is in."""
    settings = tomllib.loads(spec.read_text(encoding="utf-8"))
    lines = list(_lines(events))
    rows: dict[str, dict] = {}
    for night in pd.date_range(first, last):
        for row in _night(lines, settings, night.date()):
            rows.setdefault(row["id"], row)
    everything = _seen(lines, datetime.datetime.max)
    survivors = {
        line.subject: person for person, own in everything.items() for line in own
    }
    kept = []
    for row in rows.values():
        row["group"] = survivors.get(row["group"], row["group"])
        row["label"] = _label(row, settings["outcome"], everything)
        if row["label"] is not None:
            kept.append(row)
    names = ["id", "group", "time", *settings["features"], "label"]
    kept.sort(key=lambda row: (row["time"], row["id"]))
    return pd.DataFrame(kept, columns=names)


def _label(row: dict, outcome: dict, everything: dict) -> int | None:
    """Return 1 for a case, 0 for none, None for what is left out."""
    at = row["time"].tz_convert(None).to_pydatetime()
    end = at + _hours(outcome["within"])
    own = everything[row["group"]]
    mine = [line for line in own if line.stay == row["id"]]
    admission = min(line.time for line in mine if line.code == "ADMISSION")
    later = [
        line.time for line in own if line.code == "ADMISSION" and line.time > admission
    ]
    until = min(later, default=datetime.datetime.max)
    events = [
        line.time
        for line in own
        if _matches(line, outcome["codes"]) and admission <= line.time < until
    ]
    if any(time < at for time in events):
        return None
    if any(at <= time <= end for time in events):
        return 1
    is_censored = any(
        line.time < end
        for line in own
        if (line.code == "DISCHARGE" and line.stay == row["id"]) or line.code == "DEATH"
    )
    reserved = ("ADMISSION", "TRANSFER", "DISCHARGE", "BIRTH", "SEX", "DEATH", "MERGED")
    complete = max(
        line.time
        for seen in everything.values()
        for line in seen
        if line.code in reserved or _matches(line, outcome["codes"])
    )
    return None if is_censored or end > complete else 0


def _night(lines: list, settings: dict, day: datetime.date) -> list[dict]:
    zone = ZoneInfo(settings["zone"])
    hour = datetime.time.fromisoformat(settings["hour"])
    at = _instant(datetime.datetime.combine(day, hour), zone)
    yesterday = day - datetime.timedelta(days=1)
    before = _instant(datetime.datetime.combine(yesterday, hour), zone)
    now = _seen(lines, at)
    earlier = _seen(lines, before)
    codes = settings.get("outcome", {"codes": []})["codes"]
    by_subject: dict[str, list] = {}
    for seen in earlier.values():
        for line in seen:
            by_subject.setdefault(line.subject, []).append(line)
    rows = []
    for person, own in now.items():
        people = {line.subject for line in own} | {person}
        # A merge that was not known then gives the survivor what the other had.
        past = [line for subject in people for line in by_subject.get(subject, ())]
        for stay in _open_stays(person, own):
            is_over_risk = any(
                line.time >= stay.admission and _matches(line, codes) for line in own
            )
            if not is_over_risk and _is_in(stay, settings.get("stays", {}), at, zone):
                rows.append(_row(stay, settings, (own, at), (past, before), zone))
    return sorted(rows, key=lambda row: row["id"])


def _matches(line: SimpleNamespace, codes: str | list[str]) -> bool:
    """Return True for a line with one of the codes; `X*` is what begins with X."""
    patterns = [codes] if isinstance(codes, str) else codes
    return any(
        line.code.startswith(pattern[:-1])
        if pattern.endswith("*")
        else line.code == pattern
        for pattern in patterns
    )


def _instant(local: datetime.datetime, zone: ZoneInfo) -> datetime.datetime:
    """Return a local time in UTC, without zone."""
    return local.replace(tzinfo=zone).astimezone(datetime.UTC).replace(tzinfo=None)


def _lines(events: pd.DataFrame) -> Iterator[SimpleNamespace]:
    for row in events.itertuples(index=False):
        cells = {
            name: None if pd.isna(value) else value
            for name, value in row._asdict().items()
        }
        for name in ("time", "known_since"):
            cells[name] = cells[name] and cells[name].to_pydatetime()
        cells["known"] = cells["known_since"] or cells["time"] or LONG_AGO
        cells["time"] = cells["time"] or LONG_AGO
        yield SimpleNamespace(**cells)


def _seen(lines: list, at: datetime.datetime) -> dict[str, list]:
    """Return the lines that count at an hour, by the person that they are of.

    Of each result it is the version known last.
    """
    results: dict[tuple, list] = {}
    for line in lines:
        if line.time <= at and line.known <= at:
            key = (line.subject, line.stay, line.code, line.time)
            results.setdefault(key, []).append(line)
    seen = []
    for versions in results.values():
        newest = max(line.known for line in versions)
        once = {
            (line.value, line.unit, line.text): line
            for line in versions
            if line.known == newest and line.text != WITHDRAWN
        }
        seen.extend(once.values())
    survivors = {line.subject: line.text for line in seen if line.code == "MERGED"}
    people: dict[str, list] = {}
    for line in seen:
        person = line.subject
        while person in survivors:
            person = survivors[person]
        people.setdefault(person, []).append(line)
    return people


def _open_stays(person: str, own: list) -> Iterator[SimpleNamespace]:
    """Yield a person's stays without a discharge, with their facts, but of the dead."""
    if any(line.code == "DEATH" for line in own):
        return
    over = {line.stay for line in own if line.code == "DISCHARGE"}
    births = [(line.known, line.time) for line in own if line.code == "BIRTH"]
    sexes = [(line.time, line.known, line.text) for line in own if line.code == "SEX"]
    admitted = {line.stay for line in own if line.code == "ADMISSION"}
    for stay in sorted(admitted - over):
        moves = [line for line in own if line.stay == stay]
        wards = [
            (line.time, line.known, line.text)
            for line in moves
            if line.code in ("ADMISSION", "TRANSFER") and line.text is not None
        ]
        yield SimpleNamespace(
            id=stay,
            person=person,
            admission=min(line.time for line in moves if line.code == "ADMISSION"),
            ward=max(wards)[2] if wards else None,
            birth=max(births)[1] if births else None,
            sex=max(sexes)[2] if sexes else None,
        )


def _age(stay: SimpleNamespace, at: datetime.datetime, zone: ZoneInfo) -> int | None:
    """Return whole years on the calendar of the zone."""
    if stay.birth is None:
        return None
    born, today = (
        time.replace(tzinfo=datetime.UTC).astimezone(zone).date()
        for time in (stay.birth, at)
    )
    return today.year - born.year - ((today.month, today.day) < (born.month, born.day))


def _is_in(
    stay: SimpleNamespace, wanted: dict, at: datetime.datetime, zone: ZoneInfo
) -> bool:
    least, _, most = wanted.get("age", "..").partition("..")
    age = _age(stay, at, zone)
    is_of_age = (not least or (age is not None and age >= int(least))) and (
        not most or (age is not None and age <= int(most))
    )
    is_of_ward = "wards" not in wanted or stay.ward in wanted["wards"]
    hours_in = _hours(wanted.get("hours_in", "0h"))
    return is_of_age and is_of_ward and (at - stay.admission) >= hours_in


def _hours(window: str) -> datetime.timedelta:
    number = float(window[:-1])
    return {"h": ONE_HOUR, "d": 24 * ONE_HOUR}[window[-1]] * number


def _row(
    stay: SimpleNamespace, settings: dict, now: tuple, before: tuple, zone: ZoneInfo
) -> dict:
    at = now[1]
    cells = {
        "id": stay.id,
        "group": stay.person,
        "time": pd.Timestamp(at, tz="UTC"),
    }
    static = {
        "age": _age(stay, at, zone),
        "sex": stay.sex,
        "ward": stay.ward,
        "days_in_hospital": (at - stay.admission) / datetime.timedelta(days=1),
    }
    for name, feature in settings["features"].items():
        if isinstance(feature, str):
            cells[name] = static[feature]
        elif feature["take"] == "change":
            last = {**feature, "take": "last"}
            ends = [
                _taken(last, _picked(name, last, stay, *hour), hour[1])
                for hour in (now, before)
            ]
            cells[name] = None if None in ends else ends[0] - ends[1]
        else:
            cells[name] = _taken(feature, _picked(name, feature, stay, *now), at)
    return cells


def _picked(
    name: str,
    feature: dict,
    stay: SimpleNamespace,
    seen: list,
    at: datetime.datetime,
) -> list:
    """Return the lines in a feature's window, with values in its unit."""
    picked = []
    for line in seen:
        if feature["window"] == "stay":
            is_in = line.time >= stay.admission
        else:
            is_in = line.time > at - _hours(feature["window"])
        if is_in and _matches(line, feature["codes"]):
            value = _converted(name, feature, line)
            picked.append(
                SimpleNamespace(
                    time=line.time, known=line.known, value=value, text=line.text
                )
            )
    return picked


@cache
def _factors(name: str, unit: str, met: str | None) -> tuple[float, float] | None:
    feature = Feature(codes=name, window="24h", take="last", unit=unit)
    return conversion(feature, name, met)


def _converted(name, feature, line) -> float | None:
    if line.value is None or "unit" not in feature:
        return line.value
    factors = _factors(name, feature["unit"], line.unit)
    if factors is None:
        return None
    factor, shift = factors
    return line.value * factor + shift


def _taken(feature: dict, picked: list, at: datetime.datetime) -> object:
    take = feature["take"]
    content = "text" if feature.get("text") else "value"
    order = [
        (line.time, line.known, getattr(line, content))
        for line in picked
        if getattr(line, content) is not None
    ]
    values = sorted(line.value for line in picked if line.value is not None)
    if take == "count":
        return len(picked)
    if take == "any":
        return bool(picked)
    if take == "hours_since":
        newest = max((line.time for line in picked), default=None)
        return None if newest is None else (at - newest) / ONE_HOUR
    if not order:
        return None
    if take in ("last", "first"):
        return (max if take == "last" else min)(order)[2]
    if take == "slope":
        return _slope(order, at)
    total = math.fsum(values)
    return {
        "min": values[0],
        "max": values[-1],
        "sum": total,
        "mean": total / len(values),
    }[take]


def _slope(order: list, at: datetime.datetime) -> float | None:
    """Return the slope of least squares in units an hour."""
    points = sorted(((time - at) / ONE_HOUR, value) for time, _, value in order)
    if len({x for x, _ in points}) < 2:
        return None
    n = len(points)
    sum_x = math.fsum([x for x, _ in points])
    sum_y = math.fsum([y for _, y in points])
    sum_xx = math.fsum([x * x for x, _ in points])
    sum_xy = math.fsum([x * y for x, y in points])
    return (n * sum_xy - sum_x * sum_y) / (n * sum_xx - sum_x * sum_x)
