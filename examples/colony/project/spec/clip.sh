test "$(sh clip.sh colony 3)" = "col"
