package transcript_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/inspan/inspan/internal/runtime/transcript"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

var program = events.Runtime{Transcripts: []string{".p/*/{session}.jsonl", ".p/{session}.db"}}

// place is a sandbox with a HOME of its own, after a script ran in it.
func place(t *testing.T, script string) sandbox.Sandbox {
	t.Helper()
	sb, err := host.New("").Open(t.Context(), sandbox.Config{ID: "transcript", Workspace: t.TempDir(), Network: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Destroy(context.Background()) })
	if out := sh(t, sb, script); out != "" {
		t.Fatalf("the script printed %q", out)
	}
	return sb
}

// sh runs a script in HOME and returns what it printed.
func sh(t *testing.T, sb sandbox.Sandbox, script string) string {
	t.Helper()
	var out bytes.Buffer
	if _, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", `cd "$HOME"; ` + script}, Stdout: &out, Stderr: &out}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTranscript(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-12c the files of a session, and of no other, are the same in another sandbox", func(t *testing.T) {
		t.Parallel()
		from := place(t, `mkdir -p .p/a .p/b; printf 'one\ntwo\n' > .p/a/s1.jsonl; printf 'x\n' > .p/b/s2.jsonl; printf 'a\0b' > .p/s1.db`)
		files, err := transcript.Take(t.Context(), from, program, "s1")
		if err != nil || len(files) != 2 {
			t.Fatalf("%+v, %v", files, err)
		}
		to := place(t, "")
		if err := transcript.Put(t.Context(), to, program, "s1", files); err != nil {
			t.Fatal(err)
		}
		if got := sh(t, to, `cat .p/a/s1.jsonl .p/s1.db; find . -type f | wc -l`); got != "one\ntwo\na\x00b2\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("PLUS-12c a line that is still written is left out, and a file that is there is not written over", func(t *testing.T) {
		t.Parallel()
		sb := place(t, `mkdir -p .p/a; printf '{"n":1}\n{"n":' > .p/a/s1.jsonl`)
		files, err := transcript.Take(t.Context(), sb, program, "s1")
		if err != nil || len(files) != 1 || string(files[0].Data) != "{\"n\":1}\n" {
			t.Fatalf("%+v, %v", files, err)
		}
		if err := transcript.Put(t.Context(), sb, program, "s1", files); err != nil {
			t.Fatal(err)
		}
		if got := sh(t, sb, `cat .p/a/s1.jsonl`); got != "{\"n\":1}\n{\"n\":" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("SAFE-1 PLUS-12c links, pipes and names that are none are not taken, nor is what is too large", func(t *testing.T) {
		t.Parallel()
		sb := place(t, `mkdir -p .p/a .p/b .p/c .p/d; echo secret > other; ln -s "$HOME/other" .p/a/s1.jsonl; mkfifo .p/b/s1.jsonl; mkdir .p/c/s1.jsonl; ln -s gone .p/s1.db`)
		if files, err := transcript.Take(t.Context(), sb, program, "s1"); err != nil || len(files) != 0 {
			t.Errorf("%+v, %v", files, err)
		}
		for _, session := range []string{"", "*", "../s1", "a b", "$(id)", "-s"} {
			if files, err := transcript.Take(t.Context(), sb, program, session); err != nil || len(files) != 0 {
				t.Errorf("%q: %+v, %v", session, files, err)
			}
		}
		sh(t, sb, `mkdir "$(printf '.p/d\nx')"; echo x > "$(printf '.p/d\nx')/s1.jsonl"`)
		if files, err := transcript.Take(t.Context(), sb, program, "s1"); !errors.Is(err, transcript.ErrMalformed) {
			t.Errorf("a name of two lines: %+v, %v", files, err)
		}
		large := place(t, `mkdir -p .p; head -c `+"16777217"+` /dev/zero > .p/s1.db`)
		if files, err := transcript.Take(t.Context(), large, program, "s1"); !errors.Is(err, transcript.ErrTooLarge) {
			t.Errorf("%d files, %v", len(files), err)
		}
	})
	t.Run("SAFE-1 PLUS-12c nothing is put back that is no file of the session", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"../x", "/tmp/x", ".p/a/../s1.db", ".p/a/s2.jsonl", ".bashrc", ".p/a/b/s1.jsonl", "", ".p/a\n/s1.jsonl"} {
			sb := place(t, "")
			err := transcript.Put(t.Context(), sb, program, "s1", []tool.InnerFile{{Path: name, Data: []byte("x\n")}})
			if got := sh(t, sb, `find . -type f`); !errors.Is(err, transcript.ErrMalformed) || got != "" {
				t.Errorf("%q: %v, %q", name, err, got)
			}
		}
	})
}
