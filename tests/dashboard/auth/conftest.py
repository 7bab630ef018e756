"""A dashboard on a socket, with whatever access settings a test wants."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from flask import jsonify, request, url_for

from tests.dashboard.auth.test_writing import with_views
from tests.dashboard.pages.browsing import serving_app
from warpwatch.dashboard.settings import AccessSettings, Settings
from warpwatch.dashboard.web.app import create_app


@pytest.fixture
def dashboard(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Serves a dashboard with these access settings, and a view that returns the address it sees; gives its URL."""
    with ExitStack() as stack:

        def serve(**access: Any) -> str:
            settings = Settings(database=f"sqlite:///{tmp_path / 'history.db'}", access=AccessSettings(**access))
            app = with_views(create_app(settings))

            @app.get("/seen")
            def seen():  # type: ignore[no-untyped-def]
                return jsonify(address=request.remote_addr, url=url_for("seen", _external=True))

            return stack.enter_context(serving_app(app))

        yield serve
