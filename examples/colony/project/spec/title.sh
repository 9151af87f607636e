test "$(sh title.sh "hello you")" = "Hello you"
