-- One row a hospital stay: age, sex, the first day's values, and whether sepsis was recorded later in the stay.
WITH stay AS (
    SELECT visit_occurrence_id, person_id, visit_start_date, visit_end_date
    FROM visit_occurrence
    WHERE visit_concept_id IN (9201, 262)  -- inpatient visit; emergency room and inpatient visit
),
first_day AS (
    SELECT
        stay.visit_occurrence_id,
        MAX(CASE WHEN measurement_concept_id = 3020891 THEN value_as_number END) AS temperature,
        MAX(CASE WHEN measurement_concept_id = 3027018 THEN value_as_number END) AS heart_rate,
        MAX(CASE WHEN measurement_concept_id = 3020460 THEN value_as_number END) AS crp,
        MAX(CASE WHEN measurement_concept_id = 3000905 THEN value_as_number END) AS leukocytes
    FROM stay
    JOIN measurement
        ON measurement.visit_occurrence_id = stay.visit_occurrence_id
        AND measurement.measurement_date = stay.visit_start_date
    GROUP BY stay.visit_occurrence_id
),
sepsis AS (
    SELECT DISTINCT stay.visit_occurrence_id
    FROM stay
    JOIN condition_occurrence
        ON condition_occurrence.visit_occurrence_id = stay.visit_occurrence_id
        AND condition_occurrence.condition_start_date > stay.visit_start_date
    WHERE condition_concept_id = 132797
)
SELECT
    stay.visit_occurrence_id,
    stay.person_id,
    CAST(SUBSTR(CAST(stay.visit_start_date AS VARCHAR(10)), 1, 4) AS INTEGER) - person.year_of_birth AS age,
    CASE person.gender_concept_id WHEN 8532 THEN 'female' WHEN 8507 THEN 'male' END AS sex,
    first_day.temperature,
    first_day.heart_rate,
    first_day.crp,
    first_day.leukocytes,
    CASE WHEN sepsis.visit_occurrence_id IS NULL THEN 'no' ELSE 'yes' END AS sepsis
FROM stay
JOIN person ON person.person_id = stay.person_id
LEFT JOIN first_day ON first_day.visit_occurrence_id = stay.visit_occurrence_id
LEFT JOIN sepsis ON sepsis.visit_occurrence_id = stay.visit_occurrence_id
ORDER BY stay.visit_occurrence_id;
