"""Patterns of secrets are found, ordinary text is not, and outputs contain no secret."""

import io
import json
import time

import pytest

from fullpass.base.redact import RedactedText, redact, redact_setting, redact_tree, redact_yaml
from fullpass.base.secret_formats import BLANK, SHAPES, find_shape, is_secret_setting
from tests.planted_secrets import FORMS, NAMES, ORDINARY, PLANTED


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.text[:40])
def test_a_planted_secret_is_found_and_blanked_wherever_it_stands(planted):
    """Alone, in an error message, in JSON, in JSON within JSON, and after a YAML comment."""
    assert find_shape(planted.text) is not None
    nested = json.dumps({"request": json.dumps({"source": {"path": planted.text}, "size": 3})})
    places = (planted.text, f"cannot read {planted.text}: timed out", nested, f"# was: {planted.text}\nname: trips\n")
    for place in places:
        assert planted.secret not in redact(place)
    assert json.loads(json.loads(redact(nested))["request"])["size"] == 3


def test_a_planted_secret_is_blanked_between_others():
    text = redact("\n".join(planted.text for planted in PLANTED))
    assert [planted for planted in PLANTED if planted.secret in text] == []


@pytest.mark.parametrize("form", FORMS)
def test_each_name_is_blanked_in_each_form_of_writing(form):
    """Alone, as a part of a line, in JSON, and in the repr of an error."""
    secret = "Zq7Hunter2x"
    shown = []
    for name in NAMES:
        text = form.replace("NAME", name).replace("{}", secret)
        places = (text, f"at 12:05 {text}; next", json.dumps({"log": text}), repr(ValueError(text)))
        shown += [place for place in places if secret in redact(place)]
    assert shown == []


@pytest.mark.parametrize("form", [form for form in FORMS if form not in ("NAME={}", "NAME: {}", "NAME: 'a, b {}'")])
def test_each_name_is_refused_in_each_form_that_nothing_else_has(form):
    """`a=b` and `a: b` alone are also mappings and expressions of the YAML."""
    texts = [form.replace("NAME", name).replace("{}", "Zq7Hunter2x") for name in NAMES]
    assert [text for text in texts if find_shape(text) is None] == []


def test_everyday_text_is_no_secret_and_stays_as_it_is():
    assert [text for text in ORDINARY if find_shape(text) is not None or redact(text) != text] == []


def test_each_row_of_the_table_has_its_planted_text():
    found = [find_shape(planted.text) for planted in PLANTED]
    assert [shape for shape in SHAPES if not shape.source or shape not in found] == []


def test_redacting_twice_is_redacting_once():
    texts = [redact(planted.text) for planted in PLANTED]
    assert [redact(text) for text in texts] == texts


def test_users_of_addresses_stay_only_where_they_are_plain_names():
    assert redact("sftp://reader@files/trips.csv") == "sftp://reader@files/trips.csv"
    assert redact("https://reader@files/trips.csv") == f"https://{BLANK}@files/trips.csv"
    assert redact("postgresql://" + "a" * 40 + "@db/trips") == f"postgresql://{BLANK}@db/trips"


SETTINGS = [
    ("ALERT_TOKEN", "abc"),
    ("DB_PASS", "abc"),
    ("DB_PWD", "1234"),
    ("AWS_SECRET_ACCESS_KEY", "abc"),
    ("API-KEY", "abc"),
    ("SENTRY_DSN", "abc"),
    ("password", 1234),
]
NO_SETTINGS = [
    ("ALLOW_EMPTY_PASSWORD", "yes"),
    ("DB_PASSWORD", ""),
    ("DB_PASSWORD_FILE", "/run/secrets/db"),
    ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/token"),
    ("TOKENIZERS_PARALLELISM", "false"),
    ("password_env", "DB_PASSWORD"),
    ("token_env", "TOKEN"),
    ("compass", "north"),
    ("bypass", "x"),
    ("key", "id"),
    ("monkey", "x"),
    ("most_tokens", 100),
]


@pytest.mark.parametrize(("name", "value"), SETTINGS)
def test_settings_that_are_secrets_by_name(name, value):
    assert is_secret_setting(name, value)
    assert redact_setting(name, str(value)) == BLANK


@pytest.mark.parametrize(("name", "value"), NO_SETTINGS)
def test_settings_that_are_none(name, value):
    assert not is_secret_setting(name, value)
    assert redact_setting(name, str(value)) == str(value)


def test_the_text_of_a_yaml_file_keeps_features_and_loses_settings():
    text = "features:\n  token: category\n  password: {type: number}\n# DB_PASS: hunter2\nbeam: {api_key: hunter2}\n"
    kept = "features:\n  token: category\n  password: {type: number}\n"
    assert redact_yaml(text) == f"{kept}# DB_PASS: {BLANK}\nbeam: {{api_key: {BLANK}}}\n"


def test_the_text_of_a_command_in_lines_loses_its_secret():
    assert redact_yaml("- notify\n- --auth-token\n- hunter2\n- -v\n") == f"- notify\n- --auth-token\n- {BLANK}\n- -v\n"


def test_data_is_redacted_to_its_leaves():
    data = {"files": ["redis://:hunter2@cache/0", 3, None], "at": ("x", {"y": "--token hunter2"})}
    assert redact_tree(data) == {"files": [f"redis://{BLANK}@cache/0", 3, None], "at": ("x", {"y": f"--token {BLANK}"})}


def test_a_stream_redacts_and_says_how_much_it_took():
    raw = io.BytesIO()
    stream = RedactedText(raw, encoding="utf-8")
    assert stream.write("at redis://:hunter2@cache/0\n") == len("at redis://:hunter2@cache/0\n")
    print("and", "--token hunter2", file=stream, flush=True)
    assert raw.getvalue().decode() == f"at redis://{BLANK}@cache/0\nand --token {BLANK}\n"


def grows_in_proportion(search, seed: str) -> bool:
    """Returns whether four times the text takes less than ten times the time; 16 times is that of the square."""

    def seconds(size):
        text = seed * (size // len(seed))
        began = time.process_time()
        search(text)
        return time.process_time() - began

    # The square of a short time is a long one: with 2,250 beginnings, nearly two seconds.
    return any((long := seconds(32_000)) < 0.005 or long < 10 * seconds(8_000) for _ in range(3))


BEGINNINGS = (
    *("a_", "a-", "a.", "--a-", "A=", "x@", " -p", "://a:", "://a:1", "mysql ", "eyJ", "eyJa-", "pwd={"),
    *("password:{", "password:a{", '"password":', "authorization: ", "cookie:  ", "$a", "\\", "?key=a"),
    *("--token ", "- ", "\n"),
)


@pytest.mark.integration
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.name}: {shape.source[:30]}")
def test_no_pattern_takes_the_square_of_a_text(shape):
    """Texts of many beginnings without an end: those that start any pattern, and every part of this one's own text."""
    text = next(planted.text for planted in PLANTED if find_shape(planted.text) is shape)
    own = {text[: len(text) * eighths // 8] for eighths in (3, 5, 7, 8)}
    assert [seed for seed in (*BEGINNINGS, *own) if not grows_in_proportion(shape.pattern.findall, seed)] == []


@pytest.mark.integration
@pytest.mark.parametrize("seed", [*BEGINNINGS, "a", "password", "postgresql://me:x@db/trips "])
def test_redaction_takes_time_in_proportion(seed):
    assert grows_in_proportion(redact_yaml, seed)
    assert grows_in_proportion(find_shape, seed)


@pytest.mark.integration
def test_long_json_takes_time_in_proportion_and_stays():
    """A request of a window of 365 spans is 110 kB of JSON."""
    path = json.dumps({"path": "gs://bucket/a-b_c/1/trips.csv", "user_name": "a-b" * 9})
    assert redact(path * 365) == path * 365
    assert grows_in_proportion(redact, path)
