package streaming_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/streaming"
)

func TestOutput(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-9 a secret that is cut in two is masked, in each output for itself, and nothing is held back at the end", func(t *testing.T) {
		t.Parallel()
		var all strings.Builder
		var none *streaming.Feed
		o := none.Output("r1", streaming.About{Call: "c1"}, func(text []byte) { all.Write(text) }, secret.New("open sesame"))
		o.Write("stdout", []byte("say open se"))
		if _, err := o.Writer("stderr").Write([]byte("a door ")); err != nil {
			t.Fatal(err)
		}
		o.Write("stdout", []byte("same twice: open"))
		o.Close()
		if got := all.String(); strings.Contains(got, "sesame") || strings.Count(got, "open") != 1 || !strings.Contains(got, "a door ") || !strings.HasSuffix(got, "open") {
			t.Errorf("got %q", got)
		}
	})
}
