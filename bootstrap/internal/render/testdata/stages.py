# SPDX-FileCopyrightText: The Drover Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs stages of cloud-init, each in a process of its own as on a host: stages.py <arguments of cloud-init>... They share the
start of the interpreter, which takes longer than the stages."""
import importlib
import os
import sys

from cloudinit.cmd.main import main

for module in ("disk_setup", "runcmd", "scripts_user", "set_hostname", "users_groups", "write_files"):
    importlib.import_module("cloudinit.config.cc_" + module)
for module in ("jsonschema", "cloudinit.sources.DataSourceNoCloud", "cloudinit.distros.debian", "cloudinit.distros.rhel"):
    importlib.import_module(module)

for stage in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        sys.argv = ["cloud-init", *stage.split()]
        sys.exit(main())
    os.waitpid(child, 0)
