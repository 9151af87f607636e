test "$(sh initials.sh "as soon as possible")" = "asap"
