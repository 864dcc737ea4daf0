"""moto, behind a check of signatures: they are made once more by Amazon's own client (botocore), from the request as it was sent. (moto's own check takes the
address as it was decoded, and so finds a "/" in a query wrong.)  server.py PORT KEY SECRET FILE: while FILE is there, signatures count."""
import os
import sys

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

PORT, KEY, SECRET, COUNTS = sys.argv[1:]
REFUSED = "<Error><Code>{0}</Code><Message>The request signature we calculated does not match the signature you provided.</Message><StringToSign>{1}</StringToSign></Error>"


def wrong(environ):
    """What a server of S3 says of the signature; None: it is right."""
    words = environ["HTTP_AUTHORIZATION"].removeprefix("AWS4-HMAC-SHA256 ")
    parts = dict(w.strip().split("=", 1) for w in words.split(","))
    key, _, region, service, _ = parts["Credential"].split("/")
    request = AWSRequest(environ["REQUEST_METHOD"], f"http://{environ['HTTP_HOST']}{environ['RAW_URI']}",
                         headers={n: environ[f"HTTP_{n.upper().replace('-', '_')}"] for n in parts["SignedHeaders"].split(";")})
    request.context["timestamp"] = environ["HTTP_X_AMZ_DATE"]
    auth = S3SigV4Auth(Credentials(KEY, SECRET, environ.get("HTTP_X_AMZ_SECURITY_TOKEN")), service, region)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    if key != KEY:
        return REFUSED.format("InvalidAccessKeyId", text)
    return None if auth.signature(text, request) == parts["Signature"] else REFUSED.format("SignatureDoesNotMatch", text)


def checked(app):
    def serve(environ, start):
        if os.path.exists(COUNTS) and "HTTP_AUTHORIZATION" in environ and (said := wrong(environ)):
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [said.encode()]
        return app(environ, start)
    return serve


run_simple("0.0.0.0", int(PORT), checked(DomainDispatcherApplication(create_backend_app)), threaded=True)
