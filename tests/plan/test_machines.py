"""Machine profiles: every file is sound, names are found as people write them, no speed comes from a figure that nobody vouches for."""

from pathlib import Path

import pytest

from day0.spec.errors import Day0Error
from day0.stages.machines import find_machine, named_profile, profile_names, read_profile

FIGURES = ("marketing_gb", "usable_gib", "bandwidth_gbs", "tflops", "link_gbs", "scaleout_gbs", "pcie_gbs", "host_link_gbs")
MINE = "name: mine\ntitle: My card\nbackend: cuda\nmarketing_gb: 24\n"
WITHOUT_BANDWIDTH = {"hygon_bw1000", "hygon_bw1100", "hygon_k100_ai", "kunlun_p800", "mlu590", "metax_c550", "metax_c600"}


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_says_how_sure_each_figure_is(name: str) -> None:
    profile = named_profile(name)
    assert profile.name == name
    given = [field for field in FIGURES if getattr(profile, field)]
    assert [field for field in given if field not in profile.evidence] == []
    assert profile.sources or set(profile.evidence.values()) == {"unverified"}


@pytest.mark.parametrize("name", profile_names())
def test_usable_memory_is_what_an_engine_sees(name: str) -> None:
    """Never more than is sold (1 GiB counted for each GB, as some makers do)."""
    profile = named_profile(name)
    assert 0 < profile.machine(1).card.memory <= profile.marketing_gb * 2**30


@pytest.mark.parametrize("name", profile_names())
def test_no_speed_from_unverified_figures(name: str) -> None:
    profile, machine = named_profile(name), find_machine(name)
    assert (machine.card.bandwidth is None) == (profile.bandwidth_gbs is None or profile.evidence["bandwidth_gbs"] == "unverified")
    if profile.evidence.get("tflops", "unverified") == "unverified":
        assert not machine.card.flops
    if name in WITHOUT_BANDWIDTH:
        assert machine.card.bandwidth is None


def test_a_number_type_can_be_less_sure_than_its_table() -> None:
    assert set(find_machine("ascend_950pr").card.flops) == {"fp8", "fp4"}


def test_h200_is_the_published_card() -> None:
    """NVIDIA: 4.8 TB/s, 989 TFLOP/s bf16 dense; engines see 139.8 GiB of "141 GB"."""
    card = find_machine("h200_sxm").card
    assert (card.bandwidth, card.flops["bfloat16"], card.arch) == (4.8e12, 989e12, "sm_90")
    assert 139.7 < card.memory / 2**30 < 139.9


@pytest.mark.parametrize(("text", "name", "cards"), [
    ("b300_sxm", "b300_sxm", 1), ("b300", "b300_sxm", 1), ("b300x8", "b300_sxmx8", 8), ("h200_sxm×8", "h200_sxmx8", 8),
    ("H100-SXM", "h100_sxm", 1), ("h20", "h20", 1), ("mi300x", "mi300x", 1), ("mi300x8", "mi300xx8", 8), ("mi300xx16", "mi300xx16", 16),
    ("ascend_910cx32", "ascend_910cx32", 32),
])  # fmt: skip
def test_names_as_people_write_them(text: str, name: str, cards: int) -> None:
    machine = find_machine(text)
    assert (machine.name, machine.cards, machine.declared) == (name, cards, True)
    assert find_machine(machine.name) == machine


@pytest.mark.parametrize(("text", "told"), [
    ("rtx", "rtx4090, rtx5090, rtx_pro_6000"), ("nonesuch", "h200_sxm"), ("", "h200_sxm"), ("x8", "h200_sxm"), ("h200x0", "at least one"),
    ("nowhere/card.yaml", "known by name"),
])  # fmt: skip
def test_a_name_that_is_no_machine(text: str, told: str) -> None:
    with pytest.raises(Day0Error) as error:
        find_machine(text)
    assert told in str(error.value)


def test_a_users_own_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(MINE + "usable_gib: 23.5\nbandwidth_gbs: 900\nevidence: {bandwidth_gbs: measured}\n")
    machine = find_machine(f"{file}x2")
    assert (machine.name, machine.cards, machine.card.memory, machine.card.bandwidth) == ("minex2", 2, int(23.5 * 2**30), 9e11)


@pytest.mark.parametrize(("text", "told"), [
    ("name: [", "not YAML"), ("- 1", "profile"), ("name: a\ntitle: b\nbackend: c\n", "marketing_gb"), (MINE + "speed: 9\n", "speed"),
    (MINE + "evidence: {bandwith: vendor}\n", "bandwith"), (MINE + "usable_gib: -8\n", "usable_gib"),
])  # fmt: skip
def test_a_broken_file_is_named_with_its_field(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(Day0Error) as error:
        read_profile(file)
    assert told in str(error.value) and str(file) in str(error.value)


def test_without_a_name_it_is_this_machine() -> None:
    machine = find_machine(None)
    assert (machine.name, machine.declared) == ("this-machine", False)
    assert find_machine("cpu").name == "cpu"
