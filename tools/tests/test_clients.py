import pytest

from tools import clients


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    """A repository of two files, whose Go client is a file; how often it was built."""
    source, contract, made = (tmp_path / each for each in ("sdk/go/a.go", "protos/ariane/b", "m"))
    for path in (source, contract):
        path.parent.mkdir(parents=True)
        path.write_text(path.name)
    listed = [str(path.relative_to(tmp_path)) for path in (source, contract)]
    built = []

    def builder():
        built.append(made)
        made.write_text("")

    monkeypatch.setattr(clients, "ROOT", tmp_path)
    monkeypatch.setattr(clients, "BUILT", tmp_path / "cache")
    monkeypatch.setattr(clients, "repository_files", lambda: listed)
    monkeypatch.setattr(clients, "MADE", {"go": (made,)})
    monkeypatch.setattr(clients, "BUILDERS", {"go": builder})
    return source, contract, made, built


def test_a_client_is_built_when_what_it_is_built_from_has_changed(workshop):
    source, contract, made, built = workshop
    assert clients.build("go")
    assert not clients.build("go")
    source.write_text("another")
    assert clients.build("go")
    contract.write_text("another")
    assert clients.build("go")
    made.unlink()
    assert clients.build("go")
    assert not clients.build("go")
    assert len(built) == 4


def test_a_client_whose_build_failed_is_built_again(workshop, monkeypatch):
    source, *_, built = workshop
    assert clients.build("go")
    source.write_text("wrong")

    def broken():
        raise clients.ClientFailed("does not compile")

    with monkeypatch.context() as patched:
        patched.setattr(clients, "BUILDERS", {"go": broken})
        for _ in range(2):
            with pytest.raises(clients.ClientFailed):
                clients.build("go")
    source.write_text("a.go")  # As at first.
    assert clients.build("go")
    assert len(built) == 2
