"""A small Hub on this machine: what huggingface_hub asks of the real one, for folders."""

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def commit(revision):
    """The commit that a revision of a name of its own stands for."""
    return hashlib.sha1(revision.encode()).hexdigest()


@contextmanager
def hub(models=(), datasets=(), status=404):
    """Serves {OWNER/NAME: folder}, or {OWNER/NAME: {REVISION: folder}}; yields the address and the requests so far.

    What is not there answers `status`: the real Hub says 401 for models that it does not have. A folder alone has any
    revision that is asked for.
    """
    known = {("models", name): served for name, served in dict(models).items()}
    known |= {("datasets", name): served for name, served in dict(datasets).items()}
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def reply(self, code, body=b"", **headers):
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def serve(self):
            path, _, _ = self.path.partition("?")
            asked.append(f"{self.command} {path}")
            parts = path.strip("/").split("/")
            api = parts[0] == "api"
            parts = parts[1:] if api else parts
            kind = parts.pop(0) if parts[0] in ("models", "datasets") else "models"
            name, action, rest = "/".join(parts[:2]), parts[2] if len(parts) > 2 else "", parts[4:]
            served = known.get((kind, name))
            if served is None:
                code = "GatedRepo" if status == 403 else "RepoNotFound"
                return self.reply(status, X_Error_Code=code, X_Error_Message="no such repository")
            asked_for = unquote(parts[3]) if len(parts) > 3 else "main"
            folder, sha = Path(served) if not isinstance(served, dict) else None, COMMIT
            for revision, own in served.items() if folder is None else ():
                if asked_for in (revision, commit(revision)):
                    folder, sha = Path(own), commit(revision)
            if folder is None:
                return self.reply(404, X_Error_Code="RevisionNotFound", X_Error_Message="no such revision")
            files = sorted(file for file in folder.rglob("*") if file.is_file())
            if api and action == "revision":
                siblings = [{"rfilename": file.relative_to(folder).as_posix()} for file in files]
                return self.reply(200, json.dumps({"id": name, "sha": sha, "siblings": siblings}).encode())
            if api and action == "tree":
                tree = [
                    {
                        "type": "file",
                        "path": f.relative_to(folder).as_posix(),
                        "size": f.stat().st_size,
                        "oid": hashlib.sha1(f.read_bytes()).hexdigest(),
                    }
                    for f in files
                ]
                return self.reply(200, json.dumps(tree).encode(), Content_Type="application/json")
            file = folder / "/".join(rest)
            if action != "resolve" or not file.is_file():
                return self.reply(404, X_Error_Code="EntryNotFound", X_Repo_Commit=sha)
            body = file.read_bytes()
            etag = f'"{hashlib.sha1(body).hexdigest()}"'
            return self.reply(200, body, ETag=etag, X_Repo_Commit=sha, Content_Type="application/octet-stream")

        do_GET = do_HEAD = serve  # noqa: N815 - the names that http.server asks for

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def point(monkeypatch, cache, address):
    """Makes huggingface_hub ask that address, with an empty cache of its own."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
