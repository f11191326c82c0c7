"""The page in a real browser: quiet, drawn, reachable by keyboard, readable on a phone, in the dark and on paper."""

import time
from pathlib import Path

import pytest

from day0.render.bars import alike
from day0.render.figures import errors
from day0.spec.reports.suite import by_kind
from day0.stages.conclusion import Reports
from tests.page.browser import Browser
from tests.page.conftest import PAGES

UNFOLD = "document.querySelectorAll('details').forEach(one => one.open = true);"
CONTRAST = """
const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const ratio = (one, other) => { const [a, b] = [light(one), light(other)].sort((x, y) => y - x); return (a + .05) / (b + .05) };
const behind = node => { for (; node; node = node.parentElement) {
  const found = numbers(getComputedStyle(node).backgroundColor); if (found.length < 4 || found[3]) return found } return [255, 255, 255] };
const paper = behind(document.body), found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, owner = node.parentElement;
  if (!node.data.trim() || owner.closest('title')) continue;
  const style = getComputedStyle(owner), ink = owner.closest('svg') ? style.fill : style.color;
  found.push([node.data.trim().slice(0, 40), ratio(numbers(ink), owner.closest('svg') ? paper : behind(owner)), 4.5]);
}
for (const mark of document.querySelectorAll('.mark:not(.track)'))
  found.push([mark.textContent, ratio(numbers(getComputedStyle(mark).fill), paper), 3]);
return [found.length, found.filter(([, measured, least]) => !(measured >= least))];
"""
OVERLAPS = """
const rows = [...document.querySelectorAll('svg .said')].map(said => [said.previousElementSibling, said]);
return [rows.length, rows.filter(([name, said]) => name.getBoundingClientRect().right > said.getBoundingClientRect().left)
  .map(([name, said]) => name.textContent + ' | ' + said.textContent)];
"""
OUTSIDE = """
const hidden = node => node.closest('.wide') || node.closest('thead');
return [...document.querySelectorAll('body *')].filter(node => !hidden(node) && node.getBoundingClientRect().right > innerWidth + .5)
  .map(node => node.outerHTML.slice(0, 120));
"""


def url(path: Path) -> str:
    return path.as_uri()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_quiet(chrome: Browser, pages: dict[str, Path], name: str, dark: bool) -> None:
    """No word on the console, and no request but the page itself."""
    chrome.log()
    chrome.open(url(pages[name]), dark=dark)
    assert chrome.log() == []
    assert chrome.requests() == [url(pages[name])]


def test_the_log_sees_a_fault(chrome: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<!DOCTYPE html><title>x</title><script>nothing.at.all</script><img src='absent.png'>")
    chrome.open(url(page))
    told: list[str] = []
    for _ in range(50):  # the log is written by another process
        told += [entry["message"] for entry in chrome.log() if "nothing is not defined" in entry["message"]]
        if told:
            break
        time.sleep(0.1)
    assert told
    assert len(chrome.requests()) == 2


def test_charts_are_drawn(chrome: Browser, pages: dict[str, Path], whole: Reports) -> None:
    """As many visible marks as the reports have layers, parts and points."""
    assert whole.inspect and whole.plan and whole.validated and whole.run
    chrome.open(url(pages["whole"]))
    drawn = """return [...document.querySelectorAll(arguments[0])]
      .filter(n => n.getBoundingClientRect().width > .5 && getComputedStyle(n).fill != 'none').length"""
    assert chrome.run(drawn, "#layers svg rect.cell") == 2 * len(whole.inspect.layers)
    parts = [amount for _, card in alike(whole.plan.per_card) for name, amount in card if name != "free" and amount]
    assert chrome.run(drawn, "#memory svg rect.part") == len(parts)
    assert chrome.run(drawn, "#operators svg rect.part") >= 4
    series = [*errors(whole.validated.layer_errors), *errors(whole.validated.depths)]
    assert chrome.run(drawn, "#numbers svg circle") == sum(point > 0 for one in series for point in one.points.values()) > 0
    assert chrome.run(drawn, "#speed svg rect.mark") == 4
    assert chrome.run(drawn, "#answers svg circle") == sum(len(score.tasks) for score in whole.run.suites) == 5
    assert chrome.run("return [...document.querySelectorAll('svg')].every(n => n.getBoundingClientRect().width > 600)")


def test_accuracies_lie_where_they_are(chrome: Browser, pages: dict[str, Path], whole: Reports) -> None:
    """Each dot between nothing on the left and all on the right, on the line of its interval; colours are those of the legend."""
    assert whole.run
    chrome.open(url(pages["whole"]))
    edges = """const all = document.querySelector('#answers svg').getBoundingClientRect(), at = x => (x - all.left) / all.width;
      return [...document.querySelectorAll(arguments[0])].map(n => n.getBoundingClientRect()).map(b => [at(b.left), at(b.right)])"""
    dots = [(left + right) / 2 for left, right in chrome.run(edges, "#answers svg .mark")]
    ends = chrome.run(edges, "#answers svg .course")
    scored = [task for tasks in by_kind(whole.run.suites).values() for task in tasks if task]
    assert dots == pytest.approx([task.accuracy for task in scored], abs=0.002)
    assert [end for pair in ends for end in pair] == pytest.approx([end for task in scored for end in (task.low, task.high)], abs=0.002)
    colours = "return [...document.querySelectorAll(arguments[0])].map(n => getComputedStyle(n)[arguments[1]])"
    legend = chrome.run(colours, "#answers .legend i", "backgroundColor")
    assert len(set(legend)) == 3
    assert chrome.run(colours, "#answers svg .mark", "fill") == [legend[n] for n in (0, 1, 2, 0, 1)]


@pytest.mark.parametrize("name", ["whole", "damaged"])
def test_keyboard(chrome: Browser, pages: dict[str, Path], name: str) -> None:
    """Tab comes to every link, fold and table, each with a visible outline; Enter opens a fold."""
    chrome.open(url(pages[name]))
    wanted = chrome.run("return document.querySelectorAll('a[href], summary, .wide').length")
    closed = chrome.run("return document.querySelectorAll('details .wide').length")
    chrome.run("window.reached = new Set()")
    for _ in range(wanted - closed):
        chrome.press("Tab")
        chrome.run("reached.add(document.activeElement)")
        assert chrome.run("const s = getComputedStyle(document.activeElement); return s.outlineStyle != 'none' && parseFloat(s.outlineWidth) >= 2")
    assert chrome.run("return [...reached].filter(n => n != document.body).length") == wanted - closed
    chrome.run("document.querySelector('summary').focus()")
    chrome.press("Enter")
    assert chrome.run("return document.querySelector('details').open")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [320, 400])
def test_narrow(chrome: Browser, pages: dict[str, Path], name: str, width: int) -> None:
    """Nothing sticks out, no words lie on others, none are too small; wide tables scroll on their own."""
    chrome.open(url(pages[name]), width)
    chrome.run(UNFOLD)
    assert chrome.run("return [innerWidth, document.documentElement.scrollWidth]") == [width, width]
    assert chrome.run(OUTSIDE) == []
    rows, overlapping = chrome.run(OVERLAPS)
    assert overlapping == [] and (rows > 0) == (name not in ("damaged", "refused"))
    smallest = "return Math.min(...[...document.querySelectorAll('body *')].map(n => parseFloat(getComputedStyle(n).fontSize)))"
    assert chrome.run(smallest) >= 12


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_contrast(chrome: Browser, pages: dict[str, Path], name: str, dark: bool) -> None:
    """WCAG: 4.5 for text, 3 for the marks of charts."""
    chrome.open(url(pages[name]), dark=dark)
    chrome.run(UNFOLD)
    assert chrome.run("return getComputedStyle(document.body).backgroundColor") == ("rgb(21, 24, 28)" if dark else "rgb(253, 253, 251)")
    count, poor = chrome.run(CONTRAST)
    assert poor == [] and count > 50


def test_contrast_is_measured(chrome: Browser, pages: dict[str, Path]) -> None:
    chrome.open(url(pages["short"]))
    chrome.run("document.querySelector('h1').style.color = '#bbb'")
    assert [text for text, *_ in chrome.run(CONTRAST)[1]] == ["Does not work"]


def test_print(chrome: Browser, pages: dict[str, Path]) -> None:
    """On paper every fold is open, and black is black in the dark too."""
    chrome.open(url(pages["whole"]), 800, dark=True, media="print")
    assert chrome.run("return [...document.querySelectorAll('details table')].every(n => n.checkVisibility({contentVisibilityAuto: true}))")
    assert chrome.run("return getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
