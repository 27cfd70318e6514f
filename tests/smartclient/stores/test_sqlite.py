"""The SQLite store: the contract of all stores."""

from __future__ import annotations

import pytest

from smartclient.stores.sqlite import SQLiteStore
from tests.smartclient.stores.contract import StoreContract


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budgets.db"


@pytest.fixture
def store(path):
    store = SQLiteStore(path)
    yield store
    store.close()


class TestContract(StoreContract):
    pass
