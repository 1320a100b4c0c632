"""``python -m ariane_admin.service`` and ``ariane-admin``."""

from __future__ import annotations

import os
import sys

import ariane_servicekit as servicekit
from ariane_admin.service.app import AdminApp
from ariane_admin.service.settings import AdminSettings


def main() -> int:
    """Run admin until it is asked to stop; return the exit status."""
    return servicekit.main(AdminSettings, AdminApp, sys.argv[1:], os.environ)


if __name__ == "__main__":
    sys.exit(main())
