"""How environment variables are read."""

from __future__ import annotations

from pathlib import Path

import pytest
from literals import refusal

from vyre_driver import settings
from vyre_driver.errors import InvalidSetting


def test_the_table_names_every_variable_that_is_read() -> None:
    assert [setting.variable for setting in settings.SETTINGS] == [
        "VYRE_DEVICE",
        "VYRE_ALLOW_SOFTWARE",
        "VYRE_CACHE_DIR",
        "VYRE_CACHE_DISABLE",
        "VYRE_CACHE_READONLY",
        "VYRE_CACHE_MAX_SIZE",
        "VYRE_CACHE_BASE",
        "VYRE_CACHE_HMAC_KEY_FILE",
        "VYRE_CACHE_REMOTE",
        "VYRE_CACHE_REMOTE_MODE",
        "VYRE_CACHE_REMOTE_TIMEOUT",
        "VYRE_CACHE_REMOTE_SECRET_FILE",
        "VYRE_CACHE_TRUST_FILE",
        "VYRE_CACHE_SIGN_KEY_FILE",
        "VYRE_CACHE_RECORD",
        "VYRE_ASSERT_WARM",
        "VYRE_AUTOTUNE",
        "VYRE_AUTOTUNE_FILE",
        "VYRE_ROBUST_ACCESS",
        "VYRE_PIPELINE_STATISTICS",
        "VYRE_MEMORY_LIMIT",
        "VYRE_SPIRV_VAL",
        "VYRE_STRICT",
        "VYRE_INTERPRET",
        "VYRE_TRACE",
        "VYRE_OPENTELEMETRY",
        "VYRE_TOP",
    ]


@pytest.mark.parametrize("word", ["1", "true", "yes", "on", "TRUE", "Yes", "oN"])
def test_a_switch_is_turned_on_by(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("VYRE_ALLOW_SOFTWARE", word)
    assert settings.switch(settings.ALLOW_SOFTWARE) is True


@pytest.mark.parametrize("word", ["0", "false", "no", "off", "FALSE", "No", "oFF", ""])
def test_a_switch_is_turned_off_by(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("VYRE_ALLOW_SOFTWARE", word)
    assert settings.switch(settings.ALLOW_SOFTWARE) is False


def test_a_switch_that_is_not_set_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VYRE_CACHE_DISABLE", raising=False)
    assert settings.switch(settings.CACHE_DISABLE) is False


@pytest.mark.parametrize("value", [None, ""])
@pytest.mark.parametrize(("setting", "expected"), [(settings.SPIRV_VAL, True), (settings.STRICT, False)])
def test_a_switch_that_is_not_set_is_what_the_table_says(
    monkeypatch: pytest.MonkeyPatch,
    value: str | None,
    setting: settings.Setting,
    expected: bool,  # noqa: FBT001 -- a column
) -> None:
    monkeypatch.delenv(setting.variable, raising=False)
    if value is not None:
        monkeypatch.setenv(setting.variable, value)
    assert settings.switch(setting) is expected


@pytest.mark.parametrize(("word", "expected"), [("0", False), ("1", True)])
def test_a_switch_that_is_set_overrules_what_holds_without_it(
    monkeypatch: pytest.MonkeyPatch,
    word: str,
    expected: bool,  # noqa: FBT001 -- a column
) -> None:
    for setting in (settings.SPIRV_VAL, settings.STRICT):
        monkeypatch.setenv(setting.variable, word)
        assert settings.switch(setting) is expected


@pytest.mark.parametrize("word", ["2", "maybe", " 1", "1 ", " ", "y", "enable", "-1", "01"])
def test_a_switch_that_is_neither_on_nor_off_is_refused(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("VYRE_CACHE_DISABLE", word)
    message = (
        f"VYRE_CACHE_DISABLE is {word!r}, which is neither on nor off. Fix: set VYRE_CACHE_DISABLE to 1 or 0, or unset it."
    )
    assert refusal(lambda: settings.switch(settings.CACHE_DISABLE)) == (InvalidSetting, 2401, message)


def test_a_refused_setting_tells_its_variable_and_value_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CACHE_DISABLE", "maybe")
    with pytest.raises(InvalidSetting) as error:
        settings.switch(settings.CACHE_DISABLE)
    assert error.value.context == {"variable": "VYRE_CACHE_DISABLE", "value": "maybe"}


@pytest.mark.parametrize(("value", "expected"), [("name:gpu", "name:gpu"), (" ", " "), ("", None)])
def test_a_text_is_the_variables_value_and_empty_is_unset(
    monkeypatch: pytest.MonkeyPatch, value: str, expected: str | None
) -> None:
    monkeypatch.setenv("VYRE_DEVICE", value)
    assert settings.text(settings.DEVICE) == expected


def test_a_text_that_is_not_set_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VYRE_DEVICE", raising=False)
    assert settings.text(settings.DEVICE) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [("/var/cache/vyre", Path("/var/cache/vyre")), ("~/pipelines", Path("/home/somebody/pipelines")), ("", None)],
)
def test_a_directory_is_absolute_and_may_begin_with_the_home(
    monkeypatch: pytest.MonkeyPatch, value: str, expected: Path | None
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("VYRE_CACHE_DIR", value)
    assert settings.absolute_path(settings.CACHE_DIR) == expected


@pytest.mark.parametrize("value", ["pipelines", "./pipelines", "..", " /var/cache", "$HOME/pipelines"])
def test_a_relative_directory_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("VYRE_CACHE_DIR", value)
    message = f"VYRE_CACHE_DIR is {value!r}, a relative path. Fix: set VYRE_CACHE_DIR to an absolute path."
    assert refusal(lambda: settings.absolute_path(settings.CACHE_DIR)) == (InvalidSetting, 2401, message)


def test_the_home_of_a_user_who_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CACHE_DIR", "~no such user/pipelines")
    assert refusal(lambda: settings.absolute_path(settings.CACHE_DIR))[:2] == (InvalidSetting, 2401)
