package within

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"pgregory.net/rapid"
)

func TestLine(t *testing.T) {
	t.Parallel()
	t.Run("SBX-2 frames come as they were sent, however they are cut", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			type frame struct {
				kind Kind
				data []byte
			}
			var pipe bytes.Buffer
			out := NewLine(nil, &pipe)
			var sent []frame
			for range rapid.IntRange(0, 8).Draw(t, "frames") {
				f := frame{Kind(rapid.Byte().Draw(t, "kind")), rapid.SliceOfN(rapid.Byte(), 0, 70_000).Draw(t, "data")}
				if err := out.Send(f.kind, f.data); err != nil {
					t.Fatal(err)
				}
				sent = append(sent, f)
			}
			whole := pipe.Bytes()
			in := NewLine(&dribble{whole, rapid.IntRange(1, 40_000).Draw(t, "piece")}, nil)
			for i, want := range sent {
				kind, data, err := in.Next()
				if err != nil || kind != want.kind || !bytes.Equal(data, want.data) {
					t.Fatalf("frame %d: got %q and %d bytes, %v, want %q and %d", i, kind, len(data), err, want.kind, len(want.data))
				}
			}
			if _, _, err := in.Next(); !errors.Is(err, io.EOF) {
				t.Fatalf("at the end: got %v", err)
			}
		})
	})
	t.Run("a frame of MaxFrame passes, one that is larger does not", func(t *testing.T) {
		t.Parallel()
		var pipe bytes.Buffer
		line := NewLine(&pipe, &pipe)
		if err := line.Send(FrameOut, make([]byte, MaxFrame)); err != nil {
			t.Error(err)
		}
		if _, data, err := line.Next(); err != nil || len(data) != MaxFrame {
			t.Errorf("got %d bytes, %v", len(data), err)
		}
		if err := line.Send(FrameOut, make([]byte, MaxFrame+1)); !errors.Is(err, ErrFrame) {
			t.Errorf("got %v, want ErrFrame", err)
		}
		pipe.Write([]byte{'1', 0xff, 0xff, 0xff, 0xff})
		if _, _, err := line.Next(); !errors.Is(err, ErrFrame) {
			t.Errorf("got %v, want ErrFrame", err)
		}
	})
}

// dribble gives a few bytes at a time.
type dribble struct {
	data  []byte
	piece int
}

func (d *dribble) Read(p []byte) (int, error) {
	if len(d.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), d.piece)], d.data)
	d.data = d.data[n:]
	return n, nil
}
