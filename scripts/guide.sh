#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the guide with mdBook into target/guide/book, and checks that no link of it leads nowhere.
# The pages keep their places, so that their links hold; docs/SUMMARY.md is the table of contents.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v mdbook >/dev/null; then
  echo "guide.sh: mdbook is missing; install it: cargo install mdbook --locked --no-default-features --features search" >&2
  exit 1
fi
place=$(realpath -m "${CARGO_TARGET_DIR:-target}")/guide
rm -rf "$place"
mkdir -p "$place/src"
cp docs/book.toml "$place/"
sed -E 's#\]\(\.\./#](#; t; s#\]\(#](docs/#' docs/SUMMARY.md >"$place/src/SUMMARY.md"
# The pages of the table of contents, and the files that they link to.
python3 - "$place/src" <<'PYTHON'
import pathlib, re, shutil, sys

source = pathlib.Path(sys.argv[1])
link = re.compile(r"\]\(([^)#\s]+)")
pages = link.findall((source / "SUMMARY.md").read_text())
for page in map(pathlib.Path, pages):
    (source / page).parent.mkdir(parents=True, exist_ok=True)
    # mdBook makes a README the index of its folder, and leaves links to it as they are.
    text = re.sub(r"(\]\([^)#\s:]*)README\.md", r"\1index.md", page.read_text())
    (source / page).write_text(text.replace("](SUMMARY.md)", "](../index.md)"))
for page in map(pathlib.Path, pages):
    for target in link.findall(page.read_text()):
        there = pathlib.Path(*(page.parent / target).parts)
        there = there.resolve().relative_to(pathlib.Path.cwd()) if "://" not in target and there.exists() else None
        if there is None or str(there) in pages:
            continue
        if there.is_dir():
            (source / there).mkdir(parents=True, exist_ok=True)
        else:
            (source / there).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(there, source / there)
PYTHON
mdbook build "$place"
python3 - "$place/book" <<'PYTHON'
import html.parser, pathlib, sys, urllib.parse

book = pathlib.Path(sys.argv[1]).resolve()


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.names = [], set()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.names.add(attrs.get("id"))
        if tag in ("a", "img"):
            self.links.append(attrs.get("href") or attrs.get("src"))


pages = {}
for path in book.rglob("*.html"):
    pages[path] = Page()
    pages[path].feed(path.read_text())
lost = 0
for path, page in pages.items():
    if path.name in ("print.html", "404.html", "toc.html"):
        continue
    for link in page.links:
        target = urllib.parse.urlparse(link or "")
        if target.scheme or not target.path:
            continue
        there = (path.parent / urllib.parse.unquote(target.path)).resolve()
        if not there.exists():
            lost += 1
            print(f"{path.relative_to(book)}: '{link}' leads nowhere")
print(f"{len(pages)} pages, {lost} links that lead nowhere: {book}/index.html")
sys.exit(1 if lost else 0)
PYTHON
