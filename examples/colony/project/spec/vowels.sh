test "$(sh vowels.sh colony)" = "2"
