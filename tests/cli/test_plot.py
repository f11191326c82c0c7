"""Errors over layers, drawn with characters."""

from day0.render.plot import HEIGHT, WIDTH, plot


def test_marks_stand_where_their_values_are() -> None:
    drawn = plot({"float32": {0: 1e-7, 1: 1e-7, 2: 1e-3, 3: 1e-3}, "bfloat16": {0: 1e-2, 1: 0.0}}, "error").plain.splitlines()
    assert drawn[0].split() == ["error", "●", "float32", "○", "bfloat16"]
    assert drawn[1].startswith(" 1e-02 │○") and drawn[HEIGHT].startswith(" 1e-07 │●●")
    assert "  ●●" in drawn[2] and sum(line.count("●") for line in drawn[1 : HEIGHT + 1]) == 4
    assert drawn[-1].split() == ["0", "3"]


def test_many_layers_share_columns_and_the_worst_is_seen() -> None:
    points = dict.fromkeys(range(1000), 1e-7) | {500: 1.0}
    drawn = plot({"float32": points}, "error").plain.splitlines()
    assert drawn[1].index("●") - 8 == 500 * (WIDTH - 1) // 999 and max(map(len, drawn)) <= WIDTH + 10
    assert plot({"float32": {0: 0.0}}, "error").plain == "error: nothing but zeros"
