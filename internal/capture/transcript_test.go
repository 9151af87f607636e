package capture_test

import (
	"context"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/pkg/tool"
)

func TestTranscripts(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-12c SAFE-1 files of a session are stored without secrets; what is no such object is an error", func(t *testing.T) {
		t.Parallel()
		ctx := context.Background()
		st, err := mem.New("s1", mem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		k := capture.Results{Blobs: st.Blobs(), Mask: func(s string) string { return strings.ReplaceAll(s, "sesame", "***") }}
		ref, err := k.Keep(ctx, []tool.InnerFile{{Path: ".p/s.jsonl", Data: []byte("open sesame\x00\xff\n")}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.Kept(ctx, ref)
		if err != nil || len(got) != 1 || got[0].Path != ".p/s.jsonl" || string(got[0].Data) != "open ***\x00\xff\n" {
			t.Errorf("%+v, %v", got, err)
		}
		for _, bad := range []string{"", "no gzip", "\x1f\x8b"} {
			ref, err := k.Blobs.Put(ctx, "transcript", []byte(bad))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := k.Kept(ctx, ref); err == nil {
				t.Errorf("%q: %+v", bad, got)
			}
		}
	})
}
