#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a Python wheel of a staged release: its programs beside the package of data frames.

    dist-wheel.py STAGED MACHINE VERSION OUT_DIR

STAGED has lib/plimsoll/ with the three programs, and the bill of materials and the licences of others in
share/doc/plimsoll/, as scripts/dist.sh stages them. The programs are static, so one wheel is for every Linux of the processor. Nothing in it depends on where it is
made; the times of its files are SOURCE_DATE_EPOCH. Prints its name.
"""

import base64
import hashlib
import os
import pathlib
import re
import sys
import time
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ["plimsoll", "plimsoll-agent", "plimsoll-server"]


def python_version(version):
    """A version of ours as Python writes it: 1.2.3, or 1.2.3.dev20260131+g0123456789 of a commit before it."""
    found = re.fullmatch(r"([0-9.]+)(?:~git(\d{8})\.([0-9a-f]+)(\.changed)?)?", version)
    if not found:
        raise SystemExit(f"dist-wheel.py: the version '{version}' has no form for Python")
    release, date, commit, changed = found.groups()
    return release if date is None else f"{release}.dev{date}+g{commit}{changed or ''}"


def metadata(project, version):
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {version}"]
    lines += [f"Summary: {project['description']}", f"Requires-Python: {project['requires-python']}"]
    lines += [f"License-Expression: {project['license']['text']}", "License-File: LICENSE", "License-File: third-party.txt"]
    lines += [f"Requires-Dist: {one}" for one in project.get("dependencies", [])]
    for extra, wanted in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}"] + [f'Requires-Dist: {one}; extra == "{extra}"' for one in wanted]
    readme = (ROOT / "python" / project["readme"]).read_text(encoding="utf-8")
    return "\n".join(lines + ["Description-Content-Type: text/markdown", "", readme])


def wheel(staged, machine, version, out):
    project = tomllib.loads((ROOT / "python/pyproject.toml").read_text(encoding="utf-8"))["project"]
    version, name = python_version(version), project["name"]
    info, scripts = f"{name}-{version}.dist-info", f"{name}-{version}.data/scripts"
    tags = [f"manylinux2014_{machine}", f"musllinux_1_1_{machine}"]
    told = ["Wheel-Version: 1.0", "Generator: plimsoll dist-wheel", "Root-Is-Purelib: false"]
    told += [f"Tag: py3-none-{tag}" for tag in tags]
    package = ROOT / "python/src"
    files = {str(path.relative_to(package)): path.read_bytes() for path in package.glob(f"{name}/*.py*") if path.is_file()}
    files |= {f"{scripts}/{program}": (staged / "lib/plimsoll" / program).read_bytes() for program in PROGRAMS}
    files |= {
        f"{info}/METADATA": metadata(project, version).encode(),
        f"{info}/WHEEL": ("\n".join(told) + "\n").encode(),
        f"{info}/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
        f"{info}/licenses/third-party.txt": (staged / "share/doc/plimsoll/third-party.txt").read_bytes(),
        f"{info}/sboms/plimsoll.cdx.json": (staged / "share/doc/plimsoll/plimsoll.cdx.json").read_bytes(),
    }
    digest = lambda data: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    record = [f"{path},sha256={digest(data)},{len(data)}" for path, data in sorted(files.items())]
    files[f"{info}/RECORD"] = ("\n".join(record + [f"{info}/RECORD,,"]) + "\n").encode()
    at = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    path = out / f"{name}-{version}-py3-none-{'.'.join(tags)}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for place, data in sorted(files.items()):
            entry = zipfile.ZipInfo(place, at)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if place.startswith(scripts) else 0o100644) << 16
            archive.writestr(entry, data)
    return path


def main():
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    staged, machine, version, out = sys.argv[1:]
    print(wheel(pathlib.Path(staged), machine, version, pathlib.Path(out)).name)


if __name__ == "__main__":
    main()
