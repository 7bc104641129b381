"""Make the decks, look at each in Chromium, and print it."""

import shutil
import sys
from pathlib import Path

from scripts.pdf import BROWSERS
from scripts.slides import deck, look, plan

ROOT = Path(__file__).parents[2]
SLIDES = ROOT / "book" / "slides.yml"


def main(arguments: list[str]) -> int:
    """Make the decks of a built book; the exit code is 1 if one cannot be shown."""
    site, reveal, target = map(Path, arguments)
    guide = site / "book" / "instructor_guide.html"
    if not guide.exists():
        return fail(f"{site} has no book; make book")
    try:
        meetings = plan.meetings(SLIDES, guide)
        deck.copy_files(site, reveal, target)
        decks = [deck.write(each, meetings, site, target) for each in meetings]
        deck.write_index(decks, target)
    except plan.SlidesError as error:
        return fail(str(error))
    print(f"{len(decks)} decks are in {target}; open {target / 'index.html'}")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not browser:
        return fail(
            "nobody has looked at the decks, and they are not printed: that needs"
            " Chromium; on Debian and Ubuntu: apt-get install chromium"
        )
    found = []
    with look.chromium(browser) as opened:
        for path in decks:
            found += look.overflows(opened, path)
            found += look.print_deck(opened, path, path.with_suffix(".pdf"))
    for line in found:
        print(f"error: {line}", file=sys.stderr)
    if not found:
        print("everything fits its slide at 1920 x 1080, and its page of the PDF")
    return int(bool(found))


def fail(line: str) -> int:
    """Say what is wrong in one line."""
    print(f"error: {line}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
