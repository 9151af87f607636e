test "$(sh words.sh " one two  three ")" = "3"
