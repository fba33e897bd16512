"""The patterns of secrets in one table, each with an example and the public page that defines it.

The check of the YAML files rejects text that matches a pattern. `redact.py` blanks the same patterns, and more, in all
output. The group `secret` of a pattern is the secret itself.
"""

import re
from dataclasses import dataclass, field

BLANK = "***"
"""Replacement of a secret."""

_VALUE = r"(?!\*\*\*|<|\{\{|\$[({]|\$\w+(?:[@\s\"'&;\\]|$)|\{\w*\}|%\()"
"""Excludes text that is not a secret: blanked text, or a variable or placeholder that a shell or a person fills in."""
_TEXT = r"[^\s\"'<>\\]"
"""A character of a URL or a word; other characters end it, also in nested JSON."""
_QUOTE = r"(?:\\*[\"'])?"
_NEXT = r"(?:=|\s+|\\*[\"'],\s*\\*[\"'])"
"""Separator between a command-line option and its value, in a command line or in a list."""
_RANDOM = r"(?:(?=[\w\-]*\d)(?=[\w\-]*[a-z])(?=[\w\-]*[A-Z])[\w\-]{20,}|[0-9a-f]{32,})"

_PASSWORDS = r"pass(?:word|wd|phrase)?|pwd|sslpassword|credentials?"
_TOKENS = r"(?:(?:access|auth|api|bearer|id|refresh|sas|security|session)[-_]?)?token|auth|authorization"
_KEYS = (
    r"(?:(?:client|app|shared)[-_]?)?secret|"
    r"(?:api|app|access|account|shared[-_]?access|secret|private|subscription|secret[-_]?access)[-_]?key"
)
_SIGNATURES = (
    r"sig|signature|awsaccesskeyid|x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)"
)
_NAMES = f"{_PASSWORDS}|{_TOKENS}|{_KEYS}|{_SIGNATURES}"
"""Names of parameters of a URL or a connection string whose values are secrets."""
_HOST_KEY = re.compile(
    r"(?i)(?:^|[;?&\s\"'])(?:driver|server|data source|dsn|database|initial catalog|uid|user(?: id)?|username|"
    r"host|hostaddr|dbname|port|endpoint|accountname|defaultendpointsprotocol|odbc_connect)\s*="
)
_CLIENT = re.compile(
    r"\b(?:curl|wget|http|https|httpie|psql|mysql|mysqldump|mongosh?|redis-cli|smbclient|lftp|sqlcmd)\b"
)
_SETTING = re.compile(
    r"(^|_)(pass(word|wd|phrase)?|pwd|secret|(secret|api|access|account|private|subscription|signing|encryption)_?key|"
    r"credentials?|token|sas|connection_string|dsn)$",
    re.IGNORECASE,
)
_NO_SECRETS = ("", "true", "false", "yes", "no", "on", "off", "none", "null", BLANK)


@dataclass(frozen=True)
class Shape:
    """One shape of a secret.

    name: for messages, with an article. pattern: finds it; its group `secret` is the secret. example: text with such a
    secret. source: title of the public page that defines the shape. required_context: a pattern that must also match
    the same text for the YAML check to be certain; None requires nothing.
    """

    name: str
    pattern: re.Pattern[str]
    example: str
    source: str
    required_context: re.Pattern[str] | None = field(default=None)


def _shape(
    name: str, pattern: str, example: str, source: str, required_context: re.Pattern[str] | None = None
) -> Shape:
    return Shape(name, re.compile(pattern), example, source, required_context)


def _token(name: str, pattern: str, example: str, source: str) -> Shape:
    """Returns the shape of a token with an issuer-specific prefix."""
    return _shape(name, rf"(?<![A-Za-z0-9_])(?P<secret>{pattern})", example, source)


def _query(name: str, keys: str, example: str, source: str) -> Shape:
    """Returns the shape of a query parameter of a URL."""
    return _shape(name, rf"(?i)[?&;](?:{keys})=(?P<secret>{_VALUE}[^&#;\s\"'<>\\]+)", example, source)


_LOGIN = rf":///?(?P<secret>(?![A-Za-z]:/)[^\s\"'<>\\:/?#@\[]*:(?!\d{{1,5}}[/?#]){_VALUE}{_TEXT}+)@"

SHAPES: tuple[Shape, ...] = (
    _shape("an address with a login in it", _LOGIN, "postgresql://me:hunter2@db/trips", "RFC 3986, 3.2.1"),
    _shape("an address with a login in it", _LOGIN, "postgresql://me:pa/ss@db/trips", "SQLAlchemy, Database URLs"),
    _shape("an address with a login in it", _LOGIN, "mongodb+srv://me:p@ss@db/trips", "MongoDB, Connection Strings"),
    _shape("an address with a password in it", _LOGIN, "redis://:hunter2@cache:6379/0", "Redis, redis-cli URIs"),
    _shape("an address with a login in it", _LOGIN, "sftp://me:hunter2@files/trips.csv", "fsspec, SFTPFileSystem"),
    _shape(
        "a token as a user name",
        rf"(?<!abfs)(?<!abfss)(?<!wasb)(?<!wasbs)://(?P<secret>{_RANDOM})@",
        "https://" + "tK9" * 8 + "@git.example.com/trips.csv",
        "GitHub, Managing personal access tokens",
    ),
    _query(
        "a password in the query of an address",
        _PASSWORDS,
        "postgresql://db/trips?user=me&password=hunter2",
        "PostgreSQL, 34.1.1.2 Connection URIs",
    ),
    _query("a token in the query of an address", _TOKENS, "https://x.org/a.csv?access_token=hunter2", "RFC 6750, 2.3"),
    _query("a key in the query of an address", _KEYS, "https://x.org/a.csv?api_key=hunter2", "OpenAPI, API Keys"),
    _shape(
        "a key in the query of an address",
        rf"(?i:[?&](?:key|code)=)(?P<secret>{_RANDOM})(?![\w\-./])",
        "https://x.org/api/f?code=" + "aB3-" * 8,
        "Azure Functions, Access keys",
    ),
    _query(
        "a shared access signature",
        _SIGNATURES,
        "https://a.blob.example/c?sv=2024&sig=hunt%2Ber2",
        "Azure, Account SAS",
    ),
    _query(
        "a presigned address",
        _SIGNATURES,
        "https://b.s3.example/k?X-Amz-Signature=hunter2",
        "AWS, Signature V4 queries",
    ),
    _query(
        "a presigned address", _SIGNATURES, "https://b.s3.example/k?X-Amz-Security-Token=hunter2", "AWS, Signature V4"
    ),
    _query(
        "a presigned address",
        _SIGNATURES,
        "https://b.s3.example/k?AWSAccessKeyId=AKID&Signature=hunter2",
        "AWS, V2 queries",
    ),
    _query(
        "a signed address", _SIGNATURES, "https://g.example/b/k?X-Goog-Signature=hunter2", "Cloud Storage, Signed URLs"
    ),
    _query(
        "a signed address", _SIGNATURES, "https://d.example/k?Expires=1&Signature=hunter2&Key-Pair-Id=K", "CloudFront"
    ),
    _query(
        "a password in a connection string",
        _PASSWORDS,
        "jdbc:sqlserver://db:1433;user=me;password=hunter2",
        "Microsoft JDBC, Building the connection URL",
    ),
    _shape(
        "a password in a connection string",
        rf"(?i)(?:^|[;\s\"'=?&])(?:{_NAMES})=(?P<secret>{{[^}}]*}}|{_VALUE}[^;&\s\"'\\]+)",
        "Driver={ODBC Driver 18};Server=db;UID=me;PWD=hunter2",
        "Microsoft ODBC, DSN and connection string keywords",
        _HOST_KEY,
    ),
    _shape(
        "a password in an encoded connection string",
        rf"(?i)(?:%3B|\+|=|%20)(?:{_NAMES})%3D(?P<secret>(?:(?!%3B)[^&\s\"'\\])+)",
        "mssql+pyodbc:///?odbc_connect=Server%3Ddb%3BPWD%3Dhunter2%3B",
        "SQLAlchemy, Pass through exact pyodbc string",
    ),
    _shape(
        "a password in a connection string",
        rf"(?i)(?:^|[;\s\"'=?&])(?:{_NAMES})=(?P<secret>{{[^}}]*}}|{_VALUE}[^;&\s\"'\\]+)",
        "host=db dbname=trips user=me password=hunter2",
        "PostgreSQL, 34.1.1.1 Keyword/Value strings",
        _HOST_KEY,
    ),
    _shape(
        "an account key",
        rf"(?i)(?:AccountKey|SharedAccessKey|SharedAccessSignature)=(?P<secret>{_VALUE}[^;\s\"'\\]+)",
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=hunter2==",
        "Azure, Configure connection strings",
    ),
    _shape(
        "an Authorization header",
        rf"(?i)authorization{_QUOTE}\s*[:=]\s*{_QUOTE}(?:(?:bearer|basic|token|digest|apikey|key)\s+)?"
        rf"(?P<secret>{_VALUE}(?!(?:bearer|basic|token|digest|apikey|key)\s){_TEXT}{{4,}})",
        "Authorization: Bearer hunter2",
        "RFC 9110, 11.6.2",
    ),
    _shape(
        "a header with a key",
        rf"(?i)(?:x-api-key|x-auth-token|x-vault-token|private-token|api-key|x-goog-api-key|"
        rf"ocp-apim-subscription-key|x-functions-key|(?<!\w)cookie)\s*:\s*(?P<secret>{_VALUE}{_TEXT}{{4,}})",
        "X-Api-Key: hunter2",
        "GitLab, REST API authentication",
    ),
    _shape(
        "a login as an option of a command",
        rf"(?:^|[\s\"'])(?:-u|--user|--proxy-user){_NEXT}(?P<secret>[^\s:\"'/\\]*:{_VALUE}{_TEXT}+)",
        "curl -u me:hunter2 https://x.org",
        "curl, manual page, --user",
        _CLIENT,
    ),
    _shape(
        "a secret as an option of a command",
        rf"(?i)(?:^|[\s\"'])--?(?:\w+-)*(?:password|passwd|token|api[-_]?key|secret|secret-access-key|access-key)"
        rf"{_NEXT}(?P<secret>{_VALUE}(?!-){_TEXT}+)",
        "notify --token hunter2",
        "POSIX, 12.1 Utility Argument Syntax",
    ),
    _shape(
        "a password as an option of a command",
        rf"\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^|;]*?\s-p(?P<secret>{_VALUE}{_TEXT}+)",
        "mysql -u me -phunter2 trips",
        "MySQL, End-User Guidelines for Password Security",
    ),
    _token("a token of GitHub", r"gh[pousr]_[A-Za-z0-9]{30,}", "gh" + "p_" + "a1B2c3" * 6, "GitHub, token formats"),
    _token("a token of GitHub", r"github_pat_\w{40,}", "github" + "_pat_" + "a1B2c3_" * 8, "GitHub, token formats"),
    _token("a token of GitLab", r"glpat-[\w\-]{20,}", "gl" + "pat-" + "a1B2c3" * 4, "GitLab, Token overview"),
    _token("a token of Slack", r"xox[abeoprs]-[\w\-]{10,}", "xo" + "xb-" + "1234567890-" * 2, "Slack, Token types"),
    _shape(
        "the address of a webhook, which is its password",
        r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>[\w/]{8,})",
        "https://hooks.slack." + "com/services/T0/B0/hunter2hunter2",
        "Slack, Incoming webhooks",
    ),
    _shape(
        "the address of a webhook, which is its password",
        r"discord(?:app)?\.com/api/webhooks/(?P<secret>\d+/[\w\-]{8,})",
        "https://discord." + "com/api/webhooks/12345/hunter2hunter2",
        "Discord, Webhook resource",
    ),
    _shape(
        "the address of a webhook, which is its password",
        r"(?:webhook\.office\.com|outlook\.office\.com)/webhook(?:b2)?/(?P<secret>[^\s\"'<>\\]{8,})",
        "https://x.webhook.office." + "com/webhookb2/hunter2@t/IncomingWebhook/a/b",
        "Microsoft Teams, Incoming webhooks",
    ),
    _shape(
        "the address of a bot, which holds its token",
        r"api\.telegram\.org/bot(?P<secret>\d+:[\w\-]{8,})",
        "https://api.telegram." + "org/bot12345:hunter2hunter2/sendMessage",
        "Telegram, Bot API",
    ),
    _token(
        "an access key of AWS",
        r"A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Z0-9])",
        "AK" + "IA" + "ABCD1234" * 2,
        "AWS, IAM identifiers",
    ),
    _token("a key of Google", r"AIza[\w\-]{35}", "AI" + "za" + "a1B2c" * 7, "Google Cloud, API keys"),
    _token("a token of Google", r"ya29\.[\w\-]{20,}", "ya" + "29." + "a1B2c" * 6, "Google, OAuth 2.0 tokens"),
    _token(
        "a token of Hugging Face", r"hf_[A-Za-z0-9]{30,}", "h" + "f_" + "aBcDeF" * 6, "Hugging Face, User access tokens"
    ),
    _token("a token of Databricks", r"dapi[0-9a-f]{32}", "da" + "pi" + "0123456789abcdef" * 2, "Databricks, PAT"),
    _token("a key of Stripe", r"[sr]k_live_[A-Za-z0-9]{16,}", "sk" + "_live_" + "a1B2" * 6, "Stripe, API keys"),
    _token(
        "a key of OpenAI or Anthropic",
        r"sk-(?:ant-|proj-)?[\w\-]{24,}",
        "sk" + "-proj-" + "a1B2" * 8,
        "OpenAI, API keys",
    ),
    _token(
        "a key of SendGrid",
        r"SG\.[\w\-]{16,}\.[\w\-]{16,}",
        "S" + "G." + "a1B2" * 5 + "." + "a1B2" * 8,
        "SendGrid, API keys",
    ),
    _token("a token of Vault", r"hvs\.[\w\-]{20,}", "hv" + "s." + "a1B2" * 8, "Vault, Tokens"),
    _token("a token of npm", r"npm_[A-Za-z0-9]{36}", "np" + "m_" + "a1B2c3" * 6, "npm, About access tokens"),
    _token("a token of a package index", r"pypi-[\w\-]{20,}", "py" + "pi-" + "a1B2" * 8, "PyPI, API tokens"),
    _token(
        "a signed token (JWT)",
        r"eyJ[\w\-]{8,}\.eyJ[\w\-]{4,}\.[\w\-]{4,}",
        "ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxIn0.hunter2hunter2",
        "RFC 7519",
    ),
    _shape(
        "a private key",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?P<secret>(?:(?!-----END)[\s\S])+)",
        "-----BEGIN PRIVATE " + "KEY-----\nhunter2\n-----END PRIVATE KEY-----",
        "RFC 7468, 10",
    ),
)
"""All shapes; the first matching shape names the secret."""


def find_shape(text: str) -> Shape | None:
    """Returns the first shape that matches a value of a YAML file, or None.

    Example:
        >>> find_shape("postgresql://me:hunter2@db/trips").name
        'an address with a login in it'
        >>> find_shape("postgresql://me@db/trips?sslmode=require") is None
        True
    """
    return next(
        (
            s
            for s in SHAPES
            if s.pattern.search(text) and (s.required_context is None or s.required_context.search(text) is not None)
        ),
        None,
    )


def is_secret_setting(name: str, value: object) -> bool:
    """Returns whether a setting of this name with this value is a secret: `DB_PASS: hunter2`, not `DB_PASS: ""`.

    Example:
        >>> is_secret_setting("ALERT_TOKEN", "abc"), is_secret_setting("ALLOW_EMPTY_PASSWORD", "yes")
        (True, False)
    """
    if value is None or isinstance(value, bool) or (isinstance(value, str) and value.lower() in _NO_SECRETS):
        return False
    return _SETTING.search(name.replace("-", "_")) is not None
