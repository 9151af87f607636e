package view

import "testing"

func TestGitCalls(t *testing.T) {
	t.Parallel()
	t.Run("CLI-6 a call of a git tool is told by its branch and commit, and the name of a copy is not shown", func(t *testing.T) {
		t.Parallel()
		const id = "0123456789abcdef0123456789abcdef01234567"
		for _, tc := range []struct{ tool, output, want string }{
			{"git_prepare", `{"branch":"inspan/x","commit":"` + id + `","base":"b"}`, "inspan/x at 0123456789ab"},
			{"git_commit", `{"commit":"` + id + `"}`, "at 0123456789ab"},
			{"git_publish", `{"branch":"a\u001b[2Jb","commit":"` + id + `"}`, "a·[2Jb at 0123456789ab"},
			{"git_log", "commit " + id, ""}, {"git_status", `{"branch":"x"}`, ""}, {"bash", `{"commit":"` + id + `"}`, ""},
		} {
			if got := atCommit(tc.tool, tc.output); got != tc.want {
				t.Errorf("%s %s: got %q, want %q", tc.tool, tc.output, got, tc.want)
			}
		}
		for in, want := range map[string]string{`{"url":"local://abc"}`: "", `{"url":"https://host/x"}`: "https://host/x", `{"branch":"inspan/x"}`: "inspan/x",
			`{"message":"make it pass\n\nInspan-Run: x"}`: "make it pass"} {
			if got := Input([]byte(in)); got != want {
				t.Errorf("%s: got %q, want %q", in, got, want)
			}
		}
	})
}
