# SPDX-FileCopyrightText: The Drover Authors
# SPDX-License-Identifier: Apache-2.0
"""Has cloud-init fill in and check user data: check.py <folder>. Each file <name> below the folder is replaced by
what cloud-init reads, with the metadata of <folder>/../instance-data.json. One line per problem."""
import contextlib
import os
import sys

from cloudinit.config.schema import SchemaValidationError, get_schema, validate_cloudconfig_file
from cloudinit.handlers.jinja_template import render_jinja_payload_from_file

folder = sys.argv[1]
schema = get_schema()
for name in sorted(os.listdir(folder)):
    path = os.path.join(folder, name)
    with open(path) as file:
        payload = file.read()
    if payload.startswith("## template: jinja\n"):
        payload = render_jinja_payload_from_file(payload, path, os.path.join(folder, "..", "instance-data.json"))
        with open(path, "w") as file:
            file.write(payload)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # it chats
            validate_cloudconfig_file(path, schema)
    except SchemaValidationError as problem:
        print(f"{name}: {problem}")
