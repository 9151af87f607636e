test "$(sh longest.sh "a colony of agents")" = "colony"
