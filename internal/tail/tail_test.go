package tail_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/tail"
)

func TestWriter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 20).Draw(t, "most")
		w := tail.New(most)
		var all []byte
		for _, p := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 50)).Draw(t, "pieces") {
			if n, err := w.Write(p); n != len(p) || err != nil {
				t.Fatalf("wrote %d, %v of %d", n, err, len(p))
			}
			all = append(all, p...)
			want := all[max(0, len(all)-most):]
			if got, cut := w.End(); !bytes.Equal(got, want) || cut != (len(all) > most) {
				t.Fatalf("kept %q, cut %v; want %q of %d bytes", got, cut, want, len(all))
			}
		}
	})
}
