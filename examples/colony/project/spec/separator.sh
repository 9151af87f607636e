test "$(sh separator.sh | wc -c)" -eq 2
