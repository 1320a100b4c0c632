"""The process ``ariane-admin``: one API over the whole cluster."""
