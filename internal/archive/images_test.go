package archive_test

import (
	"bytes"
	"testing"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestImages(t *testing.T) {
	t.Parallel()
	t.Run("EVT-9 PLUS-2 a run is saved and brought with the pictures in its results", func(t *testing.T) {
		t.Parallel()
		st, b := station(t), story()
		data := bytes.Repeat([]byte("\x89PNG"), 900)
		stored, err := st.Blobs().Put(t.Context(), "image", data)
		if err != nil {
			t.Fatal(err)
		}
		opened := b.State()
		c := runtest.Asked(1, 1, "read", `{"path":"a.png"}`)
		ref := runtest.Ref("a", c.ID, "read")
		done := runtest.CallDone(ref, 0, "a picture")
		done.Images = []events.Image{{Ref: stored, MediaType: "image/png", Width: 3, Height: 2}}
		b.Append(runtest.Yes(opened.Gate("g")), runtest.Allowed("a"), runtest.Turn(1, "a", "", c), runtest.CallYes(ref, "read"), done)
		put(t, st, b.Events()...)
		s := saver(t, st, t.TempDir())
		m, err := s.Save(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		to := station(t)
		if got, err := place(t, to).Bring(t.Context(), s.Dir, m, archive.How{By: "anna"}); err != nil || got.Objects != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		if got, err := to.Blobs().Get(t.Context(), stored); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}
