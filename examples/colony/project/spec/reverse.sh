test "$(sh reverse.sh abc)" = "cba"
