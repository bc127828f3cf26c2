"""The synthetic ward census: patients in hospital for 48 hours or more, some with a
nosocomial infection.

Causes come first (who the patient is, what was done), then the infection, then its
signs (temperature, laboratory), then what was not measured. Signs other than
infection's raise the same laboratory values, as a recent operation raises CRP, and
steroids blunt fever: the classes overlap for the reasons they do on wards.
"""

import numpy as np
import pandas as pd
from nosocomial_signs import leave_unmeasured, signs
from scipy.special import expit

N_PAST_INFECTED, N_PAST_CLEAR, N_NIGHT = 75, 608, 240
NIGHT = np.datetime64("2026-01-14")
SURVEY_START, SURVEY_DAYS = np.datetime64("2025-01-08"), 340

WARDS = [
    "medicine",
    "surgery",
    "geriatrics",
    "orthopaedics",
    "oncology",
    "intensive_care",
]
WARD_SHARES = [0.30, 0.22, 0.20, 0.13, 0.08, 0.07]
DIAGNOSES = {
    "medicine": [
        "cardiovascular",
        "respiratory",
        "digestive",
        "neurological",
        "metabolic",
    ],
    "surgery": ["digestive", "cardiovascular", "urological", "neoplasm", "trauma"],
    "geriatrics": [
        "cardiovascular",
        "neurological",
        "respiratory",
        "trauma",
        "metabolic",
    ],
    "orthopaedics": ["trauma", "musculoskeletal"],
    "oncology": ["neoplasm", "haematological"],
    "intensive_care": [
        "cardiovascular",
        "respiratory",
        "trauma",
        "digestive",
        "neurological",
    ],
}
# Set so that 11 % are infected and a plain SVM reaches an AUROC near 0.86.
BASE_LOGIT, RISK_SCALE = -3.77, 0.95


def census(rng, n_rows):
    """Return n_rows patients with their true `infected`, independent and identically
    distributed.
    """
    patients = _who(rng, n_rows)
    patients |= _what_was_done(rng, patients)
    infected = rng.random(n_rows) < expit(_logit(patients))
    patients |= signs(rng, patients, infected)
    table = pd.DataFrame({name: patients[name] for name in VARIABLES})
    leave_unmeasured(rng, table, infected)
    for name in table.select_dtypes("bool").columns:
        table[name] = np.where(table[name], "yes", "no")
    table["infected"] = np.where(infected, "yes", "no")
    return table


def cohorts(rng):
    """Return the past cohort (75 of 683 infected) and the night's 240 patients,
    labelled.

    Past rows are the first 75 infected and the first 608 others of one stream, the
    night is what comes next in it: within a class the two are exchangeable. The past is
    shuffled before it gets its dates, because the stream's last rows all belong to the
    class that was not yet complete.
    """
    stream = census(rng, 3000)
    is_infected = (stream["infected"] == "yes").to_numpy()
    infected, clear = np.flatnonzero(is_infected), np.flatnonzero(~is_infected)
    past = rng.permutation(np.r_[infected[:N_PAST_INFECTED], clear[:N_PAST_CLEAR]])
    night = past.max() + 1 + np.arange(N_NIGHT)
    ids = np.array(
        [
            f"{number:07d}"
            for number in rng.permutation(np.arange(1_000, 100_000))[: len(stream)]
        ]
    )
    seen = np.repeat(NIGHT, len(stream))
    seen[past] = np.sort(SURVEY_START + rng.integers(SURVEY_DAYS, size=len(past)))
    stay = stream["days_in_hospital"].to_numpy().astype("timedelta64[D]")
    stream.insert(0, "admission_date", (seen - stay).astype(str))
    stream.insert(0, "patient_id", ids)
    return stream.iloc[past].reset_index(drop=True), stream.iloc[night].reset_index(
        drop=True
    )


def _who(rng, n):
    frailty = rng.normal(size=n)
    ward = rng.choice(WARDS, size=n, p=WARD_SHARES)
    is_icu, is_onco = ward == "intensive_care", ward == "oncology"
    is_surgical = np.isin(ward, ["surgery", "orthopaedics"])
    age = (
        64
        + 9 * frailty
        + 9 * rng.normal(size=n)
        + 12 * (ward == "geriatrics")
        - 3 * is_icu
    )
    age = np.clip(np.round(age), 18, 99)
    illness = (
        0.6 * frailty
        + 0.02 * (age - 64)
        + 0.8 * is_icu
        + 0.7 * is_onco
        + 0.8 * rng.normal(size=n)
    )

    def has(logit):
        return rng.random(n) < expit(logit)

    sex = np.where(has(0.1 - 0.01 * (age - 64)), "male", "female")
    diabetes = has(-1.6 + 0.4 * illness)
    copd = has(-2.0 + 0.3 * illness + 0.3 * (sex == "male"))
    heart_failure = has(-2.0 + 0.6 * illness + 0.02 * (age - 64))
    renal_failure = has(-2.2 + 0.5 * illness + 0.7 * diabetes)
    liver_disease = has(-3.0 + 0.3 * illness)
    stroke = has(-2.4 + 0.3 * illness + 0.01 * (age - 64))
    blood = has(np.where(is_onco, 0.0, -4.5))
    solid = has(np.where(is_onco, 2.0, -2.3 + 0.3 * illness)) & ~blood
    charlson = (
        diabetes * 1
        + copd * 1
        + heart_failure * 1
        + renal_failure * 2
        + liver_disease * 2
        + stroke * 1
        + solid * 2
        + blood * 2
        + rng.poisson(0.3, n)
    )
    mccabe = (illness + 0.15 * charlson + 0.5 * rng.normal(size=n) > 1.5) * 1
    mccabe = mccabe + (illness + 0.15 * charlson + 0.8 * rng.normal(size=n) > 2.6) * 1
    dependence = illness + 0.03 * (age - 64) + stroke + 0.7 * rng.normal(size=n)
    emergency = has(np.where(is_surgical, 0.0, 1.2))
    return {
        "ward": ward,
        "age": age,
        "illness": illness,
        "sex": sex,
        "bmi": np.round(
            np.clip(
                26 + 4.5 * rng.normal(size=n) + 1.5 * diabetes - 1.2 * illness, 14, 52
            ),
            1,
        ),
        "provenance": np.where(
            has(-2.6 + 0.9 * dependence),
            "nursing_home",
            np.where(has(-1.8 + 0.6 * is_icu), "other_hospital", "home"),
        ),
        "admission_type": np.where(
            emergency, "emergency", np.where(has(-0.9), "transfer", "elective")
        ),
        "admission_diagnosis": np.array([rng.choice(DIAGNOSES[w]) for w in ward]),
        "days_in_hospital": 2
        + np.floor(rng.gamma(1.3, 5.5, n) * np.exp(0.22 * illness)),
        "readmitted_30d": has(-1.9 + 0.4 * illness),
        "functional_status": _levels(
            dependence, [0.4, 1.6], ["independent", "partly_dependent", "dependent"]
        ),
        "mccabe": np.array(["non_fatal", "ultimately_fatal", "rapidly_fatal"])[mccabe],
        "charlson": charlson.astype(float),
        "diabetes": diabetes,
        "copd": copd,
        "heart_failure": heart_failure,
        "renal_failure": renal_failure,
        "liver_disease": liver_disease,
        "stroke": stroke,
        "malignancy": np.where(
            blood, "haematological", np.where(solid, "solid", "none")
        ),
        "smoking": np.where(
            has(-1.1 + 0.8 * copd),
            "current",
            np.where(has(-0.5 + copd), "former", "never"),
        ),
    }


def _what_was_done(rng, p):
    n, ward, illness, stay = (
        len(p["age"]),
        p["ward"],
        p["illness"],
        p["days_in_hospital"],
    )
    is_icu, is_onco = ward == "intensive_care", ward == "oncology"

    def has(logit):
        return rng.random(n) < expit(logit)

    def days(share_of_stay, used, least=1):
        spent = np.ceil(
            stay * np.clip(share_of_stay + 0.25 * rng.normal(size=n), 0.05, 1)
        )
        return np.where(used, np.maximum(spent, least), 0.0)

    operated = has(
        np.select(
            [np.isin(ward, ["surgery", "orthopaedics"]), is_icu], [1.6, 0.2], -2.6
        )
    )
    contamination = rng.normal(size=n) + 0.9 * (p["admission_diagnosis"] == "digestive")
    wound = _levels(
        contamination, [0.4, 1.4], ["clean", "clean_contaminated", "contaminated"]
    )
    minutes = np.round(np.exp(4.4 + 0.5 * rng.normal(size=n) + 0.3 * is_icu) / 5) * 5
    since = np.minimum(np.floor(rng.exponential(5, n)), stay)
    asa = _levels(
        illness + 0.5 * rng.normal(size=n), [-0.9, 0.4, 1.8], ["1", "2", "3", "4"]
    )
    icu_days = np.where(
        is_icu | has(-2.6 + 0.7 * illness + 1.0 * operated),
        np.ceil(0.5 * stay * rng.random(n)),
        0,
    )
    icu_days = np.where(is_icu, np.maximum(icu_days, np.minimum(stay, 2)), icu_days)
    in_icu = icu_days > 0
    ventilated = has(np.where(in_icu, 0.3 + 0.4 * illness, -6))
    central = has(-3.0 + 2.4 * in_icu + 1.7 * is_onco + 0.4 * illness)
    urinary = has(-1.3 + 1.4 * in_icu + 0.7 * operated + 0.5 * illness)
    steroids = has(-2.2 + 1.4 * p["copd"] + 1.2 * is_onco)
    antibiotics = has(
        -1.3
        + 0.8 * operated
        + 0.8 * in_icu
        + 0.7 * (p["admission_diagnosis"] == "respiratory")
    )
    classes = ["penicillin", "cephalosporin", "quinolone", "carbapenem", "other"]
    return {
        "surgery_class": np.where(operated, wound, "none"),
        "surgery_minutes": np.where(operated, np.clip(minutes, 20, 600), 0.0),
        "days_since_surgery": np.where(operated, since, np.nan),
        "asa_score": np.where(operated, asa, None),
        "implant": operated & has(np.where(ward == "orthopaedics", 0.9, -2.5)),
        "icu_days": icu_days,
        "ventilator_days": np.where(
            ventilated, np.ceil(icu_days * (0.3 + 0.7 * rng.random(n))), 0.0
        ),
        "tracheostomy": ventilated & (icu_days > 5) & has(-0.4),
        "central_line_days": days(0.55, central),
        "peripheral_line_days": days(0.5, has(1.4 + 0.3 * illness)),
        "urinary_catheter_days": days(0.5, urinary),
        "surgical_drain": operated & has(-0.2),
        "nasogastric_tube": has(-3.2 + 2.2 * in_icu + 0.8 * p["stroke"]),
        "parenteral_nutrition": has(-4.2 + 3.0 * central + 0.3 * illness),
        "antibiotic_days": np.where(
            antibiotics, np.ceil(np.minimum(stay, rng.exponential(4, n) + 1)), 0.0
        ),
        "antibiotic_class": np.where(
            antibiotics, rng.choice(classes, n, p=[0.35, 0.3, 0.15, 0.08, 0.12]), "none"
        ),
        "antacids": has(-0.4 + 1.2 * in_icu + 0.4 * illness),
        "corticosteroids": steroids,
        "immunosuppressants": has(-3.2 + 2.8 * is_onco + 0.8 * steroids),
        "transfusion": has(-2.5 + 1.2 * operated + 0.9 * in_icu + 0.8 * is_onco),
    }


def _logit(p):
    """Logit of infection: mostly products and saturations, as a device is a risk per
    day it stays in.
    """
    is_female = p["sex"] == "female"
    operated = p["surgery_class"] != "none"
    weak = (
        (p["mccabe"] != "non_fatal") * 0.5
        + p["immunosuppressants"] * 0.7
        + p["corticosteroids"] * 0.3
    )
    line = np.log1p(p["central_line_days"]) * (
        0.40 + 0.45 * p["parenteral_nutrition"] + 0.45 * weak
    )
    catheter = np.log1p(p["urinary_catheter_days"]) * (
        0.30 + 0.30 * is_female + 0.15 * p["diabetes"]
    )
    lungs = np.log1p(p["ventilator_days"]) * (
        0.55 + 0.35 * p["copd"] + 0.2 * p["antacids"]
    )
    long_operation = operated & (p["surgery_minutes"] > 120)
    wound = operated * (
        0.2
        + 0.9 * (p["surgery_class"] == "contaminated") * (1 + long_operation)
        + 0.5 * long_operation
        + 0.03 * np.clip(p["bmi"] - 28, 0, 12)
    )
    # A rapidly fatal disease multiplies the other risks; it hardly matters to a patient
    # without devices.
    burden = (line + catheter + lungs + wound) * (
        1 + 0.5 * (p["mccabe"] == "rapidly_fatal")
    )
    stay = 0.9 * np.tanh((p["days_in_hospital"] - 7) / 8)
    age = 0.35 * np.square((p["age"] - 58) / 25)
    return BASE_LOGIT + RISK_SCALE * (
        burden + stay + age + 0.4 * (p["functional_status"] == "dependent")
    )


def _levels(values, cuts, names):
    return np.array(names, dtype=object)[np.digitize(values, cuts)]


VARIABLES = [
    "age",
    "sex",
    "bmi",
    "admission_type",
    "provenance",
    "admission_diagnosis",
    "ward",
    "days_in_hospital",
    "readmitted_30d",
    "functional_status",
    "mccabe",
    "charlson",
    "diabetes",
    "copd",
    "heart_failure",
    "renal_failure",
    "liver_disease",
    "stroke",
    "malignancy",
    "smoking",
    "surgery_class",
    "surgery_minutes",
    "days_since_surgery",
    "asa_score",
    "implant",
    "icu_days",
    "ventilator_days",
    "tracheostomy",
    "central_line_days",
    "peripheral_line_days",
    "urinary_catheter_days",
    "surgical_drain",
    "nasogastric_tube",
    "parenteral_nutrition",
    "antibiotic_days",
    "antibiotic_class",
    "antacids",
    "corticosteroids",
    "immunosuppressants",
    "transfusion",
    "temperature_max",
    "heart_rate_max",
    "leucocytes",
    "neutrophils",
    "platelets",
    "crp",
    "haemoglobin",
    "creatinine",
    "albumin",
]
