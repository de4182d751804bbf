"""The docs say what is so: routes, statuses, headers, settings, limits, commands and examples.

`tests/test_links.py` holds that their links lead somewhere.
"""

import ast
import asyncio
import inspect
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast, get_args

import click
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import SecretStr

from penelope import cli, client, errors, main, registry, signing
from penelope.client.blocking.runs import Runs
from penelope.client.waiting.runs import AsyncRuns
from penelope.http import openapi, prefer, sse, streaming
from penelope.http.app import create_app
from penelope.http.described import ROUTES
from penelope.http.routes import events
from penelope.http.worker import Worker
from penelope.jobs import answers, delivery, ledger, model, options, schedule, screening, transitions, views
from penelope.jobs import events as job_events
from penelope.jobs.model import Job, Polling, State, Webhook
from penelope.outcome import Outcome
from penelope.pages import claim, lease
from penelope.pages.primitives.model import DEFAULT_TIMEOUT_MS
from penelope.pages.primitives.table import PRIMITIVES
from penelope.settings import Settings, variable
from penelope.store import media, request_log
from penelope.testing import open_page, run_plugin

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"
API = DOCS / "reference" / "API.md"
OPERATING = DOCS / "operating.md"
PAGES = [README, *sorted(DOCS.rglob("*.md"))]
PLUGIN_PATH = "/api/v1/{page_id}/plugin/{family}/{name}"


def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def blocks(page: Path, *languages: str) -> list[str]:
    """The code blocks of a page in one of these languages, without the white space of a list around them."""
    found = re.findall(r"^( *)```(\w+)\n(.*?)^\1```$", text_of(page), re.MULTILINE | re.DOTALL)
    return [
        re.sub(f"^{indent}", "", code, flags=re.MULTILINE)
        for indent, word, code in found
        if word in languages
    ]


def section(page: Path, heading: str) -> str:
    """A section of a page, its heading's line and its sub-sections included."""
    found = re.search(
        rf"^(#+) {re.escape(heading)}$.*?(?=^#{{1,6}} |\Z)", text_of(page), re.MULTILINE | re.DOTALL
    )
    assert found is not None, f"{page.name} has no section {heading}"
    return found[0]


def rows(text: str) -> list[list[str]]:
    """The rows of the tables in a text, heads left out."""
    lines = re.findall(r"^ *\|(.*)\|$", text, re.MULTILINE)
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    return [row for at, row in enumerate(cells) if not is_rule(row) and not is_rule([*cells, [""]][at + 1])]


def is_rule(row: list[str]) -> bool:
    return all(re.fullmatch(r":?-{3,}:?", cell) for cell in row)


def ticked(text: str) -> set[str]:
    """What stands between backticks."""
    return set(re.findall(r"`([^`\n]+)`", text))


def words_of(cells: list[list[str]], column: int = 0) -> set[str]:
    return set().union(*(ticked(row[column]) for row in cells))


def templated(rule: str) -> str:
    """A rule of the app as OpenAPI writes a path: `<page:page_id>` is `{page_id}`."""
    return re.sub(r"<(?:[^:>]*:)?([^>]+)>", r"{\1}", rule)


@pytest.fixture(scope="module")
def worker() -> Worker:
    """As much of a worker as its app needs to be put together."""
    nothing = cast(Any, None)
    return Worker(
        settings=Settings(key=SecretStr("k" * 32)),
        registry=registry.load(()),
        clock=nothing,
        pages=nothing,
        jobs=nothing,
        media=nothing,
        requests=nothing,
        ledger=nothing,
        supervisor=nothing,
        runs=nothing,
        planner=nothing,
        screen=nothing,
        started_at=0.0,
    )


@pytest.fixture(scope="module")
def document(worker: Worker) -> dict[str, Any]:
    return openapi.document(worker)


@pytest.fixture(scope="module")
def app_routes(worker: Worker) -> set[str]:
    """`METHOD path` of each route of the real app; HEAD goes with GET."""
    return {
        f"{method} {templated(rule.rule)}"
        for rule in create_app(worker).url_map.iter_rules()
        for method in rule.methods or ()
        if method not in {"HEAD", "OPTIONS"}
    }


# Routes and the OpenAPI document


def test_the_reference_has_every_route_and_no_other(app_routes: set[str]) -> None:
    """A heading each, ``### `GET /api/v1/pages` ``."""
    headings = re.findall(r"^### `([A-Z]+ /[^`]*)`$", text_of(API), re.MULTILINE)

    assert app_routes == set(headings)
    assert len(headings) == len(set(headings))


def test_the_document_has_every_route_and_no_other(
    app_routes: set[str], document: dict[str, Any], worker: Worker
) -> None:
    """`GET /openapi.json` describes every route, each plugin as a path of its own."""
    plugins = {f"/api/v1/{{page_id}}/plugin/{name}" for name in worker.registry}
    described = {
        f"{method.upper()} {PLUGIN_PATH if path in plugins else path}"
        for path, item in document["paths"].items()
        for method in item
    }

    assert app_routes == described
    assert plugins <= document["paths"].keys()
    assert ROUTES.keys() <= document["paths"].keys()


def test_the_document_is_valid(document: dict[str, Any]) -> None:
    """OpenAPI 3.1, as others read it: its schemas and references too."""
    as_sent = json.loads(json.dumps(document))

    assert [] == [f"{list(e.path)}: {e.message}" for e in OpenAPIV31SpecValidator(as_sent).iter_errors()]


def test_each_operation_has_a_name_of_its_own(document: dict[str, Any]) -> None:
    """Clients that are made from the document name their functions by it."""
    names = [operation["operationId"] for item in document["paths"].values() for operation in item.values()]

    assert sorted(names) == sorted(set(names))


def test_shipped_plugins_are_listed(worker: Worker) -> None:
    shipped = {row[0].strip("`") for row in rows(section(API, "`POST " + PLUGIN_PATH + "`")) if "/" in row[0]}

    assert set(worker.registry) == shipped


def test_primitives_take_what_the_reference_says() -> None:
    for primitive in PRIMITIVES.values():
        said = ticked(section(API, f"`POST /api/v1/{{page_id}}/{primitive.name}`"))
        assert primitive.options.model_fields.keys() - {"timeout_ms"} <= said, primitive.name


# Statuses, kinds, headers, limits


def error_classes(
    root: type[errors.PenelopeError] = errors.PenelopeError,
) -> Iterator[type[errors.PenelopeError]]:
    for child in root.__subclasses__():
        if not issubclass(child, errors.StartError):
            yield child
            yield from error_classes(child)


def test_every_status_is_explained(document: dict[str, Any]) -> None:
    """Those of the error tree, those of the document, and those that the framework raises; and no others."""
    of_errors = {str(error.status) for error in error_classes()}
    of_document = {
        status
        for item in document["paths"].values()
        for operation in item.values()
        for status in operation["responses"]
    }
    explained = {row[0].strip("`") for row in rows(section(API, "Statuses"))}

    assert of_errors | of_document | {"206"} == explained


def test_every_kind_is_explained() -> None:
    of_errors = {error.kind for error in error_classes() if error.kind is not None}
    of_document = openapi._error_schema()["properties"]["kind"]["enum"]
    explained = [row[0].strip("`") for row in rows(section(API, "Kinds of failures"))]

    assert of_errors == set(explained) == set(of_document)


HEADER = re.compile(
    r"[\"'](X-[A-Z][\w-]+|Authorization|Prefer|Preference-Applied|Last-Event-ID|WWW-Authenticate|Retry-After|Location|Allow"
    r"|Range|Accept-Ranges|traceparent|webhook-(?:id|timestamp|signature)|Idempotency-(?:Key|Replayed)|Cache-Control"
    r"|Content-(?:Type|Length|Range|Disposition|Security-Policy))[\"']"
)


def test_every_header_is_explained() -> None:
    """Each that stands in the code which reads or writes headers has its row, and no other has one."""
    code = [*(ROOT / "penelope/http").rglob("*.py"), *(ROOT / "penelope/jobs").glob("*.py")]
    code.append(ROOT / "penelope/signing.py")
    used = set().union(*(HEADER.findall(text_of(module)) for module in code))

    assert {"X-Lease", "X-Callback-Url", "X-Penelope-Signature", "Range"} <= used
    assert used == words_of(rows(section(API, "Headers")))


def test_limits_are_those_of_the_code() -> None:
    said = "\n".join(" ".join(row) for row in rows(section(API, "Limits"))).replace("\N{NO-BREAK SPACE}", " ")
    defaults = {name: field.default for name, field in Settings.model_fields.items()}

    for words in (
        f"busy page {claim.PATIENCE_S:.0f} s",
        f"`MAX_PAGES`, {defaults['max_pages']} unless",
        f"running ones included {model.MAX_JOBS}",
        f"`ttl` above 0, at most {model.MAX_TTL_S:.0f} s",
        f"{options.MAX_URL_CHARS} characters",
        f"above 0, at most {model.MAX_LIMIT_S // 1000:.0f} {model.MAX_LIMIT_S % 1000:.0f} s",
        f"`Prefer: wait=N` {prefer.MAX_WAIT_S} s",
        f"heartbeats of a job's events {streaming.HEARTBEAT_S:.0f} s",
        f"`progress` events {1 / events.PROGRESS_GAP_S:.0f} a second",
        f"waits for it {streaming.STALL_S:.0f} s",
        f"all of it {model.WEBHOOK_TIMEOUT_S:.0f} s",
        f"{delivery.MAX_PER_HOST} to one receiver, {delivery.MAX_POSTS} in all",
        f"{delivery.MAX_ANSWER_BYTES // 1024} KiB",
        f"{DEFAULT_TIMEOUT_MS // 1000} 000 unless given",
        f"nobody downloads {media.MEDIA_KEEP_S:.0f} s",
        f"{defaults['media_max_mb']} MiB unless",
        f"request log, the ledger of deliveries {request_log.KEEP_S / 86400:.0f} days",
    ):
        assert words in said
    assert model.MAX_TTL_S == lease.MAX_LEASE_TTL_S
    assert ledger.KEEP_S == request_log.KEEP_S


def test_what_an_answer_of_a_receiver_means() -> None:
    """The reference's table says what `schedule.verdict` decides."""
    delivered, retried, given_up = (
        row
        for row in rows(section(API, "The POST"))
        if not row[0].startswith(("`Content", "`X-", "`webhook-", "`traceparent"))
    )

    assert ("delivered" in delivered[1], "next attempt" in retried[1], "given up" in given_up[1]) == (
        True,
    ) * 3
    assert {"`2xx`"} == {f"`{status // 100}xx`" for status in (200, 204, 299)}
    for status, verdict in (
        (200, "delivered"),
        (429, "retry"),
        (503, "retry"),
        (302, "give up"),
        (404, "give up"),
    ):
        assert verdict == schedule.verdict(status).value
    assert "retry" == schedule.verdict(None).value


def test_every_class_of_a_failed_post_is_explained(document: dict[str, Any]) -> None:
    """And every key of the ledger."""
    text = section(API, "`GET /api/v1/deliveries`")
    keys, classes = text.split("| `error_class` |")
    shown = document["paths"]["/api/v1/deliveries"]["get"]["responses"]["200"]["content"]["application/json"][
        "schema"
    ]

    assert set(answers.CLASSES) == words_of(rows("| a |\n|---|\n" + classes.partition("\n|---|---|\n")[2]))
    assert shown["properties"]["deliveries"]["items"]["properties"].keys() == words_of(rows(keys))


# Settings, metrics, start errors, exit codes


def test_the_settings_table_is_that_of_the_settings() -> None:
    """Name, default and description of each, in their order."""
    expected = []
    for name, field in Settings.model_fields.items():
        default = "required" if field.is_required() else cli._default(field.default)
        shown = default if default in {"required", "unset"} else f"`{default}`"
        expected.append([f"`{variable(name)}`", shown, str(field.description)])

    assert expected == rows(section(OPERATING, "Settings"))


def test_every_policy_is_explained() -> None:
    said = [row[0].strip("`") for row in rows(section(OPERATING, "Where webhooks may go"))]

    assert [policy.value for policy in screening.Policy] == said
    assert set(said) == set(get_args(Settings.model_fields["webhook_policy"].annotation))


def test_every_metric_is_explained() -> None:
    code = text_of(ROOT / "penelope/http/metrics.py")
    counters = re.findall(r'CounterMetricFamily\(\s*"(\w+)"', code)
    gauges = set(re.findall(r'"(penelope_\w+)"', code)) - set(counters)

    assert gauges | {f"{name}_total" for name in counters} == words_of(
        [row for row in rows(section(OPERATING, "Metrics")) if row[0].startswith("`penelope")]
    )


def test_start_errors_are_the_words_of_the_code() -> None:
    """Each line that the page explains is one that the code says."""
    code = "".join(text_of(path) for path in (ROOT / "penelope").rglob("*.py"))
    joined = re.sub(r"\"\s*\n\s*f?\"", "", code)  # one message, written over two lines
    said = words_of(rows(section(OPERATING, "When it does not start")))

    assert len(said) >= 16
    assert [] == sorted(words for words in said if words not in joined)


def test_log_lines_are_the_words_of_the_code() -> None:
    code = "".join(text_of(path) for path in (ROOT / "penelope").rglob("*.py"))

    assert [] == sorted(
        words for words in words_of(rows(section(OPERATING, "Logs"))) if f'"{words}"' not in code
    )


def test_exit_codes_are_those_of_the_code() -> None:
    """2 is click's own for a wrong command line."""
    codes = {
        main.EXIT_OK,
        cli.EXIT_START_FAILED,
        click.UsageError.exit_code,
        main.EXIT_STUCK,
        main.EXIT_CUT_SHORT,
    }

    assert codes == {int(row[0]) for row in rows(section(OPERATING, "Exit codes"))}


# Jobs


def test_the_diagram_has_the_moves() -> None:
    """The picture of a job's life is the table of its moves."""
    (diagram,) = blocks(DOCS / "architecture.md", "mermaid")
    drawn = re.findall(r"^ *(\w+) --> (\w+)", diagram, re.MULTILINE)

    assert {(came.value, went.value) for came, went in transitions.MOVES} == set(drawn)
    assert {state.value for state in State} == set(re.findall(r"\w+(?= -->)|(?<=--> )\w+", diagram))


JOB_EXAMPLES = [
    (page.name, json.loads(block))
    for page in PAGES
    for block in blocks(page, "json")
    if '"state"' in block and '"delivery"' in block and '"jobs"' not in block
]


@pytest.mark.parametrize("example", [job for _, job in JOB_EXAMPLES], ids=[name for name, _ in JOB_EXAMPLES])
def test_jobs_are_shown_as_they_are(example: dict[str, Any]) -> None:
    """The same keys in the same order as a poll's, `null` where it has `null`, and the arithmetic is right."""
    way = Polling(600.0) if example["callback"] is None else Webhook(example["callback"])
    job = Job(
        job_id=example["job_id"],
        page_id=example["page_id"],
        plugin=example["plugin"],
        way=way,
        request_id="r",
        started_at=example["started_at"],
    )
    now = example["started_at"]
    if example["state"] != "running":
        done = transitions.finish(job, outcome_of(example), example["finished_at"])
        now, job = moment_of(done, example), done
    body = views.posted(job, now) if isinstance(way, Webhook) else views.shown(job, now)

    shown = json.loads(body)
    assert list(shown) == list(example)
    assert {**shown, "expires_in": None} == {**example, "expires_in": None}
    assert (
        shown["expires_in"] == pytest.approx(example["expires_in"], abs=1e-3) or shown["expires_in"] is None
    )


def test_the_list_of_jobs_is_as_it_is() -> None:
    """Each entry has what a poll shows, but for `success` and `result`."""
    (example,) = (json.loads(block) for block in blocks(API, "json") if '"jobs": [' in block)
    (entry,) = example["jobs"]
    (polled,) = (
        json.loads(block)
        for block in blocks(API, "json")
        if '"running"' in block and '"result"' in block and '"jobs"' not in block
    )
    assert [name for name in polled if name not in {"success", "result"}] == list(entry)
    assert entry.items() <= polled.items()
    job = Job(
        job_id=entry["job_id"],
        page_id="main",
        plugin=entry["plugin"],
        way=Polling(600.0),
        request_id="r",
        started_at=entry["started_at"],
    )
    assert list(views.listed(job, job.started_at).items()) == list(entry.items())


def outcome_of(example: dict[str, Any]) -> Outcome:
    return Outcome(example["status"], json.dumps(example["result"]))


def moment_of(job: Job, example: dict[str, Any]) -> float:
    """The moment at which the example was taken."""
    forgotten = schedule.forget_at(job)
    assert forgotten is not None
    now = forgotten - float(example["expires_in"])
    assert job.ended_at <= now <= forgotten
    return now


def test_the_answer_to_a_start_is_as_it_is() -> None:
    for page in (DOCS / "jobs.md", API):
        (example,) = (json.loads(block) for block in blocks(page, "json") if '"status_url"' in block)
        job = Job(
            job_id=example["job_id"],
            page_id="main",
            plugin="a/b",
            way=Polling(600.0),
            request_id="",
            started_at=0.0,
        )
        assert {"success": True, "page_id": "main", **views.accepted(job.job_id, job.way)} == example
        assert list(example)[2:] == list(views.accepted(job.job_id, job.way))


@pytest.mark.parametrize(
    ("word", "move"),
    [
        ('"interrupted"', transitions.interrupt),
        ('"cancelled"', transitions.cancel),
        ('"status": 408', transitions.time_out),
    ],
)
def test_a_job_that_was_cut_off_is_as_it_is(word: str, move: Callable[[Job, float], Job]) -> None:
    (example,) = (json.loads(block) for block in blocks(DOCS / "jobs.md", "json") if word in block)
    job = Job(
        job_id="0" * 16,
        page_id="main",
        plugin="a/b",
        way=Polling(1.0),
        request_id="",
        started_at=0.0,
        limit_s=90.0,
    )

    shown = json.loads(views.shown(move(job, 1.0), 1.0))
    assert example == {key: shown[key] for key in example}


def test_the_receivers_code_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It verifies what the worker signs, stores a job once, and refuses what is not the worker's."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks(DOCS / "jobs.md", "python"):
        exec(compile(block, "jobs.md", "exec"), names)
    key, body = names["KEY"], b'{"job_id": "5b1d82d4dc257267", "text": "\xe2\x82\xac"}'
    signed = {"X-Penelope-Signature": signing.sign(body, key)}

    assert signing.secret(key) == names["secret"]
    assert [204, 204] == [names["receive"](signed, body) for _ in range(2)]
    assert [401, 401, 401] == [
        names["receive"](signed, body + b" "),
        names["receive"]({}, body),
        names["receive"]({"X-Penelope-Signature": signing.sign(body, key + "x")}, body),
    ]
    assert [("5b1d82d4dc257267", body)] == names["inbox"].execute("SELECT * FROM jobs").fetchall()
    names["inbox"].close()


def test_the_events_of_a_job_are_as_they_are() -> None:
    """The example of the guide is what a viewer reads on the wire, but for what is left out of the end."""
    (example,) = (block for block in blocks(DOCS / "jobs.md", "text") if "event: state" in block)
    job = Job(
        job_id="5b1d82d4dc257267",
        page_id="main",
        plugin="instagram/get-following",
        way=Polling(600.0),
        request_id="r",
        started_at=1792844301.5,
    )
    done = transitions.finish(job, Outcome(200, "{}"), 1792844901.57)
    told = job_events.progress(0.5, "scrolled 100 of 200", 1792844305.25)
    wire = b"".join(
        (
            sse.retry(streaming.RETRY_MS),
            *sse.event("state", job_events.state(job, stopping=False), job_events.STATE_ID),
            *sse.event("progress", told, "14"),
            *sse.event("end", views.shown(done, done.ended_at), job_events.end_id(done)),
        )
    ).decode()

    shown, _, rest = example.partition(', "...": "..."}')
    assert wire.startswith(shown)
    assert not rest.strip()
    assert '"state": "done"' in shown


# Examples

# The owner's own lines, as the job specification has them.
BOTH_WAYS = """\
BASE=http://localhost:5000/api/v1
AUTH="Authorization: Bearer $PENELOPE_KEY"

# webhook: Penelope delivers the result to the client
curl -s -X POST "$BASE/main/plugin/instagram/open-account" -H "$AUTH" \\
  -H "X-Callback-Url: https://scheduler.lan/hooks/42" \\
  -H "Content-Type: application/json" -d '{"handle": "alice"}'

# polling: Penelope holds the result 10 minutes after the job ends
JOB=$(curl -s "$BASE/main/plugin/instagram/get-following" -H "$AUTH" \\
  -H "X-Result-Ttl: 600" | jq -r .job_id)
curl -s "$BASE/jobs/$JOB" -H "$AUTH"     # "state": "running", then "done"
"""


@pytest.mark.parametrize("page", [README, DOCS / "jobs.md"], ids=lambda page: page.name)
def test_both_ways_are_the_owners_lines(page: Path) -> None:
    """They work as they stand, with only host and key changed; the whole road is tried by tests/io."""
    assert BOTH_WAYS in "\n".join(blocks(page, "bash"))


CURLS = [
    (page.name, " ".join(line.split()))
    for page in PAGES
    for block in blocks(page, "bash")
    for line in re.findall(r"curl -s .*?(?=\||\)$|  #|$)", block.replace("\\\n", " "), re.MULTILINE)
]


@pytest.mark.parametrize(("page", "line"), CURLS, ids=[f"{page}-{at}" for at, (page, _) in enumerate(CURLS)])
def test_curl_lines_ask_for_something_that_is_there(
    page: str, line: str, document: dict[str, Any], worker: Worker
) -> None:
    """Route, method, key, content type, job headers and parameters are ones that the worker takes."""
    url, method, headers, body = parsed(line)
    path, _, query = url.removeprefix("http://localhost:5000").removeprefix("localhost:5001").partition("?")
    path = (
        path.replace("$BASE", "/api/v1").replace("$JOB", "{job_id}").replace("$LINK", "/api/v1/media/{token}")
    )
    path = re.sub(r"/api/v1/(main|second)(?=/|$)", "/api/v1/{page_id}", path)
    operation = document["paths"][path][method.lower()]

    assert ("security" in operation) == ("Authorization" not in headers)
    if body is not None:
        assert "application/json" == headers["Content-Type"]
    options.parse(headers.items())
    given = json.loads(body) if body else dict(part.split("=") for part in query.split("&") if part)
    if "/plugin/" in path:
        worker.registry[path.split("/plugin/")[1]].arguments(given)
    elif body is not None:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        assert set(schema.get("required", ())) <= given.keys() <= schema["properties"].keys()


def test_there_are_curl_lines_of_every_kind() -> None:
    """Else the test above would say nothing."""
    lines = [line for _, line in CURLS]

    assert len(lines) >= 15
    assert any("X-Callback-Url" in line and "-d" in line for line in lines)
    assert any("X-Result-Ttl" in line for line in lines)


def parsed(line: str) -> tuple[str, str, dict[str, str], str | None]:
    """URL, method, headers and body of a curl line."""
    written = line.replace("$AUTH", "Authorization: Bearer key").replace(
        "$JSON", "Content-Type: application/json"
    )
    words = shlex.split(written)
    assert ["curl", "-s"] == words[:2]
    url, method, headers, body = "", None, {}, None
    rest = iter(words[2:])
    for word in rest:
        match word:
            case "-X":
                method = next(rest)
            case "-H":
                name, _, value = next(rest).partition(": ")
                headers[name] = value
            case "-d":
                body = next(rest)
            case "-o":
                next(rest)
            case _:
                assert not word.startswith("-"), word
                url = word
    return url, method or ("GET" if body is None else "POST"), headers, body


PYTHON = [(page.name, block) for page in PAGES for block in blocks(page, "python")]


@pytest.mark.parametrize(
    "block", [block for _, block in PYTHON], ids=[f"{name}-{at}" for at, (name, _) in enumerate(PYTHON)]
)
def test_python_compiles_and_names_what_exists(block: str) -> None:
    """And what it imports is there."""
    tree = ast.parse(block)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            exec(compile(ast.Module([node], []), "docs", "exec"), {})


def test_plugins_of_the_pages_load(tmp_path: Path) -> None:
    """Each is one that the worker would take."""
    for at, block in enumerate(block for _, block in PYTHON if "@plugin(" in block):
        (tmp_path / f"block_{at}").mkdir()
        (tmp_path / f"block_{at}" / "example.py").write_text(block)
        own = set(registry.load([tmp_path / f"block_{at}"])) - set(registry.load(()))
        assert set(re.findall(r'@plugin\("([^"]+)"\)', block)) == own


def test_the_plugin_of_the_readme_is_the_one_that_is_tested() -> None:
    code = text_of(DOCS / "examples" / "headlines.py")

    assert code in blocks(README, "python")
    assert code in blocks(DOCS / "writing-plugins.md", "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 16


def test_the_plugin_of_the_readme_works() -> None:
    """On a real page: as its own page shows how to test it."""
    plugin = registry.load([DOCS / "examples"])["news/headlines"]

    async def run() -> None:
        async with open_page() as page:
            site = "https://news.example/"
            await page.route(
                site, lambda route: route.fulfill(body="<h1>One</h1><h2>Two</h2>", content_type="text/html")
            )
            whole = await run_plugin(plugin, page, url=site)
            cut = await run_plugin(plugin, page, url=site, limit=1)
            with pytest.raises(errors.BadParameter):
                await run_plugin(plugin, page, url="file:///etc/hostname")
        assert {"success": True, "page_id": "main", "headlines": ["One", "Two"]} == whole.answer
        assert [(1.0, "2 found")] == whole.progress
        assert ["One"] == cut.answer["headlines"]

    asyncio.run(run())


def test_the_test_of_the_plugins_page_works(monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = (block for block in blocks(DOCS / "writing-plugins.md", "python") if "open_page" in block)
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}

    exec(compile(block, "writing-plugins.md", "exec"), names)
    names["test_limit_cuts_the_list"]()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_json_is_json(page: Path) -> None:
    for block in blocks(page, "json"):
        json.loads(block)
    for block in blocks(page, "toml"):
        tomllib.loads(block)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_commands_are_there(page: Path) -> None:
    """Each `penelope …` in code names a command, with options that it has; each script exists."""
    code = "\n".join([*blocks(page, "bash"), *ticked(text_of(page))])
    for found in re.finditer(r"^(?:[A-Z_]+=\S+ )*penelope( .*)?$", code, re.MULTILINE):
        words = shlex.split(found[1] or "", comments=True)
        command: click.Command = cli.main
        while words and isinstance(command, click.Group):
            command = command.commands[words.pop(0)]
        taken = {"--help", "--version"}.union(*(parameter.opts for parameter in command.params))
        assert {word for word in words if word.startswith("--")} <= taken, found[0]
    for script in re.findall(r"(?<![\w/.-])script/[\w.]+", text_of(page)):
        assert (ROOT / script).is_file(), script


def test_the_picture_is_of_the_demo() -> None:
    """It shows the steps that the demo has now; `script/picture.py` makes it anew."""
    picture = re.sub(r"<[^>]+>", "", text_of(DOCS / "demo.svg")).replace("&#160;", " ")
    steps = re.findall(r'_show\.step\("(.+?)"\)', text_of(ROOT / "penelope/demo/steps.py"))

    assert len(steps) >= 5
    assert [] == [step for step in steps if step not in picture]
    assert "Everything worked" in picture
    assert not re.search(
        r"https?://(?!127\.0\.0\.1|www\.w3\.org|www\.textualize\.io)", text_of(DOCS / "demo.svg")
    )


def test_the_nursery_tree_has_the_names_of_the_tasks() -> None:
    """What the architecture draws is what the code starts."""
    (tree,) = (block for block in blocks(DOCS / "architecture.md", "text") if "trio.run" in block)
    code = "".join(
        text_of(ROOT / "penelope" / module)
        for module in ("main.py", "worker.py", "jobs/nurseries.py", "store/database.py")
    )
    named = set(re.findall(r'name="([a-z ]+)"', code))

    assert {"sweep", "clock", "request log", "owed ends", "signals", "server", "stuck watch"} <= named
    assert [] == sorted(name for name in named if name not in tree)


def test_the_tree_has_every_room() -> None:
    """Each module and package of `penelope/`, and each module of its inner packages' pure core and IO."""
    tree = section(DOCS / "architecture.md", "The tree")
    rooms = {path.stem for path in (ROOT / "penelope").iterdir() if path.suffix == ".py" or path.is_dir()}
    jobs = {path.stem for path in (ROOT / "penelope/jobs").glob("*.py")} - {"__init__"}

    assert [] == sorted(room for room in rooms - {"__pycache__"} if not re.search(rf"\b{room}\b", tree))
    assert [] == sorted(module for module in jobs if not re.search(rf"\b{module}\b", tree))


def test_the_floors_are_those_of_the_contracts() -> None:
    """The layers that the architecture lists are those that import-linter holds, without the planned ones."""
    config = tomllib.loads(text_of(ROOT / "pyproject.toml"))
    (layers,) = (
        contract["layers"]
        for contract in config["tool"]["importlinter"]["contracts"]
        if contract["id"] == "layers"
    )
    there = [re.sub(r"\(\w+\) \| | \| \(\w+\)", "", layer) for layer in layers]
    (line,) = re.findall(r"^`__main__`.*?\n\n", text_of(DOCS / "architecture.md"), re.MULTILINE | re.DOTALL)

    assert [layer for layer in there if not layer.startswith("(")] == re.findall(r"`([^`]+)`", line)


def test_the_client_is_explained() -> None:
    """Each name of its door, each method of a client, of a job and of a run, and each of their fields has its place."""
    page = text_of(DOCS / "client.md")
    methods = {
        name
        for kind in (client.Client, client.JobHandle, client.RunHandle, Runs)
        for name in vars(kind)
        if not name.startswith("_") and name != "close"
    }
    fields = (client.Job.model_fields.keys() | client.Run.model_fields.keys()) - {"page_id", "plugin"}

    wanted = {*client.__all__, *methods, *fields} - {
        "AsyncJobHandle",
        "JobHandle",
        "AsyncRunHandle",
        "RunHandle",
    }
    wanted -= {
        "Delivery",
        "Event",
        "Job",
        "Media",
        "Posted",
        "Progress",
        "Run",
    }  # values, that are told by their fields
    assert [] == sorted(name for name in wanted if not re.search(rf"\b{name}\b", page))
    assert vars(client.Client).keys() - {"close"} >= methods & vars(client.AsyncClient).keys()


def test_both_clients_have_the_same_methods() -> None:
    """Names, parameters and defaults; the asynchronous one is awaited."""
    for one, other in (
        (client.Client, client.AsyncClient),
        (client.JobHandle, client.AsyncJobHandle),
        (client.RunHandle, client.AsyncRunHandle),
        (Runs, AsyncRuns),
    ):
        for name in {*vars(one), *vars(other)} - {"close", "aclose", "events"}:
            if not name.startswith("_"):
                ours, theirs = (inspect.signature(getattr(kind, name)).parameters for kind in (one, other))
                assert [(each.name, each.kind, each.default) for each in ours.values()] == [
                    (each.name, each.kind, each.default) for each in theirs.values()
                ], name


def test_states_of_a_page_are_explained(document: dict[str, Any]) -> None:
    """And the words of `/activity`."""
    shown = document["paths"]["/api/v1/{page_id}"]["get"]["responses"]["200"]["content"]["application/json"][
        "schema"
    ]
    doing = document["paths"]["/api/v1/activity"]["get"]["responses"]["200"]["content"]["application/json"][
        "schema"
    ]

    assert set(shown["properties"]["state"]["enum"]) <= ticked(section(API, "Pages"))
    explained = section(API, "`GET /api/v1/activity`")
    assert set(doing["properties"]["pressure"]["properties"]["why"]["enum"]) <= ticked(explained)
    assert doing["properties"].keys() - {"success"} <= words_of(rows(explained))
    assert set(get_args(Settings.model_fields["log"].annotation)) >= {"json", "text"}
