"""A query that is asked of a database is a single SELECT, whatever stands in its texts and comments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from screening.errors import UsageError
from screening.sources.select import single_select

READ = (
    "select * from past",
    "  -- of tonight; no more\n SELECT 1",
    "/* delete from past; */ WITH a AS (SELECT 1) SELECT * FROM a",
    "(select 1) union (select 2)",
    "select 'a; delete from b', \"update\" from past",
    "select $body$ ; drop table x; $body$, $$ insert into $$",
    "select E'it\\'s; delete', replace(a, 'x', 'y') from past",
    "select updated, deleted_at, intolerance from past",
)
REFUSED = (
    "", "delete from past", "update past set a = 1", "drop table past", "select 1; select 2",
    "select 1; -- \n drop table past", "with gone as (delete from past returning *) select * from gone",
    "select * into copy from past", "select * from past for update", "insert into past select 1",
    "begin; select 1", "copy past to 'file'", "pragma query_only = off", "attach 'other.db' as other",
    "/*! delete from past */ select 1", "explain analyze select 1",
    "select 1 /* never ended ; */ */ ; drop x",
)  # fmt: skip


@pytest.mark.parametrize("query", READ)
@pytest.mark.parametrize("end", ["", ";", " ; \n-- done; really\n"])
def test_what_only_reads_is_asked_as_it_is_but_for_the_semicolon(query, end):
    assert single_select(query + end, "q.sql").rstrip() == query.rstrip()


@pytest.mark.parametrize("query", REFUSED)
def test_what_does_not_only_read_is_refused_by_the_name_of_its_file(query):
    with pytest.raises(UsageError, match=r"^q\.sql: "):
        single_select(query, "q.sql")


@given(st.text("ab '\"-/*;$\n", max_size=30))
def test_a_second_statement_is_never_hidden_by_what_stands_quoted_before_it(text):
    quoted = "'" + text.replace("'", "''") + "'"

    assert single_select(f"select {quoted}", "q.sql") == f"select {quoted}"
    with pytest.raises(UsageError):
        single_select(f"select {quoted}; drop table past", "q.sql")
