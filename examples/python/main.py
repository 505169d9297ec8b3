#!/usr/bin/env python3
"""A plugin for toolhost, without its SDK: what is in a CSV file of the workspace."""

import csv
import io
import os
import statistics
from typing import Annotated

from toolhost_plugin import Plugin, Result, ToolError, read_effect

plugin = Plugin("csvinfo", "0.1.0")

# The host checks such a path against the roots of the call before it comes here.
CsvFile = Annotated[str, "The CSV file; its first row has the names.", {"x-toolhost-path": "read"}]


def load(call, file):
    path = os.path.realpath(os.path.join(call.cwd, file))
    try:
        with open(path, "rb") as f:
            content = f.read()
    except FileNotFoundError:
        raise ToolError("not_found", "There is no file %s." % file)
    except OSError as e:
        raise ToolError("invalid_arguments", "%s cannot be read: %s" % (file, e.strerror))
    rows = list(csv.reader(io.StringIO(content.decode("utf-8-sig", "replace"))))
    if not rows:
        raise ToolError("invalid_arguments", "%s is empty: it has no row of names." % file)
    return rows[0], rows[1:], read_effect(path, content)


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


@plugin.tool("csv_columns", "Say which columns a CSV file has, with the range of those that are numbers.", read_only=True, concurrency_safe=True,
             examples=["csv_columns sample.txt"],
             output_schema={"type": "object", "properties": {"rows": {"type": "integer"}, "columns": {"type": "array"}}, "required": ["rows", "columns"]})
def columns(call, file: CsvFile):
    names, rows, effect = load(call, file)
    lines, data = [], []
    for i, name in enumerate(names):
        call.check()
        values = [r[i] for r in rows if i < len(r) and r[i] != ""]
        numbers = [number(v) for v in values]
        column = {"name": name, "values": len(values), "distinct": len(set(values))}
        text = "%s: %d values, %d distinct" % (name, len(values), column["distinct"])
        if numbers and None not in numbers:
            column.update(min=min(numbers), max=max(numbers), mean=statistics.fmean(numbers))
            text += ", %g to %g, mean %g" % (column["min"], column["max"], column["mean"])
        lines.append(text)
        data.append(column)
    return Result("%d rows\n%s" % (len(rows), "\n".join(lines)), {"rows": len(rows), "columns": data}, title=file, effects=[effect])


@plugin.tool("csv_find", "Give the rows of a CSV file that have a text in a column.", read_only=True, concurrency_safe=True)
def find(call, file: CsvFile, column: Annotated[str, "The column's name."], text: Annotated[str, "The text that it has."],
         limit: Annotated[int, "How many rows at most.", {"minimum": 1}] = 20):
    names, rows, effect = load(call, file)
    if column not in names:
        raise ToolError("invalid_arguments", "%s has no column %s; it has %s." % (file, column, ", ".join(names)))
    at = names.index(column)
    found = [r for r in rows if at < len(r) and text in r[at]]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([names] + found[:limit])
    if len(found) > limit:
        out.write("(%d more)\n" % (len(found) - limit))
    return Result(out.getvalue(), effects=[effect])


if __name__ == "__main__":
    plugin.serve()
