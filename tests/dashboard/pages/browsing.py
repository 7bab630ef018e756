"""A browser tab that remembers complaints, and the name that no page may run."""

from dataclasses import dataclass

from playwright.sync_api import Page

HOSTILE = "<img src=x onerror=\"document.title='owned'\">'\"&{{7*7}}</script><script>document.title='owned'</script>"


@dataclass
class Tab:
    """A browser page and everything it complained about."""

    page: Page
    complaints: list[str]

    def open(self, url: str) -> int:
        """Loads the page and waits for its figures; returns the HTTP status."""
        response = self.page.goto(url, wait_until="load")
        for plot in self.page.locator(".ww-plot").all():
            plot.scroll_into_view_if_needed()
            self.page.wait_for_function("plot => plot.dataset.drawn", arg=plot.element_handle())
        return response.status if response else 0
