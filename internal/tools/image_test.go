package tools_test

import (
	"bytes"
	"image"
	"image/jpeg"
	"testing"

	"github.com/inspan/inspan/pkg/tool"
)

func TestReadImage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var jpg bytes.Buffer
	if err := jpeg.Encode(&jpg, image.NewGray(image.Rect(0, 0, 30, 20)), nil); err != nil {
		t.Fatal(err)
	}
	b.put("notes.txt", jpg.String())
	b.put("cut.png", "\x89PNG\r\n\x1a\n\x00\x00")
	b.put("large.jpg", jpg.String()+string(make([]byte, tool.MaxImageBytes)))
	b.put("shape.svg", "<svg/>\n")
	t.Run("PLUS-2 TOOL-10 read shows a picture whatever it is called, with its kind and size in words", func(t *testing.T) {
		r := b.run("read", args{"path": "notes.txt", "offset": 7})
		if r.Failed || len(r.Images) != 1 || !bytes.Equal(r.Images[0].Data, jpg.Bytes()) {
			t.Fatalf("got %+v", r)
		}
		contains(t, r.Output, "notes.txt: image/jpeg, 30x20 pixels")
	})
	t.Run("PLUS-2 TOOL-10 read says why it does not show one, and what to do", func(t *testing.T) {
		b.bad("read", args{"path": "cut.png"}, "the image/png is damaged")
		b.bad("read", args{"path": "large.jpg"}, "the limit is 3750000; make a smaller or repaired copy")
		if got := b.good("read", args{"path": "shape.svg"}); got != "     1\t<svg/>\n" {
			t.Errorf("an svg is text, got %q", got)
		}
	})
}
