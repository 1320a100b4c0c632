"""Settings of the process that runs the tests, before any test imports gRPC."""

import os
import signal

# As ``ariane_sdk`` says it for applications; here services are imported before the SDK, and gRPC
# itself before both.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")

# Children ignore what their parent does: tests of signals run under nohup and behind "&", too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
