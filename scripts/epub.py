"""Put the book for e-readers among the downloads, once epubcheck accepts it.

`python -m scripts.epub BUILT EPUB`: BUILT is what the builder `epub` made.
"""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

MISSING = (
    "epubcheck is not installed, nothing has checked the book; on Debian and Ubuntu:"
    " apt-get install epubcheck"
)


def accepted(book: Path, epubcheck: str) -> tuple[bool, str]:
    """Ask epubcheck.

    Args:
        book: EPUB.
        epubcheck: the program, which on Debian is a Java archive.

    Returns:
        Whether it finds neither an error nor a warning, and what it says.
    """
    java = ["java", "-jar"] if zipfile.is_zipfile(epubcheck) else []
    command = [*java, epubcheck, "--failonwarnings", str(book)]
    checked = subprocess.run(command, capture_output=True, text=True)
    return checked.returncode == 0, checked.stdout + checked.stderr


def main(arguments: list[str]) -> int:
    """Check the first file named, and copy it to the second."""
    built, epub = map(Path, arguments)
    epubcheck = shutil.which("epubcheck")
    if epubcheck:
        good, said = accepted(built, epubcheck)
        if not good:
            epub.unlink(missing_ok=True)
            print(f"{said}\nerror: epubcheck does not accept {built}", file=sys.stderr)
            return 1
    else:
        print(MISSING)
    epub.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(built, epub)
    print(f"the book for e-readers is {epub} ({epub.stat().st_size / 2**20:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
