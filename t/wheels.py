"""Python packages made by hand: a wheel is a zip with four texts."""
import os
import zipfile


def wheel(directory, name, version, source, needs=()):
    """Writes name-version of this source, which also has a command of its name. Returns the path."""
    os.makedirs(directory, exist_ok=True)
    path, info = os.path.join(directory, f"{name}-{version}-py3-none-any.whl"), f"{name}-{version}.dist-info"
    needed = "".join(f"Requires-Dist: {n}\n" for n in needs)
    files = {f"{name}/__init__.py": source, f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
             f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n"}
    files[f"{info}/RECORD"] = "".join(f"{f},,\n" for f in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as z:
        for f, text in files.items():
            z.writestr(f, text)
    return path
