test "$(sh repeat.sh go 3)" = "go go go"
