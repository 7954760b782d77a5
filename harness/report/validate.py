#!/usr/bin/env python3
"""Holds reports against the schema file, without any package.

validate.py SCHEMA REPORT.json...    prints what does not fit, a line each; exits 1 if anything does

Knows the part of JSON Schema that harness/report/qpexam-report-1.schema.json uses. A member that the
schema does not name is an error here: the schema is the documentation.
"""

import json
import sys

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int,
         "number": (int, float)}


def errors(schema, value, root, at="report"):
    """Yields "PLACE: what is wrong" for each thing that does not fit."""
    if "$ref" in schema:
        yield from errors(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], value, root, at)
        return
    if "const" in schema and value != schema["const"]:
        yield f"{at}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or isinstance(value, bool) != (kind == "boolean")):
        yield f"{at}: is no {kind}"
        return
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{at}: {value} is below {schema['minimum']}"
    if isinstance(value, dict):
        for name in schema.get("required", []):
            if name not in value:
                yield f"{at}: lacks {name}"
        for name, member in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if inner is None:
                yield f"{at}: the schema does not know {name}"
            else:
                yield from errors(inner, member, root, f"{at}.{name}")
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            yield from errors(schema["items"], item, root, f"{at}[{i}]")


def main(arguments):
    if len(arguments) < 2:
        sys.exit(__doc__)
    with open(arguments[0], encoding="utf-8") as file:
        schema = json.load(file)
    wrong = 0
    for path in arguments[1:]:
        with open(path, encoding="utf-8") as file:
            for error in errors(schema, json.load(file), schema):
                print(f"{path}: {error}")
                wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
