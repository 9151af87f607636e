test "$(sh slug.sh "A Colony of Agents")" = "a_colony_of_agents"
