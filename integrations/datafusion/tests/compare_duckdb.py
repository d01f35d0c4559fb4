"""Compares the results of the random queries with DuckDB's (`pip install duckdb`).

$ LANETREE_RANDOM_COUNT=1000 LANETREE_RANDOM_SQL=$PWD/random.txt cargo test -p lanetree-datafusion --test sql random::
$ python datafusion/tests/compare_duckdb.py random.txt
"""

import re
import sys

import duckdb


def values(line: str) -> tuple[str, ...]:
    return tuple(value.strip() for value in line.strip("|").split("|"))


def main(path: str) -> int:
    session = duckdb.connect()
    session.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
    with open(path, encoding="utf-8") as file:
        records = [record.split("\n") for record in re.split(r"\n{2,}", file.read().strip())]
    queries = different = 0
    for statement, *rows in records:
        expected = [values(row) for row in rows[1:]]
        if table := re.fullmatch(r"TABLE (\w+)", statement):
            session.execute(f"CREATE TABLE {table[1]} (a BIGINT, k BIGINT, s VARCHAR)")
            if expected:
                own = [[value or None for value in row] for row in expected]
                session.executemany(f"INSERT INTO {table[1]} VALUES (?, ?, ?)", own)
            continue
        result = session.execute(re.sub(r"arrow_cast\((-?\d+), 'Int64'\)", r"\1::BIGINT", statement))
        if not statement.startswith("SELECT"):
            continue
        found = [tuple("" if value is None else str(value) for value in row) for row in result.fetchall()]
        if "ORDER BY" not in statement:
            found.sort()
            expected.sort()
        queries += 1
        if found != expected:
            different += 1
            print(f"{statement}\n  DuckDB: {found[:5]}\n  here:   {expected[:5]}")
    print(f"{queries} queries, {different} with other rows in DuckDB")
    return 1 if different or not queries else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
