"""What an infection shows of itself, what else shows the same, and what nobody
measured.
"""

import numpy as np

# Size of an infection's signs, set together with the risks' scale for the difficulty
# that is wanted.
SIGN_SCALE = 0.88


def signs(rng, p, infected):
    """Return the measured signs of every patient of p, which overlap between infected
    and others.
    """
    n, illness = len(infected), p["illness"]
    noise = rng.normal(size=(10, n))
    # A shared severity ties the signs together; a third of infections are already
    # treated and quiet.
    severity = (
        infected
        * np.where(rng.random(n) < 0.33, 0.2, 1.0)
        * rng.gamma(4, 0.25, n)
        * SIGN_SCALE
    )
    recent = np.where(
        np.isnan(p["days_since_surgery"]),
        0,
        np.exp(-np.nan_to_num(p["days_since_surgery"]) / 3),
    )
    blunted = np.where(p["corticosteroids"], 0.35, 1.0) * np.where(
        p["age"] > 80, 0.6, 1.0
    )
    # Other inflammation: tumours, trauma, the community-acquired pneumonia that brought
    # the patient in.
    other = (rng.random(n) < 0.22) * rng.gamma(2, 0.35, n)
    response = severity + 0.8 * other
    suppressed = p["immunosuppressants"]
    leucocytes = np.exp(
        2.0
        + 0.28 * noise[0]
        + 0.30 * response
        + 0.2 * p["corticosteroids"]
        - 0.7 * suppressed
    )
    return {
        "temperature_max": np.round(
            np.clip(
                36.9 + 0.35 * noise[1] + 0.25 * recent + 0.85 * response * blunted,
                34.5,
                41.5,
            ),
            1,
        ),
        "heart_rate_max": np.round(
            np.clip(86 + 11 * noise[2] + 9 * response + 4 * illness, 45, 190)
        ),
        "leucocytes": np.round(np.clip(leucocytes, 0.1, 60), 1),
        "neutrophils": np.round(
            np.clip(66 + 8 * noise[3] + 5 * response - 8 * suppressed, 5, 98), 0
        ),
        "platelets": np.round(
            np.clip(245 + 75 * noise[4] + 25 * response - 70 * suppressed, 8, 900)
        ),
        "crp": np.round(
            np.exp(
                2.7 + 0.8 * noise[5] + 1.6 * recent + 0.85 * response + 0.15 * illness
            )
        ).clip(1, 480),
        "haemoglobin": np.round(
            np.clip(
                122 - 7 * illness - 9 * p["transfusion"] + 15 * noise[6] - 4 * response,
                55,
                190,
            )
        ),
        "creatinine": np.round(
            np.exp(4.35 + 0.25 * noise[7] + 0.65 * p["renal_failure"] + 0.1 * response)
        ).clip(25, 900),
        "albumin": np.round(
            np.clip(36 - 2.2 * illness - 2.0 * response + 4 * noise[8], 12, 52), 0
        ),
    }


def leave_unmeasured(rng, table, infected):
    """Blank what was not ordered: more often in patients who look well, hence not at
    random.
    """
    n = len(table)
    febrile = (table["temperature_max"] >= 38).to_numpy()
    suspected = febrile | (infected & (rng.random(n) < 0.5))
    quiet = 1 - 0.75 * suspected
    shares = {
        "crp": 0.30 * quiet,
        "albumin": 0.20 + 0.15 * quiet,
        "neutrophils": 0.10 + 0.10 * quiet,
        "leucocytes": 0.06 * quiet,
        "platelets": 0.06 * quiet,
        "haemoglobin": 0.04,
        "creatinine": 0.05,
        "bmi": 0.09,
        "smoking": 0.14,
        "temperature_max": 0.01,
        "heart_rate_max": 0.03,
        "functional_status": 0.03,
    }
    for name, share in shares.items():
        table[name] = table[name].mask(rng.random(n) < share)
