"""Free memory, read from files as Linux lays them out."""

from __future__ import annotations

import pytest

from server_reference.kv.memory import free_memory

GIB = 1 << 30


@pytest.fixture
def a_machine(tmp_path):
    """Makes a root with 8 GiB available and these files besides."""

    def make(**files):
        files = {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    8388608 kB\n"} | files
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make


def test_without_control_groups_what_is_available_is_free(a_machine):
    assert free_memory(a_machine()) == 8 * GIB


V1 = "sys/fs/cgroup/memory/"
V2 = "sys/fs/cgroup/"


@pytest.mark.parametrize(
    ("files", "free"),
    [
        pytest.param(
            {
                "proc/self/cgroup": "0::/app\n",
                V2 + "app/memory.max": f"{3 * GIB}\n",
                V2 + "app/memory.current": f"{GIB}\n",
            },
            2 * GIB,
            id="v2",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "0::/app\n",
                V2 + "app/memory.max": f"{3 * GIB}\n",
                V2 + "app/memory.current": f"{2 * GIB}\n",
                V2 + "app/memory.stat": f"anon 5\ninactive_file {GIB}\n",
            },
            2 * GIB,
            id="v2-files-are-only-cached",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "0::/outer/app\n",
                V2 + "outer/app/memory.max": "max\n",
                V2 + "outer/memory.max": f"{GIB}\n",
                V2 + "outer/memory.current": "1000\n",
            },
            GIB - 1000,
            id="v2-an-outer-group-limits",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/app\n",
                V1 + "app/memory.limit_in_bytes": f"{3 * GIB}\n",
                V1 + "app/memory.usage_in_bytes": f"{2 * GIB}\n",
                V1 + "app/memory.stat": f"inactive_file 1\ntotal_inactive_file {GIB}\n",
            },
            2 * GIB,
            id="v1",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "4:memory:/docker/0123\n",
                V1 + "memory.limit_in_bytes": f"{GIB}\n",
                V1 + "memory.usage_in_bytes": "0\n",
            },
            GIB,
            id="v1-inside-a-container",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "4:memory:/\n",
                V1 + "memory.limit_in_bytes": "9223372036854771712\n",
                V1 + "memory.usage_in_bytes": f"{GIB}\n",
            },
            8 * GIB,
            id="v1-without-a-limit",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "0::/\n",
                V2 + "memory.max": "1000\n",
                V2 + "memory.current": "2000\n",
            },
            0,
            id="over-the-limit",
        ),
    ],
)
def test_a_control_group_leaves_what_it_does_not_use(a_machine, files, free):
    assert free_memory(a_machine(**files)) == free


def test_without_proc_all_memory_is_free(tmp_path):
    assert free_memory(tmp_path) > 0


def test_this_machine_has_some():
    assert free_memory() > 0
