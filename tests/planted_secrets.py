"""Texts with one planted, numbered secret each, and ordinary texts without a secret."""

from typing import NamedTuple


class Planted(NamedTuple):
    """A text, and its secret part, which must not appear in any output."""

    text: str
    secret: str


def _planted() -> list[Planted]:
    texts = [  # {} is a secret of a length that no pattern requires
        "postgresql://me:{}@db.example.com/trips",
        "postgresql://me:a/{}@db.example.com:5432/trips",
        "mysql+pymysql://me:a@{}@db/trips",
        "redis://:{}@cache:6379/0",
        "sftp://me:{}@files.example.com/trips.csv",
        "https://me:{}@files.example.com/a/@b/trips.csv",
        "snowflake://me:{}%21@account/db?warehouse=w",
        "memory:///me:{}@store/trips.csv",
        "https://{}0123456789abcdefGH@git.example.com/trips.csv",
        "postgresql://db/trips?user=me&password={}",
        "postgresql://db/trips?sslmode=require&sslpassword={}",
        "https://x.example/trips.csv?access_token={}&page=2",
        "https://x.example/trips.csv?token={}",
        "https://x.example/trips.csv?api_key={}",
        "https://x.example/api/trips?code={}0123456789abcdefGH==",
        "https://a.blob.example/c/trips.csv?sv=2024-11-04&se=2027&sr=b&sig={}%3D",
        "https://b.s3.example/trips.csv?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature={}",
        "https://b.s3.example/trips.csv?X-Amz-Expires=60&X-Amz-Security-Token={}",
        "https://b.s3.example/trips.csv?AWSAccessKeyId=me&Expires=1&Signature={}",
        "https://storage.example/b/trips.csv?X-Goog-Expires=60&X-Goog-Signature={}",
        "jdbc:sqlserver://db:1433;databaseName=trips;user=me;password={};encrypt=true",
        "jdbc:mysql://db:3306/trips?user=me&password={}",
        "Driver={ODBC Driver 18 for SQL Server};Server=tcp:db,1433;UID=me;PWD={}",
        "Driver={ODBC Driver 18 for SQL Server};Server=db;UID=me;PWD={{};x}",
        "mssql+pyodbc:///?odbc_connect=Driver%3DODBC%3BServer%3Ddb%3BUID%3Dme%3BPWD%3D{}%3BEncrypt%3Dyes",
        "host=db port=5432 dbname=trips user=me password={}",
        "DefaultEndpointsProtocol=https;AccountName=me;AccountKey={}==;EndpointSuffix=core.example",
        "Endpoint=sb://x.example/;SharedAccessKeyName=me;SharedAccessKey={}=",
        "curl -H 'Authorization: Bearer {}' https://x.example",
        "curl -H 'Authorization: Basic {}==' https://x.example",
        "curl --header X-Api-Key:{} https://x.example",
        "curl -H 'PRIVATE-TOKEN: {}' https://x.example",
        "curl -u me:{} https://x.example",
        "notify --channel trips --token {}",
        "notify --password={} --quiet",
        "mysql -h db -u me -p{} trips",
        "https://hooks.slack." + "com/services/T0/B0/{}",
        "https://discord." + "com/api/webhooks/1234567890/{}",
        "https://me.webhook.office." + "com/webhookb2/{}/IncomingWebhook/x",
        "https://api.telegram." + "org/bot123456:{}/sendMessage",
        "-----BEGIN RSA PRIVATE " + "KEY-----MII{}-----END RSA PRIVATE KEY-----",
        "ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxIn0.{}",
        # Variables of a command.
        "PGPASSWORD={} psql -h db",
        "MYSQL_PWD={} mysql trips",
        "export API_TOKEN={}; ./notify",
        "export api_token={}; ./notify",
        "docker run -e DB_PASSWORD={} image",
        "SSHPASS='{}' sshpass -e ssh files",
        'AWS_SECRET_ACCESS_KEY="{} with blanks" aws s3 cp a b',
        "(cd trips; RESTIC_PASSWORD={} restic backup)",
        # Options of commands.
        "curl -ume:{} https://x.example",
        'curl -u "me:{}" https://x.example',
        "curl -U me:{} https://x.example",
        "curl --oauth2-bearer {} https://x.example",
        "http -a me:{} x.example",
        "wget --http-password={} https://x.example",
        "curl -d 'user=me&password={}' https://x.example",
        "curl -d password={} https://x.example",
        'curl -d \'{"user": "me", "password": "{}"}\' https://x.example',
        "notify --client-secret '{} with blanks'",
        "notify --dbPassword {}",
        '["notify", "--auth-token", "{}"]',
        "[notify, --auth-token, {}]",
        "sshpass -p {} ssh files",
        "sshpass -p{} ssh files",
        "[sshpass, -p, {}, ssh, files]",
        "docker login -u me -p {} registry.example",
        "sqlcmd -S db -U me -P {}",
        "redis-cli -h cache -a {} ping",
        "ldapsearch -D me -w {}",
        "openssl rsa -passin pass:{}",
        # Headers.
        "curl -H 'X-Shop-Access-Token: {}' https://x.example",
        "curl -H 'Cookie: a=b; session={}' https://x.example",
        "curl -H 'Proxy-Authorization: Basic {}' https://x.example",
        # Addresses.
        "https://hooks.zapier." + "com/hooks/catch/123456/{}/",
        "https://maker.ifttt." + "com/trigger/trips/with/key/{}",
        "https://hook.eu1.make." + "com/{}",
        "bigquery://project?credentials_base64={}",
        "https://x.example/trips.csv?db_password={}",
        "-----BEGIN PGP PRIVATE " + "KEY BLOCK-----{}-----END PGP PRIVATE KEY BLOCK-----",
    ]
    planted = []
    for number, text in enumerate(texts):
        secret = f"pL4nted{number:02d}Secret"
        planted.append(Planted(text.replace("{}", secret), secret))
    # Tokens with a prefix of their issuer, which is here in two parts, so that no scanner takes them for real.
    for prefix in "gh p_, gl pat-, h f_, np m_, xo xb-, ya 29., hv s., sk- proj-".replace(" ", "").split(","):
        token = prefix + f"T0kens{len(planted)}" + "aB3" * 12
        planted.append(Planted(f"send {token[:44]} there", token[:44]))
    issued = (
        ("gl" + "cbt-64_", "aB3d" * 5), ("S" + "K", "01ab" * 8), ("key" + "-", "01ab" * 8),
        ("dop_" + "v1_", "01ab" * 16), ("shp" + "at_", "01ab" * 8), ("lin_" + "api_", "aB3d" * 10),
        ("AGE-SECRET-" + "KEY-1", "QA3Z" * 15), ("dp." + "pt.", "aB3d" * 10), ("dckr_" + "pat_", "aB3d" * 7),
        ("AK" + "IA", "AB3D" * 4), ("AI" + "za", "aB3d5" * 7), ("GOC" + "SPX-", "aB3d" * 7),
        ("aB3" + "8Q~", "aB3d" * 8), ("da" + "pi", "01ab" * 8), ("sk_" + "test_", "aB3d" * 6),
        ("gs" + "k_", "aB3d" * 13), ("S" + "G.", "aB3d" * 5 + "." + "aB3d" * 8),
        ("aB3daB3daB3daB." + "atlasv1.", "aB3d" * 16), ("py" + "pi-", "aB3d" * 8), ("ATA" + "TT3", "aB3d" * 10),
        ("nt" + "n_", "aB3d" * 11), ("gl" + "sa_", "aB3d" * 10), ("sntr" + "ys_", "aB3d" * 10),
        ("NR" + "AK-", "AB3" * 9), ("PM" + "AK-", "01ab" * 6 + "-" + "01" * 17), ("fi" + "gd_", "aB3d" * 10),
        ("123456789:" + "AA", "aB3" * 11), ("pscale_" + "tkn_", "aB3d" * 10), ("sbp" + "_", "01ab" * 10),
        ("pu" + "l-", "01ab" * 10), ("dbt" + "c_", "aB3d" * 10),
    )  # fmt: skip
    for number, (before, after) in enumerate(issued):
        planted.append(Planted(f"send {before}{after} there: {number}", before + after))
    return planted


PLANTED = _planted()

ORDINARY = (
    "file:///C:/Users/me@home/trips.csv",
    "trips.csv",
    "data/{date}/trips-*.csv.gz",
    "s3://bucket/year=2024/month=03/*.parquet",
    "s3://bucket/key=value/token=category/part.csv",
    "gs://bucket/span-{span}/v{version}/trips.csv",
    "abfss://container@account.dfs.core.windows.net/trips/*.parquet",
    "abfs://a-container-of-2024-with-a-long-name@account.dfs.core.windows.net/trips.csv",
    "hdfs://namenode:8020/user/me@example.com/trips.csv",
    "hdfs://me@namenode:8020/trips.csv",
    "sftp://reader@files.example.com:22/trips.csv",
    "git@github.com:me/trips.git",
    "https://github.com/me/trips/raw/main/@types/trips.csv",
    "https://host.example:8443/@scope/trips.csv",
    "https://cdn.example/npm/trips@1.2.3/dist/trips.csv",
    "https://x.example/trips.csv?page=2&limit=1000&sort=key",
    "https://x.example/trips.csv?email=me@example.com&at=12:30",
    "https://x.example/trips.csv?versionId=3sL4kqtJlcpXroDTDmJ+rmSpXd3dIbrHY",
    "https://x.example/trips.csv?key=customer-orders-2024-q1",
    "postgresql+psycopg://reader@db.example.com:5432/trips?sslmode=require",
    "mssql+pyodbc://reader@db/trips?driver=ODBC+Driver+18+for+SQL+Server&Encrypt=yes",
    "sqlite:////data/trips.db",
    "bigquery://project/dataset?location=EU&credentials_path=/secrets/key.json",
    "SELECT token, password FROM users WHERE token = 'a' AND pass <> ''",
    "SELECT a.key FROM trips a WHERE a.port = 5 AND a.signature = 'x'",
    "if(token == 'a', 1, 0)",
    "curl -H 'Authorization: Bearer $ALERT_TOKEN' https://x.example",
    'curl -u "$ALERT_USER:$ALERT_PASSWORD" https://x.example',
    "notify --token-file /run/secrets/token --quiet",
    "notify --password $ALERT_PASSWORD",
    "psql postgresql://me:$PGPASSWORD@db/trips",
    "mysql -h db -p trips",
    "cat /run/secrets/password",
    "python send.py --user me --secret-from env",
    "registry.example:5000/team/trips@sha256:" + "0123456789abcdef" * 4,
    "0123456789abcdef" * 4,
    "flink-jobmanager.flink:8081",
    "http://127.0.0.1:8501/v1/models/trips:predict",
    "projects/my-project/secrets/db-password/versions/3",
    "%Y-%m-%dT%H:%M:%S",
    "the tip, in dollars: what the guest gave",
    "task-force_sk-learn pypi-mirror hf_transfer npm_config",
    "token_count: 5",
    "token: 5, password: a word, secret: none",
    "max_tokens=200 pad_token=[PAD] next_page_token=abc sort_key=key key=column",
    "if(pass == 1, 1, 0) and password=='a'",
    "SELECT * FROM users WHERE TOKEN='a' AND password='b'",
    "notify --password-file path --token-env ALERT_TOKEN --no-password trips",
    'PGPASSWORD="$ALERT_PASSWORD" psql',
    "PGPASSWORD=$(cat /run/secrets/db) psql -h db",
    "PGPASSWORD=`cat /run/secrets/db` psql -h db",
    "PGPASSWORD=${DB_PASSWORD} psql; unset PGPASSWORD",
    "[notify, --token, $ALERT_TOKEN]",
    "cd data; PWD=/data OLDPWD=/ ./count",
    "GOOGLE_APPLICATION_CREDENTIALS=/run/secrets/key.json ./count",
    "ssh -i key --private-key /run/secrets/key",
    "docker build --secret id=db,src=key.txt",
    "docker run -u 1000:1000 -p 8080:80 image",
    "docker login -u me --password-stdin registry.example",
    "date -u +%Y-%m-%d:%H; python -u script.py",
    "TOKENIZERS_PARALLELISM=false MAX_TOKENS=5 PASSES=3 ./count",
    '{"token": {"type": "category"}, "password": "category", "secret_key": 7, "api_key": null}',
    "Content-Type: application/json, Accept-Encoding: gzip, Idempotency: 7, Key: a",
    "https://x.example/hooks/trips/2024 hooks.example.com/services/trips",
)
"""Values of YAML files that contain no secret."""
