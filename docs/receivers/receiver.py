"""The component ledger in Python 3.9 or newer, with nothing to install: each event has its effect once.

SUBSCRIBER_LEDGER_SECRET (two, separated by a space, during a rotation), DATABASE (a file) and PORT are its settings.
"""
import base64, hashlib, hmac, json, os, sqlite3, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_SECONDS = 5 * 60
MAX_BYTES = 4 * 1024 * 1024
TYPES = {"application/cloudevents+json", "application/cloudevents-batch+json"}


class Refused(Exception):
    """Answers with a status: 410 for a dead letter at once, 503 with wait_seconds to get the event later."""

    def __init__(self, status, detail, wait_seconds=None, code=None):
        super().__init__(detail)
        self.status, self.wait_seconds, self.code = status, wait_seconds, code


def payment_captured(data, tx):
    if data["currency"] != "NOK":
        raise Refused(410, "no account in this currency")
    tx.execute("insert into entries values (?, ?)", (data["intentId"], data["amountMinor"]))


# By topic: the newest version of the payload that this program reads, and what handles it.
HANDLERS = {"payment.captured": (1, payment_captured)}


def keys_of(secrets):
    return [base64.b64decode(secret.removeprefix("whsec_"), validate=True) for secret in secrets.split()]


def is_signed(keys, headers, body, now):
    """Checks the signature over the bytes as they came, in constant time."""
    id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    is_number = timestamp.isascii() and timestamp.isdigit()
    if id == "" or not is_number or abs(now - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    given = [part[3:].encode() for part in headers.get("webhook-signature", "").split() if part.startswith("v1,")]
    found = False
    for key in keys:
        digest = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
        for signature in given:
            found |= hmac.compare_digest(base64.b64encode(digest), signature)
    return found


def open_database(path):
    database = sqlite3.connect(path, isolation_level=None, timeout=10)
    database.execute("pragma synchronous = full")
    database.execute("create table if not exists entries (intent_id text, amount_minor integer)")
    database.execute("create table if not exists received (topic text, event_id text, primary key (topic, event_id))")
    return database


def take(event, tx):
    """Handles an event in a transaction that also remembers its id, so that a repetition changes nothing."""
    topic = event["type"]
    is_smoke_test = topic == "system.smoke_test.started"
    if topic not in HANDLERS and not is_smoke_test:
        raise Refused(501, f"no handler of {topic}")
    newest, handle = (1, lambda data, tx: None) if is_smoke_test else HANDLERS[topic]
    if event["schemaversion"] > newest:
        raise Refused(503, f"{topic} has a newer version", wait_seconds=60, code="newer_version")
    tx.execute("begin immediate")
    try:
        ids = (topic, event["id"])
        if tx.execute("insert or ignore into received values (?, ?)", ids).rowcount == 1:
            warn_of_gap(event, tx)
            handle(event["data"], tx)
        tx.execute("commit")
    except BaseException:
        tx.execute("rollback")
        raise


def warn_of_gap(event, tx):
    if event.get("previousskipped") is not True:
        return
    previous = (event["type"], event["previousid"])
    if tx.execute("select 1 from received where topic = ? and event_id = ?", previous).fetchone() is None:
        print(f"{event['id']} came without {event['previousid']}, which the bus gave up", file=sys.stderr)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        try:
            self.answer(*self.taken(self.body()))
        except Refused as refused:
            self.refuse(refused)
        except Exception as error:
            # Without its words, which may repeat personal data.
            print(f"an event failed: {type(error).__name__}", file=sys.stderr)
            self.refuse(Refused(500, type(error).__name__))

    def body(self):
        if self.headers.get("content-type", "").split(";")[0].strip().lower() not in TYPES:
            raise Refused(415, "expected CloudEvents in JSON")
        length = self.headers.get("content-length", "")
        if not length.isdigit() or int(length) > MAX_BYTES:
            raise Refused(413, f"expected at most {MAX_BYTES} bytes, with their number in content-length")
        body = self.rfile.read(int(length))
        if not is_signed(KEYS, self.headers, body, time.time()):
            raise Refused(401, "the signature is missing, wrong or older than 5 minutes")
        return body

    def taken(self, body):
        content = json.loads(body)
        if not isinstance(content, list):
            content = [content]
        tx = open_database(DATABASE)
        try:
            for index, event in enumerate(content):
                try:
                    take(event, tx)
                except Exception:
                    # Those before it are committed. The bus sends this one again, first, and is told why.
                    if index == 0:
                        raise
                    return 200, {"delivered": index}
        finally:
            tx.close()
        return 204, None

    def refuse(self, refused):
        # A body that was not read would be taken for the next request.
        self.close_connection = True
        headers = {} if refused.wait_seconds is None else {"retry-after": str(refused.wait_seconds)}
        self.answer(refused.status, {"detail": str(refused), "code": refused.code}, headers)

    def answer(self, status, content, headers={}):
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    KEYS = keys_of(os.environ["SUBSCRIBER_LEDGER_SECRET"])
    DATABASE = os.environ.get("DATABASE", "ledger.db")
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Receiver)
    print(f"listens on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
