"""Single keys: they walk lists, open what is there, list themselves, rest while one types, and can be switched off."""

from collections.abc import Callable

import pytest

from tests.dashboard.pages.browsing import Tab

_FOCUSED = "document.activeElement"


def _rows(tab: Tab) -> int:
    return int(tab.page.evaluate("[...document.querySelectorAll('tbody tr')].indexOf(document.activeElement)"))


def test_j_and_k_walk_the_rows_and_o_opens_one(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/commits")
    for key, row in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        tab.page.keyboard.press(key)
        assert _rows(tab) == row
    outline = tab.page.evaluate(f"getComputedStyle({_FOCUSED}).outlineStyle")
    assert outline == "solid"
    link = tab.page.evaluate(f"{_FOCUSED}.querySelector('a').pathname")
    tab.page.keyboard.press("o")
    tab.page.wait_for_url(f"**{link}")
    tab.page.go_back()
    tab.page.keyboard.press("j")
    link = tab.page.evaluate(f"{_FOCUSED}.querySelector('a').pathname")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url(f"**{link}")
    assert tab.complaints == []


def test_the_ends_of_a_list_hold(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/machines")
    items = tab.page.locator("tbody tr").count()
    for _ in range(items + 3):
        tab.page.keyboard.press("j")
    assert _rows(tab) == items - 1
    for _ in range(items + 3):
        tab.page.keyboard.press("k")
    assert _rows(tab) == 0


def test_the_dialog_lists_what_the_page_declares_and_gives_the_focus_back(
    address: str, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/commits")
    tab.page.keyboard.press("j")
    tab.page.keyboard.press("?")
    dialog = tab.page.get_by_role("dialog", name="Keys of this page")
    dialog.wait_for()
    keys = dialog.locator("kbd").all_inner_texts()
    assert len(keys) == len(set(keys))
    assert {"j", "k", "o", "t", "d", "?"} <= set(keys)
    tab.page.keyboard.press("j")  # a key of the page does nothing behind the dialog
    tab.page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    assert _rows(tab) == 0


def test_t_goes_to_the_regressions_from_anywhere(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/commits")
    tab.page.keyboard.press("t")
    tab.page.wait_for_url("**/kernels/regressions")


@pytest.mark.parametrize(("key", "page"), [("t", "regressions?state=all&order=worst"), ("c", "compare?base=&head=")])
def test_the_key_of_a_page_leaves_that_page_as_it_is(
    key: str, page: str, address: str, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/{page}")
    there = tab.page.url
    for pressed in "jj":
        tab.page.keyboard.press(pressed)
    chosen = tab.page.evaluate_handle("document.activeElement")
    assert chosen.evaluate("item => item !== document.body")
    tab.page.keyboard.press(key)
    tab.page.keyboard.press("?")
    assert key not in tab.page.get_by_role("dialog").locator("kbd").all_inner_texts()
    tab.page.keyboard.press("Escape")
    assert tab.page.url == there
    assert chosen.evaluate("item => item === document.activeElement")  # of this very page: nothing was loaded anew


def test_c_compares_the_rows_commit_with_the_one_before_or_goes_to_the_comparison(
    address: str, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/commits")
    tab.page.keyboard.press("c")
    tab.page.wait_for_url("**/kernels/compare*")
    tab.open(f"{address}/kernels/commits")
    rows = tab.page.locator("tbody tr .ww-hash")
    head, base = (str(rows.nth(place).get_attribute("href")).rpartition("/")[2] for place in (1, 2))
    for key in "jjc":
        tab.page.keyboard.press(key)
    tab.page.wait_for_url(f"**/compare?base={base}&head={head}**")


def test_keys_rest_while_one_types(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/series?q=rope")
    field = tab.page.locator("main input[type=search]")
    field.click()
    field.press("End")
    for key in "jkot?d":
        tab.page.keyboard.press(key)
    assert field.input_value() == "ropejkot?d"
    assert tab.page.locator("dialog[open]").count() == 0


def test_keys_can_be_switched_off_and_stay_off(address: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/commits")
    assert tab.page.locator("[aria-keyshortcuts=t]").count() == 1
    tab.page.get_by_role("button", name="Keys").click()
    tab.page.get_by_label("Keys are on").uncheck()
    tab.page.get_by_role("button", name="Close").click()
    tab.open(f"{address}/kernels/commits")
    assert tab.page.locator("[aria-keyshortcuts]").count() == 0
    for key in ("j", "?", "t"):
        tab.page.keyboard.press(key)
    assert _rows(tab) == -1
    assert tab.page.locator("dialog[open]").count() == 0
    tab.page.get_by_role("button", name="Keys").click()
    tab.page.get_by_label("Keys are on").check()
    tab.page.keyboard.press("Escape")
    tab.page.evaluate("scrollTo(0, 0)")  # the button stands at the page's end, and j begins at what can be seen
    tab.page.keyboard.press("j")
    assert _rows(tab) == 0


def test_a_declared_key_presses_the_current_items_control_else_the_pages_and_else_notifies_a_script(
    address: str, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab()
    tab.open(f"{address}/kernels/commits")
    tab.page.evaluate(
        """() => {
          window.seen = [];
          for (const [number, row] of [...document.querySelectorAll('tbody tr')].entries()) {
            if (number === 1) {
              row.setAttribute('data-key-list', 'off');
              continue;
            }
            const box = document.createElement('input');
            box.type = 'checkbox';
            box.dataset.key = 'x';
            row.cells[0].append(box);
          }
          const all = document.createElement('button');
          all.dataset.key = 'a';
          all.textContent = 'Acknowledge';
          all.addEventListener('click', () => seen.push('a'));
          const script = document.createElement('div');
          script.dataset.keys = JSON.stringify([{key: 'N', says: 'Next point'}]);
          script.addEventListener('warpwatch:key', (e) => seen.push(e.detail.key + (e.detail.item?.rowIndex ?? '')));
          document.querySelector('main').prepend(all, script);
        }"""
    )
    page = tab.page
    page.keyboard.press("x")  # no current item: nothing to mark
    assert page.locator("tbody :checked").count() == 0
    for key in ("j", "j", "x", "a", "N"):
        page.keyboard.press(key)
    assert page.evaluate("[...document.querySelectorAll('tbody :checked')].map((e) => e.closest('tr').rowIndex)") == [3]
    assert page.evaluate("seen") == ["a", "N3"]
    page.keyboard.press("?")
    assert {"x", "a", "N"} <= set(page.get_by_role("dialog").locator("kbd").all_inner_texts())
