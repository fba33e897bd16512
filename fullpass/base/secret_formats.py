"""The patterns of secrets in one table, each with the public page that defines it.

The check of the YAML files rejects text that matches a pattern. `redact.py` blanks the same patterns, and more, in all
output. The group `secret` of a pattern is the secret itself. Searching takes time in proportion to the text: what a
pattern repeats ends where another match of the same pattern could begin, or has a bound.
"""

import re
from dataclasses import dataclass

BLANK = "***"
"""Replacement of a secret."""

_UNFILLED = r"\*\*\*|\.\.\.|<|`|\{\{|\$[({]|\$\w+(?:[@\s\"'&;,)\]}\\]|$)|\{\w*\}|%\("
"""Text that is not a secret: blanked text, or a variable or placeholder that a shell or a person fills in."""
_VALUE = rf"(?!=|{_UNFILLED})"
"""Excludes such text, and a comparison."""
_TEXT = r"[^\s\"'<>\\]"
"""A character of a URL or a word; other characters end it, also in nested JSON."""
_QUOTE = r"(?:\\*[\"'])?"
_NEXT = rf"(?:=|{_QUOTE}(?:,\s*|\s+(?:-\s+)?)){_QUOTE}"
"""Separator between a command-line option and its value, in a command line or in a list."""
_WORD = rf"(?:(?<=\")(?:[^\"\\\n]|\\')+|(?<=')(?:[^'\\\n]|\\\")+|{_TEXT}+)"
"""A value, up to its closing quote if it begins after a quote."""
_IN_QUOTES = r"(?:\\(?P=quote)|(?P=quote){2}|(?!(?P=quote)|\n)[\s\S]){1,1000}"
"""A value up to the quote that ends it, which is not an escaped or a doubled one."""
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_RANDOM = rf"(?:(?=[\w\-]*\d)(?=[\w\-]*[a-z])(?=[\w\-]*[A-Z])[\w\-]{{20,}}|[0-9a-f]{{32,}}|{_UUID})"

_NOT_A_PATH = r"(?!\W{0,3}[/~])"
_COMPOUND = (
    rf"pass(?:word|wd|phrase|code)|(?:pwd|credentials?|private[-_]?key){_NOT_A_PATH}|credentials?_(?:base64|json|info)|"
    r"(?:client|app|shared|consumer|key)[-_]?secret|secret[-_]?(?:key[-_]?base|id)|shared[-_]?access[-_]?signature|"
    r"(?:access|auth|api|bearer|id|refresh|sas|security|session)[-_]?token|(?:gh|github|gitlab|devops[-_]ext)[-_]pat|"
    r"rediscli[-_]auth|(?:api|app|access|account|auth|encryption|license|master|secret|shared|signing|subscription|"
    r"routing|integration)[-_]?key"
)
"""Ends of names that mean secrets, also after other letters, as in PGPASSWORD."""
_NO_TOKEN = (
    r"(?!(?:\w*_)?(?:pad|unk|unknown|eos|bos|sep|cls|mask|oov|start|end|next|page|continuation|stop|special)_?token)"
)
_NAME = rf"{_NO_TOKEN}(?:[\w\-.]*?(?:{_COMPOUND})|(?:[\w\-.]*?[_\-.]|ssh)?(?:pass|secret|token))"
"""Names of variables, options, parameters and keys whose values are secrets; whatever follows must not be a letter."""
_SETTING = re.compile(rf"(?i)(?:{_NAME}|(?:[\w\-.]*[_\-.])?(?:sas|dsn|connection[-_]string))=")
_NO_SECRETS = ("", "true", "false", "yes", "no", "on", "off", "none", "null", BLANK)
_QUERY = (
    rf"{_NAME}|auth|authorization|sig|signature|awsaccesskeyid|x-amz-(?:signature|credential)|"
    r"x-goog-(?:signature|credential)"
)
_NO_CONDITION = "(?<!WHERE )(?<!AND )(?<!OR )(?<!ON )"
"""Excludes conditions of SQL, which compare by the same sign."""
_ASSIGNED = rf"(?<![\w\-.]){_NO_CONDITION}(?=[\w\-.]+{_QUOTE}[ \t]*:?=)(?:{_NAME}){_QUOTE}"
"""A name with a value behind `=`, which may have blanks around it, as in INI files and in programs."""
_INNER_QUOTE = r"'(?=[\w%+.~!$&(*=@:\-])"
"""A quote within a login, which RFC 3986 permits: what ends a word does not follow it."""
_QUOTED = rf"(?P<quote>\\*[\"'])(?P<secret>{_VALUE}{_IN_QUOTES})"
_ENDS_WORD = r"(?:[\s\"',;()\[\]{}]|$)"
_BEFORE_ASSIGNMENT = r"(?<![^;\s\"'=?&(`])"
_CLIENT = re.compile(
    r"(?i)(?:^|[;?&\s\"'])(?:driver|server|data source|dsn|database|initial catalog|uid|user(?: id)?|username|"
    r"host|hostaddr|dbname|port|endpoint|accountname|defaultendpointsprotocol|odbc_connect|accountkey|shared\w*)\s*=|"
    r"\b(?:curl|wget|http|https|httpie|psql|mysql|mysqldump|mongosh?|redis-cli|smbclient|lftp|sqlcmd|export|env)\b"
)
"""What stands in connection strings, or in command lines that send logins."""


@dataclass(frozen=True)
class Shape:
    """One shape of a secret.

    name: for messages, with an article. pattern: finds it; its group `secret` is the secret. source: title of the
    public page that defines the shape. required_context: a pattern that must also match the same text for the YAML
    check to be certain; None requires nothing.
    """

    name: str
    pattern: re.Pattern[str]
    source: str
    required_context: re.Pattern[str] | None = None


def _shape(name: str, pattern: str, source: str, required_context: re.Pattern[str] | None = None) -> Shape:
    return Shape(name, re.compile(pattern), source, required_context)


_LOGIN = rf"(?:docker|podman|nerdctl|buildah|skopeo|helm|oras|az)(?:{_NEXT}[\w\-./:=]{{1,60}}){{0,4}}{_NEXT}login"
_PASSWORD_OPTIONS = (
    (r"mysql|mysqldump|mysqladmin|mariadb\w*", "-p"),
    (rf"sshpass|7z\w?|mongo|mongosh|mongodump|beeline|{_LOGIN}", f"-p(?:{_NEXT})?"),
    (r"sqlcmd|bcp|zip|unzip|mosquitto_pub|mosquitto_sub", f"-P(?:{_NEXT})?"),
    (r"redis-cli|ldap(?:search|modify|add)", f"-[aw]{_NEXT}"),
)
"""Programs, and their option of one letter that a password follows."""
_PASSWORD_OPTION = "|".join(rf"\b(?:{programs})\b[^|;&]{{0,200}}?[\s\"'\[,]{o}" for programs, o in _PASSWORD_OPTIONS)

_ENDS_VALUE = r"\s\"',{}\[\]*$<\\"
"""Characters that end a plain value in YAML or JSON."""


def after_colon(names: str) -> str:
    """Returns the pattern of a value in YAML or JSON that is neither a number nor a plain word, such as a type.

    Example:
        >>> re.search(after_colon("pin"), "pin: x-1")["secret"], re.search(after_colon("pin"), "pin: number")
        ('x-1', None)
    """
    return (
        rf"(?i)(?<![\w\-.])(?=[\w\-.]+{_QUOTE}\s*:)(?:{names}){_QUOTE}\s*:\s*(?P<quote>\\*[\"'])?"
        rf"(?![\d.]+(?:[\s\"',}}\\]|$)|\w[\w+.\-]*://)(?P<secret>{_VALUE}(?(quote)(?![a-z_ ]+(?P=quote)){_IN_QUOTES}|"
        rf"(?=[^{_ENDS_VALUE}]*[^a-z_{_ENDS_VALUE}])[^{_ENDS_VALUE}]+))"
    )


SETTING_IN_YAML = re.compile(after_colon(_NAME))
"""A setting in YAML text."""

_GENERAL = (
    _shape(
        "an address with a login in it",
        # A password ends at the next `://`; else a text of many addresses without `@` would be read once for each.
        rf":///?(?P<secret>(?![A-Za-z]:/)(?:[^\s\"'<>\\:/?#@\[]|{_INNER_QUOTE})*:(?!\d{{1,5}}[/?#])(?!{_UNFILLED})"
        rf"(?:[^\s\"'<>\\:]|:(?!//)|{_INNER_QUOTE})+)@",
        "RFC 3986, 3.2.1",
    ),
    _shape(
        "a token as a user name",
        rf"(?<!abfs)(?<!abfss)(?<!wasb)(?<!wasbs)://(?P<secret>{_RANDOM})@",
        "GitHub, Managing personal access tokens",
    ),
    _shape(
        "a secret in the query of an address",
        rf"(?i)[?&;](?:{_QUERY})=(?P<secret>{_VALUE}[^&#;\s\"'<>\\]+)",
        "RFC 6750, 2.3; PostgreSQL, Connection URIs; Azure, Account SAS; AWS, Signature V4; Cloud Storage, Signed URLs",
    ),
    _shape(
        "a key in the query of an address",
        rf"(?i:[?&](?:key|code)=)(?P<secret>{_RANDOM})(?![\w\-./])",
        "Azure Functions, Access keys",
    ),
    _shape(
        "a secret in quotes",
        rf"(?i){_ASSIGNED}[ \t]*(?:=>?|:=)[ \t]*[bfru]{{0,2}}{_QUOTED}",
        "PostgreSQL, Keyword/Value Connection Strings; Kafka, JAAS configuration",
    ),
    _shape(
        "a secret in a setting",
        rf"(?i){_ASSIGNED}(?:[ \t]+:?=[ \t]*|:?=[ \t]+)(?![./~]|[a-z_.]+{_ENDS_WORD}|[-+\d.,e]+{_ENDS_WORD})"
        rf"(?P<secret>{_VALUE}[^\s\"',;()\[\]{{}}<>\\]++)(?![(\[])",
        "AWS CLI, Configuration and credential file settings",
    ),
    _shape(
        "a password in a connection string",
        rf"(?i){_BEFORE_ASSIGNMENT}(?=[\w\-.]+=)(?:{_NAME})=(?P<secret>{{[^{{}}]*}}|{_VALUE}[^;&\s\"'\\]+)",
        "Microsoft ODBC, DSN and connection string keywords; PostgreSQL, Keyword/Value strings",
        _CLIENT,
    ),
    _shape(
        "a password in an encoded connection string",
        rf"(?i)(?:%3B|\+|=|%20)(?:{_NAME})%3D(?P<secret>(?:(?!%3B)[^&\s\"'\\])+)",
        "SQLAlchemy, Pass through exact pyodbc string",
    ),
    _shape(
        "a secret in a variable of a command",
        rf"{_BEFORE_ASSIGNMENT}{_NO_CONDITION}(?=[A-Z_][A-Z0-9_]*=)(?i:{_NAME})={_QUOTE}"
        rf"(?P<secret>{_VALUE}(?:(?<=[\"'])[^\"'\\\n]+|[^;&\s\"'\\)]+))",
        "POSIX, 2.9.1 Simple Commands",
    ),
    _shape(
        "a secret as a word of a command",
        rf"(?i)\b(?:(?:config(?:ure)?(?:[ \t]+--?\w[\w\-]*)?(?:{_NEXT}(?:set|add))?|setx){_NEXT}"
        rf"(?=[\w\-./:]+[\s,\"'\\])(?:[\w\-./:]*[./:])?(?:{_NAME})|(?:login|user)[ \t]+\S{{1,200}}\s+password)"
        rf"{_NEXT}(?P<secret>{_VALUE}(?!-|[a-z_]+{_ENDS_WORD}){_WORD})",
        "AWS CLI, configure set; curl, .netrc",
    ),
    _shape(
        "a password in SQL",
        rf"(?i)\b(?:identified\s+(?:with\s+\w+\s+)?by|with\s+(?:encrypted\s+)?password)\s+{_QUOTED}",
        "PostgreSQL, CREATE ROLE; MySQL, CREATE USER",
    ),
    _shape(
        "a secret in XML",
        rf"(?i)<(?=[\w\-.:]+[ >])(?:{_NAME})(?: [^<>]{{0,200}})?>\s*(?P<secret>{_VALUE}[^<>\s][^<>]*)</",
        "Maven, Settings Reference, Servers",
    ),
    _shape(
        "an Authorization header",
        rf"(?i)authorization{_QUOTE}\s*[:=]\s*{_QUOTE}(?:(?:bearer|basic|token|digest|apikey|key)\s+)?"
        rf"(?P<secret>{_VALUE}(?!(?:bearer|basic|token|digest|apikey|key)[\s`.,;)]){_TEXT}{{4,}})",
        "RFC 9110, 11.6.2",
    ),
    _shape(
        "a header with a key",
        rf"(?i)(?<![\w\-.])(?=[\w.]*-[\w\-.]*\s*:)(?:{_NAME}|x-functions-key)\s*:\s*(?P<secret>{_VALUE}{_TEXT}{{4,}})",
        "GitLab, REST API authentication",
    ),
    _shape("a cookie", rf"(?i)(?<!\w)cookie\s*:\s*(?P<secret>{_VALUE}[^\s\"'\\][^\"'\\\n]{{3,}})", "RFC 6265, 4.2"),
    _shape(
        "a login as an option of a command",
        rf"(?<![\w\-/.=])(?:(?:-u|-U|--user|--proxy-user|-a|--auth){_NEXT}|-[uU])"
        rf"(?P<secret>(?!\d+:\d+(?!\S))[^\s:\"'/\\,=-]*:{_VALUE}{_WORD})",
        "curl, manual page, --user",
        _CLIENT,
    ),
    _shape(
        "a secret as an option of a command",
        rf"(?i)(?<![\w\-/.=])--?(?!-|no-)(?:{_NAME}|oauth2-bearer){_NEXT}(?P<secret>{_VALUE}(?!-|id=){_WORD})",
        "POSIX, 12.1 Utility Argument Syntax",
    ),
    _shape(
        "a password as an option of a command",
        rf"(?:{_PASSWORD_OPTION})(?P<secret>{_VALUE}(?![-,]){_WORD})",
        "MySQL, End-User Guidelines for Password Security; sshpass, -p; Microsoft, sqlcmd, -P; Redis, redis-cli, -a",
    ),
    _shape(
        "a password as an option of a command",
        rf"(?<![\w\-])-pass(?:in|out)?{_NEXT}pass:(?P<secret>{_VALUE}{_TEXT}+)",
        "OpenSSL, Passphrase Options",
    ),
    _shape(
        "the address of a webhook, which is its password",
        r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/\d+/|"
        r"(?:webhook\.office\.com|outlook\.office\.com)/webhook(?:b2)?/|hooks\.zapier\.com/hooks/\w+/|"
        r"maker\.ifttt\.com/trigger/[^\s/]{1,200}/(?:json/)?with/key/|hook\.(?:[a-z0-9]+\.)?(?:make|integromat)\.com/|"
        r"open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook/|events\.pagerduty\.com/integration/|hc-ping\.com/)"
        r"(?P<secret>[^\s\"'<>\\?#]{8,})",
        "Slack, Incoming webhooks; Discord, Webhook resource; Microsoft Teams, Incoming webhooks; IFTTT, Webhooks",
    ),
    _shape(
        "the address of a bot, which holds its token",
        r"api\.telegram\.org/bot(?P<secret>\d+:[\w\-]{8,})",
        "Telegram, Bot API",
    ),
    _shape(
        "a private key",
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?P<secret>(?:(?!-----END)[\s\S])+)",
        "RFC 7468, 10; RFC 9580, 6.2",
    ),
    _shape(
        "a secret in JSON or YAML",
        after_colon(rf"{_NO_TOKEN}[\w\-.]*?(?:{_COMPOUND}|[_\-.](?:pass|secret|token))"),
        "RFC 8259, 4",
        re.compile(r"[\"']\s*:\s*\\*[\"']"),
    ),
)

_TOKENS = (
    ("a token of GitHub", r"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{40,}", "GitHub, token formats"),
    ("a token of GitLab", r"gl(?:pat|cbt|dt|rt|ptt|ft|soat|agent|oas|imt|ffct)-[\w\-]{16,}", "GitLab, Token overview"),
    ("a token of Slack", r"xox[abceoprs][.\-][\w\-]{10,}|xapp-[\w\-]{10,}", "Slack, Token types"),
    ("an access key of AWS", r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Z0-9])", "AWS, IAM identifiers"),
    ("a key of Google", r"AIza[\w\-]{35}", "Google Cloud, API keys"),
    ("a token of Google", r"ya29\.[\w\-]{20,}|GOCSPX-[\w\-]{20,}", "Google, OAuth 2.0 tokens"),
    ("a secret of Azure", r"[\w~.]{3}[78]Q~[\w~.\-]{31,34}", "Microsoft Entra, Application secrets"),
    ("a token of Hugging Face", r"(?:hf|api_org)_[A-Za-z0-9]{30,}", "Hugging Face, User access tokens"),
    ("a token of Databricks", r"dapi[0-9a-f]{32}", "Databricks, PAT"),
    ("a key of Stripe", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{24,}", "Stripe, API keys"),
    ("a key of OpenAI or Anthropic", r"sk-(?:ant-|proj-)?[\w\-]{24,}", "OpenAI, API keys"),
    ("a key of an AI service", r"gsk_\w{40,}|xai-\w{40,}|pplx-\w{40,}|r8_\w{37,}", "Groq, API keys"),
    ("a key of SendGrid", r"SG\.[\w\-]{16,}\.[\w\-]{16,}", "SendGrid, API keys"),
    ("a key of Twilio", r"SK[0-9a-f]{32}(?![0-9a-f])", "Twilio, API keys"),
    ("a key of Mailgun", r"key-[0-9a-f]{32}(?![0-9a-f])", "Mailgun, API keys"),
    ("a token of Vault", r"hv[bsr]\.[\w\-]{20,}", "Vault, Tokens"),
    ("a token of Terraform", r"[A-Za-z0-9]{14}\.atlasv1\.[\w\-]{60,}", "HCP Terraform, API tokens"),
    ("a token of Doppler", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w\-.]{20,}", "Doppler, Token formats"),
    ("a token of npm", r"npm_[A-Za-z0-9]{36}", "npm, About access tokens"),
    ("a token of a package index", r"pypi-[\w\-]{20,}|rubygems_[0-9a-f]{40,}", "PyPI, API tokens"),
    ("a token of Docker", r"dckr_(?:pat|oat)_[\w\-]{20,}", "Docker, Personal access tokens"),
    ("a token of DigitalOcean", r"do[opr]_v1_[0-9a-f]{64}", "DigitalOcean, Token formats"),
    ("a token of Shopify", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}", "Shopify, Access tokens"),
    ("a key of Linear", r"lin_(?:api|oauth)_\w{32,}", "Linear, API"),
    ("a token of Atlassian", r"AT(?:ATT3|CTT3|BB)[\w\-=]{24,}", "Atlassian, API tokens"),
    ("a token of Notion", r"ntn_\w{40,}", "Notion, Authorization"),
    ("a token of Grafana", r"glsa_\w{32,}|glc_[A-Za-z0-9+/]{32,}", "Grafana, Service accounts"),
    ("a token of Sentry", r"sntry[su]_[\w+/=]{32,}", "Sentry, Auth tokens"),
    ("a key of New Relic", r"NRAK-[A-Z0-9]{27}", "New Relic, API keys"),
    ("a key of Postman", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}", "Postman, API keys"),
    ("a token of Figma", r"figd_[\w\-]{40,}", "Figma, Access tokens"),
    ("a token of Telegram", r"\d{8,10}:AA[\w\-]{33}", "Telegram, Bot API"),
    ("a secret of PlanetScale", r"pscale_(?:tkn|pw|oauth)_[\w\-.]{32,}", "PlanetScale, Service tokens"),
    ("a token of Supabase", r"sbp_[0-9a-f]{40}|sb_secret_[\w\-]{20,}", "Supabase, API keys"),
    ("a token of Pulumi", r"pul-[0-9a-f]{40}", "Pulumi, Access tokens"),
    ("a token of dbt or Prefect", r"dbt[cu]_\w{32,}|pn[ub]_\w{36}", "dbt, Service tokens"),
    ("a key of age", r"AGE-SECRET-KEY-1[A-Z0-9]{50,}", "age, The age file encryption format"),
    ("a signed token (JWT)", r"eyJ(?:\w|-(?!eyJ)){8,}\.eyJ[\w\-]{4,}\.[\w\-]{4,}", "RFC 7519"),
)
"""Tokens with a prefix of their issuer."""


def _as_secret(token: str) -> str:
    """Returns the pattern of a token that no letter or digit precedes."""
    return rf"(?<![A-Za-z0-9_])(?P<secret>{token})"


SHAPES = (*_GENERAL, *(_shape(name, _as_secret(token), source) for name, token, source in _TOKENS))
"""All shapes; the first matching shape names the secret."""

PATTERNS = (
    *dict.fromkeys(shape.pattern for shape in _GENERAL),
    re.compile(_as_secret("|".join(token for _, token, _ in _TOKENS))),
)
"""The patterns of all shapes. Those of tokens are one, which reads a text ten times as fast as one after the other."""


def find_shape(text: str) -> Shape | None:
    """Returns the first shape that matches a value of a YAML file, or None.

    Example:
        >>> find_shape("postgresql://me:hunter2@db/trips").name
        'an address with a login in it'
        >>> find_shape("postgresql://me@db/trips?sslmode=require") is None
        True
    """
    for shape in SHAPES:
        if shape.pattern.search(text) and (shape.required_context is None or shape.required_context.search(text)):
            return shape
    return None


def is_secret_setting(name: str, value: object) -> bool:
    """Returns whether a setting of this name with this value is a secret: `DB_PASS: hunter2`, not `DB_PASS: ""`.

    Example:
        >>> is_secret_setting("ALERT_TOKEN", "abc"), is_secret_setting("ALLOW_EMPTY_PASSWORD", "yes")
        (True, False)
    """
    if value is None or isinstance(value, bool) or (isinstance(value, str) and value.lower() in _NO_SECRETS):
        return False
    return _SETTING.match(f"{name}={value}") is not None
