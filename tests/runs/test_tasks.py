from __future__ import annotations

import pytest

from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.data.catalog.registry import find_entry
from shiftcal.runs.tasks import SUITES, Task, parse_tasks

ALL_TASKS = list(dict.fromkeys(task for suite in SUITES.values() for task in suite))


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_stands_for_its_tasks(name: str) -> None:
    assert parse_tasks(name) == list(SUITES[name])
    assert len(SUITES[name]) == len(set(SUITES[name])) > 0


@pytest.mark.parametrize("task", ALL_TASKS, ids=lambda task: task.name)
def test_a_task_is_parsed_from_its_name(task: Task) -> None:
    assert parse_tasks(task.name) == [task]


@pytest.mark.parametrize("task", ALL_TASKS, ids=lambda task: task.name)
def test_suites_name_data_that_the_catalog_knows(task: Task) -> None:
    for spec in filter(None, (task.source, task.target, task.test, task.source_test)):
        path, _, split = spec.partition(":")
        name, _, domain = path.partition("/")
        entry = find_entry(name)
        assert entry is not None
        entry.select(domain, split)
    assert task.source != task.target


def test_all_pairs_of_a_suite_are_both_ways_round() -> None:
    assert len(SUITES["office-home-features"]) == 12
    assert {(task.target, task.source) for task in SUITES["office-31-features"]} == {
        (task.source, task.target) for task in SUITES["office-31-features"]
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a->b", [Task("a", "b")]),
        ("a->b@c", [Task("a", "b", "c")]),
        ("a->b@", [Task("a", "b")]),
        ("a@d->b@c", [Task("a", "b", "c", "d")]),
        ("a @ d -> b", [Task("a", "b", None, "d")]),
        (" a -> b @ c , c->d,", [Task("a", "b", "c"), Task("c", "d")]),
        ("a->b,a -> b,a->b@c", [Task("a", "b"), Task("a", "b", "c")]),
        ("folder/x:test->y.npz#x=a", [Task("folder/x:test", "y.npz#x=a")]),
    ],
)
def test_tasks_are_written_with_an_arrow(text: str, expected: list[Task]) -> None:
    assert parse_tasks(text) == expected


def test_suites_and_tasks_can_be_mixed_without_doubles() -> None:
    assert parse_tasks("a->b,demo,digits/mnist->digits/uci") == [Task("a", "b"), *SUITES["demo"]]


@pytest.mark.parametrize("text", ["dmo", "a->", "->b", "a->@c", "a -> ", "a>b"])
def test_anything_else_is_told_how_a_task_is_written(text: str) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown task or suite .*SOURCE->TARGET@TEST"):
        parse_tasks(text)


def test_unknown_suites_suggest_the_closest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'digits'"):
        parse_tasks("digit")


@pytest.mark.parametrize("text", ["", " , "])
def test_an_empty_list_is_an_error(text: str) -> None:
    with pytest.raises(InvalidInputError, match="expected at least one task or suite, got none"):
        parse_tasks(text)
